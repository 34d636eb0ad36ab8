r"""Numbers as language models dress them (`**$18.00**`, `\boxed{18}`, `18 dollars`) are read by value.

A text is one number or it is none: ranges, dates, versions, ordinals and quantities such as `18 million` stay as they stand.
"""

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

MOST_CHARACTERS = 400  # of a line that is looked at
_DRESSED = re.compile(
    r"""(?:(?:the[ ])?(?:final[ ])?(?:answer|result|total)(?:[ ]is)?[ ]*[:=]?|[a-z][ ]*=)?  # `The answer is 18`, `x = 18`
    [ \t*_`"'(\[{=:$€£¥₹\\]*(?:boxed|text|mathbf)?[ \t*{(\[\\]*(?:US|AU|CA|USD|EUR|GBP)?[ \t$€£¥₹\\]*  # money, type
    (?P<sign>[-+−]?)[ \t]*\\?[$€£¥₹]?[ \t]*
    (?P<digits>[1-9]\d{0,2}(?:[,\u00a0\u2009\u202f]\d{3})+(?!\d)|\d+)?(?P<part>\.\d+)?(?![ \t]*[²³¹⁰-₉¼-¾⅐-⅞])
    (?P<percent>[ \t]*\\?(?:%|per[ \t]?cent\b))?      # counts where per cent are asked for
    (?P<unit>[a-z]*)                                  # `18km`
    (?P<words>[^\d%‰~≈<>=^/:+×±π√\n]{0,300})
    (?:[.!][ \t*_]+[a-z][^\n]*)?\Z                    # a sentence behind it may hold numbers of its own""",
    re.VERBOSE | re.IGNORECASE,
)
_MULTIPLES = "k|m|b|bn|bil|tn|mn|mil|mln|mio|mrd|pct|pi"
_NO_UNIT = re.compile(rf"(st|nd|rd|th|{_MULTIPLES}|ish|bce?|[a-fijn-z])\Z", re.IGNORECASE)  # `18a` is no length
# Words behind a number that make it another one, or none.
_OTHER_VALUE = re.compile(
    r"\b(hundred|thousand|million|billion|trillion|lakhs?|crores?|dozens?|score|half|halves|thirds?|quarter|tenths?|percent|"
    rf"per[ \t]cent|permille|{_MULTIPLES}|or|nor|to|through|vs|no|nope|not|never|cannot|wrong|incorrect|false|point|squared|"
    r"cubed|doubled|twice|plus|minus|times|and|instead|rather|approximately|roughly|about|below|negative|bce?|"
    r"th|st|nd|rd|[xyz]|(?:two|three|five|eleven|twelve|twenty|(?:thir|fif)teen|(?:thir|for|fif)ty|(?:four|six|seven|eigh|nine)"
    r"(?:teen|ty)?|eight|ten|zero)(?:-\w+)?)\b|n['’]t\b|[-–—][ \t]*\Z|,\d",
    re.IGNORECASE,
)
# A sentence behind a number that takes it back.
_CORRECTION = re.compile(
    r"[.!?][ \t*_]+(?:no|not|nope|wait|actually|sorry|oops|hmm+|correction|but|or|rather|however|alternatively|instead)\b",
    re.IGNORECASE,
)
_ASKS_PER_CENT = re.compile(
    r"\b(?:what|which|how many|how much|in|as an?)\s+(?:[a-z]+\s+){0,2}(?:per\s?cent|percentage)"
    r"|\b(?:per\s?cent|percentage)\b[^.?!]{0,20}\?|%\s*\?",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)", re.ASCII)
_DIGIT = re.compile(r"\d").search
_HEADING = re.compile(r"\d{1,2}[.):][ \t]+[^\W\d]")
_FREE = re.compile(
    r"""(?:(?<![\w#@.])|(?<=\bUSD)|(?<=\bRs\.))(?<![0-9][,:/-])  # no part of a name, an id, a date, a time or a longer number
    (?:(?P<digits>[1-9][0-9]{0,2}(?:[,\u00a0\u202f][0-9]{3})++(?![0-9])|[0-9]++)(?P<part>\.[0-9]++)?|(?P<rest>\.[0-9]++))
    (?P<unit>[^\W\d_]*+)(?![\w@%]|[-.,:/][0-9]|[ ](?:%|hundred|thousand|million|billion|dozen))""",
    re.VERBOSE | re.IGNORECASE,
)
_BOX = re.compile(r"\\fbox\s*+\{|\\(?:boxed|fbox)[ \t]*+([-+−]?[0-9.,/]*[0-9][0-9.,/]*)")
_PLACE = re.compile(r"^[ \t]*+[0-9]{1,2}[.)](?=[ \t])", re.MULTILINE)  # of an item in a list
MOST_IN_A_TEXT, MOST_OF_A_LENGTH = 8, 20  # numbers
DIGITS_OF_AN_ID = 8  # before the point, or more: who lists items by their ids lists no amounts


@lru_cache(maxsize=64)
def asks_per_cent(question: str) -> bool:
    """Return whether a question asks for per cent, so that `18 %` is 18."""
    return _ASKS_PER_CENT.search(question) is not None


@lru_cache(maxsize=8)  # success and reward of a turn read the same texts
def plain_number(text: str, *, per_cent: bool = False) -> str | None:
    r"""Return the one number of a text without its dress ("$1,234.50": "1234.5"; 18 % only if `per_cent`); None for others.

    Args:
        text: one line, such as `**€18**`, `18.00`, `\boxed{18}`, `18 dollars` or `18. So she has 18 left`.
        per_cent: whether per cent are asked for; elsewhere `18 %` is no number.
    """
    match = _DIGIT(text) and _DRESSED.match(text[:MOST_CHARACTERS].strip())
    if match is None or not (match["digits"] or match["part"]):
        return None
    if (match["percent"] and not per_cent) or _NO_UNIT.match(match["unit"]):
        return None
    if _OTHER_VALUE.search(match["words"].partition(". ")[0]) or _CORRECTION.search(text[:MOST_CHARACTERS]):
        return None
    return _value(match["sign"], match["digits"], match["part"])


def _value(sign: str, digits: str | None, decimals: str | None) -> str:
    """Return a number as text: no separators, no leading zeros, no trailing decimal zeros, `-0` as `0`."""
    whole = re.sub(r"\D", "", digits or "0").lstrip("0") or "0"
    part = (decimals or "").rstrip("0").rstrip(".")
    return f"{'-' if sign in ('-', '−') and (whole != '0' or part) else ''}{whole}{part}"


def is_plain(text: str) -> bool:
    """Return whether a text is a number without any dress but a sign, commas between groups of three and a decimal point."""
    return _PLAIN.fullmatch(text.strip()) is not None


@lru_cache(maxsize=64)
def has_plain(golds: tuple[str, ...]) -> bool:
    """Return whether a gold answer is a plain number, cached."""
    return any(map(is_plain, golds))


def numbers_in(text: str, most: int) -> set[str]:
    """Return the values of the numbers that stand free in a text, signs left out, at most `most` + 1 and ids.

    Signs are left out: who is given 16.43 back pays -16.43 more.
    """
    values, amounts = set[str](), 0
    text = _PLACE.sub("", text) if len(_PLACE.findall(text)) > 1 else text
    for match in _FREE.finditer(text):
        if not _NO_UNIT.match(match["unit"]):
            value = _value("", match["digits"], match["part"] or match["rest"])
            amounts += value not in values and _is_amount(value)
            values.add(value)
            if amounts > most:
                break
    return values


def _is_amount(value: str) -> bool:
    """Return whether a number is too short for an id."""
    return len(value.partition(".")[0]) < DIGITS_OF_AN_ID


def are_told(facts: Iterable[str], texts: Iterable[str]) -> tuple[bool, ...]:
    """Return for each fact whether a text tells it: numbers by value (none of a text or length with too many), else by words.

    Who tells everything tells nothing: a text with more than MOST_IN_A_TEXT amounts counts for no number, and no number
    counts where the others tell more than MOST_OF_A_LENGTH with as many digits before the point.
    """
    facts, texts = list(facts), list(texts)
    lists = [numbers_in(text, MOST_IN_A_TEXT) for text in texts] if any(map(is_plain, facts)) else []
    values = set[str]().union(*(values for values in lists if sum(map(_is_amount, values)) <= MOST_IN_A_TEXT))
    lengths = Counter(len(value.partition(".")[0]) for value in values)

    def is_told(fact: str) -> bool:
        number = (plain_number(fact) or "").lstrip("-") if is_plain(fact) else ""
        if not number:
            words = re.compile(rf"(?<!\w){re.escape(fact)}(?!\w)", re.IGNORECASE)
            return any(words.search(text) for text in texts)
        return number in values and lengths[len(number.partition(".")[0])] <= MOST_OF_A_LENGTH

    return tuple(map(is_told, facts))


def plain_boxes(text: str) -> tuple[str, tuple[str, ...]]:
    r"""Rewrite `\fbox{5}` and `\boxed 5` as `\boxed{5}`; return an event for each."""
    events = list[str]()

    def plain(match: re.Match[str]) -> str:
        """Return the match as a box, or as the opening of one where a brace stands; note an event."""
        events.append(f"tolerated: {match[0]!r} was read as a box")
        return f"\\boxed{{{match[1].rstrip('.,')}}}" if match[1] else "\\boxed{"

    return _BOX.sub(plain, text), tuple(events)


def undressed(answer: str, golds: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """Return (answer, ()), or, if it is one dressed number and a gold a plain one, (that number, an event)."""
    is_dressed = _DIGIT(answer) and has_plain(tuple(golds)) and not is_plain(answer)
    number = plain_number(answer) if is_dressed else None
    return (answer, ()) if number is None else (number, (f"tolerated: {answer.strip()[:60]!r} was read as {number}",))


@lru_cache(maxsize=8)
def _line_behind(mark: str) -> re.Pattern[str]:
    """Return the pattern of a mark, signs of emphasis, at most three line breaks and the rest of that line, cached."""
    return re.compile(re.escape(mark) + r"[*_`]*+(?:[ \t]*+\n){0,3}([^\n]{0,2000})")


def plain_marked_numbers(text: str, mark: str, *, per_cent: bool = False) -> tuple[str, tuple[str, ...]]:
    """Rewrite dressed numbers behind a mark as plain ones, unmark headings that more text follows; return an event for each.

    A mark before a numbered heading (`#### 1. Understand the problem`) that more text follows is taken away.
    """
    events, end = list[str](), len(text.rstrip())

    def plain(match: re.Match[str]) -> str:
        """Return the mark with the plain number; a heading loses its mark, and text that is no number stays. Notes an event."""
        if match.end() < end and _HEADING.match(match[1].lstrip()):
            events.append(f"tolerated: a heading is no answer: {match[1][:60]!r}")
            return match[0].removeprefix(mark)
        number = plain_number(match[1], per_cent=per_cent)
        if number is None or match[0] == f"{mark} {number}":
            return match[0]
        events.append(f"tolerated: {match[0].strip()[:60]!r} was read as {number}")
        return f"{mark} {number}"

    return _line_behind(mark).sub(plain, text), tuple(events)
