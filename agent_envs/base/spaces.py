"""`Utterance` is the space of all strings. Gymnasium's `Text` refuses spaces, newlines and the empty string by default."""

from typing import Any

import numpy as np
from gymnasium.spaces import Space

_WORDS = "search answer the a of in who what when where first last yes no move left right one two three".split()


class Utterance(Space[str]):
    """Every Python string, of any length, lone surrogates included.

    `sample` draws a short printable text; it is there for Gymnasium's machinery, not as a sensible policy.
    """

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)

    def sample(self, mask: None = None, probability: None = None) -> str:
        """Return one to eight random words; masks have no meaning here."""
        if mask is not None or probability is not None:
            raise ValueError("Utterance has no mask and no probability: it holds all strings")
        count = int(self.np_random.integers(1, 9))
        return " ".join(_WORDS[int(self.np_random.integers(len(_WORDS)))] for _ in range(count))

    def contains(self, x: Any) -> bool:
        """Return whether `x` is a string."""
        return isinstance(x, str)

    @property
    def is_np_flattenable(self) -> bool:
        """Strings have no fixed-size vector."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Utterance)

    def __hash__(self) -> int:
        return hash("Utterance")

    def __repr__(self) -> str:
        return "Utterance()"
