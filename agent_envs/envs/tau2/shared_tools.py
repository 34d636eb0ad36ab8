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
_LEVELS: tuple[dict[str, Callable[[Any, Any], Any]], ...] = (
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": operator.truediv, "//": operator.floordiv},
)
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
    return str(round(float(_Arithmetic(expression).value()), 2))


class _Arithmetic:
    """A descent over the tokens of one expression; errors are ValueErrors and Python's arithmetic ones."""

    def __init__(self, expression: str) -> None:
        if len(expression) > _LONGEST:
            raise ValueError("the expression is too long")
        self.tokens: list[str] = []
        position = 0
        while position < len(expression):
            found = _TOKEN.match(expression, position)
            if found is None:
                raise ValueError("invalid syntax")
            self.tokens.append(found.group(1))
            position = found.end()
        self.tokens.append("")
        self.position = self.depth = 0

    def value(self) -> Any:
        value = self._level(0)
        if self.tokens[self.position]:
            raise ValueError("invalid syntax")
        return value

    def _next(self) -> str:
        self.position += 1
        return self.tokens[self.position - 1]

    def _level(self, level: int) -> Any:
        if level == len(_LEVELS):
            return self._signed()
        value = self._level(level + 1)
        while self.tokens[self.position] in _LEVELS[level]:
            sign = self._next()
            value = _apply(sign, _LEVELS[level][sign], value, self._level(level + 1))
        return value

    def _signed(self) -> Any:
        negative = False
        while self.tokens[self.position] in ("+", "-"):
            negative ^= self._next() == "-"
        value = self._power()
        return -value if negative else value

    def _power(self) -> Any:
        base = self._atom()
        if self.tokens[self.position] != "**":
            return base
        self._next()
        self._enter()
        exponent = self._signed()
        self.depth -= 1
        whole = isinstance(base, int) and isinstance(exponent, int)
        if whole and abs(base) > 1 and base.bit_length() * exponent > _MOST_BITS:
            raise OverflowError("the number is too large")
        return base**exponent

    def _atom(self) -> Any:
        token = self._next()
        if token == "(":
            self._enter()
            value = self._level(0)
            self.depth -= 1
            if self._next() != ")":
                raise ValueError("'(' was never closed")
            return value
        if not token or not (token[0].isdigit() or token[0] == "."):
            raise ValueError("invalid syntax")
        if "." in token:
            return float(token)
        if token[0] == "0" and token.strip("0"):
            raise ValueError("leading zeros in decimal integer literals are not permitted")
        return int(token)

    def _enter(self) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ValueError("too many nested parentheses")


def _apply(sign: str, function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if sign in ("/", "//") and right == 0:
        raise ToolFailure(_ZERO_DIVISORS[sign, isinstance(left, float) or isinstance(right, float)])
    return function(left, right)
