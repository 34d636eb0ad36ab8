"""A `Table` of texts, rates and drawings is shown on a page, and in words in a terminal, in Markdown and in JSON."""

from dataclasses import dataclass

from agent_envs.evaluation.report.charts import Bar, Stack
from agent_envs.evaluation.statistics.rates import Rate


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell that links, or is a badge with a tone (`good`, `bad`, `odd`; of a heat map `h0` to `h10`; of a stack `k0`).

    A link leads to an anchor of the page (`#e1`, or `#e1-t2` for a turn), or to a page of the same site
    (`pages/0001.html#e1`).
    """

    text: str
    href: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table; a row may be shorter than the headers, and a first cell that repeats the one above is left out.

    A page draws a rate beside its text. `sift` is the column by whose texts a reader chooses rows there; it needs an anchor.
    """

    caption: str
    headers: tuple[str | Cell, ...]
    rows: tuple[tuple[str | Cell | Rate | Bar | Stack, ...], ...]
    note: str = ""
    anchor: str = ""
    sift: int | None = None

    @property
    def bases(self) -> list[str]:
        """What the first rate of each row rests on, "" for rows without one."""
        return [next((cell.basis for cell in row if isinstance(cell, Rate)), "") for row in self.rows]

    def texts(self) -> tuple[list[str], list[list[str]]]:
        """Return headers and rows in words; what a row's rates rest on stands once, in a last column, and drawings nowhere."""
        drawn = {place for row in self.rows for place, cell in enumerate(row) if isinstance(cell, Bar | Stack)}
        heads, *rows = (
            [text_of(cell) for place, cell in enumerate(row) if place not in drawn]
            for row in (self.headers, *self.rows)
        )
        if any(self.bases):
            heads, rows = [*heads, "n"], [[*row, basis] for row, basis in zip(rows, self.bases, strict=True)]
        return heads, rows


def text_of(cell: object) -> str:
    """Return a cell in words."""
    return cell.share if isinstance(cell, Rate) else cell.text if isinstance(cell, Cell) else str(cell)
