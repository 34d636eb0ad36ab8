"""Values that can be checked are found in free text: e-mails, ids, phone numbers, dates, amounts of money, longer numbers.

There are two readings of the same text: `claims` is narrow and gives what somebody plainly states; `Known` is wide and takes
in all that a text could be said to tell, in any spelling, so that an honest retelling is never taken for an invention.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

LONGEST = 20_000  # characters of a text that are read
_MOST_SUMS = 80  # amounts whose sums and differences are known, too
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<{0}>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DATE = re.compile(
    r"(?<![\d-])(?P<iso_y>\d{4})-(?P<iso_m>\d{1,2})-(?P<iso_d>\d{1,2})(?![\d-])"
    r"|(?<![\d/])(?P<us_m>\d{1,2})/(?P<us_d>\d{1,2})(?:/(?P<us_y>\d{4}|\d{2}))?(?![\d/])"
    rf"|\b{_MONTH.format('md_m')}\s{{1,3}}(?P<md_d>\d{{1,2}})(?:st|nd|rd|th)?(?![\d:]|\.\d)(?:,?\s{{1,3}}(?P<md_y>(?:19|20)\d\d))?"
    rf"|(?<![\d:.])(?P<dm_d>\d{{1,2}})(?:st|nd|rd|th)?\s{{1,3}}(?:of\s{{1,3}})?{_MONTH.format('dm_m')}"
    r"(?:,?\s{1,3}(?P<dm_y>(?:19|20)\d\d))?",
    re.IGNORECASE,
)
_EMAIL = re.compile(r"[A-Za-z0-9][\w.+-]{0,63}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,4}")
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_MONEY = re.compile(
    rf"[$€£]\s?(?P<sign>{_NUMBER})(?P<sign_k>k\b)?"
    rf"|(?<![\w.,#-])(?P<word>{_NUMBER})(?P<word_k>k)?\s{{0,2}}(?:us\s)?(?:dollars?|usd|bucks|euros?|eur)\b",
    re.IGNORECASE,
)
_PHONE = re.compile(r"(?<![\w-])(?:\+?1[ .-]?)?\(?\d{3}\)?[ .-]{1,2}\d{3}[ .-]\d{4}(?![\w-])")
_ID = re.compile(r"#?\b(?=[A-Za-z0-9_]*\d)(?=[A-Za-z0-9_]*[A-Za-z])[A-Za-z0-9_]{4,40}\b")
_CODE = re.compile(
    r"\b(?:reservation|booking|confirmation)(?:\s(?:number|code|id|no))?[.:]?\s(?:is\s|of\s)?([A-Z]{6})\b(?!\s[A-Z]{2})"
)
_DIGITS = re.compile(
    r"#?(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d{3,})(?:\.\d{1,2})?(?![\w]|\.\d|,\d{3})|(?<![\w.,])\d+\.\d\d(?!\d)"
)
_UNIT = re.compile(  # 1080p, 256GB, 27inch, 4G: sizes, not ids
    r"\d+(?:\.\d+)?(?:x\d+)?(?:p|k|g|gb|mb|tb|ghz|mhz|hz|w|wh|v|mah|ml|l|oz|lbs?|kg|mm|cm|m|km|ft|in|inch|inches|hrs?|mins?|am|pm"
    r"|st|nd|rd|th|s|x|mbps|rpm|days?|years?|pieces?|pc)",
    re.IGNORECASE,
)
_HARMLESS = re.compile(  # times of day, shares, and numbers that only a manner of speaking holds
    r"\d{1,2}:\d{2}(?::\d{2})?(?:\s?[ap]\.?m\b)?|(?<!\d)\d{1,9}(?:\.\d{1,9})?\s?(?:%|percent\b|per cent\b)|\b24/7\b|\b911\b"
    r"|\b(?:since|in|of)\s(?:19|20)\d\d\b|\b\d+\s(?:times|thanks|minutes|hours|miles|kilometers|km)\b"
)
_ALNUM, _TOKEN, _PLAIN_DIGITS = re.compile(r"[a-z0-9]+"), re.compile(r"[a-z0-9_]+"), re.compile(r"\d+")
_RUN = re.compile(r"\d(?:[ ().\-/]{0,2}\d)*")
_LOOSE = re.compile(rf"(?<![\d.]){_NUMBER}")
_SMALL = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
        "eighteen nineteen".split()
    )
}
_TENS = {
    word: 10 * value for value, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)
}
_UNITS = {**_SMALL, **_TENS}
_WORDED = re.compile(
    r"\b(?:(?:{0})(?:[\s-](?:{0}|hundred|thousand|and)){{0,7}}|a\s(?:hundred|thousand))\b".format("|".join(_UNITS)),
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Claim:
    """A value that somebody states. `kind` is e-mail, date, amount, phone number, id or number; `shown` how it stands there."""

    kind: str
    shown: str
    key: str = ""
    date: tuple[int, int, int] = (0, 0, 0)


def claims(text: str) -> Iterator[Claim]:
    """Yield the values that a text plainly states, in no particular order."""
    rest = _digits_for_words(text[:LONGEST])
    rest, found = _taken(_EMAIL, rest)
    yield from (Claim("e-mail", one[0], one[0].lower().rstrip(".")) for one in found)
    rest, found = _taken(_HARMLESS, rest)
    rest, found = _taken(_DATE, rest)
    yield from (Claim("date", one[0].strip(), date=date) for one in found if (date := _date(one)) is not None)
    rest, found = _taken(_MONEY, rest)
    yield from (Claim("amount", one[0].strip(), _amount(one)) for one in found)
    rest, found = _taken(_PHONE, rest)
    yield from (Claim("phone number", one[0].strip(), _only_digits(one[0])) for one in found)
    yield from (Claim("id", one[1], one[1].lower()) for one in _CODE.finditer(rest))
    rest, found = _taken(_ID, rest)
    yield from (claim for one in found if (claim := _identifier(one[0])) is not None)
    rest, found = _taken(_DIGITS, rest)
    yield from (Claim("number", one[0], one[0].lstrip("#").replace(",", "")) for one in found)


@dataclass
class Known:
    """What texts tell, in every spelling; it grows with `take`."""

    words: set[str] = field(default_factory=set)
    digits: set[str] = field(default_factory=set)
    numbers: set[float] = field(default_factory=set)
    amounts: set[float] = field(default_factory=set)
    dates: set[tuple[int, int, int]] = field(default_factory=set)
    relative: bool = False

    def take(self, *texts: str) -> None:
        """Take in texts."""
        for text in texts:
            told = _told(text[:LONGEST])
            self.words |= told[0]
            self.digits |= told[1]
            self.numbers |= told[2]
            self.dates |= told[3]
            self.amounts |= told[4]
            self.relative = self.relative or bool(_RELATIVE.search(text[:LONGEST]))

    def holds(self, claim: Claim, slips: bool = False) -> bool:
        """Return whether a claim is known; with `slips`, two digits of it may have changed places."""
        if claim.kind == "date":
            return self._dated(claim.date) or (slips and _swapped(_figures(claim.date), map(_figures, self.dates)))
        if claim.kind == "amount":
            return self._reckoned(float(claim.key))
        if claim.kind == "e-mail":
            return claim.key in self.words or (slips and _swapped(claim.key, self.words))
        digits = _only_digits(claim.key)
        if claim.kind == "number" and "." in claim.key:
            return self._reckoned(float(claim.key))
        if claim.kind in ("number", "phone number"):
            return self._counted(claim, digits) or (slips and _swapped(digits, self.digits))
        plain = claim.key.replace("_", "")
        return plain in self.words or claim.key in self.words or (slips and _swapped(plain, self.words))

    def _counted(self, claim: Claim, digits: str) -> bool:
        tail = len(digits) >= 4 and any(known.endswith(digits) for known in self.digits)
        ahead = digits[-10:] in self.digits or digits in self.words
        return tail or ahead or (claim.kind == "number" and float(claim.key) in self.numbers)

    def _dated(self, date: tuple[int, int, int]) -> bool:
        year, month, day = date
        for known in self.dates:
            # 05/06 may be the fifth of June.
            if (known[1:] in ((month, day), (day, month))) and (
                not year or not known[0] or known[0] % 100 == year % 100
            ):
                return True
        return self.relative and any(
            abs(_ordinal(known) - _ordinal(date)) <= 14 and known[0] in (0, year or known[0]) for known in self.dates
        )

    def _reckoned(self, amount: float) -> bool:
        if amount == 0 or amount in self.numbers or any(round(one) == amount for one in self.numbers):
            return True
        pool = sorted(self.amounts)[:_MOST_SUMS]
        return any(abs(abs(one - amount) - other) < 0.006 for one in pool for other in pool)


_RELATIVE = re.compile(
    r"\b(?:next|following|previous|last)\s(?:day|week|month)|\b(?:day|days|week|weeks)\s(?:later|earlier|after|before|prior)|"
    r"\btomorrow\b|\byesterday\b|\btoday\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=2048)
def _told(text: str) -> tuple[frozenset[Any], ...]:
    """Return the words, digits, numbers, dates and amounts of a text."""
    spelt = _digits_for_words(text)
    lower = spelt.lower()
    words = set(_ALNUM.findall(lower)) | {one.lower().rstrip(".") for one in _EMAIL.findall(text)}
    for token in _TOKEN.findall(lower):
        words |= {token, token.replace("_", "")}
    digits = {_only_digits(one) for one in _RUN.findall(spelt)} | set(_PLAIN_DIGITS.findall(spelt))
    numbers = {float(one.replace(",", "")) for one in _LOOSE.findall(spelt) if len(one) < 20}
    dates = {date for one in _DATE.finditer(spelt) if (date := _date(one)) is not None}
    amounts = {float(_amount(one)) for one in _MONEY.finditer(spelt)}
    amounts |= {float(one.replace(",", "")) for one in _LOOSE.findall(spelt) if "." in one and len(one) < 20}
    return frozenset(words), frozenset(digits), frozenset(numbers), frozenset(dates), frozenset(amounts)


def _taken(pattern: re.Pattern[str], text: str) -> tuple[str, list[re.Match[str]]]:
    """Return a text with the matches blanked out, and the matches."""
    found = list(pattern.finditer(text))
    return (pattern.sub(lambda one: " ; ", text) if found else text), found


def _identifier(shown: str) -> Claim | None:
    token = shown.lstrip("#")
    if _UNIT.fullmatch(token) or len(token) < 5 or sum(one.isdigit() for one in token) < 2:
        return None
    return Claim("id", shown, token.lower())


def _date(found: re.Match[str]) -> tuple[int, int, int] | None:
    for form in ("iso", "us", "md", "dm"):
        month, day, year = (found[f"{form}_{part}"] for part in "mdy")
        if day is not None:
            number = int(month) if month.isdigit() else _MONTHS.index(month[:3].casefold()) + 1  # of the long s, too
            date = int(year or 0), number, int(day)
            return date if 1 <= min(date[1:]) and max(date[1:]) <= 31 and min(date[1:]) <= 12 else None
    return None


def _ordinal(date: tuple[int, int, int]) -> int:
    return 31 * date[1] + date[2]


def _figures(date: tuple[int, int, int]) -> str:
    return "{:04}{:02}{:02}".format(*date)


def _amount(found: re.Match[str]) -> str:
    value = float((found["sign"] or found["word"]).replace(",", "")) * (
        1000 if found["sign_k"] or found["word_k"] else 1
    )
    return repr(min(value, 1e15))


def _only_digits(text: str) -> str:
    return "".join(one for one in text if one.isdigit())


def _swapped(value: str, known: Iterable[str]) -> bool:
    letters = sorted(value)
    return any(len(one) == len(value) and sorted(one) == letters for one in known)


def _digits_for_words(text: str) -> str:
    return _WORDED.sub(lambda found: _numeral(found[0]), text)


def _numeral(words: str) -> str:
    total = part = 0
    for word in re.split(r"[\s-]+", words.lower()):
        if word in _UNITS:
            if part % 100 and not (part % 100 >= 20 and part % 10 == 0 and _UNITS[word] < 10):
                return words  # "one two three": digits that are told one by one, or no number at all
            part += _UNITS[word]
        elif word == "hundred":
            part = max(part, 1) * 100
        elif word == "thousand":
            total, part = total + max(part, 1) * 1000, 0
    return str(total + part)
