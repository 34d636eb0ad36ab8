"""Results are printed for people and for programs, and long work reports its progress, always on standard error.

What models and strangers wrote passes `visible` before anybody sees it; lines in their files are checked by `one_line`, and
names by `plain_name`.
"""

import contextlib
import itertools
import json
import re
import signal
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from typing import IO, Any

_CONTROL = ((0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F), (0xFDD0, 0xFDEF), (0xFFFE, 0xFFFF))
_HIDING = (
    (0x061C, 0x061C), (0x200B, 0x200B), (0x200E, 0x200F), (0x202A, 0x202E), (0x2060, 0x2069), (0xFEFF, 0xFEFF),
    (0xE0000, 0xE007F),
)  # fmt: skip
_SURROGATES = ((0xD800, 0xDFFF),)
_ODD = re.compile("[" + "".join(f"{chr(a)}-{chr(b)}" for a, b in (*_CONTROL, *_HIDING, *_SURROGATES)) + "]")
# What shows nothing although `str.isprintable` takes it: Default_Ignorable_Code_Point of Unicode, and blanks with a glyph.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U00013441\U00013442"
    "\U00016fe4\U0001d159\U000e0000-\U000e0fff]"
)
MOST_MARKS = 2  # on one character; more climb over the lines around a name
MAX_CHARACTERS = 200_000
WIDE = 180


LINE_SECONDS = 10.0


def stop_on_sigterm() -> None:
    """Let SIGTERM do from now on what Ctrl-C does at that moment: what runs in a container or a queue is stopped so."""

    def interrupted(number: int, frame: Any) -> None:
        """Call the handler of Ctrl-C, or raise KeyboardInterrupt where it has none, as in a shell's background job."""
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):
            raise KeyboardInterrupt
        handler(number, frame)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupted)


def visible(text: str) -> str:
    """Return a text cut after 200,000 characters, control ones dropped, hiding ones named ⟨U+...⟩, surrogates replaced."""
    if len(text) > MAX_CHARACTERS:
        text = f"{text[:MAX_CHARACTERS]} [cut here: {len(text):,} characters in all, {MAX_CHARACTERS:,} shown]"
    return text.translate(_replacements()) if _ODD.search(text) else text


def escaped(text: str, most: int) -> str:
    """Return a text's first `most` characters in one line, unprintable ones escaped; where it was cut, its length follows."""
    line = "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text[:most])
    return f"{line} [{len(text):,} characters in all]" if len(text) > most else line


@cache
def _replacements() -> dict[int, str | None]:
    """Return the replacement of each odd character, or None to drop it; cached."""
    hiding = {code: f"⟨U+{code:04X}⟩" for code in _code_points(_HIDING)}
    return dict.fromkeys(_code_points(_CONTROL)) | hiding | dict.fromkeys(_code_points(_SURROGATES), "\ufffd")


def _code_points(ranges: tuple[tuple[int, int], ...]) -> Iterator[int]:
    """Yield each code point of the ranges, their last ones included."""
    return itertools.chain.from_iterable(range(first, last + 1) for first, last in ranges)


def safe_text(text: str) -> str:
    """Return a text unchanged, for `AfterValidator`; ValueError for characters that hide or pile up, or a form other than NFC.

    Raises:
        ValueError: it holds a control, bidirectional, invisible or blank character, more than two combining marks on one
            character or one on none, or has another spelling.
    """
    if text != unicodedata.normalize("NFC", text):
        raise ValueError("not in Unicode's normal form C")
    # Format characters, bidirectional ones among them, are not printable in Python's sense.
    if not all(line.isprintable() for line in text.split("\n")) or _BLANK.search(text):
        raise ValueError("holds a control, bidirectional, invisible or blank character")
    marks = "".join(
        "m" if unicodedata.category(letter) in ("Mn", "Me") else letter.isspace() and " " or "x" for letter in text
    )
    if "m" * (MOST_MARKS + 1) in marks or " m" in f" {marks}":
        raise ValueError(f"holds more than {MOST_MARKS} combining marks on one character, or one on none")
    return text


def one_line(text: str) -> str:
    """Return a name, which is one line without spaces around it, and is `safe_text`; raises ValueError where it is not."""
    if "\n" in text or text != text.strip():
        raise ValueError("give one line without spaces around it")
    return safe_text(text)


def plain_name(text: str) -> str:
    """Return a name that is `one_line`, or ""; ValueError where it shows little, has runs of spaces or struck letters.

    Raises:
        ValueError: `one_line` does; or it has no letter, digit or picture, two spaces in a row, or lines
            through, over or under its letters.
    """
    one_line(text)
    if text and not any(letter.isalnum() or unicodedata.category(letter) == "So" for letter in text):
        raise ValueError("a name has a letter or a digit")
    if any(part in text for part in ("  ", "\ufffc", "\ufffd")):
        raise ValueError("a name has no two spaces in a row, and no sign for a character that cannot be shown")
    if re.search("[\u0305\u0332-\u0338\u033f]", text):  # which are no part of a letter in any language's spelling
        raise ValueError("a name has no lines through, over or under its letters")
    return text


def show(text: str, file: IO[str] | None = None) -> None:
    """Print a text; escape sequences and hidden characters do not reach the terminal."""
    print(visible(text), file=file or sys.stdout, flush=True)


def print_result(value: Any, as_json: bool, text: Callable[[], None]) -> None:
    """Print a value as indented JSON; without `as_json` call `text`, which prints it, instead."""
    if as_json:
        print(json.dumps(value, indent=2))
    else:
        text()


def print_table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    """Print a table of plain text; one row of over 3 columns, or one too wide for whole words, as a list of (head, cell)."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # What is piped has no width of its own, and is read by programs or in a window that scrolls.
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    cells = [[visible(str(cell)) for cell in row] for row in (heads, *rows)]
    widths = [] if len(rows) == 1 and len(heads) > 3 else _widths(cells, console.width)
    if not widths:
        blocks = [[list(pair) for pair in zip(cells[0], row, strict=False) if pair[1]] for row in cells[1:]]
        cells = [["", ""], *[pair for block in blocks for pair in [*block, ["", ""]]][:-1]]
    title_text, is_wide = Text(visible(title)), bool(widths)
    table = Table(title=title_text, title_justify="left", box=SIMPLE_HEAD, show_header=is_wide, pad_edge=False)
    for head, width in itertools.zip_longest(cells[0], widths):
        table.add_column(Text(head), overflow="fold", width=width)
    for row in cells[1:]:
        table.add_row(*map(Text, row))
    console.print(table)


def _widths(cells: list[list[str]], room: int) -> list[int]:
    """Return the columns' widths that fit in so much room and break no word; [] where that cannot be."""
    from rich.cells import cell_len

    columns = list(itertools.zip_longest(*cells, fillvalue=""))
    least = [max(cell_len(word) for cell in column for word in (cell.split() or [""])) for column in columns]
    widths = [max(cell_len(line) for cell in column for line in (cell.splitlines() or [""])) for column in columns]
    room -= 3 * len(columns)  # what stands between them
    while sum(widths) > room >= sum(least):
        widths[max((place for place, width in enumerate(widths) if width > least[place]), key=widths.__getitem__)] -= 1
    return widths if sum(widths) <= room else []


@contextlib.contextmanager
def progress_bar(title: str, quiet: bool = False) -> Iterator[Callable[..., None] | None]:
    """Yield a callback for (finished, planned, successes, more text): a bar, or lines off a terminal; None when quiet."""
    if quiet:
        yield None
        return

    def words(finished: int, planned: int, wins: float, more: str = "") -> str:
        """Return a line of progress: episodes finished and planned, the share solved, and more text where there is some."""
        return (
            f"{title}: {finished}/{planned}, of these {100 * wins / max(finished, 1):.1f} % solved{more and '; '}{more}"
        )

    if not sys.stderr.isatty():
        yield _lines(words)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    words_column = TextColumn("{task.description}", markup=False)  # causes of faults are strangers' text
    with Progress(
        words_column, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True)
    ) as bar:
        task = bar.add_task(title, total=None)

        def update(finished: int, planned: int, wins: float, more: str = "") -> None:
            """Move the bar on and renew its description: the share solved of what is finished."""
            text = f"{title}: {100 * wins / max(finished, 1):.0f} % of {finished} solved{more and '; '}{more}"
            bar.update(task, completed=finished, total=planned, description=text)

        yield update


@contextlib.contextmanager
def byte_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback for (bytes so far, bytes in all or -1): a bar on stderr, off a terminal a line every 10 seconds."""
    if not sys.stderr.isatty():
        report = _lines(lambda so_far, total, _: f"{title}: {so_far:,} bytes" + (f" of {total:,}" if total > 0 else ""))
        yield lambda so_far, total: report(so_far, total, 0)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None)
        yield lambda so_far, total: bar.update(task, completed=so_far, total=total if total > 0 else None)


def stage_lines(title: str) -> Callable[[str, float], None]:
    """Return a callback for (stage, fraction): a stderr line rewritten in a terminal, else one at most every 2 seconds."""
    report = _lines(lambda percent, _, stage: f"{title}: {stage} {percent} %", seconds=2.0)

    def tell(stage: str, fraction: float) -> None:
        """Report a stage's progress: in place on a terminal, its line ended at 1.0, else a line each 2 seconds and at 1.0."""
        if sys.stderr.isatty():
            print(
                f"\r{title}: {stage} {100 * fraction:.0f} %\x1b[K", end="\n" if fraction >= 1 else "", file=sys.stderr
            )
        else:
            report(int(100 * fraction), 100, stage)

    return tell


def _lines(words: Callable[..., str], seconds: float = LINE_SECONDS) -> Callable[..., None]:
    """Return a reporter that prints a line on stderr at most every so many seconds, the first after as many, and at the end."""
    last = time.monotonic()

    def report(finished: int, planned: int, *more: Any) -> None:
        """Print a line of progress to stderr, but only at the end or when `seconds` have passed since the last one."""
        nonlocal last
        if finished == planned or time.monotonic() - last >= seconds:
            last = time.monotonic()
            print(words(finished, planned, *more), file=sys.stderr, flush=True)

    return report
