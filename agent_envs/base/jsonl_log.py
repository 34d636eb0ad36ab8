"""A journal is an append-only JSONL file that survives a kill.

Every line is `{"row": ..., "sha": first 16 hex digits of the sha256 of the row's canonical JSON}`. A torn or damaged last
line is dropped when the journal is opened for writing; damage anywhere else is refused, naming the line, until `set_aside`
blanks it. A line of spaces is no row.
"""

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import IO, Any, NoReturn

from agent_envs.base.errors import AgentEnvsError, UsageError
from agent_envs.base.serialization import canonical_json, sha256_text

_HEAD = b'{"row":'
_LINE = re.compile(rb'\{"row":(.*),"sha":"([0-9a-f]{16})"\}\n', re.DOTALL)


class FileInUse(UsageError):
    """Another process is writing a journal."""


class Journal(contextlib.AbstractContextManager["Journal"]):
    """One file, one writer at a time (`try_lock`), any number of readers."""

    def __init__(self, path: Path) -> None:
        """Open for appending; the file and its folder are made where missing.

        Raises:
            UsageError: it cannot be written, another process is writing it, or it is damaged before its last line.
        """
        self.path = path
        self._file: IO[bytes] = _open_journal(path)
        if not try_lock(self._file):
            self._file.close()
            raise FileInUse(f"{path} is being written by another process; wait for it or use another folder")
        try:
            sound = max(
                (end for _, _, end in _rows(path, lambda line: _verify_line(line) or _sound_row(line))), default=0
            )
            with path.open("rb") as file:
                torn = _HEAD.startswith(file.read(len(_HEAD)))  # a journal's first row, and nobody's file
            if sound == 0 and not torn and not path.read_bytes().isspace():  # all of it may have been set aside
                raise UsageError(f"{path} is no journal; name another file")
            self._file.truncate(sound)
        except UsageError:
            self._file.close()
            raise

    def append(self, row: Any) -> int:
        """Write one row, hand it to the system, and return the byte at which its line begins; AgentEnvsError for a full disk.

        Raises:
            AgentEnvsError: it cannot be written (a full disk); the rows before it are kept.
        """
        line = _line_of(row)
        with self._disk_faults():
            self._file.write(line)
            self._file.flush()
            return self._file.tell() - len(line)

    def close(self) -> None:
        """Sync all rows to disk and release the file; AgentEnvsError where the disk fails; a closed journal is left alone."""
        if not self._file.closed:
            with self._disk_faults(), self._file:
                self._file.flush()
                os.fsync(self._file.fileno())

    @contextlib.contextmanager
    def _disk_faults(self) -> Iterator[None]:
        """Turn errors of the disk into an AgentEnvsError that says how to go on."""
        try:
            yield
        except OSError as error:
            why = f"{self.path} cannot be written: {error.strerror or error}"
            raise AgentEnvsError(f"{why}; the rows before this one are kept, so make room and go on") from error

    def __exit__(self, *error: object) -> None:
        self.close()


def _open_journal(path: Path) -> IO[bytes]:
    """Open a journal for appending; UsageError for a link, another kind of file or an unwritable place."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            raise UsageError(f"{path} is a link; a journal is a file of its own")
        _check_kind(path)
        return path.open("ab")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}; name another place") from error


def _check_kind(path: Path) -> None:
    """Raise UsageError for a folder, pipe or device in a journal's place, for opening one may never return."""
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "no file"
        raise UsageError(f"{path} is {kind}, where a journal belongs; name another place")


def try_lock(file: IO[bytes]) -> bool:
    """Take an open file's advisory lock for its lifetime; False if another process holds it; True on Windows, unlocked."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_journal(path: Path) -> Iterator[Any]:
    """Yield the rows of a journal, none where there is no file; a torn or damaged last line is left out.

    Raises:
        UsageError: a line before the last is damaged.
    """
    for row, _, _ in _rows(path):
        yield row


def read_places(path: Path) -> Iterator[tuple[Any, int]]:
    """Yield the rows of a journal, each with the byte at which its line begins; otherwise as `read_journal`."""
    for row, start, _ in _rows(path):
        yield row, start


def read_row(file: IO[bytes], start: int) -> Any:
    """Return the row whose line begins at a byte of an open journal; raises UsageError where there is no sound row."""
    file.seek(start)
    row = _sound_row(file.readline())
    if row is None:
        raise UsageError(f"{file.name}: the row at byte {start} is damaged")
    return row[0]


def _rows(path: Path, read: Callable[[bytes], tuple[Any] | None] | None = None) -> Iterator[tuple[Any, int, int]]:
    """Yield (row, its first byte, its end), parsed by `read` if not the last; a torn last is left out, others UsageError."""
    if not path.exists():
        return
    _check_kind(path)
    size = path.stat().st_size
    end = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            start, end = end, end + len(line)
            if line.isspace():
                continue
            row = (read if read and end < size else _sound_row)(line)
            if row is not None:
                yield row[0], start, end
            elif end < size:
                raise UsageError(
                    f"{path}: line {number} is damaged, and more lines follow; restore it from a copy, or, of a run, play "
                    f"what is lost again: agent-envs eval --resume {path.parent} --set-aside"
                )


def set_aside(path: Path, lost: Callable[[Any, Collection[int]], bool], first: Any = None) -> int:
    """Move damaged lines of a journal to a file beside it, `NAME-damaged.jsonl`; return how many. UsageError: it is in use.

    Blanks take their place, so that all other lines begin at the byte at which they began.

    Args:
        path: of the journal; where there is none, there is nothing to do.
        lost: (row, first bytes of the sound lines before it) -> whether the row needs another than these, and goes, too.
        first: the journal's first row, which takes the place of a damaged one.

    Raises:
        UsageError: another process is writing it, or its first line is damaged and was another one than `first`.
    """
    if not path.exists():
        return 0
    moved, sound = dict[int, bytes](), set[int]()
    with path.open("r+b") as file:
        if not try_lock(file):
            raise UsageError(f"{path} is being written by another process; wait for it")
        end = 0
        for line in file:
            start, end = end, end + len(line)
            row = _sound_row(line)
            if row is not None and not lost(row[0], sound):
                sound.add(start)
            elif not line.isspace():
                moved[start] = line
        blanks = {start: b" " * (len(line) - 1) + b"\n" for start, line in moved.items()}
        if 0 in moved and first is not None:
            blanks = _with_first(blanks, _line_of(first))
            if 0 not in blanks:
                raise UsageError(
                    f"{path}: its first line, which says what it belongs to, is damaged; restore it from a copy"
                )
        if not moved:
            return 0
        with path.with_name(f"{path.stem}-damaged.jsonl").open("ab") as beside:
            beside.writelines(moved.values())
            beside.flush()
            os.fsync(beside.fileno())
        for start, line in blanks.items():
            file.seek(start)
            file.write(line)
    return len(moved)


def _with_first(blanks: dict[int, bytes], line: bytes) -> dict[int, bytes]:
    """Return blanks with a line at the beginning of the damaged lines that begin the file, without any where it is longer."""
    room = 0
    while room in blanks:
        room += len(blanks[room])
    if room < len(line):
        return {}
    rest = {len(line): b" " * (room - len(line) - 1) + b"\n"} if room > len(line) else {}
    return {**{start: text for start, text in blanks.items() if start >= room}, 0: line, **rest}


def _line_of(row: Any) -> bytes:
    """Return a row as a line of a journal, with its checksum."""
    text = canonical_json(row)
    return f'{{"row":{text},"sha":"{sha256_text(text)[:16]}"}}\n'.encode("utf-8", "surrogatepass")


def _verify_line(line: bytes) -> tuple[bytes] | None:
    """Return a row's bytes in a tuple where its digest fits as it stands, without parsing; None where it does not."""
    whole = _LINE.fullmatch(line)
    return (whole[1],) if whole and sha256(whole[1]).hexdigest()[:16].encode() == whole[2] else None


def _sound_row(line: bytes) -> tuple[Any] | None:
    """Return a line's row in a tuple, or None if it is cut or its checksum is wrong; an older form is read, too."""
    if not line.endswith(b"\n"):
        return None
    try:
        if (whole := _verify_line(line)) is not None:
            return (_DECODER.decode(whole[0].decode("utf-8", "surrogatepass")),)
        outer = json.loads(line)
        sound = outer["sha"] == sha256_text(canonical_json(outer["row"]))[:16]
        return (outer["row"],) if sound else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _refuse(constant: str) -> NoReturn:
    """Raise ValueError for a constant that JSON does not have, such as NaN."""
    raise ValueError(f"{constant} is no JSON")


def _finite(number: str) -> float:
    """Return a number as a float; one too large for a float raises ValueError."""
    value = float(number)
    return value if isfinite(value) else _refuse(number)


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
