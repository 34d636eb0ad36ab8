"""A candidate question is asked from drawn sections by a model, checked by another call and a judge, and kept or dropped."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from string import Template
from typing import Any

from agent_envs.base.errors import EnvFault
from agent_envs.base.serialization import digest
from agent_envs.envs.legal_search.library import Library, Section
from agent_envs.envs.legal_search.outcomes import abstains
from agent_envs.evaluation.runs.costs import recorded_counts
from agent_envs.grading.text_answers import normalise_answer
from agent_envs.services.chat import ChatModel, ChatRequest, ask
from agent_envs.services.chat.prices import PriceTable, check_limit
from agent_envs.services.chat.spending import Budget, Metered, SpendingLimits
from agent_envs.services.judges import Judge, NoVerdict
from agent_envs.services.recording import CallSite, ExternalPort
from agent_envs.tools.retrieval.bm25 import STOP_WORDS

SHARES = {"train": 1_700, "dev": 300, "test": 300}  # of the paper's 2,300
PASSED = "kept"
FAULT = "fault"
MOST_ANSWER_WORDS = 20
MOST_ANSWER_CHARACTERS = 400
MOST_QUESTION_CHARACTERS = 2_000
MOST_SHARED_WORDS = 7
FEWEST_SECTION_WORDS = 20
SAME_QUESTION = 0.7  # shared share of the words of two questions, stop words left out
_SHOWN_CHARACTERS = 6_000
_MOST_TOKENS = 2_048
_REPLY_LINES = 12
_CITED = re.compile(r"(?:§+|[Ss]ections?|[Cc]lauses?)\s*([\w:.-]*\w)")
_POINTING = re.compile(
    r"\b(?:this|these|the above|the following|the given) (?:section|clause|text|provision|passage)s?\b|§"
)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate question, its answer and its fate: accepted, or the reason why not.

    Attributes:
        place: its number, from 0.
        fate: "kept", "fault", or why it was dropped.
        question: as the model asked it.
        answer: as the model answered it.
        sections: the ids that are needed, the base first where it is needed.
        usage: tokens by name.
    """

    place: int
    fate: str
    question: str = ""
    answer: str = ""
    sections: tuple[str, ...] = ()
    usage: Mapping[str, int] = field(default_factory=dict)


class Picker:
    """Chooses sections: each in turn as a base, with those that it cites or that stand beside it.

    `splits` gives each section's split: sections under one parent share theirs, and so do those of one question.
    """

    def __init__(self, library: Library, seed: int, reads: Sequence[int]) -> None:
        """Take the library, and shuffle the sections that are long enough to be asked about."""
        self._library, self._seed, self._reads = library, seed, tuple(reads)
        able = [place.id for place in library.sections.values() if len(place.text.split()) >= FEWEST_SECTION_WORDS]
        self.bases = tuple(random.Random(f"legal/make-qa/{seed}").sample(able, len(able)))
        self._able = frozenset(able)
        self.splits = _split(library, able, seed)
        self._numbered: dict[tuple[str, str], str] = {}
        for section in library.sections.values():
            if section.number:
                self._numbered.setdefault((library.path(section.id)[0].id, section.number), section.id)

    def pick(self, place: int) -> tuple[Section, ...]:
        """Return the sections of a candidate."""
        base = self._library.read(self.bases[place % len(self.bases)])
        count = random.Random(f"legal/make-qa/{self._seed}/{place}").choice(self._reads)
        return (base, *map(self._library.read, self._near_sections(base)[: count - 1]))

    def _near_sections(self, base: Section) -> list[str]:
        """Return the sections that a section cites in its own document or title, then its neighbours, nearest first."""
        root = self._library.path(base.id)[0].id
        cited = [self._numbered.get((root, number), "") for number in _CITED.findall(base.text)]
        beside = self._library.read(base.parent).children if base.parent else ()
        at = beside.index(base.id) if beside else 0
        nearest = sorted(range(len(beside)), key=lambda row: abs(row - at))
        names = dict.fromkeys([*cited, *(beside[row] for row in nearest)])
        mine = self.splits[base.id]
        return [name for name in names if name in self._able and name != base.id and self.splits[name] == mine]


def _split(library: Library, able: Sequence[str], seed: int) -> Mapping[str, str]:
    """Return the split of each section: group by group, at random, to the split that is furthest from its share."""
    groups: dict[str, list[str]] = {}
    for name in able:
        groups.setdefault(library.read(name).parent or name, []).append(name)
    total = sum(SHARES.values())
    left = {split: share * len(able) / total for split, share in SHARES.items()}
    splits = {}
    for group in random.Random(f"legal/make-qa/{seed}/splits").sample(sorted(groups), len(groups)):
        split = max(left, key=lambda name: left[name])
        left[split] -= len(groups[group])
        splits.update(dict.fromkeys(groups[group], split))
    return splits


class Examiner:
    """Makes candidates: one call proposes, one answers blindly from the sections, a judge compares the two.

    Where several sections are named, each is left out in turn, and those that are not missed are no part of the gold.
    """

    def __init__(self, port: ExternalPort, checker: ExternalPort, judge: Judge) -> None:
        """Take the port to the model that asks, the port to the one that answers, and the judge."""
        self._port, self._checker, self._judge = port, checker, judge

    def attempt(self, place: int, sections: Sequence[Section], label: str) -> Candidate:
        """Return the candidate of some sections; a service that fails makes a candidate with the fate "fault"."""
        usage: Counter[str] = Counter()
        try:
            return self._attempt(place, sections, CallSite(label), usage)
        except EnvFault as fault:
            usage.update(fault.usage)
            return Candidate(place, FAULT, question=fault.cause, usage=dict(usage))

    def confirms(self, candidate: Candidate, sections: Sequence[Section], label: str) -> bool:
        """Return whether the checking model finds a candidate's answer in some sections; a missing verdict counts as yes.

        Raises:
            EnvFault: the service failed.
        """
        try:
            return not self._doubt(candidate.question, candidate.answer, sections, CallSite(label), Counter())
        except NoVerdict:
            return True

    def _doubt(
        self, question: str, answer: str, sections: Sequence[Section], site: CallSite, usage: Counter[str]
    ) -> str:
        """Check an answer against its sections: return the fate of a faulty one, or ""."""
        fields = self._ask(self._checker, "check", site, usage, sections=render(sections), question=question)
        response = fields.get("answer")
        if not isinstance(response, str | int | float) or not str(response).strip() or abstains(str(response)):
            return "not answered from its sections"
        verdict = self._judge(question, str(response), [answer], replace(site, ordinal=site.ordinal + 1))
        return "" if verdict.correct else "answered otherwise"

    def _needed_ids(
        self, question: str, answer: str, sections: Sequence[Section], site: CallSite, usage: Counter[str]
    ) -> tuple[str, ...]:
        """Return the ids of the sections without which the answer cannot be told, each left out in turn."""
        left = list(sections)
        for number, section in enumerate(sections, 1):
            rest = [other for other in left if other is not section]
            if rest and not self._doubt(question, answer, rest, replace(site, ordinal=10 * number), usage):
                left = rest
        return tuple(section.id for section in left)

    def _attempt(self, place: int, sections: Sequence[Section], site: CallSite, usage: Counter[str]) -> Candidate:
        """Propose a question from sections, and test it; the candidate carries the reason why it was dropped, if it was."""
        fields = self._ask(
            self._port, "propose", site, usage, sections=render(sections), count=len(sections), run=MOST_SHARED_WORDS
        )
        question, answer, needed = fields.get("question"), fields.get("answer"), fields.get("sections")
        if "question" in fields and question is None:
            return Candidate(place, "no question", usage=dict(usage))
        if not isinstance(question, str) or not isinstance(answer, str | int | float) or not isinstance(needed, list):
            return Candidate(place, "unreadable", usage=dict(usage))
        question, answer = " ".join(question.split()), " ".join(str(answer).split())
        ids = tuple(section.id for section in sections if section.id in needed)
        fate = flaw(question, answer, sections) if len(ids) == len(needed) > 0 else "sections that were not shown"
        if not fate:
            used = [section for section in sections if section.id in ids]
            fate = self._doubt(question, answer, used, replace(site, ordinal=1), usage)
            ids = ids if fate else self._needed_ids(question, answer, used, site, usage)
        return Candidate(place, fate or PASSED, question, answer, ids, dict(usage))

    def _ask(
        self, port: ExternalPort, prompt: str, site: CallSite, usage: Counter[str], **values: Any
    ) -> Mapping[str, Any]:
        """Return the JSON object in the last line of a reply that has one; {} where none has."""
        text = prompts()[prompt].substitute(values, most=MOST_ANSWER_WORDS)
        reply = ask(port, ChatRequest([{"role": "user", "content": text}], max_tokens=_MOST_TOKENS), site)
        usage.update(reply.usage)
        for line in reversed(reply.text.strip().splitlines()[-_REPLY_LINES:]):
            try:
                fields = json.loads(line.strip(" `"))
            except (ValueError, RecursionError):
                continue
            if isinstance(fields, dict):
                return fields
        return {}


@cache
def prompts() -> Mapping[str, Template]:
    """Return the prompts by name, read once."""
    folder = Path(__file__).parent
    return {
        name: Template(folder.joinpath(f"qa_{name}.md").read_text(encoding="utf-8").strip())
        for name in ("propose", "check")
    }


def prompts_digest() -> str:
    """Return the digest by which a journal identifies the prompts."""
    return digest({name: prompt.template for name, prompt in prompts().items()})


def render(sections: Sequence[Section]) -> str:
    """Render sections for a prompt: id, label and text, long ones cut."""
    return "\n\n".join(f"ID: {one.id}\n{one.label}\n{one.text[:_SHOWN_CHARACTERS]}" for one in sections)


def flaw(question: str, answer: str, sections: Sequence[Section]) -> str:
    """Check a question by rules, without a model: return the fate of a faulty one, or ""."""
    if len(question) > MOST_QUESTION_CHARACTERS:
        return "the question is too long"
    if len(answer) > MOST_ANSWER_CHARACTERS:
        return "no short answer"
    if not normalise_answer(answer) or abstains(answer) or len(answer.split()) > MOST_ANSWER_WORDS:
        return "no short answer"
    if contains_answer(question, [answer]):
        return "the question holds the answer"
    if _POINTING.search(question.lower()) or any(_names(question, section.id) for section in sections):
        return "the question points at the text"
    tokens = words(question)
    runs = {tokens[start : start + MOST_SHARED_WORDS + 1] for start in range(len(tokens) - MOST_SHARED_WORDS)}
    for section in sections:
        read = words(section.text)
        if any(read[start : start + MOST_SHARED_WORDS + 1] in runs for start in range(len(read) - MOST_SHARED_WORDS)):
            return "the question quotes the text"
    return ""


def contains_answer(text: str, golds: Iterable[str]) -> bool:
    """Return whether any normalised gold answer is a run of whole words in the normalised text."""
    run = f" {normalise_answer(text)} "
    return any(normal and f" {normal} " in run for normal in map(normalise_answer, golds))


def _names(question: str, section_id: str) -> bool:
    """Return whether a question holds an id; one without a digit may be a word like any other."""
    pattern = rf"(?<!\w){re.escape(section_id)}(?!\w)"
    return any(letter.isdigit() for letter in section_id) and re.search(pattern, question) is not None


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text in small letters."""
    return tuple(_WORD.findall(text.lower()))


def same(one: Candidate, other: Candidate) -> bool:
    """Return whether two candidates ask the same: in the same words, or in nearly the same with the same answer."""
    mine, theirs = _content(one.question), _content(other.question)
    if mine == theirs:
        return True
    alike = len(mine & theirs) >= SAME_QUESTION * len(mine | theirs)
    return alike and normalise_answer(one.answer) == normalise_answer(other.answer)


@lru_cache(maxsize=100_000)
def _content(question: str) -> frozenset[str]:
    """Return the words of a question but stop words, cached."""
    return frozenset(words(question)).difference(STOP_WORDS)


def limited_chats(models: Sequence[ChatModel], most_usd: float, table: PriceTable, recorded: Path) -> list[Metered]:
    """Return models under one limit, of which what a recording holds is spent already.

    Args:
        models: who is asked; two of one name have one price.
        most_usd: US dollars, for all of them together.
        table: the prices.
        recorded: what an earlier run was answered; it need not be there. What was spent is kept beside it.

    Raises:
        UsageError: the limit is not above 0, or a model has no price.
    """
    prices = {model.name: check_limit(most_usd, table.price(model.name), model.name) for model in models}
    ledger = recorded.with_name(f"{recorded.name}.spent.json")
    budget = Budget(SpendingLimits(usd=most_usd), prices, ledger=ledger, before=recorded_counts(recorded, prices))
    return [Metered(model, budget) for model in models]
