"""Several domains share these tools: the calculator, and handing the customer over to a human.

The calculator reads what Python reads as arithmetic of plain numbers and gives what Python gives (`/` makes floats, whole
numbers are exact, `**` binds tighter than a sign on its left), but never evaluates code and never grows without bound.
"""

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

from agent_envs.envs.tau2.toolkit import Kit, ToolFailure, World

_ALLOWED = "0123456789+-*/(). "
_SIGN = re.compile(r"\*\*|//|[-+*/]")
_SIGNS = re.compile(r"([-+])((?: *[-+])+)")
_LONGEST, _DEEPEST, _MOST_SIGNS, _MOST_BITS = 10_000, 90, 300, 20_000
_DIVISIONS: dict[type[ast.operator], str] = {ast.Div: "/", ast.FloorDiv: "//"}
_ZERO_DIVISORS = {
    ("/", False): "division by zero",
    ("/", True): "float division by zero",
    ("//", False): "integer division or modulo by zero",
    ("//", True): "float floor division by zero",
}


def add_shared_tools(kit: Kit) -> None:
    """Add both tools to a kit."""
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
    return str(round(float(_value(_parse(expression))), 2))


def _parse(expression: str) -> ast.expr:
    """Parse an expression as Python; ValueError for bad syntax, or where it is too long, too deep or too signed."""
    if len(expression) > _LONGEST:
        raise ValueError("the expression is too long")
    # Of a run of signs, the first of which may stand between two numbers, the others are one, so that a long one is not deep.
    text = _SIGNS.sub(lambda run: run[1] + "+-"[run[2].count("-") % 2], expression).strip()
    depth = 0
    for mark in text:
        depth += (mark == "(") - (mark == ")")
        if depth > _DEEPEST:
            raise ValueError("too many nested parentheses")
    if len(_SIGN.findall(text)) > _MOST_SIGNS:
        raise ValueError("the expression is too long")
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:  # whose words differ from one Python to the next
        raise ValueError("invalid syntax") from None


def _value(node: ast.expr) -> Any:
    """Evaluate a node; ValueError for other than arithmetic, ToolFailure for a zero divisor, OverflowError for a huge power."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _UNARY[type(node.op)](_value(node.operand))
    if not isinstance(node, ast.BinOp) or type(node.op) not in _BINARY:
        raise ValueError("invalid syntax")
    left, right = _value(node.left), _value(node.right)
    if right == 0 and (sign := _DIVISIONS.get(type(node.op))):
        raise ToolFailure(_ZERO_DIVISORS[sign, isinstance(left, float) or isinstance(right, float)])
    return _BINARY[type(node.op)](left, right)


def _power(base: Any, exponent: Any) -> Any:
    """Return a power; OverflowError, before it is computed, for a whole number that would grow too large."""
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and abs(base) > 1 and base.bit_length() * exponent > _MOST_BITS:
        raise OverflowError("the number is too large")
    return base**exponent


_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Pow: _power,
}  # fmt: skip
