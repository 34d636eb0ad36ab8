"""Passages, corpora and the `Retriever` interface are defined here: the vocabulary of everything that searches."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_envs.base.caches import Uncopied


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrievable text with an opaque id."""

    id: str
    title: str
    text: str


class Corpus(Protocol):
    """An ordered, immutable collection of passages.

    `digest` is a sha256 over the content in its order, so that it names the corpus in task identities and caches.
    """

    digest: str

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> Passage: ...

    def row(self, passage_id: str) -> int:
        """Return the row of an id; raises KeyError where there is none."""
        ...


class MemoryCorpus(Uncopied):
    """A corpus held as a tuple of passages."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        """Hold passages by their ids and digest all their texts; ValueError where two have one id."""
        self.passages = tuple(passages)
        self._rows = {passage.id: row for row, passage in enumerate(self.passages)}
        if len(self._rows) != len(self.passages):
            raise ValueError("passage ids are not unique")
        digest = hashlib.sha256()
        for passage in self.passages:
            for part in (passage.id, passage.title, passage.text):
                data = part.encode("utf-8", "surrogatepass")
                digest.update(len(data).to_bytes(8, "big") + data)
        self.digest = digest.hexdigest()

    def __len__(self) -> int:
        return len(self.passages)

    def __getitem__(self, row: int) -> Passage:
        return self.passages[row]

    def row(self, passage_id: str) -> int:
        """Return the row of an id; raises KeyError where there is none."""
        return self._rows[passage_id]


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that a retriever returned, with its score (larger is better)."""

    passage: Passage
    score: float


class Retriever(Protocol):
    """Anything that answers a query with passages. Shared by environments and forks; never written after its build."""

    name: str

    def search(self, query: str, top_k: int, *, support: Sequence[str] = (), seed: str = "") -> tuple[Hit, ...]:
        """Return at most `top_k` hits, best first, ties in the order of the corpus.

        Args:
            query: any text.
            top_k: how many passages at most, >= 1.
            support: ids of the task's supporting passages. Only the `oracle` ablation may read them.
            seed: text that keys randomness. Only the `random` ablation reads it.

        Raises:
            EnvFault: an outside service failed.
        """
        ...


class RowIndex(Protocol):
    """An index of a corpus that answers with rows."""

    def top(self, query: str, top_k: int) -> tuple[list[int], list[float]]:
        """Return the rows and scores of the best passages, by falling score and then rising row."""
        ...


class IndexRetriever(Uncopied):
    """A retriever over an index of rows, which is never written after its build."""

    name: str
    corpus: Corpus
    index: RowIndex

    def search(self, query: str, top_k: int, *, support: Sequence[str] = (), seed: str = "") -> tuple[Hit, ...]:
        """Return the `top_k` passages that score highest, best first; `support` and `seed` are not read."""
        rows, scores = self.index.top(query, top_k)
        return tuple(Hit(self.corpus[row], score) for row, score in zip(rows, scores, strict=True))
