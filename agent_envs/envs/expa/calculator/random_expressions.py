"""Random expressions are drawn as the released generators of Arithmetic and Countdown describe them.

An operand has 1 to D digits, each number of digits alike, and is uniform among the numbers of that length; it is never 0.
A tree of N operators splits the rest at random between its two parts, operators are uniform, and a part that is no number
is bracketed with probability 0.3. The expression is what is printed, with the usual precedence: without brackets the tree
does not show. What is not below 1e9 in size, or needs more than 3 decimals, is drawn again as a whole.

Two deviations from the release: it admits negative values of any size, and it finds decimals by rounding floats, which turns
some sound values away (about 1 in 100).
"""

from collections.abc import Callable
from fractions import Fraction
from math import inf

from agent_envs.grading.arithmetic import ExpressionError, evaluate

Tokens = list[int | str]
Draw = Callable[[], float]

BRACKETED = 0.3
VALUE_LIMIT = 10**9
DECIMALS = 1000
MOST_DIGITS = 9  # an operand comes from one draw, whose 53 bits are plenty for that
MOST_OPERATIONS = 10
ADD, SUBTRACT, TIMES, DIVIDE = OPERATORS = (" + ", " - ", " * ", " / ")
_LEAST = tuple(10**digits for digits in range(MOST_DIGITS))
# Multiplicative hashing: all three remainders come up among 1 to 9, so that there always is an operand that fits.
_GOLDEN = 0x9E3779B1
_COUNT = tuple(9 * 10**digits for digits in range(MOST_DIGITS))


def draw_operands(draw: Draw, count: int, digits: int, bucket: int) -> list[int]:
    """Return `count` operands of 1 to `digits` digits whose marks add up to the bucket; the last is redrawn until they do."""
    operands: list[int] = []
    marks = mark = 0
    while len(operands) < count or marks % 3 != bucket:
        if len(operands) == count:
            operands.pop()
            marks -= mark
        place = draw() * digits
        length = int(place)
        operand = _LEAST[length] + int((place - length) * _COUNT[length])
        mark = operand * _GOLDEN >> 16
        marks += mark
        operands.append(operand)
    return operands


def draw_expression(draw: Draw, operands: list[int]) -> tuple[Tokens, str, Tokens]:
    """Return the two parts of a random tree over the operands and the operator between; `operands` is emptied."""
    operations = len(operands) - 1
    left = int(draw() * operations)
    first: Tokens = []
    second: Tokens = []
    _append_part(draw, left, operands, first)
    operator = OPERATORS[int(draw() * 4)]
    _append_part(draw, operations - 1 - left, operands, second)
    return first, operator, second


def _append_part(draw: Draw, operations: int, operands: list[int], out: Tokens) -> None:
    """Append a random expression of so many operations to `out` (with 0, one operand), brackets drawn; it uses up operands."""
    if not operations:
        out.append(operands.pop())
        return
    bracketed = draw() < BRACKETED
    if bracketed:
        out.append("(")
    left = int(draw() * operations)
    _append_part(draw, left, operands, out)
    out.append(OPERATORS[int(draw() * 4)])
    _append_part(draw, operations - 1 - left, operands, out)
    if bracketed:
        out.append(")")


def as_unit(part: Tokens) -> Tokens:
    """Return a part so that it is computed first wherever it stands: a number, or something in brackets."""
    if len(part) == 1 or _is_bracketed(part):
        return part
    return ["(", *part, ")"]


def _is_bracketed(part: Tokens) -> bool:
    """Return whether the bracket that a part begins with closes at its end; False if it begins with none."""
    depth = 0
    for token in part[:-1]:
        depth += (token == "(") - (token == ")")
        if not depth:
            return False
    return True


def spelled(tokens: Tokens) -> str:
    """Return the expression as it is printed, with spaces around operators."""
    return "".join(map(str, tokens))


def admitted_value(tokens: Tokens) -> Fraction | None:
    """Return an expression's exact value if it is below 1e9 in size with at most 3 decimals; None for others, or if it fails.

    Floats sort out nearly all others first, which is several times as fast. What they get wrong (huge intermediate values
    that nearly cancel) is drawn again like any other: no admitted value is inexact.
    """
    rough = _rough_value(tokens) * DECIMALS
    if not abs(rough) < 1.001 * VALUE_LIMIT * DECIMALS or abs(rough - round(rough)) > 0.01:
        return None
    try:
        value = evaluate(spelled(tokens))
    except ExpressionError:
        return None
    return value if abs(value) < VALUE_LIMIT and not DECIMALS % value.denominator else None


def _rough_value(tokens: Tokens) -> float:
    """Return the value within the accuracy of floats; infinity where anything is divided by zero."""
    outer: list[tuple[float, float, bool]] = []
    total, term, divides = 0.0, 1.0, False
    for token in tokens:
        operand: float
        if type(token) is int:
            operand = token
        elif token == ")":
            operand = total + term
            total, term, divides = outer.pop()
        else:
            if token == DIVIDE:
                divides = True
            elif token == "(":
                outer.append((total, term, divides))
                total, term, divides = 0.0, 1.0, False
            elif token != TIMES:
                total += term
                term = 1.0 if token == ADD else -1.0
            continue
        if not divides:
            term *= operand
        elif operand:
            term /= operand
            divides = False
        else:
            return inf
    return total + term
