"""Exact arithmetic of untrusted text."""

import ast
import operator
import random
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.grading.arithmetic import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_DIGITS,
    ExpressionError,
    evaluate,
    literals,
    number_text,
)
from tests.rows import each_row

OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
NODES = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def refusal(text):
    with pytest.raises(ExpressionError) as caught:
        evaluate(text)
    return caught.value


@each_row(
    ("text", "value"),
    [
        ("7", 7),
        ("(12+34*5)/(6-1)-78", Fraction(-208, 5)),
        ("2+3*4", 14),
        ("(2+3)*4", 20),
        ("100-10-1", 89),
        ("64/4/2", 8),
        ("64/(4/2)", 32),
        ("6/4*2", 3),
        ("1-2*3/4+5", Fraction(9, 2)),
        ("-3+5", 2),
        ("2--3", 5),
        ("2*-3", -6),
        ("6/-4", Fraction(-3, 2)),
        ("-(2+3)*-(1-5)", -20),
        ("+-+4", -4),
        ("0.1+0.2", Fraction(3, 10)),
        (".5+5.", Fraction(11, 2)),
        ("007", 7),
        (" 1 +\t2\n* 3 ", 7),
        ("0*(1/3)", 0),
        ("((((5))))", 5),
        ("1/3+1/3+1/3", 1),
    ],
)
def test_values(text, value):
    assert evaluate(text) == value


@each_row(
    ("text", "kind", "word"),
    [
        ("", "syntax", "no expression"),
        ("  ", "syntax", "no expression"),
        ("12+", "syntax", "too early"),
        ("(", "syntax", "too early"),
        ("*2", "syntax", "a number is missing before *"),
        ("2+*3", "syntax", "a number is missing before *"),
        ("2* *3", "syntax", "there is no operator **"),
        ("2**3", "syntax", "there is no operator **"),
        ("7//2", "syntax", "there is no operator //"),
        ("()", "syntax", "a number is missing before )"),
        ("(1+2", "syntax", "not closed"),
        ("1+2)", "syntax", "a ) has no ("),
        ("1 2", "syntax", "an operator is missing before '2'"),
        ("2(3)", "syntax", "an operator is missing before '('"),
        ("(2)3", "syntax", "an operator is missing before '3'"),
        ("2^3", "bad_token", "no powers"),
        ("7%2", "bad_token", "no remainder"),
        ("1,000+1", "bad_token", "without commas"),
        ("1_000", "bad_token", "without underscores"),
        ("12+3=15", "bad_token", "write the expression alone"),
        ("1e5", "bad_token", "'e'"),
        ("0x10", "bad_token", "'x'"),
        ("1.2.3", "bad_token", "'1.2.3' is not a number"),
        (".", "bad_token", "'.' is not a number"),
        ("3×4", "bad_token", "multiply with *"),
        ("8÷2", "bad_token", "divide with /"),
        ("8−2", "bad_token", "subtract with -"),
        ("１２+1", "bad_token", "not understood"),
        ("٣", "bad_token", r"'\u0663'"),
        ("2²", "bad_token", "not understood"),
        ("1\u00a0+2", "bad_token", "not understood"),
        ("\ud800", "bad_token", "not understood"),
        ('__import__("os")', "bad_token", "without underscores"),
        ("1;2", "bad_token", "not understood"),
        ("sum+1", "bad_token", "'sum'"),
        ("1" * 41, "too_big", "more than 40 digits"),
        ("0." + "1" * 41, "too_big", "more than 40 digits"),
        ("(" * 65 + "1" + ")" * 65, "too_deep", "64"),
        ("1+" * 256 + "1", "too_long", "512"),
        ("1/0", "division_by_zero", "division by zero"),
        ("1/(2-2)", "division_by_zero", "division by zero"),
        ("0/0.00", "division_by_zero", "division by zero"),
        ("5/-0", "division_by_zero", "division by zero"),
    ],
)
def test_every_kind_of_error_is_explained(text, kind, word):
    error = refusal(text)
    assert error.kind == kind
    assert word in str(error)
    assert len(str(error)) < 120


def test_the_limits_themselves_are_allowed():
    assert evaluate("(" * MAX_DEPTH + "1" + ")" * MAX_DEPTH) == 1
    assert evaluate("-" * (MAX_CHARACTERS - 1) + "1") == -1
    assert evaluate("9" * MAX_DIGITS + "." + "9" * MAX_DIGITS) == Fraction(10**80 - 1, 10**40)
    assert refusal("-" * MAX_CHARACTERS + "1").kind == "too_long"
    assert refusal("(" * MAX_CHARACTERS).kind == "too_deep"
    assert refusal("9" * MAX_CHARACTERS).kind == "too_big"
    assert refusal(")" * MAX_CHARACTERS).kind == "syntax"


@pytest.mark.parametrize("joint", ["*", "/", "+", "-", "/.", "+.", "*."])
@pytest.mark.parametrize("digits", [1, 2, 5, 39, 40])
def test_no_expression_outgrows_the_bound_on_values(joint, digits):
    number = "7" * digits
    count = (MAX_CHARACTERS - digits) // (digits + len(joint))
    value = evaluate(number + (joint + number) * count)
    assert max(value.numerator.bit_length(), value.denominator.bit_length()) <= 4 * MAX_CHARACTERS
    assert len(number_text(value)) <= MAX_CHARACTERS + 100


def tree(rng, operators):
    """Return a random expression and its value by Fraction, None where it divides by zero; brackets only where needed."""
    if not operators:
        if rng.random() < 0.2:
            text = f"{rng.randrange(1000)}.{rng.randrange(1000):03d}"
        else:
            text = str(rng.randrange(10 ** rng.randint(1, 6)) if rng.random() < 0.95 else 0)
        return text, Fraction(text), 3
    sign = rng.choice("+-*/")
    left_count = rng.randrange(operators)
    left, one, left_strength = tree(rng, left_count)
    right, other, right_strength = tree(rng, operators - 1 - left_count)
    strength = 1 if sign in "+-" else 2
    if left_strength < strength or rng.random() < 0.1:
        left = f"({left})"
    if right_strength <= strength or rng.random() < 0.1:
        right = f"({right})"
    space = " " * (rng.random() < 0.1)
    try:
        value = None if one is None or other is None else OPERATIONS[sign](one, other)
    except ZeroDivisionError:
        value = None
    text = f"{left}{space}{sign}{space}{right}"
    if rng.random() < 0.05:
        return f"-({text})", None if value is None else -value, 0
    return text, value, strength


def test_twenty_thousand_random_expressions_equal_fraction():
    rng = random.Random("expressions against Fraction")
    divided_by_zero = 0
    for _ in range(20_000):
        text, value, _ = tree(rng, rng.randint(0, 10))
        if value is None:
            divided_by_zero += 1
            assert refusal(text).kind == "division_by_zero", text
        else:
            assert evaluate(text) == value, text
    assert 100 < divided_by_zero < 5_000


def walked(node, text):
    if isinstance(node, ast.BinOp):
        return NODES[type(node.op)](walked(node.left, text), walked(node.right, text))
    if isinstance(node, ast.UnaryOp):
        value = walked(node.operand, text)
        return -value if isinstance(node.op, ast.USub) else value
    return Fraction(ast.get_source_segment(text, node))


@given(st.lists(st.sampled_from([*"123456789", "10", "2.5", ".25", *"++--**//((()))", " "]), max_size=25).map("".join))
def test_what_python_reads_too_has_pythons_precedence(text):
    text = text.strip()
    try:
        parsed = ast.parse(text, mode="eval").body
    except SyntaxError:
        assert refusal(text).kind in ("syntax", "bad_token", "division_by_zero")
        return
    if any(isinstance(node, ast.Call | ast.Tuple | ast.Pow | ast.FloorDiv) for node in ast.walk(parsed)):
        assert refusal(text).kind in ("syntax", "division_by_zero")
        return
    try:
        value = walked(parsed, text)
    except ZeroDivisionError:
        assert refusal(text).kind == "division_by_zero"
        return
    assert evaluate(text) == value


def test_chains_without_brackets_have_pythons_precedence():
    rng = random.Random("chains")
    for _ in range(2_000):
        text = "".join(rng.choice("+-*/") + rng.choice(["", "", "-", "+-"]) + str(rng.randint(1, 99)) for _ in range(8))
        text = text.lstrip("*/+")
        assert evaluate(text) == walked(ast.parse(text, mode="eval").body, text), text


def test_two_hundred_thousand_hostile_strings_raise_nothing_else():
    rng = random.Random("hostile expressions")
    alphabet = "0123456789" * 2 + "+-*/()" * 4 + " .,=^%_eEjx\t\n٣１²×÷−\u00a0\ud800\0a"
    kinds = {}
    for _ in range(200_000):
        text = "".join(rng.choices(alphabet, k=rng.randint(0, 12)))
        try:
            assert isinstance(evaluate(text), Fraction)
            kinds["value"] = kinds.get("value", 0) + 1
        except ExpressionError as error:
            kinds[error.kind] = kinds.get(error.kind, 0) + 1
    assert set(kinds) == {"value", "syntax", "bad_token", "division_by_zero"}
    assert min(kinds.values()) > 50


@given(st.text(max_size=600))
def test_any_text_has_a_value_or_an_explained_error(text):
    for read in (evaluate, literals):
        try:
            read(text)
        except ExpressionError as error:
            assert str(error) and len(str(error)) < 120


def test_literals():
    assert literals("(12+34*5)/-6.50") == (12, 34, 5, Fraction(13, 2))
    assert literals("12+ 12 )") == (12, 12)
    assert literals("") == ()
    for text, kind in [("1,000", "bad_token"), ("12...", "bad_token"), ("1" * 41, "too_big"), ("1 " * 300, "too_long")]:
        with pytest.raises(ExpressionError) as caught:
            literals(text)
        assert caught.value.kind == kind


@each_row(
    ("value", "text"),
    [
        (Fraction(0), "0"),
        (Fraction(-12), "-12"),
        (Fraction(10**300), "1" + "0" * 300),
        (Fraction(5, 2), "2.500"),
        (Fraction(-5, 2), "-2.500"),
        (Fraction(1, 3), "0.333"),
        (Fraction(2, 3), "0.667"),
        (Fraction(-2, 3), "-0.667"),
        (Fraction(5, 10_000), "0.000"),
        (Fraction(15, 10_000), "0.002"),
        (Fraction(25, 10_000), "0.002"),
        (Fraction(35, 10_000), "0.004"),
        (Fraction(-25, 10_000), "-0.002"),
        (Fraction(-35, 10_000), "-0.004"),
        (Fraction(25, 10_000) + Fraction(1, 10**30), "0.003"),
        (Fraction(15, 10_000) - Fraction(1, 10**30), "0.001"),
        (Fraction(-4, 10_000), "0.000"),
        (Fraction(1, 10**9), "0.000"),
        (Fraction(29_999, 10_000), "3.000"),
        (Fraction(10**40 * 2 + 1, 2), "1" + "0" * 40 + ".500"),
        (Fraction("2.675"), "2.675"),
        (Fraction("1.0005"), "1.000"),
    ],
)
def test_how_numbers_are_written(value, text):
    assert number_text(value) == text


@given(st.integers(-(10**12), 10**12), st.integers(1, 10**5))
def test_rounding_is_decimals_half_even(above, below):
    value = Fraction(above, below)
    text = number_text(value)
    assert evaluate(text) == (value if value.denominator == 1 else round(value, 3))
    if 10**10 % value.denominator == 0 and value.denominator != 1:
        exact = Context(prec=60).divide(Decimal(value.numerator), Decimal(value.denominator))
        assert Decimal(text) == exact.quantize(Decimal("0.001"), ROUND_HALF_EVEN)
