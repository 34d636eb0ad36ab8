"""One index a process: threads that ask for the same one wait while the first of them builds it."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeAlias, TypeVar

Index = TypeVar("Index")


class Shared(Generic[Index]):
    """A place for an index, with the lock of the thread that fills it."""

    def __init__(self) -> None:
        """Begin empty."""
        self.lock = threading.Lock()
        self.index: Index | None = None


Shelf: TypeAlias = OrderedDict[Hashable, Shared[Index]]

_SHELF_LOCK = threading.Lock()


def shared_index(shelf: Shelf[Index], key: Hashable, build: Callable[[], Index], most: int | None = None) -> Index:
    """Return the shelf's index of a key, built where there is none; beyond `most` the longest unused are forgotten."""
    with _SHELF_LOCK:
        shared = shelf.setdefault(key, Shared())
        shelf.move_to_end(key)
        while most is not None and len(shelf) > most:
            shelf.popitem(last=False)
    with shared.lock:
        if shared.index is None:
            shared.index = build()
        return shared.index
