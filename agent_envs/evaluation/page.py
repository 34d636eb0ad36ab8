"""One HTML file that needs nothing else: tables, curves and transcripts. No script, no network, the same bytes each time.

What stands in a page was written by models and strangers. Every value passes `visible` and Jinja2's autoescaping, only the
drawings of `charts` (numbers) are markup, and a content security policy forbids everything but the one style sheet.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from agent_envs.errors import UsageError
from agent_envs.evaluation.charts import Bar, Curve, bar_svg, curve_svg, swatch_svg
from agent_envs.printing import MAX_CHARACTERS, visible
from agent_envs.trajectory import Trajectory

__all__ = ["Bar", "Cell", "Curve", "Page", "Table", "Transcript", "visible", "write_page"]

FOLD = 1_200
FOLD_SLACK = 200
LANES = ("environment", "policy", "tool", "user", "feedback")
TAGS = {"think": "think", "search": "call", "tool_call": "call", "answer": "answer"}

_ANCHOR = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,79}")
_NUMBER = re.compile(r"[-+−]?[0-9][0-9.,]*(e[-+]?[0-9]+)?( ?%)?")
_NAMES = "|".join(TAGS)
# A tag ends at its closing tag, or where the next one opens: an unclosed <think> does not swallow the <answer>.
_TAGGED = re.compile(rf"<({_NAMES})>.*?(?:</\1>|(?=<(?:{_NAMES})>)|\Z)", re.DOTALL)
# Bidirectional controls, zero-width characters that join nothing, and tag characters: they hide or reorder text.


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell that links to an anchor of the page (`#e1`, or `#e1-t2` for a turn)."""

    text: str
    href: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table; a row may be shorter than the headers."""

    caption: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str | Cell | Bar, ...], ...]


@dataclass(frozen=True, slots=True)
class Transcript:
    """An episode to read. Its turns are at `#ANCHOR-t1`, `#ANCHOR-t2`, ..."""

    anchor: str
    title: str
    meta: tuple[tuple[str, str], ...]
    trajectory: Trajectory
    note: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """What a page shows, from top to bottom. A blank line in `intro` starts a paragraph."""

    title: str
    intro: str
    tables: tuple[Table, ...] = ()
    curves: tuple[Curve, ...] = ()
    transcripts: tuple[Transcript, ...] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """A text in pieces of (kind, text): those shown, those folded away, and what was cut off.

    `folded_size` counts the characters folded, `size` those of the whole text where some were cut off (else 0).
    """

    shown: tuple[tuple[str, str], ...]
    folded: tuple[tuple[str, str], ...]
    folded_size: int
    size: int


def write_page(path: Path, page: Page) -> None:
    """Write a page as one HTML file.

    Raises:
        UsageError: an anchor is malformed or taken, a link has no target, or a row is longer than its headers.
    """
    _check(page)
    html = _template().render(page=page)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(html.encode("utf-8"))


def passage(value: str | int, highlight: bool = False) -> Passage:
    """Return a message's text in pieces: bounded, folded where it is long, action tags apart with `highlight`."""
    whole = str(value).strip("\n")
    text = whole[:MAX_CHARACTERS]
    cut = len(text)
    if cut > FOLD + FOLD_SLACK:
        space = max(text.rfind(mark, FOLD - FOLD_SLACK, FOLD) for mark in " \n")
        cut = space + 1 if space >= 0 else FOLD
    pieces = list(_tagged(text)) if highlight else [("", text)]
    shown, folded, at = [], [], 0
    for kind, piece in pieces:
        head, tail = piece[: max(cut - at, 0)], piece[max(cut - at, 0) :]
        shown += [(kind, head)] if head else []
        folded += [(kind, tail)] if tail else []
        at += len(piece)
    return Passage(tuple(shown), tuple(folded), len(text) - cut, len(whole) if len(whole) > len(text) else 0)


def _tagged(text: str) -> Iterable[tuple[str, str]]:
    at = 0
    for found in _TAGGED.finditer(text):
        if found.start() > at:
            yield "", text[at : found.start()]
        yield TAGS[found.group(1)], found.group()
        at = found.end()
    if at < len(text):
        yield "", text[at:]


def _check(page: Page) -> None:
    anchors = ["top", "episodes"]
    for item in page.transcripts:
        if not _ANCHOR.fullmatch(item.anchor):
            raise UsageError(f"page: anchor {item.anchor[:80]!r} is no name of letters, digits, '.', '_' and '-'")
        anchors += [item.anchor, *(f"{item.anchor}-t{number}" for number in range(len(item.trajectory.turns) + 1))]
    taken = set(anchors)
    if len(taken) < len(anchors):
        double = next(name for place, name in enumerate(anchors) if name in anchors[:place])
        raise UsageError(f"page: anchor {double!r} is used twice")
    for table in page.tables:
        for row in table.rows:
            if len(row) > len(table.headers):
                raise UsageError(f"page: a row of {len(row)} cells under {len(table.headers)} headers")
            for cell in row:
                if isinstance(cell, Cell) and cell.href and not (cell.href[0] == "#" and cell.href[1:] in taken):
                    raise UsageError(f"page: {cell.href[:80]!r} links to no anchor of the page")


@lru_cache(maxsize=1)
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("agent_envs", "evaluation"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_finalize,
    )
    environment.globals.update(passage=passage, numeric=_numeric, reward=_reward, lane=_lane, kind=_kind)
    environment.filters.update(
        digest=_style_digest,
        bar=lambda bar: Markup(bar_svg(bar)),
        curve=lambda curve: Markup(curve_svg(curve)),
        swatch=lambda number: Markup(swatch_svg(number)),
        paragraphs=lambda text: [part for part in re.split(r"\n\s*\n", text[: 2 * MAX_CHARACTERS]) if part.strip()],
    )
    return environment.get_template("page.html")


def _finalize(value: Any) -> Any:
    return value if isinstance(value, Markup) else visible(str(value))


def _style_digest(style: str) -> str:
    return base64.b64encode(hashlib.sha256(str(style).encode("utf-8")).digest()).decode("ascii")


def _kind(cell: str | Cell | Bar) -> str:
    return {Cell: "link", Bar: "bar"}.get(type(cell), "text")


def _numeric(table: Table, column: int) -> bool:
    """Return whether a column holds numbers alone; it is then set flush right."""
    cells = [row[column] for row in table.rows if column < len(row)]
    texts = [cell.text if isinstance(cell, Cell) else cell for cell in cells if not isinstance(cell, Bar)]
    filled = [text for text in texts if text]
    return bool(filled) and len(texts) == len(cells) and all(_NUMBER.fullmatch(text[:64]) for text in filled)


def _reward(value: float, signed: bool = True) -> str:
    if value == 0:
        return "0"
    return f"{value:+.4g}".replace("-", "−") if signed else f"{value:.4g}".replace("-", "−")


def _lane(author: str) -> str:
    return author if author in LANES else "environment"
