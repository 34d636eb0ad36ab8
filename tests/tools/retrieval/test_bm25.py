"""BM25 against a reference in plain Python, and the promises about ties, bounds, threads and hash seeds."""

from tests.needs import require

require("[rank-bm25]")

import copy
import math
import random
import struct
import threading
from collections import Counter
from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Plus

from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.base.errors import UsageError
from agent_envs.tools.retrieval import bm25
from agent_envs.tools.retrieval.bm25 import BM25Index, BM25Retriever, BM25Settings, build_files, get_index, tokenize
from agent_envs.tools.retrieval.index_files import IndexFiles
from tests.examples import examples
from tests.fresh_process import printed
from tests.rows import each_row
from tests.tools.retrieval.corpora import WORDS, check_ties, corpus_of, query_strategy, texts_strategy


def index_of(texts: list[str], **chosen: object) -> BM25Index:
    given_settings = BM25Settings(**chosen)  # type: ignore[arg-type]
    return BM25Index(given_settings, build_files(corpus_of(texts), given_settings))


def stored(value: float) -> float:
    """What is left of a float64 in a float32, which is how the index keeps its columns."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def reference(texts: list[str], query: str, k1: float = 1.5, b: float = 0.75) -> list[float]:
    """Lucene's BM25 of every document, from the formula."""
    documents = [tokenize(text) for text in texts]
    mean_length = sum(map(len, documents)) / len(documents)
    frequency = Counter(term for document in documents for term in set(document))
    scores = [0.0] * len(documents)
    for term in tokenize(query):
        idf = math.log(1 + (len(documents) - frequency[term] + 0.5) / (frequency[term] + 0.5))
        for row, document in enumerate(documents):
            tf = document.count(term)
            if tf:
                scores[row] += stored(idf * (tf / (k1 * ((1 - b) + b * len(document) / mean_length) + tf)))
    return scores


def expected_top(scores: list[float], top_k: int) -> list[int]:
    ranks = [round(score * 10**bm25.DECIMALS) for score in scores]
    rows = sorted((row for row in range(len(scores)) if ranks[row] > 0), key=lambda row: (-ranks[row], row))
    return rows[:top_k]


@examples(150)
@given(texts_strategy, query_strategy, st.integers(1, 12))
def test_equals_the_formula_in_plain_python(texts: list[str], query: str, top_k: int) -> None:
    rows, scores = index_of(texts).top(query, top_k)
    truth = reference(texts, query) if any(tokenize(text) for text in texts) else [0.0] * len(texts)
    assert rows == expected_top(truth, top_k)
    assert scores == pytest.approx([truth[row] for row in rows], abs=1e-4)


@examples(25)
@given(st.integers(0, 10**6), st.sampled_from([0.9, 1.2, 2.0]), st.sampled_from([0.0, 0.4, 1.0]))
def test_equals_the_formula_in_corpora_wide_enough_for_blocks(seed: int, k1: float, b: float) -> None:
    rng = random.Random(f"wide {seed}")
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(1, 9))) for _ in range(2_100)]
    query = " ".join(rng.choices(WORDS, k=3))
    rows, scores = index_of(texts, k1=k1, b=b).top(query, 10)
    assert rows == expected_top(reference(texts, query, k1, b), 10)
    with mock.patch.object(bm25, "QUICK_POSTINGS", 0):
        large = index_of(texts, k1=k1, b=b)
    assert large.top(query, 10) == (rows, scores), "large indexes add up in another way, to the bit the same"
    assert large._rows.dtype == np.int32, "else it is not the other way"


@examples(60)
@given(texts_strategy, query_strategy)
def test_bm25_plus_ranks_as_rank_bm25_does(texts: list[str], query: str) -> None:
    """rank-bm25 adds the same constant to every document, also to those that hold no term of the query."""
    documents = [tokenize(text) for text in texts]
    terms = [term for term in tokenize(query) if any(term in document for document in documents)]
    if not terms:
        return
    peer = BM25Plus(documents, k1=1.5, b=0.75, delta=1)
    constant = sum(peer.idf[term] for term in terms)
    truth = [float(score) - constant for score in peer.get_scores(terms)]
    rows, scores = index_of(texts, method="bm25+").top(query, len(texts))
    assert sorted(rows) == [row for row, score in enumerate(truth) if score > 1e-9]
    assert scores == pytest.approx([truth[row] for row in rows], abs=1e-4)
    assert all(truth[first] >= truth[second] - 2e-6 for first, second in zip(rows, rows[1:], strict=False))


@pytest.mark.parametrize("size", [7, 300, 5_000])
def test_ties_come_in_corpus_order_and_a_smaller_k_gives_a_prefix(size: int) -> None:
    check_ties(index_of, size)


@examples(60)
@given(texts_strategy, query_strategy)
def test_three_are_a_prefix_of_ten(texts: list[str], query: str) -> None:
    index = index_of(texts)
    ten_rows, ten_scores = index.top(query, 10)
    assert index.top(query, 3) == (ten_rows[:3], ten_scores[:3])


def test_scores_that_agree_when_rounded_are_ties() -> None:
    scores = np.array([1.0, 1.0 + 2**-23, 0.5, 1e-7], dtype=np.float32)
    files = IndexFiles(4, scores, np.arange(4, dtype=np.int32), np.array([0, 4]), ["fox"])
    index = BM25Index(BM25Settings(), files)
    assert index.top("fox", 1) == ([0], [1.0])
    assert index.top("fox", 4) == ([0, 1, 2], [1.0, 1.0, 0.5])


def test_repeated_terms_count_as_often_as_they_occur() -> None:
    index = index_of(["apple pear", "apple", "plum"])
    once = dict(zip(*index.top("apple", 3), strict=True))
    thrice = dict(zip(*index.top("apple apple apple", 3), strict=True))
    assert thrice == pytest.approx({row: 3 * score for row, score in once.items()}, abs=2e-6)


def test_tokenizer_is_pinned() -> None:
    words = ["u", "s", "café", "1999", "snake_case", "ünïcode", "dash"]
    assert tokenize("The U.S. café, in 1999: snake_case & Ünïcode—dash") == words
    assert tokenize("what is it that was the") == []
    assert len(bm25.STOP_WORDS) == len(set(bm25.STOP_WORDS)) == 33
    assert tokenize("the cat", stop_words=()) == ["the", "cat"]


@each_row("query", ["", " ", "the of and", "?!", "absent", "\ud800", "\x00", "\U0001f600"])
def test_queries_without_known_terms_find_nothing(query: str) -> None:
    assert BM25Retriever(corpus_of(["red fox", "grey owl"])).search(query, 3) == ()


@pytest.mark.parametrize(
    "query",
    ["fox " * 250_000, "x" * 1_000_000, " ".join(f"t{n}" for n in range(150_000)), "(" * 1_000_000, "the " * 250_000],
    ids=["one-term", "one-word", "many-terms", "punctuation", "stop-words"],
)
def test_a_megabyte_of_query_is_bounded(query: str) -> None:
    index = index_of(["red fox", "grey owl"])
    assert sum(index.terms(query).values()) <= bm25.MAX_QUERY_TERMS
    assert index.top(query, 3)[0] == ([0] if "fox" in query else [])


def test_only_the_first_terms_of_a_long_query_count() -> None:
    index = index_of(["red fox", "grey owl"])
    filler = "pad " * (bm25.MAX_QUERY_TERMS - 1)
    assert index.top(filler + "owl fox", 3)[0] == [1]
    assert index.top("?" * bm25.MAX_QUERY_CHARACTERS + "owl", 3)[0] == []


@pytest.mark.parametrize("texts", [[], [""], ["", "the"], ["the of", "", "fox"]])
def test_corpora_without_words_build(texts: list[str]) -> None:
    rows, _ = index_of(texts).top("fox", 5)
    assert rows == [row for row, text in enumerate(texts) if text == "fox"]


def test_titles_are_searched() -> None:
    retriever = BM25Retriever(MemoryCorpus([Passage("a", "Ramna Stacks", "low rocks"), Passage("b", "Owl", "a bird")]))
    assert [hit.passage.id for hit in retriever.search("ramna", 3)] == ["a"]


def test_settings_are_checked() -> None:
    for wrong in ({"method": "bm42"}, {"k1": -1.0}, {"k1": math.nan}, {"b": 1.5}, {"tokenizer": "other"}):
        with pytest.raises(UsageError):
            BM25Settings(**wrong)  # type: ignore[arg-type]


def test_environments_share_one_index_and_copies_share_the_retriever() -> None:
    texts = ["shared fox", "shared owl"]
    first, second = BM25Retriever(corpus_of(texts)), BM25Retriever(corpus_of(texts))
    assert first.index is second.index
    assert copy.deepcopy({"retriever": first})["retriever"] is first
    assert get_index(corpus_of(texts), BM25Settings(k1=0.9)) is not first.index


def test_small_indexes_are_forgotten_in_order_of_their_last_use() -> None:
    corpora = [corpus_of([f"lru{number}"]) for number in range(bm25.SHARED_SMALL + 1)]
    first, second = get_index(corpora[0]), get_index(corpora[1])
    for corpus in corpora[2:-1]:
        get_index(corpus)
    assert get_index(corpora[0]) is first
    get_index(corpora[-1])
    assert get_index(corpora[0]) is first
    assert get_index(corpora[1]) is not second


def in_threads(count: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_eight_threads_get_the_serial_answers() -> None:
    rng = random.Random("threads")
    texts = [" ".join(rng.choices(WORDS, k=20)) for _ in range(400)]
    queries = [" ".join(rng.choices(WORDS, k=4)) for _ in range(200)]
    index = index_of(texts)
    serial = [index.top(query, 5) for query in queries]
    answers: dict[int, list[object]] = {}
    in_threads(8, lambda number: answers.update({number: [index.top(query, 5) for query in queries]}))
    assert [answers[number] for number in range(8)] == [serial] * 8


def test_threads_that_ask_at_once_build_once() -> None:
    corpus = corpus_of([f"once{row} fox" for row in range(300)])
    stages: list[str] = []
    found: dict[int, BM25Index] = {}

    def ask(number: int) -> None:
        found[number] = get_index(corpus, progress=lambda stage, fraction: stages.append(f"{stage} {fraction}"))

    in_threads(8, ask)
    assert len({id(index) for index in found.values()}) == 1
    assert stages.count("score 1.0") == 1


PRINT_DIGEST = """
import hashlib, random
from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.tools.retrieval.bm25 import BM25Index, BM25Settings, build_files
rng = random.Random("hash seeds")
words = [f"w{n}" for n in range(300)]
texts = [" ".join(rng.choices(words, k=30)) for _ in range(200)]
corpus = MemoryCorpus(Passage(str(row), "", text) for row, text in enumerate(texts))
files = build_files(corpus, BM25Settings())
index = BM25Index(BM25Settings(), files)
seen = hashlib.sha256(repr(files.terms).encode())
for array in (files.scores, files.rows, files.starts):
    seen.update(array.tobytes())
for _ in range(100):
    seen.update(repr(index.top(" ".join(rng.choices(words, k=9)), 10)).encode())
print(seen.hexdigest())
"""
# also what numpy 1.26 with bm25s 0.2.14 and numpy 2.4 with bm25s 0.3.16 give
DIGEST = "3c0fc65f5c7dc0df0ce8f06a63242a5d9e7d91ab99806e34b2cde0f72d9d5aae"


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_index_and_answers_are_the_same_in_every_process(hash_seed: str) -> None:
    assert printed(PRINT_DIGEST, hash_seed=hash_seed).strip() == DIGEST
