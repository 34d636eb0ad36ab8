"""Libraries and questions that are not generated here are loaded by name or file.

| name | library | questions |
|---|---|---|
| `dc_code` | 3,867 sections of the D.C. Code below AGENT_ENVS_DATA | templates over the text, the sound ones |
| `contracts` | 164 real agreements and policies, there too | none: a corpus for `python -m benchmarks.make_qa` |
| FILE.json | CUAD's contracts, or the texts of LegalBench-RAG | theirs |
| FILE.jsonl | nodes, or what `benchmarks.make_qa` was given | none, or what it wrote |
| a folder | its .txt and .md files | none |
"""

import os
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from zlib import crc32

from agent_envs.base.errors import DataMissing, UsageError
from agent_envs.datasets.catalogue import DATA_FOLDER_VARIABLE
from agent_envs.datasets.safe_rows import Row, json_lines
from agent_envs.envs.legal_search.contract_files import read_contracts
from agent_envs.envs.legal_search.library import Library
from agent_envs.envs.legal_search.node_files import read_nodes, read_texts
from agent_envs.envs.legal_search.question_files import SPLITS, LegalRow, RowsSource

FORMAT = "agent-envs/legal-questions@1"
LIBRARIES = {"dc_code": "dc_code_nodes.jsonl", "contracts": "contracts_nodes.jsonl"}
_CITED = re.compile(r"\b\d+[A-Z]?(?::\d+[A-Z]?)?-\d+(?:\.\d+)?[a-z]*\b")
_METRICS = {"token_f1": "f1"}


def load_library(name: str) -> Library:
    """Return a library by name, shared in a process while its file stays as it is.

    Args:
        name: `dc_code`, `contracts`, a file of nodes (.jsonl), a question file (.json, .jsonl), or a folder of texts.

    Raises:
        DataMissing: it is not on this machine; the message says where it was looked for.
        UsageError: a file that is none of these.
    """
    path = _place(name)
    if path.is_dir():
        return read_texts(path, path.name)
    if path.suffix.lower() == ".json":
        return read_contracts(path)[0]
    _, size, changed = _state(path)
    if _is_question_file(path):
        return _benchmark(path, size, changed).shared
    return _nodes(name if name in LIBRARIES else path.stem, path, size, changed)


def legal_source(name: str) -> RowsSource:
    """Return the questions of a name, shared in a process while their file stays as it is.

    Args:
        name: `dc_code`; or a file of CUAD's or LegalBench-RAG's format (.json) or of `python -m benchmarks.make_qa` (.jsonl).

    Raises:
        DataMissing: they are not on this machine; the message says where they were looked for.
        UsageError: an unknown name, or a file that is none of these.
    """
    if name == "dc_code":
        splits = tuple(path for split in SPLITS if (path := _folder() / split / "dc_code_qa.jsonl").is_file())
        if not splits:
            raise DataMissing(f"dc_code: no questions at {_folder() / 'dev' / 'dc_code_qa.jsonl'}")
        return _dc_code(load_library(name), tuple(_state(path) for path in splits))
    path = Path(name).expanduser()
    if name in LIBRARIES or path.suffix.lower() not in (".json", ".jsonl"):
        told = (
            "it is a corpus without questions; python -m benchmarks.make_qa makes some"
            if name in LIBRARIES
            else "unknown"
        )
        raise UsageError(f"LegalSearch: tasks={name!r}: {told}. Give statutes, dc_code or a question file")
    if not path.is_file():
        raise DataMissing(f"no question file at {path}")
    read = _contracts if path.suffix.lower() == ".json" else _benchmark
    return read(*_state(path))


def _folder() -> Path:
    if not os.environ.get(DATA_FOLDER_VARIABLE):
        raise DataMissing(
            f"the data folder is not known: set {DATA_FOLDER_VARIABLE}; the legal data lie in its `legal`"
        )
    return Path(os.environ[DATA_FOLDER_VARIABLE]) / "legal"


def _place(name: str) -> Path:
    path = _folder() / LIBRARIES[name] if name in LIBRARIES else Path(name).expanduser()
    if not path.exists():
        known = ", ".join(LIBRARIES)
        raise DataMissing(f"library {name}: nothing at {path}. The names are {known}, a .jsonl or .json file, a folder")
    return path


def _state(path: Path) -> tuple[Path, int, int]:
    state = path.stat()
    return path.absolute(), state.st_size, state.st_mtime_ns


def _is_question_file(path: Path) -> bool:
    first = next(json_lines(path), None)
    return first is not None and first.fields.get("format") == FORMAT


@lru_cache(maxsize=8)
def _nodes(name: str, path: Path, size: int, changed_ns: int) -> Library:
    return read_nodes(path, name)


@lru_cache(maxsize=8)
def _contracts(path: Path, size: int, changed_ns: int) -> RowsSource:
    library, rows = read_contracts(path)
    return RowsSource(path.stem, library, rows, str(path))


@lru_cache(maxsize=4)
def _dc_code(library: Library, files: tuple[tuple[Path, int, int], ...]) -> RowsSource:
    rows = [_dc_row(row, path.parent.name) for path, _, _ in files for row in json_lines(path)]
    rows = [row for row in rows if not unsound(row, library)]
    if len(files) == 1:  # one file of questions becomes three splits, in which no section stands twice
        rows = [replace(row, split=_split_of(row.cluster)) for row in rows]
    return RowsSource("dc_code", library, rows, str(files[0][0].parent.parent))


def unsound(row: LegalRow, library: Library) -> str:
    """Return why a question made by a template is not served, "" for one that is.

    The template says that a section refers to exactly one other, and names places by their headings alone; neither need hold.
    """
    quoted = re.search(r'(?:section headed|provisions on) "(.*?)"', row.question)
    if quoted is None:
        return ""
    own = library.sections.get(row.sections[0]) if row.sections else None
    if row.kind == "cross_reference" and own is not None:
        if len(set(_CITED.findall(own.text)) - {own.number}) != 1:
            return "it cites several sections, or none"
    named = [
        row for row in library.sections.values() if row.heading.strip(" .").lower() == quoted[1].strip(" .").lower()
    ]
    return "" if len(named) == 1 else "its heading is not unique"


def _split_of(cluster: str) -> str:
    """Return one of the splits, train three times as often as either of the others."""
    return ("train", "train", "train", "dev", "test")[crc32(cluster.encode()) % 5]


def _dc_row(row: Row, split: str) -> LegalRow:
    """Return a question. What stands in `hidden_answers` is not read at all, so that it can show nowhere."""
    answerable = bool(row.fields.get("answerable"))
    sections = tuple(row.texts("support")) if answerable else ()
    metric = row.text("metric")
    return LegalRow(
        id=row.text("id"),
        split=split,
        kind=row.text("type"),
        question=row.text("question"),
        answers=tuple(row.texts("answers")) if answerable else (),
        metric=_METRICS.get(metric, metric),
        sections=sections,
        cluster=sections[0] if sections else row.text("id"),
    )


class BenchmarkSource(RowsSource):
    """The questions that `python -m benchmarks.make_qa` wrote, over the library that it was given without what it took out."""

    def __init__(self, path: Path) -> None:
        """Read the file: a first row that names format, library, digest and removed sections, then a row a question.

        Raises UsageError: the library is not the one that the questions were made from, or a row is bad.
        """
        rows = json_lines(path)
        head = next(rows, None)
        if head is None or head.fields.get("format") != FORMAT:
            raise UsageError(f"{path}: its first row is none of {FORMAT}, which `python -m benchmarks.make_qa` writes")
        name = head.text("library")
        _refuse_circle(path)
        whole = load_library(name if name in LIBRARIES else str(path.parent / name))
        if whole.digest != head.text("digest"):
            raise UsageError(f"{path}: {name} is not the library that its questions were made from")
        self.shared = without(whole, frozenset(head.texts("removed", needed=False)))
        super().__init__(path.stem, self.shared, (_question(row) for row in rows), str(path))


def _refuse_circle(path: Path) -> None:
    """Follow a question file's library, which may be another question file, to its end."""
    seen: set[Path] = set()
    place = path
    while place.is_file() and place.suffix.lower() == ".jsonl" and _is_question_file(place):
        if place.resolve() in seen:
            raise UsageError(f"{path}: the file that it names as its library leads back to {place.name}")
        seen.add(place.resolve())
        name = next(json_lines(place)).text("library")
        if name in LIBRARIES:
            return
        place = place.parent / name


@lru_cache(maxsize=8)
def _benchmark(path: Path, size: int, changed_ns: int) -> BenchmarkSource:
    return BenchmarkSource(path)


def _question(row: Row) -> LegalRow:
    return LegalRow(
        id=row.text("id"),
        split=row.text("split"),
        kind=row.text("kind"),
        question=row.text("question"),
        answers=tuple(row.texts("answers")),
        metric=row.text("metric"),
        sections=tuple(row.texts("sections")),
        cluster=row.text("cluster"),
    )


def without(library: Library, removed: frozenset[str]) -> Library:
    """Return a library without some of its sections and all below them; raises UsageError where one of them is not in it."""
    lost = sorted(removed - library.sections.keys())
    if lost:
        raise UsageError(f"library {library.name}: there is no section {lost[0]!r} to take out")
    return library.without(removed)
