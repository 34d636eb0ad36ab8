"""Published contract questions are read from CUAD's file and from benchmarks in the format of LegalBench-RAG.

Both mark character spans in plain texts. A text becomes a document of pieces of about 150 words; the pieces that hold a
marked span are the sections that must be read, and the marked text is the answer, compared by token F1.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent_envs.base.errors import DataMissing, UsageError
from agent_envs.datasets.safe_rows import DOCUMENT_LIMIT_BYTES, Row
from agent_envs.envs.legal_search.library import Library, Section
from agent_envs.envs.legal_search.node_files import document, make_library, overlapping, pieces, read_text
from agent_envs.envs.legal_search.question_files import LegalRow

Read = tuple[Library, list[LegalRow]]


def read_contracts(path: Path) -> Read:
    """Read a JSON file in either format, told apart by its keys: "data" (CUAD) or "tests" (LegalBench-RAG).

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
    whole = Row(str(path), content)
    if "data" in whole.fields:
        return _cuad(path, whole)
    if "tests" in whole.fields:
        return _legalbench_rag(path, whole)
    found = ", ".join(sorted(map(str, whole.fields)))
    raise UsageError(f'{path}: neither CUAD ("data") nor LegalBench-RAG ("tests"); its keys are {found}')


def _cuad(path: Path, whole: Row) -> Read:
    """Read contracts with SQuAD 2.0's fields; a question asks about one contract, so its name is put before it."""
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


def _cuad_row(row: Row, title: str, text: str) -> LegalRow:
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


def _legalbench_rag(path: Path, whole: Row) -> Read:
    """Read a benchmark; its texts lie in the folder `corpus` beside it or beside its folder, as they are published."""
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


def _corpus_text(folder: Path, name: str, snippet: Row) -> str:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise snippet.fail("file_path", "a path inside the folder of texts")
    if not path.is_file():
        raise DataMissing(f"{snippet.where}: no text at {path}")
    return read_text(path)


def _span(snippet: Row, text: str) -> tuple[int, int]:
    span = snippet.fields.get("span")
    numbers = span if isinstance(span, list) else []
    if len(numbers) != 2 or not all(type(place) is int for place in numbers) or not 0 <= numbers[0] < numbers[1]:
        raise snippet.fail("span", "two character offsets")
    if numbers[1] > len(text):
        raise snippet.fail("span", f"inside its text of {len(text)} characters")
    return numbers[0], numbers[1]


def _row(identity: str, kind: str, question: str, marked: list[tuple[str, str, tuple[int, int]]]) -> LegalRow:
    """Return the row of marked spans: each marked text is an accepted answer, and so are all of them in order."""
    found = [" ".join(text[start:end].split()) for _, text, (start, end) in marked]
    answers = tuple(dict.fromkeys([" ".join(found), *found])) if found else ()
    places: dict[str, None] = {}
    for title, text, span in marked:
        places.update(dict.fromkeys(overlapping(title, pieces(text), [span])))
    cluster = marked[0][0] if marked else identity.rpartition("__")[0] or identity
    return LegalRow(identity, "test", kind, question, answers, "f1" if answers else "abstain", tuple(places), cluster)


def _rows(row: Row, field: str, needed: bool = True) -> Iterator[Row]:
    found: Any = row.fields.get(field)
    if found is None and not needed:
        return
    if not isinstance(found, list):
        raise row.fail(field, "a list")
    for number, item in enumerate(found, 1):
        yield Row(f"{row.where}, {field} {number}", item)
