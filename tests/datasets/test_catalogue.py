"""The catalogue: what its rows promise, where it looks, and what it says when nothing is there."""

import copy
import json
from pathlib import Path

import pytest

from agent_envs.base.errors import DataMissing, UsageError
from agent_envs.base.serialization import sha256_file
from agent_envs.datasets.catalogue import (
    CORPORA,
    DATASETS,
    MIXTURES,
    SPLITS,
    available_splits,
    download_path,
    find_corpus,
    find_questions,
    load_corpus,
    load_questions,
    record_sha256,
    recorded_sha256,
)
from agent_envs.datasets.readers import FORMATS


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder and an empty cache, both named in the environment."""
    folder = tmp_path / "data"
    (folder / "searchqa").mkdir(parents=True)
    monkeypatch.setenv("AGENT_ENVS_DATA", str(folder))
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    return folder / "searchqa"


def put(path: Path, *ids: str, **more: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"id": name, "question": f"q {name}", "golden_answers": ["a"]} | more for name in ids]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def published(name: str, split: str) -> Path:
    return download_path(name, next(file for file in DATASETS[name].files if file.split == split))


def test_rows_are_complete_and_consistent() -> None:
    assert list(DATASETS) == ["nq", "triviaqa", "popqa", "hotpotqa", "2wiki", "musique", "bamboogle"]
    assert {name for name, row in DATASETS.items() if row.domain == "in"} == {"nq", "hotpotqa"}
    for name, row in DATASETS.items():
        assert row.name == name and row.title and row.version and row.licence and row.citation and row.sample
        for file in row.files:
            assert file.split in SPLITS
            assert file.format in FORMATS
            assert file.url.startswith("https://") != bool(file.repo)
            assert file.url or file.revision
    paths = [download_path(name, file) for name, row in DATASETS.items() for file in row.files]
    assert len({path.parent for path in paths}) == len(paths)
    assert set(MIXTURES["nq+hotpotqa"].members) <= set(DATASETS)


def test_sizes_of_the_papers_test_sets() -> None:
    sizes = {
        (name, file.split): file.rows for name, row in DATASETS.items() for file in row.files if file.rows is not None
    }
    assert sizes.pop(("nq", "train")) == 79_168
    assert sizes.pop(("hotpotqa", "train")) == 90_447
    assert sum(sizes.values()) == 51_713
    assert CORPORA["wiki-18"].passages == 21_015_324


def test_the_data_folder_comes_before_the_cache(data: Path) -> None:
    cached = put(published("2wiki", "dev"), "full")
    assert find_questions("2wiki", "dev") == cached
    assert available_splits("2wiki") == ("dev",)
    sample = put(data / "dev" / "2wikimultihopqa.jsonl", "small", gold_ids=[])
    assert find_questions("2wiki", "dev") == sample
    (question,) = load_questions("2wiki", "dev")
    assert (question.id, question.dataset, question.labels) == ("small", "2wiki", (("domain", "out"),))


def test_train_rows_come_from_the_shared_multi_hop_file(data: Path) -> None:
    rows = [
        {"id": name, "dataset": name, "question": "q", "golden_answers": ["a"], "gold_ids": []}
        for name in ("hotpotqa", "musique")
    ]
    (data / "train_gold_multihop.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [question.id for question in load_questions("musique", "train")] == ["musique"]
    assert [question.id for question in load_questions("hotpotqa", "train")] == ["hotpotqa"]
    assert available_splits("nq") == ()


def test_a_read_is_cached_until_the_file_changes(data: Path) -> None:
    path = put(data / "dev" / "nq.jsonl", "1")
    first = load_questions("nq", "dev")
    assert load_questions("nq", "dev") is first
    put(path, "1", "2")
    assert [question.id for question in load_questions("nq", "dev")] == ["1", "2"]


def test_the_mixture_puts_names_before_ids(data: Path) -> None:
    put(data / "dev" / "nq.jsonl", "1")
    assert available_splits("nq+hotpotqa") == ()
    put(data / "dev" / "hotpotqa.jsonl", "1", "2")
    assert available_splits("nq+hotpotqa") == ("dev",)
    found = load_questions("nq+hotpotqa", "dev")
    assert [(row.id, row.dataset) for row in found] == [
        ("nq:1", "nq"),
        ("hotpotqa:1", "hotpotqa"),
        ("hotpotqa:2", "hotpotqa"),
    ]
    with pytest.raises(UsageError, match="ask for nq and hotpotqa"):
        find_questions("nq+hotpotqa", "dev")


def test_a_path_in_place_of_a_name(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "mine.jsonl", "1")
    monkeypatch.chdir(tmp_path)
    for name in (str(path), "mine.jsonl"):
        assert available_splits(name) == ("test",)
        (question,) = load_questions(name, "test")
        assert (question.dataset, question.split, question.labels) == ("mine", "test", ())
    with pytest.raises(DataMissing, match=r"other\.jsonl"):
        load_questions("other.jsonl", "test")


def test_missing_data_says_what_where_and_how(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataMissing) as caught:
        find_questions("hotpotqa", "train")
    message = str(caught.value)
    assert message.startswith("hotpotqa, split train, is not on this machine.")
    for place in (
        data / "train" / "hotpotqa.jsonl",
        data / "train_gold_multihop.jsonl",
        published("hotpotqa", "train"),
    ):
        assert str(place) in message
    assert message.endswith("Get it: agent-envs data get hotpotqa --split train")
    with pytest.raises(DataMissing, match="It is published for: test"):
        find_questions("popqa", "train")
    monkeypatch.delenv("AGENT_ENVS_DATA")
    with pytest.raises(DataMissing, match=r"AGENT_ENVS_DATA \(not set\)"):
        find_questions("nq", "dev")


def test_unknown_names_and_splits(data: Path) -> None:
    with pytest.raises(UsageError, match=r"data set 'nqq' is unknown; known: nq, triviaqa, .*nq\+hotpotqa"):
        load_questions("nqq", "dev")
    with pytest.raises(UsageError, match="split 'validation' is unknown; the splits are train, dev, test"):
        load_questions("nq", "validation")
    with pytest.raises(UsageError, match="corpus 'wiki' is unknown; known: auto, sample, wiki-18"):
        find_corpus("wiki")


def test_a_recorded_digest_guards_every_read(data: Path) -> None:
    path = put(published("nq", "dev"), "1")
    assert recorded_sha256(path) is None
    record_sha256(path, sha256_file(path))
    assert len(load_questions("nq", "dev")) == 1
    put(path, "2")
    with pytest.raises(UsageError, match=r"changed since its download: sha256 \w{64}, recorded \w{64}"):
        load_questions("nq", "dev")
    (path.parent / "sha256.json").write_text("[]")
    with pytest.raises(UsageError, match=r"sha256\.json is damaged"):
        load_questions("nq", "dev")


def test_corpora(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataMissing, match=r"corpus sample is not on this machine.*corpus\.jsonl"):
        load_corpus()
    with pytest.raises(DataMissing, match="agent-envs data get wiki-18"):
        load_corpus("wiki-18")
    with pytest.raises(DataMissing, match=r"no corpus at .*mine\.jsonl"):
        load_corpus(str(tmp_path / "mine.jsonl"))
    line = json.dumps({"id": "0", "title": "T", "text": "x"})
    (data / "corpus.jsonl").write_text(line)
    corpus = load_corpus()
    assert corpus is load_corpus("sample") is load_corpus(str(data / "corpus.jsonl")) is copy.deepcopy(corpus)
    assert corpus[0].title == "T"
    file = CORPORA["wiki-18"].file
    assert file is not None
    unpacked = download_path("wiki-18", file).with_suffix("")
    unpacked.parent.mkdir(parents=True)
    unpacked.write_text(line)
    assert unpacked.name == "wiki-18.jsonl"
    record_sha256(unpacked, "0" * 64)
    with pytest.raises(UsageError, match="changed since its download"):
        load_corpus("wiki-18")
    monkeypatch.delenv("AGENT_ENVS_DATA")
    with pytest.raises(DataMissing, match=r"AGENT_ENVS_DATA \(not set\)\. Set AGENT_ENVS_DATA"):
        load_corpus()


@pytest.mark.data
def test_real_folder_has_the_dev_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path))
    found = {name: available_splits(name) for name in DATASETS}
    both = ("train", "dev")
    assert found == {name: both if name in ("hotpotqa", "musique") else ("dev",) for name in DATASETS}
    assert len(load_questions("nq+hotpotqa", "dev")) == 600
