"""tantivy against BM25's formula, and the promises about ties, hostile text, threads, processes and its folder."""

from tests.needs import require

require("[tantivy]")

import copy
import math
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.base.errors import MissingExtra, UsageError
from agent_envs.tools.retrieval import tantivy_index
from agent_envs.tools.retrieval.bm25 import tokenize
from agent_envs.tools.retrieval.build import make_retriever
from agent_envs.tools.retrieval.tantivy_index import TantivyIndex, TantivyRetriever, get_tantivy_index, write_index
from tests.examples import examples
from tests.rows import each_row
from tests.tools.retrieval.corpora import (
    WORDS,
    Stages,
    check_ties,
    corpus_of,
    large_corpus,
    query_strategy,
    texts_strategy,
)

QUERIES = ["w1 w2", "w77 w3 w3", "w250", "absent", "w9 w8 w7 w6 w5"]


def index_of(texts: list[str]) -> TantivyIndex:
    return TantivyIndex(write_index(corpus_of(texts), None))


@pytest.fixture(scope="module")
def corpus() -> MemoryCorpus:
    return large_corpus("tantivy")


@pytest.fixture(scope="module")
def truth(corpus: MemoryCorpus) -> list[object]:
    index = TantivyIndex(write_index(corpus, None))
    return [index.top(query, 10) for query in QUERIES]


def as_a_new_process() -> None:
    tantivy_index._LARGE.clear()


def answers(corpus: MemoryCorpus, folder: Path | None, progress: Stages) -> list[object]:
    as_a_new_process()
    index = get_tantivy_index(corpus, cache_dir=folder, progress=progress)
    return [index.top(query, 10) for query in QUERIES]


def folder_in(cache: Path) -> Path:
    (folder,) = (path for path in (cache / "tantivy").iterdir() if path.is_dir())
    return folder


def reference(texts: list[str], query: str) -> list[float]:
    """BM25 with tantivy's constants; passages of up to 40 words have their exact length in its index."""
    documents = [tokenize(text) for text in texts]
    mean_length = sum(map(len, documents)) / len(documents)
    frequency = Counter(term for document in documents for term in set(document))
    scores = [0.0] * len(documents)
    for term in tokenize(query):
        idf = math.log(1 + (len(documents) - frequency[term] + 0.5) / (frequency[term] + 0.5))
        for row, document in enumerate(documents):
            if tf := document.count(term):
                scores[row] += idf * 2.2 * tf / (tf + 1.2 * (0.25 + 0.75 * len(document) / mean_length))
    return scores


@examples(60)
@given(texts_strategy, query_strategy)
def test_equals_the_formula_in_plain_python(texts: list[str], query: str) -> None:
    rows, scores = index_of(texts).top(query, len(texts))
    truth = reference(texts, query) if any(tokenize(text) for text in texts) else [0.0] * len(texts)
    assert sorted(rows) == [row for row, score in enumerate(truth) if score > 0]
    assert scores == pytest.approx([truth[row] for row in rows], abs=2e-4)
    assert [(-score, row) for score, row in zip(scores, rows, strict=True)] == sorted(
        (-score, row) for score, row in zip(scores, rows, strict=True)
    )


@pytest.mark.parametrize("size", [7, 300, 5_000])
def test_ties_come_in_corpus_order_and_a_smaller_k_gives_a_prefix(size: int) -> None:
    check_ties(index_of, size)


def test_the_cut_sees_ties_that_tantivy_orders_by_their_last_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a coarse rounding all passages tie, so that rows decide; tantivy alone would give the best score first."""
    monkeypatch.setattr(tantivy_index, "DECIMALS", -2)
    texts = ["fox" + " pad" * (40 - row) for row in range(40)]
    assert index_of(texts).top("fox", 3)[0] == [0, 1, 2]


def test_repeated_terms_count_as_often_as_they_occur() -> None:
    index = index_of(["apple pear", "apple", "plum"])
    once = dict(zip(*index.top("apple", 3), strict=True))
    thrice = dict(zip(*index.top("apple apple apple", 3), strict=True))
    assert thrice == pytest.approx({row: 3 * score for row, score in once.items()}, abs=3e-4)


def test_titles_are_searched_and_passages_come_back() -> None:
    corpus = MemoryCorpus([Passage("a", "Ramna Stacks", "low rocks"), Passage("b", "Owl", "a bird")])
    hits = TantivyRetriever(corpus).search("ramna", 3, support=("b",), seed="x")
    assert [hit.passage for hit in hits] == [corpus[0]]


@each_row("query", ["", " ", "the of and", "?!", "absent", "\ud800", "\x00", "\U0001f600", "*", "row:0"])
def test_queries_without_known_terms_find_nothing(query: str) -> None:
    assert TantivyRetriever(corpus_of(["red fox", "grey owl"])).search(query, 3) == ()


@each_row(
    "query",
    [
        *('"red" AND NOT (owl', "fo\x00 fox\x00owl", "\udfff fox", "words:fox^9~2 TO [", "fox*"),
        *("fox " * 250_000, "x" * 1_000_000 + " fox", " ".join(f"t{n}" for n in range(150_000)) + " fox"),
        "\U00010400" * 16_384,
    ],
)
def test_hostile_queries_are_words_like_any_other(query: str) -> None:
    index = index_of(["red fox", "grey owl", ""])
    rows, scores = index.top(query, 3)
    expected = {term for term in tokenize(query[:16_384])[:512]} & {"red", "fox", "owl"}
    assert bool(rows) == bool(expected)
    assert all(score > 0 for score in scores)


@examples(60)
@given(st.text(max_size=60), st.lists(st.text(max_size=30), max_size=5))
def test_no_text_breaks_it(query: str, texts: list[str]) -> None:
    rows, _ = index_of([*texts, query]).top(query, 9)
    assert (len(texts) in rows) == bool(tokenize(query))


@pytest.mark.parametrize("texts", [[], [""], ["", "the"], ["the of", "", "fox"]])
def test_corpora_without_words_build(texts: list[str]) -> None:
    index = index_of(texts)
    assert index.top("fox", 5)[0] == [row for row, text in enumerate(texts) if text == "fox"]
    assert index.top("fox", 0) == ([], [])


def test_eight_threads_get_the_serial_answers() -> None:
    rng = random.Random("threads")
    texts = [" ".join(rng.choices(WORDS, k=20)) for _ in range(400)]
    queries = [" ".join(rng.choices(WORDS, k=4)) for _ in range(100)]
    index = index_of(texts)
    serial = [index.top(query, 5) for query in queries]
    found: dict[int, list[object]] = {}
    threads = [
        threading.Thread(target=lambda at: found.update({at: [index.top(query, 5) for query in queries]}), args=(at,))
        for at in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(8)] == [serial] * 8


def test_environments_share_one_index_and_copies_share_the_retriever() -> None:
    texts = ["shared fox", "shared owl"]
    first, second = TantivyRetriever(corpus_of(texts)), TantivyRetriever(corpus_of(texts))
    assert first.index is second.index
    assert copy.deepcopy({"retriever": first})["retriever"] is first


def test_second_process_opens_what_the_first_built(corpus: MemoryCorpus, truth: list[object], tmp_path: Path) -> None:
    first, second = Stages(), Stages()
    assert answers(corpus, tmp_path, first) == truth
    assert answers(corpus, tmp_path, second) == truth
    assert (first, second) == (["index", "save"], [])
    assert get_tantivy_index(corpus, cache_dir=tmp_path).documents == 2_500
    assert len(list(folder_in(tmp_path).glob("*.idx"))) == 1  # one segment: rows stand in their order
    modes = {path.suffix == ".lock": path.stat().st_mode & 0o777 for path in folder_in(tmp_path).iterdir()}
    assert modes == {True: 0o666, False: 0o644}  # for other users of a shared cache


def test_without_a_folder_the_index_is_in_memory(corpus: MemoryCorpus, truth: list[object]) -> None:
    assert answers(corpus, None, Stages()) == truth
    as_a_new_process()


def test_small_corpora_leave_no_files(corpus: MemoryCorpus, tmp_path: Path) -> None:
    get_tantivy_index(MemoryCorpus(corpus.passages[:2_000]), cache_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def replace(path: Path, data: bytes) -> None:
    """Put another file in its place: an index that is still open reads the old one, and would die by a shorter one."""
    path.unlink()
    path.write_bytes(data)


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    replace(path, bytes(data))


DAMAGES = {
    "flipped byte": lambda folder: flip_a_byte(next(folder.glob("*.idx"))),
    "truncated": lambda folder: replace(next(folder.glob("*.term")), b""),
    "missing": lambda folder: next(folder.glob("*.fast")).unlink(),
    "meta": lambda folder: (folder / "meta.json").write_text("{}"),
    "manifest gone": lambda folder: (folder / "manifest.json").unlink(),
    "manifest empty": lambda folder: (folder / "manifest.json").write_text('{"files": {}}'),
    "no segment": lambda folder: [path.unlink() for path in folder.iterdir() if path.name != "manifest.json"],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_built_again(
    damage: str, corpus: MemoryCorpus, truth: list[object], tmp_path: Path
) -> None:
    answers(corpus, tmp_path, Stages())
    as_a_new_process()
    DAMAGES[damage](folder_in(tmp_path))
    rebuilt, opened = Stages(), Stages()
    assert answers(corpus, tmp_path, rebuilt) == truth
    assert answers(corpus, tmp_path, opened) == truth
    assert (rebuilt, opened) == (["index", "save"], [])
    assert len(list((tmp_path / "tantivy").iterdir())) == 2  # the folder and its lock


def test_a_cache_that_cannot_be_written_names_the_variable(corpus: MemoryCorpus, tmp_path: Path) -> None:
    as_a_new_process()
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UsageError, match="AGENT_ENVS_CACHE"):
        get_tantivy_index(corpus, cache_dir=tmp_path / "file")


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tantivy", None)
    with pytest.raises(MissingExtra, match=r'pip install "agent-envs\[tantivy\]"'):
        make_retriever("tantivy", corpus_of(["red fox"]))


ASK = """
import random, sys
from pathlib import Path
from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.tools.retrieval.tantivy_index import get_tantivy_index
rng = random.Random("processes")
words = [f"w{n}" for n in range(60)]
corpus = MemoryCorpus(Passage(str(row), "", " ".join(rng.choices(words, k=7))) for row in range(2_100))
print("ready", flush=True)
sys.stdin.readline()
stages = set()
index = get_tantivy_index(corpus, cache_dir=Path(sys.argv[1]), progress=lambda stage, fraction: stages.add(stage))
print(*sorted(stages & {"index"}), file=sys.stderr)
print([index.top(" ".join(rng.choices(words, k=5)), 10) for _ in range(50)])
"""


def test_processes_agree_whatever_their_hash_seed_and_only_one_builds(tmp_path: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    processes = []
    for seed, cache in (("0", "shared"), ("1", "shared"), ("4242", "alone")):
        path = os.pathsep.join(filter(None, sys.path))
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", ASK, str(tmp_path / cache)]
        processes.append(subprocess.Popen(command, env=environment, text=True, **pipes))  # type: ignore[call-overload]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:  # all of them before the first is waited for
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert len({out for out, _ in outputs}) == 1
    assert sorted(told for _, told in outputs[:2]) == ["\n", "index\n"]
    assert outputs[2][1] == "index\n"
