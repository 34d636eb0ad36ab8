"""The known differences of Monty from CPython, each with code that shows it, as a table of docs/sandbox.md.

They are data, in `monty_differences.json`. Tests run every snippet in both and pin both outcomes, so that a new version of
Monty cannot change one unseen.
"""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Divergence:
    """One difference. Outcomes are the text of the value, or of what was printed, or type and message of the error.

    Attributes:
        about: what differs, in a few words.
        code: a cell that shows it.
        cpython: its outcome in CPython 3.11 and later.
        exact: False where CPython's own outcome depends on the system's mathematical library in its last digits.
    """

    about: str
    code: str
    cpython: str
    monty: str
    exact: bool = True


def _divergences() -> tuple[Divergence, ...]:
    rows = json.loads(Path(__file__).with_name("monty_differences.json").read_text("utf-8"))
    return tuple(Divergence(**row) for row in rows)


# First the values that differ without an error, which matter for rewards, then what is missing.
KNOWN_DIVERGENCES = _divergences()


def divergence_table() -> str:
    """Return the known divergences as a table in Markdown."""
    rows = [
        f"| {known.about} | {_cell(known.code)} | {_cell(known.cpython)} | {_cell(known.monty)} |"
        for known in KNOWN_DIVERGENCES
    ]
    return "\n".join(["| what | code | CPython | Monty |", "|---|---|---|---|", *rows])


def _cell(text: str) -> str:
    """Return a text as code in a table: one line, and no bar that would end the cell."""
    line = text.replace("\n", " ⏎ ").replace("|", "\\|")
    return "" if not line else f"`` {line} ``" if "`" in line else f"`{line}`"
