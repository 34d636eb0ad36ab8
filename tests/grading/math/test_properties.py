"""Random values in random renderings: equal where they are the same, unequal where they are not."""

from dataclasses import fields
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from agent_envs.grading.math import math_equal, read_math
from tests.examples import examples

RATIONALS = st.fractions(min_value=-(10**6), max_value=10**6, max_denominator=10**6)
SMALL = st.fractions(min_value=-20, max_value=20, max_denominator=12)
CHOICES = st.randoms(use_true_random=False)


def rational_text(value, rng):
    """One of the usual ways to write a rational number."""
    above, below = abs(value.numerator), value.denominator
    factor = rng.randint(1, 9)
    sign = rng.choice(["-", "−", "- "]) if value < 0 else rng.choice(["", "", "+"])
    forms = [
        f"{above}/{below}",
        f"\\frac{{{above}}}{{{below}}}",
        f"\\dfrac{{{above * factor}}}{{{below * factor}}}",
        f"({above * factor})/({below * factor})",
        f"\\left(\\frac{{{above}}}{{{below}}}\\right)",
        f"{above}\\cdot\\frac{{1}}{{{below}}}",
    ]
    if below == 1:
        forms += [str(above), f"{above:,}", f"{above:,}".replace(",", "{,}"), f"{above}.0", f"\\text{{{above}}}"]
    if 10**8 % below == 0:
        digits = str(above * (10**8 // below)).rjust(9, "0")
        forms.append(f"{digits[:-8]}.{digits[-8:]}")
    if above > below > 1:
        whole, rest = divmod(above, below)
        forms += [f"{whole}\\frac{{{rest}}}{{{below}}}", f"{whole} {rest}/{below}"]
    body = rng.choice(forms)
    dressed = rng.choice(["{}", "${}$", "{} ", "x = {}", "\\boxed{{{}}}", "{}\\text{{ cm}}", "{}."])
    return dressed.format(sign + body)


def polynomial_text(coefficients, rng):
    """A polynomial in x, its terms in any order or as Horner's scheme."""
    if rng.random() < 0.3:
        text = "0"
        for value in reversed(coefficients):
            text = f"x({text})+({value})"
        return text
    terms = []
    for power, value in enumerate(coefficients):
        unit = rng.choice(["", "1"]) if power == 0 else f"x^{{{power}}}"
        terms.append(rng.choice([f"({value})*({unit or 1})", f"({value}){unit and f'({unit})'}"]))
    rng.shuffle(terms)
    return "+".join(terms)


def surd_text(parts, rng):
    """A sum of rational multiples of square roots, with squares moved into the roots."""
    texts = []
    for value, inside in parts:
        factor = rng.randint(1, 4)
        root = rng.choice(["\\sqrt{{{}}}", "sqrt({})", "√({})", "({})^{{1/2}}"]).format(inside * factor**2)
        texts.append(f"\\frac{{{value.numerator}}}{{{value.denominator * factor}}}{root}")
    rng.shuffle(texts)
    return "+".join(texts)


@given(RATIONALS, CHOICES, CHOICES)
def test_two_renderings_of_a_rational_are_equal(value, one, two):
    first, second = rational_text(value, one), rational_text(value, two)
    assert math_equal(first, second), (first, second)


@given(RATIONALS, RATIONALS, CHOICES)
def test_different_rationals_are_unequal(left, right, rng):
    assume(left != right)
    assert not math_equal(rational_text(left, rng), rational_text(right, rng))


@given(RATIONALS, st.integers(1, 30), CHOICES)
def test_a_rounded_decimal_is_another_number(value, places, rng):
    scaled = round(value * 10**places)
    assume(Fraction(scaled, 10**places) != value)
    sign, digits = "-" if scaled < 0 else "", str(abs(scaled)).rjust(places + 1, "0")
    assert not math_equal(f"{sign}{digits[:-places]}.{digits[-places:]}", rational_text(value, rng))


@given(st.lists(SMALL, min_size=1, max_size=5), st.lists(SMALL, min_size=1, max_size=5), CHOICES)
@examples(60)
def test_polynomials(left, right, rng):
    one, two = polynomial_text(left, rng), polynomial_text(left, rng)
    assert math_equal(one, two), (one, two)
    length = max(len(left), len(right))
    padded = [[*values, *[0] * (length - len(values))] for values in (left, right)]
    assert math_equal(one, polynomial_text(right, rng)) == (padded[0] == padded[1])
    # A product written out, and as a quotient.
    multiplied = [Fraction(0)] * (len(left) + len(right) - 1)
    for (i, a), (j, b) in product(enumerate(left), enumerate(right)):
        multiplied[i + j] += a * b
    assert math_equal(f"({one})({polynomial_text(right, rng)})", polynomial_text(multiplied, rng))
    if any(right):
        assert math_equal(f"\\frac{{{polynomial_text(multiplied, rng)}}}{{{polynomial_text(right, rng)}}}", one)


@given(
    st.dictionaries(st.sampled_from([2, 3, 5, 6, 7, 10, 15]), SMALL.filter(bool), max_size=4),
    SMALL.filter(bool),
    CHOICES,
)
@examples(60)
def test_surds(parts, shift, rng):
    items = [*parts.items(), (1, shift)]
    values = [(value, inside) for inside, value in items]
    one, two = surd_text(values, rng), surd_text(values, rng)
    assert math_equal(one, two), (one, two)
    assert not math_equal(one, surd_text([*values[:-1], (shift + 1, 1)], rng))
    assert math_equal(f"\\frac{{1}}{{1/({one})}}", two)


@given(st.lists(RATIONALS, min_size=2, max_size=5), CHOICES)
def test_order_matters_in_tuples_alone(values, rng):
    shuffled = list(values)
    rng.shuffle(shuffled)
    texts = [str(value) for value in values]
    others = [f"\\frac{{{value.numerator}}}{{{value.denominator}}}" for value in shuffled]
    assert math_equal(", ".join(texts), "; ".join(others))
    assert math_equal(f"\\{{{','.join(texts)}\\}}", f"\\left\\{{{', '.join(others)} \\right\\}}")
    assert math_equal(f"({','.join(texts)})", f"({', '.join(others)})") == (values == shuffled)


@given(st.sampled_from("+*"), st.sampled_from(["x", "2", "\\sqrt{3}", "\\pi", "\\sin y", "2^n", "\\frac{1}{x+1}", "|z|"]),
       st.sampled_from(["y", "-3", "\\sqrt[3]{2}", "e", "\\ln 5", "x^{1/2}", "\\frac{2}{x-1}", "n!"]))  # fmt: skip
def test_sums_and_products_commute(operator, left, right):
    assert math_equal(f"{left} {operator} {right}", f"{right} {operator} {left}".replace("* -", "*-"))
    assert math_equal(f"({left})({right})", f"({right})({left})")
    assert math_equal(f"({left}-{right})({left}+{right})", f"({left})^2-({right})^2")


ALPHABET = [
    *"12xy+-/*(),=^ [ab|<{}.%ei!_:0",
    "\\sqrt",
    "\\pm",
    "\\{",
    "\\}",
    "\\frac",
    "\\text{ cm}",
    "or",
    "\\pi",
    "\\cup",
    "yes",
]
SHORT_TEXTS = st.lists(st.sampled_from(ALPHABET), max_size=6).map("".join)


@given(st.lists(SHORT_TEXTS, min_size=8, max_size=8))
@examples(150)
def test_equality_is_an_equivalence(texts):
    values = [read_math(text) for text in texts]
    equal = {(i, j) for i, j in product(range(8), repeat=2) if math_equal(texts[i], texts[j])}
    assert {(i, i) for i, value in enumerate(values) if value is not None} == {(i, j) for i, j in equal if i == j}
    assert equal == {(j, i) for i, j in equal}
    assert all((i, k) in equal for i, j in equal for other, k in equal if j == other)
    assert all(hash(values[i]) == hash(values[j]) for i, j in equal)


@given(st.one_of(st.text(), SHORT_TEXTS, st.text("\\{}^_()[]|$&%#,.0123456789abcxyz \n\ud800\udfff", max_size=80)))
@example("AAAA/A%")  # a dollar sign once made a unit of the first word
@examples(300)
def test_any_text_has_a_verdict(text):
    value = read_math(text)
    assert math_equal(text, text) == (value is not None)
    assert not math_equal(text, "") and not math_equal("", text)
    if value is not None:
        assert read_math(f"${text}$") in (value, None) or "$" in text or "\\" in text[-1:]


@pytest.mark.parametrize(
    "text", ["5", "(1,2)", "\\{1,2\\}", "x=1,y=2", "x+y=5", "east", "\\begin{pmatrix}1\\end{pmatrix}"]
)
def test_values_are_immutable_and_hashable(text):
    value = read_math(text)
    assert {value: 1}[read_math(text + " ")] == 1
    assert value != text and value is not None
    with pytest.raises(AttributeError):
        setattr(value, fields(value)[0].name, None)
