"""The rewards `em` (default), `numeric`, `em_format` and `released` are paid for the answer to a calculator task.

All of it reads what the policy wrote, as text or with expanded actions; success is `em`'s, whatever is paid.
"""

import re
from collections.abc import Callable
from fractions import Fraction

from agent_envs.base.arguments import choice
from agent_envs.base.protocol import Answer, marked_answer
from agent_envs.core.episode import RewardSpec, Term
from agent_envs.core.trajectory import Task, Trajectory
from agent_envs.envs.expa.calculator.countdown import check
from agent_envs.envs.expa.generated import CalcData
from agent_envs.envs.expa.problem import ended, policy_language, task_of
from agent_envs.grading.dressed_numbers import asks_per_cent, plain_marked_numbers
from agent_envs.grading.text_answers import parse_number, without_thousands

MARK = "####"
FORMAT_SCORE = 0.1
CALC_REWARDS = ("em", "exact", "numeric", "em_format", "released")
RELEASED_TOLERANCE = Fraction(1, 100_000)  # of the released Countdown checker
# The release also takes a number on the next line, and one that begins with a comma; here an answer has one form for all.
_RELEASED_NUMBER = re.compile(r"####[ \t]?(-?\.?[0-9][0-9.,]*)")
# A number behind the mark, as prompts ask for it, or several, which are no dressed number.
_IN_FORM = re.compile(r" (?:-?(?:0|[1-9]\d*)(?:\.\d*[1-9])?|\d++(?:[-+*/]\d++)+)", re.ASCII)
_RELEASED_LINE = re.compile(r"####([^\n]*)")


def calc_solved(trajectory: Trajectory) -> bool:
    """Return whether an ended episode's answer behind the last `####` is the task's number as text or a right expression."""
    return ended(trajectory) and _is_exact(marked_answer(_answer_text(trajectory))[1], task_of(trajectory))


def _wrong(trajectory: Trajectory) -> bool:
    """Return whether an episode has ended and is not solved."""
    return ended(trajectory) and not calc_solved(trajectory)


def plain_answer(text: str, task: Task) -> tuple[str, tuple[str, ...]]:
    """Rewrite a turn's dressed numbers behind the mark, but for a task whose answer is an expression; return events."""
    head, mark, number = text.rpartition(MARK)
    if not mark or task.data.kind == "countdown" or (_IN_FORM.fullmatch(number) and MARK not in head):
        return text, ()
    return plain_marked_numbers(text, MARK, per_cent=asks_per_cent(task.question))


def _answer_text(trajectory: Trajectory) -> str:
    """Return a typed answer behind the mark, as it was read; without one, all of the policy's language as it was read."""
    parsed = trajectory.last.parsed
    return f"{MARK} {parsed.text}" if isinstance(parsed, Answer) else policy_language(trajectory, as_read=True)


def _policy_text(trajectory: Trajectory) -> str:
    """Return the policy's text as it wrote it; where the last turn has results, its answer behind the mark."""
    return _answer_text(trajectory) if trajectory.last.results else policy_language(trajectory)


def make_calc_reward(env: str, name: str) -> RewardSpec:
    """Return a reward by name; UsageError for unknown ones; `exact` is `em` without repairs: dressed numbers are wrong."""
    if choice(env, "reward", name, CALC_REWARDS) == "numeric":
        doc = "1 if the answer behind the last #### has the value of the task's answer, however it is written"
        return RewardSpec(name, (_last_only("numeric", doc, _has_value, text_of=_answer_text),), (0.0, 1.0))
    if name == "released":
        doc = "1 by the released checkers: numbers as floats, Countdown within 1e-5 behind the first ####"
        return RewardSpec(name, (_last_only("released", doc, _is_right_as_released),), (0.0, 1.0))
    doc = "1 if the answer behind the last #### is the task's answer: the same number as text, or a right expression"
    text_of = _policy_text if name == "exact" else _answer_text
    exact = _last_only("exact_match", doc, lambda text, task: _is_exact(marked_answer(text)[1], task), text_of=text_of)
    if name in ("em", "exact"):
        return RewardSpec(name, (exact,), (0.0, 1.0))
    doc = f"{FORMAT_SCORE} for a wrong answer in a sound format: one ####, in the last line"
    sound = _last_only("format", doc, _score_format, FORMAT_SCORE, applies=_wrong)
    return RewardSpec(name, (exact, sound), (0.0, 1.0))


def _last_only(
    name: str,
    doc: str,
    value: Callable[[str, Task], float],
    high: float = 1.0,
    text_of: Callable[[Trajectory], str] = _policy_text,
    applies: Callable[[Trajectory], bool] = ended,
) -> Term:
    """Return a term paid where it applies, by default when the episode has ended: `value` of `text_of`."""

    def paid(trajectory: Trajectory) -> float:
        """Return the term's value on the text of an episode that it applies to; else 0."""
        return float(value(text_of(trajectory), task_of(trajectory))) if applies(trajectory) else 0.0

    return Term(name, 0.0, high, doc, paid, applies)


def _is_exact(answer: str, task: Task) -> bool:
    """Return whether an answer is the gold's text, commas and trailing zeros aside, or (Countdown) reaches the target."""
    data: CalcData = task.data
    if data.kind == "countdown":
        return bool(answer) and not check(answer, data.given, data.target)
    text = without_thousands(answer).rstrip(". ").strip()
    gold = task.gold[0]
    return bool(text) and text in (gold, gold.rstrip("0").rstrip(".") if "." in gold else gold)


def _has_value(text: str, task: Task) -> bool:
    """Return whether the marked answer has the gold's value; for Countdown, reaches the target, "= TARGET" allowed behind."""
    data: CalcData = task.data
    answer = marked_answer(text)[1]
    if data.kind == "countdown":
        return bool(answer) and not check(answer, data.given, data.target, tail=True)
    value = parse_number(answer)
    return value is not None and value == parse_number(task.gold[0])


def _is_right_as_released(text: str, task: Task) -> bool:
    """Return whether a text's last number is the gold, as floats; for Countdown, whether its first marked line is right."""
    data: CalcData = task.data
    if data.kind == "countdown":
        line = _RELEASED_LINE.search(text)
        return line is not None and not check(line[1], data.given, data.target, RELEASED_TOLERANCE)
    numbers = _RELEASED_NUMBER.findall(text)
    try:
        return bool(numbers) and float(numbers[-1].replace(",", "")) == float(task.gold[0])
    except ValueError:
        return False


def _score_format(text: str, task: Task) -> float:
    """Return FORMAT_SCORE for the right form: one mark, in the last line, and an answer behind it; else 0."""
    sound = text.count(MARK) == 1 and MARK in text.rstrip().rpartition("\n")[2] and marked_answer(text)[0] >= 0
    return FORMAT_SCORE if sound else 0.0
