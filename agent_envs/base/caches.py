"""Caches: the folder of downloads and indexes, and values that a process makes once, shares among threads and never copies."""

import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Generic, Self, TypeAlias, TypeVar

Value = TypeVar("Value")


class Shared(Generic[Value]):
    """A place for a value, with the lock of the thread that fills it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value: Value | None = None


SharedCache: TypeAlias = OrderedDict[Hashable, Shared[Value]]

_CACHES_LOCK = threading.Lock()


def shared(cache: SharedCache[Value], key: Hashable, build: Callable[[], Value], most: int | None = None) -> Value:
    """Return the cache's value of a key, made where there is none; beyond `most` the longest unused are forgotten.

    Where `build` raises, nothing is kept, and the next that waits makes its own attempt.
    """
    with _CACHES_LOCK:
        place = cache.setdefault(key, Shared())
        cache.move_to_end(key)
        while most is not None and len(cache) > most:
            cache.popitem(last=False)
    with place.lock:
        if place.value is None:
            place.value = build()
        return place.value


class Uncopied:
    """Base of what holds no state of an episode: gymnasium copies environments' arguments, and a copy is the object itself."""

    __slots__ = ()

    def __deepcopy__(self, memo: object) -> Self:
        """Return the object itself."""
        return self


def cache_dir() -> Path:
    """Return the cache folder: `AGENT_ENVS_CACHE` where it is set, else `agent_envs` in the platform's user cache.

    The folder is not created here.
    """
    folder = os.environ.get("AGENT_ENVS_CACHE")
    if folder:
        return Path(folder).expanduser()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "agent_envs" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "agent_envs"
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "agent_envs"
