"""Problems of five subjects: algebra, sequences, geometry, counting and number theory, each with the answer by its own way.

What they ask in words, the spans of their numbers and the code of their solutions stand in kinds.json.
"""

import random
from fractions import Fraction
from itertools import combinations
from math import comb, gcd, isqrt, prod

from agent_envs.envs.tool_reasoning.math_world.problem import Numbers, ProblemKind, kind, listed

Point = tuple[int, int]
_MOST_SQUARES = 5_000
_MODULI = (7, 9, 11, 13, 16, 17, 19, 23, 25, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)
_POWERS = {1: "all", 2: "the squares of all", 3: "the cubes of all"}


def _polynomial(rng: random.Random, level: int, numbers: Numbers) -> Numbers:
    """Draw coefficients, the constant first; the highest is positive."""
    degree, size = (3, 4, 5, 7, 9)[level - 1], (9, 9, 12, 20, 30)[level - 1]
    lower = [rng.randint(-size, size) for _ in range(degree)]
    return {"coefficients": (*lower, rng.randint(1, size))}


def _horner(x: int, coefficients: tuple[int, ...]) -> int:
    """Return the value of a polynomial at x, its coefficients from the constant on."""
    value = 0
    for coefficient in reversed(coefficients):
        value = value * x + coefficient
    return value


def _polynomial_text(x: int, coefficients: tuple[int, ...]) -> dict[str, str]:
    """Return {"coefficients": the polynomial in x as text}, the highest power first, terms of 0 left out."""
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
    """Draw the remaining terms, more and larger ones at a higher level."""
    size = (9, 15, 40, 60, 99)[level - 1]
    return {"rest": tuple(rng.randint(2, size) for _ in range((1, 3, 5, 8, 12)[level - 1]))}


def _convergent(a: int, b: int, c: int, rest: tuple[int, ...]) -> Fraction:
    """Return the last convergent of the continued fraction a, b, c, ..., by the recurrence from the front."""
    top, above, bottom, below = 1, 0, 0, 1
    for term in (a, b, c, *rest):
        top, above = term * top + above, top
        bottom, below = term * bottom + below, bottom
    return Fraction(top, bottom)


def _multinomial(a: int, b: int, n: int, k: int) -> int:
    """Return the coefficient of x^k in (1 + ax + bx^2)^n, as a sum over how often the square is taken."""
    return sum(comb(n, j) * comb(n - j, k - 2 * j) * b**j * a ** (k - 2 * j) for j in range(k // 2 + 1))


_ALGEBRA = (
    kind(
        "polynomial value",
        _horner,
        lambda x, coefficients: 2 * len(coefficients) * len(str(x)),
        more=_polynomial,
        texts=_polynomial_text,
    ),
    kind("powers of roots", _waring, lambda s, q, n: 3 * n),
    kind(
        "continued fraction",
        _convergent,
        lambda a, b, c, rest: 2 * (3 + len(rest)),
        more=_rest_of_terms,
        texts=lambda a, b, c, rest: {"rest": ", ".join(map(str, rest))},
    ),
    kind("coefficient of a power", _multinomial, lambda a, b, n, k: n * k, sound=lambda a, b, n, k: k <= 2 * n),
)


def _term_after_term(a: int, b: int, p: int, q: int, n: int, m: int) -> int:
    """Return term n of the linear recurrence p * b + q * a modulo m, one term after the other."""
    for _ in range(n):
        a, b = b, (p * b + q * a) % m
    return a % m


def _iterate(x: int, c: int, m: int, n: int) -> int:
    """Return x after n steps of x * x + c modulo m."""
    for _ in range(n):
        x = (x * x + c) % m
    return x


def _collatz(n: int) -> int:
    """Return the number of steps of the Collatz rule from n >= 1 to 1."""
    count = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    return count


def _whole_parts(n: int, a: int, b: int) -> int:
    """Return the sum of the whole parts of ka / b for k from 1 to n."""
    return sum(k * a // b for k in range(1, n + 1))


_SEQUENCES = (
    kind("linear recurrence", _term_after_term, lambda a, b, p, q, n, m: 3 * n),
    kind("iterated square", _iterate, lambda x, c, m, n: 3 * n),
    kind("3n + 1", _collatz, _collatz),
    kind("sum of whole parts", _whole_parts, lambda n, a, b: n, sound=lambda n, a, b: a % b != 0),
)


def _skyline(rng: random.Random, level: int, numbers: Numbers) -> Numbers:
    """Draw the corners' places along the axis, and the heights of all but three."""
    corners, size = ((3, 12), (4, 25), (6, 60), (9, 200), (13, 500))[level - 1]
    places = tuple(sorted(rng.sample(range(1, size), corners + 1)))
    return {"places": places, "heights": tuple(rng.randint(1, size) for _ in range(corners - 3))}


def _shoelace(a: int, b: int, c: int, places: tuple[int, ...], heights: tuple[int, ...]) -> Fraction:
    """Return the area of the polygon from (0, 0) over these corners, by the shoelace formula."""
    corners = [(0, 0), *zip(places, (a, b, c, *heights, 0), strict=True)]
    pairs = zip(corners, corners[1:] + corners[:1], strict=True)
    return Fraction(abs(sum(x * v - u * y for (x, y), (u, v) in pairs)), 2)


def _skyline_text(a: int, b: int, c: int, places: tuple[int, ...], heights: tuple[int, ...]) -> dict[str, str]:
    """Return the texts of a skyline: its first three places, and the other corners as a list."""
    rest = [f"({place}, {height})" for place, height in zip(places[3:], (*heights, 0), strict=True)]
    return {"x1": str(places[0]), "x2": str(places[1]), "x3": str(places[2]), "rest": ", ".join(rest)}


def _by_jacobi(n: int) -> int:
    """Return the points in a circle from Jacobi's count of the ways to write a number as two squares."""
    return 1 + 4 * sum(n // i - n // (i + 2) for i in range(1, n + 1, 4))


def _twice_area(a: int, b: int, c: int, d: int) -> int:
    """Return twice the area of the triangle with corners at 0, (a, b) and (c, d)."""
    return abs(a * d - b * c)


def _by_pick(a: int, b: int, c: int, d: int) -> int:
    """Return the number of points within that triangle, from its area and border by Pick's theorem."""
    border = gcd(a, b) + gcd(c, d) + gcd(a - c, b - d)
    return (_twice_area(a, b, c, d) - border + 2) // 2


def _quotients(w: int, h: int) -> list[int]:
    """Return the quotients of the continued fraction of w / h; [] for h = 0."""
    quotients = []
    while h:
        quotients.append(w // h)
        w, h = h, w % h
    return quotients


def _by_generators(c: int) -> int:
    """Count the right triangles with whole sides and a hypotenuse of at most c, from Euclid's generators."""
    total = 0
    for m in range(2, isqrt(c) + 1):
        for n in range(1 + m % 2, m, 2):
            if gcd(m, n) == 1:
                total += c // (m * m + n * n)
    return total


_GEOMETRY = (
    kind(
        "area under a line",
        _shoelace,
        lambda a, b, c, places, heights: 4 * len(places),
        more=_skyline,
        texts=_skyline_text,
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


def _obstacles(rng: random.Random, level: int, numbers: Numbers) -> Numbers:
    """Draw `level` + 1 different points of the grid, neither the first corner nor the last, sorted."""
    w, h = numbers["w"], numbers["h"]
    blocked: set[Point] = set()
    while len(blocked) < level + 1:
        blocked.add((rng.randint(0, w), rng.randint(0, h)))
        blocked -= {(0, 0), (w, h)}
    return {"blocked": tuple(sorted(blocked))}


def _by_first_obstacle(w: int, h: int, blocked: tuple[Point, ...]) -> int:
    """Return the number of paths to (w, h) that meet no obstacle: all, less those that meet each obstacle first."""

    def paths(start: Point, end: Point) -> int:
        """Return the number of lattice paths that go right and up from one point to another; 0 if it lies left or below."""
        right, up = end[0] - start[0], end[1] - start[1]
        return comb(right + up, up) if right >= 0 and up >= 0 else 0

    clean: dict[Point, int] = {}
    for point in (*sorted(blocked, key=sum), (w, h)):
        clean[point] = paths((0, 0), point) - sum(count * paths(first, point) for first, count in clean.items())
    return clean[w, h]


def _coins(rng: random.Random, level: int, numbers: Numbers) -> Numbers:
    """Draw the values of coins, rising, more and larger ones at a higher level."""
    count, largest = ((3, 9), (3, 12), (4, 20), (5, 30), (6, 50))[level - 1]
    return {"coins": tuple(sorted(rng.sample(range(2, largest + 1), count)))}


def _by_largest_first(n: int, coins: tuple[int, ...]) -> int:
    """Return the number of ways to pay n by choosing how often each coin is used, the largest first."""
    left = {n: 1}
    for coin in reversed(coins[1:]):
        after: dict[int, int] = {}
        for amount, ways in left.items():
            for rest in range(amount, -1, -coin):
                after[rest] = after.get(rest, 0) + ways
        left = after
    return sum(ways for amount, ways in left.items() if amount % coins[0] == 0)


def _by_last_run(n: int, k: int, r: int) -> int:
    """Return the number of words of n letters of k without a run of r, by taking the whole last run away."""
    words = [0] * (n + 1)
    for length in range(1, n + 1):
        words[length] = (k - 1) * sum(words[max(length - r + 1, 1) : length]) + (k if length < r else 0)
    return words[n]


def _by_excess(n: int, k: int, c: int) -> int:
    """Return the ways to share by inclusion and exclusion over who gets too much."""
    rows = ((j, n - j * (c + 1)) for j in range(k + 1))
    return sum((-1) ** j * comb(k, j) * comb(rest + k - 1, k - 1) for j, rest in rows if rest >= 0)


def _by_empty_boxes(n: int, k: int) -> int:
    """Return the ways to fill k boxes with n things, none left empty, by inclusion and exclusion."""
    return sum((-1) ** j * comb(k, j) * (k - j) ** n for j in range(k + 1))


_COUNTING = (
    kind(
        "lattice paths",
        _by_first_obstacle,
        lambda w, h, blocked: w * h,
        more=_obstacles,
        texts=lambda w, h, blocked: {"points": listed([f"({x}, {y})" for x, y in blocked])},
    ),
    kind(
        "payments",
        _by_largest_first,
        lambda n, coins: n * len(coins),
        more=_coins,
        texts=lambda n, coins: {"values": listed(list(coins))},
    ),
    kind("words without runs", _by_last_run, lambda n, k, r: n * r),
    kind("shares with a limit", _by_excess, lambda n, k, c: n * k, sound=lambda n, k, c: n <= k * c),
    kind("distributions", _by_empty_boxes, lambda n, k: n * k, sound=lambda n, k: n >= k),
)


def factors(n: int) -> dict[int, int]:
    """Return the prime factors of n >= 1 with their multiplicities."""
    primes: dict[int, int] = {}
    p = 2
    while p * p <= n:
        while n % p == 0:
            primes[p] = primes.get(p, 0) + 1
            n //= p
        p += 1
    return primes | ({n: 1} if n > 1 else {})


def _divisors_by_primes(n: int, k: int) -> int:
    """Return the sum of the k-th powers of n's divisors, from its prime factors."""
    return prod((p ** (k * (times + 1)) - 1) // (p**k - 1) for p, times in factors(n).items())


def _coprime_by_sieve(n: int, m: int) -> int:
    """Return the count of numbers to n without a common divisor with m, by inclusion and exclusion over m's primes."""
    primes = list(factors(m))
    return sum(
        (-1) ** size * (n // prod(divisors))
        for size in range(len(primes) + 1)
        for divisors in combinations(primes, size)
    )


def _congruences(rng: random.Random, level: int, numbers: Numbers) -> Numbers:
    """Draw moduli, and the remainders by all but the first two."""
    count, pool = ((2, 8), (3, 10), (3, 16), (4, 20), (5, 25))[level - 1]
    moduli = tuple(sorted(rng.sample(_MODULI[:pool], count)))
    return {"rest": tuple(rng.randrange(1, m) for m in moduli[2:]), "moduli": moduli}


def _by_inverses(r: int, s: int, rest: tuple[int, ...], moduli: tuple[int, ...]) -> int:
    """Return the least number >= 0 with these remainders, by the Chinese remainder theorem; moduli must be coprime."""
    whole = prod(moduli)
    parts = (
        residue * (whole // modulus) * pow(whole // modulus, -1, modulus)
        for residue, modulus in zip((r, s, *rest), moduli, strict=True)
    )
    return sum(parts) % whole


def _congruence_text(r: int, s: int, rest: tuple[int, ...], moduli: tuple[int, ...]) -> dict[str, str]:
    """Return the slots m1, m2 for the first two moduli, and also, more, further for any further ones ("" without)."""
    pairs = [f"{residue} modulo {modulus}" for residue, modulus in zip(rest, moduli[2:], strict=True)]
    rows = [f" and x - {residue} by {modulus}" for residue, modulus in zip(rest, moduli[2:], strict=True)]
    more = [f"the remainder {row}" for row in pairs]
    return {
        "m1": str(moduli[0]),
        "m2": str(moduli[1]),
        "also": "".join(rows),
        "more": f" and {listed(more)}" if more else "",
        "further": "".join(f" and to {row}" for row in pairs),
    }


_NUMBER_THEORY = (
    kind("power modulo", lambda a, e, m: pow(a, e, m), lambda a, e, m: 2 * e.bit_length() * len(str(m))),
    kind(
        "powers of divisors", _divisors_by_primes, lambda n, k: isqrt(n) * k, texts=lambda n, k: {"powers": _POWERS[k]}
    ),
    kind("coprime numbers", _coprime_by_sieve, lambda n, m: n),
    kind(
        "congruences", _by_inverses, lambda r, s, rest, moduli: sum(moduli), more=_congruences, texts=_congruence_text
    ),
    kind("sum of digits", lambda a, e: sum(map(int, str(a**e))), lambda a, e: e * len(str(a))),
)

KINDS: dict[str, tuple[ProblemKind, ...]] = {
    "algebra": _ALGEBRA,
    "number theory": _NUMBER_THEORY,
    "counting": _COUNTING,
    "sequences": _SEQUENCES,
    "geometry": _GEOMETRY,
}
