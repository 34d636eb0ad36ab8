r"""Numbers as language models dress them (`**$18.00**`, `\boxed{18}`, `18 dollars`) are read by value.

A text is one number or it is none: ranges, dates, versions, ordinals and quantities such as `18 million` stay as they stand.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

MOST_CHARACTERS = 400  # of a line that is looked at
_DRESSED = re.compile(
    r"""(?:(?:the[ ])?(?:final[ ])?(?:answer|result|total)(?:[ ]is)?[ ]*[:=]?|[a-z][ ]*=)?  # `The answer is 18`, `x = 18`
    [ \t*_`"'(\[{=:$€£¥₹\\]*(?:boxed|text|mathbf)?[ \t*{(\[\\]*(?:US|AU|CA|USD|EUR|GBP)?[ \t$€£¥₹\\]*  # money, type
    (?P<sign>[-+−]?)[ \t]*\\?[$€£¥₹]?[ \t]*
    (?P<digits>[1-9]\d{0,2}(?:[,\u00a0\u2009\u202f]\d{3})+(?!\d)|\d+)?(?P<part>\.\d+)?
    (?P<percent>[ \t]*\\?(?:%|per[ \t]?cent\b))?      # counts where per cent are asked for
    (?P<unit>[a-z]*)                                  # `18km`
    (?P<words>[^\d%~≈<>=^/:+×±\n]{0,300})
    (?:[.!][ \t*_]+[a-z][^\n]*)?\Z                    # a sentence behind it may hold numbers of its own""",
    re.VERBOSE | re.IGNORECASE,
)
_NO_UNIT = re.compile(r"(st|nd|rd|th|k|m|b|x|e|bn|mn|mio|mrd|ish|s)\Z", re.IGNORECASE)
# Words behind a number that make it another one, or none.
_OTHER_VALUE = re.compile(
    r"\b(hundred|thousand|million|billion|trillion|dozens?|score|half|third|quarter|percent|per[ \t]cent|k|m|bn|or|to|"
    r"through|not|wrong|incorrect|point|squared|cubed|plus|minus|times|and|approximately|roughly|about|th|st|nd|rd)\b"
    r"|[-–—][ \t]*\Z|,\d",
    re.IGNORECASE,
)
_ASKS_PER_CENT = re.compile(
    r"\b(?:what|which|how many|how much|in|as an?)\s+(?:[a-z]+\s+){0,2}(?:per\s?cent|percentage)"
    r"|\b(?:per\s?cent|percentage)\b[^.?!]{0,20}\?|%\s*\?",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?", re.ASCII)
_HEADING = re.compile(r"\d{1,2}[.):][ \t]+[^\W\d]")


def asks_per_cent(question: str) -> bool:
    """Return whether a question asks for per cent, so that `18 %` is 18."""
    return _ASKS_PER_CENT.search(question) is not None


def plain_number(text: str, *, per_cent: bool = False) -> str | None:
    r"""Return the one number that a text is, without its dress (`"$1,234.50"`: `"1234.5"`); None where it is none, or several.

    Args:
        text: one line, such as `**€18**`, `18.00`, `\boxed{18}`, `18 dollars` or `18. So she has 18 left`.
        per_cent: whether per cent are asked for; elsewhere `18 %` is no number.
    """
    match = _DRESSED.match(text[:MOST_CHARACTERS].strip())
    if match is None or not (match["digits"] or match["part"]):
        return None
    if (match["percent"] and not per_cent) or _NO_UNIT.match(match["unit"]):
        return None
    if _OTHER_VALUE.search(match["words"].partition(". ")[0]):
        return None
    whole = re.sub(r"\D", "", match["digits"] or "0").lstrip("0") or "0"
    part = (match["part"] or "").rstrip("0").rstrip(".")
    sign = "-" if match["sign"] in ("-", "−") and (whole != "0" or part) else ""
    return f"{sign}{whole}{part}"


def is_plain(text: str) -> bool:
    """Return whether a text is a number without any dress but a sign, commas between groups of three and a decimal point."""
    return any(map(str.isdigit, text)) and _PLAIN.fullmatch(text.strip()) is not None


def undressed(answer: str, golds: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """Rewrite an answer that is one dressed number as that number, where a gold answer is a plain number; return an event."""
    number = plain_number(answer) if any(map(is_plain, golds)) and not is_plain(answer) else None
    return (answer, ()) if number is None else (number, (f"tolerated: {answer.strip()[:60]!r} was read as {number}",))


@lru_cache(maxsize=8)
def _line_behind(mark: str) -> re.Pattern[str]:
    """Return the pattern of a mark, signs of emphasis, at most three line breaks and the rest of that line, cached."""
    return re.compile(re.escape(mark) + r"[*_`]*+(?:[ \t]*+\n){0,3}([^\n]{0,2000})")


def plain_marked_numbers(text: str, mark: str, *, per_cent: bool = False) -> tuple[str, tuple[str, ...]]:
    """Rewrite every dressed number behind a mark as the mark and the plain number; return an event for each.

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
