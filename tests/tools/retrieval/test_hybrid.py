"""Reciprocal rank fusion against its formula, the names of hybrids, and their weights."""

import copy
import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.documents import Hit, MemoryCorpus, Passage
from agent_envs.base.errors import UsageError
from agent_envs.tools.retrieval.build import HybridRetriever, is_retriever, make_retriever, split_hybrid
from tests.examples import examples
from tests.needs import needs

CORPUS = MemoryCorpus(Passage(f"s:{row}", "", f"text {row}") for row in range(12))


class Listed:
    """A retriever that always gives the same rows."""

    def __init__(self, name: str, rows: Sequence[int]) -> None:
        self.name, self.rows = name, rows

    def search(self, query: str, top_k: int, *, support: Sequence[str] = (), seed: str = "") -> tuple[Hit, ...]:
        return tuple(Hit(CORPUS[row], 9.0 - place) for place, row in enumerate(self.rows[:top_k]))


rows_strategy = st.lists(st.integers(0, 11), unique=True, max_size=12)


@given(rows_strategy, rows_strategy, st.floats(0, 4), st.floats(0.1, 4), st.integers(1, 12), st.integers(0, 100))
@examples(200)
def test_scores_are_the_sums_of_the_formula(
    first: list[int], second: list[int], one: float, two: float, top_k: int, constant: int
) -> None:
    fused = HybridRetriever(CORPUS, [Listed("a", first), Listed("b", second)], (one, two), rank_constant=constant)
    hits = fused.search("q", top_k)
    wanted = {}
    for rows, weight in ((first, one), (second, two)):
        for row in rows if weight else ():
            wanted[row] = wanted.get(row, 0.0) + weight / (constant + rows.index(row) + 1)
    best = sorted(wanted, key=lambda row: (-wanted[row], row))[:top_k]
    assert [(hit.passage.id, hit.score) for hit in hits] == [(f"s:{row}", wanted[row]) for row in best]
    assert hits == fused.search("q", 12)[:top_k]


def test_a_passage_that_both_find_beats_one_that_either_puts_first() -> None:
    fused = HybridRetriever(CORPUS, [Listed("a", [1, 5]), Listed("b", [2, 5])])
    assert [hit.passage.id for hit in fused.search("q", 3)] == ["s:5", "s:1", "s:2"]
    assert fused.name == "hybrid(a, b)"
    assert copy.deepcopy(fused) is fused


def test_weights_move_the_order_and_zero_leaves_an_engine_out() -> None:
    engines = [Listed("a", [1]), Listed("b", [2])]
    assert HybridRetriever(CORPUS, engines, (1, 2)).search("q", 1)[0].passage.id == "s:2"
    assert HybridRetriever(CORPUS, engines, (2, 1)).search("q", 1)[0].passage.id == "s:1"
    assert [hit.passage.id for hit in HybridRetriever(CORPUS, engines, (0, 1)).search("q", 9)] == ["s:2"]


def test_depth_bounds_what_is_read_of_each_engine() -> None:
    engines = [Listed("a", range(12)), Listed("b", range(12))]
    assert len(HybridRetriever(CORPUS, engines, depth=3).search("q", 2)) == 2
    assert len(HybridRetriever(CORPUS, engines, depth=3).search("q", 12)) == 12


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("hybrid", ("static", (1.0, 1.0))),
        ("hybrid:minilm-faiss", ("minilm-faiss", (1.0, 1.0))),
        ("hybrid:minilm-faiss/sq8=1,0.5", ("minilm-faiss/sq8", (1.0, 0.5))),
        ("hybrid=0,2", ("static", (0.0, 2.0))),
        ("hybrids", None),
        ("bm25", None),
    ],
)
def test_names(name: str, found: object) -> None:
    assert split_hybrid(name) == found


@pytest.mark.parametrize("name", ["hybrid=1", "hybrid=", "hybrid=a,b", "hybrid:static=1,2,3"])
def test_malformed_weights_name_the_form(name: str) -> None:
    with pytest.raises(UsageError, match="hybrid=1,0.5"):
        is_retriever(name)


def test_weights_in_a_name_must_make_an_order() -> None:
    with pytest.raises(UsageError, match="not all 0"):
        is_retriever("hybrid=0,0")


@pytest.mark.parametrize("weights", [(0, 0), (-1, 1), (math.inf, 1), (math.nan, 1), (1, 1, 1)])
def test_weights_without_an_order_are_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(UsageError, match="hybrid"):
        HybridRetriever(CORPUS, [Listed("a", [1]), Listed("b", [2])], weights)


@pytest.mark.parametrize(
    "name", ["hybrid:oracle", "hybrid:hybrid", "hybrid:nothing", "hybrid:random", "static/", 7, None]
)
def test_what_is_no_retriever(name: object) -> None:
    assert not is_retriever(name)


@needs("[legal]")
def test_the_named_hybrid_is_bm25_and_static(tmp_path: Path) -> None:
    rng = random.Random("hybrid")
    words = ["deposit", "tenant", "landlord", "notice", "fine", "dog", "tax", "wine", "court", "appeal"]
    corpus = MemoryCorpus(Passage(str(row), "", " ".join(rng.choices(words, k=12))) for row in range(60))
    bm25, static, hybrid, semantic = (
        make_retriever(name, corpus, cache_dir=tmp_path) for name in ("bm25", "static", "hybrid", "hybrid=0,1")
    )
    query = "the renter keeps a puppy and drinks wine"
    ranks = {}
    for engine in (bm25, static):
        for rank, hit in enumerate(engine.search(query, 100), 1):
            ranks[hit.passage.id] = ranks.get(hit.passage.id, 0.0) + 1 / (60 + rank)
    best = sorted(ranks, key=lambda name: (-ranks[name], int(name)))[:10]
    assert [hit.passage.id for hit in hybrid.search(query, 10)] == best
    assert [hit.passage for hit in semantic.search(query, 10)] == [hit.passage for hit in static.search(query, 10)]
