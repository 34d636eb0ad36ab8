"""The method okapi and the rank_bm25 retriever against the rank-bm25 package itself."""

from tests.needs import require

require("[rank-bm25]")

import json
import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.base.errors import MissingExtra, UsageError
from agent_envs.datasets.world import WorldConfig, get_world
from agent_envs.tools.retrieval import okapi_reference
from agent_envs.tools.retrieval.bm25 import (
    STOP_WORDS,
    BM25Index,
    BM25Retriever,
    BM25Settings,
    build_files,
    okapi_idf,
    query_terms,
    tokenize,
)
from agent_envs.tools.retrieval.build import make_retriever
from agent_envs.tools.retrieval.okapi_reference import RankBM25Retriever
from tests.examples import examples
from tests.tools.retrieval.corpora import corpus_of, query_strategy, texts_strategy


def peer_of(corpus: MemoryCorpus, stop_words: tuple[str, ...], **chosen: float) -> BM25Okapi:
    return BM25Okapi([tokenize(f"{one.title}\n{one.text}", stop_words) for one in corpus.passages], **chosen)


def differences(corpus: MemoryCorpus, questions: list[str], stop_words: tuple[str, ...]) -> tuple[int, float, int]:
    """Return the questions whose top 3 differ, the greatest relative difference of a score, and how many were floored."""
    chosen = BM25Settings(method="okapi", stop_words=stop_words)
    index, peer = BM25Index(chosen, build_files(corpus, chosen)), peer_of(corpus, stop_words)
    floor = peer.epsilon * peer.average_idf
    unlike, greatest, floored = 0, 0.0, 0
    for question in questions:
        terms = tokenize(question, stop_words)
        theirs = peer.get_scores(terms)
        floored += any(peer.idf.get(term) == floor for term in terms)
        rows, scores = index.top(question, 3)
        order = np.lexsort((np.arange(len(theirs)), -np.rint(theirs * 1e6)))[:3].tolist()
        unlike += rows != [
            row for row in order if theirs[row] > 0
        ]  # they would give documents without any of the words
        greatest = max(greatest, *(abs(score / theirs[row] - 1) for row, score in zip(rows, scores, strict=True)))
    return unlike, greatest, floored


@examples(150)
@given(texts_strategy, query_strategy, st.sampled_from([1.5, 0.9]), st.sampled_from([0.75, 0.0]))
def test_every_score_is_theirs_negative_and_zero_ones_too(texts: list[str], query: str, k1: float, b: float) -> None:
    corpus = corpus_of(texts)
    if not any(tokenize(text) for text in texts):
        assert make_retriever("bm25_okapi", corpus).search(query, 3) == ()
        return
    theirs = peer_of(corpus, STOP_WORDS, k1=k1, b=b).get_scores(tokenize(query))
    chosen = BM25Settings(method="okapi", k1=k1, b=b)
    index = BM25Index(chosen, build_files(corpus, chosen))
    ours = index._sum(index._columns(query))
    assert (np.zeros(len(texts)) if ours is None else ours) == pytest.approx(theirs, rel=1e-9, abs=1e-9)


@examples(60)
@given(texts_strategy, query_strategy, st.integers(1, 10))
def test_the_two_retrievers_give_the_same_hits(texts: list[str], query: str, top_k: int) -> None:
    corpus = corpus_of(texts)
    ours, theirs = (make_retriever(name, corpus).search(query, top_k) for name in ("bm25_okapi", "rank_bm25"))
    assert theirs in (ours, ())  # which has nothing where no score is above 0, as in a corpus of one passage
    assert all(hit.score > 0 for hit in theirs)
    assert all(hit.score > 0 for hit in ours) or not theirs
    terms = query_terms(query)
    assert theirs or all(terms.keys() & query_terms(f"{hit.passage.title} {hit.passage.text}").keys() for hit in ours)


def test_the_floor_is_a_quarter_of_the_mean_and_may_be_negative() -> None:
    idf = okapi_idf([9, 1, 5], 10)
    assert idf[1] == pytest.approx(1.845826690)
    assert idf[2] == 0
    assert idf[0] == pytest.approx(0.25 * (-1.845826690 + 1.845826690) / 3)
    assert okapi_idf([1], 1) == [pytest.approx(0.25 * -1.098612289)]


@pytest.mark.parametrize(
    "texts", [["apple pie"], ["plum tart", "apple pie"], ["plum tart", "apple pie", "apple tart", "plum pie"]]
)
def test_a_corpus_in_which_no_idf_is_above_0_is_searched(texts):
    hits = make_retriever("bm25_okapi", corpus_of(texts)).search("apple", 3)
    assert [hit.passage.text for hit in hits] == [text for text in texts if "apple" in text]
    assert make_retriever("bm25_okapi", corpus_of(texts)).search("pear", 3) == ()


def test_parity_on_a_generated_world() -> None:
    world = get_world(WorldConfig(), "train", 0)
    questions = [question.text for question in world.questions]
    assert len(questions) >= 20
    for stop_words in (STOP_WORDS, ()):
        unlike, greatest, floored = differences(world.corpus, questions, stop_words)
        assert (unlike, greatest <= 1e-6) == (0, True)
    assert floored > 0


@pytest.mark.data
def test_parity_on_real_passages_and_questions() -> None:
    sample = Path(os.environ["AGENT_ENVS_DATA"]) / "searchqa"
    with (sample / "corpus.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    rng = random.Random("okapi parity")
    rows = rng.sample(rows, 6_000)
    corpus = MemoryCorpus(Passage(row["id"], row["title"], row["text"]) for row in rows)
    asked = [
        json.loads(line)["question"]
        for path in sorted((sample / "dev").glob("*.jsonl"))
        for line in path.read_text("utf-8").splitlines()
    ]
    questions = rng.sample(asked, 60)
    unlike, greatest, floored = differences(corpus, questions, ())
    assert (unlike, greatest <= 1e-6) == (0, True)
    assert floored >= 50  # most questions hold one of the commonest words
    ours, theirs = (make_retriever(name, corpus, cache_dir=None) for name in ("bm25_okapi", "rank_bm25"))
    assert [ours.search(question, 3) for question in questions[:20]] == [
        theirs.search(question, 3) for question in questions[:20]
    ]


def test_ties_are_cut_in_corpus_order() -> None:
    corpus = corpus_of(["grey owl", "red fox", "fox red", "blue fox", "red fox", "one", "two", "three", "four"])
    for name in ("bm25_okapi", "rank_bm25"):
        hits = make_retriever(name, corpus).search("red fox", 4)
        assert [hit.passage.id for hit in hits] == ["p1", "p2", "p4", "p3"]


@pytest.mark.parametrize("query", ["", "the of", "\x00", "\ud800", "w1 " * 300_000, '"w1" AND NOT (w2'])
def test_hostile_queries(query: str) -> None:
    corpus = corpus_of([f"w{number} fox" for number in range(9)] + ["owl"] * 20)
    reference = RankBM25Retriever(corpus)
    assert reference.search(query, 3) == BM25Retriever(corpus, BM25Settings(method="okapi")).search(query, 3)
    assert bool(reference.search(query, 3)) == ("w1" in query)
    assert sum(query_terms(query).values()) <= 512


@pytest.mark.parametrize("texts", [[], [""], ["", "the"]])
def test_corpora_without_words(texts: list[str]) -> None:
    for name in ("bm25_okapi", "rank_bm25"):
        assert make_retriever(name, corpus_of(texts)).search("fox", 3) == ()


def test_the_package_is_refused_where_it_would_take_seconds() -> None:
    class Vast(MemoryCorpus):
        def __len__(self) -> int:
            return 2_000_000

    with pytest.raises(UsageError, match=r'2,000,000 passages need 16\.0 GB and 6\.0 s a query.*"bm25_okapi"'):
        RankBM25Retriever(Vast([]))
    with pytest.raises(UsageError, match="'okapi', not 'lucene'"):
        RankBM25Retriever(corpus_of(["fox"]), BM25Settings())


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rank_bm25", None)
    with pytest.raises(MissingExtra, match=r'pip install "agent-envs\[rank-bm25\]"'):
        make_retriever("rank_bm25", corpus_of(["never seen before"]))


def test_environments_share_one_engine() -> None:
    texts = ["a shared engine", "of foxes"]
    first, second = RankBM25Retriever(corpus_of(texts)), RankBM25Retriever(corpus_of(texts))
    assert first.index is second.index
    assert len(okapi_reference._ENGINES) <= okapi_reference.SHARED
