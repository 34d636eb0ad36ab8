"""Countdown asks for an expression that reaches a target with all the given numbers, each exactly once, and checks answers.

A task is made backwards: a random expression gives the target, and its numbers are shown in another order. So every task has
a solution. As in Calc-Bench a target may be negative or have decimals; the stand-alone release keeps integers only.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from agent_envs.base.arguments import choice, whole_number
from agent_envs.core.trajectory import Task
from agent_envs.datasets.seeded import SPLITS, SeededSource, stream
from agent_envs.envs.expa.calculator import random_expressions
from agent_envs.envs.expa.generated import CalcData, Derivation, split_sizes
from agent_envs.grading.arithmetic import ExpressionError, evaluate, literals, number_text

TARGETS = ("any", "integers", "natural")
_MOST_NUMBERS = 8
_SHOWN_DIGITS = 24


class CountdownSource(SeededSource[Task]):
    """Four numbers of up to four digits and three operations. No two splits share a set of numbers, whatever the target."""

    def __init__(
        self, *, numbers: int = 4, digits: int = 4, targets: Literal["any", "integers", "natural"] = "any"
    ) -> None:
        """Take how many numbers a task gives, their most digits, and which targets are drawn."""
        name = "countdown"
        super().__init__(name, split_sizes(name))
        self._numbers = whole_number(name, "numbers", numbers, 2, _MOST_NUMBERS)
        self._digits = whole_number(name, "digits", digits, 1, random_expressions.MOST_DIGITS)
        self._targets = choice(name, "targets", targets, TARGETS)

    def build(self, split: str, index: int) -> Task:
        """Draw the task of an index, alike each time: its numbers shuffled, its target the value of a drawn expression."""
        task_id = self.task_id(split, index)
        draw = stream("countdown", split, index).random
        expression, value = self._draw(draw, SPLITS.index(split))
        numbers = [token for token in expression if type(token) is int]
        numerals = tuple(map(str, sorted(numbers, key=lambda number: draw())))
        target = number_text(value)
        answer = random_expressions.spelled(expression)
        listing = f"{', '.join(numerals[:-1])} and {numerals[-1]}"
        return Task(
            id=task_id,
            split=split,
            question=f"Which expression has the value {target} and is made of the numbers {listing}, each of them used exactly "
            "once, with +, -, * and / and as many brackets as needed?",
            gold=(answer,),
            cluster=task_id,
            data=CalcData("countdown", numerals, target, _kind_of_target(value), self._numbers - 1),
            hidden=Derivation((answer.replace(" ", ""),), answer),
        )

    def _draw(self, draw: random_expressions.Draw, bucket: int) -> tuple[random_expressions.Tokens, Fraction]:
        """Return an expression and its value, redrawn until that is a target of the wanted kind."""
        while True:
            first, operator, second = random_expressions.draw_expression(
                draw, random_expressions.draw_operands(draw, self._numbers, self._digits, bucket)
            )
            expression = [*first, operator, *second]
            value = random_expressions.admitted_value(expression)
            if value is None or (self._targets != "any" and value.denominator != 1):
                continue
            if self._targets != "natural" or value >= 1:
                return expression, value


def _kind_of_target(value: Fraction) -> str:
    """Return a target's kind for reports: "decimal target", "natural target" (1 or more) or "other integer target"."""
    if value.denominator != 1:
        return "decimal target"
    return "natural target" if value >= 1 else "other integer target"


def check(
    answer: str, task_numbers: Sequence[str], target: str, tolerance: Fraction = Fraction(0), *, tail: bool = False
) -> str:
    """Return "" if an answer reaches the target with each number used once (`tail`: "= TARGET" may follow), else the reason.

    Computed exactly: numbers are compared as values ("007" is 7), a sign before a number or bracket is allowed, as in the
    released checker, and `evaluate` says what an expression is. Any text is safe to check, in bounded time.

    Args:
        answer: the expression, from anyone.
        task_numbers: the numbers of the task.
        target: the value to reach, as text.
        tolerance: how far off the value may be.
        tail: allow "= TARGET" behind the expression.
    """
    expression, sign, claimed = answer.partition("=")
    try:
        if sign and not tail:
            return "the answer is to be the expression alone, without ="
        if sign and evaluate(claimed) != Fraction(target):
            return f"what stands behind = is not {target}"
        used = Counter(literals(expression))
        value = evaluate(expression)
    except ExpressionError as error:
        return str(error)
    wrong = _wrong_numbers(used, Counter(map(Fraction, task_numbers)))
    if wrong:
        return wrong
    if abs(value - Fraction(target)) > tolerance:
        return f"the value is {_short_text(value)}, not {target}"
    return ""


def _wrong_numbers(used: Counter[Fraction], task_numbers: Counter[Fraction]) -> str:
    """Return the first reason why used numbers are not the given ones, each as often as given; "" where they are."""
    for number, times in used.items():
        if number not in task_numbers:
            return f"{_short_text(number)} is not one of the given numbers"
        if times > task_numbers[number]:
            return f"{_short_text(number)} is used {times} times and given {task_numbers[number]} times"
    for number, times in task_numbers.items():
        if used[number] < times:
            return f"{_short_text(number)} is used {used[number]} times and given {times} times"
    return ""


def _short_text(value: Fraction) -> str:
    """Return a number's text; a long one is cut and ends in its number of characters."""
    text = number_text(value)
    return text if len(text) <= _SHOWN_DIGITS else f"{text[:_SHOWN_DIGITS]}... ({len(text)} characters)"
