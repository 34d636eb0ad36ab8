"""The settings of the generated word problems hold what there is to count, and the sentences that change it.

The sentences are data, in `word_problem_wordings.json`. A text holds `{n}` and `{m}` for its numbers (`{n}` first), `{who}`
and `{other}` for the two people and `{then}` for a connecting word. No text writes a number or hides one ("half", "a
dozen"): `test_word_problems.py` holds them to that.
"""

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class Form:
    """One sentence and what it does to the running quantity `q`.

    Attributes:
        source: the quantity before the sentence; empty for an opening sentence.
        target: the quantity after it.
        op: a key of `word_problems.STEPS_OF`.
    """

    source: str
    target: str
    op: str
    text: str


@dataclass(frozen=True, slots=True)
class Setting:
    """A small world: opening sentences, sentences between its quantities, and a question for each quantity."""

    name: str
    openings: tuple[Form, ...]
    forms: tuple[Form, ...]
    questions: dict[str, str]


def _setting(name: str, row: dict[str, Any], cash_box: dict[str, Any]) -> Setting:
    """Return a setting; one with a cash box gets the sentences about it, too."""
    forms, questions = [Form(*form) for form in row["forms"]], row["questions"]
    if any(form.target == "cash" for form in forms):
        forms += [Form(*form) for form in cash_box["forms"]]
        questions = questions | cash_box["questions"]
    openings = tuple(form for form in forms if not form.source)
    return Setting(name, openings, tuple(form for form in forms if form.source), questions)


def _settings() -> tuple[Setting, ...]:
    table = json.loads(files(__package__).joinpath("word_problem_wordings.json").read_text("utf-8"))
    return tuple(_setting(name, row, table["cash box"]) for name, row in table["settings"].items())


SETTINGS = _settings()
