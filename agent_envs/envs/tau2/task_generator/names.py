"""People of a generated world get names, addresses, ids and cards from the closed lists of names.json; nobody is meant by them.

Every function takes the generator that it draws from, and nothing else decides what it returns.
"""

import json
from dataclasses import dataclass
from importlib.resources import files
from random import Random
from typing import Any

_LISTS: dict[str, Any] = json.loads(files(__package__).joinpath("names.json").read_text(encoding="utf-8"))
FIRST_NAMES: list[str] = _LISTS["first"]
LAST_NAMES: list[str] = _LISTS["last"]
CARD_BRANDS = ("visa", "mastercard")


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody's name."""

    first: str
    last: str

    @property
    def full(self) -> str:
        """Both names."""
        return f"{self.first} {self.last}"


def people(rng: Random, count: int) -> tuple[Person, ...]:
    """Draw so many people, no two of the same name."""
    places = rng.sample(range(len(FIRST_NAMES) * len(LAST_NAMES)), count)
    return tuple(Person(FIRST_NAMES[p // len(LAST_NAMES)], LAST_NAMES[p % len(LAST_NAMES)]) for p in places)


def digits(rng: Random, count: int) -> str:
    """Return a number of that many figures; the first is not 0."""
    return str(rng.randrange(10 ** (count - 1), 10**count))


def codes(rng: Random, count: int, figures: int) -> tuple[str, ...]:
    """Return that many different numbers of that many figures."""
    low = 10 ** (figures - 1)
    return tuple(str(low + place) for place in rng.sample(range(9 * low), count))


def user_id(person: Person, code: str) -> str:
    """Return the id that a person has as a user, such as "mira_holm_4821"."""
    return f"{person.first}_{person.last}_{code}".lower()


def email(rng: Random, person: Person, code: str) -> str:
    """Return an e-mail address made of a person's name and a code, at a host that belongs to nobody."""
    first, last = person.first.lower(), person.last.lower()
    start = rng.choice(
        (f"{first}.{last}{code}", f"{first}{last}{code}", f"{first[0]}.{last}{code}", f"{last}.{first}{code}")
    )
    return f"{start}@{rng.choice(_LISTS['mail_hosts'])}"


def address(rng: Random) -> dict[str, str]:
    """Return an address: `address1`, `address2` ("" half of the time), `city`, `country`, `state` and `zip`."""
    city, state, area = rng.choice(_LISTS["cities"])  # and the first three figures of its zip codes
    flat = f"{rng.choice(('Apt', 'Suite', 'Unit'))} {rng.randrange(1, 400)}" if rng.random() < 0.5 else ""
    return {
        "address1": f"{rng.randrange(1, 999)} {rng.choice(_LISTS['streets'])}", "address2": flat, "city": city,
        "country": "USA", "state": state, "zip": f"{area}{rng.randrange(100):02d}",
    }  # fmt: skip


def on_one_line(place: dict[str, str]) -> str:
    """Return an address as people write it: "4 Mill Road, Apt 2, Albany, NY 12204, USA"."""
    lines = [place["address1"], place["address2"], place["city"], f"{place['state']} {place['zip']}", place["country"]]
    return ", ".join(line for line in lines if line)


def phone(rng: Random) -> str:
    """Return a telephone number of the range that is kept for fiction."""
    return f"{rng.randrange(201, 990)}-555-01{rng.randrange(100):02d}"


def birthday(rng: Random, first_year: int = 1945, last_year: int = 2004) -> str:
    """Return a date of birth, such as "1980-03-17"."""
    return f"{rng.randrange(first_year, last_year + 1)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"
