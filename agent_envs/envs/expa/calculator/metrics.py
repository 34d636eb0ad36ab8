"""The metrics of a calculator episode are the counts of the paper's Table 4 and Figure 5 (arXiv 2510.07581).

They are the same for every method, in text and with expanded actions: each episode counts, solved or not (the released
analysis looks at one method's right and at another's wrong episodes), and calls are read from typed results, never from text.
"""

import re
from fractions import Fraction
from functools import cache
from importlib.resources import files

from agent_envs.base.messages import ToolResult
from agent_envs.core.trajectory import Trajectory, Turn
from agent_envs.envs.expa.generated import CalcData
from agent_envs.grading.arithmetic import ExpressionError, evaluate, literals


def calculator_metrics(trajectory: Trajectory) -> dict[str, float]:
    """Return an episode's counts of calls, unknown operands (two readings) and planning phrases; needs a task of `CalcData`.

    - interactions: finished calls of the calculator, errors included.
    - hallucinated operands: numbers given to the calculator that the question does not hold and no earlier call gave, each
      time they are given. Numbers compare as values and without their sign. The target is in the question; a result counts
      as given both exactly and as it was shown, with 3 decimals; no small constant is exempt. A text that is not made of
      numbers, operators and brackets gives the calculator no number.
    - hallucinated operands, strict: the paper's count: as above, but results of calls count as hallucinated too.
    - planning phrases (list N): occurrences of the phrases of version N of planning_phrases.txt in what the policy wrote.
    """
    assert trajectory.task is not None
    turns = trajectory.turns
    calls = [result for turn in turns for result in turn.results if result.name == "calculator"]
    unknown, not_given = _count_hallucinations(calls, trajectory.task.data)
    return {
        "interactions": float(len(calls)),
        "hallucinated operands": float(unknown),
        "hallucinated operands, strict": float(not_given),
        f"planning phrases (list {planning_version()})": float(count_planning_phrases(_policy_text(turns))),
    }


def count_planning_phrases(text: str) -> int:
    """Count the phrases of the list in a text: whole words, any case; of two that overlap, the first."""
    return len(_pattern().findall(text.lower().replace("’", "'")))


@cache
def planning_phrases() -> tuple[str, ...]:
    """Return the list of phrases in its order, without comments and blank lines, cached."""
    return tuple(line for line in _lines() if line and not line.startswith("#"))


def planning_version() -> int:
    """Return the version of the list of phrases."""
    return int(_lines()[0].rpartition(" ")[2])


def _count_hallucinations(calls: list[ToolResult], data: CalcData) -> tuple[int, int]:
    """Count, over all calls, the operands neither given nor computed before, and those that are not given."""
    task_numbers = {number for text in (*data.given, data.target) for number in _numbers(text)}
    numbers_so_far = set(task_numbers)
    unknown = not_given = 0
    for result in calls:
        for expression in result.ids:
            operands = _numbers(expression)
            unknown += sum(operand not in numbers_so_far for operand in operands)
            not_given += sum(operand not in task_numbers for operand in operands)
            if not result.error:
                numbers_so_far |= _value(expression)
    return unknown, not_given


def _value(expression: str) -> set[Fraction]:
    """Return an expression's absolute value, exact and rounded to 3 decimals (half to even); set() where it has none."""
    try:
        value = abs(evaluate(expression))
    except ExpressionError:
        return set()
    return {value, round(value, 3)}


def _numbers(text: str) -> tuple[Fraction, ...]:
    """Return the numbers in an expression, in order; () where it cannot be read."""
    try:
        return literals(text)
    except ExpressionError:
        return ()


def _policy_text(turns: tuple[Turn, ...]) -> str:
    """Return the policy's text, white space as single spaces, a line break for each observation, result or other action."""
    runs: list[list[str]] = [[]]
    for turn in turns:
        if isinstance(turn.action, str):
            runs[-1].append(turn.action)
        if not isinstance(turn.action, str) or turn.observation or turn.results:
            runs.append([])
    return "\n".join(" ".join("".join(run).split()) for run in runs)


@cache
def _lines() -> tuple[str, ...]:
    """Return the lines of the file of planning phrases, the first of which ends in its version; cached."""
    text = files(__package__).joinpath("planning_phrases.txt").read_text(encoding="utf-8")
    return tuple(text.splitlines())


@cache
def _pattern() -> re.Pattern[str]:
    """Return the pattern that matches each planning phrase as whole words, cached."""
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, planning_phrases()))})(?!\w)")
