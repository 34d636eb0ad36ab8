"""Random expressions against an independent algebra, which runs on texts of our own making only."""

import random
from fractions import Fraction

import pytest

from agent_envs.grading.math import math_equal
from tests.needs import require

require("[sandbox]")

import sympy

X, Y = sympy.symbols("x y")


def rational(rng):
    return Fraction(rng.randint(-6, 6) or 1, rng.randint(1, 6))


def leaf(rng, kind):
    """A text and its value: rational numbers with variables, or with roots and i."""
    value = rational(rng)
    number = rng.choice(["({0}/{1})", "\\frac{{{0}}}{{{1}}}", "\\left(\\dfrac{{{0}}}{{{1}}}\\right)"])
    exact = sympy.Rational(value.numerator, value.denominator)
    if rng.random() < 0.5:
        return number.format(value.numerator, value.denominator), exact
    if kind == "variables":
        return rng.choice([("x", X), ("y", Y), ("x^{2}", X**2), ("2xy", 2 * X * Y)])
    inside, index = rng.choice([2, 3, 5, 6, 8, 12, 18]), rng.choice([2, 2, 2, 3, 4])
    if kind == "complex" and rng.random() < 0.4:
        return rng.choice([("i", sympy.I), ("2i", 2 * sympy.I), (f"\\sqrt{{-{inside}}}", sympy.sqrt(-inside))])
    if index == 2:
        text = rng.choice(["\\sqrt{{{0}}}", "sqrt({0})", "√{0}", "{0}^{{1/2}}"]).format(inside)
        return text, sympy.sqrt(inside)
    return f"\\sqrt[{index}]{{{inside}}}", sympy.root(inside, index)


def tree(rng, kind, depth):
    """An expression with its value; the value is None where something is divided by zero."""
    if depth == 0 or rng.random() < 0.15:
        return leaf(rng, kind)
    (one, left), (two, right) = tree(rng, kind, depth - 1), tree(rng, kind, depth - 1)
    if left is None or right is None:
        return one, None
    operation = rng.choice("+-*/^")
    if operation == "+":
        return rng.choice([f"{one}+{two}", f"({one})+({two})"]), left + right
    if operation == "-":
        return f"{one}-({two})", left - right
    if operation == "*":
        return rng.choice([f"({one})({two})", f"({one})*({two})", f"({one}) \\cdot ({two})"]), left * right
    if operation == "^":
        power = rng.choice([2, 2, 3, -1])
        return f"({one})^{{{power}}}", None if power < 0 and vanishes(left) else left**power
    return rng.choice([f"\\frac{{{one}}}{{{two}}}", f"({one})/({two})"]), None if vanishes(right) else left / right


def vanishes(value):
    """Whether a value is zero: by expansion with variables, else by sixty digits, far below any difference that can occur."""
    if value.free_symbols:
        return sympy.cancel(sympy.together(value)) == 0
    return abs(sympy.N(value, 60, maxn=400)) < sympy.Float(10) ** -40


def variant(rng, text, value, kind):
    """Another text: of the same value in other words, of one that is a little off, or of any value."""
    other, shift = leaf(rng, kind)
    how = rng.random()
    if how < 0.25:
        return f"({text})+{other}-({other})", value
    if how < 0.5:
        return f"\\frac{{({text})({other})}}{{{other}}}", value
    if how < 0.65 and not value.free_symbols:
        return spelled(sympy.radsimp(sympy.expand(value))), value
    if how < 0.8:
        return f"({text})+\\frac{{1}}{{1000}}({other})", value + shift / 1000
    return tree(rng, kind, 2)


def spelled(value):
    """The plain text of a value, as the other algebra writes it."""
    return str(value).replace("I", "i")


@pytest.mark.parametrize(("kind", "rounds"), [("variables", 250), ("roots", 250), ("complex", 150)])
def test_the_verdicts_agree(kind, rounds):
    rng = random.Random(f"math answers against sympy: {kind}")
    seen = {True: 0, False: 0}
    for _ in range(rounds):
        text, value = tree(rng, kind, rng.randint(1, 3))
        if value is None:
            continue
        other, second = variant(rng, text, value, kind)
        if second is None:
            continue
        expected = vanishes(value - second)
        seen[expected] += 1
        assert math_equal(text, other) == expected, (text, other)
    assert min(seen.values()) > rounds / 8


def test_polynomials_as_the_other_algebra_writes_them():
    rng = random.Random("math answers: polynomials")
    for _ in range(60):
        factors = [rational(rng) * 1, rational(rng), rational(rng)]
        numbers = [sympy.Rational(value.numerator, value.denominator) for value in factors]
        product = sympy.prod([X + value * Y + 1 for value in numbers])
        factored = "".join(f"(x+({value})y+1)" for value in factors)
        assert math_equal(factored, sympy.latex(sympy.expand(product)))
        assert math_equal(factored, str(sympy.expand(product)))
        assert math_equal(f"1/({factored})", sympy.latex(1 / sympy.expand(product)))
        assert not math_equal(factored, sympy.latex(sympy.expand(product) + 1))
