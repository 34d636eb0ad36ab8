"""Questions over generated agreements say what must be read for each, in which order, and what the answer is."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from agent_envs.envs.legal_search.agreement_parts import (
    CHARGE,
    RATE,
    Agreement,
    Draftsman,
    wordings,
)
from agent_envs.envs.legal_search.dates import date_forms, written_date
from agent_envs.envs.legal_search.generated import GeneratedQuestion
from agent_envs.envs.legal_search.library import Section

_CHAINED = {
    "default_interest": "definition",
    "delay": "cross_reference",
    "cap": "cross_reference",
    "secrecy_cap": "exception",
    "termination": "deadline",
}
_UNITS = {"percent": ("{n} percent", "{n}%"), "dollars": ("${n}", "{n} dollars")}
Key = tuple[Agreement, str]


@dataclass(frozen=True, slots=True)
class _Case:
    """Something that can be asked: a kind, the agreements, the item."""

    kind: str
    agreements: tuple[Agreement, ...]
    item: str

    @property
    def keys(self) -> tuple[Key, ...]:
        """What must be read, in order."""
        return tuple((one, key) for one in self.agreements for key in _chain(one, self.item))

    @property
    def answerable(self) -> bool:
        """Whether nothing that must be read is hidden."""
        return not any(key in one.hidden for one, key in self.keys)


def _chain(agreement: Agreement, item: str) -> list[str]:
    """Return the names of what must be read for an item: itself, what amends it, and what it leans on."""
    own = [item, f"amendment of {item}"] if item in agreement.amended else [item]
    if item == "default_interest":
        return [*own, RATE]
    if item in ("delay", "cap"):
        return [*own, CHARGE, agreement.part]
    if item == "secrecy_cap":
        return [*own, *_chain(agreement, "cap")]
    return [*own, *_chain(agreement, "post")] if item == "termination" else own


def _figure(agreement: Agreement, item: str) -> int:
    """Return what an item comes to: its figure as amended, with what it leans on worked in."""
    figure = agreement.amended.get(item, agreement.terms[item])
    assert isinstance(figure, int)
    charge = agreement.sums[agreement.part]
    if item == "default_interest":
        return figure + agreement.rate
    if item == "delay":
        return figure * charge // 100
    if item == "cap":
        return figure * charge
    return figure * _figure(agreement, "cap") // 100 if item == "secrecy_cap" else figure


def all_cases(agreements: tuple[Agreement, ...]) -> Iterator[_Case]:
    """Yield everything that can be asked and needs at most four reads."""
    table = wordings()
    cases = []
    for one in agreements:
        for item in table["items"]:
            kind = _CHAINED.get(item) or ("amendment" if item in one.amended else "lookup")
            cases.append(_Case(kind, (one,), item))
    for item in table["compare"]:
        for place, one in enumerate(agreements):
            for other in agreements[place + 1 :]:
                if one.a != other.a and _figure(one, item) != _figure(other, item):
                    cases.append(_Case("comparison", (one, other), item))
    yield from (case for case in cases if len(case.keys) <= 4)


class Clerk:
    """Asks cases."""

    def __init__(self, rng: random.Random, pen: Draftsman, sections: Mapping[str, Section], paraphrase: bool) -> None:
        """Take the source of chance, whose wordings, the sections that there are, and whether questions name clauses."""
        self._rng, self._pen, self._sections, self._paraphrase = rng, pen, sections, paraphrase

    def ask(self, case: _Case) -> GeneratedQuestion:
        """Return the question of a case."""
        text, answers, metric = self._compare(case) if case.kind == "comparison" else self._single(case)
        there = [key for key in case.keys if key[1] not in key[0].hidden]
        support = tuple(one.ids[key] for one, key in there)
        overridden = {one.ids[item] for one in case.agreements for item in one.amended}
        proofs = [place for place in support if place not in overridden]
        above = [self._sections[place].parent for place in proofs]
        roots = {one.code for one in case.agreements}
        return GeneratedQuestion(
            text=text,
            answers=answers if case.answerable else (),
            kind=case.kind if case.answerable else "unanswerable",
            reads=len(case.keys),
            support=support,
            citations=tuple(dict.fromkeys([*proofs, *(place for place in above if place not in roots)]))
            if case.answerable
            else (),
            steps=tuple((self._query(one, one.ids[key]), one.ids[key]) for one, key in there),
            metric=metric,
        )

    def _single(self, case: _Case) -> tuple[str, tuple[str, ...], str]:
        table, one = wordings(), case.agreements[0]
        item = table["items"][case.item]
        posted = date(2018, 1, 1) + timedelta(days=self._rng.randrange(1500))
        ask = self._rng.choice(item["ask"]) if self._paraphrase else item["ask"][0]
        who = self._rng.choice((one.a, one.b))
        ask = ask.format(**one.names, who=who, date=written_date(posted))
        text = self._framed(one, case.item, ask)
        if case.item == "termination":
            last = posted + timedelta(days=_figure(one, "post") + _figure(one, "termination"))
            return text, date_forms(last), "em"
        if item["unit"] == "town":
            return text, (str(one.terms[case.item]),), "em"
        unit = {"delay": "dollars", "cap": "dollars", "secrecy_cap": "dollars"}.get(case.item, item["unit"])
        return text, _forms(_figure(one, case.item), unit), "numeric"

    def _framed(self, one: Agreement, item: str, ask: str) -> str:
        table = wordings()
        if self._paraphrase:
            frame = self._rng.choice(table["ask"])
            deal = self._deal(one)
            text: str = frame.format(deal=deal, ask=ask)
        else:
            clause = next(row for row in table["clauses"] if item in row["items"])
            number, heading = one.numbers[item], clause["heading"]
            text = table["plain_ask"].format(**one.names, number=number, heading=heading, ask=ask)
        return text[0].upper() + text[1:]

    def _deal(self, one: Agreement) -> str:
        if not self._paraphrase:
            return f"{one.a} and {one.b} are bound by a {one.kind['title']}"
        return str(self._rng.choice(one.kind["deal"]).format(a=one.a, b=one.b))

    def _compare(self, case: _Case) -> tuple[str, tuple[str, ...], str]:
        table = wordings()
        one, other = self._rng.sample(case.agreements, 2)
        text = table["compare_ask"].format(
            deal=self._deal(one), other=self._deal(other), A=one.a, C=other.a, compare=table["compare"][case.item]
        )
        winner = one if _figure(one, case.item) > _figure(other, case.item) else other
        return text[0].upper() + text[1:], (winner.a,), "em"

    def _query(self, one: Agreement, place: str) -> str:
        """Return keywords that find a section: the parties, the heading above it, and how its text begins."""
        section = self._sections[place]
        heading = section.heading or self._sections[section.parent].heading
        return f"{one.a} {one.b} {heading} {' '.join(section.text.split()[:9])}"


def _forms(figure: int, unit: str) -> tuple[str, ...]:
    plain = [str(figure), f"{figure:,}"]
    shapes = _UNITS.get(unit, ("{n} " + unit,))
    return tuple(dict.fromkeys([*plain, *(shape.format(n=plain[-1]) for shape in shapes)]))
