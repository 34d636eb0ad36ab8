"""Printing for people and for programs. What models and strangers wrote passes `visible` before anybody sees it."""

import json
import re
import sys
from collections.abc import Callable
from typing import IO, Any

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")
_HIDING = re.compile("[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
MAX_CHARACTERS = 200_000
WIDE = 180


def visible(text: str) -> str:
    """Return a text as it may be shown: bounded, without control characters, with characters that hide text named."""
    if len(text) > MAX_CHARACTERS:
        text = f"{text[:MAX_CHARACTERS]} [cut here: {len(text):,} characters in all, {MAX_CHARACTERS:,} shown]"
    text = _SURROGATE.sub("\ufffd", _CONTROL.sub("", text))
    return _HIDING.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", text)


def show(text: str, file: IO[str] | None = None) -> None:
    """Print a text; escape sequences and hidden characters do not reach the terminal."""
    print(visible(text), file=file or sys.stdout, flush=True)


def print_result(value: Any, as_json: bool, text: Callable[[], None]) -> None:
    """Print a value as JSON, or call what prints it as text."""
    if as_json:
        print(json.dumps(value, indent=2))
    else:
        text()


def print_table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    """Print a table; cells are text and never markup. A single row is printed as a list of its cells."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def plain(cell: str) -> Text:
        return Text(visible(str(cell)))

    single = len(rows) == 1 and len(heads) > 3
    table = Table(title=plain(title), title_justify="left", box=SIMPLE_HEAD, show_header=not single, pad_edge=False)
    for head in ("", "") if single else heads:
        table.add_column(plain(head), overflow="fold")
    for row in zip(heads, rows[0], strict=False) if single else rows:
        table.add_row(*map(plain, row))
    # What is piped has no width of its own, and is read by programs or in a window that scrolls.
    Console(width=None if sys.stdout.isatty() else WIDE).print(table)
