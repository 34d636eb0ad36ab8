"""Rows of untrusted files are read: lines are bounded, nothing is evaluated, and every complaint says where it stands."""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_envs.base.errors import UsageError

LINE_LIMIT_BYTES = 4_000_000
DOCUMENT_LIMIT_BYTES = 2_000_000_000

Labels = tuple[tuple[str, str], ...]


class DataRow:
    """One row of a file, and where it stands."""

    def __init__(self, where: str, fields: object) -> None:
        """Take the place (file and line) and the fields; a row that is no object is a UsageError."""
        self.where = where
        if not isinstance(fields, Mapping):
            raise UsageError(f"{where}: a row must be an object, found {type(fields).__name__}")
        self.fields: Mapping[str, Any] = fields

    def fail(self, field: str, expected: str) -> UsageError:
        """Return the UsageError that names the place and the field, as missing or with what it must be."""
        state = f"field {field!r} must be {expected}" if field in self.fields else f"field {field!r} is missing"
        return UsageError(f"{self.where}: {state}")

    def text(self, field: str) -> str:
        """Return a text, stripped (a whole number counts as one); UsageError where it is missing, empty or anything else."""
        value = self.fields.get(field)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise self.fail(field, "a text that is not empty")

    def optional(self, field: str) -> str:
        """Return a text, or "" where the field is missing or empty; UsageError for what is no text."""
        return self.text(field) if self.fields.get(field) not in (None, "") else ""

    def texts(self, field: str, needed: bool = True) -> list[str]:
        """Return a list of texts (a bare text counts as one); [] where it is missing and not `needed`, else UsageError."""
        value = self.fields.get(field)
        if value is None and not needed:
            return []
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(item, str) for item in texts):
            raise self.fail(field, "a list of texts")
        return texts

    def inner(self, field: str) -> "DataRow":
        """Return the object inside a field as a row that knows its place; UsageError where there is none."""
        if not isinstance(self.fields.get(field), Mapping):
            raise self.fail(field, "an object")
        return DataRow(f"{self.where}, in {field!r}", self.fields[field])

    def labels(self, *fields: str) -> Labels:
        """Return those of the fields that are texts and not empty, as (field, text) pairs in the order asked for."""
        fields_and_values = ((field, self.fields.get(field)) for field in fields)
        return tuple((field, value) for field, value in fields_and_values if isinstance(value, str) and value)


def _decode(where: str, data: bytes | str) -> Any:
    """Parse JSON; UsageError with the place where it is none, or nested too deep."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON ({error})") from None


def _lines(path: Path) -> Iterator[str]:
    """Yield a file's lines as text; UsageError names one that is too long or not UTF-8."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LINE_LIMIT_BYTES + 1):
            number += 1
            if len(line) > LINE_LIMIT_BYTES:
                raise UsageError(f"{path}, line {number}: longer than {LINE_LIMIT_BYTES:,} bytes")
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise UsageError(f"{path}, line {number}: not UTF-8 ({error.reason})") from None


def json_lines(path: Path) -> Iterator[DataRow]:
    """Yield the rows of a JSONL file with their places; empty lines are left out, a line that is no JSON raises UsageError."""
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            where = f"{path}, line {number}"
            yield DataRow(where, _decode(where, line))


def json_list(path: Path) -> Iterator[DataRow]:
    """Yield the rows of a JSON file: a list, or an object whose "Data" is one; UsageError for others and for huge files."""
    if path.stat().st_size > DOCUMENT_LIMIT_BYTES:
        raise UsageError(f"{path}: larger than {DOCUMENT_LIMIT_BYTES:,} bytes")
    content = _decode(str(path), path.read_bytes())
    rows = content.get("Data") if isinstance(content, dict) else content
    if not isinstance(rows, list):
        keys = sorted(content) if isinstance(content, dict) else type(content).__name__
        raise UsageError(f"{path}: neither a list of rows nor an object with a list 'Data'; found {keys}")
    for number, fields in enumerate(rows, 1):
        yield DataRow(f"{path}, row {number}", fields)


def table(path: Path) -> Iterator[DataRow]:
    """Yield the rows of a TSV or CSV file (tabs in the header line decide); UsageError where a line cannot be read."""
    lines = _lines(path)
    # PopQA publishes tabs and Bamboogle commas, each also found under the other ending: the header line decides.
    header = next(lines, "")
    delimiter = "\t" if "\t" in header else ","
    number = 0
    try:
        names = next(csv.reader([header], delimiter=delimiter), [])
        reader = csv.DictReader(lines, names, delimiter=delimiter)
        for fields in reader:
            number = reader.line_num
            yield DataRow(f"{path}, line {number + 1}", fields)
    except csv.Error as error:
        raise UsageError(f"{path}, after line {number}: {error}") from None
