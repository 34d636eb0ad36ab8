"""Generators of problems share this: numbers for five levels, the answer, code, and wordings."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import Any

Number = int | Fraction
Numbers = dict[str, Any]
Span = tuple[int, int]

LEVELS = (1, 2, 3, 4, 5)
MOST_TRIES = 2_000
LONGEST_ANSWER = 40  # characters: what is longer is copied rather than found
LEAST_ANSWER = 10  # smaller ones are guessed too easily
_LEAST_VALUES = 6  # that a number must be able to take before a fact may stand for it
_MOST_REST = 997  # a fact that is too large for its place is divided by at most this, and the remainder is used


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A generator of problems; spans, wordings and code stand in kinds.json by its name.

    Attributes:
        spans: for each number of the problem, by level from 1 to 5, the smallest and largest value.
        wordings: the question in several forms; `{name}` is a number, or the letter that stands for a fact.
        code: a program that reads the numbers by name and prints the answer. It keeps to what every sandbox offers.
        solve: the answer, by another way than the code where there is one that is as plain.
        steps: how many steps the calculation has by hand, roughly: what makes a level harder than the one before.
        more: draws further content (lists) once the numbers are known.
        sound: whether the numbers make a problem at all.
        texts: texts for the question in place of the plain numbers.
    """

    name: str
    spans: Mapping[str, tuple[Span, ...]]
    wordings: tuple[str, ...]
    code: str
    solve: Callable[..., Number]
    steps: Callable[..., int]
    more: Callable[[random.Random, int, Numbers], Numbers] = lambda rng, level, numbers: {}
    sound: Callable[..., bool] = lambda **numbers: True
    texts: Callable[..., Mapping[str, str]] = lambda **numbers: {}

    def open_names(self, level: int) -> list[str]:
        """Return the numbers that a fact may stand for at a level: those that can take several values."""
        rows = ((name, spans[level - 1]) for name, spans in self.spans.items())
        return [name for name, (low, high) in rows if high - low + 1 >= _LEAST_VALUES]


def kind(name: str, solve: Callable[..., Number], steps: Callable[..., int], **more: Any) -> ProblemKind:
    """Return the generator of a name; `more` are its attributes that have defaults."""
    row = _table()[name]
    spans = {number: tuple((low, high) for low, high in levels) for number, levels in row["spans"].items()}
    return ProblemKind(name, spans, tuple(row["wordings"]), "\n".join(row["code"]), solve, steps, **more)


@cache
def _table() -> dict[str, Any]:
    """Read the table of kinds of problems, cached."""
    table: dict[str, Any] = json.loads(files(__package__).joinpath("kinds.json").read_text("utf-8"))
    return table


def fitted(value: int, span: Span) -> tuple[int, str]:
    """Return a fact's value moved into a span, and the pattern for that: `{}`, `LOW + {}`, or `LOW + {} % REST`."""
    low, high = span
    if low <= value <= high:
        return value, "{}"
    if low + value <= high:
        return low + value, f"{low} + {{}}"
    rest = min(high - low + 1, _MOST_REST)
    return low + value % rest, f"{low} + {{}} % {rest}"


def draw(kind: ProblemKind, rng: random.Random, level: int, fixed: Numbers) -> tuple[Numbers, Number] | None:
    """Draw a problem's numbers around the fixed ones, with the answer; None if unsound, or its answer is too long or small.

    None where they make no problem, or where the answer is too long or easily guessed.
    """
    numbers = {name: fixed.get(name, rng.randint(*spans[level - 1])) for name, spans in kind.spans.items()}
    numbers |= kind.more(rng, level, numbers)
    if not kind.sound(**numbers):
        return None
    answer = kind.solve(**numbers)
    is_guessable = answer.denominator == 1 and -LEAST_ANSWER < answer < LEAST_ANSWER
    return None if is_guessable or len(str(answer)) > LONGEST_ANSWER else (numbers, answer)


def assignments(numbers: Numbers, letters: Mapping[str, str]) -> str:
    """Return the lines that give the numbers their names; a number that a fact stands for is its letter."""
    return "".join(f"{name} = {letters.get(name) or repr(value)}\n" for name, value in numbers.items())


def worded(kind: ProblemKind, rng: random.Random, numbers: Numbers, letters: Mapping[str, str]) -> str:
    """Return the question in one of its wordings."""
    texts = {name: str(value) for name, value in numbers.items()} | dict(kind.texts(**numbers)) | dict(letters)
    return rng.choice(kind.wordings).format(**texts)


def listed(items: list[Any]) -> str:
    """Return items as English writes them: `1, 2 and 3`."""
    texts = [str(item) for item in items]
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else texts[0]
