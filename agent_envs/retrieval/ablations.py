"""Retrievers that tell retrieval from reasoning: at random, nothing at all, and the right passages first."""

import random
from collections.abc import Sequence

from agent_envs.canonical import sha256_text
from agent_envs.documents import Corpus, Hit, Retriever
from agent_envs.errors import UsageError


class RandomRetriever:
    """Passages drawn at random: the same for the same seed and query, and a smaller `top_k` gives a prefix."""

    name = "random"

    def __init__(self, corpus: Corpus) -> None:
        """Draw from this corpus."""
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

    def __deepcopy__(self, memo: object) -> "RandomRetriever":
        """Nothing here is ever written, so a copy of an environment shares it."""
        return self


class EmptyRetriever:
    """No passage for any query."""

    name = "empty"

    def search(self, query: str, top_k: int, *, support: Sequence[str] = (), seed: str = "") -> tuple[Hit, ...]:
        """Return nothing."""
        return ()

    def __deepcopy__(self, memo: object) -> "EmptyRetriever":
        """Nothing here is ever written, so a copy of an environment shares it."""
        return self


class OracleRetriever:
    """The task's supporting passages in their order, then what another retriever finds."""

    name = "oracle"

    def __init__(self, corpus: Corpus, wrapped: Retriever) -> None:
        """Take the passages from this corpus and the rest from `wrapped`."""
        self.corpus = corpus
        self.wrapped = wrapped

    def search(self, query: str, top_k: int, *, support: Sequence[str] = (), seed: str = "") -> tuple[Hit, ...]:
        """Return the supporting passages, scored above all others, then the wrapped hits that are not among them.

        Raises:
            UsageError: a supporting id is not in the corpus.
        """
        found = self.wrapped.search(query, top_k, seed=seed)
        gold = list(dict.fromkeys(support))
        best = found[0].score if found else 0.0
        hits = [Hit(self.corpus[self._row(key)], best + len(gold) - place) for place, key in enumerate(gold)]
        hits += [hit for hit in found if hit.passage.id not in gold]
        return tuple(hits[: max(top_k, 0)])

    def _row(self, passage_id: str) -> int:
        try:
            return self.corpus.row(passage_id)
        except KeyError:
            raise UsageError(
                f"supporting passage {passage_id!r} is not in the corpus, so retriever='oracle' cannot show it"
            ) from None

    def __deepcopy__(self, memo: object) -> "OracleRetriever":
        """Nothing here is ever written, so a copy of an environment shares it."""
        return self
