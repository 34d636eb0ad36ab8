"""An answer is guessed from passages without a model: the span of the asked kind nearest to the question's words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent_envs.envs.legal_search.dates import MONTHS
from agent_envs.tools.retrieval.bm25 import STOP_WORDS

_WORD = re.compile(r"[a-z]+")
_UNIT = re.compile(r"\b(day|hour|week|month|year|percent|dollar)(?:s|age)?\b", re.IGNORECASE)
_DATE = re.compile(rf"\b\d{{1,2}} (?:{'|'.join(MONTHS)}) \d{{4}}\b")
_TAKEN = re.compile(r"named in § (\d[\w:.-]*\w), (increased|reduced) by (\$?\d[\d,]*)")
_CHANGED = re.compile(r"(increased|reduced) by (\$?\d[\d,]*)")
_SUBSTITUTED = re.compile(r'"([^"]+)" is substituted for')
_NUMBER = re.compile(r"\$?\d[\d,]*(?:\.\d+)?%?(?: (?:per cent|(?:business )?[a-z]+))?")
_TERM = re.compile(r"term [\"“](.+?)[\"”]")
_BLANK = "____"
_STOP = frozenset((*STOP_WORDS, "section", "how", "many", "much", "must", "may", "under", "law", "not", "no"))
_LONGEST = 20_000  # characters of a passage that are looked at


@dataclass(frozen=True, slots=True)
class Shown:
    """A section as it was shown: its id, its place in the hierarchy, and (part of) its text."""

    id: str
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Guess:
    """An answer and the ids of the sections that it rests on; `settled` where nothing more needs to be read for it."""

    answer: str
    sources: tuple[str, ...]
    settled: bool = False


def guess(question: str, passages: Sequence[Shown]) -> Guess | None:
    """Return the likeliest answer, or None where nothing fits.

    Args:
        question: as it was asked.
        passages: best first.
    """
    best, found = -1.0, None
    for rank, passage in enumerate(passages, start=1):
        for span, near in _spans(question, passage.text[:_LONGEST]):
            score = (1 + near) / rank
            if score > best:
                best, found = score, Guess(span, (passage.id,), settled=_BLANK in question or "the term" in question)
    return found


def worked_out(question: str, read: Sequence[Shown]) -> Guess | None:
    """Return the amount that the first section with one gives, changed as other sections that were read change it.

    It may refer to the amount of another section, be replaced by an amendment from a day on, and be increased or reduced for
    some people, to whom somebody is taken to belong about whom the question tells more.
    """
    for page in read:
        amount = _amount(question, page, read)
        if amount is None:
            continue
        sources = [page.id]
        for other in read:
            if other is page or f"§ {page.id}" not in other.text:
                continue
            changed = _amended(question, other.text) or _relieved(question, other.text, amount)
            if changed is not None:
                amount = changed
                sources.append(other.id)
        return Guess(str(amount), tuple(sources))
    return None


def _amount(question: str, page: Shown, read: Sequence[Shown]) -> int | None:
    """Return the amount that a section gives in the asked unit, or that it takes from another one."""
    taken = _TAKEN.search(page.text)
    if taken is None:
        found = guess(question, [page])
        return _whole(found.answer) if found else None
    base = next((other for other in read if other.id == taken[1]), None)
    found = guess(question, [base]) if base else None
    number = _whole(found.answer) if found else None
    return None if number is None else number + _signed(taken[2], taken[3])


def _amended(question: str, text: str) -> int | None:
    """Return the amount of an amendment that has effect on the day that the question names."""
    found, since, day = _SUBSTITUTED.search(text), _DATE.findall(text), _DATE.findall(question)
    if not (found and since and day) or _ordered(day[0]) < _ordered(since[-1]):
        return None
    number = _NUMBER.search(found[1])
    return _whole(number[0].partition(" ")[0]) if number else None


def _relieved(question: str, text: str, amount: int) -> int | None:
    found = _CHANGED.search(text)
    return amount + _signed(found[1], found[2]) if found and "this person" in question else None


def _signed(word: str, number: str) -> int:
    return (-1 if word == "reduced" else 1) * (_whole(number) or 0)


def _whole(text: str) -> int | None:
    digits = text.strip("$%.,").replace(",", "")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 16 else None


def _ordered(date: str) -> tuple[int, int, int]:
    day, month, year = date.split()
    return int(year), MONTHS.index(month), int(day)


def asked_unit(question: str) -> str:
    """Return the unit of the amount that is asked for: "day", "dollar", "percent" and so on; "" where none is."""
    if _BLANK in question or not re.search(r"how (?:many|much)|percent|dollars", question.lower()):
        return ""
    unit = _UNIT.search(question)
    return unit[1].lower() if unit else ""


def _spans(question: str, text: str) -> list[tuple[str, float]]:
    """Return spans of the asked kind, each with how well its surroundings fit."""
    if _BLANK in question:
        return _filled(question, text)
    term = _TERM.search(question)
    if term:
        return _defined(term[1], text)
    lowered = question.lower()
    if "date" in lowered or "what day" in lowered or "last day" in lowered:
        return [(match[0], _near(question, text, match.start())) for match in _DATE.finditer(text)]
    wanted = asked_unit(question)
    if not wanted:
        return []
    return [
        (number, _near(question, text, match.start()))
        for match in _NUMBER.finditer(text)
        if (number := _of_unit(match[0], wanted))
    ]


def _of_unit(found: str, unit: str) -> str:
    """Return the number of a quantity like "30 days", "$1,200" or "25 percent" if it is of this unit, else nothing."""
    number, _, word = found.partition(" ")
    if unit == "dollar":
        fits = number.startswith("$") or word.startswith("dollar")
    elif unit == "percent":
        fits = number.endswith("%") or word.startswith(("percent", "per cent"))
    else:
        fits = bool(unit) and word.removeprefix("business ").startswith(unit)
    return number.strip("$%").rstrip(".,") if fits else ""


def _near(question: str, text: str, place: int) -> float:
    asked = set(_WORD.findall(question.lower())) - _STOP
    around = set(_WORD.findall(text[max(0, place - 200) : place + 200].lower()))
    return len(asked & around) / max(len(asked), 1)


def _filled(question: str, text: str) -> list[tuple[str, float]]:
    """Return what stands in a text where a quotation with a blank has its blank."""
    before, _, after = question.partition(_BLANK)
    left, right = _words(before.rpartition('"')[2])[-3:], _words(after.partition('"')[0])[:3]
    if not left:
        return []
    pattern = r"\W+".join(map(re.escape, left)) + r"\W{1,3}(.{1,60}?)"
    pattern += r"\W{1,3}" + r"\W+".join(map(re.escape, right)) if right else r"[.;,\n]"
    return [(match[1].strip(), 5.0) for match in re.finditer(pattern, text, re.IGNORECASE)]


def _words(text: str) -> list[str]:
    return re.findall(r"[\w’']+", text)


def _defined(term: str, text: str) -> list[tuple[str, float]]:
    pattern = rf"[\"“]{re.escape(term)}[\"”],? (?:means|includes)(?: and includes)? (.{{3,600}}?)[.;:](?:\s|\Z)"
    return [(match[1].strip(), 5.0) for match in re.finditer(pattern, text, re.IGNORECASE | re.DOTALL)]
