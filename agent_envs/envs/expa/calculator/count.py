"""Count asks how often one thing occurs in a sequence.

No calculation is needed; the tasks show what a model still knows.
`digits` is the released task: the digits of a number of 1 to 20 digits, which nine questions out of ten write in words.
`symbols` is the task as the paper describes it, a sequence of up to 20 symbols, by our own design: an item uses 2 to 6 of
six shapes, each place is one of them, all alike, and nine sequences out of ten are written with the names of the shapes.
"""

from typing import Literal

from agent_envs.base.arguments import choice, portion, whole_number
from agent_envs.core.trajectory import Task
from agent_envs.datasets.number_words import number_words
from agent_envs.datasets.seeded import SeededSource, in_split, stream
from agent_envs.envs.expa.calculator.random_expressions import Draw
from agent_envs.envs.expa.generated import CalcData, Derivation, split_sizes

SEQUENCES = ("digits", "symbols")
SHAPES = {"star": "★", "circle": "●", "square": "■", "triangle": "▲", "diamond": "◆", "heart": "♥"}
MOST_LENGTH = 20
_NAMES = tuple(SHAPES)


class CountSource(SeededSource[Task]):
    """Tasks that count a digit in a number, or a shape in a sequence. No question is in two splits, however it is put."""

    def __init__(
        self, *, sequences: Literal["digits", "symbols"] = "digits", length: int = MOST_LENGTH, words: float = 0.9
    ) -> None:
        """Take digits or symbols, the most items of a sequence, and the share of questions in words."""
        name = "count"
        super().__init__(name, split_sizes(name))
        self._symbols = choice(name, "sequences", sequences, SEQUENCES) == "symbols"
        self._length = whole_number(name, "length", length, 1, MOST_LENGTH)
        self._words = portion(name, "words", words)

    def build(self, split: str, index: int) -> Task:
        """Draw the task of an index, alike each time, the question redrawn until it belongs to the split."""
        task_id = self.task_id(split, index)
        kind = "symbols" if self._symbols else "digits"
        draw = stream("count", kind, split, index).random
        in_words = draw() < self._words
        sampler = _symbols if self._symbols else _digits
        sequence, item = sampler(draw, self._length)
        while not in_split(split, f"{item} {' '.join(sequence)}"):
            sequence, item = sampler(draw, self._length)
        answer = str(sequence.count(item))
        number = "".join(sequence)
        numeral = number_words(int(number)) if in_words and not self._symbols else number
        question = f"How many times does the digit {item} occur in the number {numeral} when it is written in digits?"
        return Task(
            id=task_id,
            split=split,
            question=_shape_question(sequence, item, in_words) if self._symbols else question,
            gold=(answer,),
            cluster=task_id,
            data=CalcData(
                kind="count",
                given=() if self._symbols else (number, item),
                wording="words" if in_words else kind,
                size=len(sequence),
            ),
            hidden=Derivation((), answer),
        )


def _digits(draw: Draw, most: int) -> tuple[list[str], str]:
    """Return the digits of a number of 1 to `most` digits, the first not 0, and a digit to count, which need not occur."""
    length = 1 + int(draw() * most)
    # Two draws of ten digits each: one float does not hold twenty.
    rest = f"{int(draw() * 10**10):010d}{int(draw() * 10**10):010d}"[: length - 1]
    return [str(1 + int(draw() * 9)), *rest], str(int(draw() * 10))


def _symbols(draw: Draw, most: int) -> tuple[list[str], str]:
    """Return 1 to `most` names of shapes, and the name to count, one of those drawn from, which need not occur."""
    kinds = 2 + int(draw() * (len(_NAMES) - 1))
    names = sorted(_NAMES, key=lambda name: draw())[:kinds]
    length = 1 + int(draw() * most)
    return [names[int(draw() * kinds)] for _ in range(length)], names[int(draw() * kinds)]


def _shape_question(sequence: list[str], name: str, in_words: bool) -> str:
    """Return the question how often a name occurs in the sequence, which is spelled in words or drawn as symbols."""
    if in_words:
        return f"How many times does the word {name} occur in this sequence: {', '.join(sequence)}?"
    symbols = " ".join([SHAPES[symbol] for symbol in sequence])
    return f"How many times does the symbol {SHAPES[name]} occur in this sequence: {symbols}?"
