"""An index is a folder that is written whole or not at all and checked when read; BM25's arrays are mapped into memory."""

import contextlib
import errno
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from agent_envs.base.errors import UsageError
from agent_envs.base.jsonl_log import try_lock
from agent_envs.base.serialization import canonical_json, sha256_file

Progress: TypeAlias = Callable[[str, float], None]
T = TypeVar("T")

ARRAYS = ("scores", "rows", "starts")
VOCABULARY = "vocabulary.json"
MANIFEST = "manifest.json"
BUILDING = ".building-"
STALE_SECONDS = 24 * 3600.0  # an unfinished folder of that age belongs to a build that was killed
LOCK_POLL_SECONDS = 0.2
_CHECKED = (*(f"{name}.npy" for name in ARRAYS), VOCABULARY)


@dataclass(frozen=True)
class IndexFiles:
    """A sparse matrix by columns: term j scores `scores[starts[j]:starts[j + 1]]` in documents `rows[...]`."""

    documents: int
    scores: NDArray[np.floating[Any]]  # (postings,)
    rows: NDArray[np.int32]  # (postings,)
    starts: NDArray[np.int64]  # (terms + 1,)
    terms: list[str]


def load_index(folder: Path) -> IndexFiles | None:
    """Return the index of a folder with its arrays mapped into memory; None where it is missing or damaged."""
    manifest = read_manifest(folder, needed=_CHECKED)
    try:
        if manifest is None:
            return None
        arrays = {name: _map_array(folder / f"{name}.npy") for name in ARRAYS}
        terms = json.loads((folder / VOCABULARY).read_text("utf-8"))
        return IndexFiles(documents=manifest["documents"], terms=terms, **arrays)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save_index(files: IndexFiles, folder: Path) -> IndexFiles:
    """Write an index to a folder, or leave another process's good one; return it as read from there, else as given.

    Raises UsageError: the folder cannot be written.
    """

    def write(temporary: Path) -> dict[str, Any]:
        """Write the index's arrays and vocabulary into a folder, and return the description to be stored."""
        for name in ARRAYS:
            np.save(temporary / f"{name}.npy", getattr(files, name))
        (temporary / VOCABULARY).write_text(json.dumps(files.terms), "utf-8")
        return {"documents": files.documents}

    install_folder(folder, write, lambda place: load_index(place) is not None)
    return load_index(folder) or files


def read_manifest(
    folder: Path, about: Mapping[str, Any] | None = None, needed: Iterable[str] = ()
) -> dict[str, Any] | None:
    """Return a folder's manifest if its files, `about` and `needed` are as it says; None otherwise.

    Args:
        folder: the folder.
        about: what the manifest must say beside the files: whose they are.
        needed: files that it must list.
    """
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
        about = about or {}
        if any(fingerprint != _fingerprint(folder / name) for name, fingerprint in manifest["files"].items()):
            return None
        listed = manifest["files"].keys() >= set(needed) and all(manifest[name] == what for name, what in about.items())
        return manifest if listed else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def install_folder(folder: Path, write: Callable[[Path], dict[str, Any]], good: Callable[[Path], bool]) -> None:
    """Fill a folder and move it into its place whole, or leave the good one that another process put there first.

    Args:
        folder: the place.
        write: fills an empty folder and returns what its manifest says beside the files; names in `.lock` are no part.
        good: whether what lies in the place already can be used.

    Raises:
        UsageError: the folder cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sweep(folder.parent)
        temporary = Path(tempfile.mkdtemp(prefix=BUILDING, dir=folder.parent))
        try:
            temporary.chmod(0o755)  # mkdtemp's 0700 would hide a shared cache from other users
            manifest = write(temporary)
            names = sorted(path.name for path in temporary.iterdir() if path.suffix != ".lock")
            manifest = {**manifest, "files": {name: _fingerprint(temporary / name) for name in names}}
            (temporary / MANIFEST).write_text(canonical_json(manifest), "utf-8")
            _install(temporary, folder, good)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise unwritable(folder.parent, error) from error


@contextlib.contextmanager
def building_alone(folder: Path, waiting: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Hold the folder's lock, waiting as long as another process has it; `waiting` is called once if so.

    Raises UsageError: the cache cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = (folder.parent / f".{folder.name}.lock").open("ab")
    except OSError as error:
        raise unwritable(folder.parent, error) from error
    with lock:
        if not try_lock(lock):
            waiting()
            while not try_lock(lock):
                time.sleep(LOCK_POLL_SECONDS)
        yield


def opened_or_built(
    folder: Path, opened: Callable[[], T | None], build: Callable[[], T | None], progress: Progress | None
) -> T:
    """Return the index that `opened` gives, else the one that `build` makes under a lock; OSError where that is None.

    Raises UsageError: the cache cannot be written.
    """
    index = opened()
    if index is None:
        with building_alone(folder, lambda: progress and progress("wait", 0.0)):
            index = opened()  # what another process built meanwhile
            if index is None:
                index = build()
    if index is None:
        raise OSError(f"{folder} cannot be read after it was written")
    return index


def unwritable(place: Path, error: OSError) -> UsageError:
    """Return the error of a cache that cannot be written, with what helps."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        fix = "the disk is full: make room and go on, or set AGENT_ENVS_CACHE to a folder on another"
    else:
        fix = "set AGENT_ENVS_CACHE to a writable folder"
    return UsageError(f"cannot write the index cache {place} ({error}): {fix}")


def _sweep(parent: Path) -> None:
    """Remove unfinished builds' folders that are older than a day; an OSError is swallowed."""
    for path in parent.glob(f"{BUILDING}*"):
        with contextlib.suppress(OSError):  # another process sweeps, too
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _install(temporary: Path, folder: Path, good: Callable[[Path], bool]) -> None:
    """Move a complete folder into place; a good one there stays, a damaged one is replaced, failures of that are dropped."""
    try:
        os.rename(temporary, folder)
    except OSError:
        if good(folder):
            return
        with tempfile.TemporaryDirectory(prefix=".damaged-", dir=folder.parent, ignore_cleanup_errors=True) as aside:
            # where these fail, another process is replacing the same damaged folder: its copy is as good
            with contextlib.suppress(OSError):
                os.rename(folder, Path(aside) / "index")
            with contextlib.suppress(OSError):
                os.rename(temporary, folder)


def _fingerprint(path: Path) -> dict[str, Any]:
    """Return a file's size and sha256."""
    return {"bytes": path.stat().st_size, "sha256": sha256_file(path)}


def _map_array(path: Path) -> NDArray[Any]:
    """Return an array that is mapped from its file, read-only."""
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped.view(np.ndarray)  # type: ignore[no-any-return]  # slices of np.memmap itself cost a microsecond each
