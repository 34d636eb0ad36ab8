"""The cache folder is kept within bounds: of what verification and pages keep there, the longest unused goes first."""

import time
from pathlib import Path

from agent_envs.base.caches import cache_dir

FOLDERS = ("checked", "transcripts", "rounds")
MOST_BYTES = 2_000_000_000
YOUNG = 3_600.0  # seconds: a verification that runs may be writing it


def trim(most_bytes: int = MOST_BYTES, young: float = YOUNG) -> tuple[int, int]:
    """Remove kept results, longest unused first but none within `young` seconds, to fit; return files gone and bytes left.

    Nothing is lost but time: what was removed is stepped again when it is wanted. What was used within `young` seconds stays.
    """
    files = [path for name in FOLDERS for path in (cache_dir() / name).glob("*.json*") if not path.is_symlink()]
    entries = sorted((_last_use(path), path.stat().st_size, path) for path in files)
    left, count, now = sum(size for _, size, _ in entries), 0, time.time()
    for used, size, path in entries:
        if left <= most_bytes or now - used < young:
            break
        path.unlink(missing_ok=True)
        left, count = left - size, count + 1
    return count, left


def _last_use(path: Path) -> float:
    """Return the time of a file's last use, as far as the file system tells."""
    status = path.stat()
    return max(status.st_mtime, status.st_atime)
