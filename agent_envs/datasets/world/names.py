"""Names for a fictional world are coined from syllables without end, or combined from a closed list (both in `names.json`)."""

import json
import random
from importlib.resources import files
from itertools import product
from typing import Any

_PARTS: dict[str, Any] = json.loads(files(__package__).joinpath("names.json").read_text("utf-8"))


def _combine(*parts: str) -> tuple[str, ...]:
    """Return each combination of one word from each part, joined."""
    return tuple(map("".join, product(*(part.split() for part in parts))))


_OPEN = _combine(_PARTS["onsets"], _PARTS["open vowels"])
_SHUT = _combine(_PARTS["onsets"], _PARTS["shut vowels"], _PARTS["codas"])
# Two parts of fixed length each, so that no closed name lies inside another one.
GIVEN_NAMES, SURNAMES, CITIES = (_combine(*_PARTS[kind]) for kind in ("given names", "surnames", "cities"))
ADJECTIVES, NOUNS = (_PARTS[kind].split() for kind in ("adjectives", "nouns"))
COMPANY_SUFFIXES: dict[str, list[str]] = _PARTS["suffixes"]["company"]
UNIVERSITY_SUFFIXES: list[str] = _PARTS["suffixes"]["university"]
MUSEUM_SUFFIXES: list[str] = _PARTS["suffixes"]["museum"]
REGION_SUFFIXES: list[str] = _PARTS["suffixes"]["region"]


def name_words() -> list[str]:
    """Return every word that a name of a closed world can hold."""
    suffixes = [word for words in COMPANY_SUFFIXES.values() for word in words]
    words = [*GIVEN_NAMES, *SURNAMES, *CITIES, *ADJECTIVES, *NOUNS, *suffixes]
    return ["The", *words, *UNIVERSITY_SUFFIXES, *MUSEUM_SUFFIXES, *REGION_SUFFIXES]


class Namer:
    """Draws names that are unique as whole names and share parts as often as `sharing` says."""

    def __init__(self, rng: random.Random, closed: bool, sharing: float) -> None:
        """Start a world's names; `sharing` lies between 0 and 1."""
        self._rng = rng
        self._closed = closed
        self._sharing = sharing
        self._used: set[str] = set()
        self._given_names: list[str] = []
        self._surnames: list[str] = []
        self._titles: dict[str, str] = {}
        self._towns: list[str] = []
        self._namesakes: list[str] = []
        if closed:
            self._towns = rng.sample(CITIES, len(CITIES))

    def _coin(self, syllables: int) -> str:
        """Return a new word of 2 or 3 syllables."""
        rng = self._rng
        start = "".join(rng.choices(_OPEN, k=syllables - 1))
        return (start + _SHUT[int(rng.random() * len(_SHUT))]).capitalize()

    def _word(self, pool: tuple[str, ...], syllables: int) -> str:
        """Draw a name from the pool in a closed world; else coin one of so many syllables."""
        return self._rng.choice(pool) if self._closed else self._coin(syllables)

    def _claim(self, name: str) -> bool:
        """Claim a name: True and marked as used, or False if it was used before."""
        if name in self._used:
            return False
        self._used.add(name)
        return True

    def person(self) -> str:
        """Draw a new full name, drawn again until unused; either part may be an earlier one, as often as `sharing` says."""
        rng = self._rng
        while True:
            old = bool(self._given_names) and rng.random() < 0.4 * self._sharing
            given_name = rng.choice(self._given_names) if old else self._word(GIVEN_NAMES, 2)
            kin = bool(self._surnames) and rng.random() < 0.5 * self._sharing
            surname = rng.choice(self._surnames) if kin else self._word(SURNAMES, 3)
            if self._claim(f"{given_name} {surname}"):
                self._given_names.append(given_name)
                self._surnames.append(surname)
                return f"{given_name} {surname}"

    def city(self) -> str:
        """Draw a new city's name, one word, from the list in a closed world (IndexError once used up), else coined."""
        while True:
            name = self._towns.pop() if self._closed else self._coin(3)
            if self._claim(name):
                self._namesakes.append(name)
                return name

    def title(self, medium: str) -> str:
        """Return a work's title, unique within its medium; some take over an earlier title of another medium, once each."""
        rng = self._rng
        if rng.random() < 0.4 * self._sharing:
            shared = next((title for title, owner in self._titles.items() if owner != medium), "")
            if shared:
                del self._titles[shared]
                return shared
        while True:
            adjective, noun = rng.choice(ADJECTIVES).capitalize(), rng.choice(NOUNS).capitalize()
            if self._closed:
                name = f"The {adjective} {noun}"
            else:
                pattern = rng.choice(("The {a} {c}", "{n} of {c}", "{c} {n}", "{a} {c}"))
                name = pattern.format(a=adjective, n=noun, c=self._coin(2))
            if self._claim(name):
                self._titles[name] = medium
                return name

    def organisation(self, suffix: str, namesake: bool = True) -> str:
        """Return a new name that ends in `suffix`; some begin with an earlier surname or (`namesake`) a city's, used once."""
        rng = self._rng
        while True:
            draw = rng.random()
            if namesake and self._namesakes and draw < 0.5 * self._sharing:
                stem = self._namesakes.pop(int(rng.random() * len(self._namesakes)))
            elif self._surnames and draw < 0.7 * self._sharing:
                stem = rng.choice(self._surnames)
            else:
                stem = self._word(SURNAMES, 3)
            if self._claim(f"{stem} {suffix}"):
                return f"{stem} {suffix}"
