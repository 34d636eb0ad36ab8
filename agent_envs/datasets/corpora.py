"""A corpus in a JSONL file is memory-mapped: millions of passages cost the RAM of the pages that are touched."""

import hashlib
import json
import mmap
import operator
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agent_envs.base.caches import Uncopied, cache_dir, write_atomically
from agent_envs.base.documents import Passage
from agent_envs.base.errors import DataMissing, UsageError

Progress = Callable[[int, int], None]
"""Called with the bytes handled so far and their total, -1 where it is unknown."""

Offsets = npt.NDArray[np.int64]

_SCAN_BYTES = 8 << 20
_LOOKED_AT_ROWS = 3
_QUESTION_KEYS = {"question", "golden_answers", "answer", "answers", "Question"}


def _scan(path: Path, progress: Progress | None) -> tuple[Offsets, str]:
    """Return the offsets of rows that are not blank (last the end of the file) and the sha256 of the bytes, in one pass."""
    size = path.stat().st_size
    sha256 = hashlib.sha256()
    starts: list[Offsets] = [np.zeros(1, dtype=np.int64)]
    position = 0
    with path.open("rb") as file:
        while chunk := file.read(_SCAN_BYTES):
            sha256.update(chunk)
            breaks = np.flatnonzero(np.frombuffer(chunk, dtype=np.uint8) == ord("\n"))
            starts.append(breaks.astype(np.int64) + (position + 1))
            position += len(chunk)
            if progress is not None:
                progress(position, size)
    bounds = np.concatenate(starts)
    if bounds[-1] != position:
        bounds = np.append(bounds, position)
    # An empty line ("\n" or "\r\n") is no row; its bytes become trailing white space of the row before it.
    return np.append(bounds[:-1][np.diff(bounds) > 2], position), sha256.hexdigest()


def _read_index(stem: Path) -> tuple[Offsets, str] | None:
    """Load the offsets and digest of an indexed corpus, or None if the files are missing or damaged."""
    try:
        digest = json.loads(stem.with_suffix(".json").read_bytes())["sha256"]
        offsets = np.asarray(np.load(stem.with_suffix(".npy"), mmap_mode="r", allow_pickle=False))
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None
    return (offsets, digest) if offsets.dtype == np.int64 and offsets.ndim == 1 and len(offsets) else None


def _index(path: Path, progress: Progress | None) -> tuple[Offsets, str]:
    """Return a corpus file's row offsets and sha256, from the cache while the file is unchanged, else by a scan to cache."""
    state = path.stat()
    key = json.dumps([str(path), state.st_size, state.st_mtime_ns]).encode("utf-8", "surrogatepass")
    stem = cache_dir() / "corpora" / hashlib.sha256(key).hexdigest()[:24]
    index = _read_index(stem)
    if index is not None and int(index[0][-1]) == state.st_size:
        return index
    offsets, digest = _scan(path, progress)
    try:
        write_atomically(stem.with_suffix(".npy"), lambda file: np.save(file, offsets, allow_pickle=False))
        # The digest goes last: a reader that finds it finds the offsets, too.
        note = json.dumps({"sha256": digest, "path": str(path)}).encode()
        write_atomically(stem.with_suffix(".json"), lambda file: file.write(note))
    except OSError:
        # A cache that cannot be written costs the next process a scan, and this one nothing.
        return offsets, digest
    return _read_index(stem) or (offsets, digest)


class FileCorpus(Uncopied):
    """The passages of a JSONL file, rows `{id, title, text}` or Search-R1's `{id, contents}` (quoted title, then text).

    Byte offsets and the digest (sha256 of the file's bytes) are kept in the cache folder, keyed by path, size and time
    of change, so that only the first opening reads the whole file. The file must not be changed while it is open.
    """

    def __init__(self, path: Path | str, progress: Progress | None = None) -> None:
        """Open a corpus and index it where that was not done before.

        Args:
            path: the JSONL file.
            progress: called while the file is read for the first time.

        Raises:
            DataMissing: there is no such file.
            UsageError: the file holds something else than passages.
        """
        self.path = Path(path).absolute()
        if not self.path.is_file():
            raise DataMissing(f"no corpus at {self.path}")
        if self.path.suffix == ".gz":
            raise UsageError(f"{self.path} is compressed: unpack it first (gzip -d)")
        if not self.path.stat().st_size:
            raise UsageError(f"{self.path} is empty: a corpus needs at least one passage")
        with self.path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            # Before the scan: a wrong file of many gigabytes should be refused at its first line.
            for number in range(1, _LOOKED_AT_ROWS + 1):
                if line := file.readline(_SCAN_BYTES).strip():
                    self._passage(line, f"line {number}")
        self._offsets, self.digest = _index(self.path, progress)
        if not len(self):
            raise UsageError(f"{self.path} holds nothing but empty lines")
        self._rows: dict[str, int] | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> Passage:
        """Return a passage by row; negative rows count from the end, and IndexError is raised beyond it."""
        number = operator.index(row)
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise IndexError(f"row {row} of a corpus of {len(self)} passages")
        start, end = self._offsets[number : number + 2].tolist()
        return self._passage(self._bytes[start:end], f"row {number}")

    def row(self, passage_id: str) -> int:
        """Return the row of an id; KeyError where there is none, UsageError where the map meets an id twice.

        Ids that are their row's number, as in wiki-18, need no map; for others it is built at the first call.
        """
        if passage_id.isascii() and passage_id.isdigit():
            guess = int(passage_id[:18])
            if guess < len(self) and self[guess].id == passage_id:
                return guess
        with self._lock:
            if self._rows is None:
                rows: dict[str, int] = {}
                for number in range(len(self)):
                    name = self[number].id
                    if rows.setdefault(name, number) != number:
                        raise UsageError(f"{self.path}, row {number}: the id {name!r} stands on row {rows[name]}, too")
                self._rows = rows
        return self._rows[passage_id]

    def _passage(self, line: bytes, where: str) -> Passage:
        """Parse a line as a passage in either form; UsageError with the place for any other."""
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{self.path}, {where}: not JSON ({error})") from None
        if not isinstance(fields, Mapping):
            raise UsageError(f"{self.path}, {where}: a passage must be an object, found {type(fields).__name__}")
        identity, title, text = fields.get("id"), fields.get("title"), fields.get("text")
        if isinstance(fields.get("contents"), str) and text is None:
            head, _, text = fields["contents"].partition("\n")
            title = head[1:-1] if len(head) > 1 and head[0] == head[-1] == '"' else head
        if isinstance(identity, int):
            identity = str(identity)
        if isinstance(identity, str) and isinstance(title, str) and isinstance(text, str):
            return Passage(identity, title, text)
        raise self._refusal(where, fields)

    def _refusal(self, where: str, fields: Mapping[str, Any]) -> UsageError:
        """Return the UsageError for a row that is no passage; it says so if the file seems one of questions."""
        keys = ", ".join(sorted(fields))
        if _QUESTION_KEYS & set(fields):
            return UsageError(f"{self.path} is a question file, not a corpus ({where} has the keys {keys})")
        form = "{id, title, text} or {id, contents}, all texts"
        return UsageError(f"{self.path}, {where}: a passage needs {form}; found the keys {keys}")
