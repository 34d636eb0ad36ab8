"""The vocabulary of generated bodies of law holds activities, rules and their wordings, names of countries, and amounts.

The wordings are data, in `statute_wordings.json`. The law says everything in `noun`, `unit`, `heading` and `says`; questions
that paraphrase use `who`, `has` and `asks`, which avoid the law's words, and the others use `plain`. Placeholders: `{v}` an
amount, `{n}` a number of units, `{who}` the person asked about, `{noun}` the business of a chapter.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

_OPENINGS = (
    "Ar",
    "Bel",
    "Cor",
    "Dun",
    "Esk",
    "Fal",
    "Gor",
    "Hal",
    "Ib",
    "Kel",
    "Lor",
    "Mer",
    "Nar",
    "Or",
    "Pel",
    "Tor",
)
_MIDDLES = ("an", "ed", "il", "om", "ur", "ast", "end", "ist", "ond", "und", "av", "ev", "ov")
# Endings differ between splits, so that no name, and no question, is of two.
_ENDINGS = {
    "train": ("mark", "dale", "holm", "wick", "stead"),
    "dev": ("ia", "ora", "ina"),
    "test": ("land", "moor", "gate"),
}


@dataclass(frozen=True, slots=True)
class Activity:
    """A trade that one chapter regulates.

    Attributes:
        title: the heading of the title that its chapter belongs to.
        noun, heading: what the law calls the business, and the chapter.
        unit: what its size is counted in, by the law.
        who, has: what a question calls the person, and how it tells the size.
        means: what the business is, in a question's words: the one place where the law has them.
    """

    title: str
    noun: str
    heading: str
    unit: str
    who: str
    has: str
    means: str


@dataclass(frozen=True, slots=True)
class RuleKind:
    """A rule with one amount that a chapter can have.

    Attributes:
        key: its name.
        heading: of its section.
        unit: "days", "hours", "months", "years", "dollars" or "percent".
        values: amounts to draw from.
        says: sentences of the law.
        plain, asks: questions for the amount, in the law's words and in others.
        noun: what a comparison calls it.
        event, to, act: of a deadline: what arrives, to whom (if not to the person), and what is to be done in time.
        breach: what a person does who does not keep the rule; "" where it is no duty.
    """

    key: str
    heading: str
    unit: str
    values: tuple[int, ...]
    says: tuple[str, ...]
    plain: str
    asks: tuple[str, ...]
    noun: str
    event: str = ""
    to: str = ""
    act: str = ""
    breach: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Holders to whom a rule can apply differently: in the law's words, and in a question's."""

    noun: str
    heading: str
    asks: str


@dataclass(frozen=True, slots=True)
class Parts:
    """All wordings; fillers and general provisions are (heading, text)."""

    activities: tuple[Activity, ...]
    rules: tuple[RuleKind, ...]
    groups: tuple[Group, ...]
    fillers: tuple[tuple[str, str], ...]
    general: tuple[tuple[str, str], ...]


def _frozen(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


@cache
def parts() -> Parts:
    """Return the wordings."""
    table = json.loads(files(__package__).joinpath("statute_wordings.json").read_text("utf-8"))
    return Parts(
        activities=tuple(Activity(**row) for row in table["activities"]),
        rules=tuple(RuleKind(**_frozen(row)) for row in table["rules"]),
        groups=tuple(Group(**row) for row in table["groups"]),
        fillers=tuple((heading, text) for heading, text in table["fillers"]),
        general=tuple((heading, text) for heading, text in table["general"]),
    )


def jurisdiction(split: str, index: int) -> str:
    """Return the name of a world's country: another one for every split and index."""
    endings = _ENDINGS[split]
    index, ending = divmod(index, len(endings))
    index, opening = divmod(index, len(_OPENINGS))
    middles = ""
    while True:
        index, middle = divmod(index, len(_MIDDLES))
        middles += _MIDDLES[middle]
        if not index:
            return _OPENINGS[opening] + middles + endings[ending]
        index -= 1


def quantity(amount: int, unit: str) -> str:
    """Return an amount as the law writes it: "30 days", "1 year", "$1,200", "25 percent"."""
    if unit == "dollars":
        return f"${amount:,}"
    return f"{amount} {unit if amount != 1 or unit == 'percent' else unit[:-1]}"


def amount_forms(amount: int, unit: str) -> tuple[str, ...]:
    """Return the accepted forms of an amount, the bare number first."""
    forms = [str(amount), quantity(amount, unit)]
    if unit == "dollars":
        forms += [f"{amount} dollars"]
    if unit == "percent":
        forms += [f"{amount}%", f"{amount} per cent"]
    return tuple(forms)
