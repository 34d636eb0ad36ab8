"""`Asker` draws questions about a generated body of law: they need one to four reads, and may avoid the law's words."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from agent_envs.datasets.world.lookup import Lookup
from agent_envs.envs.legal_search.dates import WEEKDAYS, date_forms, written_date
from agent_envs.envs.legal_search.generated import GeneratedQuestion
from agent_envs.envs.legal_search.library import Library
from agent_envs.envs.legal_search.statute_facts import OCCASIONS, SIZES, Chapter, Law, Rule
from agent_envs.envs.legal_search.statute_parts import Activity, amount_forms, parts
from agent_envs.envs.legal_search.statute_trails import Provision, Trail, trace_fee, trace_fine, trace_rule

_SEVERAL = ("definition", "reference", "exception", "amendment", "deadline", "comparison")
CELLS = {1: ("lookup",), 2: _SEVERAL, 3: _SEVERAL, 4: tuple(kind for kind in _SEVERAL if kind != "exception")}
KINDS = ("lookup", *_SEVERAL)
_TRIES = 40


@dataclass(frozen=True, slots=True)
class _Draft:
    text: str
    answers: tuple[str, ...]
    trail: Trail
    metric: str = "numeric"


class Asker:
    """Draws questions, each kind only once on the same provisions; first those that lose a section, then the others."""

    def __init__(self, rng: random.Random, law: Law, library: Library, paraphrase: float) -> None:
        """Take the law, its sections before any is removed, and how readily questions avoid the law's words."""
        self.removed = set[str]()
        self._rng, self._law, self._library, self._paraphrase = rng, law, library, paraphrase
        self._lookup = Lookup(library.corpus.passages)
        self._asked = set[tuple[str, ...]]()
        self._rules: dict[str, list[Rule]] = {}
        for rule in (rule for chapter in law.chapters for rule in chapter.rules):
            self._rules.setdefault(shape(rule), []).append(rule)
        self._makers: dict[str, Callable[[int], _Draft | None]] = {
            "lookup": self._lookup_question, "definition": self._definition, "reference": self._reference,
            "exception": self._exception, "amendment": self._amendment, "deadline": self._deadline,
            "comparison": self._comparison,
        }  # fmt: skip

    def ask(
        self, reads: Iterable[int], kinds: Sequence[str], answerable: int, unanswerable: int
    ) -> tuple[GeneratedQuestion, ...]:
        """Return questions spread evenly over numbers of reads and then kinds; fewer where the law holds no more."""
        cells = {number: [kind for kind in CELLS[number] if kind in kinds] for number in reads}
        blanks = self._drafts(cells, unanswerable, remove=True)
        rest = self._drafts(cells, answerable, remove=False)
        found = []
        for kind, reads_needed, draft in [*blanks, *rest]:
            evidence = draft.trail.evidence(self._library, self.removed)
            answers = draft.answers if kind != "unanswerable" else ()
            found.append(GeneratedQuestion(draft.text, answers, kind, reads_needed, *evidence, draft.metric))
        self._rng.shuffle(found)
        return tuple(found)

    def _drafts(self, cells: dict[int, list[str]], count: int, *, remove: bool) -> list[tuple[str, int, _Draft]]:
        rows = [[(kind, reads) for kind in self._rng.sample(kinds, len(kinds))] for reads, kinds in cells.items()]
        self._rng.shuffle(rows)
        found: list[tuple[str, int, _Draft]] = []
        while any(rows) and len(found) < count:
            for row in rows:
                if row and len(found) < count:
                    kind, reads = row.pop(0)
                    draft = self._draw(kind, reads, remove)
                    if draft:
                        found.append(("unanswerable" if remove else kind, reads, draft))
                        row.append((kind, reads))
        return found

    def _draw(self, kind: str, reads: int, remove: bool) -> _Draft | None:
        for _ in range(_TRIES):
            draft = self._makers[kind](reads)
            if draft is None or not self._is_sound(draft, reads):
                continue
            rests_on = (kind, *sorted(row.id for row in draft.trail.provisions))
            if rests_on in self._asked or (remove and not draft.trail.removable):
                continue
            if remove:
                self.removed.add(self._rng.choice(draft.trail.removable))
            self._asked.add(rests_on)
            return draft
        return None

    def _is_sound(self, draft: _Draft, reads: int) -> bool:
        rows = draft.trail.provisions
        if len({row.section for row in rows}) != reads or draft.answers[0] in draft.text.replace("?", " ").split():
            return False
        return not any(row.section in self.removed for row in rows) and all(map(self._is_found, rows))

    def _is_found(self, row: Provision) -> bool:
        below = self._library.below(row.section)
        return not row.query or any(self._lookup.finds(row.query, section.id) for section in below)

    def _word(self, other: str, plain: str) -> str:
        """Return other words than the law's, or the law's."""
        return other if self._rng.random() < self._paraphrase else plain

    def _who(self, activity: Activity) -> str:
        return self._word(activity.who, f"the holder of a licence for the {activity.noun}")

    def _size(self, chapter: Chapter, size: int) -> str:
        low, high = chapter.bounds
        ranges = ((max(2, low // 2), low - 1), (low, high - 1), (high, 2 * high))
        units = self._rng.randint(*ranges[size])
        return self._word(chapter.activity.has, f"has {{n}} {chapter.activity.unit}").format(n=units)

    def _relief(self, rule: Rule) -> str:
        assert rule.relief is not None
        if rule.relief.group is None:
            return self._size(rule.chapter, 0)
        return self._word(rule.relief.group.asks, f"is {rule.relief.group.noun}")

    def _asks(self, rule: Rule) -> str:
        return self._word(self._rng.choice(rule.kind.asks), rule.kind.plain)

    def _put(self, activity: Activity, details: Sequence[str], question: str) -> str:
        """Return a question about a person with details: named in it, or in a sentence before it."""
        who, start = self._who(activity), f"Under the law of {self._law.name},"
        if not details:
            asked = question.format(who=who)
            return f"{start} {asked[0].lower()}{asked[1:]}"
        return f"{start} take {who}; this person {' and '.join(details)}. {question.format(who='this person')}"

    def _pick(self, *shapes: str, event: bool = False) -> Rule | None:
        rules = [rule for name in shapes for rule in self._rules.get(name, ()) if rule.kind.event or not event]
        return self._rng.choice(rules) if rules else None

    def _amount(self, rule: Rule, details: Sequence[str], trail: Trail) -> _Draft:
        text = self._put(rule.chapter.activity, details, self._asks(rule))
        return _Draft(text, amount_forms(trail.value, rule.kind.unit), trail)

    def _lookup_question(self, reads: int) -> _Draft | None:
        rule = self._pick("plain")
        return self._amount(rule, (), trace_rule(rule)) if rule else None

    def _definition(self, reads: int) -> _Draft | None:
        chapter, late = self._rng.choice(self._law.chapters), self._rng.random() < 0.5
        occasion, size = self._rng.randrange(len(OCCASIONS)), self._rng.randrange(len(SIZES))
        other = ("getting permission for the first time", "having the permission extended")[occasion]
        what = self._word(other, f"the {OCCASIONS[occasion]} of a licence")
        when = ", when the money comes in after the due day" if late else ""
        question = f"How many dollars does {what} cost {{who}}{when}?"
        text = self._put(chapter.activity, [self._size(chapter, size)], question)
        trail = trace_fee(self._law, chapter, occasion, size, late=late)
        return _Draft(text, amount_forms(trail.value, "dollars"), trail)

    def _reference(self, reads: int) -> _Draft | None:
        if reads == 2:
            rule = self._pick("referring")
            return self._amount(rule, (), trace_rule(rule)) if rule else None
        chapters = [chapter for chapter in self._law.chapters if chapter.offences]
        if not chapters:
            return None
        rule, name = self._rng.choice(self._rng.choice(chapters).offences)
        again = ", and does so again within a year" if reads == 4 else ""
        time = " the second time" if again else ""
        breach = self._word(rule.kind.breach, f"breaches the rule on {rule.kind.heading.lower()}")
        question = f"What is the most, in dollars, that {{who}} can be fined{time}?"
        trail = trace_fine(self._law, rule, name, repeated=reads == 4)
        text = self._put(rule.chapter.activity, [f"{breach}{again}"], question)
        return _Draft(text, amount_forms(trail.value, "dollars"), trail)

    def _exception(self, reads: int) -> _Draft | None:
        rule = self._pick("group" if reads == 2 else "minor")
        return self._amount(rule, [self._relief(rule)], trace_rule(rule, relieved=True)) if rule else None

    def _amendment(self, reads: int) -> _Draft | None:
        rule = self._pick(("amended plain", "amended group", "amended minor")[reads - 2])
        if rule is None or rule.amendment is None:
            return None
        days = self._rng.randint(0, 1000) if self._rng.random() < 0.6 else -self._rng.randint(1, 500)
        when = rule.amendment.since + timedelta(days=days)
        details = [self._relief(rule)] if reads > 2 else []
        details.append(f"{self._word('faced this on', 'has a matter that arose on')} {written_date(when)}")
        return self._amount(rule, details, trace_rule(rule, relieved=reads > 2, when=when))

    def _deadline(self, reads: int) -> _Draft | None:
        mailed = reads > 2 and self._rng.random() < 0.5
        shapes = {1: ("plain",), 2: ("group", "referring"), 3: ("minor",)}[reads - 1 - mailed]
        rule = self._pick(*shapes, event=True)
        if rule is None:
            return None
        law, relieved = self._law, bool(rule.relief)
        trail = trace_rule(rule, relieved=relieved)
        start = date(2020, 1, 1) + timedelta(days=self._rng.randrange(1800))
        received = start + timedelta(days=law.post_days if mailed else 0)
        if mailed:
            trail.provisions.append(Provision(law.post_id, "Service by post", is_operative=False))
        trail.provisions.append(Provision(law.counting_id, "Counting of periods", is_operative=False))
        how = " ".join(filter(None, ("is mailed" if mailed else "is handed over", rule.kind.to)))
        day = f"{WEEKDAYS[start.weekday()]} {written_date(start)}"
        question = f"{rule.kind.event} {how} on {day}. What is the last day {rule.kind.act}?"
        text = self._put(rule.chapter.activity, [self._relief(rule)] if relieved else [], question)
        return _Draft(text, date_forms(law.last_day(received, trail.value)), trail, "em")

    def _side(self, key: str, reads: int) -> tuple[Rule, str, Trail] | None:
        shapes = {1: ("plain",), 2: ("group", "referring"), 3: ("minor",)}[reads]
        rules = [rule for name in shapes for rule in self._rules.get(name, ()) if rule.kind.key == key]
        if not rules:
            return None
        rule = self._rng.choice(rules)
        detail = f" (one who {self._relief(rule)})" if rule.relief else ""
        return rule, f"{self._who(rule.chapter.activity)}{detail}", trace_rule(rule, relieved=bool(rule.relief))

    def _comparison(self, reads: int) -> _Draft | None:
        kind = self._rng.choice(parts().rules)
        left = self._rng.randint(max(1, reads - 3), min(3, reads - 1))
        one, other = self._side(kind.key, left), self._side(kind.key, reads - left)
        if one is None or other is None or one[0].chapter is other[0].chapter or one[2].value == other[2].value:
            return None
        trail = Trail(abs(one[2].value - other[2].value))
        for _, _, side in (one, other):
            trail.extend(side)
        noun = self._word(kind.noun, f"what the rule on {kind.heading.lower()} gives")
        start = f"Under the law of {self._law.name},"
        if self._rng.random() < 0.75:
            unit = "percentage points" if kind.unit == "percent" else kind.unit
            text = f"{start} by how many {unit} do {one[1]} and {other[1]} differ in {noun}?"
            return _Draft(text, amount_forms(trail.value, kind.unit), trail)
        winner = max(one, other, key=lambda side: side[2].value)
        text = f"{start} who has the larger figure for {noun}: {one[1]} or {other[1]}?"
        activity = winner[0].chapter.activity
        names = (winner[1], winner[1].partition(" (")[0], activity.who, activity.noun, activity.heading)
        return _Draft(text, tuple(dict.fromkeys(names)), trail, "em")


def shape(rule: Rule) -> str:
    """Return which provisions make up a rule: "plain", "referring", "group" or "minor", each perhaps "amended"."""
    name = "referring" if rule.target else "plain"
    if rule.relief:
        name = "group" if rule.relief.group else "minor"
    return f"amended {name}" if rule.amendment else name
