"""The ablations: random, empty, oracle; and retrievers by name."""

import copy
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.base.errors import UsageError
from agent_envs.tools.retrieval.bm25 import BM25Retriever
from agent_envs.tools.retrieval.build import (
    MODEL_FORMS,
    RETRIEVERS,
    EmptyRetriever,
    OracleRetriever,
    RandomRetriever,
    make_retriever,
)
from agent_envs.tools.retrieval.remote import RemoteRetriever
from tests.needs import needs
from tests.rows import each_row

TEXTS = ["red fox", "grey owl", "red owl", "blue whale", "red red fox", "green frog"]
CORPUS = MemoryCorpus(Passage(f"p{row}", "", text) for row, text in enumerate(TEXTS))
EXTRAS = {
    "static": "[legal]", "hybrid": "[legal]", "minilm-faiss": "[dense]", "dense": "[dense]", "rank_bm25": "[rank-bm25]",
    "tantivy": "[tantivy]",
}  # fmt: skip


def ids(hits: tuple) -> list[str]:  # type: ignore[type-arg]
    return [hit.passage.id for hit in hits]


@given(st.text(), st.text(), st.integers(1, 9))
def test_random_draws_distinct_passages_and_a_smaller_k_gives_a_prefix(query: str, seed: str, top_k: int) -> None:
    retriever = RandomRetriever(CORPUS)
    hits = retriever.search(query, top_k, seed=seed, support=("p0",))
    assert len(set(ids(hits))) == len(hits) == min(top_k, len(CORPUS))
    assert hits == retriever.search(query, 9, seed=seed)[:top_k]


def test_random_depends_on_seed_and_query_and_on_nothing_else() -> None:
    corpus = MemoryCorpus(Passage(f"p{row}", "", "") for row in range(1_000))
    first = ids(RandomRetriever(corpus).search("query", 5, seed="a"))
    assert first == ids(RandomRetriever(corpus).search("query", 5, seed="a", support=("p1",)))
    assert first == ["p756", "p281", "p859", "p607", "p789"]
    assert first != ids(RandomRetriever(corpus).search("query", 5, seed="b"))
    assert first != ids(RandomRetriever(corpus).search("other", 5, seed="a"))


def test_random_reaches_every_passage_in_every_place() -> None:
    retriever = RandomRetriever(CORPUS)
    seen = {(place, key) for n in range(400) for place, key in enumerate(ids(retriever.search(str(n), 6)))}
    assert len(seen) == 36


def test_random_takes_hostile_text_and_an_empty_corpus() -> None:
    assert len(RandomRetriever(CORPUS).search("\ud800" * 100_000, 3, seed="\udfff")) == 3
    assert RandomRetriever(MemoryCorpus([])).search("query", 3) == ()


def test_empty_finds_nothing() -> None:
    assert EmptyRetriever().search("red fox", 3, support=("p0",), seed="a") == ()


def test_oracle_shows_support_first_then_the_rest_without_repeats() -> None:
    bm25 = BM25Retriever(CORPUS)
    oracle = OracleRetriever(CORPUS, bm25)
    assert ids(bm25.search("red fox", 3)) == ["p0", "p4", "p2"]
    hits = oracle.search("red fox", 4, support=("p3", "p0"))
    assert ids(hits) == ["p3", "p0", "p4", "p2"]
    assert all(first.score > second.score for first, second in zip(hits, hits[1:], strict=False))
    assert ids(oracle.search("red fox", 1, support=("p3", "p0"))) == ["p3"]
    assert ids(oracle.search("nowhere", 3, support=("p3", "p3"))) == ["p3"]
    assert oracle.search("red fox", 3) == bm25.search("red fox", 3)


def test_oracle_leaves_out_support_that_the_corpus_does_not_have() -> None:
    hits = OracleRetriever(CORPUS, EmptyRetriever()).search("red fox", 3, support=("p99", "p4"))
    assert [hit.passage.id for hit in hits] == ["p4"]


def test_bm25_does_not_read_support_or_seed() -> None:
    bm25 = BM25Retriever(CORPUS)
    assert bm25.search("red fox", 3, support=("p3",), seed="a") == bm25.search("red fox", 3)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs(EXTRAS[name])) if name in EXTRAS else name for name in RETRIEVERS]
)
def test_retrievers_by_name(name: str, tmp_path: Path) -> None:
    retriever = make_retriever(name, CORPUS, cache_dir=tmp_path)
    assert retriever.name == ("minilm-faiss" if name == "dense" else name)
    assert copy.deepcopy(retriever) is retriever
    assert len(retriever.search("fox owl", 2)) == (0 if name == "empty" else 2)
    assert retriever.search("fox", 0) == ()


@pytest.mark.parametrize("name", ["google", "", "bing@http://localhost:1", "bm25@http://localhost:1"])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    known = ", ".join((*RETRIEVERS, *MODEL_FORMS, "search_r1@URL", "skyrl@URL"))
    with pytest.raises(UsageError, match=re.escape(known)):
        make_retriever(name, CORPUS)


@each_row("name", RETRIEVERS)
def test_only_servers_and_nothing_at_all_do_without_a_corpus(name: str) -> None:
    if name == "empty":
        assert make_retriever(name, None).search("fox", 3) == ()
        return
    with pytest.raises(UsageError, match=f"{name}.*needs a corpus"):
        make_retriever(name, None)


@pytest.mark.parametrize("style", ["search_r1", "skyrl"])
def test_a_server_needs_no_corpus_and_a_whole_url(style: str) -> None:
    assert isinstance(make_retriever(f"{style}@http://127.0.0.1:1/retrieve", None), RemoteRetriever)
    with pytest.raises(UsageError, match=style):
        make_retriever(f"{style}@", None)
