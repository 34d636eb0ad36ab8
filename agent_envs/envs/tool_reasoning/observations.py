"""The policy reads these texts after a turn: what tools brought, in one frame, and explanations.

Documents that `browse` opens come from the corpus, with its links, or from the web, and are cut into pages.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_envs.base.documents import Corpus, Hit
from agent_envs.tools.sandbox import LASTING, ExecResult

TOKEN_CHARACTERS = 4  # a token is counted as so many characters: no tokenizer, and the same for every model
_MOST_SECTIONS = 200  # passages of one title that are read together


@dataclass(frozen=True, slots=True)
class Document:
    """A whole document: its ID, title, text, and where it leads as (title, ID)."""

    id: str
    title: str
    text: str
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """A part of a document; `number` counts from 1 to `count`."""

    id: str
    title: str
    text: str
    number: int
    count: int
    links: tuple[tuple[str, str], ...] = ()


def corpus_document(corpus: Corpus, doc_id: str, links: Callable[[str], Sequence[tuple[str, str]]]) -> Document:
    """Return a document of a corpus, neighbours of its title joined as sections, with links; KeyError without the ID.

    Raises KeyError: no passage has that ID.
    """
    row = corpus.row(doc_id)
    passage = corpus[row]
    first = last = row
    while first > 0 and row - first < _MOST_SECTIONS and corpus[first - 1].title == passage.title:
        first -= 1
    while last + 1 < len(corpus) and last - row < _MOST_SECTIONS and corpus[last + 1].title == passage.title:
        last += 1
    sections = [corpus[place] for place in range(first, last + 1)]
    if len(sections) == 1:
        return Document(doc_id, passage.title, passage.text, tuple(links(doc_id)))
    text = "\n\n".join(f"[{section.id}]\n{section.text}" for section in sections)
    leads = dict.fromkeys(link for section in sections for link in links(section.id))
    return Document(doc_id, passage.title, text, tuple(leads))


def page_of(document: Document, number: int, tokens: int) -> DocumentPage | None:
    """Return page `number` (from 1) of a document, or None; pages end at white space in their second half, if any."""
    size = tokens * TOKEN_CHARACTERS
    starts = [0]
    while len(document.text) - starts[-1] > size:
        end = starts[-1] + size
        gap = max(document.text.rfind(sign, starts[-1] + size // 2, end) for sign in "\n ")
        starts.append(gap + 1 if gap >= 0 else end)
    if not 1 <= number <= len(starts):
        return None
    bounds = [*starts, len(document.text)]
    text = document.text[bounds[number - 1] : bounds[number]].strip()
    return DocumentPage(document.id, document.title, text, number, len(starts), document.links)


EXTRACT = 1_000  # characters of a page that a search shows, as ARPO's release cuts them
_MOST_LINKS = 20
NOTHING_FOUND = "No page matches this query."
SILENT = "The program ended and printed nothing; print(...) what you want to see."
STOPPED = "The program was stopped; names are as they were before it."


def framed(body: str) -> str:
    """Return a body between result tags, as the style `tags` shows it; no page or program can end the frame."""
    safe = body.replace("</result>", "<\\/result>")
    return f"\n<result>\n{safe}\n</result>\n"


def pages_found(hits: Sequence[Hit]) -> str:
    """Write a search's hits, numbered: ID, title and extract of each page; NOTHING_FOUND where there are none."""
    rows = (
        f"Page {number} [{hit.passage.id}] {hit.passage.title}\n{cut(hit.passage.text, EXTRACT)}"
        for number, hit in enumerate(hits, start=1)
    )
    return "\n\n".join(rows) or NOTHING_FOUND


def page_shown(page: DocumentPage) -> str:
    """Return an open page: its place in the document, the text, and where its links lead."""
    of = f", page {page.number} of {page.count}" if page.count > 1 else ""
    links = "; ".join(f"{title} [{target}]" for title, target in page.links[:_MOST_LINKS])
    return f"{page.title} [{page.id}]{of}\n{page.text}" + (f"\nLinks: {links}" if links else "")


def output(result: ExecResult, limit: int) -> str:
    """Write a program's result: output, last value and error, each cut, and notes; SILENT where it has none of them."""
    parts = [cut(result.stdout.rstrip("\n"), limit), cut(result.value, limit), cut(result.error, limit)]
    lines = [part for part in parts if part]
    if result.status not in LASTING and not result.session_lost:
        lines.append(STOPPED)
    if result.truncated:
        lines.append("(Not all of it is shown.)")
    return "\n".join(lines) or SILENT


def cut(text: str, limit: int) -> str:
    """Return a text cut at a number of characters, and saying so; unchanged where it is no longer."""
    return text if len(text) <= limit else f"{text[:limit]} [cut: {len(text) - limit} of {len(text)} characters]"
