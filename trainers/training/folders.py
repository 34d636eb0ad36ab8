"""A folder is written whole or not at all, whatever moment the process is killed at."""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError

from agent_envs.base.errors import AgentEnvsError

PART = ".part"


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder to write into, which takes its name, and the place of what was there, when it is on disk.

    Raises:
        AgentEnvsError: it cannot be written (a full disk); what was there stays.
    """
    part, old = path.with_name(f"{path.name}{PART}"), path.with_name(f"{path.name}.old{PART}")
    try:
        for left in (part, old):
            remove_folder(left)
        part.mkdir(parents=True)
        yield part
        for file in sorted(part.rglob("*")):
            _sync(file)
        _sync(part)
        if path.exists():
            path.rename(old)
        part.rename(path)
        _sync(path.parent)
        remove_folder(old)
    except (OSError, RuntimeError, SafetensorError) as error:  # torch and safetensors have their own for a full disk
        with contextlib.suppress(OSError):
            remove_folder(part)
        raise AgentEnvsError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from error


def remove_folder(path: Path) -> None:
    """Delete a folder; one that a kill leaves half deleted does not have its name any more."""
    if path.exists():
        doomed = path if path.name.endswith(PART) else path.rename(path.with_name(f"{path.name}{PART}"))
        shutil.rmtree(doomed)


def _sync(path: Path) -> None:
    """Put a file or a folder's list of names on disk; Windows cannot open a folder."""
    if path.is_dir() and sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
