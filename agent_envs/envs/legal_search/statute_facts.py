"""A generated body of law is drawn as facts first; its text and the questions about it are made from them."""

import random
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import combinations

from agent_envs.envs.legal_search.statute_parts import Group, RuleKind, Trade, parts

SIZES = ("minor", "intermediate", "major")
CLASSES = "ABCDE"
_SIZED, _EARLY, _RECENT, _LIMITED, _REFERRING, _AMENDED = 0.7, 0.65, 0.5, 0.9, 0.34, 0.25
_GROUPS = (1, 1, 2, 2, 2)  # how many groups a rule treats differently, drawn from
_LATER, _IDLE, _IN_GROUP = 0.6, 0.5, 0.75
_DELTAS = {
    "days": (2, 3, 4, 5), "hours": (1, 2, 3), "months": (1, 2), "years": (1,),
    "dollars": (10, 20, 30), "percent": (3, 4, 6),
}  # fmt: skip
_STEPS = {"indemnity": 100}  # how many times larger the changes of a large sum are


@dataclass(eq=False, slots=True)
class Amendment:
    """A section of a later Act that replaces a rule's amount for matters from a day on.

    Attributes:
        licensed_before, later: for licences granted before a day, the later day from which it counts; None where it is one.
    """

    value: int
    since: date
    licensed_before: date | None = None
    later: date | None = None
    id: str = ""


@dataclass(eq=False, slots=True)
class Rule:
    """A section that fixes one amount, directly or by referring to the same rule of another trade, and varies it.

    Attributes:
        value: the amount of paragraph (a), whatever varies it.
        target: the rule whose paragraph (a) it refers to, from which `value` differs.
        sizes, groups: the sizes of business, and the groups, for which the amount changes, each with the change.
        early, recent: the day before which, and from which on, a licence was granted for which it changes.
        limit: the most that all increases (or with `limits_reductions` all reductions) come to; None for no limit.
        offence: the class of an offence against it; "" for none.
    """

    kind: RuleKind
    chapter: "Chapter"
    value: int
    target: "Rule | None" = None
    amendment: Amendment | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    groups: tuple[tuple[Group, int], ...] = ()
    early: tuple[date, int] | None = None
    recent: tuple[date, int] | None = None
    limit: int | None = None
    limits_reductions: bool = False
    offence: str = ""
    id: str = ""

    @property
    def changes(self) -> list[int]:
        """The changes of its provisos."""
        dated = [row[1] for row in (self.early, self.recent) if row]
        return [*self.sizes.values(), *(change for _, change in self.groups), *dated]

    @property
    def paragraphs(self) -> tuple[str, ...]:
        """What its paragraphs are about, in their order: "amount" first, then only those that the rule has."""
        there = {
            "amount": True,
            **dict.fromkeys(self.sizes, True),
            **{group.noun: True for group, _ in self.groups},
            "early": self.early,
            "recent": self.recent,
            "limit": self.limit is not None,
            "amended": self.amendment,
            "offence": self.offence,
            "counted": self.kind.event and not self.amendment,
        }
        return tuple(name for name, present in there.items() if present)

    def varied(self, base: int, changes: list[int]) -> int:
        """Return an amount plus all changes, the increases or (if `limits_reductions`) the reductions held to the limit."""
        more = sum(change for change in changes if change > 0)
        less = -sum(change for change in changes if change < 0)
        if self.limit is not None:
            more, less = (more, min(less, self.limit)) if self.limits_reductions else (min(more, self.limit), less)
        return base + more - less


@dataclass(eq=False, slots=True)
class Holder:
    """An entry of the register: a business, and a special condition that replaces the amount of one rule for it."""

    name: str
    chapter: "Chapter"
    size: int
    idle: int
    granted: date
    group: Group | None
    special: tuple[Rule, int]
    id: str = ""

    @property
    def paragraphs(self) -> tuple[str, ...]:
        """Its paragraphs' subjects in their order; "group" only for a holder in one."""
        return ("trade", "size", "granted", *(("group",) if self.group else ()), "special")


@dataclass(eq=False, slots=True)
class Chapter:
    """The law of one trade in one province.

    Attributes:
        bounds: from how many units on a business is no longer minor, and major.
        counts_idle: whether units that are out of use are counted.
    """

    trade: Trade
    province: str
    bounds: tuple[int, int]
    counts_idle: bool
    rules: list[Rule] = field(default_factory=list)
    holders: list[Holder] = field(default_factory=list)
    id: str = ""
    definitions_id: str = ""

    def counted(self, size: int, idle: int) -> str:
        """Return the size of a business of so many units, one of SIZES; idle ones count if the chapter says so."""
        count = size if self.counts_idle else size - idle
        return SIZES[sum(count >= bound for bound in self.bounds)]


@dataclass(eq=False, slots=True)
class Law:
    """The law of several provinces; the ids of its general sections are given when it is drafted.

    Attributes:
        counts_first_day: whether a period includes the day of the event that starts it.
        rest_days: weekdays on which no period ends.
        post_days: on which day after its posting a document counts as received.
        unit: dollars of one unit of a fine.
        scale: the units of each class of offences.
        repeat_percent, repeat_years: the increase for a repeated offence, and how long an earlier one counts.
    """

    provinces: tuple[str, ...]
    chapters: list[Chapter]
    counts_first_day: bool
    rest_days: tuple[int, ...]
    post_days: int
    unit: int
    scale: tuple[int, ...]
    repeat_percent: int
    repeat_years: int
    counting_id: str = ""
    post_id: str = ""
    scale_id: str = ""
    unit_id: str = ""
    repeat_id: str = ""
    group_ids: dict[str, str] = field(default_factory=dict)

    @property
    def rules(self) -> list[Rule]:
        """All rules, chapter by chapter."""
        return [rule for chapter in self.chapters for rule in chapter.rules]

    def last_day(self, received: date, days: int) -> date:
        """Return a period's last day, moved on past days of rest; `received` is day 1 where the law counts the first day."""
        day = received + timedelta(days=days - 1 if self.counts_first_day else days)
        while day.weekday() in self.rest_days:
            day += timedelta(days=1)
        return day


def draw_law(rng: random.Random, provinces: tuple[str, ...], trades: int, rules: int, holders: int) -> Law:
    """Draw the law of provinces with the same trades, `rules` rules and `holders` register entries in each chapter."""
    sample = rng.sample(parts().trades, trades)
    law = Law(
        provinces=provinces,
        chapters=[_chapter(rng, trade, province, rules) for province in provinces for trade in sample],
        counts_first_day=rng.random() < 0.5,
        rest_days=rng.choice(((5, 6), (4, 5), (6, 0), (2, 6))),
        post_days=rng.randint(2, 6),
        unit=rng.choice((20, 40, 50, 60, 80)),
        scale=tuple(sorted(rng.sample(range(4, 60), len(CLASSES)))),
        repeat_percent=rng.choice((50, 100)),
        repeat_years=rng.choice((3, 4, 5, 6)),
    )
    _refer(rng, law)
    names = rng.sample(
        [f"{one} & {other}" for one, other in combinations(parts().surnames, 2)], len(law.chapters) * holders
    )
    for chapter in law.chapters:
        chapter.holders = [_holder(rng, chapter, names.pop()) for _ in range(holders)]
    return law


def _chapter(rng: random.Random, trade: Trade, province: str, rules: int) -> Chapter:
    """Draw a chapter: its size bounds, whether idle units count, and so many rules."""
    low = rng.randint(6, 15)
    chapter = Chapter(trade, province, (low, low + rng.randint(10, 25)), rng.random() < 0.5)
    kinds = rng.sample(parts().rules, rules)
    chapter.rules = [_rule(rng, chapter, kind) for kind in sorted(kinds, key=parts().rules.index)]
    return chapter


def _rule(rng: random.Random, chapter: Chapter, kind: RuleKind) -> Rule:
    """Draw a rule: its amount, at least one change for size, group, early or recent licence, and an offence for a breach."""
    rule = Rule(kind, chapter, rng.choice(kind.values))
    rule.sizes = {size: _change(rng, kind) for size in ("minor", "major") if rng.random() < _SIZED}
    groups = rng.sample(parts().groups, rng.choice(_GROUPS))
    rule.groups = tuple((group, _change(rng, kind)) for group in groups)
    turn = _day(rng, 2006, 2014)
    if rng.random() < _EARLY or not rule.changes:
        rule.early = turn, _change(rng, kind)
    if rng.random() < _RECENT:
        rule.recent = turn + timedelta(days=rng.randint(0, 900)), _change(rng, kind)
    if kind.breach:
        rule.offence = rng.choice(CLASSES)
    return rule


def _change(rng: random.Random, kind: RuleKind) -> int:
    """Draw an increase or a reduction of a size that is usual for the unit of a kind of rule."""
    return rng.choice((-1, 1)) * rng.choice(_DELTAS[kind.unit]) * _STEPS.get(kind.key, 1)


def _day(rng: random.Random, first: int, last: int) -> date:
    """Draw a day between two years."""
    return date(rng.randint(first, last), rng.randint(1, 12), rng.randint(1, 28))


def _refer(rng: random.Random, law: Law) -> None:
    """Add references to earlier rules, amendments of rules outside references, and limits on changes, each by chance.

    What is referred to lies in an earlier chapter, so that references end, and neither side is amended.
    """
    earlier: dict[str, list[Rule]] = {}
    cited: set[int] = set()
    for rule in law.rules:
        pool = [other for other in earlier.get(rule.kind.key, ()) if other.chapter.trade is not rule.chapter.trade]
        if pool and rng.random() < _REFERRING:
            rule.target = rng.choice(pool)
            delta = _change(rng, rule.kind)
            falls_short = rule.target.value + delta < min(rule.kind.values)
            rule.value = rule.target.value + (-delta if falls_short else delta)
            cited.add(id(rule.target))
        earlier.setdefault(rule.kind.key, []).append(rule)
    for rule in law.rules:
        if rule.target is None and id(rule) not in cited and rng.random() < _AMENDED:
            rule.amendment = _amendment(rng, rule)
        if rng.random() < _LIMITED:
            _limit(rng, rule)


def _amendment(rng: random.Random, rule: Rule) -> Amendment:
    """Draw another amount for a rule from a day on; for some rules later for those licensed before a day."""
    value = rng.choice([value for value in rule.kind.values if value != rule.value])
    amendment = Amendment(value, _day(rng, 2015, 2019))
    if rng.random() < _LATER:
        amendment.licensed_before = _day(rng, 2008, 2013)
        amendment.later = amendment.since + timedelta(days=rng.randint(200, 700))
    return amendment


def _limit(rng: random.Random, rule: Rule) -> None:
    """Set a limit that increases, or reductions, can pass where two apply at once; no limit where no two can."""
    for limits_reductions in rng.sample((False, True), 2):
        sizes = list(rule.sizes.values())
        together = [max(sizes, key=lambda change: -change if limits_reductions else change)] if sizes else []
        together += [change for _, change in rule.groups[:1]]
        together += [row[1] for row in (rule.early or rule.recent,) if row]
        one_way = [abs(change) for change in together if (change < 0) is limits_reductions]
        if len(one_way) > 1:
            rule.limits_reductions = limits_reductions
            unit = _STEPS.get(rule.kind.key, 1) * (10 if rule.kind.unit == "dollars" else 1)
            rule.limit = rng.randrange(max(one_way), sum(one_way), unit)
            return


def _holder(rng: random.Random, chapter: Chapter, name: str) -> Holder:
    """Draw a register entry: size, idle things, licence day, group, and a special amount for a rule, unamended if possible."""
    size = rng.randint(4, chapter.bounds[1] + 12)
    idle = rng.randint(2, size // 2) if rng.random() < _IDLE else 0
    treated = [group for rule in chapter.rules for group, _ in rule.groups]
    group = rng.choice(treated) if treated and rng.random() < _IN_GROUP else None
    plain = [rule for rule in chapter.rules if not rule.amendment and not rule.target]
    rule = rng.choice(plain or [rule for rule in chapter.rules if not rule.amendment] or chapter.rules)
    value = rng.choice([value for value in rule.kind.values if value != rule.value])
    return Holder(name, chapter, size, idle, _day(rng, 2003, 2016), group, (rule, value))
