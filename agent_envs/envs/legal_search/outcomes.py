"""An answer is judged right, cited or abstaining, and the end and the evidence of an episode are read from typed turns."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from agent_envs.base.messages import ToolResult
from agent_envs.core.trajectory import Task, Trajectory
from agent_envs.envs.legal_search.tasks import LegalScenario
from agent_envs.envs.legal_search.tools import READ, SEARCHES, Fault, Final
from agent_envs.grading.text_answers import exact_match, normalise_answer, parse_number, token_f1

OUTCOMES = ("cited", "uncited", "abstained", "wrong", "out_of_turns", "format_error")
MOST_CITED = 8  # sections, where fewer prove the answer; more than that is no citation but a list
F1_RIGHT = 0.5
_ABSTAINING = ("i dont know", "i do not know", "i don’t know")
_NUMBER = re.compile(r"\d+(?:,\d+)*(?:\.\d+)?|(?<!\w)\.\d+")
# What makes another number of the one that is written.
_CHANGED = re.compile(
    r"(?i)(?:[-\u2212]|\b(?:minus|negative|twice|double|half(?: of)?|(?:third|quarter) of))\s*\$?\d"
    r"|\d[\s-]?(?:k|(?-i:M)|bn|mn|squared|cubed|(?:dozen|hundred|thousand|lakh|crore|(?:m|b|tr)illion)s?)\b|\d[\u00b2\u00b3]"
)
_DENIED = re.compile(
    r"\b(?:not|never|neither|nor|no|isn['’]t|wasn['’]t|cannot|other than|rather than)\b"
    r"(?! (?:more|less|fewer|later|earlier|longer|over|under)\b)",
    re.IGNORECASE,
)
_UNIT = re.compile(r"\b(?:(?:business|working|court)[\s-]day|hour|day|week|month|year|dollar|percent)|per cent|[$%]")
_SIGNS = {"$": "dollar", "%": "percent", "per cent": "percent"}
_NAME = "outcome"
_LONGEST = 10_000  # characters of an answer that are compared


@dataclass(frozen=True)
class Ended:
    """The end of an episode, read back from its last turn.

    Attributes:
        outcome: one of `OUTCOMES`; "" while the episode lasts.
        fault: the kind of a format error.
        metric: whether the task's own metric finds the answer right.
        judge: the judge's word where one was asked: "1", "0" or "".
        sources: what the answer cites.
    """

    outcome: str = ""
    fault: str = ""
    metric: bool = False
    judge: str = ""
    sources: tuple[str, ...] = ()


def abstains(answer: str) -> bool:
    """Return whether an answer says that it does not know: "I don't know" or "I do not know", and whatever follows."""
    return normalise_answer(answer[:_LONGEST]).startswith(_ABSTAINING)


def matches(answer: str, golds: tuple[str, ...], metric: str) -> bool:
    """Return whether an answer is right by a metric: `numeric`, `f1` (>= 0.5), any other exact match; "not 12" is none of 12.

    `numeric` takes an answer that holds one number, if it is the gold's and its unit is none but the gold's: "within 12 days"
    for "12" or "12 days", and "12 months" for neither, where a gold says days. Of a sum that is written out, what stands
    behind its last "=" is the answer. What denies an answer ("It is not 12") gives none, unless the gold denies, too.
    """
    answer = answer[:_LONGEST]
    if _DENIED.search(answer) and not any(map(_DENIED.search, golds)):
        return exact_match(answer, golds)
    if metric == "numeric":
        answer = answer.rpartition("=")[2]
    if metric == "numeric" and _NUMBER.search(answer):
        number, units = _only_number(answer), _units(" ".join(golds))
        golds_as_numbers = map(_only_number, golds)
        return number is not None and number in golds_as_numbers and (not units or _units(answer) <= units)
    if metric == "f1" and token_f1(answer, golds) >= F1_RIGHT:
        return True
    return exact_match(answer, golds)


def _only_number(answer: str) -> Fraction | None:
    """Return an answer's one number; with several, or words that change it, the value of the whole text, None if none."""
    numbers = _NUMBER.findall(answer)
    if len(numbers) != 1 or _CHANGED.search(answer):
        return parse_number(answer)
    return parse_number(numbers[0])


def _units(text: str) -> frozenset[str]:
    """Return the units of time, money and share in a text, signs and hyphens spelled out."""
    return frozenset(_SIGNS.get(unit, unit.replace("-", " ")) for unit in _UNIT.findall(text.lower()))


def scenario_of(task: Task | None) -> LegalScenario:
    """Return a task's scenario; of one without, an answerable one judged by `em`, without sections."""
    if task is not None and isinstance(task.hidden, LegalScenario):
        return task.hidden
    return LegalScenario((), (), (), True, "em")


def answered(task: Task, final: Final, judge: Callable[[str], bool] | None) -> Ended:
    """Judge an answer and return the end: abstained, wrong, uncited or cited; the metric's verdict is kept beside a judge's.

    Args:
        task: the task.
        final: the answer with its sources.
        judge: whether an answer to an answerable question is right; None leaves it to the metric.
    """
    scenario = scenario_of(task)
    if abstains(final.text):
        return Ended("abstained", metric=not scenario.answerable, sources=final.sources)
    right = metric = scenario.answerable and matches(final.text, task.gold, scenario.metric)
    verdict = ""
    if judge is not None and scenario.answerable:
        right = judge(final.text)
        verdict = str(int(right))
    most = max(MOST_CITED, len(scenario.answer_sections))
    cited = len(final.sources) <= most and not set(final.sources).isdisjoint(scenario.answer_sections)
    outcome = "wrong" if not right else "cited" if cited else "uncited"
    return Ended(outcome, metric=metric, judge=verdict, sources=final.sources)


def succeeded(task: Task, ended: Ended) -> bool:
    """Return whether the task was solved: a right answer, cited or not, or abstaining where there is none."""
    if ended.outcome == "abstained":
        return not scenario_of(task).answerable
    return ended.outcome in ("cited", "uncited")


def result_of(ended: Ended) -> ToolResult:
    """Return the end as the last turn's typed result."""
    head = (ended.outcome, ended.fault, str(int(ended.metric)), ended.judge)
    return ToolResult("", _NAME, "", ids=(*head, *ended.sources))


def failed(fault: Fault) -> Ended:
    """Return the end of an episode by a format error."""
    return Ended("format_error", fault.kind)


def ended_of(trajectory: Trajectory) -> Ended:
    """Return an episode's end from its newest turn; an empty `Ended` where no answer, fault or limit has ended it."""
    for result in trajectory.last.results if trajectory.turns else ():
        if not result.call_id and result.name == _NAME:
            outcome, fault, metric, judge, *sources = result.ids
            return Ended(outcome, fault, metric == "1", judge, tuple(sources))
    return Ended()


@dataclass(frozen=True)
class Evidence:
    """The searches and reads of a trajectory."""

    searches: int = 0
    reads: int = 0
    invalid_reads: int = 0
    hit_ids: frozenset[str] = field(default=frozenset())
    read: frozenset[str] = field(default=frozenset())

    @staticmethod
    def of(trajectory: Trajectory) -> "Evidence":
        """Collect it from a trajectory: searches and reads without error counted, errors of reads, ids found and read."""
        results = [result for turn in trajectory.turns for result in turn.results if result.call_id]
        searches = [result for result in results if result.name in SEARCHES and not result.error]
        reads = [result for result in results if result.name == READ]
        good = [result for result in reads if not result.error]
        hit_ids = frozenset(name for result in searches for name in result.ids)
        read = frozenset(name for result in good for name in result.ids)
        return Evidence(len(searches), len(good), len(reads) - len(good), hit_ids, read)
