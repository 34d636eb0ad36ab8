"""Monty runs a subset of Python: its description for prompts is here, and its known differences from CPython, with code.

The differences are data, in `monty_differences.json`. Tests run every snippet in both and pin both outcomes, so a new version
of Monty cannot change one unseen.
"""

import json
from dataclasses import dataclass
from importlib.resources import files

SUBSET = """\
The interpreter runs a subset of Python 3. Names stay defined from call to call, and the value of a last expression is shown.
- Modules: math, decimal, itertools, functools, collections, re, json, random, datetime, time, bisect, copy, typing,
  dataclasses, hashlib, base64, csv, unicodedata. There is no numpy, sympy, fractions, statistics, heapq, string or operator.
- No `yield`, no `del`, no class inheritance (so no exception classes of your own), no `@property`, `@staticmethod` or
  `@classmethod`, no `from module import *`.
- Generator expressions, `map` and `zip` are lists at once: never let one run over something endless.
- Methods cannot be passed as values (write `lambda s: s.lower()`, not `str.lower`).
- There are no files, no network, no processes and no input(). Clocks stand still and sleep() returns at once."""
FULL = """\
The interpreter is Python 3 with its standard library, numpy and sympy. Names stay defined from call to call, and the value of a
last expression is shown. Nothing can be written to disk; there is no network, no input(), and there are no other processes or
threads. Clocks stand still and sleep() returns at once."""
LANGUAGE = {"monty": SUBSET, "bwrap": FULL}  # what a prompt says of each backend


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
    rows = json.loads(files(__package__).joinpath("monty_differences.json").read_text("utf-8"))
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
