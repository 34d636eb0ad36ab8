"""Caches: their folder, files that are whole at any time, and values that a process makes once and shares among threads."""

import contextlib
import hashlib
import json
import os
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Generic, Self, TypeAlias, TypeVar

from agent_envs.base.serialization import digest
from agent_envs.base.version import code_digest

Value = TypeVar("Value")


class Shared(Generic[Value]):
    """A place for a value, with the lock of the thread that fills it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value: Value | None = None


SharedCache: TypeAlias = OrderedDict[Hashable, Shared[Value]]

MOST_FILES = 32  # of a folder
_CACHES_LOCK = threading.Lock()


def shared(cache: SharedCache[Value], key: Hashable, build: Callable[[], Value], most: int | None = None) -> Value:
    """Return a key's cached value, built where there is none (or None); beyond `most` keys the longest unused are dropped.

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
    """Base of classes without state of an episode, whose deep copy is the object itself: gymnasium copies arguments."""

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


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file, its folder made, by renaming a temporary one: readers see the old bytes or all the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)  # a temporary file is its maker's alone; this one is as any other
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def place_of(folder: str, *sources: Any) -> Path:
    """Return the cache file for values computed from `sources`, plain JSON, by this code."""
    return cache_dir() / folder / f"{digest([*sources, code_digest()])[:32]}.json"


def save_rows(path: Path, rows: Sequence[Any]) -> None:
    """Save JSON rows in a cache file, and delete all but its folder's 32 newest .json files; an OSError is swallowed."""
    text = _seal(path, json.dumps(rows).encode())
    with contextlib.suppress(OSError):  # then it is computed each time
        write_atomically(path, lambda file: file.write(text))
        files = sorted(path.parent.glob("*.json"), key=lambda entry: entry.stat().st_mtime)
        for old in files[:-MOST_FILES]:
            old.unlink(missing_ok=True)


def load_rows(path: Path) -> list[Any]:
    """Load the rows saved under this name; [] where the file is missing or damaged, or holds no list."""
    try:
        data = path.read_bytes()
    except OSError:
        return []
    rows = json.loads(data)[1] if data == _seal(path, data[68:-1]) else []
    return rows if isinstance(rows, list) else []


def _seal(path: Path, rows: bytes) -> bytes:
    """Return a cache file's text: its rows behind a digest of rows and name."""
    return b'["%b",%b]' % (hashlib.sha256(path.name.encode() + rows).hexdigest().encode(), rows)
