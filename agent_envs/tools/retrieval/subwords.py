"""Byte-pair encoding of words by a published tokenizer's tables: the same pieces in every process, without its package.

A text is cut at white space, each word gets the mark of a beginning, and the pair of neighbours that was learned first is
merged until none is left. For texts with single spaces that is what the `tokenizers` package gives, because no piece of such
a vocabulary reaches over a space. What the vocabulary does not have is spelled in bytes.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

BEGINNING = "\u2581"
LONGEST_PIECE = (
    100  # characters of a word that are merged together; longer words are cut, as merging takes quadratic time
)
CACHED_WORDS = 200_000


class Subwords:
    """The tables of a vocabulary. Read-only but for a bounded cache, so threads may share it."""

    def __init__(self, vocabulary: Mapping[str, int], merges: Sequence[str]) -> None:
        """Take the number of each piece, and the pairs ("left right") in the order in which they were learned."""
        self._numbers = dict(vocabulary)
        self._ranks = {tuple(pair.split(" ")): rank for rank, pair in enumerate(merges)}
        self._bytes = [self._numbers[f"<0x{value:02X}>"] for value in range(256)]
        self._word = lru_cache(CACHED_WORDS)(self._encode_word)

    def encode(self, text: str) -> list[int]:
        """Return the numbers of a text's pieces in their order."""
        numbers: list[int] = []
        for word in text.split():
            if len(word) <= LONGEST_PIECE:
                numbers += self._word(word)
            else:
                for start in range(0, len(word), LONGEST_PIECE):
                    numbers += self._word(word[start : start + LONGEST_PIECE])
        return numbers

    def _encode_word(self, word: str) -> tuple[int, ...]:
        pieces = [BEGINNING, *word]
        while len(pieces) > 1:
            ranks = [self._ranks.get(pair) for pair in zip(pieces, pieces[1:], strict=False)]
            known = [(rank, place) for place, rank in enumerate(ranks) if rank is not None]
            if not known:
                break
            place = min(known)[1]
            pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
        numbers: list[int] = []
        for piece in pieces:
            number = self._numbers.get(piece)
            if number is not None:
                numbers.append(number)
            else:  # a lone surrogate, which UTF-8 cannot carry, is spelled as a question mark
                numbers += [self._bytes[value] for value in piece.encode("utf-8", "replace")]
        return tuple(numbers)
