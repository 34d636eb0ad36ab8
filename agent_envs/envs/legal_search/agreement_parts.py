"""A generated agreement has drawn terms, some of them amended or hidden, and is written as sections."""

import json
import random
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from importlib.resources import files
from typing import Any

from agent_envs.envs.legal_search.dates import written_date
from agent_envs.envs.legal_search.library import Section

PARTS = ("A", "B", "C")
RATE, CHARGE = "Reference Rate", "Annual Charge"
HIDEABLE_DEFINITIONS = (RATE, CHARGE)


@cache
def wordings() -> dict[str, Any]:
    """Return the tables of wordings; nobody writes to them."""
    text = files("agent_envs.envs.legal_search").joinpath("agreement_wordings.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@dataclass(eq=False, slots=True)
class Agreement:
    """What two companies agreed on.

    Attributes:
        code: the id of its root.
        kind: a row of the table of kinds.
        a: the company that performs.
        b: the company that pays.
        signed: the date of its making.
        terms: by item, the agreed figure or town.
        amended: by item, the figure that replaced it.
        rate: the Reference Rate in percent.
        part: the part of the schedule that holds the Annual Charge.
        sums: by part, dollars.
        hidden: items and definitions whose sections were removed.
        ids: by item, definition, part, "clause NAME" or "amendment of ITEM", the id of the section that states it (or would).
        numbers: by the same, as the text cites it.
    """

    code: str
    kind: dict[str, Any]
    a: str
    b: str
    signed: date
    terms: dict[str, int | str] = field(default_factory=dict)
    amended: dict[str, int] = field(default_factory=dict)
    rate: int = 0
    part: str = ""
    sums: dict[str, int] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    ids: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Kind and parties, as its heading has them."""
        return f"{self.kind['title']} between {self.a} and {self.b}"

    @property
    def names(self) -> dict[str, str]:
        """What wordings are filled with: roles in small letters, companies in capitals."""
        return {
            "a": self.kind["a"],
            "b": self.kind["b"],
            "A": self.a,
            "B": self.b,
            "title": self.kind["title"],
            "cap": self.numbers["cap"],
        }


def draw_agreement(
    rng: random.Random, code: str, kind: dict[str, Any], parties: tuple[str, str], towns: list[str]
) -> Agreement:
    """Draw the terms of an agreement, nothing amended and nothing hidden."""
    found = Agreement(code, kind, *parties, signed=date(2008, 1, 1) + timedelta(days=rng.randrange(1400)))
    for name, item in wordings()["items"].items():
        found.terms[name] = rng.choice(towns) if item["unit"] == "town" else _figure(rng, item)
    found.rate = rng.randint(1, 6)
    found.part = rng.choice(PARTS)
    found.sums = dict(zip(PARTS, (1000 * rng.randint(20, 900) for _ in PARTS), strict=True))
    _number(found)
    return found


def amend(rng: random.Random, agreement: Agreement, count: int) -> None:
    """Replace some figures by others, each by an amendment of its own."""
    items = wordings()["items"]
    able = [name for name, item in items.items() if item["unit"] != "town" and name != "secrecy_cap"]
    for name in rng.sample(able, min(count, len(able))):
        new = agreement.terms[name]
        while new == agreement.terms[name]:
            new = _figure(rng, items[name])
        agreement.amended[name] = int(new)
        place = len(agreement.amended)
        agreement.ids[f"amendment of {name}"] = f"{agreement.code} § Amendment {place}"
        agreement.numbers[f"amendment of {name}"] = str(place)


def _figure(rng: random.Random, item: dict[str, Any]) -> int:
    return int(rng.randrange(item["low"], item["high"] + 1, item["step"]))


def _number(agreement: Agreement) -> None:
    table = wordings()
    rows = [("definitions", list(table["definitions"]))]
    rows += [(clause["name"], clause["items"]) for clause in table["clauses"]]
    for clause, (name, items) in enumerate(rows, 1):
        agreement.ids[f"clause {name}"] = f"{agreement.code} § {clause}"
        for place, item in enumerate(items, 1):
            agreement.numbers[item] = f"{clause}.{place}"
            agreement.ids[item] = f"{agreement.code} § {clause}.{place}"
    for part in PARTS:
        agreement.ids[part] = f"{agreement.code} § Schedule 1, Part {part}"
        agreement.numbers[part] = part


def shown(name: str, value: int | str) -> str:
    """Return a figure as texts write it, without its unit."""
    return f"{value:,}" if isinstance(value, int) and wordings()["items"][name]["unit"] == "dollars" else str(value)


class Draftsman:
    """Writes agreements as sections."""

    def __init__(self, rng: random.Random, several: bool) -> None:
        """Take the source of chance, and whether one thing is worded in several ways."""
        self._rng = rng
        self._several = several

    def pick(self, texts: list[str]) -> str:
        """Return one of several wordings, or the first."""
        return self._rng.choice(texts) if self._several else texts[0]

    def write(self, agreement: Agreement) -> list[Section]:
        """Return the sections of an agreement in reading order; what is hidden leaves a gap in the numbers."""
        table = wordings()
        names = agreement.names
        meanings = {
            CHARGE: {"part": agreement.part},
            RATE: {"n": str(agreement.rate)},
            "Effective Date": {"n": written_date(agreement.signed)},
        }
        definitions = {
            term: f"“{term}” {self.pick(texts).format(**names, **meanings.get(term, {}))}"
            for term, texts in table["definitions"].items()
        }
        groups = [self._group(agreement, "definitions", "Definitions", definitions)]
        for clause in table["clauses"]:
            texts = {item: self._item(agreement, item) for item in clause["items"]}
            groups.append(self._group(agreement, clause["name"], clause["heading"], texts))
        groups += [self._schedule(agreement), *self._amendments(agreement)]
        heads = tuple(group[0].id for group in groups if group)
        recital = table["recital"].format(**names)
        root = Section(agreement.code, "", heads, "agreement", agreement.code, agreement.title, recital)
        return [root, *(section for group in groups for section in group)]

    def _item(self, agreement: Agreement, name: str) -> str:
        text = self.pick(wordings()["items"][name]["clause"])
        return text.format(**agreement.names, n=shown(name, agreement.terms[name]))

    def _group(self, agreement: Agreement, name: str, heading: str, texts: dict[str, str]) -> list[Section]:
        own = [item for item in texts if item not in agreement.hidden]
        if not own:
            return []
        head = agreement.ids[f"clause {name}"]
        number = agreement.numbers[own[0]].partition(".")[0]
        below = tuple(agreement.ids[item] for item in own)
        inner = [
            Section(agreement.ids[item], head, (), "paragraph", agreement.numbers[item], "", texts[item])
            for item in own
        ]
        return [Section(head, agreement.code, below, "clause", number, heading, ""), *inner]

    def _schedule(self, agreement: Agreement) -> list[Section]:
        head = f"{agreement.code} § Schedule 1"
        below = tuple(agreement.ids[part] for part in PARTS)
        texts = [self.pick(wordings()["schedule"]).format(n=f"{agreement.sums[part]:,}") for part in PARTS]
        inner = [
            Section(agreement.ids[part], head, (), "part", part, "", text)
            for part, text in zip(PARTS, texts, strict=True)
        ]
        return [Section(head, agreement.code, below, "schedule", "1", "Sums", ""), *inner]

    def _amendments(self, agreement: Agreement) -> list[list[Section]]:
        found = []
        day = agreement.signed + timedelta(days=400)
        for name, new in agreement.amended.items():
            day += timedelta(days=self._rng.randint(20, 150))
            text = self.pick(wordings()["amendment"]).format(
                date=written_date(day),
                number=agreement.numbers[name],
                old=shown(name, agreement.terms[name]),
                new=shown(name, new),
            )
            key = f"amendment of {name}"
            place = agreement.ids[key]
            found.append([Section(place, agreement.code, (), "amendment", agreement.numbers[key], "", text)])
        return found
