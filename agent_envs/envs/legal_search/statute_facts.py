"""A generated body of law is drawn as facts first; its text and the questions about it are made from them."""

import random
from dataclasses import dataclass, field
from datetime import date, timedelta

from agent_envs.envs.legal_search.statute_parts import Activity, Group, RuleKind, parts

SIZES = ("minor", "intermediate", "major")
OCCASIONS = ("grant", "renewal")
CLASSES = "ABCDE"
_RELIEF_SHARE, _MINOR_SHARE, _AMENDED_SHARE, _REFERRING_SHARE = 0.36, 0.4, 0.22, 0.45
_DELTAS = {
    "days": (2, 3, 4, 5, 6, 7), "hours": (1, 2, 3), "months": (1, 2), "years": (1,),
    "dollars": (10, 20, 30), "percent": (3, 4, 6),
}  # fmt: skip


@dataclass(eq=False, slots=True)
class Relief:
    """A section that changes a rule's amount for some holders: for a group, or (None) for minor businesses."""

    group: Group | None
    delta: int
    id: str = ""


@dataclass(eq=False, slots=True)
class Amendment:
    """A section of a later Act that replaces a rule's amount for matters from a day on."""

    value: int
    since: date
    id: str = ""


@dataclass(eq=False, slots=True)
class Rule:
    """A section that fixes one amount, directly or by referring to another rule of its chapter.

    Attributes:
        value: the amount as the section has it, without relief and amendment.
        target: the rule that it refers to, from which `value` differs by `delta`.
    """

    kind: RuleKind
    chapter: "Chapter"
    value: int
    relief: Relief | None = None
    amendment: Amendment | None = None
    target: "Rule | None" = None
    delta: int = 0
    id: str = ""


@dataclass(eq=False, slots=True)
class Chapter:
    """The law of one activity.

    Attributes:
        bounds: from how many units on a business is intermediate, and major.
        fees: by (place in `OCCASIONS`, place in `SIZES`), in units of the fee or in dollars.
        offences: duties of the chapter and the class of an offence against each.
        definitions_id, fees_id, offences_id: the sections of these.
    """

    activity: Activity
    bounds: tuple[int, int]
    in_units: bool
    fees: dict[tuple[int, int], int]
    id: str = ""
    rules: list[Rule] = field(default_factory=list)
    offences: list[tuple[Rule, str]] = field(default_factory=list)
    definitions_id: str = ""
    fees_id: str = ""
    offences_id: str = ""


@dataclass(eq=False, slots=True)
class Law:
    """A whole body of law; the ids of its general sections are given when it is drafted.

    Attributes:
        acts: when each amending Act was passed, and its amended rules.
        counts_first_day: whether a period includes the day of the event that starts it.
        rest_days: weekdays on which no period ends.
        post_days: on which day after its posting a document counts as received.
        unit: dollars of one unit of a fee.
        late_percent, repeat_percent: the increase of a sum paid late, and of a fine for a repeated offence.
        repeat_years: how long an earlier offence counts.
        scale: the fine of each class.
    """

    name: str
    chapters: list[Chapter]
    acts: list[tuple[date, list[Rule]]]
    counts_first_day: bool
    rest_days: tuple[int, ...]
    post_days: int
    unit: int
    late_percent: int
    repeat_percent: int
    repeat_years: int
    scale: tuple[int, ...]
    counting_id: str = ""
    post_id: str = ""
    unit_id: str = ""
    late_id: str = ""
    repeat_id: str = ""
    scale_id: str = ""

    def last_day(self, received: date, days: int) -> date:
        """Return the last day of a period that starts with an event on a day."""
        day = received + timedelta(days=days - 1 if self.counts_first_day else days)
        while day.weekday() in self.rest_days:
            day += timedelta(days=1)
        return day


def draw_law(rng: random.Random, name: str, chapters: int, rules: int) -> Law:
    """Draw a body of law with so many chapters on trades and so many rules in each."""
    drawn = [_chapter(rng, activity, rules) for activity in rng.sample(parts().activities, chapters)]
    years = sorted(rng.sample(range(2009, 2020), 3))
    acts: list[tuple[date, list[Rule]]] = [(date(year, rng.randint(2, 11), rng.randint(1, 28)), []) for year in years]
    for rule in (rule for chapter in drawn for rule in chapter.rules):
        if rng.random() < _AMENDED_SHARE:
            passed, amended = rng.choice(acts)
            others = [value for value in rule.kind.values if value != rule.value]
            rule.amendment = Amendment(rng.choice(others), date(passed.year + 1, rng.choice((1, 4, 7, 10)), 1))
            amended.append(rule)
    for chapter in drawn:
        _refer(rng, chapter)
    fines = sorted(rng.sample(range(4, 40), len(CLASSES)))
    return Law(
        name=name,
        chapters=drawn,
        acts=[(passed, amended) for passed, amended in acts if amended],
        counts_first_day=rng.random() < 0.5,
        rest_days=rng.choice(((6,), (5, 6), (4,), (0,))),
        post_days=rng.randint(2, 6),
        unit=rng.choice((20, 40, 60, 80)),
        late_percent=rng.choice((5, 10, 15, 20, 25, 30)),
        repeat_percent=rng.choice((20, 30, 40, 50, 60, 80)),
        repeat_years=rng.randint(3, 6),
        scale=tuple(100 * fine for fine in fines),
    )


def _chapter(rng: random.Random, activity: Activity, rules: int) -> Chapter:
    in_units = rng.random() < 0.5
    start = rng.randint(4, 15)
    steps = sorted(rng.sample(range(3, 30), len(OCCASIONS) * len(SIZES)))
    fees = {
        (occasion, size): (1 if in_units else 20) * steps[len(OCCASIONS) * size + 1 - occasion]
        for occasion in range(len(OCCASIONS))
        for size in range(len(SIZES))
    }
    chapter = Chapter(activity, (start, start + rng.randint(6, 24)), in_units, fees)
    for kind in rng.sample(parts().rules, rules):
        rule = Rule(kind, chapter, rng.choice(kind.values))
        if rng.random() < _RELIEF_SHARE:
            group = None if rng.random() < _MINOR_SHARE else rng.choice(parts().groups)
            rule.relief = Relief(group, _delta(rng, rule))
        chapter.rules.append(rule)
    duties = [rule for rule in chapter.rules if rule.kind.breach]
    chapter.offences = [(rule, rng.choice(CLASSES)) for rule in rng.sample(duties, min(4, len(duties)))]
    return chapter


def _delta(rng: random.Random, rule: Rule) -> int:
    """Return a difference that leaves every amount of the rule's kind above 0."""
    return int(rng.choice(_DELTAS[rule.kind.unit])) * (1 if rng.random() < 0.5 or rule.kind.unit == "years" else -1)


def _refer(rng: random.Random, chapter: Chapter) -> None:
    """Let some rules without relief or amendment refer to others of the same unit."""
    plain = [rule for rule in chapter.rules if not rule.relief and not rule.amendment]
    targets = set[int]()
    for rule in plain:
        others = [row for row in plain if row.kind.unit == rule.kind.unit and row is not rule and row.target is None]
        if id(rule) not in targets and others and rng.random() < _REFERRING_SHARE:
            rule.target = rng.choice(others)
            rule.delta = abs(_delta(rng, rule))
            rule.value = rule.target.value + rule.delta
            targets.add(id(rule.target))
