"""`read_act` reads what a text is about doing, of an agent's proposal and of a customer's wish alike: verbs, objects, values.

The words are data (`acts.json`): a verb is known by its stems, an object by its names; `~` joins words that stand together.
What stands behind a denial ("no bags", "instead of a refund") is read apart. Nothing here knows any sentence.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from agent_envs.envs.tau2.users.agent_words import pattern

_LONG_STRETCH = re.compile(r"[^.;\n]{300}")  # no pattern looks further: an endless text costs what its length does
_FILE = "act_words.txt"
_NAMES = (
    "denial, none, chance, state, purpose, aside, way_back, born, from, apart, switched, money_back, pieces, "
    "original, again, either_way, lifted, same_cabin, be, main, except, arrow"
)
(
    _DENIAL, _NONE, _CHANCE, _STATE, _PURPOSE, _ASIDE, _WAY_BACK, _BORN, _FROM, _APART, _SWITCHED, _MONEY_BACK, _PIECES,
    _ORIGINAL, _AGAIN, _EITHER_WAY, _LIFTED, _SAME_CABIN, _BE, _MAIN, _EXCEPT, _ARROW,
) = (pattern(name.strip().lower(), _FILE) for name in _NAMES.split(","))  # fmt: skip
_PEOPLE = tuple(
    (who, count, pattern(f"people {who} {count}", _FILE))
    for who, count in (("passenger", "1"), ("passenger", "2"), ("party", "all"), ("party", "one"))
)
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_NUMBERS = {
    word: str(value) for value, word in enumerate("one two three four five six seven eight nine ten".split(), 1)
} | {"single": "1", "another": "1", "couple": "2", "half": "0.5", "one and a half": "1.5"}
_COUNT = rf"(\d+(?:\.\d+)?|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_VALUES = {
    "date": re.compile(
        rf"\b({'|'.join(_MONTHS)})[a-z]* (\d{{1,2}})\b|\b\d{{4}}-(\d\d)-(\d\d)\b|\bthe (\d{{1,2}})(?:st|nd|rd|th)\b"
    )
} | {
    field: pattern(f"value {field}", _FILE)
    for field in ("card", "means", "brand", "cabin", "pick", "trip", "street", "zip", "unit", "money")
}
_BIRTH = re.compile(
    rf"\b(?:19\d\d|20[01]\d)-\d\d-\d\d\b"
    rf"|\b(?:(?P<d>\d{{1,2}}) )?(?P<m>{'|'.join(_MONTHS)})[a-z]*"
    rf"(?: (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?)? (?P<year>19\d\d|20[01]\d)\b"
)
_COUNTED = re.compile(
    rf"(?<![$\d.,-])\b{_COUNT}[- ]?(?:[a-z]+[- ]){{0,2}}?(bag|suitcase|passenger|gb|gig|gigabyte"
    r"|(?:seat|ticket)(?!s? (?:left|available|free|remain)))s?\b"
)
_LISTED = re.compile(r"\b(bag|suitcase)s?:? (\d+)\b")
_TOTAL = re.compile(rf"(?<![$\d.,-])\b{_COUNT}(?: (?:checked )?bags?)? (?:in all|in total|altogether|overall)\b")
_REST = re.compile(r"[a-z]*")
_PARTICIPLES = ("ed", "sent", "paid", "taken", "given", "bought")
_LONG = re.compile(r"\b(?!(?:the|and|that|this|your)\b)[a-z]{3,}")


@dataclass(frozen=True, slots=True)
class Act:
    """What a text is about doing.

    Attributes:
        verbs: classes of what is done.
        objects: classes of what it is done to.
        values: pairs of a field and its value ("date", "5-22").
        left: those that it is to be changed from ("from May 23 to May 22").
        denied: verbs, objects and pairs that the text excludes.
        looks: it is about reading or telling, which changes nothing.
        vague: it points at something without naming it.
        excepted: words of what is left out of a whole ("all of it but the dog bed").
        words: all words but those of denials.
    """

    verbs: frozenset[str]
    objects: frozenset[str]
    values: frozenset[tuple[str, str]]
    left: frozenset[tuple[str, str]]
    denied: frozenset[str | tuple[str, str]]
    looks: bool
    vague: bool
    excepted: frozenset[str]
    words: frozenset[str]

    @property
    def bare(self) -> bool:
        """Whether it names neither what is done nor to what."""
        return not (self.verbs or self.objects or self.valued)

    @property
    def valued(self) -> bool:
        """Whether it names a value by which a thing may be known: "a small fee of $5" has none."""
        return any(field != "money" for field, _ in self.values)

    def of(self, field: str) -> frozenset[str]:
        """Return the values of a field."""
        return frozenset(value for name, value in self.values if name == field)


@lru_cache(maxsize=2048)
def read_act(text: str, proposing: bool = False) -> Act:
    """Return what a text, in any letters, is about doing; one that proposes does not do what it tells of as it stands."""
    text = _PURPOSE.sub(
        " ", _EITHER_WAY.sub("the alternative", _LIFTED.sub(" resume ", _AGAIN.sub(r" resume \g<0>", _plain(text))))
    )
    text = _APART.sub(r"\1 \3\2", text)
    text = _MONEY_BACK.sub("refund ", _SWITCHED.sub(lambda found: f"turn {found[2]}{found[1]}", text))
    text = _WAY_BACK.sub("inbound flight", _BIRTH.sub(" ", _BORN.sub(" ", _CHANCE.sub(" ", text))))
    denials = " . ".join(found[0] for found in _DENIAL.finditer(text))
    told = _DENIAL.sub(" ", text) if denials else text
    acting = _STATE.sub(" ", _ASIDE.sub(" ", told))
    verbs, objects, values = _named("verbs", acting, proposing), _named("objects", acting), frozenset(_values(told))
    if any(field == "gb" for field, _ in values):
        objects |= {"data"}
    denials += " upgrade, downgrade" if _SAME_CABIN.search(told) else ""
    excluded: frozenset[str | tuple[str, str]] = frozenset(
        (*_named("verbs", denials), *_named("objects", denials), *_values(denials))
    )
    return Act(
        verbs,
        objects,
        values,
        frozenset(_values(" . ".join(found[0] for found in _FROM.finditer(text)))),
        excluded - verbs - objects - values,
        _stands("looks", told),
        _stands("vague", told),
        frozenset(word for found in _EXCEPT.finditer(text) for word in _LONG.findall(found[1])),
        frozenset(_LONG.findall(told)),
    )


def unheard_of(text: str) -> bool:
    """Return whether a text in small letters proposes something by a verb that nothing is known of."""
    plain = frozenset(str(lexicon()["generic"]).split())
    return any(
        found["verb"] not in plain
        and not any(pattern.match(text, found.start("verb")) for _, _, pattern in _classes("verbs"))
        and not _words("looks").match(found["verb"])
        for found in _MAIN.finditer(text)
    )


def _plain(text: str) -> str:
    """Return a text in small letters, with an end where it has none for too long."""
    text = _LONG_STRETCH.sub(r"\g<0>;", text).lower().replace("\u2019", "'").replace("_", " ").replace("gray", "grey")
    text = _ORIGINAL.sub("original method", _ARROW.sub(_from_to, text))
    return _NONE.sub(r"no \1;", _PIECES.sub("", text.replace("mail address", "mail")))


def _from_to(found: re.Match[str]) -> str:
    """Return "from X to" of "X ->"; behind an earlier arrow, X begins at the last comma."""
    follows = found.string[: found.start()].rstrip().endswith(("\u2192", ">"))
    head, _, left = found[1].rpartition(",") if follows else ("", "", found[1])
    label, _, size = left.strip().partition(" ")  # "size M ->"
    if size.isalnum() and len(size) < 4 and label.isalpha() and label[:3] not in _MONTHS:
        head, left = f"{head}, {label}", size
    return f"{head}, from {left.replace(',', ' ')} to "


@lru_cache(maxsize=1024)
def granted(text: str) -> str:
    """Return a text in small letters without what it denies, and without what is to be changed from."""
    return _FROM.sub(" ", _DENIAL.sub(" ", _plain(text)))


def births(text: str) -> frozenset[str]:
    """Return the days in a text in small letters that have a year, but not this one's, as 1985-11-16."""
    return frozenset(
        f"{found['year']}-{_MONTHS.index(found['m']) + 1:02}-{int(found['d'] or found['day'] or 0):02}"
        if found["m"] else found[0]
        for found in _BIRTH.finditer(text)
    )  # fmt: skip


def points(text: str) -> bool:
    """Return whether a text points at something that it does not name ("the other one")."""
    act = read_act(text)
    return act.vague and not (act.objects - {"elsewhere"} or act.valued)


@cache
def lexicon() -> dict[str, object]:
    """Return the words."""
    return json.loads(files(__package__).joinpath("acts.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


@cache
def alike() -> dict[str, frozenset[str]]:
    """Return, of each verb of a proposal, the verbs of a want that it may bring about."""
    same: dict[str, str] = lexicon()["same"]  # type: ignore[assignment]
    verbs: dict[str, str] = lexicon()["verbs"]  # type: ignore[assignment]
    return {verb: frozenset({verb, *same.get(verb, "").split()}) for verb in verbs}


@cache
def _classes(kind: str) -> tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...]:
    """Return the classes of a kind: name, bits of which one stands wherever the pattern is found, and the pattern."""
    table: dict[str, str] = lexicon()[kind]  # type: ignore[assignment]
    return tuple((name, _bits(words), _stems(words)) for name, words in table.items())


def _bits(words: str) -> tuple[str, ...]:
    """Return the least texts of which one stands in every text that has one of the words: looking for them costs little."""
    bits = {word.replace("~", " ").rstrip(".") for word in words.split()}
    return tuple(sorted(bit for bit in bits if not any(other != bit and other in bit for other in bits)))


@cache
def _words(kind: str) -> re.Pattern[str]:
    words: str = lexicon()[kind]  # type: ignore[assignment]
    return re.compile(rf"\b(?:{'|'.join(word.replace('~', ' ') for word in words.split())})\b")


def _stands(kind: str, text: str) -> bool:
    """Return whether one of some words stands in a text."""
    return _hold(text, _bits_of(kind)) and _words(kind).search(text) is not None


def _hold(text: str, bits: tuple[str, ...]) -> bool:
    for bit in bits:  # half the time of a generator, hundreds of times a sentence
        if bit in text:
            return True
    return False


@cache
def _bits_of(kind: str) -> tuple[str, ...]:
    return _bits(str(lexicon()[kind]))


def _stems(words: str) -> re.Pattern[str]:
    """Return the pattern of words: each a stem, or with a full stop the whole word."""
    return re.compile(
        rf"\b(?:{'|'.join(word.replace('~', ' ').replace('.', chr(92) + 'b') for word in words.split())})"
    )


def _named(kind: str, text: str, acting: bool = False) -> frozenset[str]:
    return frozenset(
        name
        for name, bits, pattern in _classes(kind)
        if _hold(text, bits) and any(not acting or _is_act(text, place) for place in pattern.finditer(text))
    )


def _is_act(text: str, found: re.Match[str]) -> bool:
    """Return whether a verb is something to do: "it includes", "as ordered" and "the prices shown" tell how things are."""
    rest = _REST.match(text, found.end())
    word = found[0] + (rest[0] if rest else "")
    if word.endswith("s") and not word.endswith("ss"):
        return False
    return not word.endswith(_PARTICIPLES) or _BE.search(text[max(0, found.start() - 40) : found.start()]) is not None


def _values(text: str) -> Iterator[tuple[str, str]]:
    if not text:
        return
    for field, words in _VALUES.items():
        for found in words.finditer(text):
            value = found[1] if field == "card" else "-".join(_number(one) for one in found.groups() if one)
            yield field, value.replace(" ", "") if field == "brand" else _alias(value)
    yield from (("city", _alias(word)) for word in _cities().findall(text))
    for found in _TOTAL.finditer(text):
        yield "in all", _number(found[1])
    for found in _COUNTED.finditer(_TOTAL.sub(" ", text)):
        yield _unit(found[2]), _number(found[1])
    yield from ((_unit(found[1]), found[2]) for found in _LISTED.finditer(text))
    yield from ((field, count) for field, count, words in _PEOPLE if words.search(text))


@cache
def _cities() -> re.Pattern[str]:
    codes: dict[str, str] = lexicon()["cities"]  # type: ignore[assignment]
    return re.compile(rf"\b(?:{'|'.join((*codes, *codes.values()))})\b")


def _alias(word: str) -> str:
    cities: dict[str, str] = lexicon()["cities"]  # type: ignore[assignment]
    aliases: dict[str, str] = lexicon()["aliases"]  # type: ignore[assignment]
    return cities.get(word) or aliases.get(word, word)


def _number(text: str) -> str:
    if text in _MONTHS:
        return str(_MONTHS.index(text) + 1)
    text = _NUMBERS.get(text, text).replace(",", "")
    return f"{float(text):g}" if re.fullmatch(r"\d+(?:\.\d+)?", text) else text


def _unit(noun: str) -> str:
    return {"gigabyte": "gb", "gig": "gb", "suitcase": "bag", "seat": "passenger", "ticket": "passenger"}.get(
        noun, noun
    )
