"""`render` makes one HTML file of facts, tables, curves and transcripts: no script, no network, equal bytes each time.

`LinkedPages` are pages that link to each other, in a folder with a list of them, so that nothing else is replaced.
What stands in a page was written by models and strangers. Every value passes `visible` and Jinja2's autoescaping, only the
drawings of `charts` (numbers) are markup, and a content security policy forbids everything but the one style sheet.
"""

import base64
import contextlib
import hashlib
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from agent_envs.base.caches import write_atomically
from agent_envs.base.errors import UsageError
from agent_envs.base.terminal import MAX_CHARACTERS, visible
from agent_envs.core.conversation_view import ConversationView
from agent_envs.core.trajectory import Trajectory
from agent_envs.evaluation.html.message_html import ConversationPage, group_turns, passage, stretch
from agent_envs.evaluation.html.rendered_states import AROUND, MOST_BYTES, data_url, fit_pictures
from agent_envs.evaluation.report.charts import (
    Bar,
    Cell,
    Curve,
    StackedBar,
    Table,
    bar_svg,
    curve_svg,
    stack_svg,
    swatch_svg,
    text_of,
)

__all__ = [
    "Bar", "Cell", "Curve", "LinkedPages", "Page", "Picture", "RenderedTranscript", "StackedBar", "Table", "Transcript", "draw",
    "render", "visible", "write_page",
]  # fmt: skip

AUTHORS = ("environment", "policy", "tool", "user", "feedback")
# (characters of a text, turns) of a transcript that must fit into fewer bytes; without any turns where none of them does.
SHORTER = ((20_000, 1_000), (4_000, 400), (1_000, 200), (300, 60))

_ANCHOR = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,79}")
_LINK = re.compile(r"((?:\.\./)?(?:[a-z0-9_-]{1,80}/)?[a-z0-9_-]{1,80}\.html)?(?:#([A-Za-z][A-Za-z0-9_.-]{0,89}))?")
_NUMBER = re.compile(r"(?:< )?[-+−]?[0-9][0-9.,]*(e[-+]?[0-9]+)?( ?%)?")


MARKER = ".agent-envs-pages"
_NAME = re.compile(r"(?:[a-z0-9_-]{1,80}/)?[a-z0-9_-]{1,80}\.html")


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing of our own, as the text of an SVG. It is shown as an image: nothing in it runs or reaches outside.

    Attributes:
        caption: above it.
        words: what it shows, for those who do not see it.
        svg: the text.
    """

    caption: str
    words: str
    svg: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """An episode to read. Its turns are at `#ANCHOR-t1`, `#ANCHOR-t2`, ...

    `outcome` is its badge; without one it says success or failure, as the environment did. With `conversation` all sides of its
    conversation are shown, else what the policy saw and did, with `pictures` beside it: the SVG texts of the state after
    the reset and after each turn, "" for none. `names` are those of expanded actions. `terms` are each turn's, None for what
    does not apply; without them all stand as they were recorded. `listed`: it links to a list of
    episodes above it.
    """

    anchor: str
    title: str
    meta: tuple[tuple[str, str], ...]
    trajectory: Trajectory
    note: str = ""
    outcome: Cell | None = None
    conversation: ConversationView | None = None
    pictures: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    terms: tuple[dict[str, float | None], ...] = ()
    listed: bool = True


@dataclass(frozen=True, slots=True)
class RenderedTranscript:
    """A transcript as HTML, made by `draw`, and what the list of its page tells of it; `picture_bytes` are pictures'."""

    anchor: str
    title: str
    outcome: Cell
    reward: float
    turns: int
    html: Markup
    picture_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a page, from top to bottom. A blank line in `intro` starts a paragraph; `links` stand above and below.

    `tables` may have figures and transcripts between them; those in `curves` and `transcripts` follow.
    """

    title: str
    intro: str
    tables: tuple[Table | Curve | RenderedTranscript, ...] = ()
    curves: tuple[Curve, ...] = ()
    transcripts: tuple[Transcript | RenderedTranscript, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    links: tuple[Cell, ...] = ()
    pictures: tuple[Picture, ...] = ()


def write_page(path: Path, page: Page) -> None:
    """Write a page as one HTML file; UsageError for a malformed anchor or link, or an unwritable file, the older one kept.

    Raises:
        UsageError: an anchor or a link is malformed, or the file cannot be written; then an older one is as it was.
    """
    html = render(page)
    place = Path(os.path.realpath(path))  # what a link names is replaced, not the link
    try:
        if place.is_char_device() or place.is_fifo():
            place.write_bytes(html)
        else:
            write_atomically(place, lambda file: file.write(html))
    except OSError as error:
        raise UsageError(
            f"{path}: the page cannot be written: {error.strerror or error}; choose another file"
        ) from error


def render(page: Page) -> bytes:
    """Return the bytes of a page. That its links lead somewhere is the caller's matter. Raises UsageError: as `write_page`."""
    _check(page)
    transcripts = [item if isinstance(item, RenderedTranscript) else draw(item) for item in page.transcripts]
    images = bool(page.pictures) or any(item.picture_bytes for item in transcripts)
    html: str = _template("page.html").render(page=page, transcripts=transcripts, images=images, most=MAX_CHARACTERS)
    return html.encode("utf-8")


def draw(item: Transcript, most_bytes: int | None = None) -> RenderedTranscript:
    """Return a transcript as HTML, texts and turns cut to fit `most_bytes`, pictures in the room left; UsageError for anchors.

    Pictures take the room that the texts leave.

    Raises:
        UsageError: its anchor is malformed.
    """
    if not _ANCHOR.fullmatch(item.anchor):
        raise UsageError(f"page: anchor {item.anchor[:80]!r} is no name of letters, digits, '.', '_' and '-'")
    play, talk = item.trajectory, None if item.conversation is None else ConversationPage(item.conversation)
    levels = ((MAX_CHARACTERS, len(play.turns)), *(() if most_bytes is None else (*SHORTER, (300, 0))))
    if most_bytes is not None and item.pictures:
        most_bytes -= AROUND  # the note that some are left out
    for characters, turns in levels:
        left_out = len(play.turns) - turns // 2 * 2 if len(play.turns) > turns else 0
        groups = group_turns(play, turns // 2, left_out)
        numbers = [0, *(number for group in groups for number, _ in group)]
        if talk is not None and most_bytes is not None and turns and talk.size(numbers, characters) > most_bytes:
            continue  # what cannot fit need not be drawn
        how = {"item": item, "talk": talk, "badge_cell": _outcome(item), "groups": groups, "left_out": left_out,
               "cut": turns // 2, "most": characters}  # fmt: skip
        html, size = _render_transcript(how, None if (characters, turns) == levels[-1] else most_bytes)
        if most_bytes is None or size <= most_bytes:
            break
    ends = [0, *(group[-1][0] for group in groups)]
    room = MOST_BYTES if most_bytes is None else most_bytes - size
    pictures, missing = fit_pictures(item.pictures, ends, room) if talk is None else ({}, 0)
    if pictures or missing:
        html = _template("transcript.html").render(**how, pictures=pictures, missing=missing)
    # The template escaped every value; this is the one place where HTML made elsewhere enters a page.
    length = sum(map(len, pictures.values()))
    return RenderedTranscript(
        item.anchor, item.title, _outcome(item), play.total_reward, len(play.turns), Markup(html), length
    )


def _render_transcript(how: dict[str, Any], most_bytes: int | None) -> tuple[str, int]:
    """Render a transcript without pictures and return its size; stop once it is larger than `most_bytes`."""
    parts, size = list[str](), 0
    for part in _template("transcript.html").generate(**how, pictures={}, missing=0):
        parts.append(part)
        size += len(part.encode("utf-8"))
        if most_bytes is not None and size > most_bytes:
            break
    return "".join(parts), size


def _links(page: Page) -> list[Cell]:
    """Return the cells of a page that link: its own links, and those in heads and rows of its tables."""
    rows = [row for table in page.tables if isinstance(table, Table) for row in (table.headers, *table.rows)]
    cells = [cell for row in rows for cell in row if isinstance(cell, Cell)]
    return [cell for cell in (*page.links, *cells) if cell.href]


def _check(page: Page) -> None:
    """Raise UsageError for a table's malformed anchor, or a link out of the site, since a stranger's run may hold any."""
    for table in page.tables:
        if isinstance(table, Table) and table.anchor and not _ANCHOR.fullmatch(table.anchor):
            raise UsageError(f"page: anchor {table.anchor[:80]!r} is no name of letters, digits, '.', '_' and '-'")
    for cell in _links(page):
        if not _LINK.fullmatch(cell.href):
            raise UsageError(f"page: {cell.href[:80]!r} links to no anchor of the page")


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """Build the Jinja environment with its filters, once a process; undefined names raise."""
    environment = Environment(
        loader=PackageLoader("agent_envs", "evaluation/html"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, finalize=_finalize,
    )  # fmt: skip
    environment.globals.update(
        passage=passage, stretch=stretch, numeric=_numeric, words_of=text_of, reward=_reward,
        lane=lambda author: author if author in AUTHORS else "environment", kind=lambda item: type(item).__name__.lower(),
    )  # fmt: skip
    environment.filters.update(
        digest=lambda style: base64.b64encode(hashlib.sha256(str(style).encode("utf-8")).digest()).decode("ascii"),
        bar=lambda bar: Markup(bar_svg(bar)),
        rate=lambda rate: Markup(bar_svg(Bar(rate.value, rate.low, rate.high))),
        curve=lambda curve: Markup(curve_svg(curve)),
        stack=lambda stack: Markup(stack_svg(stack)),
        data=lambda picture: data_url(picture.svg),
        swatch=lambda number: Markup(swatch_svg(number)),
        paragraphs=lambda text: [part for part in re.split(r"\n\s*\n", text[: 2 * MAX_CHARACTERS]) if part.strip()],
    )
    return environment


def _template(name: str) -> Any:
    """Return a template of the page by its name."""
    return _environment().get_template(name)


@pass_context
def _finalize(context: Context, value: Any) -> Any:
    """Prepare a template's value: long texts are cut at the page's limit, invisible characters shown; `Markup` stays."""
    if isinstance(value, Markup):
        return value
    text = str(value)
    most = context["most"]
    if most < len(text) <= MAX_CHARACTERS:
        text = f"{text[:most]} [cut here: {len(text):,} characters in all, {most:,} shown]"
    return visible(text)


def _outcome(item: Transcript) -> Cell:
    """Return an episode's outcome as a cell: its own if it has one, else success or failure."""
    if item.outcome is not None:
        return item.outcome
    return Cell("success", tone="good") if item.trajectory.success else Cell("failure", tone="bad")


def _numeric(table: Table, column: int) -> bool:
    """Return whether a column's cells are texts and all filled ones numbers, set flush right; False if none is filled."""
    cells = [row[column] for row in table.rows if column < len(row)]
    texts = [text_of(cell) for cell in cells if isinstance(cell, Cell | str)]
    filled = [text for text in texts if text]
    return bool(filled) and len(texts) == len(cells) and all(_NUMBER.fullmatch(text[:64]) for text in filled)


def _reward(value: float, signed: bool = True) -> str:
    """Return a reward in four digits with a typographic minus, a plus where signs are shown; 0 has none."""
    if value == 0:
        return "0"
    return f"{value:+.4g}".replace("-", "−") if signed else f"{value:.4g}".replace("-", "−")


class LinkedPages:
    """A folder of pages, which are written in any order."""

    def __init__(self, folder: Path) -> None:
        """Make the folder, or take one of an earlier site and remove that site's pages.

        Raises:
            UsageError: it cannot be made, or holds files and no list of pages.
        """
        self.folder = folder
        self._marker = folder / MARKER
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # A run that somebody sent may hold links that lead anywhere.
            if folder.is_symlink() or self._marker.is_symlink():
                raise UsageError(f"{folder} is a link, or holds one in place of a list of pages: choose another folder")
            empty = next(folder.iterdir(), None) is None
        except OSError as error:
            raise UsageError(f"{folder} cannot hold pages: {error}") from error
        if not empty:
            self._remove_old()
        self._marker.write_text("", encoding="ascii")

    def write(self, name: str, page: Page) -> Path:
        """Write a page under a name like `pages/0001.html`, and list it; return its path; UsageError for a bad or taken name.

        Raises:
            UsageError: the name is malformed or taken, by a file that is not ours too; or as `page.render`.
        """
        path = self.folder / name
        if not _NAME.fullmatch(name):
            raise UsageError(f"site: {name[:80]!r} is no name of a page")
        if path.parent.is_symlink() or path.is_symlink() or path.exists():
            raise UsageError(
                f"{path} is there already and no page of an earlier view: move it, or choose another folder"
            )
        html = render(page)
        # Listed first: a page that a kill leaves behind is known as ours.
        with self._marker.open("a", encoding="ascii") as file_list:
            file_list.write(f"{name}\n")
        path.parent.mkdir(exist_ok=True)
        with path.open("xb") as page_file:  # which follows no link
            page_file.write(html)
        return path

    def _remove_old(self) -> None:
        """Remove the pages that the marker file of an earlier view names; UsageError without one, other files stay."""
        if not self._marker.is_file():
            raise UsageError(f"{self.folder} is not empty and holds no pages of an earlier view: choose another folder")
        names = self._marker.read_text(encoding="utf-8", errors="replace").splitlines()
        folders = set()
        for name in filter(_NAME.fullmatch, names):
            path = self.folder / name
            if path.is_file() and not path.is_symlink() and not path.parent.is_symlink():
                path.unlink()
            folders.add(path.parent)
        for folder in sorted(folders - {self.folder}):
            with contextlib.suppress(OSError):  # it holds somebody's file, and stays
                folder.rmdir()
