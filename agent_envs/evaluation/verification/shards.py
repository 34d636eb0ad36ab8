"""Shards of rows that a stranger packed are read under limits, which are counted while they are unpacked."""

import zlib
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.submission.episode_rows import (
    MOST_LINE_BYTES,
    MOST_RATIO,
    MOST_ROWS,
    MOST_SHARD_BYTES,
    EpisodeRow,
    chain_of,
    row_text,
)
from agent_envs.evaluation.suites.suite import first_fault

_CHUNK = 1 << 20
_TOO_MUCH = "more rows or bytes than the format allows"
_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"  # no flags, no time; level and system as gzip.GzipFile writes them


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield a shard's lines, without their ends; UsageError for another header, an unended line, or more than the limits.

    Raises:
        UsageError: it is no gzip file of one member with the one header, or larger, longer or denser than the format allows;
            counted while it is unpacked.
    """
    size = path.stat().st_size
    left = min(MOST_SHARD_BYTES, MOST_RATIO * size)
    if size > MOST_SHARD_BYTES + _CHUNK:
        raise UsageError(f"{path}: {size:,} bytes are more than a shard has")
    rows, rest = 0, b""
    for chunk in _unpack(path):
        left -= len(chunk)
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            rows += 1
            if left < 0 or rows > MOST_ROWS or len(line) >= MOST_LINE_BYTES:
                raise UsageError(f"{path}: line {rows}: {_TOO_MUCH}")
            yield line
        if left < 0 or len(rest) >= MOST_LINE_BYTES:
            raise UsageError(f"{path}: line {rows + 1}: {_TOO_MUCH}")
    if rest:
        raise UsageError(f"{path}: line {rows + 1} has no end")


def _unpack(path: Path) -> Iterator[bytes]:
    """Yield the content of a gzip file of one member, in bounded pieces; UsageError where it is no sound shard."""
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        with path.open("rb") as file:
            head = file.read(len(_HEADER))
            if head != _HEADER:
                why = "its header is another" if head[:2] == _HEADER[:2] else "it is none"
                raise UsageError(f"{path} is no sound gzip file: {why} than a shard's, which has no time and no name")
            data = head
            while data and not unpacking.eof:
                yield unpacking.decompress(data, _CHUNK)
                data = unpacking.unconsumed_tail or file.read(_CHUNK)
            if not unpacking.eof:
                raise UsageError(f"{path} is no sound gzip file: it is cut")
            if unpacking.unused_data or data or file.read(1):
                raise UsageError(f"{path} is no sound gzip file of a shard: something follows its one member")
    except (OSError, zlib.error) as error:
        raise UsageError(f"{path} is no sound gzip file: {error}") from None


def read_episode_rows(path: Path) -> Iterator[EpisodeRow]:
    """Yield the rows of a shard of episodes; UsageError for a line that is malformed, not canonical, or of another chain.

    Raises:
        UsageError: beyond `read_lines`, a line is not the one text of an episode row, or its chain is another.
    """
    for number, line in enumerate(read_lines(path), start=1):
        where = f"{path}: line {number}"
        try:
            row = EpisodeRow.model_validate_json(line)
        except ValidationError as error:
            raise UsageError(f"{where}: {first_fault(error)}") from None
        # One value has one text, so repeated keys and other spellings of a number come to light here.
        if row_text(row).encode() != line:
            raise UsageError(f"{where} is not in canonical form")
        if chain_of(row) != row.chain:
            raise UsageError(f"{where}: episode {row.key} was changed: its chain is another")
        yield row
