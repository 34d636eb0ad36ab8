"""Hostile texts: no exception, a bounded number of Python calls, and the same verdict every time."""

import cProfile
import inspect
import sys

import pytest

from agent_envs.grading.math import boxed, math_equal, read_math
from agent_envs.grading.math.limits import MAX_CHARACTERS, READ_STEPS
from agent_envs.grading.math.values import MathWords
from tests.rows import each_row

MOST_CALLS = 150 * READ_STEPS  # Python and C calls of one reading: a step is worth some dozens of them


def calls(action, *arguments):
    """Count the calls of Python and C functions."""
    profile = cProfile.Profile()
    profile.runcall(action, *arguments)
    return sum(entry.callcount for entry in profile.getstats())


def filled(piece, length=MAX_CHARACTERS, end=""):
    return piece * ((length - len(end)) // len(piece)) + end


TOO_LONG = {
    "fractions": "\\frac{" * 300_000,
    "brackets": "(" * 1_000_000,
    "braces": "{" * 500_000 + "}" * 500_000,
    "digits": "9" * 1_000_000,
    "commas": "1," * 500_000,
    "thousands": "1" + ",000" * 250_000,
    "powers": "9^" * 500_000 + "9",
    "spaces": " " * 1_000_000,
    "text": "\\text{" * 200_000,
    "factorials": "9" + "!" * 1_000_000,
    "signs": "-" * 1_000_000 + "1",
    "half": "½" * 500_000,
}
NESTED = {
    "fractions": filled("\\frac{"),
    "closed fractions": "\\frac{" * 600 + "1" + "}{2}" * 80,
    "brackets": filled("("),
    "closed brackets": "(" * 2_000 + "1" + ")" * 1_999,
    "tuples": "(1," * 900 + "1" + ")" * 900,
    "units in brackets": "(" * 30 + "x" + " cm)" * 30,
    "mixed numbers": "3\\frac{" * 60 + "1" + "}{2}" * 60,
    "roots": "\\sqrt{2+" * 400 + "1" + "}" * 400,
    "shallow roots": "\\sqrt{2+" * 15 + "1" + "}" * 15,
    "sets": "\\{" * 1_000 + "\\}" * 1_000,
    "bars": filled("|"),
    "functions": filled("\\sin "),
    "subscripts": filled("x_{"),
    "tower": filled("9^", end="9"),
    "braced tower": "9^{" * 900 + "9" + "}" * 900,
    "accents": filled("\\vec "),
    "matrices": "\\begin{matrix}" * 130 + "1" + "\\end{matrix}" * 140,
}
LARGE = {
    "tower": "9^9^9^9",
    "tower below": "\\frac{1}{9^9^9^9}",
    "tower root": "\\sqrt[9^9^9]{2}",
    "digits": filled("7"),
    "exponent": "2^{" + "9" * 900 + "}",
    "binomial power": "(x+1)^{" + "9" * 900 + "}",
    "power of powers": "((((((2^{99})^{99})^{99})^{99})^{99})^{99})^{99}",
    "factorial": "999999999!",
    "factorials": "((((5!)!)!)!)!",
    "choice": "\\binom{999999999}{499999999}",
    "repeated": "0.\\overline{" + "7" * 900 + "}",
    "scientific": "1e9999",
    "negative scientific": "1E-9999",
    "products": "(x+1)(x+2)(x+3)(x+4)" * 190,
    "many variables": "(a+b+c+d+f+g+h+j+k+l)^{9}" * 9,
    "sum of fractions": "+".join(f"\\frac{{1}}{{x+{k}}}" for k in range(200)),
    "set of fractions": f"\\{{{','.join(f'1/(x+{k})' for k in range(99))}\\}}",
    "roots": "+".join(f"\\sqrt{{{10**14 + k}}}" for k in range(150)),
    "long radicands": "+".join(f"\\sqrt{{{10**900 + k}}}" for k in range(4)),
    "conjugates": f"1/({'+'.join(f'√{k}' for k in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37))})",
    "square root power": "(√2+√3+√5+√7)^{90}",
    "list": filled("1,"),
    "union": filled("(1,2)\\cup"),
    "signs": filled("\\pm", end="1"),
    "linked signs": filled("\\mp", end="1"),
    "minus": filled("-", end="1"),
    "factorial signs": filled("!"),
    "relations": filled("1<"),
    "equations": filled("x="),
    "units": filled("1 cm "),
    "words": filled("word "),
    "and": filled("and "),
    "ratio": filled("1:"),
    "letters": filled("x"),
    "product": filled("x "),
    "hyphens": filled("a-"),
    "vulgar": filled("½"),
    "raised": filled("x²"),
    "cells": f"\\begin{{matrix}}{filled('1&', 3_900)}\\end{{matrix}}",
    "lines": f"\\begin{{matrix}}{filled('1' + chr(92) * 2, 3_900)}\\end{{matrix}}",
    "groups": filled("1,000") + ",1",
    "gaps": filled("\\hspace{"),
    "begin": filled("\\begin{"),
    "prose": filled("\\text{a}"),
    "backslashes": filled("\\"),
    "dollars": filled("$", end="1"),
    "surrogates": filled("\ud800"),
    "surrogates apart": filled("\udfff+"),
    "controls": filled("".join(map(chr, range(32)))),
    "emoji": filled("🍎"),
    "digits of other scripts": filled("٣"),
    "combining": filled("x\u0301"),
    "logarithms": filled("\\ln", end="2"),
    "log bases": "\\log_" * 600 + "2",
    "degrees": filled("^\\circ"),
    "primes": filled("'"),
}


@each_row("name", TOO_LONG)
def test_a_megabyte_is_no_answer(name):
    text = TOO_LONG[name]
    assert calls(read_math, text) < 20
    assert read_math(text) is None
    assert not math_equal(text, text)
    assert not math_equal("1", text) and not math_equal(text, "1")


BOUNDED = {**{f"nested {name}": text for name, text in NESTED.items()}, **LARGE}


@pytest.mark.parametrize("name", BOUNDED)
def test_the_work_is_bounded(name):
    text = BOUNDED[name][:MAX_CHARACTERS]
    assert calls(read_math, text) < MOST_CALLS
    assert math_equal(text, text) == (name != "backslashes")  # of which nothing is left
    assert not math_equal(text, "8")


def test_what_is_too_large_is_compared_as_written():
    deep = "\\sqrt{2+" * 100 + "1" + "}" * 100
    assert isinstance(read_math(deep), MathWords) and math_equal("+".join(["(1)"] * 60), "60")
    assert math_equal(deep, deep.replace("{2+", "{ 2 + "))
    assert not math_equal(deep, deep.replace("{2+", "{3+", 1))


def test_what_costs_too_much_to_compare_is_unequal():
    one, factor = "\\frac{(a+b+c)^{12}}{(x+y+1)^{12}}", "(z+w)"
    two = f"\\frac{{(a+b+c)^{{12}}{factor}}}{{(x+y+1)^{{12}}{factor}}}"
    assert math_equal(one, one) and math_equal(two, two)
    assert not math_equal(one, two) and not math_equal(two, one)
    assert math_equal(one.replace("12", "3"), two.replace("12", "3"))


def test_huge_numbers_keep_their_value_in_one_form():
    assert math_equal("9^9^9^9", "9^{9^{9^{9}}}")
    assert math_equal("9^{9^9}", "3^{2\\cdot 9^9}")
    assert not math_equal("9^9^9^9", "9^9^9^8")
    assert math_equal("(x+1)^{99999}", "(1+x)^{99999}")
    assert not math_equal("(x+1)^{99999}", "(x+1)^{99998}")


def test_the_stack_stays_small():
    texts = [
        *NESTED.values(),
        "(1," * 32 + "1" + ")" * 32,
        "{" * 32 + "1" + "}" * 32,
        "\\sin" * 30 + "x",
        "2^" * 31 + "2",
    ]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 420)
    try:
        answers = [read_math(text[:MAX_CHARACTERS]) for text in texts]
    finally:
        sys.setrecursionlimit(limit)
    assert answers == [read_math(text[:MAX_CHARACTERS]) for text in texts]


def test_boxes_are_found_in_linear_time():
    for piece in ("\\boxed{", "\\boxed{1}", "{", "}", "\\boxed ", "\\boxed{\\boxed{1}", "\\{", "\\\\", "x"):
        short, long = calls(boxed, piece * 10_000), calls(boxed, piece * 40_000)
        assert long < 4 * short + 200
    assert boxed("\\boxed{" * 200_000) is None
    assert boxed("\\boxed{" * 100_000 + "1" + "}" * 100_000) == "1"
    assert boxed("\\boxed{7}" + "\\boxed{{" * 100_000) == "7"
