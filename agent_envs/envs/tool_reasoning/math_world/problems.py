"""Problems of algebra ask for values of polynomials, powers of roots, continued fractions, or coefficients of powers."""

import random
from fractions import Fraction
from math import comb

from agent_envs.envs.tool_reasoning.math_world.problem import Numbers, kind


def _polynomial(rng: random.Random, level: int, numbers: Numbers) -> Numbers:
    degree, size = (3, 4, 5, 7, 9)[level - 1], (9, 9, 12, 20, 30)[level - 1]
    lower = [rng.randint(-size, size) for _ in range(degree)]
    return {"coefficients": (*lower, rng.randint(1, size))}


def _horner(x: int, coefficients: tuple[int, ...]) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = value * x + coefficient
    return value


def _polynomial_text(x: int, coefficients: tuple[int, ...]) -> dict[str, str]:
    text = ""
    for power, coefficient in reversed(list(enumerate(coefficients))):
        if coefficient:
            sign = " - " if coefficient < 0 else " + "
            factor = "" if abs(coefficient) == 1 and power else str(abs(coefficient))
            text += (
                f"{sign if text or coefficient < 0 else ''}{factor}{('', 'x')[power > 0]}{f'^{power}' * (power > 1)}"
            )
    return {"coefficients": text.strip()}


def _waring(s: int, q: int, n: int) -> int:
    """Return the sum of n-th powers of the roots by Waring's closed form."""
    return sum((-1) ** k * (n * comb(n - k, k) // (n - k)) * s ** (n - 2 * k) * q**k for k in range(n // 2 + 1))


def _rest_of_terms(rng: random.Random, level: int, numbers: Numbers) -> Numbers:
    size = (9, 15, 40, 60, 99)[level - 1]
    return {"rest": tuple(rng.randint(2, size) for _ in range((1, 3, 5, 8, 12)[level - 1]))}


def _convergent(a: int, b: int, c: int, rest: tuple[int, ...]) -> Fraction:
    """Return the last convergent by the recurrence from the front."""
    top, above, bottom, below = 1, 0, 0, 1
    for term in (a, b, c, *rest):
        top, above = term * top + above, top
        bottom, below = term * bottom + below, bottom
    return Fraction(top, bottom)


def _multinomial(a: int, b: int, n: int, k: int) -> int:
    return sum(comb(n, j) * comb(n - j, k - 2 * j) * b**j * a ** (k - 2 * j) for j in range(k // 2 + 1))


KINDS = (
    kind(
        "polynomial value",
        _horner,
        lambda x, coefficients: 2 * len(coefficients) * len(str(x)),
        more=_polynomial,
        shown=_polynomial_text,
    ),
    kind("powers of roots", _waring, lambda s, q, n: 3 * n),
    kind(
        "continued fraction",
        _convergent,
        lambda a, b, c, rest: 2 * (3 + len(rest)),
        more=_rest_of_terms,
        shown=lambda a, b, c, rest: {"rest": ", ".join(map(str, rest))},
    ),
    kind("coefficient of a power", _multinomial, lambda a, b, n, k: n * k, sound=lambda a, b, n, k: k <= 2 * n),
)
