"""Retrievers are made here by name: indexes of a corpus, hybrids, ablations, search servers and searches of the web."""

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from agent_envs.base import caches as cache
from agent_envs.base.caches import Uncopied
from agent_envs.base.documents import Corpus, Hit, Retriever
from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import sha256_text
from agent_envs.base.terminal import stage_lines
from agent_envs.services.recording import Recording
from agent_envs.tools.retrieval.bm25 import BM25Retriever, BM25Settings
from agent_envs.tools.retrieval.dense import DenseRetriever, split_dense
from agent_envs.tools.retrieval.index_files import Progress
from agent_envs.tools.retrieval.okapi_reference import RankBM25Retriever
from agent_envs.tools.retrieval.remote import RemoteRetriever, split_name
from agent_envs.tools.retrieval.static import StaticRetriever
from agent_envs.tools.retrieval.tantivy_index import TantivyRetriever
from agent_envs.tools.web import WEB_FORMS, WebSearch, is_web_search

RANK_CONSTANT = 60  # k of the paper
DEPTH = 100  # hits of each retriever that are fused, or top_k where that is more
SEMANTIC = "static"
SILENT_BUILD = 5_000  # passages; a larger index takes seconds
RETRIEVERS = (
    "bm25", "bm25_okapi", "rank_bm25", "tantivy", "static", "minilm-faiss", "dense", "hybrid", "random", "empty", "oracle",
)  # fmt: skip
INDEXES = ("bm25", "bm25_okapi", "rank_bm25", "tantivy", "static", "oracle")  # of those, what `_index_retriever` makes
MODEL_FORMS = ("minilm-faiss/KIND", "dense:MODEL[/KIND]", "hybrid[:RETRIEVER][=KEYWORD,SEMANTIC]")
REMOTE_FORMS = ("search_r1@URL", "skyrl@URL")


def split_hybrid(name: str) -> tuple[str, tuple[float, float]] | None:
    """Return the semantic engine and (bm25, semantic) weights of a `hybrid[:ENGINE][=W,W]`, by default static, 1 and 1.

    None where a name has another form.

    Raises:
        UsageError: what stands behind the = are not two weights that make an order.
    """
    head, equals, weights = name.partition("=")
    if head != "hybrid" and not head.startswith("hybrid:"):
        return None
    semantic = head.partition(":")[2] or SEMANTIC
    if not equals:
        return semantic, (1.0, 1.0)
    try:
        keyword_weight, semantic_weight = (float(part) for part in weights.split(","))
    except ValueError:
        raise UsageError(
            f"retriever {name!r}: behind the = stand two weights, of bm25 and of the other: hybrid=1,0.5"
        ) from None
    _check_weights((keyword_weight, semantic_weight))
    return semantic, (keyword_weight, semantic_weight)


def _check_weights(weights: Sequence[float]) -> None:
    """Raise UsageError unless all weights are finite, none is negative and one is above 0."""
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not any(weights):
        raise UsageError(f"a hybrid's weights must be finite, >= 0 and not all 0, not {tuple(weights)}")


class HybridRetriever(Uncopied):
    """The fusion of several retrievers over one corpus: a passage scores the sum of weight / (60 + its rank) over them."""

    def __init__(
        self,
        corpus: Corpus,
        retrievers: Sequence[Retriever],
        weights: Sequence[float] = (),
        *,
        rank_constant: float = RANK_CONSTANT,
        depth: int = DEPTH,
        name: str = "",
    ) -> None:
        """Fuse what these retrievers find in this corpus.

        Args:
            corpus: what all of them search.
            retrievers: the engines.
            weights: one an engine; by default 1 each.
            rank_constant: the larger, the less the first ranks stand out.
            depth: how many hits of each are read, or `top_k` where that is more.
            name: what it is called; by default after its engines.

        Raises:
            UsageError: the weights, the constant or the depth make no order.
        """
        self.weights = tuple(weights) or (1.0,) * len(retrievers)
        if len(self.weights) != len(retrievers) or not retrievers:
            raise UsageError(f"a hybrid of {len(retrievers)} retrievers needs as many weights, not {len(self.weights)}")
        _check_weights(self.weights)
        if not (math.isfinite(rank_constant) and rank_constant >= 0) or depth < 1:
            raise UsageError(f"a hybrid needs rank_constant >= 0 and depth >= 1, not {rank_constant} and {depth}")
        self.name = name or f"hybrid({', '.join(retriever.name for retriever in retrievers)})"
        self.corpus, self.retrievers = corpus, tuple(retrievers)
        self._rank_constant, self._depth = rank_constant, depth

    def search(self, query: str, top_k: int, *, support: Sequence[str] = (), seed: str = "") -> tuple[Hit, ...]:
        """Return the `top_k` of highest fused score, ties by rising row; `support` and `seed` are handed on.

        Raises EnvFault: one of the retrievers is outside, and failed.
        """
        scores: dict[int, float] = {}
        for retriever, weight in zip(self.retrievers, self.weights, strict=True):
            if weight == 0:
                continue
            hits = retriever.search(query, max(top_k, self._depth), support=support, seed=seed)
            for rank, hit in enumerate(hits, start=1):
                row = self.corpus.row(hit.passage.id)
                scores[row] = scores.get(row, 0.0) + weight / (self._rank_constant + rank)
        best = sorted(scores, key=lambda row: (-scores[row], row))[: max(top_k, 0)]
        return tuple(Hit(self.corpus[row], scores[row]) for row in best)


class RandomRetriever(Uncopied):
    """Passages drawn at random: the same for the same seed and query, and a smaller `top_k` gives a prefix."""

    name = "random"

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus

    def search(self, query: str, top_k: int, *, support: Sequence[str] = (), seed: str = "") -> tuple[Hit, ...]:
        """Return `top_k` distinct random passages (all if fewer) with score 0, by `seed` and query; `support` is not read."""
        # hashed, as random.Random takes no text with lone surrogates
        rng = random.Random(sha256_text(f"{seed}|{query}"))
        size = len(self.corpus)
        moved: dict[int, int] = {}  # a Fisher-Yates shuffle of the rows, as far as it is needed
        hits = []
        for place in range(min(top_k, size)):
            row = rng.randrange(place, size)
            hits.append(Hit(self.corpus[moved.get(row, row)], 0.0))
            moved[row] = moved.get(place, place)
        return tuple(hits)


class EmptyRetriever(Uncopied):
    """No passage for any query."""

    name = "empty"

    def search(self, query: str, top_k: int, *, support: Sequence[str] = (), seed: str = "") -> tuple[Hit, ...]:
        """Return nothing."""
        return ()


class OracleRetriever(Uncopied):
    """The task's supporting passages in their order, then what another retriever finds."""

    name = "oracle"

    def __init__(self, corpus: Corpus, wrapped: Retriever) -> None:
        self.corpus = corpus
        self.wrapped = wrapped

    def search(self, query: str, top_k: int, *, support: Sequence[str] = (), seed: str = "") -> tuple[Hit, ...]:
        """Return the supporting passages that the corpus has, scored above all, then other hits, `top_k` in all."""
        others = self.wrapped.search(query, top_k, seed=seed)
        rows = {key: row for key in support if (row := self._row(key)) is not None}
        best = others[0].score if others else 0.0
        hits = [Hit(self.corpus[row], best + len(rows) - place) for place, row in enumerate(rows.values())]
        hits += [hit for hit in others if hit.passage.id not in rows]
        return tuple(hits[: max(top_k, 0)])

    def _row(self, passage_id: str) -> int | None:
        """Return a passage's row in the corpus; None if the corpus has no such passage."""
        try:
            return self.corpus.row(passage_id)
        except KeyError:
            return None


def make_retriever(
    name: str,
    corpus: Corpus | None,
    *,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
    recording: Recording | None = None,
) -> Retriever:
    """Return a retriever by its name: outside, empty, random, over an index, dense or a hybrid; UsageError for none.

    Args:
        name: one of `RETRIEVERS`, `search_r1@URL` or `skyrl@URL` for a server that speaks like theirs, or a search of the
            web (`WEB_FORMS`). `oracle` falls back on bm25 after the supporting passages. `dense` is `minilm-faiss`;
            `dense:MODEL` takes a model of the hub or a folder, and `/sq8`, `/ivf` or `/hnsw` behind it another index.
            `hybrid` fuses bm25 with static, or with what stands behind a colon; weights of the two stand behind an =:
            `hybrid:minilm-faiss=1,0.5`.
        corpus: what is searched; a server and the web have their own (None).
        cache_dir: where indexes of large corpora are kept; by default `agent_envs.base.caches.cache_dir()`.
        progress: called with a stage and a fraction while an index is built.
        recording: for servers and dense retrievers, what records or replays their answers.

    Raises:
        UsageError: there is no retriever of that name, or it does not take this corpus.
        MissingExtra: its package is not installed.
    """
    outside = _outside(name, recording)
    if outside is not None:
        return outside
    if not is_retriever(name):
        raise UsageError(
            f"unknown retriever {name!r}; there are {', '.join((*RETRIEVERS, *MODEL_FORMS, *REMOTE_FORMS, *WEB_FORMS))}"
        )
    if name == "empty":
        return EmptyRetriever()
    if corpus is None:
        raise UsageError(f"retriever {name!r} needs a corpus; only servers ({REMOTE_FORMS[0]}) have their own")
    if name == "random":
        return RandomRetriever(corpus)
    folder = cache_dir or cache.cache_dir()
    hybrid = split_hybrid(name)
    if hybrid is not None:
        engines = [_index_retriever("bm25", corpus, folder, progress)]
        engines.append(make_retriever(hybrid[0], corpus, cache_dir=folder, progress=progress, recording=recording))
        return HybridRetriever(corpus, engines, hybrid[1], name=name)
    if name in INDEXES or (dense := split_dense(name)) is None:
        return _index_retriever(name, corpus, folder, progress)
    return DenseRetriever(corpus, *dense, cache_dir=folder, progress=progress, recording=recording)


class Built(NamedTuple):
    """A retriever, and what it was built over: the digest of the corpus, "" without one, and the recording."""

    retriever: Retriever
    digest: str
    recording: Recording | None


def built_over(built: Built | None, name: str, corpus: Corpus | None, recording: Recording | None) -> Built:
    """Return `built` if it is over this corpus and recording, else a new one; progress on stderr beyond 5,000 passages.

    It is for the environment to rebind as a whole, so that a fork, which shares it until then, is never touched. The build of
    an index that takes seconds says so on standard error.
    """
    digest = "" if corpus is None else corpus.digest
    if built is not None and built.digest == digest and built.recording is recording:
        return built
    progress = stage_lines(f"{name} index") if corpus is not None and len(corpus) > SILENT_BUILD else None
    return Built(make_retriever(name, corpus, progress=progress, recording=recording), digest, recording)


def is_retriever(name: object) -> bool:
    """Return whether `make_retriever` knows a name, outside ones apart; no hybrid of oracle, empty, random or a hybrid.

    Raises UsageError: the name's form is known, and what it says has no meaning.
    """
    if not isinstance(name, str):
        return False
    hybrid = split_hybrid(name)
    if hybrid is not None:
        return (
            hybrid[0] not in ("oracle", "empty", "random")
            and not hybrid[0].startswith("hybrid")
            and is_retriever(hybrid[0])
        )
    return name in RETRIEVERS or split_dense(name) is not None


def is_outside(name: object) -> bool:
    """Return whether a name names what searches elsewhere: a server, or the web.

    Raises UsageError: it does, and its URL is none, or one that may not be recorded.
    """
    return isinstance(name, str) and name not in RETRIEVERS and (is_web_search(name) or split_name(name) is not None)


def _outside(name: str, recording: Recording | None) -> Retriever | None:
    """Return the server or the search of the web that a name names; None for one in process."""
    if name in RETRIEVERS:
        return None
    if (server := split_name(name)) is not None:
        return RemoteRetriever(*server, recording=recording)
    return WebSearch(name, recording=recording) if is_web_search(name) else None


def _index_retriever(name: str, corpus: Corpus, folder: Path, progress: Progress | None) -> Retriever:
    """Make rank_bm25, static, tantivy, bm25_okapi or oracle (over BM25) by name; BM25 for any other name."""
    if name == "rank_bm25":
        return RankBM25Retriever(corpus, progress=progress)
    if name == "static":
        return StaticRetriever(corpus, cache_dir=folder, progress=progress)
    if name == "tantivy":
        return TantivyRetriever(corpus, cache_dir=folder, progress=progress)
    settings = BM25Settings(method="okapi") if name == "bm25_okapi" else None
    bm25 = BM25Retriever(corpus, settings, cache_dir=folder, progress=progress)
    return OracleRetriever(corpus, bm25) if name == "oracle" else bm25
