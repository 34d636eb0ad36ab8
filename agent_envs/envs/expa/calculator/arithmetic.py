"""Arithmetic asks for the value of a random expression, in symbols or partly in words (arXiv 2510.07581, Table 3, appendix E).

Half of the worded questions write all numbers in words, the other half all operators: the outermost one as a phrase about
two parts ("the product of the value of (3 plus 4) and the value of 5"), those inside as plus, minus, times, divided by.

The phrase says that both parts are computed first, and brackets say where a part ends. The released data have no such
brackets and take their labels from the line of symbols, where 3 + 4 * 5 is 23: about 40 % of these questions, 14 % of the
test split, then have a label that contradicts what their words suggest. `labels="released"` brings that back: no brackets
around the parts, and the label of the line. No other question is touched.
"""

import re
from fractions import Fraction
from typing import Literal

from agent_envs.base.arguments import choice, portion, whole_number
from agent_envs.core.trajectory import Task
from agent_envs.datasets.number_words import number_words
from agent_envs.datasets.seeded import SPLITS, SeededSource, stream
from agent_envs.envs.expa.calculator.random_expressions import (
    MOST_DIGITS,
    MOST_OPERATIONS,
    OPERATORS,
    Draw,
    Tokens,
    admitted_value,
    as_unit,
    draw_expression,
    draw_operands,
    spelled,
)
from agent_envs.envs.expa.generated import CalcData, Derivation, split_sizes
from agent_envs.grading.arithmetic import number_text

LABELS = ("tree", "released")
SYMBOLS, NUMBER_WORDS, OPERATOR_WORDS = "symbols", "number words", "operator words"
_INNER = dict(zip(OPERATORS, (" plus ", " minus ", " times ", " divided by "), strict=True))
_OUTER = dict(
    zip(
        OPERATORS,
        (
            "the sum of the value of {} and the value of {}",
            "the value of {}, reduced by the value of {}",
            "the product of the value of {} and the value of {}",
            "the value of {}, divided by the value of {}",
        ),
        strict=True,
    )
)
_NUMBER = re.compile(r"\d+")


class ArithmeticSource(SeededSource[Task]):
    """Expressions of exactly so many operations: 4 for training and 6 for dev and test, as Table 3's operands say.

    The operands as a whole, in any order, belong to one split.
    """

    def __init__(
        self,
        *,
        digits: int = 5,
        train_operations: int = 4,
        test_operations: int = 6,
        train_words: float = 0.1,
        test_words: float = 0.7,
        labels: Literal["tree", "released"] = "tree",
    ) -> None:
        """Check the knobs, which the pages of the environments tell; dev is like test."""
        name = "arithmetic"
        super().__init__(name, split_sizes(name))
        self._digits = whole_number(name, "digits", digits, 1, MOST_DIGITS)
        train = whole_number(name, "train_operations", train_operations, 1, MOST_OPERATIONS)
        test = whole_number(name, "test_operations", test_operations, 1, MOST_OPERATIONS)
        self._operations = {"train": train, "dev": test, "test": test}
        train_portion = portion(name, "train_words", train_words)
        test_portion = portion(name, "test_words", test_words)
        self._words = {"train": train_portion, "dev": test_portion, "test": test_portion}
        self._released = choice(name, "labels", labels, LABELS) == "released"

    def build(self, split: str, index: int) -> Task:
        """Draw the task of an index, alike each time: an expression in symbols, number words or operator words."""
        task_id = self.task_id(split, index)
        draw = stream("arithmetic", split, index).random
        wording = SYMBOLS
        if draw() < self._words[split]:
            wording = NUMBER_WORDS if draw() < 0.5 else OPERATOR_WORDS
        by_tree = wording == OPERATOR_WORDS and not self._released
        operations = self._operations[split]
        first, operator, second, keyed, value = self._draw(draw, operations, SPLITS.index(split), by_tree)
        if wording == OPERATOR_WORDS:
            parts = (first, second) if self._released else (as_unit(first), as_unit(second))
            expression = _OUTER[operator].format(*map(_in_words, parts))
        else:
            expression = spelled([*first, operator, *second])
            if wording == NUMBER_WORDS:
                expression = _NUMBER.sub(lambda match: number_words(int(match[0])), expression)
        answer = number_text(value)
        operands = tuple(str(token) for token in keyed if type(token) is int)
        return Task(
            id=task_id,
            split=split,
            question=f"What is {expression}?",
            gold=(answer,),
            cluster=task_id,
            data=CalcData("arithmetic", operands, "", wording, operations),
            hidden=Derivation((spelled(keyed).replace(" ", ""),), answer),
        )

    def _draw(
        self, draw: Draw, operations: int, bucket: int, by_tree: bool
    ) -> tuple[Tokens, str, Tokens, Tokens, Fraction]:
        """Return the two parts, the operator between them, the keyed expression (`by_tree`: parts bracketed) and its value."""
        while True:
            operands = draw_operands(draw, operations + 1, self._digits, bucket)
            first, operator, second = draw_expression(draw, operands)
            keyed = [*as_unit(first), operator, *as_unit(second)] if by_tree else [*first, operator, *second]
            value = admitted_value(keyed)
            if value is not None:
                return first, operator, second, keyed, value


def _in_words(part: Tokens) -> str:
    """Return the inside of a bracket with its operators in words and the numbers as they are."""
    return "".join([_INNER.get(token, token) if type(token) is str else str(token) for token in part])
