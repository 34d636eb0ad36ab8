"""A submission's directory is a stranger's: its files are looked at from outside, in bounds, before anything is read.

Nothing in it is followed, unpacked to disk or imported. Somebody else must not write into it meanwhile.
"""

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TypeVar

from pydantic import ValidationError

from agent_envs.base.strict_model import Strict
from agent_envs.evaluation.submission.episode_rows import MOST_SHARD_BYTES
from agent_envs.evaluation.submission.models import MOST_META_BYTES, FileRow, Manifest, file_text
from agent_envs.evaluation.submission.pack import MOST_BYTES
from agent_envs.evaluation.suites.suite import first_fault

MOST_FILES = 10_000
MOST_MANIFEST_BYTES = 4_000_000
MOST_ATTEMPTS_BYTES = 64_000_000
_CHUNK = 1 << 20
_SHARD = re.compile(r"(episodes/[a-z0-9][a-z0-9-]{0,79}|externals)/[0-9]{4}\.jsonl\.gz")
_NUMBERED = re.compile(r"(.*)/([0-9]{4})\.jsonl\.gz")
_MOST = {"submission.json": MOST_META_BYTES, "report.md": MOST_META_BYTES, "attempts.jsonl": MOST_ATTEMPTS_BYTES}
M = TypeVar("M", bound=Strict)


class Rejected(Exception):
    """A submission is not what it must be; the message names the file or the field."""


class Directory:
    """The files of a submission, once their kinds, sizes and hashes are what the manifest says."""

    def __init__(self, folder: Path, suite_bytes: int) -> None:
        """Read and check a directory whose suite file has so many bytes: its manifest, and each file's size and hash.

        Raises:
            Rejected: it holds what no submission holds.
        """
        self.folder = folder
        sizes = dict(_files(folder))
        if "manifest.json" not in sizes:
            raise Rejected("manifest.json: there is none")
        text = self.read("manifest.json", sizes, MOST_MANIFEST_BYTES)
        self.id = hashlib.sha256(text).hexdigest()
        self.manifest = parsed(Manifest, text, "manifest.json")
        self.rows = {row.path: row for row in self.manifest.files}
        self._compare(sizes, _MOST | {"suite.json": suite_bytes})
        try:
            self.read("report.md").decode() if "report.md" in self.rows else ""
        except UnicodeDecodeError as error:
            raise Rejected(f"report.md: byte {error.start:,} is no UTF-8") from None

    def read(self, name: str, sizes: dict[str, int] | None = None, most: int | None = None) -> bytes:
        """Return a small file's bytes, at most one more than its declared size; Rejected where that is more than `most`."""
        size = sizes[name] if sizes is not None else self.rows[name].bytes
        if most is not None and size > most:
            raise Rejected(f"{name}: {size:,} bytes, more than the {most:,} of this file")
        with _open_file(self.folder / name) as file:
            return file.read(size + 1)

    def shards(self, prefix: str) -> list[Path]:
        """Return the shards of a folder in their order, [] without any; Rejected if their numbers have a gap.

        Raises:
            Rejected: their numbers have a gap.
        """
        paths = [path for path in self.rows if path.startswith(f"{prefix}/")]
        for number, path in enumerate(paths):
            if path != f"{prefix}/{number:04d}.jsonl.gz":
                raise Rejected(f"{path}: {prefix}/{number:04d}.jsonl.gz comes first; shards are numbered without a gap")
        return [self.folder / path for path in paths]

    def episode_folders(self) -> set[str]:
        """Return the folders that hold shards of episodes."""
        matches = (_NUMBERED.fullmatch(path) for path in self.rows if path.startswith("episodes/"))
        return {match[1] for match in matches if match}

    def _compare(self, sizes: dict[str, int], most: dict[str, int]) -> None:
        """Compare the files with the manifest; Rejected for one unlisted, missing, too large, not allowed, or changed."""
        there = set(sizes) - {"manifest.json"}
        if more := sorted(there - set(self.rows)):
            raise Rejected(f"{ascii_name(more[0])}: not in manifest.json ({len(more)} such files)")
        if lacking := sorted(set(self.rows) - there):
            raise Rejected(f"{lacking[0]}: in manifest.json, and not there ({len(lacking)} such files)")
        if missing := {"submission.json", "suite.json", "attempts.jsonl"} - there:
            raise Rejected(f"{min(missing)}: there is none")
        packed = 0
        for path, row in self.rows.items():
            if path not in most and not _SHARD.fullmatch(path):
                raise Rejected(f"{path}: a submission holds no such file")
            limit = most.get(path, MOST_SHARD_BYTES + _CHUNK)
            packed += row.bytes
            if row.bytes > limit or packed > MOST_BYTES:
                raise Rejected(f"{path}: {row.bytes:,} bytes, more than the format takes")
            if sizes[path] != row.bytes:
                raise Rejected(f"{path}: {sizes[path]:,} bytes, and manifest.json says {row.bytes:,}")
        for row in self.rows.values():
            self._hash(row)

    def _hash(self, row: FileRow) -> None:
        """Hash a file up to one byte beyond its declared size; Rejected if the sha256 differs."""
        sha256, left = hashlib.sha256(), row.bytes + 1
        with _open_file(self.folder / row.path) as file:
            while left > 0 and (chunk := file.read(min(_CHUNK, left))):
                sha256.update(chunk)
                left -= len(chunk)
        if sha256.hexdigest() != row.sha256:
            raise Rejected(f"{row.path}: its sha256 is not the one in manifest.json")


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield (path, bytes) of each file; Rejected for links, special files, folders below the 2nd level, or too many."""
    waiting, count = [(folder, "", 0)], 0
    while waiting:
        place, prefix, depth = waiting.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                name, status = f"{prefix}{entry.name}", entry.stat(follow_symlinks=False)
                count += 1
                if count > 2 * MOST_FILES:
                    raise Rejected(f"more than {2 * MOST_FILES:,} files and folders")
                if stat.S_ISDIR(status.st_mode) and depth < 2:
                    waiting.append((Path(entry.path), f"{name}/", depth + 1))
                elif not stat.S_ISREG(status.st_mode):
                    kind = "a link" if stat.S_ISLNK(status.st_mode) else "too deep, or neither a file nor a folder"
                    raise Rejected(f"{ascii_name(name)}: {kind}")
                elif status.st_nlink > 1:
                    raise Rejected(f"{ascii_name(name)}: a hard link; copy the submission, and verify the copy")
                else:
                    yield name, status.st_size


def _open_file(path: Path) -> IO[bytes]:
    """Open a file to read it, but no symbolic link, and without waiting on a pipe."""
    return open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)), "rb")


def parsed(model: type[M], text: bytes, where: str, write: Callable[[Strict], str] = file_text) -> M:
    """Parse a small file or line; Rejected, naming the field, where it is malformed or not spelled as `write` spells it.

    Raises:
        Rejected: it is not; the message names the field.
    """
    try:
        record = model.model_validate_json(text)
        same = write(record).encode() == text
    except ValidationError as error:
        raise Rejected(f"{where}: {first_fault(error, 'the text')}") from None
    except (ValueError, RecursionError):  # NaN deep in free JSON, which no writer writes
        same = False
    if not same:
        raise Rejected(f"{where}: not in the form in which it is written (a key twice, another order or spelling)")
    return record


def ascii_name(text: str) -> str:
    """Return a stranger's name of a file as ASCII, cut."""
    return ascii(text[:120])[1:-1]
