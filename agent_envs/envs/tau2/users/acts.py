"""`read_act` reads what a text is about doing, of an agent's proposal and of a customer's wish alike: verbs, objects, values.

The words are data (`acts.json`): a verb is known by its stems, an object by its names; `~` joins words that stand together.
What stands behind a denial ("no bags", "instead of a refund") is read apart. Nothing here knows any sentence.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib.resources import files
from typing import Any

from agent_envs.envs.tau2.users.agent_words import Words, words

_LONG_STRETCH = re.compile(r"[^.;\n]{300}")  # no pattern looks further: an endless text costs what its length does
_of = partial(words, file="act_words.txt")
_PEOPLE = tuple(
    (who, count, _of(f"people {who} {count}"))
    for who, count in (("passenger", "1"), ("passenger", "2"), ("party", "all"), ("party", "one"))
)
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_NUMBERS = {
    word: str(value) for value, word in enumerate("one two three four five six seven eight nine ten".split(), 1)
} | {"single": "1", "another": "1", "couple": "2", "half": "0.5", "one and a half": "1.5"}
_COUNT = rf"(\d+(?:\.\d+)?|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_VALUES = {
    "date": Words(
        rf"\b({'|'.join(_MONTHS)})[a-z]* (\d{{1,2}})\b|\b\d{{4}}-(\d\d)-(\d\d)\b|\bthe (\d{{1,2}})(?:st|nd|rd|th)\b"
    )
} | {
    field: _of(f"value {field}")
    for field in ("card", "means", "brand", "cabin", "pick", "trip", "street", "zip", "unit", "money")
}
_BIRTH = Words(
    rf"\b(?:19\d\d|20[01]\d)-\d\d-\d\d\b"
    rf"|\b(?:(?P<d>\d{{1,2}}) )?(?P<m>{'|'.join(_MONTHS)})[a-z]*"
    rf"(?: (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?)? (?P<year>19\d\d|20[01]\d)\b",
    ("19", "200", "201"),
)
_COUNTED = Words(
    rf"(?<![$\d.,-])\b{_COUNT}[- ]?(?:[a-z]+[- ]){{0,2}}?(bag|suitcase|passenger|gb|gig|gigabyte"
    r"|(?:seat|ticket)(?!s? (?:left|available|free|remain)))s?\b",
    ("bag", "suitcase", "passenger", "gb", "gig", "seat", "ticket"),
)
_LISTED = Words(r"\b(bag|suitcase)s?:? (\d+)\b", ("bag", "suitcase"))
_TOTAL = Words(
    rf"(?<![$\d.,-])\b{_COUNT}(?: (?:checked )?bags?)? (?:in all|in total|altogether|overall)\b",
    ("in all", "in total", "altogether", "overall"),
)
_STARTS = re.compile(r"\b\w\w")
# What misleads is left out, and what is said in a roundabout way is put plainly, in this order.
_REWORDED = (
    (_of("again"), r" resume \g<0>"), (_of("lifted"), " resume "), (_of("halted"), " suspend "), (_of("roams"), "roaming"),
    (_of("either_way"), "the alternative"), (_of("purpose"), " "), (_of("apart"), r"\1 \3\2"), (_of("born"), " "),
    (_of("switched"), r"turn \2\1"), (_of("money_back"), "refund "), (_of("chance"), " "), (_BIRTH, " "),
    (_of("way_back"), "inbound flight"),
)  # fmt: skip
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
    text = plainly(text)
    for roundabout, new in _REWORDED:
        text = roundabout.sub(new, text)
    denials = " . ".join(found[0] for found in _denial(text).finditer(text))
    told = _denial(text).sub(" ", text) if denials else text
    acting = _of("state").sub(" ", _of("aside").sub(" ", told))
    verbs, objects, values = _named("verbs", acting, proposing), _named("objects", acting), frozenset(_values(told))
    if any(field == "gb" for field, _ in values):
        objects |= {"data"}
    denials += " upgrade, downgrade" if _of("same_cabin").search(told) else ""
    excluded: frozenset[str | tuple[str, str]] = frozenset(
        (*_named("verbs", denials), *_named("objects", denials), *_values(denials))
    )
    return Act(
        verbs,
        objects,
        values,
        frozenset(_values(" . ".join(found[0] for found in _of("from").finditer(text)))),
        excluded - verbs - objects - values,
        _whole("looks").search(told) is not None,
        _whole("vague").search(told) is not None,
        frozenset(word for found in _of("except").finditer(text) for word in _LONG.findall(found[1])),
        frozenset(_LONG.findall(told)),
    )


def plainly(text: str) -> str:
    """Return a text in small letters, with an end where it has none for too long."""
    text = _LONG_STRETCH.sub(r"\g<0>;", text).lower().replace("\u2019", "'").replace("_", " ").replace("gray", "grey")
    text = _of("arrow").sub(_from_to, text)
    text = _of("original").sub("original method", text)
    return _of("none").sub(r"no \1;", _of("pieces").sub("", text.replace("mail address", "mail")))


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
    plain = plainly(text)
    return _of("from").sub(" ", _denial(plain).sub(" ", plain))


def _denial(text: str) -> Words:
    return _of("denial") if _of("gone").stand(text) else _of("plain denial")


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
    return act.vague and not (act.objects - {"elsewhere", *lexicon()["asides"]} or act.valued)


@cache
def lexicon() -> dict[str, Any]:
    """Return the words."""
    return dict(json.loads(files(__package__).joinpath("acts.json").read_text(encoding="utf-8")))


@cache
def alike() -> dict[str, frozenset[str]]:
    """Return, of each verb of a proposal, the verbs of a want that it may bring about."""
    return {verb: frozenset({verb, *lexicon()["same"].get(verb, "").split()}) for verb in lexicon()["verbs"]}


@cache
def _classes(kind: str) -> tuple[dict[str, list[tuple[str, str]]], dict[str, Words]]:
    """Return, by the two letters that it begins with, each stem of a kind with its class, and the words of each class."""
    table, stems = lexicon()[kind], dict[str, list[tuple[str, str]]]()
    for name, text in table.items():
        for stem in text.replace("~", "\n").replace(".", "").split(" "):
            stems.setdefault(stem[:2], []).append((stem.replace("\n", " "), name))
    return stems, {name: _stems(text) for name, text in table.items()}


def _bits(text: str) -> tuple[str, ...]:
    """Return the least texts of which one stands in every text that has one of the words: looking for them costs little."""
    bits = {word.replace("~", " ").rstrip(".") for word in text.split()}
    return tuple(sorted(bit for bit in bits if not any(other != bit and other in bit for other in bits)))


@cache
def _whole(kind: str) -> Words:
    text = lexicon()[kind]
    return Words(rf"\b(?:{'|'.join(word.replace('~', ' ') for word in text.split())})\b", _bits(text))


def _stems(text: str) -> Words:
    """Return words of which each is a stem, or with a full stop a whole word."""
    stems = (word.replace("~", " ").replace(".", chr(92) + "b") for word in text.split())
    return Words(rf"\b(?:{'|'.join(stems)})", _bits(text))


def _named(kind: str, text: str, acting: bool = False) -> frozenset[str]:
    stems, classes = _classes(kind)
    starts = set(_STARTS.findall(text))
    likely = {name for start in starts for stem, name in stems.get(start, ()) if stem in text}
    return frozenset(
        name
        for name in likely
        if any(not acting or _is_act(text, place) for place in classes[name].compiled.finditer(text))
    )


def _is_act(text: str, found: re.Match[str]) -> bool:
    """Return whether a verb is something to do: "it includes", "as ordered" and "the prices shown" tell how things are."""
    rest = _REST.match(text, found.end())
    word = found[0] + (rest[0] if rest else "")
    if word.endswith("s") and not word.endswith("ss"):
        return False
    before = text[max(0, found.start() - 40) : found.start()]
    return not word.endswith(_PARTICIPLES) or _of("be").search(before) is not None


def _values(text: str) -> Iterator[tuple[str, str]]:
    if not text:
        return
    for field, told in _VALUES.items():
        for found in told.finditer(text):
            value = found[1] if field == "card" else "-".join(_number(one) for one in found.groups() if one)
            yield field, value.replace(" ", "") if field == "brand" else _alias(value)
    yield from (("city", _alias(found[0])) for found in _cities().finditer(text))
    for found in _TOTAL.finditer(text):
        yield "in all", _number(found[1])
    for found in _COUNTED.finditer(_TOTAL.sub(" ", _VALUES["date"].sub(" ", text))):
        yield _unit(found[2]), _number(found[1])
    yield from ((_unit(found[1]), found[2]) for found in _LISTED.finditer(text))
    yield from ((field, count) for field, count, told in _PEOPLE if told.search(text))


@cache
def _cities() -> Words:
    names = tuple(name for pair in lexicon()["cities"].items() for name in pair)
    return Words(rf"\b(?:{'|'.join(names)})\b", names)


def _alias(word: str) -> str:
    return str(lexicon()["cities"].get(word) or lexicon()["aliases"].get(word, word))


def _number(text: str) -> str:
    if text in _MONTHS:
        return str(_MONTHS.index(text) + 1)
    text = _NUMBERS.get(text, text).replace(",", "")
    return f"{float(text):g}" if re.fullmatch(r"\d+(?:\.\d+)?", text) else text


def _unit(noun: str) -> str:
    units = {"gigabyte": "gb", "gig": "gb", "suitcase": "bag", "seat": "passenger", "ticket": "passenger"}
    return units.get(noun, noun)
