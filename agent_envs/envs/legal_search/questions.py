"""Questions about generated law are drawn from its facts, each with its answer and the sections that prove it."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import cycle
from typing import Any

from agent_envs.envs.legal_search.dates import WEEKDAYS, date_forms, written_date
from agent_envs.envs.legal_search.generated import GeneratedQuestion
from agent_envs.envs.legal_search.library import Library
from agent_envs.envs.legal_search.statute_facts import Chapter, Law, Rule
from agent_envs.envs.legal_search.statute_parts import Group, amount_forms, parts, with_article
from agent_envs.envs.legal_search.statute_trails import CaseFacts, Trail, letter, trace_fine, trace_rule

# How many sections a question of each kind may need, and how often a kind is drawn.
CELLS = {
    "amount": (1, 2, 3, 4, 5, 6),
    "deadline": (2, 3, 4, 5, 6),
    "fine": (4, 5, 6),
    "comparison": (3, 4, 5, 6),
    "term": (1,),
}
KINDS = tuple(CELLS)
_OFTEN = {"amount": 6, "deadline": 2, "fine": 2, "comparison": 2, "term": 1}
# How many of twenty questions need 1, 2, ... 6 sections, where all are wanted.
_SPREAD = {1: 2, 2: 4, 3: 5, 4: 4, 5: 3, 6: 2}
_BY_NOUN = 0.4  # how often a question calls the business what the law calls it
_DRAWS = 300  # of one question; a small law may hold none


@dataclass(frozen=True, slots=True)
class QuestionDraft:
    """A question before it is known which sections are removed."""

    kind: str
    text: str
    answers: tuple[str, ...]
    trail: Trail
    metric: str
    chapter: str

    @property
    def reads(self) -> int:
        """The number of sections it needs."""
        return len(self.trail.queries)


class StatuteAsker:
    """Draws questions about one law in one set of wordings.

    Attributes:
        removed: the sections that were taken out for questions without an answer.
    """

    def __init__(self, rng: random.Random, law: Law, whole: Library, wording: str) -> None:
        """Take the law, its whole library, and the set of wordings; no section is removed yet."""
        self._rng, self._law, self._whole, self._wording = rng, law, whole, wording
        self._words: dict[str, Any] = parts().ask[wording]
        self.removed: set[str] = set()

    def ask(
        self, reads: tuple[int, ...], kinds: tuple[str, ...], count: int, blanks: int
    ) -> tuple[GeneratedQuestion, ...]:
        """Return up to `count` + `blanks` different questions in random order, `blanks` of them at most unanswerable."""
        drafts: dict[str, QuestionDraft] = {}
        draws = [number for number in reads for _ in range(_SPREAD[number])]
        self._rng.shuffle(draws)
        turns = cycle(draws)
        misses = 0
        while len(drafts) < count + blanks and misses < len(set(draws)) * 3:
            draft = self._draw(next(turns), kinds, drafts)
            if draft:
                drafts[draft.text] = draft
            misses = 0 if draft else misses + 1
        rows = list(drafts.values())
        lost = self._remove(rows, blanks)
        rows = [row for place, row in enumerate(rows) if place in lost or not self.removed & set(row.trail.queries)]
        questions = [self._question(row) for row in rows]
        self._rng.shuffle(questions)
        return tuple(questions)

    def _draw(self, reads: int, kinds: tuple[str, ...], drafts: dict[str, QuestionDraft]) -> QuestionDraft | None:
        """Draw a new question with so many reads, of one of the kinds, by weight; None where no kind gives one in its tries."""
        able = [kind for kind in kinds if reads in CELLS[kind]]
        while able:
            kind = self._rng.choices(able, [_OFTEN[kind] for kind in able])[0]
            for _ in range(_DRAWS):
                draft = self.draft(kind, self._rng.choice(self._law.chapters))
                if draft and draft.reads == reads and draft.text not in drafts:
                    return draft
            able.remove(kind)
        return None

    def _remove(self, rows: list[QuestionDraft], blanks: int) -> set[int]:
        """Take out a section each for up to `blanks` questions that no other needs; return the questions' places."""
        lost: set[int] = set()
        for place in range(len(rows) - 1, -1, -1):
            if len(lost) == blanks:
                break
            others = {section for other, row in enumerate(rows) if other != place for section in row.trail.queries}
            free = [section for section in rows[place].trail.removable if section not in others]
            if free:
                self.removed.add(self._rng.choice(free))
                lost.add(place)
        return lost

    def _question(self, draft: QuestionDraft) -> GeneratedQuestion:
        """Return a draft as a question with its evidence; unanswerable where a section that it needs was removed."""
        support, steps = draft.trail.evidence(self._whole, self.removed)
        is_removed = bool(self.removed & set(draft.trail.queries))
        return GeneratedQuestion(
            text=draft.text,
            answers=() if is_removed else draft.answers,
            kind="unanswerable" if is_removed else draft.kind,
            reads=draft.reads,
            chapter=draft.chapter,
            support=support,
            steps=steps,
            metric=draft.metric,
            lines=() if is_removed else tuple(draft.trail.lines),
        )

    def draft(
        self, kind: str, chapter: Chapter, rule: Rule | None = None, of_holder: bool | None = None
    ) -> QuestionDraft | None:
        """Return a question of a kind on a chapter, on a given rule and holder where given; None where none fits or differs."""
        if kind == "term":
            return self._term(chapter)
        pool = [rule] if rule else chapter.rules
        rules = [rule for rule in pool if self._fits(kind, rule)]
        if not rules:
            return None
        rule_drawn = self._rng.choice(rules)
        if kind == "comparison":
            return self._comparison(rule_drawn)
        facts = self._facts(kind, rule_drawn, self._rng.random() < 0.5 if of_holder is None else of_holder)
        return {"amount": self._amount, "deadline": self._deadline, "fine": self._fine}[kind](rule_drawn, facts)

    @staticmethod
    def _fits(kind: str, rule: Rule) -> bool:
        """Return whether a kind can ask about a rule: a deadline needs an event, a fine an offence, others no amendment."""
        if kind == "deadline":
            return bool(rule.kind.event) and not rule.amendment
        if kind == "fine":
            return bool(rule.offence)
        return kind == "amount" or not rule.amendment

    def _facts(self, kind: str, rule: Rule, of_holder: bool) -> CaseFacts:
        """Draw a case's facts: those of a named holder, or all that the rule depends on, often with some that it does not."""
        rng, chapter = self._rng, rule.chapter
        when = self._matter(rule) if kind == "amount" and (rule.amendment or rng.random() < 0.1) else None
        if of_holder:
            return CaseFacts.of(rng.choice(chapter.holders), when)
        is_fine = kind == "fine"
        has_size = rule.sizes or is_fine or rng.random() < 0.3
        size = rng.randint(3, chapter.bounds[1] + 12) if has_size else None
        idle = rng.randint(2, size // 2) if size and size > 3 and rng.random() < 0.4 else 0
        group = self._group(rule) if not is_fine and rng.random() < 0.6 else None
        dated = rule.early or rule.recent or (rule.amendment and rule.amendment.later)
        granted = None if is_fine or not (dated or rng.random() < 0.15) else self._draw_licence_day(rule)
        return CaseFacts(chapter, size, idle, group, granted, when)

    def _group(self, rule: Rule) -> tuple[Group, bool]:
        """Draw a group of persons, in 4 of 5 cases one of the rule's own, and a flag that is true in 35 of 100."""
        own = [group for group, _ in rule.groups] if self._rng.random() < 0.8 else []
        return self._rng.choice(own or parts().groups), self._rng.random() < 0.35

    def _matter(self, rule: Rule) -> date:
        """Draw the day of a matter, from 500 days before its rule's amendment to 1,100 after it; without one, around 2017."""
        start = rule.amendment.since if rule.amendment else date(2017, 1, 1)
        return start + timedelta(days=self._rng.randint(-500, 1100))

    def _draw_licence_day(self, rule: Rule) -> date:
        """Draw a day around one at which a licence changes the amount of a rule, or around 2011-01-01 where none does."""
        turns = [row[0] for row in (rule.early, rule.recent) if row]
        turn = self._rng.choice(turns) if turns else date(2011, 1, 1)
        return turn + timedelta(days=self._rng.randint(-1200, 1200))

    def _amount(self, rule: Rule, facts: CaseFacts) -> QuestionDraft:
        """Draw a question for a rule's amount in a case; its answers are the amount's accepted forms."""
        trail = trace_rule(self._law, rule, facts)
        question = self._rng.choice(rule.kind.asks(self._wording))
        text = self._put(facts, question)
        return QuestionDraft(
            "amount", text, amount_forms(trail.value, rule.kind.unit), trail, "numeric", rule.chapter.id
        )

    def _deadline(self, rule: Rule, facts: CaseFacts) -> QuestionDraft:
        """Draw a question for a period's last day, from a notice handed over or (half of the time) posted."""
        law, rng = self._law, self._rng
        trail = trace_rule(law, rule, facts)
        start = date(2020, 1, 1) + timedelta(days=rng.randrange(1800))
        posted = rng.random() < 0.5
        trail.read(rule.id, letter(rule.paragraphs, "counted"))
        if posted:
            trail.read(law.post_id, "a")
        trail.read(law.counting_id, "a", "b")
        received = start + timedelta(days=law.post_days if posted else 0)
        slots = {
            "event": rule.kind.event,
            "act": rule.kind.act,
            "sent": self._words["posted" if posted else "handed"],
            "day": f"{WEEKDAYS[start.weekday()]} {written_date(start)}",
        }
        question = rng.choice(self._words["deadline"])
        for name, value in slots.items():  # the event holds {who}, which is put in later
            question = question.replace(f"{{{name}}}", value)
        answers = date_forms(law.last_day(received, trail.value))
        return QuestionDraft("deadline", self._put(facts, question), answers, trail, "em", rule.chapter.id)

    def _fine(self, rule: Rule, facts: CaseFacts) -> QuestionDraft:
        """Draw a question for the highest fine for a breach of a rule, in half the cases repeated after 2 to 8 years."""
        years = self._rng.randint(2, 8) if self._rng.random() < 0.5 else None
        trail = trace_fine(self._law, rule, facts, years)
        question = self._rng.choice(self._words["fine"]).replace("{breach}", rule.kind.breach[0])
        text = self._put(facts, question)
        if years is not None:
            text = self._word("again").format(k=years) + text
        return QuestionDraft("fine", text, amount_forms(trail.value, "dollars"), trail, "numeric", rule.chapter.id)

    def _comparison(self, rule: Rule) -> QuestionDraft | None:
        """Draw a question for the difference of a rule between two holders of the register; None where they are alike."""
        one, other = self._rng.sample(rule.chapter.holders, 2)
        first, second = (trace_rule(self._law, rule, CaseFacts.of(holder)) for holder in (one, other))
        if first.value == second.value:
            return None
        trail = Trail(abs(first.value - second.value))
        trail.read(one.id, query=one.name)
        trail.read(other.id, query=other.name)
        trail.extend(first)
        trail.extend(second)
        units = "percentage points" if rule.kind.unit == "percent" else rule.kind.unit
        question = self._rng.choice(self._words["comparison"])
        text = question.format(one=one.name, other=other.name, units=units, noun=rule.kind.noun)
        return QuestionDraft(
            "comparison", text, amount_forms(trail.value, rule.kind.unit), trail, "numeric", rule.chapter.id
        )

    def _term(self, chapter: Chapter) -> QuestionDraft:
        """Draw a question for the term that a chapter's definitions give to a description; its heading is right, too."""
        trade, trail = chapter.trade, Trail()
        words = f"{chapter.province} {trade.heading} Definitions"
        trail.read(chapter.definitions_id, "a", query=words, removable=True)
        text = self._rng.choice(self._words["term"]).format(province=chapter.province, means=trade.means)
        return QuestionDraft("term", text, (trade.noun, trade.heading), trail, "em", chapter.id)

    def _word(self, name: str) -> str:
        """Return a wording of the set, one of several where the set has several."""
        wordings: str | list[str] = self._words[name]
        return wordings if isinstance(wordings, str) else self._rng.choice(wordings)

    def _put(self, facts: CaseFacts, question: str) -> str:
        """Return a question about a named holder, or about somebody in its province, with the facts of the case in brackets."""
        rng, words = self._rng, self._words
        when = rng.choice(words["when"]).format(day=written_date(facts.when)) if facts.when else ""
        if facts.holder:
            text = question.replace("{who}", facts.holder.name)
            return f"{when}{text[0].upper()}{text[1:]}"
        trade = facts.chapter.trade
        by_noun = rng.random() < _BY_NOUN
        who = self._word("owner").format(a_noun=with_article(trade.noun)) if by_noun else trade.who
        if facts.size is not None:
            who = rng.choice(words["who"]).format(who=who, n=facts.size, unit=trade.unit)
        details = "; ".join(self._details(facts))
        text = question.replace("{who}", f"{who} ({details})" if details else who)
        place = self._word("place").format(province=facts.chapter.province)
        return f"{when}{place}{text[0].lower()}{text[1:]}"

    def _details(self, facts: CaseFacts) -> Iterator[str]:
        """Yield the sentences that tell a case's idle things, group and licence day, those that it has."""
        if facts.idle:
            yield self._word("idle").format(idle=facts.idle)
        if facts.group:
            group, excepted = facts.group
            yield group.phrases(self._wording)[excepted]
        if facts.granted:
            yield self._word("granted").format(day=written_date(facts.granted))
