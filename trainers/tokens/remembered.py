"""A cache keeps a function's latest results, as many as their arguments leave room for."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Remembered(Generic[T]):
    """A function of texts that keeps what it returned last. Bounded by characters: a count would not bound memory.

    Attributes:
        characters: of all texts whose results are kept.
    """

    def __init__(self, function: Callable[..., T], most: int) -> None:
        """Take a function that has no other effect than its result, and how many characters of arguments are kept."""
        self.characters = 0
        self._function, self._most = function, most
        self._found: OrderedDict[tuple[str, ...], T] = OrderedDict()
        self._lock = threading.Lock()  # episodes play in threads

    def __call__(self, *texts: str) -> T:
        """Return what the function returns for these texts."""
        with self._lock:
            if texts in self._found:
                self._found.move_to_end(texts)
                return self._found[texts]
        result = self._function(*texts)
        with self._lock:
            if texts not in self._found:
                self._found[texts] = result
                self.characters += _size(texts)
            while self.characters > self._most:
                oldest, _ = self._found.popitem(last=False)
                self.characters -= _size(oldest)
        return result


def _size(texts: tuple[str, ...]) -> int:
    return sum(map(len, texts))
