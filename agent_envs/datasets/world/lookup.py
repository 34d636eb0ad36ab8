"""`Lookup` ranks a fictional world's passages by BM25, to keep only questions whose every look-up can succeed."""

import re
from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from agent_envs.base.documents import Passage

_WORD = re.compile(r"\w+")
_STOP = frozenset("a an and as at by for has have in is it its of on that the to was".split())
_K1, _B = 1.5, 0.75
_DEPTH = 3
_NEAR = 1e-6


class Lookup:
    """Says whether a query finds a passage among the first three (BM25 in Lucene's form, over title and text)."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._places: dict[str, list[int]] = {}
        lengths = []
        for row, passage in enumerate(passages):
            words = [word for word in _WORD.findall(f"{passage.title} {passage.text}".lower()) if word not in _STOP]
            lengths.append(len(words))
            for word in words:
                if word in self._places:
                    self._places[word].append(row)
                else:
                    self._places[word] = [row]
        mean = sum(lengths) / len(lengths)
        self._norms = np.array([_K1 * (1 - _B + _B * length / mean) for length in lengths])  # (passages,)
        self._rows = {passage.id: row for row, passage in enumerate(passages)}
        self._scores: dict[str, NDArray[np.float64]] = {}
        self._known: dict[tuple[str, str], bool] = {}

    def finds(self, query: str, passage_id: str) -> bool:
        """Return whether the passage is surely among the first three; a tie counts against it."""
        key = (query, passage_id)
        if key not in self._known:
            words = [word for word in _WORD.findall(query.lower()) if word in self._places]
            scores = np.add.reduce([self._word(word) for word in words])  # (passages,)
            least = scores[self._rows[passage_id]] - _NEAR
            self._known[key] = int(np.count_nonzero(scores >= least)) <= _DEPTH
        return self._known[key]

    def _word(self, word: str) -> NDArray[np.float64]:
        """Return what one word of a query adds to every passage's score."""
        if word not in self._scores:
            counts = np.bincount(self._places[word], minlength=len(self._norms))  # (passages,)
            found = int(np.count_nonzero(counts))
            idf = log(1 + (len(counts) - found + 0.5) / (found + 0.5))
            self._scores[word] = idf * counts / (counts + self._norms)
        return self._scores[word]
