"""The settings of the generated word problems are made of forms; several share the sentences about money."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """One sentence and what it does to the running quantity `q`.

    Attributes:
        source: the quantity before the sentence; empty for an opening sentence.
        target: the quantity after it.
        op: a key of `word_problems.STEPS_OF`.
        text: the sentence.
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


_CASH_QUESTIONS = {
    "cash": "How many dollars are in the cash box in the end?",
    "share": "How many dollars does each of these people get?",
}
_CASH_ROWS = (
    ("cash", "cash", "+", "{then}, {other} puts ${n} into the cash box."),
    ("cash", "cash", "-", "{then}, {who} takes ${n} out of the cash box to pay for repairs."),
    ("cash", "cash", "-", "{then}, a bill of ${n} is paid from the cash box."),
    ("cash", "cash", "-*", "{then}, {who} buys {n} folding chairs at ${m} each with money from the cash box."),
    ("cash", "cash", "+*", "{then}, {n} guests put ${m} each into the cash box."),
    ("cash", "cash", "+q*", "{then}, a sponsor adds {n} times the amount that is in the cash box at that moment."),
    ("cash", "share", "/", "{then}, all the money in the cash box is split evenly among {n} people."),
)


def setting(name: str, questions: dict[str, str], *rows: tuple[str, str, str, str]) -> Setting:
    """Return a setting from rows of (source, target, op, text); one with a cash box gets the sentences about it, too."""
    forms = [Form(*row) for row in rows]
    if any(form.target == "cash" for form in forms):
        forms += [Form(*row) for row in _CASH_ROWS]
        questions = questions | _CASH_QUESTIONS
    openings = tuple(form for form in forms if not form.source)
    return Setting(name, openings, tuple(form for form in forms if form.source), questions)
