"""Problems of geometry ask for areas, grid points in circles and triangles, squares in sheets, and right triangles."""

import random
from fractions import Fraction
from math import gcd, isqrt

from agent_envs.envs.tool_reasoning.math_world.problem import Numbers, kind

_MOST_SQUARES = 5_000


def _skyline(rng: random.Random, level: int, numbers: Numbers) -> Numbers:
    corners, size = ((3, 12), (4, 25), (6, 60), (9, 200), (13, 500))[level - 1]
    places = tuple(sorted(rng.sample(range(1, size), corners + 1)))
    return {"places": places, "heights": tuple(rng.randint(1, size) for _ in range(corners - 3))}


def _shoelace(a: int, b: int, c: int, places: tuple[int, ...], heights: tuple[int, ...]) -> Fraction:
    corners = [(0, 0), *zip(places, (a, b, c, *heights, 0), strict=True)]
    pairs = zip(corners, corners[1:] + corners[:1], strict=True)
    return Fraction(abs(sum(x * v - u * y for (x, y), (u, v) in pairs)), 2)


def _skyline_text(a: int, b: int, c: int, places: tuple[int, ...], heights: tuple[int, ...]) -> dict[str, str]:
    rest = [f"({place}, {height})" for place, height in zip(places[3:], (*heights, 0), strict=True)]
    return {"x1": str(places[0]), "x2": str(places[1]), "x3": str(places[2]), "rest": ", ".join(rest)}


def _by_jacobi(n: int) -> int:
    """Return the points in a circle from Jacobi's count of the ways to write a number as two squares."""
    return 1 + 4 * sum(n // i - n // (i + 2) for i in range(1, n + 1, 4))


def _twice_area(a: int, b: int, c: int, d: int) -> int:
    return abs(a * d - b * c)


def _by_pick(a: int, b: int, c: int, d: int) -> int:
    border = gcd(a, b) + gcd(c, d) + gcd(a - c, b - d)
    return (_twice_area(a, b, c, d) - border + 2) // 2


def _quotients(w: int, h: int) -> list[int]:
    quotients = []
    while h:
        quotients.append(w // h)
        w, h = h, w % h
    return quotients


def _by_generators(c: int) -> int:
    """Return how many right triangles have whole sides and a hypotenuse of at most c, from Euclid's generators."""
    total = 0
    for m in range(2, isqrt(c) + 1):
        for n in range(1 + m % 2, m, 2):
            if gcd(m, n) == 1:
                total += c // (m * m + n * n)
    return total


KINDS = (
    kind(
        "area under a line",
        _shoelace,
        lambda a, b, c, places, heights: 4 * len(places),
        more=_skyline,
        shown=_skyline_text,
    ),
    kind("points in a circle", _by_jacobi, lambda n: 2 * isqrt(n) + 1),
    kind(
        "points in a triangle",
        _by_pick,
        lambda a, b, c, d: max(b, d),
        sound=lambda a, b, c, d: _twice_area(a, b, c, d) > 0,
    ),
    kind(
        "squares in a sheet",
        lambda w, h: sum(_quotients(w, h)),
        lambda w, h: 2 * len(_quotients(w, h)),
        sound=lambda w, h: sum(_quotients(w, h)) <= _MOST_SQUARES,
    ),
    kind("right triangles", _by_generators, lambda c: c // 4),
)
