"""The vocabulary of generated law holds trades, rules, groups of holders, drafting formulas, names and forms of amounts.

The wordings are data, in `statute_wordings.json`. The law speaks of a trade by `noun` and `heading`, questions by `who`. A rule
has sentences of the law (`says`) and four sets of questions, `first` to `fourth`; `ask` has the rest of the sets.
Placeholders: `{v}` an amount, `{who}` the person asked about.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

WORDINGS = ("first", "second", "third", "fourth")
MEASURES = {"dollars": "sum", "percent": "share"}  # what the law calls an amount that is not a period

_OPENINGS = tuple("Ar Bel Cor Dun Esk Fal Gor Hal Ib Kel Lor Mer Nar Or Pel Tor".split())
_MIDDLES = tuple("an ed il om ur ast end ist ond und av ev ov".split())
# Endings differ between splits, so that no name, and no question, is of two.
_ENDINGS = {
    "train": ("mark", "dale", "holm", "wick", "stead"),
    "dev": ("ia", "ora", "ina"),
    "test": ("land", "moor", "gate"),
}


@dataclass(frozen=True, slots=True)
class Trade:
    """The trade that one chapter of each province regulates.

    Attributes:
        noun, heading: what the law calls the business, and the chapter.
        unit: what its size is counted in, by the law and by questions.
        who: what a question calls the person.
        means: what the business is, in a question's words: the one place where the law has them.
    """

    noun: str
    heading: str
    unit: str
    who: str
    means: str


@dataclass(frozen=True, slots=True)
class RuleKind:
    """A rule with one amount that a chapter can have.

    Attributes:
        heading: of its section.
        unit: "days", "hours", "months", "years", "dollars" or "percent".
        values: amounts to draw from.
        says: sentences of the law.
        first, second, third, fourth: questions for the amount, in four sets of wordings.
        noun: what a comparison calls it.
        event, act: of a period that an event starts: what arrives, and what is to be done in time.
        breach: what a person does who does not keep the rule; () where it is no duty.
    """

    key: str
    heading: str
    unit: str
    values: tuple[int, ...]
    says: tuple[str, ...]
    first: tuple[str, ...]
    second: tuple[str, ...]
    third: tuple[str, ...]
    fourth: tuple[str, ...]
    noun: str
    event: str
    act: str
    breach: tuple[str, ...]

    def asks(self, wording: str) -> tuple[str, ...]:
        """Return the questions for the amount in a set of wordings."""
        texts: tuple[str, ...] = getattr(self, wording)
        return texts

    @property
    def measure(self) -> str:
        """What the law calls the amount: "period", "sum" or "share"."""
        return MEASURES.get(self.unit, "period")


@dataclass(frozen=True, slots=True)
class Group:
    """Holders to whom a rule can apply differently.

    Attributes:
        noun, heading: the term of the law, and the heading of its definition.
        says, unless: the definition, and the exception to it.
        entry: how the register tells of one inside.
        first, second, third, fourth: how each set of questions tells of one inside, and of one under the exception.
    """

    noun: str
    heading: str
    says: tuple[str, ...]
    unless: tuple[str, ...]
    entry: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    third: tuple[str, ...]
    fourth: tuple[str, ...]

    def phrases(self, wording: str) -> tuple[str, ...]:
        """Return the phrases of a set of wordings for one inside the group, and for one under the exception."""
        texts: tuple[str, ...] = getattr(self, wording)
        return texts

    @property
    def adjective(self) -> str:
        """The word of the term that tells it from others."""
        return self.noun.partition(" ")[0]


@dataclass(frozen=True, slots=True)
class Parts:
    """All wordings."""

    trades: tuple[Trade, ...]
    rules: tuple[RuleKind, ...]
    groups: tuple[Group, ...]
    drafting: dict[str, list[str]]
    general: dict[str, Any]
    ask: dict[str, dict[str, Any]]
    surnames: tuple[str, ...]


def _freeze(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its lists as tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


@cache
def parts() -> Parts:
    """Return the wordings of statutes, read from the package's table once, cached."""
    table = json.loads(files(__package__).joinpath("statute_wordings.json").read_text("utf-8"))
    return Parts(
        trades=tuple(Trade(**row) for row in table["trades"]),
        rules=tuple(RuleKind(**_freeze(row)) for row in table["rules"]),
        groups=tuple(Group(**_freeze(row)) for row in table["groups"]),
        drafting=table["drafting"],
        general=table["general"],
        ask=table["ask"],
        surnames=tuple(table["surnames"]),
    )


def jurisdiction(split: str, index: int) -> str:
    """Return a name of a province, another for every split and index."""
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


def with_article(noun: str) -> str:
    """Return a noun behind its article."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def quantity(amount: int, unit: str) -> str:
    """Return an amount as the law writes it: "30 days", "1 year", "$1,200", "25 percent"."""
    if unit == "dollars":
        return f"${amount:,}"
    return f"{amount} {unit if amount != 1 or unit == 'percent' else unit[:-1]}"


def difference(amount: int, unit: str) -> str:
    """Return by how much an amount changes, as the law writes it: a share changes by percentage points."""
    return f"{amount} percentage point{'s' * (amount != 1)}" if unit == "percent" else quantity(amount, unit)


def amount_forms(amount: int, unit: str) -> tuple[str, ...]:
    """Return the accepted forms of an amount: bare, as the law writes it, and in words for dollars and per cent."""
    forms = [str(amount), quantity(amount, unit)]
    if unit == "dollars":
        forms += [f"{amount} dollars"]
    if unit == "percent":
        forms += [f"{amount}%", f"{amount} per cent"]
    return tuple(forms)
