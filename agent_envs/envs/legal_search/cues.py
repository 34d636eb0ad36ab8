"""Texts tell things by cues: words that count, whatever their form, names of firms, amounts and their units, days."""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import date
from functools import cache, lru_cache
from importlib.resources import files
from math import fsum

from agent_envs.envs.legal_search.dates import DAY, days_in
from agent_envs.tools.retrieval.bm25 import STOP_WORDS

_CHAPTER = r"chapter \d[\w:.-]*\w"
_UNIT = r"(hour|day|month|year|dollar|percent)"
_OPEN = re.compile(rf"(?<!\d )\b{_UNIT}(?:s\b|(?<=percent)(?:age)?\b)")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")
_COMMON = frozenset((*STOP_WORDS, *"""one not any who holder holders business case does may must this there under whose
section premises day days hour hours month months year years dollar dollars percent how many much long what make makes out
put puts taking part end being done doing""".split()))  # fmt: skip


@cache
def _thesaurus() -> tuple[re.Pattern[str], dict[str, str]]:
    """Return a pattern of beginnings of words with synonyms, and the synonym that stands for each; cached."""
    rows = files(__package__).joinpath("thesaurus.txt").read_text("utf-8").splitlines()
    heads = {word.replace("-", " "): row.partition(":")[0] for row in rows for word in row.partition(":")[2].split()}
    return re.compile(rf"\b({'|'.join(sorted(heads, key=len, reverse=True))})\w{{0,4}}\b"), heads


@lru_cache(maxsize=4096)
def words_of(text: str) -> frozenset[str]:
    """Return a text's words that count, cached: one for all synonyms, else their first six letters without endings."""
    pattern, heads = _thesaurus()
    text = pattern.sub(lambda match: heads[match[1]], text.lower())
    words = (word for word in re.findall(r"[a-z]{3,}", text) if word not in _COMMON)
    return frozenset(re.sub(r"(?:ing|ed|es|s|e)$", "", word)[:6] for word in words)


def share(text: str, other: str, besides: str = "") -> float:
    """Return the share of the words of a text, besides those of a third, that another text has; 0.0 of no words."""
    words = words_of(text) - words_of(besides)
    return len(words & words_of(other)) / len(words) if words else 0.0


def names_in(question: str) -> list[str]:
    """Return the names of firms in a question."""
    return list(dict.fromkeys(re.findall(r"[A-Z][a-z]+ (?:&|and) [A-Z][a-z]+", question)))


def number_in(text: str) -> int:
    """Return the day's number in "on the fourth day", else the first quantity with a unit, else the first number; else 0."""
    counted = r"\$([\d,]+)|(?<![\d,])([\d,]{1,30}) (?:percent|days?|hours?|months?|years?|units)"
    match = re.search(counted, text) or re.search(r"(\d+)()", text)
    nth = [place for place, word in enumerate(_ORDINALS, start=1) if f"the {word} day" in text]
    return nth[0] if nth else int(((match[1] or match[2]) if match else "0").replace(",", "")[:15])


def units_in(question: str) -> set[str]:
    """Return the units of the quantity that a question leaves open, or {"fine"}; set() where it asks for a day or a word."""
    question = question.lower().replace("per cent", "percent")
    units = set(_OPEN.findall(question))
    if not units and re.search(r"how (?:much|high|large)|cost|price|what sum", question):
        return {"dollar"}
    if not units and re.search(r"how (?:long|soon|often|quick|fast)", question):
        return {"hour", "day", "month", "year"}
    return {"fine"} if words_of("fine") & words_of(question) else units


def unit_of(text: str) -> str:
    """Return the unit of a text's first quantity, "dollar" for $; "" without a quantity."""
    match = re.search(rf"\$\d|\d {_UNIT}", text)
    return (match[1] or "dollar") if match else ""


def licence_in(case: str) -> date | None:
    """Return the earliest day that a word for a licence precedes in its clause; else of days but the first; None without."""
    days, marked = days_in(case), list[date]()
    for match in DAY.finditer(case):
        clause = re.split(r"[.;:?()]", case[max(0, match.start() - 40) : match.start()])[-1].lower()
        if re.search(r"licen|since|regist|permi|authori|grant|hold|held", clause):
            marked += days_in(match[0])
    return min(marked or days[1:] and days, default=None)


def counts_in(case: str) -> list[int]:
    """Return the numbers of things that a case tells, the largest first: no day, period, sum, share or reference."""
    remainder = re.sub(rf"{DAY.pattern}|§ ?\S+|{_CHAPTER}|\$[\d,]+|\b\d{{1,12}} {_UNIT}", "", case)
    return sorted((int(number) for number in re.findall(r"\b\d{1,9}\b", remainder)), reverse=True)


def fits(rules: Mapping[str, tuple[str, str]], question: str) -> dict[str, float]:
    """Score rules, (heading, text) by name, against a question: shared words count 2 in headings, else 0.5, rare ones more."""
    bags = {name: (words_of(heading), words_of(text)) for name, (heading, text) in rules.items()}
    often = Counter(word for heading, text in bags.values() for word in heading | text)
    query = words_of(core_of(question))
    return {
        name: fsum((2 if word in heading else 0.5) / often[word] for word in query & (heading | text))
        for name, (heading, text) in bags.items()
    }


def core_of(question: str, ignored: str = "") -> str:
    """Return a question without firms' names, days, brackets (an open one stays) and words whose stems `ignored` has."""
    for name in names_in(question):
        question = question.replace(name, "")
    # A bracket that is never closed is matched as well, and stays: a text of open brackets alone is gone through once.
    case = re.compile(rf"[(][^)\n]*[)]|(?P<open>[(][^)\n]*)|{DAY.pattern}")
    words = case.sub(lambda match: match["open"] or "", question).split()
    return " ".join(word for word in words if not ignored or words_of(word) - words_of(ignored))
