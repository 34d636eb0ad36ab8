"""The rank-bm25 package itself serves as a retriever: it is slow, and there to compare our index with."""

from collections import OrderedDict
from typing import Any

from agent_envs.base.caches import SharedCache, shared
from agent_envs.base.documents import Corpus, IndexRetriever
from agent_envs.base.errors import MissingExtra, UsageError
from agent_envs.tools.retrieval.bm25 import BM25Settings, best_rows, query_terms, tokenize
from agent_envs.tools.retrieval.index_files import Progress

MOST_PASSAGES = 20_000
KILOBYTES_A_PASSAGE = 8  # measured on passages of 100 words (docs/retrieval.md): memory,
MICROSECONDS_A_PASSAGE = 3  # and time of a query of ten words
SHARED = 4  # engines that a process keeps

_ENGINES: SharedCache["OkapiReference"] = OrderedDict()


class OkapiReference:
    """rank-bm25's BM25Okapi over a corpus, cut into words as ours are."""

    def __init__(self, corpus: Corpus, settings: BM25Settings, progress: Progress | None = None) -> None:
        """Tokenize the corpus and index it with rank-bm25; MissingExtra without the package."""
        try:
            from rank_bm25 import BM25Okapi
        except ImportError:
            raise MissingExtra("rank-bm25", "rank-bm25", 'retriever="rank_bm25"') from None
        self._stop = frozenset(settings.stop_words)
        documents = []
        for row in range(len(corpus)):
            passage = corpus[row]
            documents.append(tokenize(f"{passage.title}\n{passage.text}", self._stop))
            if progress is not None and (row + 1) % 1_000 == 0:
                progress("tokenize", (row + 1) / len(corpus))
        # without a single word it divides by zero
        self._engine: Any = BM25Okapi(documents, k1=settings.k1, b=settings.b) if any(documents) else None

    def top(self, query: str, top_k: int) -> tuple[list[int], list[float]]:
        """Return rows and rounded scores of the best documents above 0, ties by rising row; [], [] without a query word."""
        counts = query_terms(query, self._stop)
        if self._engine is None or not counts:
            return [], []
        return best_rows(self._engine.get_scores([term for term, count in counts.items() for _ in range(count)]), top_k)


class RankBM25Retriever(IndexRetriever):
    """BM25Okapi of the rank-bm25 package; passages that score 0 or less are no hits, as with our own index."""

    name = "rank_bm25"

    def __init__(
        self, corpus: Corpus, settings: BM25Settings | None = None, *, progress: Progress | None = None
    ) -> None:
        """Build the engine, or take the one that this process has.

        Raises:
            UsageError: the corpus is too large for it, or the settings ask for another method.
            MissingExtra: rank-bm25 is not installed.
        """
        settings = settings or BM25Settings(method="okapi")
        if settings.method != "okapi":
            raise UsageError(f"rank_bm25 scores by the method 'okapi', not {settings.method!r}")
        if len(corpus) > MOST_PASSAGES:
            memory, pause = len(corpus) * KILOBYTES_A_PASSAGE / 1e6, len(corpus) * MICROSECONDS_A_PASSAGE / 1e6
            raise UsageError(
                f"rank_bm25 holds about {KILOBYTES_A_PASSAGE} kB a passage and reads all of them at every query, "
                f"{MICROSECONDS_A_PASSAGE} microseconds each: {len(corpus):,} passages need {memory:,.1f} GB and "
                f"{pause:,.1f} s a query. At most {MOST_PASSAGES:,} are taken; "
                'retriever="bm25_okapi" gives the same scores'
            )
        self.corpus = corpus
        key = (corpus.digest, settings)
        self.index = shared(_ENGINES, key, lambda: OkapiReference(corpus, settings, progress), SHARED)
