"""`Shelf` knows what a shop sells: its products by name, and the options of each, as they may stand in a text.

A customer who stands before a shelf knows that "striped" is a pattern, and a traveller knows the cabin of its own booking. It
is all of a database that a scripted user sees: no order, no price, and no item's number.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from agent_envs.envs.tau2.database import Database
from agent_envs.envs.tau2.user_script import Fact
from agent_envs.envs.tau2.users.acts import Act, lexicon

_DIGITS = {word: str(value) for value, word in enumerate("one two three four five six seven eight nine ten".split(), 1)}
_WORDS = re.compile(rf"\b(?:{'|'.join(_DIGITS)})\b")
_JOINED = re.compile(r"(?<=\d)(?=[a-z])|-|(?<=\bwith) an? |(?<=\bwithout) an? ")
_UNITS: dict[str, str] = lexicon()["units"]
_MEASURE = re.compile(
    r"(?<![$\d.,#/-])\b(\d+(?:\.\d+)?) "
    r"(?!(?:am|pm|dollars?|items?|products?|business|days?|and|or|to|of)\b)([a-z]+)"
)
_UNIT = re.compile(rf"\b(?:{'|'.join(_UNITS)})\b")
_COMMON = {"set", "case", "stand", "chair"}  # words of which a product's is not the only use
_TELLING = re.compile(r"[a-z]{3}|\d [a-z]")  # a value that is known wherever it stands, unlike "4", "M" and "yes"


class Shelf:
    """The products of one shop, and the cabins of an airline's bookings; a domain without them has none."""

    def __init__(
        self, products: Collection[Mapping[str, object]] = (), cabins: Mapping[str, str] | None = None
    ) -> None:
        """Take records of products with the options of their variants, and the cabin of each reservation's number."""
        self.cabins = cabins or {}
        self._names: dict[str, re.Pattern[str]] = {}
        self._fields: dict[str, frozenset[str]] = {}
        self._options: dict[str, dict[str, re.Pattern[str]]] = {}
        for product in products:
            name = normal(str(product["name"]))
            last = re.escape(name.split()[-1])
            self._names[name] = re.compile(rf"\b(?:{re.escape(name)}|(?:the|a|an|your) (?:[a-z]+ )?{last})s?\b")
            fields = set()
            for field, value, pattern in _patterns(product["variants"].values()):  # type: ignore[attr-defined]
                fields.add(field)
                self._options.setdefault(field, {})[value] = pattern
            self._fields[name] = frozenset(fields)

    def booked(self, ids: Collection[str], who: Collection[Fact], aim: Act) -> Iterator[str]:
        """Yield the cabins of reservations by their numbers, or by who flies where on which day."""
        yield from (self.cabins[one] for one in ids if one in self.cabins)
        if not ids:
            trips = (f"{one.value} {' '.join(sorted(aim.of('city')))} {day}" for one in who for day in aim.of("date"))
            yield from (self.cabins[one] for one in trips if one in self.cabins)

    def named(self, text: str, own: frozenset[str] = frozenset()) -> frozenset[str]:
        """Return the products that a text in small letters names in full or by the last word ("the lamp"); own ones first."""
        text = normal(text)
        short = {name.split()[-1] for name in own}
        found = {name for name, pattern in self._names.items() if pattern.search(text)}
        found -= {name for name in found - own if name.split()[-1] in short | _COMMON and name not in text}
        return frozenset(found | {name for name in own if re.search(rf"\b{re.escape(name.split()[-1])}s?\b", text)})

    def options(self, text: str, products: frozenset[str]) -> frozenset[tuple[str, str]]:
        """Return the options of products, as pairs of field and value, that a text in small letters names.

        A value of another product's like field is one, too: who looks for a black hub knows that white is a colour.
        """
        text = normal(text)
        fields = frozenset[str]().union(*(self._fields[name] for name in products))
        return frozenset(
            (field, value)
            for field in fields
            for value, pattern in self._options[field].items()
            if pattern.search(text)
        )

    def told_of(self, products: frozenset[str]) -> str:
        """Return the words and numbers in which items of products are described."""
        fields = frozenset[str]().union(*(self._fields[name] for name in products))
        described = (f"{field} {value}" for field in fields for value in self._options[field])
        return " ".join(sorted((*products, *described)))


NOTHING = Shelf()


def _patterns(variants: Collection[Mapping[str, Mapping[str, str]]]) -> Iterator[tuple[str, str, re.Pattern[str]]]:
    pairs = dict.fromkeys((field, value) for one in variants for field, value in one["options"].items())
    for field, option in pairs:
        value, label = normal(str(option)), re.escape(normal(field).removesuffix("s"))
        words = re.escape(value)
        near = (
            rf"\b{label}s?[ :,]*(?:is |to )?{words}\b|\b{words} {label}"
            + rf"|\bin (?:an? )?{words}\b" * value.isalpha()
        )
        known = _TELLING.search(value) and value not in ("yes", "none")
        yield field, value, re.compile(rf"\b{words}s?\b" if known else near)


def measures(text: str) -> frozenset[tuple[str, str]]:
    """Return the numbers with a unit in a text, as pairs of unit and number: "32 inch" is another than "34 inches" has."""
    return frozenset((found[2], found[1]) for found in _MEASURE.finditer(normal(text)))


def digits(text: str) -> str:
    """Return a text in small letters with digits for number words."""
    return _WORDS.sub(lambda found: _DIGITS[found[0]], text)


@lru_cache(maxsize=1024)
def normal(text: str) -> str:
    """Return a text with digits for number words, spaces for hyphens, and one name of each unit, in small letters."""
    text = _JOINED.sub(" ", digits(text.lower()))
    return _UNIT.sub(lambda found: _UNITS[found[0]], text)


@lru_cache(maxsize=32)
def shelf_of(database: Database) -> Shelf:
    """Return what the shop of a database sells."""
    tables = database.tables
    cabins = dict[str, str]()
    for key, row in tables.get("reservations", {}).items():
        names = sorted(str(lexicon()["cities"].get(row[end].lower())) for end in ("origin", "destination"))
        days = {"-".join(str(int(part)) for part in leg["date"].split("-")[1:]) for leg in row["flights"]}
        trips = (f"{row['user_id']} {' '.join(names)} {day}" for day in days)
        cabins |= dict.fromkeys((key.lower(), *trips), row["cabin"].replace("_", " "))
    return Shelf(tuple(tables.get("products", {}).values()), cabins)
