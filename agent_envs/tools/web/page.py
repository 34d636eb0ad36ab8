"""`WebPage` is a page of the web as a policy gets it, or the reason why it was not opened; `Lines` bound its text."""

import re
from dataclasses import dataclass
from typing import Any

from agent_envs.tools.web.text import sound
from agent_envs.tools.web.url_policy import MAX_URL_CHARACTERS

MAX_TITLE_CHARACTERS = 300
MAX_TEXT_CHARACTERS = 200_000
MAX_LINKS = 300
MAX_LINK_CHARACTERS = 200
_MAX_ERROR_CHARACTERS = 1_000


SPACE, LINE, PARAGRAPH = 1, 2, 3
CUT = f"\n\n[The page goes on; about its first {MAX_TEXT_CHARACTERS:,} characters are shown.]"
_GAPS = ("", " ", "\n", "\n\n")
_EMPTY_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page that was opened, or why it was not.

    Attributes:
        url: where the page was found, behind all redirects; what was asked for where there is an error.
        title: one line.
        text: what a reader sees; paragraphs are set off by empty lines, headings by #, items of lists by -, cells by |.
        links: (text, absolute URL), each URL once, those of menus last.
        error: a sentence; "" for a page.
    """

    url: str
    title: str = ""
    text: str = ""
    links: tuple[tuple[str, str], ...] = ()
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        links = [list(link) for link in self.links]
        return {"url": self.url, "title": self.title, "text": self.text, "links": links, "error": self.error}

    @classmethod
    def from_json(cls, value: Any) -> "WebPage":
        """Return the page of a JSON form, which may come from a stranger; ValueError where it is none.

        Raises ValueError: it is none; the message says where.
        """
        if not isinstance(value, dict) or set(value) != {"url", "title", "text", "links", "error"}:
            raise ValueError("a page is an object of url, title, text, links and error")
        limits = {
            "url": MAX_URL_CHARACTERS,
            "title": MAX_TITLE_CHARACTERS,
            "text": MAX_TEXT_CHARACTERS,
            "error": _MAX_ERROR_CHARACTERS,
        }
        for name, most in limits.items():
            _check_text(value[name], name, most)
        links = value["links"]
        if not isinstance(links, list) or len(links) > MAX_LINKS:
            raise ValueError(f"links is no list of at most {MAX_LINKS}")
        for link in links:
            if not isinstance(link, list) or len(link) != 2:
                raise ValueError("a link is a list of a text and a URL")
            _check_text(link[0], "the text of a link", MAX_LINK_CHARACTERS)
            _check_text(link[1], "the URL of a link", MAX_URL_CHARACTERS)
        return cls(
            value["url"], value["title"], value["text"], tuple((text, url) for text, url in links), value["error"]
        )


def _check_text(value: Any, what: str, most: int) -> None:
    """Raise ValueError unless a value is text of at most so many characters."""
    if not isinstance(value, str) or len(value) > most:
        raise ValueError(f"{what} is no text of at most {most:,} characters")


class Lines:
    """The text of a page while it is built: gaps collapse into the widest; `full` once it exceeds the bound."""

    def __init__(self) -> None:
        """Set up an empty text: no gap, mark or table row is open."""
        self.as_it_is = self.full = False
        self._parts: list[str] = []
        self._length = self._gap = 0
        self._mark = ""
        self._cells = 0  # of the row so far
        self._words_in_cell = self._lines_in_cell = False

    def add(self, text: str) -> None:
        """Add running text, its white space collapsed unless `as_it_is`."""
        if self.as_it_is:
            self._append(text.removeprefix("\n") if self._gap >= LINE else text)
            return
        words = text.split()
        if words and text[0].isspace():
            self.gap(SPACE)
        if words:
            self._append(" ".join(words))
        if text[-1:].isspace():
            self.gap(SPACE)

    def gap(self, wide: int) -> None:
        """Request a gap before the next text; the widest request counts."""
        self._gap = max(self._gap, wide)

    def mark(self, sign: str) -> None:
        """Set the mark to put before the next text; "" removes it."""
        self._mark = sign

    def row(self) -> None:
        """Begin or end a row or a table; the paragraphs of its last cell do not set the next row off."""
        if self._cells:
            self._gap = min(self._gap, LINE)
        self._cells = 0

    def cell(self) -> None:
        """Begin a cell of a table's row, behind a bar if it is not the first."""
        self._cells += 1
        if self._cells > 1:
            self._gap = LINE if self._lines_in_cell else SPACE
            self._append("|")
            self._gap = SPACE
        self._words_in_cell = self._lines_in_cell = False

    def whole(self) -> str:
        """Return the text, cut to what a page may hold."""
        return bounded(_EMPTY_LINES.sub("\n\n", sound("".join(self._parts))))

    def _append(self, text: str) -> None:
        """Append text behind the pending gap and mark; a paragraph that begins a table cell stays on the row's line."""
        if self._cells > 1 and not self._words_in_cell and self._gap > SPACE:
            self._gap = SPACE  # a paragraph begins the cell
        self._lines_in_cell = self._lines_in_cell or (self._words_in_cell and self._gap > SPACE)
        self._words_in_cell = True
        piece = (_GAPS[self._gap] if self._parts else "") + self._mark + text
        self._parts.append(piece)
        self._length += len(piece)
        self._gap, self._mark = 0, ""
        self.full = self._length > MAX_TEXT_CHARACTERS + len(CUT)


def bounded(text: str) -> str:
    """Return a text of sound characters, cut to what a page may hold; the cut is told in its last line."""
    text = sound(text).strip()
    return text if len(text) <= MAX_TEXT_CHARACTERS else text[: MAX_TEXT_CHARACTERS - len(CUT)].rstrip() + CUT
