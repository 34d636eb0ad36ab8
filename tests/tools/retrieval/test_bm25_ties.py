"""The best rows of an index are those of a ranking that scores and sorts every document, ties included."""

import random

import numpy as np
import pytest

from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.tools.retrieval.bm25 import METHODS, BM25Index, BM25Settings, build_files

WORDS = [f"w{number}" for number in range(60)]


def ranked(index: BM25Index, query: str, top_k: int) -> tuple[list[int], list[float]]:
    """Return what `top` promises, one addition a term, every document sorted."""
    scores = np.zeros(index.documents)
    for term, count in index.terms(query).items():
        if term in index._column_of:
            column = index._column_of[term]
            part = slice(index._starts[column], index._starts[column + 1])
            scores[index._rows[part].astype(np.intp)] += index._scores[part].astype(np.float64) * count
    ranks = np.rint(scores * 1e6)
    best = [row for row in sorted(range(index.documents), key=lambda row: (-ranks[row], row)) if ranks[row] > 0]
    return best[:top_k], [float(ranks[row] / 1e6) for row in best[:top_k]]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("passages", [120, 2_500])  # a small corpus, and one whose columns are converted at each query
def test_the_best_rows_are_those_of_a_full_ranking(method: str, passages: int) -> None:
    rng = random.Random(f"ties {method} {passages}")
    weights = [1 / (rank + 1) for rank in range(len(WORDS))]
    texts = [" ".join(rng.choices(WORDS, weights, k=rng.choice([2, 3, 8]))) for _ in range(passages)]
    corpus = MemoryCorpus(Passage(str(row), "", text) for row, text in enumerate(texts))
    settings = BM25Settings(method=method)
    index = BM25Index(settings, build_files(corpus, settings))
    tied = 0
    for number in range(60):
        query = " ".join(rng.choices([*WORDS, "absent"], [*weights, 0.1], k=rng.randint(1, 9)))
        top_k = (1, 3, 10, passages)[number % 4]
        rows, scores = index.top(query, top_k)
        assert (rows, scores) == ranked(index, query, top_k), query
        tied += len(set(scores)) < len(scores)
    assert tied > 10


def test_a_term_of_fewer_documents_than_are_asked_for_sets_no_bar() -> None:
    texts = ["rare common", *["common"] * 40, "other"]
    corpus = MemoryCorpus(Passage(str(row), "", text) for row, text in enumerate(texts))
    index = BM25Index(BM25Settings(), build_files(corpus, BM25Settings()))
    assert index.top("rare common", 3)[0] == [0, 1, 2] and index.top("rare", 3)[0] == [0]
    assert index.top("other rare", 3)[0] == [41, 0]
