"""The clauses that a question on generated agreements needs are found by the words in which both are put."""

import re
from collections.abc import Iterator
from functools import cache

from agent_envs.envs.legal_search.agreement_parts import wordings
from agent_envs.envs.legal_search.extraction import Shown
from agent_envs.envs.legal_search.tools import KEYWORD, READ
from agent_envs.envs.legal_search.transcript import Seen

_COMPANY = re.compile(r"\b[A-Z][a-z]{2,} [A-Z][a-z]{2,}\b")
_CODE = re.compile(r"(K-\d{3})\b")
_LEANS = {
    "default_interest": ("definitions",), "delay": ("definitions", "sums"), "cap": ("definitions", "sums"),
    "secrecy_cap": ("cap", "definitions", "sums"), "termination": ("post",),
}  # fmt: skip
_LONGEST = 2_000  # characters of a question


def contract_next(seen: Seen) -> tuple[str, str] | None:
    """Return the next search or read towards what a question needs, None where there is nothing more to find.

    Raises:
        LookupError: the question is on no generated agreement.
    """
    text = seen.question[:_LONGEST]
    item = next(name for name, asks in _asks().items() if any(_fits(text.lower(), ask) for ask in asks))
    steps = (step for names in _contracts(text) for step in _steps(names, item, seen))
    return next(steps, None)


def known(question: str) -> bool:
    """Return whether a question is on generated agreements."""
    text = question[:_LONGEST]
    fits = any(_fits(text.lower(), ask) for asks in _asks().values() for ask in asks)
    return fits and bool(_contracts(text))


def _contracts(text: str) -> list[tuple[str, ...]]:
    """Return the companies of each contract that a question is about."""
    parts = text.partition("In another deal, ")
    rows = (dict.fromkeys(_COMPANY.findall(part.partition(". ")[0])) for part in parts[::2])
    return [tuple(row)[:2] for row in rows if len(row) >= 2]


def _steps(names: tuple[str, ...], item: str, seen: Seen) -> Iterator[tuple[str, str]]:
    """Yield what is still to be done in one contract."""
    parties, hits = " ".join(names), [hit for found in seen.hits for hit in found]
    number, heading = _numbers()[item]
    own = [hit for hit in (*hits, *seen.read) if all(name in hit.place for name in names)]
    code = next((found[1] for hit in own if (found := _CODE.match(hit.id))), "")
    if not code:
        query = f"{parties} {heading}"
        yield from () if query in seen.queries else [(KEYWORD, query)]
        return
    for name in (item, *_LEANS.get(item, ())):
        number, _ = _numbers()[name]
        clause = f"{code} § {number.partition('.')[0]}"
        if clause not in seen.asked_for:
            yield READ, clause
        if "." in number:
            yield from _amended(code, f"{parties} amended amendment clause {number}", number, own, seen)


def _amended(code: str, query: str, number: str, own: list[Shown], seen: Seen) -> Iterator[tuple[str, str]]:
    if query not in seen.queries:
        yield KEYWORD, query
    for hit in own:
        if hit.id.startswith(f"{code} § Amend") and f"clause {number} " in hit.text and hit.id not in seen.asked_for:
            yield READ, hit.id


@cache
def _numbers() -> dict[str, tuple[str, str]]:
    """Return number and heading of each item; agreements number all that they could hold alike."""
    found = {"definitions": ("1", "Definitions"), "sums": ("Schedule 1", "Sums")}
    for clause, row in enumerate(wordings()["clauses"], start=2):
        found |= {item: (f"{clause}.{place}", row["heading"]) for place, item in enumerate(row["items"], start=1)}
    return found


@cache
def _asks() -> dict[str, tuple[str, ...]]:
    """Return what asks for each item, in small letters: comparisons first, which are told by their own words."""
    compared = {item: (words.lower(),) for item, words in wordings()["compare"].items()}
    return {
        item: (*compared.get(item, ()), *(ask.lower() for ask in row["ask"]))
        for item, row in wordings()["items"].items()
    }


def _fits(text: str, ask: str) -> bool:
    """Return whether all words of a wording stand in a text one after another, whoever is named between them."""
    place = 0
    for part in re.split(r"\{\w+\}", ask):
        place = text.find(part.strip(" ."), place)
        if place < 0:
            return False
        place += len(part.strip(" ."))
    return True
