"""Rows go to gzip files, so that equal rows give equal bytes; `leaderboard.shards` reads them."""

import gzip
from pathlib import Path
from typing import IO

from agent_envs.base.errors import UsageError

MOST_ROWS = 2_000
MOST_SHARD_BYTES = 32_000_000
MOST_LINE_BYTES = 16_000_000
MOST_RATIO = 200
_LEVEL = 6
_CHUNK = 1 << 20


class ShardWriter:
    """Writes lines to 0000.jsonl.gz, 0001.jsonl.gz, ... of a folder, none with too many rows or bytes."""

    def __init__(self, folder: Path, *, most_rows: int = MOST_ROWS, most_bytes: int = MOST_SHARD_BYTES) -> None:
        self._folder, self._most_rows, self._most_bytes = folder, most_rows, most_bytes
        self._number = -1
        self._file: IO[bytes] | None = None
        self._gzip: gzip.GzipFile | None = None
        self._rows = self._bytes = 0

    def write(self, line: str) -> tuple[Path, int]:
        """Write a line and return its file and number; raises UsageError where it is longer than any reader accepts."""
        data = line.encode() + b"\n"
        if len(data) > min(MOST_LINE_BYTES, self._most_bytes):
            raise UsageError(f"a row of {len(data):,} bytes; the format takes {MOST_LINE_BYTES:,}")
        if self._gzip is None or self._rows >= self._most_rows or self._bytes + len(data) > self._most_bytes:
            self._next()
        assert self._gzip is not None
        self._gzip.write(data)
        self._rows += 1
        self._bytes += len(data)
        return self._path, self._rows

    def close(self) -> None:
        """Finish the last file."""
        if self._gzip is None or self._file is None:
            return
        self._gzip.close()
        self._file.close()
        self._gzip = self._file = None
        if self._bytes > MOST_RATIO * self._path.stat().st_size:
            _store(self._path)

    @property
    def _path(self) -> Path:
        return self._folder / f"{self._number:04d}.jsonl.gz"

    def _next(self) -> None:
        self.close()
        self._number += 1
        self._rows = self._bytes = 0
        self._folder.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("wb")
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=self._file, mtime=0)


def _store(path: Path) -> None:
    """Write a file again without compression: honest rows that shrink like a bomb must not be refused as one."""
    plain = path.with_suffix(".plain")
    with gzip.open(path, "rb") as source, plain.open("wb") as target:
        with gzip.GzipFile(filename="", mode="wb", compresslevel=0, fileobj=target, mtime=0) as file:
            while chunk := source.read(_CHUNK):
                file.write(chunk)
    plain.replace(path)
