"""The policy reads search results as extracts around the match, and sections in pages."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from agent_envs.base.documents import Hit
from agent_envs.envs.legal_search.library import Library, Section
from agent_envs.tools.retrieval.bm25 import STOP_WORDS

_WORD = re.compile(r"\w+")
_STOP = frozenset(STOP_WORDS)
_MOST_MATCHES = 400  # of an extract's words that are weighed against each other
_MOST_TEXT = 100_000  # characters of a passage that an extract is looked for in
_PLACE = 300  # characters of a place in the hierarchy
NOTHING = "No section matches this query."


def snippet(text: str, query: str, size: int) -> str:
    """Return at most `size` characters where most query words (not stop words) stand together; a short text whole."""
    text = " ".join(text[:_MOST_TEXT].split())
    if len(text) <= size:
        return text
    query_words = {word for word in _WORD.findall(query.lower()[:10_000]) if word not in _STOP}
    spans = [(m.start(), m.end(), m[0]) for m in _WORD.finditer(text.lower()) if m[0] in query_words][:_MOST_MATCHES]
    room = max(size - 8, 1)  # for the marks of a cut
    first, last = _densest_span(spans, room)
    start = max(0, min((first + last - room) // 2, len(text) - room))
    end = min(len(text), start + room)
    if start and (gap := text.find(" ", start, end)) >= 0 and gap < max(first, start + 1):
        start = gap + 1
    if end < len(text) and (gap := text.rfind(" ", start, end)) >= max(last, start + 1):
        end = gap
    return f"{'... ' if start else ''}{text[start:end].strip()}{' ...' if end < len(text) else ''}"


def _densest_span(spans: Sequence[tuple[int, int, str]], room: int) -> tuple[int, int]:
    """Return start and end of the matches within `room` that hold the most different words, the earliest; (0, 0) for none."""
    best, most = (0, 0), 0
    ends = [end for _, end, _ in spans]
    for place, (start, _, _) in enumerate(spans):
        stop = bisect_left(ends, start + room + 1, lo=place)
        different = len({word for _, _, word in spans[place : min(stop, place + 60)]})
        if different > most:
            best, most = (start, ends[max(place, stop - 1)]), different
    return best


def results(hits: Sequence[Hit], query: str, size: int) -> str:
    """Write a search's hits, numbered: id, place and an extract of each; NOTHING where there are none."""
    rows = (
        f"{number}. ID: {hit.passage.id}\n   Place: {_short_place(hit.passage.title)}\n"
        f"   Text: {snippet(hit.passage.text, query, size)}"
        for number, hit in enumerate(hits, start=1)
    )
    return "\n".join(rows) or NOTHING


def _short_place(title: str) -> str:
    """Return a place in the hierarchy unchanged; of one over 300 characters its last levels, behind "... > "."""
    if len(title) <= _PLACE:
        return title
    end = title[-_PLACE:]
    return f"... > {end.partition(' > ')[2] or end}"


@dataclass(frozen=True, slots=True)
class SectionPage:
    """One page of a section: the text, and the ids of the sections whose own text stands on it."""

    text: str
    ids: tuple[str, ...]


def page_of(library: Library, section: Section, number: int, size: int) -> SectionPage | None:
    """Return a section's page of a number, from 1, with its ID, place and parent; None where it has no such page."""
    pages = _pages(library, section.id, size)
    if not 1 <= number <= len(pages):
        return None
    head = [f"ID: {section.id}", f"Place: {_short_place(library.breadcrumb(section.id))}"]
    head.append(f"Above: {section.parent or 'nothing, this is a root'}")
    if len(pages) > 1:
        head.append(f"Page: {number} of {len(pages)}")
    page = pages[number - 1]
    return SectionPage("\n".join([*head, "", page.text]), page.ids)


def _pages(library: Library, section_id: str, size: int) -> tuple[SectionPage, ...]:
    """Return a section's pages: all below it if that fits one page without a further law, else its own text and child ids."""
    rows = _subtree_rows(library, section_id, size) or _own_rows(library, section_id)
    body = "\n".join(text for _, text in rows)
    spans, start = [], 0
    for owner, text in rows:
        spans.append((start, start + len(text), owner))
        start += len(text) + 1
    pages = []
    for first, last in _page_spans(body, size):
        owners = dict.fromkeys(owner for low, high, owner in spans if owner and low < last and high > first)
        pages.append(SectionPage(body[first:last].strip("\n"), tuple(owners)))
    return tuple(pages)


def _subtree_rows(library: Library, section_id: str, size: int) -> list[tuple[str, str]]:
    """Return (owner id or "" for labels, line) of a section and all below; [] where a law stands below, or beyond `size`."""
    depths = {section_id: 0}
    rows: list[tuple[str, str]] = []
    length = 0
    for section in library.below(section_id):
        if section.id != section_id and section.level == "section":
            return []
        indent = "  " * depths[section.id]
        depths.update((child, depths[section.id] + 1) for child in section.children)
        if section.id != section_id:
            rows.append(("", f"{indent}ID: {section.id} | {section.label}"))
            length += len(rows[-1][1]) + 1
        rows += [(section.id, f"{indent}{line}") for line in section.text.splitlines()]
        length += len(section.text) + len(indent)
        if length > size:
            return []
    return rows or [("", "It has no text.")]


def _own_rows(library: Library, section_id: str) -> list[tuple[str, str]]:
    """Return (owner id, line) of a section's own text, and below it the ids and labels of its children, whose owner is ""."""
    section = library.read(section_id)
    rows = [(section_id, line) for line in section.text.splitlines()]
    if section.children:
        rows.append(("", "Below it, not shown here:"))
        rows += [("", f"  ID: {child} | {library.read(child).label}") for child in section.children]
    return rows


def _page_spans(body: str, size: int) -> list[tuple[int, int]]:
    """Return the (start, end) of each page: it ends at a line end if one is near, else between words, else anywhere."""
    cuts = []
    start = 0
    while len(body) - start > size:
        least = start + size * 3 // 4
        end = body.rfind("\n", least, start + size)
        end = end if end >= 0 else body.rfind(" ", least, start + size)
        end = end + 1 if end >= 0 else start + size
        cuts.append((start, end))
        start = end
    return [*cuts, (start, len(body))]
