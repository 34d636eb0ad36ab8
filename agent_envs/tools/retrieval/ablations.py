"""Ablations separate retrieval from reasoning: they return random passages, none at all, or the right ones first."""

import random
from collections.abc import Sequence

from agent_envs.base.documents import Corpus, Hit, Retriever
from agent_envs.base.process_cache import Uncopied
from agent_envs.base.serialization import sha256_text


class RandomRetriever(Uncopied):
    """Passages drawn at random: the same for the same seed and query, and a smaller `top_k` gives a prefix."""

    name = "random"

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus

    def search(self, query: str, top_k: int, *, support: Sequence[str] = (), seed: str = "") -> tuple[Hit, ...]:
        """Return `top_k` distinct passages with score 0; `support` is not read."""
        # hashed, as random.Random takes no text with lone surrogates
        rng = random.Random(sha256_text(f"{seed}|{query}"))
        size = len(self.corpus)
        moved: dict[int, int] = {}  # a Fisher-Yates shuffle of the rows, as far as it is needed
        hits = []
        for place in range(min(top_k, size)):
            chosen = rng.randrange(place, size)
            hits.append(Hit(self.corpus[moved.get(chosen, chosen)], 0.0))
            moved[chosen] = moved.get(place, place)
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
        """Return the supporting passages that the corpus has, scored above all others, then the wrapped hits beside them."""
        found = self.wrapped.search(query, top_k, seed=seed)
        rows = {key: row for key in support if (row := self._row(key)) is not None}
        best = found[0].score if found else 0.0
        hits = [Hit(self.corpus[row], best + len(rows) - place) for place, row in enumerate(rows.values())]
        hits += [hit for hit in found if hit.passage.id not in rows]
        return tuple(hits[: max(top_k, 0)])

    def _row(self, passage_id: str) -> int | None:
        try:
            return self.corpus.row(passage_id)
        except KeyError:
            return None
