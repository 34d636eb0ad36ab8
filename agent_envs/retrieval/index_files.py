"""The files of a BM25 index: a folder of arrays that is written whole or not at all, checked and mapped when read."""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent_envs.canonical import canonical_json
from agent_envs.errors import UsageError

ARRAYS = ("scores", "rows", "starts")
VOCABULARY = "vocabulary.json"
MANIFEST = "manifest.json"
_CHECKED = (*(f"{name}.npy" for name in ARRAYS), VOCABULARY)


@dataclass(frozen=True)
class IndexFiles:
    """A sparse matrix by columns: term j scores `scores[starts[j]:starts[j + 1]]` in documents `rows[...]`."""

    documents: int
    scores: NDArray[np.float32]  # (postings,)
    rows: NDArray[np.int32]  # (postings,)
    starts: NDArray[np.int64]  # (terms + 1,)
    terms: list[str]


def load_index(folder: Path) -> IndexFiles | None:
    """Return the index of a folder with its arrays mapped into memory; None where it is missing or damaged."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        if any(manifest["files"][name] != _fingerprint(folder / name) for name in _CHECKED):
            return None
        arrays = {name: _map_array(folder / f"{name}.npy") for name in ARRAYS}
        terms = json.loads((folder / VOCABULARY).read_text("utf-8"))
        return IndexFiles(documents=manifest["documents"], terms=terms, **arrays)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def save_index(files: IndexFiles, folder: Path) -> IndexFiles:
    """Write an index to a folder, whatever other processes do at once, and return it as read from there.

    Raises:
        UsageError: the folder cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
        try:
            _write(files, temporary)
            _install(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise UsageError(
            f"cannot write the index cache {folder.parent} ({error}): set AGENT_ENVS_CACHE to a writable folder"
        ) from error
    return load_index(folder) or files


def _write(files: IndexFiles, folder: Path) -> None:
    folder.chmod(0o755)  # mkdtemp's 0700 would hide a shared cache from other users
    for name in ARRAYS:
        np.save(folder / f"{name}.npy", getattr(files, name))
    (folder / VOCABULARY).write_text(json.dumps(files.terms), "utf-8")
    manifest = {"documents": files.documents, "files": {name: _fingerprint(folder / name) for name in _CHECKED}}
    (folder / MANIFEST).write_text(canonical_json(manifest), "utf-8")


def _install(temporary: Path, folder: Path) -> None:
    """Move a complete folder into its place; a good one that another process put there first stays."""
    try:
        os.rename(temporary, folder)
    except OSError:
        if load_index(folder) is not None:
            return
        with tempfile.TemporaryDirectory(prefix=".damaged-", dir=folder.parent, ignore_cleanup_errors=True) as aside:
            # where these fail, another process is replacing the same damaged folder: its copy is as good
            with contextlib.suppress(OSError):
                os.rename(folder, Path(aside) / "index")
            with contextlib.suppress(OSError):
                os.rename(temporary, folder)


def _fingerprint(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": sha256}


def _map_array(path: Path) -> NDArray[Any]:
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped.view(np.ndarray)  # type: ignore[no-any-return]  # slices of np.memmap itself cost a microsecond each
