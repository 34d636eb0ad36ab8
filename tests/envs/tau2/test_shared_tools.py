"""The calculator gives what Python gives, without evaluating code and without hanging."""

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.envs.tau2.database import Database
from agent_envs.envs.tau2.shared_tools import calculate, transfer_to_human_agents
from agent_envs.envs.tau2.toolkit import FRESH, Domain, Kit, ToolFailure, World, call
from tests.rows import each_row

KIT = Kit("assistant")
for function in (calculate, transfer_to_human_agents):
    KIT.tool("generic")(function)
DOMAIN = Domain("desk", Database("nothing", {}), KIT)


def content(expression):
    return call(DOMAIN, FRESH, "assistant", "calculate", {"expression": expression})[0].content


@each_row(
    ("expression", "result"),
    [
        ("2 + 2", "4.0"), ("100 - 33.335", "66.66"), ("999999 * 1000000 - 1", "999998999999.0"), ("7//2", "3.0"),
        ("-7//2", "-4.0"), ("2**3**2", "512.0"), ("-2**2", "-4.0"), ("2**-1", "0.5"), ("(1 + 2) * 3", "9.0"),
        ("8 / 4 / 2", "1.0"), ("--3", "3.0"), ("2 - -3", "5.0"), ("1.", "1.0"), (".5", "0.5"), ("00", "0.0"),
        (" 1 ", "1.0"), ("2.675", "2.67"), ("10/3", "3.33"), ("1**999999", "1.0"), ("007.5", "7.5"), ("-0.001", "-0.0"),
        ("7 - -7//2", "11.0"), ("7 - - -7//2", "4.0"), ("7 + -7//2", "3.0"), ("(7)--7//2", "11.0"), ("7*- -2", "14.0"),
        ("2--31//3.5", "11.0"), ("--31//3.5", "8.0"), ("1 - - -1", "0.0"), ("+".join(["1"] * 250), "250.0"),
    ],
)  # fmt: skip
def test_values(expression, result):
    assert content(expression) == result


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("2 % 2", "Invalid characters in expression"), ("__import__", "Invalid characters in expression"),
        ("1/0", "division by zero"), ("1.0/0", "float division by zero"), ("1//0", "integer division or modulo by zero"),
        ("1//0.0", "float floor division by zero"), ("(5", "invalid syntax"), ("007", "invalid syntax"),
        ("...", "invalid syntax"), ("()", "invalid syntax"), ("(1)(2)", "invalid syntax"), ("1.5.5", "invalid syntax"),
        ("(" * 91 + "1" + ")" * 91, "too many nested parentheses"), ("+".join(["1"] * 302), "the expression is too long"),
        ("2**" * 400 + "1", "the expression is too long"), ("1" * 10_001, "the expression is too long"),
    ],
)  # fmt: skip
def test_exact_errors(expression, text):
    assert content(expression) == f"Error: {text}"


BROKEN = [
    "",
    "(5",
    "5)",
    "1 2",
    "2*",
    "*2",
    "()",
    "(1)(2)",
    "007",
    "1.5.5",
    "..",
    "1 + ",
    "(-8)**0.5",
    "10**400",
    "0**-1",
]


@each_row("expression", [*BROKEN, 5, None, [], ["1"], {}, "(" * 500 + "1" + ")" * 500, "1" * 20_000])
def test_what_is_no_arithmetic_is_an_error(expression):
    assert content(expression).startswith("Error: ")


@pytest.mark.parametrize("expression", ["9**9**9**9", "9**99999999", "(9**9999)**9999", "2.0**99999", "-" * 9999 + "1"])
def test_nothing_hangs(expression):
    assert content(expression).startswith("Error: ") == (expression[0] != "-")


SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv}
NUMBERS = st.integers(0, 50) | st.sampled_from([0.5, 2.25, 10.0, 0.1])
TREES = st.recursive(
    NUMBERS,
    lambda inner: st.tuples(st.sampled_from([*SIGNS]), inner, inner) | st.tuples(st.just("neg"), inner),
    max_leaves=8,
)


def written(tree):
    if not isinstance(tree, tuple):
        return str(tree)
    return f"(-{written(tree[1])})" if tree[0] == "neg" else f"({written(tree[1])} {tree[0]} {written(tree[2])})"


def value(tree):
    if not isinstance(tree, tuple):
        return tree
    return -value(tree[1]) if tree[0] == "neg" else SIGNS[tree[0]](value(tree[1]), value(tree[2]))


@given(TREES)
def test_trees_of_arithmetic(tree):
    try:
        expected = str(round(float(value(tree)), 2))
    except ZeroDivisionError:
        with pytest.raises(ToolFailure, match="zero"):
            calculate(World(DOMAIN, FRESH), written(tree))
        return
    assert content(written(tree)) == expected


@given(st.text("0123456789+-*/(). ", max_size=12))
def test_any_text_of_its_letters_gives_a_text(expression):
    result = content(expression)
    assert result.startswith("Error: ") or float(result) == round(float(result), 2)


def test_transfer_changes_nothing():
    outcome, state = call(DOMAIN, FRESH, "assistant", "transfer_to_human_agents", {"summary": "all"})
    assert outcome.content == "Transfer successful" and state is FRESH
    assert not KIT.tools["calculate"].writes
