"""These dataclasses are the parts of a page, from cells to transcripts; `page` checks them and makes HTML of them."""

from dataclasses import dataclass

from markupsafe import Markup

from agent_envs.core.conversation_view import ConversationView
from agent_envs.core.trajectory import Trajectory
from agent_envs.evaluation.report.charts import Curve
from agent_envs.evaluation.report.tables import Cell, Table


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
    the reset and after each turn, "" for none. `names` are those of expanded actions.
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


@dataclass(frozen=True, slots=True)
class Drawn:
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
    """What a page shows, from top to bottom. A blank line in `intro` starts a paragraph; `links` stand above and below.

    `tables` may have figures between them; those in `curves` follow.
    """

    title: str
    intro: str
    tables: tuple[Table | Curve, ...] = ()
    curves: tuple[Curve, ...] = ()
    transcripts: tuple[Transcript | Drawn, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    links: tuple[Cell, ...] = ()
    pictures: tuple[Picture, ...] = ()
