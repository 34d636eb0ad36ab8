"""Annotated calculations are trees: read from text, evaluated exactly, written down again with other numbers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

Tree = int | tuple[str, "Tree", "Tree"]
"""A place in a list of operands, or (operator, left, right)."""

_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?|\.\d+)|([-+*/()]))")
_RANK = {"+": 1, "-": 1, "*": 2, "/": 2}
_LONGEST = 200


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
        """Read operands joined by operators of this rank."""
        tree = self.sum_of(2) if rank == 1 else self.atom()
        while _RANK.get(self.tokens[self.place]) == rank:
            operator = self.tokens[self.place]
            self.place += 1
            tree = (operator, tree, self.sum_of(2) if rank == 1 else self.atom())
        return tree

    def atom(self) -> Tree:
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
    """Return the tree of an expression of numbers, `+ - * /` and brackets, and its operands in order.

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
    """Return a tree's value, and append the value of each calculation in it to `results`, its own last.

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
    """Return a tree as text, with the brackets that it needs and no others."""
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
    """Return the values that the tree divides by."""
    if isinstance(tree, int):
        return []
    divided_by = divisors(tree[1], operands) + divisors(tree[2], operands)
    return [*divided_by, values(tree[2], operands, [])] if tree[0] == "/" else divided_by
