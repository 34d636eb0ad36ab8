"""Libraries are read from JSONL files of nodes and from folders of plain texts.

A node row is `{id, parent, level, heading, text}`, with `number` (or `num`) where texts cite it and `children` where their
order is not that of the rows. Parents stand before their children.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from agent_envs.base.errors import DataMissing, UsageError
from agent_envs.datasets.safe_rows import DOCUMENT_LIMIT_BYTES, DataRow, json_lines
from agent_envs.envs.legal_search.library import Library, Section
from agent_envs.envs.legal_search.tools import citable

PIECE_WORDS = 150
_PARAGRAPH = "para"


def read_nodes(path: Path, name: str) -> Library:
    """Read a JSONL file of nodes, paragraphs joined to their section's text; DataMissing if absent, UsageError for bad rows.

    Raises:
        DataMissing: there is no such file.
        UsageError: a bad row, or links that lead nowhere.
    """
    if not path.is_file():
        raise DataMissing(f"no file of nodes at {path}")
    nodes = [_node(row) for row in json_lines(path)]
    return make_library(name, _merge_paragraphs(_link_children(nodes)), str(path))


def make_library(name: str, sections: Iterable[Section], where: str) -> Library:
    """Return sections as a library; UsageError, naming the file, where they make no tree."""
    try:
        return Library(name, sections)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None


def _node(row: DataRow) -> Section:
    """Return a row as a section, its level "section" if none; UsageError, with the row's place, for an id not citable."""
    text = row.fields.get("text") or ""
    if not isinstance(text, str):
        raise row.fail("text", "a text")
    identity = row.text("id")
    if " ".join(identity.split()) != identity or not citable(identity):
        raise row.fail(
            "id", "a text of one line without ;, closing tags, [sources: and, at its end, [up 1] or [page 2]"
        )
    return Section(
        id=identity,
        parent=row.optional("parent"),
        children=tuple(row.texts("children", needed=False)),
        level=row.optional("level") or "section",
        number=row.optional("number") or row.optional("num"),
        heading=row.optional("heading"),
        text=text.strip(),
    )


def _link_children(nodes: list[Section]) -> list[Section]:
    """Return nodes with children by their parents, in file order, where the file lists none; else unchanged."""
    if any(node.children for node in nodes):
        return nodes
    below: dict[str, list[str]] = {}
    for node in nodes:
        below.setdefault(node.parent, []).append(node.id)
    return [replace(node, children=tuple(below.get(node.id, ()))) for node in nodes]


def _merge_paragraphs(nodes: list[Section]) -> Iterator[Section]:
    """Yield the nodes, each with the paragraphs below it as lines of its text; those paragraphs themselves are left out."""
    table = {node.id: node for node in nodes}
    visited: set[str] = set()
    for node in nodes:
        if _is_paragraph(node) and node.parent:
            continue
        inside = [child for child in node.children if child in table and _is_paragraph(table[child])]
        lines = [node.text, *(line for child in inside for line in _paragraph_lines(table, child, visited))]
        children = tuple(child for child in node.children if child not in inside)
        yield replace(node, children=children, text="\n".join(line for line in lines if line))


def _is_paragraph(node: Section) -> bool:
    """Return whether a section is a paragraph, whose text belongs to the section above it."""
    return node.level.startswith(_PARAGRAPH)


def _paragraph_lines(table: dict[str, Section], top: str, visited: set[str]) -> Iterator[str]:
    """Yield the lines of a paragraph and of all below it; raises ValueError where one is a child twice or a circle."""
    waiting = [top]
    while waiting:
        node = table[waiting.pop()]
        if node.id in visited:  # or a circle would go on for ever
            raise ValueError(f"the paragraph {node.id!r} is a child twice, or stands below itself")
        visited.add(node.id)
        yield " ".join(part for part in (node.number, node.heading, node.text) if part)
        waiting.extend(child for child in reversed(node.children) if child in table)


def read_texts(folder: Path, name: str) -> Library:
    """Read a folder's .txt and .md files, cut into pieces with ids PATH#PIECE; DataMissing without any, UsageError if unfit.

    Raises:
        DataMissing: there is no such folder, or no text in it.
        UsageError: a file is too large or not UTF-8.
    """
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".txt", ".md") and path.is_file())
    if not paths:
        raise DataMissing(f"no .txt or .md file below {folder}")
    documents = [(path.relative_to(folder).as_posix(), read_text(path)) for path in paths]
    return make_library(name, (part for title, text in documents for part in document(title, text)), str(folder))


def read_text(path: Path) -> str:
    """Return a text with its line ends, so that character offsets hold; UsageError if it is huge or not UTF-8."""
    if path.stat().st_size > DOCUMENT_LIMIT_BYTES:
        raise UsageError(f"{path}: larger than {DOCUMENT_LIMIT_BYTES:,} bytes")
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 ({error.reason})") from None


def document(title: str, text: str) -> list[Section]:
    """Return a document, which has no text of its own, and its pieces as sections, in order."""
    spans = pieces(text)
    ids = [piece_id(title, row) for row in range(len(spans))]
    top = safe_id(title)
    root = Section(top, "", tuple(ids), "document", "", title, "")
    return [root] + [
        Section(place, top, (), "piece", str(row + 1), "", text[start:end].strip())
        for row, (place, (start, end)) in enumerate(zip(ids, spans, strict=True))
    ]


def piece_id(title: str, row: int) -> str:
    """Return the id of a document's piece, counted from 0."""
    return f"{safe_id(title)}#{row + 1}"


def safe_id(name: str) -> str:
    """Return a name without the characters that end a citation in an answer."""
    return " ".join(re.sub(r"[\];]", "_", name).split())


def pieces(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of pieces of up to 150 words (or one long sentence), cut at ends of paragraphs or sentences."""
    spans: list[tuple[int, int]] = []
    start = words = 0
    for part in re.finditer(r"\S.*?(?:\n\s*\n|(?<=[.;:!?])\s+|\Z)", text, re.DOTALL):
        count = len(part[0].split())
        if words and words + count > PIECE_WORDS:
            spans.append((start, part.start()))
            start, words = part.start(), 0
        elif not words:
            start = part.start()
        words += count
    return [*spans, (start, len(text))] if words else spans


def overlapping(title: str, spans: Iterable[tuple[int, int]], targets: Iterable[tuple[int, int]]) -> tuple[str, ...]:
    """Return the ids of the pieces that hold a character of the target spans, in reading order."""
    targets = list(targets)
    return tuple(
        piece_id(title, row)
        for row, (start, end) in enumerate(spans)
        if any(start < last and first < end for first, last in targets)
    )
