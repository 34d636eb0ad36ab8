"""Problems of geometry ask for areas, grid points in circles and triangles, squares in sheets, and right triangles."""

import random
from fractions import Fraction
from itertools import combinations
from math import gcd, isqrt, prod

from agent_envs.envs.tool_reasoning.math_world.number_theory import factors
from agent_envs.envs.tool_reasoning.math_world.problem import Kind, Numbers

_MOST_SQUARES = 5_000


def _skyline(rng: random.Random, level: int, numbers: Numbers) -> Numbers:
    corners, size = ((3, 12), (4, 25), (6, 60), (9, 200), (13, 500))[level - 1]
    places = tuple(sorted(rng.sample(range(1, size), corners + 1)))
    return {"places": places, "heights": tuple(rng.randint(1, size) for _ in range(corners - 3))}


def _shoelace(a: int, b: int, c: int, places: tuple[int, ...], heights: tuple[int, ...]) -> Fraction:
    corners = [(0, 0), *zip(places, (a, b, c, *heights, 0), strict=True)]
    pairs = zip(corners, corners[1:] + corners[:1], strict=True)
    return Fraction(abs(sum(x * v - u * y for (x, y), (u, v) in pairs)), 2)


def _trapezoids(a: int, b: int, c: int, places: tuple[int, ...], heights: tuple[int, ...]) -> Fraction:
    area, before, left = Fraction(0), 0, 0
    for place, height in zip(places, (a, b, c, *heights, 0), strict=True):
        area += Fraction(before + height, 2) * (place - left)
        before, left = height, place
    return area


def _skyline_text(a: int, b: int, c: int, places: tuple[int, ...], heights: tuple[int, ...]) -> dict[str, str]:
    rest = [f"({place}, {height})" for place, height in zip(places[3:], (*heights, 0), strict=True)]
    return {"x1": str(places[0]), "x2": str(places[1]), "x3": str(places[2]), "rest": ", ".join(rest)}


def _row_by_row(n: int) -> int:
    return sum(2 * isqrt(n - y * y) + 1 for y in range(-isqrt(n), isqrt(n) + 1))


def _by_jacobi(n: int) -> int:
    """Return the same from Jacobi's count of the ways to write a number as two squares."""
    return 1 + 4 * sum(n // i - n // (i + 2) for i in range(1, n + 1, 4))


def _twice_area(a: int, b: int, c: int, d: int) -> int:
    return abs(a * d - b * c)


def _by_pick(a: int, b: int, c: int, d: int) -> int:
    border = gcd(a, b) + gcd(c, d) + gcd(a - c, b - d)
    return (_twice_area(a, b, c, d) - border + 2) // 2


def _by_scan(a: int, b: int, c: int, d: int) -> int:
    """Return the points strictly inside, counted row by row between the two edges that a row meets."""
    corners = ((0, 0), (a, b), (c, d))
    edges = [sorted((one, other), key=lambda point: point[1]) for one, other in combinations(corners, 2)]
    count = 0
    for y in range(min(0, b, d) + 1, max(0, b, d)):
        met = [edge for edge in edges if edge[0][1] < edge[1][1] and edge[0][1] <= y <= edge[1][1]]
        places = [(x1 * (y2 - y) + x2 * (y - y1), y2 - y1) for (x1, y1), (x2, y2) in met]  # numerator, denominator
        first = min(top // bottom for top, bottom in places) + 1
        last = max(-(-top // bottom) for top, bottom in places) - 1
        count += max(0, last - first + 1)
    return count


def _quotients(w: int, h: int) -> list[int]:
    found = []
    while h:
        found.append(w // h)
        w, h = h, w % h
    return found


def _cut_off(w: int, h: int) -> int:
    """Return how many squares one cuts, one after the other."""
    count = 0
    while w and h:
        w, h = (w - h, h) if w >= h else (w, h - w)
        count += 1
    return count


def _by_generators(c: int) -> int:
    """Return how many right triangles have whole sides and a hypotenuse of at most c, from Euclid's generators."""
    total = 0
    for m in range(2, isqrt(c) + 1):
        for n in range(1 + m % 2, m, 2):
            if gcd(m, n) == 1:
                total += c // (m * m + n * n)
    return total


def _by_hypotenuse(c: int) -> int:
    """Return the same by what the primes of each hypotenuse say."""
    total = 0
    for z in range(1, c + 1):
        total += (prod(2 * times + 1 for p, times in factors(z).items() if p % 4 == 1) - 1) // 2
    return total


KINDS = (
    Kind(
        "area under a line",
        {
            "a": ((2, 12), (3, 20), (5, 60), (20, 200), (40, 500)),
            "b": ((2, 12), (3, 20), (5, 60), (20, 200), (40, 500)),
            "c": ((2, 12), (3, 20), (5, 60), (20, 200), (40, 500)),
        },
        (
            "What is the area of the polygon with the corners (0, 0), ({x1}, {a}), ({x2}, {b}), ({x3}, {c}), {rest}, in this "
            "order? Give a whole number or a fraction in lowest terms.",
            "A wall stands on the x-axis. The edge of its top runs straight from (0, 0) to ({x1}, {a}), on to ({x2}, {b}) and "
            "({x3}, {c}), and then through {rest}. What is the area of the wall, as a whole number or a fraction in "
            "lowest terms?",
            "Join (0, 0), ({x1}, {a}), ({x2}, {b}), ({x3}, {c}), {rest} by straight lines, one after the other. How large is "
            "the area between these lines and the x-axis? Answer with a whole number or a fraction in lowest terms.",
        ),
        "heights = (a, b, c) + heights + (0,)\ntwice = 0\nleft = before = 0\nfor x, y in zip(places, heights):\n"
        "    twice += (x - left) * (before + y)\n    left, before = x, y\n"
        "print(twice // 2 if twice % 2 == 0 else f'{twice}/2')",
        _shoelace,
        _trapezoids,
        lambda a, b, c, places, heights: 4 * len(places),
        more=_skyline,
        shown=_skyline_text,
    ),
    Kind(
        "points in a circle",
        {"n": ((20, 80), (100, 400), (900, 3_000), (5_000, 15_000), (20_000, 50_000))},
        (
            "How many points (x, y) with whole coordinates satisfy x^2 + y^2 <= {n}?",
            "A circle around the origin has the square of its radius equal to {n}. How many points of the integer grid lie in "
            "it or on it?",
            "Count the pairs of integers, negative ones and zero included, whose squares add up to at most {n}.",
        ),
        "from math import isqrt\nprint(sum(2 * isqrt(n - y * y) + 1 for y in range(-isqrt(n), isqrt(n) + 1)))",
        _row_by_row,
        _by_jacobi,
        lambda n: 2 * isqrt(n) + 1,
    ),
    Kind(
        "points in a triangle",
        {
            "a": ((6, 15), (15, 40), (40, 120), (120, 300), (300, 700)),
            "b": ((3, 12), (10, 30), (30, 100), (80, 250), (200, 600)),
            "c": ((3, 12), (10, 30), (30, 100), (80, 250), (200, 600)),
            "d": ((6, 15), (15, 40), (40, 120), (120, 300), (300, 700)),
        },
        (
            "How many points with whole coordinates lie strictly inside the triangle with the corners (0, 0), ({a}, {b}) and "
            "({c}, {d})?",
            "A triangle has its corners at the origin, at ({a}, {b}) and at ({c}, {d}). Count the grid points in its inside, "
            "those on its sides left out.",
            "Pegs stand at all points of a board whose two coordinates are whole. A band is put around the pegs (0, 0), "
            "({a}, {b}) and ({c}, {d}) and pulled tight. How many pegs are enclosed without touching it?",
        ),
        "from math import gcd\nborder = gcd(a, b) + gcd(c, d) + gcd(abs(a - c), abs(b - d))\n"
        "print((abs(a * d - b * c) - border + 2) // 2)",
        _by_pick,
        _by_scan,
        lambda a, b, c, d: max(b, d),
        sound=lambda a, b, c, d: _twice_area(a, b, c, d) > 0,
    ),
    Kind(
        "squares in a sheet",
        {
            "w": ((13, 60), (60, 300), (300, 2_000), (2_000, 20_000), (20_000, 900_000)),
            "h": ((13, 60), (60, 300), (300, 2_000), (2_000, 20_000), (20_000, 900_000)),
        },
        (
            "From a sheet of {w} by {h} millimetres the largest possible square is cut off, from the rest again, and so on "
            "until nothing is left. How many squares are there in the end?",
            "A rectangle has sides {w} and {h}. As long as something is left, one cuts off a square whose side is the shorter "
            "side of what is left (the last rest is a square itself). How many squares does that give?",
            "A floor of {w} by {h} units is tiled greedily: each new square tile is as large as the free rectangle allows, and "
            "leaves a rectangle again or nothing. How many tiles are laid?",
        ),
        "count = 0\nwhile h:\n    count += w // h\n    w, h = h, w % h\nprint(count)",
        lambda w, h: sum(_quotients(w, h)),
        _cut_off,
        lambda w, h: 2 * len(_quotients(w, h)),
        sound=lambda w, h: sum(_quotients(w, h)) <= _MOST_SQUARES,
    ),
    Kind(
        "right triangles",
        {"c": ((40, 95), (96, 190), (191, 450), (451, 950), (951, 1_900))},
        (
            "How many right triangles have three sides of whole length, none longer than {c}? Congruent ones count once.",
            "Count the triples of positive whole numbers x < y < z with x^2 + y^2 = z^2 and z <= {c}.",
            "How many different right triangles with whole sides have a hypotenuse of at most {c}?",
        ),
        "from math import gcd, isqrt\ntotal = 0\nfor m in range(2, isqrt(c) + 1):\n    for n in range(1 + m % 2, m, 2):\n"
        "        if gcd(m, n) == 1:\n            total += c // (m * m + n * n)\nprint(total)",
        _by_generators,
        _by_hypotenuse,
        lambda c: c // 4,
    ),
)
