"""Several domains share these tools: the calculator, and handing the customer over to a human.

The calculator reads what Python reads as arithmetic of plain numbers and gives what Python gives (`/` makes floats, whole
numbers are exact, `**` binds tighter than a sign on its left), but never evaluates code and never grows without bound.
"""

import operator
import re
from collections.abc import Callable
from typing import Any

from agent_envs.envs.tau2.toolkit import Kit, ToolFailure, World

_ALLOWED = "0123456789+-*/(). "
_TOKEN = re.compile(r" *(\d+\.\d*|\.\d+|\d+|\*\*|//|[-+*/()]|$)")
_LONGEST, _DEEPEST, _MOST_BITS = 10_000, 90, 20_000
_POWER = 3  # how tightly `**` binds; a sign on its left binds less, and nothing else more
_OPERATORS: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "+": (1, operator.add), "-": (1, operator.sub), "*": (2, operator.mul), "/": (2, operator.truediv),
    "//": (2, operator.floordiv),
}  # fmt: skip
_ZERO_DIVISORS = {
    ("/", False): "division by zero",
    ("/", True): "float division by zero",
    ("//", False): "integer division or modulo by zero",
    ("//", True): "float floor division by zero",
}


def add_shared_tools(kit: Kit) -> None:
    """Give a kit both of them."""
    for function in (calculate, transfer_to_human_agents):
        kit.tool("generic")(function)


def transfer_to_human_agents(world: World, summary: str) -> str:
    """Hand the customer over to a human agent, with a summary of the issue.

    Use it only when the customer asks for a human, or when the policy and the tools at hand cannot settle the issue.

    Args:
        summary: A summary of the customer's issue.
    """
    return "Transfer successful"


def calculate(world: World, expression: str) -> str:
    """Calculate the value of an arithmetic expression.

    Args:
        expression: The expression, e.g. "2 + 2": digits, + - * / ( ) . and spaces.
    """
    if not all(character in _ALLOWED for character in expression):
        raise ToolFailure("Invalid characters in expression")
    tokens = _tokens(expression)
    value = _value(tokens)
    if tokens[-1]:
        raise ValueError("invalid syntax")
    return str(round(float(value), 2))


def _tokens(expression: str) -> list[str]:
    """Return the tokens of an expression, the first one last, behind an empty one that ends it."""
    if len(expression) > _LONGEST:
        raise ValueError("the expression is too long")
    tokens, position = [""], 0
    while position < len(expression):
        found = _TOKEN.match(expression, position)
        if found is None:
            raise ValueError("invalid syntax")
        tokens.append(found.group(1))
        position = found.end()
    # An expression that ends in spaces has an empty token of its own.
    return [""] + [token for token in reversed(tokens) if token]


def _value(tokens: list[str], least: int = 1, depth: int = 0) -> Any:
    """Take off and compute what binds at least so tightly; errors are ValueErrors and Python's arithmetic ones."""
    if depth > _DEEPEST:
        raise ValueError("too many nested parentheses")
    negative = False
    while tokens[-1] in ("+", "-"):
        negative ^= tokens.pop() == "-"
    value = _operand(tokens, depth)
    if tokens[-1] == "**":
        tokens.pop()
        value = _power(value, _value(tokens, _POWER, depth + 1))
    value = -value if negative else value
    while tokens[-1] in _OPERATORS and _OPERATORS[tokens[-1]][0] >= least:
        sign = tokens.pop()
        binds, function = _OPERATORS[sign]
        right = _value(tokens, binds + 1, depth)
        if sign in ("/", "//") and right == 0:
            raise ToolFailure(_ZERO_DIVISORS[sign, isinstance(value, float) or isinstance(right, float)])
        value = function(value, right)
    return value


def _operand(tokens: list[str], depth: int) -> Any:
    """Take off a number, or something in brackets."""
    token = tokens[-1] and tokens.pop()
    if token == "(":
        value = _value(tokens, depth=depth + 1)
        if (tokens[-1] and tokens.pop()) != ")":
            raise ValueError("'(' was never closed")
        return value
    if not token or not (token[0].isdigit() or token[0] == "."):
        raise ValueError("invalid syntax")
    if "." in token:
        return float(token)
    if token[0] == "0" and token.strip("0"):
        raise ValueError("leading zeros in decimal integer literals are not permitted")
    return int(token)


def _power(base: Any, exponent: Any) -> Any:
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and abs(base) > 1 and base.bit_length() * exponent > _MOST_BITS:
        raise OverflowError("the number is too large")
    return base**exponent
