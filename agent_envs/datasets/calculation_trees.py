"""Annotated calculations are trees: read from text, evaluated exactly, written down again with other numbers.

`rescale` gives a traced word problem new, larger numbers, under which the text still makes sense. What holds of the original
numbers goes on to hold: their order, the sign of every intermediate value, every value that is whole, and 1 stays 1. So a part
stays smaller than its whole and nothing is cut up that was not.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from agent_envs.datasets.word_problems import RESULT_LIMIT, WordProblem

Tree = int | tuple[str, "Tree", "Tree"]
"""A place in a list of operands, or (operator, left, right)."""

_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?|\.\d+)|([-+*/()]))")
_RANK = {"+": 1, "-": 1, "*": 2, "/": 2}
_LONGEST = 200


_GROWTHS = 12
_VARIATIONS = 4


@dataclass(frozen=True, slots=True)
class Chain:
    """A word problem whose calculation is known down to the numbers of its text.

    Attributes:
        id: data set, split and row: `gsm8k-train-17`.
        numbers: its numbers in order of appearance, all different.
        places: where each of them stands in the text, as (start, end).
        trees: the calculations in order; operand i is the number i, operand `len(numbers) + j` the result of tree j.
        answer: the last result.
    """

    id: str
    question: str
    numbers: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    trees: tuple[Tree, ...]
    answer: int


class _Parser:
    """Recursive descent over the tokens of one expression; operands go into a list in order."""

    def __init__(self, text: str) -> None:
        """Cut an expression into tokens; ValueError where it is too long or no arithmetic."""
        self.operands: list[Fraction] = []
        self.tokens: list[str] = []
        place = 0
        text = text.strip()
        if len(text) > _LONGEST:
            raise ValueError("too long")
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise ValueError(f"no arithmetic: {text!r}")
            self.tokens.append(match[1] or match[2])
            place = match.end()
        self.tokens.append("")
        self.place = 0

    def sum_of(self, rank: int = 1) -> Tree:
        """Read operands joined by operators of this rank or above (1: + and -, 2: * and /), grouped from the left."""
        tree = self.sum_of(2) if rank == 1 else self.atom()
        while _RANK.get(self.tokens[self.place]) == rank:
            operator = self.tokens[self.place]
            self.place += 1
            tree = (operator, tree, self.sum_of(2) if rank == 1 else self.atom())
        return tree

    def atom(self) -> Tree:
        """Parse a bracketed sum or an operand; an operand's tree is its place in the list. ValueError for anything else."""
        token = self.tokens[self.place]
        self.place += 1
        if token == "(":
            tree = self.sum_of()
            if self.tokens[self.place] != ")":
                raise ValueError("a bracket is not closed")
            self.place += 1
            return tree
        if not token or token in _RANK or token == ")":
            raise ValueError("an operand is missing")
        self.operands.append(Fraction(token))
        return len(self.operands) - 1


def parse(text: str) -> tuple[Tree, list[Fraction]]:
    """Return an expression's tree and its operands in order; ValueError for any other text, a sign before a number included.

    Raises:
        ValueError: the text is something else (a sign before a number, too).
    """
    parser = _Parser(text)
    tree = parser.sum_of()
    if parser.tokens[parser.place]:
        raise ValueError(f"no arithmetic: {text!r}")
    return tree, parser.operands


def substitute(tree: Tree, places: Sequence[int]) -> Tree:
    """Return the tree with operand i replaced by operand `places[i]`."""
    if isinstance(tree, int):
        return places[tree]
    return tree[0], substitute(tree[1], places), substitute(tree[2], places)


def values(tree: Tree, operands: Sequence[Fraction], results: list[Fraction]) -> Fraction:
    """Return a tree's value; append each calculation's value to `results`, its own last. ZeroDivisionError for x/0.

    Raises:
        ZeroDivisionError: a division by zero.
    """
    if isinstance(tree, int):
        return operands[tree]
    left, right = values(tree[1], operands, results), values(tree[2], operands, results)
    if tree[0] == "+":
        result = left + right
    elif tree[0] == "-":
        result = left - right
    elif tree[0] == "*":
        result = left * right
    else:
        result = left / right
    results.append(result)
    return result


def render(tree: Tree, operands: Sequence[str], outer: int = 0) -> str:
    """Return a tree as text, with only the brackets that it needs: around all of it where its rank is below `outer`."""
    if isinstance(tree, int):
        return operands[tree]
    rank = _RANK[tree[0]]
    # The right side of - and / keeps its brackets at equal rank; so does that of + and *, to keep the same tree.
    text = f"{render(tree[1], operands, rank)}{tree[0]}{render(tree[2], operands, rank + 1)}"
    return f"({text})" if rank < outer else text


def leaves(tree: Tree) -> list[int]:
    """Return the operands' places from left to right."""
    return [tree] if isinstance(tree, int) else leaves(tree[1]) + leaves(tree[2])


def divisors(tree: Tree, operands: Sequence[Fraction]) -> list[Fraction]:
    """Return the values that the tree divides by, operands' divisors first; [] of a leaf; ZeroDivisionError at x/0."""
    if isinstance(tree, int):
        return []
    divided_by = divisors(tree[1], operands) + divisors(tree[2], operands)
    return [*divided_by, values(tree[2], operands, [])] if tree[0] == "/" else divided_by


def rescale(chain: Chain, rng: random.Random, digits: int = 6) -> WordProblem:
    """Return the problem with other numbers, each of at most `digits` digits or as long as the original's longest.

    Starts from the original numbers and takes only steps that keep what must hold, a fixed number of them, so that it
    always ends with a valid problem; how large its numbers are differs from problem to problem.
    """
    scaling = _Scaling(chain, rng, digits)
    for _ in range(_GROWTHS):
        scaling.grow()
    scaling.vary()
    return _problem(chain, scaling.numbers)


def _problem(chain: Chain, numbers: list[int]) -> WordProblem:
    """Write a chain's question, steps and answer with other numbers; thousands are grouped where they were."""
    pieces, end = [], 0
    for (start, stop), number in zip(chain.places, numbers, strict=True):
        grouped = "," in chain.question[start:stop]
        pieces += [chain.question[end:start], f"{number:,}" if grouped else str(number)]
        end = stop
    question = "".join(pieces) + chain.question[end:]
    operands = [Fraction(number) for number in numbers]
    steps = []
    for tree in chain.trees:
        steps.append(render(tree, [str(operand) for operand in operands]))
        operands.append(values(tree, operands, []))
    numerals = tuple(str(number) for number in numbers)
    return WordProblem(question, numerals, tuple(steps), str(operands[-1]), chain.id.partition("-")[0])


def _signs(chain: Chain, numbers: list[int]) -> list[tuple[int, bool]] | None:
    """Return (sign, whole) of each calculation's value; None where one is too large or divides by zero."""
    operands = [Fraction(number) for number in numbers]
    results: list[Fraction] = []
    try:
        for tree in chain.trees:
            operands.append(values(tree, operands, results))
    except ZeroDivisionError:
        return None
    if any(abs(value) >= RESULT_LIMIT for value in results):
        return None
    return [((value > 0) - (value < 0), value.denominator == 1) for value in results]


class _Scaling:
    """The search for larger numbers with the same order and the same signs of all results."""

    def __init__(self, chain: Chain, rng: random.Random, digits: int) -> None:
        """Begin with the chain's own numbers, whose order and signs must hold; `top` is the largest with so many digits."""
        self.chain = chain
        self.rng = rng
        self.numbers = list(chain.numbers)
        self.signs = _signs(chain, self.numbers)
        self.order = sorted(range(len(self.numbers)), key=self.numbers.__getitem__)
        self.top = max(10**digits - 1, *self.numbers)

    def grow(self) -> None:
        """Multiply some numbers above 1, drawn at random, by one factor, if order and signs stay; else change nothing."""
        movable = [place for place in self.order if self.numbers[place] > 1]
        if not movable:
            return
        places = self.rng.sample(movable, self.rng.randint(1, len(movable)))
        most = self.top // max(self.numbers[place] for place in places)
        if most >= 2:
            factor = self._draw(2, most)
            self._accept([n * factor if place in places else n for place, n in enumerate(self.numbers)])

    def vary(self) -> None:
        """Replace each number, the largest first, by a drawn one between its neighbours; one that finds none stays."""
        for rank in reversed(range(len(self.order))):
            place = self.order[rank]
            number = self.numbers[place]
            low = self.numbers[self.order[rank - 1]] + 1 if rank else 2
            high = self.numbers[self.order[rank + 1]] - 1 if rank + 1 < len(self.order) else self.top
            if number < 2 or high < max(low, 2):
                continue
            stride = self._stride()
            for _ in range(_VARIATIONS):
                changed = number + stride * ((self._draw(max(low, 2), high) - number) // stride)
                if low <= changed <= high and self._accept(
                    [*self.numbers[:place], changed, *self.numbers[place + 1 :]]
                ):
                    break

    def _draw(self, low: int, high: int) -> int:
        """Return a number of the range, its count of digits uniform."""
        size = self.rng.randint(len(str(low)), len(str(high)))
        return self.rng.randint(max(low, 10 ** (size - 1)), min(high, 10**size - 1))

    def _stride(self) -> int:
        """Return the least common multiple of all divisors, by which numbers can be moved; 1 where that exceeds the top."""
        operands = [Fraction(number) for number in self.numbers]
        divided_by: list[Fraction] = []
        for tree in self.chain.trees:
            divided_by += divisors(tree, operands)
            operands.append(values(tree, operands, []))
        stride = lcm(*(abs(value.numerator) for value in divided_by))
        return stride if stride <= self.top else 1

    def _accept(self, numbers: list[int]) -> bool:
        """Take over new numbers if their order and all signs of the calculation stay the same; return whether they did."""
        ordered = all(numbers[a] < numbers[b] for a, b in zip(self.order, self.order[1:], strict=False))
        if not ordered or _signs(self.chain, numbers) != self.signs:
            return False
        self.numbers = numbers
        return True
