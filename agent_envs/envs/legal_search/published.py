"""Libraries and questions that are not generated here are loaded by name or file.

| name | library | questions |
|---|---|---|
| `dc_code` | 3,867 sections of the D.C. Code below AGENT_ENVS_DATA | templates over the text, the sound ones |
| `contracts` | 164 real agreements and policies, there too | none: a corpus for `python -m benchmarks.make_qa` |
| FILE.json | CUAD's contracts, or the texts of LegalBench-RAG | theirs |
| FILE.jsonl | nodes, or what `benchmarks.make_qa` was given | none, or what it wrote |
| a folder | its .txt and .md files | none |

CUAD and LegalBench-RAG mark character spans in plain texts. A text becomes a document of pieces of about 150 words; the pieces
that hold a marked span are the sections that must be read, and the marked text is the answer, compared by token F1.
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

from agent_envs.base.errors import DataMissing, UsageError
from agent_envs.datasets.catalogue import DATA_FOLDER_VARIABLE
from agent_envs.datasets.safe_rows import DOCUMENT_LIMIT_BYTES, DataRow, json_lines
from agent_envs.envs.legal_search.library import Library, Section
from agent_envs.envs.legal_search.node_files import (
    document,
    make_library,
    overlapping,
    pieces,
    read_nodes,
    read_text,
    read_texts,
)
from agent_envs.envs.legal_search.question_files import SPLITS, LegalRow, RowsSource

Read = tuple[Library, list[LegalRow]]
FORMAT = "agent-envs/legal-questions@1"
LIBRARIES = {"dc_code": "dc_code_nodes.jsonl", "contracts": "contracts_nodes.jsonl"}
_CITED = re.compile(r"\b\d+[A-Z]?(?::\d+[A-Z]?)?-\d+(?:\.\d+)?[a-z]*\b")
_METRICS = {"token_f1": "f1"}


def read_contracts(path: Path) -> Read:
    """Read CUAD ("data") or LegalBench-RAG ("tests") from JSON; DataMissing if absent, UsageError for others or damage.

    Raises:
        DataMissing: a file that it needs is not there.
        UsageError: it is of neither format, or damaged.
    """
    if not path.is_file():
        raise DataMissing(f"no question file at {path}")
    if path.stat().st_size > DOCUMENT_LIMIT_BYTES:
        raise UsageError(f"{path}: larger than {DOCUMENT_LIMIT_BYTES:,} bytes")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON ({error})") from None
    whole = DataRow(str(path), content)
    if "data" in whole.fields:
        return _cuad(path, whole)
    if "tests" in whole.fields:
        return _legalbench_rag(path, whole)
    keys = ", ".join(sorted(map(str, whole.fields)))
    raise UsageError(f'{path}: neither CUAD ("data") nor LegalBench-RAG ("tests"); its keys are {keys}')


def _cuad(path: Path, whole: DataRow) -> Read:
    """Read CUAD's contracts and questions, each with its contract's name before it; UsageError where a text is missing."""
    sections: list[Section] = []
    rows: list[LegalRow] = []
    for contract in _rows(whole, "data"):
        paragraphs = list(_rows(contract, "paragraphs"))
        for number, paragraph in enumerate(paragraphs, 1):
            title = contract.text("title") + (f" ({number})" if len(paragraphs) > 1 else "")
            text = paragraph.fields.get("context")
            if not isinstance(text, str):
                raise paragraph.fail("context", "a text")
            sections += document(title, text)
            rows += [_cuad_row(row, title, text) for row in _rows(paragraph, "qas")]
    return make_library(path.stem, sections, str(path)), rows


def _cuad_row(row: DataRow, title: str, text: str) -> LegalRow:
    """Return a CUAD question as a row; UsageError where an answer does not stand in the contract where it says."""
    spans = []
    for answer in _rows(row, "answers", needed=False):
        answer.text("text")
        words, start = str(answer.fields["text"]), answer.fields.get("answer_start")
        if type(start) is not int or start < 0 or not text.startswith(words, start):
            raise answer.fail("answer_start", "where the answer begins in the contract")
        spans.append((start, start + len(words)))
    kind = row.text("id").rpartition("__")[2]
    question = f'Agreement "{title}": {row.text("question")}'
    return _row(row.text("id"), kind, question, [(title, text, span) for span in spans])


def _legalbench_rag(path: Path, whole: DataRow) -> Read:
    """Read a LegalBench-RAG file, with all texts of its folders; DataMissing without a folder `corpus` or a text."""
    folders = [path.parent / "corpus", path.parent.parent / "corpus"]
    folder = next((place for place in folders if place.is_dir()), None)
    if folder is None:
        raise DataMissing(f"{path}: its texts are in neither {folders[0]} nor {folders[1]}")
    texts: dict[str, str] = {}
    rows: list[LegalRow] = []
    for number, test in enumerate(_rows(whole, "tests"), 1):
        marked = []
        for snippet in _rows(test, "snippets"):
            name = snippet.text("file_path")
            if name not in texts:
                texts[name] = _corpus_text(folder, name, snippet)
            marked.append((name, texts[name], _span(snippet, texts[name])))
        if not marked:
            raise test.fail("snippets", "a list with a snippet at least")
        rows.append(_row(f"{path.stem}-{number}", path.stem, test.text("query"), marked))
    # All that lies beside the asked files belongs to the search, too: those that answer nothing are the hay.
    for place in sorted({(folder / name).parent for name in texts}):
        for file in sorted(place.glob("*.txt")):
            texts.setdefault(file.relative_to(folder).as_posix(), "")
    sections = [part for name in sorted(texts) for part in document(name, texts[name] or read_text(folder / name))]
    return make_library(path.stem, sections, str(path)), rows


def _corpus_text(folder: Path, name: str, snippet: DataRow) -> str:
    """Return the text that a snippet names; UsageError for a path out of the folder, DataMissing for a missing file."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise snippet.fail("file_path", "a path inside the folder of texts")
    if not path.is_file():
        raise DataMissing(f"{snippet.where}: no text at {path}")
    return read_text(path)


def _span(snippet: DataRow, text: str) -> tuple[int, int]:
    """Return a snippet's character offsets; UsageError unless they are two whole numbers in order inside its text."""
    span = snippet.fields.get("span")
    numbers = span if isinstance(span, list) else []
    if len(numbers) != 2 or not all(type(place) is int for place in numbers) or not 0 <= numbers[0] < numbers[1]:
        raise snippet.fail("span", "two character offsets")
    if numbers[1] > len(text):
        raise snippet.fail("span", f"inside its text of {len(text)} characters")
    return numbers[0], numbers[1]


def _row(identity: str, kind: str, question: str, marked: list[tuple[str, str, tuple[int, int]]]) -> LegalRow:
    """Return marked spans as a row: all in order, and each, are accepted answers (f1); without spans one to abstain from."""
    quotes = [" ".join(text[start:end].split()) for _, text, (start, end) in marked]
    answers = tuple(dict.fromkeys([" ".join(quotes), *quotes])) if quotes else ()
    places: dict[str, None] = {}
    for title, text, span in marked:
        places.update(dict.fromkeys(overlapping(title, pieces(text), [span])))
    cluster = marked[0][0] if marked else identity.rpartition("__")[0] or identity
    return LegalRow(identity, "test", kind, question, answers, "f1" if answers else "abstain", tuple(places), cluster)


def _rows(row: DataRow, field: str, needed: bool = True) -> Iterator[DataRow]:
    """Yield a list field's entries as rows that know their place; none where it is missing and not needed, else UsageError."""
    entries: Any = row.fields.get(field)
    if entries is None and not needed:
        return
    if not isinstance(entries, list):
        raise row.fail(field, "a list")
    for number, item in enumerate(entries, 1):
        yield DataRow(f"{row.where}, {field} {number}", item)


def load_library(name: str) -> Library:
    """Return a library by name or path, files cached until they change; DataMissing if absent, UsageError for a bad file.

    Args:
        name: `dc_code`, `contracts`, a file of nodes (.jsonl), a question file (.json, .jsonl), or a folder of texts.

    Raises:
        DataMissing: it is not on this machine; the message says where it was looked for.
        UsageError: a file that is none of these.
    """
    path = _folder() / LIBRARIES[name] if name in LIBRARIES else Path(name).expanduser()
    if not path.exists():
        names = ", ".join(LIBRARIES)
        raise DataMissing(f"library {name}: nothing at {path}. The names are {names}, a .jsonl or .json file, a folder")
    if path.is_dir():
        return read_texts(path, path.name)
    if path.suffix.lower() == ".json":
        return read_contracts(path)[0]
    _, size, changed = _state(path)
    if _is_question_file(path):
        return _benchmark(path, size, changed).shared
    return _nodes(name if name in LIBRARIES else path.stem, path, size, changed)


def legal_source(name: str) -> RowsSource:
    """Return a name's or file's questions, cached until it changes; DataMissing if absent, UsageError for a bad one.

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
        reason = (
            "it is a corpus without questions; python -m benchmarks.make_qa makes some"
            if name in LIBRARIES
            else "unknown"
        )
        raise UsageError(f"LegalSearch: tasks={name!r}: {reason}. Give statutes, dc_code or a question file")
    if not path.is_file():
        raise DataMissing(f"no question file at {path}")
    read = _contracts if path.suffix.lower() == ".json" else _benchmark
    return read(*_state(path))


def _folder() -> Path:
    """Return the folder `legal` of AGENT_ENVS_DATA, whether or not it is there; DataMissing where that is not set."""
    if not os.environ.get(DATA_FOLDER_VARIABLE):
        raise DataMissing(
            f"the data folder is not known: set {DATA_FOLDER_VARIABLE}; the legal data lie in its `legal`"
        )
    return Path(os.environ[DATA_FOLDER_VARIABLE]) / "legal"


def _state(path: Path) -> tuple[Path, int, int]:
    """Return a file's path, size and time of change, the key by which what is read from it is cached."""
    state = path.stat()
    return path.absolute(), state.st_size, state.st_mtime_ns


def _is_question_file(path: Path) -> bool:
    """Return whether the first row of a file names the format of questions; False for an empty file."""
    first = next(json_lines(path), None)
    return first is not None and first.fields.get("format") == FORMAT


@lru_cache(maxsize=8)
def _nodes(name: str, path: Path, size: int, changed_ns: int) -> Library:
    """Read a file of nodes as a library, cached until its size or time changes."""
    return read_nodes(path, name)


@lru_cache(maxsize=8)
def _contracts(path: Path, size: int, changed_ns: int) -> RowsSource:
    """Read a file of contracts as a source, cached until its size or time changes."""
    library, rows = read_contracts(path)
    return RowsSource(path.stem, library, rows, str(path))


@lru_cache(maxsize=4)
def _dc_code(library: Library, files: tuple[tuple[Path, int, int], ...]) -> RowsSource:
    """Return the D.C. Code's sound questions, cached; a single file is split by cluster, 3 : 1 : 1, into train, dev, test."""
    rows = [_dc_row(row, path.parent.name) for path, _, _ in files for row in json_lines(path)]
    rows = [row for row in rows if not unsound(row, library)]
    if len(files) == 1:  # one file of questions becomes three splits, in which no section stands twice
        # Train three times as often as either of the others.
        splits = ("train", "train", "train", "dev", "test")
        rows = [replace(row, split=splits[crc32(row.cluster.encode()) % len(splits)]) for row in rows]
    return RowsSource("dc_code", library, rows, str(files[0][0].parent.parent))


def unsound(row: LegalRow, library: Library) -> str:
    """Return the fault of a question made by a template (its citations, a heading not unique); "" where it is sound.

    The template says that a section refers to exactly one other, and names places by their headings alone; neither need hold.
    """
    quoted = re.search(r'(?:section headed|provisions on) "(.*?)"', row.question)
    if quoted is None:
        return ""
    own = library.sections.get(row.sections[0]) if row.sections else None
    if row.kind == "cross_reference" and own and len(set(_CITED.findall(own.text)) - {own.number}) != 1:
        return "it cites several sections, or none"
    matches = [
        row for row in library.sections.values() if row.heading.strip(" .").lower() == quoted[1].strip(" .").lower()
    ]
    return "" if len(matches) == 1 else "its heading is not unique"


def _dc_row(row: DataRow, split: str) -> LegalRow:
    """Return a question; one not answerable gets no answers or sections. `hidden_answers` is never read."""
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
    """Raise UsageError where a question file's library, followed from file to file, leads back to one met before."""
    visited: set[Path] = set()
    place = path
    while place.is_file() and place.suffix.lower() == ".jsonl" and _is_question_file(place):
        if place.resolve() in visited:
            raise UsageError(f"{path}: the file that it names as its library leads back to {place.name}")
        visited.add(place.resolve())
        name = next(json_lines(place)).text("library")
        if name in LIBRARIES:
            return
        place = place.parent / name


@lru_cache(maxsize=8)
def _benchmark(path: Path, size: int, changed_ns: int) -> BenchmarkSource:
    """Open a file of questions as a source, cached until its size or time changes."""
    return BenchmarkSource(path)


def _question(row: DataRow) -> LegalRow:
    """Return a row of a question file as a question; UsageError where a field is missing."""
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
    """Return a library without some sections and all below; UsageError where one of them is not in it."""
    lost = sorted(removed - library.sections.keys())
    if lost:
        raise UsageError(f"library {library.name}: there is no section {lost[0]!r} to take out")
    return library.without(removed)
