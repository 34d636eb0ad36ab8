"""Rows that are dear to compute are kept in the cache folder, under a digest of their sources and of the code."""

import contextlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from agent_envs.base.cache_dir import cache_dir
from agent_envs.base.serialization import digest, sha256_file
from agent_envs.datasets.corpora import write_atomically

MOST_FILES = 32  # of a folder


@cache
def code_digest() -> str:
    """Return the digest of the installed package's files: a change of any of them has everything computed again."""
    root = Path(__file__).parents[1]
    files = sorted(path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return digest([[str(path.relative_to(root)), sha256_file(path)] for path in files])


def place_of(folder: str, *sources: Any) -> Path:
    """Return the file of what was computed from `sources`, plain JSON, by this code."""
    return cache_dir() / folder / f"{digest([*sources, code_digest()])[:32]}.json"


def keep_rows(path: Path, rows: Sequence[Any]) -> None:
    """Keep plain rows, and forget what was kept first beside them; without a cache that can be written nothing is kept."""
    text = json.dumps(rows).encode()
    with contextlib.suppress(OSError):  # then it is computed each time
        write_atomically(path, lambda file: file.write(text))
        files = sorted(path.parent.glob("*.json"), key=lambda kept: kept.stat().st_mtime)
        for old in files[:-MOST_FILES]:
            old.unlink(missing_ok=True)
