"""Retrievers by name."""

from pathlib import Path

from agent_envs import cache
from agent_envs.documents import Corpus, Retriever
from agent_envs.errors import UsageError
from agent_envs.external import Recording
from agent_envs.retrieval.ablations import EmptyRetriever, OracleRetriever, RandomRetriever
from agent_envs.retrieval.bm25 import BM25Retriever, BM25Settings, Progress
from agent_envs.retrieval.okapi_reference import RankBM25Retriever
from agent_envs.retrieval.tantivy_index import TantivyRetriever

RETRIEVERS = ("bm25", "bm25_okapi", "rank_bm25", "tantivy", "random", "empty", "oracle")
REMOTE_FORMS = ("search_r1@URL", "skyrl@URL")


def make_retriever(
    name: str,
    corpus: Corpus | None,
    *,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
    recording: Recording | None = None,
) -> Retriever:
    """Return a retriever by its name.

    Args:
        name: one of `RETRIEVERS`, or `search_r1@URL` or `skyrl@URL` for a server that speaks like theirs; `oracle` falls
            back on bm25 after the supporting passages.
        corpus: what is searched; a server has its own (None).
        cache_dir: where indexes of large corpora are kept; by default `agent_envs.cache.cache_dir()`.
        progress: called with a stage and a fraction while an index is built.
        recording: for servers, what records or replays their answers.

    Raises:
        UsageError: there is no retriever of that name, or it does not take this corpus.
        MissingExtra: its package is not installed.
    """
    if "@" in name:
        from agent_envs.retrieval.remote import RemoteRetriever, split_name

        server = split_name(name)
        if server is not None:
            return RemoteRetriever(*server, recording=recording)
    if name not in RETRIEVERS:
        raise UsageError(f"unknown retriever {name!r}; there are {', '.join((*RETRIEVERS, *REMOTE_FORMS))}")
    if name == "empty":
        return EmptyRetriever()
    if corpus is None:
        raise UsageError(f"retriever {name!r} needs a corpus; only servers ({REMOTE_FORMS[0]}) have their own")
    return RandomRetriever(corpus) if name == "random" else _indexed(name, corpus, cache_dir, progress)


def _indexed(name: str, corpus: Corpus, folder: Path | None, progress: Progress | None) -> Retriever:
    if name == "rank_bm25":
        return RankBM25Retriever(corpus, progress=progress)
    folder = folder or cache.cache_dir()
    if name == "tantivy":
        return TantivyRetriever(corpus, cache_dir=folder, progress=progress)
    settings = BM25Settings(method="okapi") if name == "bm25_okapi" else None
    bm25 = BM25Retriever(corpus, settings, cache_dir=folder, progress=progress)
    return OracleRetriever(corpus, bm25) if name == "oracle" else bm25
