"""Retrievers by name."""

from pathlib import Path

from agent_envs import cache
from agent_envs.documents import Corpus, Retriever
from agent_envs.errors import UsageError
from agent_envs.retrieval.ablations import EmptyRetriever, OracleRetriever, RandomRetriever
from agent_envs.retrieval.bm25 import BM25Retriever, Progress

RETRIEVERS = ("bm25", "random", "empty", "oracle")


def make_retriever(
    name: str,
    corpus: Corpus,
    *,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
) -> Retriever:
    """Return a retriever over a corpus.

    Args:
        name: one of `RETRIEVERS`; `oracle` falls back on bm25 after the supporting passages.
        corpus: what is searched.
        cache_dir: where indexes of large corpora are kept; by default `agent_envs.cache.cache_dir()`.
        progress: called with a stage and a fraction while an index is built.

    Raises:
        UsageError: there is no retriever of that name.
    """
    if name == "random":
        return RandomRetriever(corpus)
    if name == "empty":
        return EmptyRetriever()
    if name not in RETRIEVERS:
        raise UsageError(f"unknown retriever {name!r}; there are {', '.join(RETRIEVERS)}")
    bm25 = BM25Retriever(corpus, cache_dir=cache_dir or cache.cache_dir(), progress=progress)
    return bm25 if name == "bm25" else OracleRetriever(corpus, bm25)
