"""The text of a page grows in lines: white space collapses, and the length is bounded."""

import re

from agent_envs.tools.web.page import MAX_TEXT_CHARACTERS
from agent_envs.tools.web.text import sound

SPACE, LINE, PARAGRAPH = 1, 2, 3
CUT = f"\n\n[The page goes on; about its first {MAX_TEXT_CHARACTERS:,} characters are shown.]"
_GAPS = ("", " ", "\n", "\n\n")
_EMPTY_LINES = re.compile(r"\n{3,}")


class Lines:
    """White space collapses into the widest gap that was asked for. `full`: more than a page may hold came."""

    def __init__(self) -> None:
        self.as_it_is = self.full = False
        self._parts: list[str] = []
        self._length = self._gap = 0
        self._mark = ""
        self._cells = 0  # of the row so far
        self._words_in_cell = self._lines_in_cell = False

    def add(self, text: str) -> None:
        """Add running text; as it is where that was asked for."""
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
        """Set what follows off."""
        self._gap = max(self._gap, wide)

    def mark(self, sign: str) -> None:
        """Set the sign before the next text; "" takes it back."""
        self._mark = sign

    def row(self) -> None:
        """Begin or end a row or a table; the paragraphs of its last cell do not set the next row off."""
        if self._cells:
            self._gap = min(self._gap, LINE)
        self._cells = 0

    def cell(self) -> None:
        """Begin a cell."""
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
