"""The problems of math_world once more, from their numbers, by trying everything: slow, plain, and shared with nothing."""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import gcd, hypot
from typing import Any


def polynomial_value(x: int, coefficients: tuple[int, ...]) -> int:
    total, power = 0, 1
    for coefficient in coefficients:
        total += coefficient * power
        power *= x
    return total


def powers_of_roots(s: int, q: int, n: int) -> int:
    """The power as an exact number a + b w with w = sqrt(s^2 - 4 q); the roots are conjugate."""
    d = s * s - 4 * q
    a, b = Fraction(1), Fraction(0)
    for _ in range(n):
        a, b = a * s / 2 + b * d / 2, a / 2 + b * s / 2
    return int(2 * a)


def continued_fraction(a: int, b: int, c: int, rest: tuple[int, ...]) -> Fraction:
    def value(terms: tuple[int, ...]) -> Fraction:
        return Fraction(terms[0]) + (1 / value(terms[1:]) if terms[1:] else 0)

    return value((a, b, c, *rest))


def coefficient_of_a_power(a: int, b: int, n: int, k: int) -> int:
    return sum(
        a ** choice.count(1) * b ** choice.count(2) for choice in product(range(3), repeat=n) if sum(choice) == k
    )


def power_modulo(a: int, e: int, m: int) -> int:
    value = 1
    for _ in range(e):
        value = value * a % m
    return value


def powers_of_divisors(n: int, k: int) -> int:
    return sum(d**k for d in range(1, n + 1) if n % d == 0)


def coprime_numbers(n: int, m: int) -> int:
    divisors = [d for d in range(2, m + 1) if m % d == 0]
    return sum(all(i % d for d in divisors) for i in range(1, n + 1))


def congruences(r: int, s: int, rest: tuple[int, ...], moduli: tuple[int, ...]) -> int:
    x = 0
    while any((x - residue) % modulus for residue, modulus in zip((r, s, *rest), moduli, strict=True)):
        x += 1
    return x


def sum_of_digits(a: int, e: int) -> int:
    number, total = a**e, 0
    while number:
        total += number % 10
        number //= 10
    return total


def lattice_paths(w: int, h: int, blocked: tuple[tuple[int, int], ...]) -> int:
    def walk(x: int, y: int) -> int:
        if x > w or y > h or (x, y) in blocked:
            return 0
        return 1 if (x, y) == (w, h) else walk(x + 1, y) + walk(x, y + 1)

    return walk(0, 0)


def payments(n: int, coins: tuple[int, ...]) -> int:
    return sum(
        sum(count * coin for count, coin in zip(counts, coins, strict=True)) == n
        for counts in product(*(range(n // coin + 1) for coin in coins))
    )


def words_without_runs(n: int, k: int, r: int) -> int:
    def grow(word: tuple[int, ...]) -> int:
        if len(word) >= r and len(set(word[-r:])) == 1:
            return 0
        return 1 if len(word) == n else sum(grow((*word, letter)) for letter in range(k))

    return k * grow((0,))


def shares_with_a_limit(n: int, k: int, c: int) -> int:
    return sum(sum(share) == n for share in product(range(c + 1), repeat=k))


def distributions(n: int, k: int) -> int:
    return sum(len(set(choice)) == k for choice in product(range(k), repeat=n))


def linear_recurrence(a: int, b: int, p: int, q: int, n: int, m: int) -> int:
    terms = [a, b]
    while len(terms) <= n:
        terms.append(p * terms[-1] + q * terms[-2])
    return terms[n] % m


def iterated_square(x: int, c: int, m: int, n: int) -> int:
    return x if n == 0 else iterated_square((x**2 + c) % m, c, m, n - 1)


def three_n_plus_one(n: int) -> int:
    return 0 if n == 1 else 1 + three_n_plus_one(3 * n + 1 if n % 2 else n // 2)


def sum_of_whole_parts(n: int, a: int, b: int) -> int:
    return sum(int(Fraction(k * a, b)) for k in range(1, n + 1))


def area_under_a_line(a: int, b: int, c: int, places: tuple[int, ...], heights: tuple[int, ...]) -> Fraction:
    """Exact, from values at the ends of unit strips, in which the line is straight."""
    corners = [(0, 0), *zip(places, (a, b, c, *heights, 0), strict=True)]

    def height(x: int) -> Fraction:
        for (x1, y1), (x2, y2) in zip(corners, corners[1:], strict=False):
            if x1 <= x <= x2:
                return y1 + Fraction((y2 - y1) * (x - x1), x2 - x1)
        raise AssertionError(x)

    return sum(((height(x) + height(x + 1)) / 2 for x in range(places[-1])), start=Fraction(0))


def points_in_a_circle(n: int) -> int:
    side = range(-int(n**0.5) - 1, int(n**0.5) + 2)
    return sum(x * x + y * y <= n for x in side for y in side)


def points_in_a_triangle(a: int, b: int, c: int, d: int) -> int:
    def side(px: int, py: int, x1: int, y1: int, x2: int, y2: int) -> int:
        value = (x2 - x1) * (py - y1) - (y2 - y1) * (px - x1)
        return (value > 0) - (value < 0)

    count = 0
    for x, y in product(range(max(a, c) + 1), range(max(b, d) + 1)):
        sides = {side(x, y, 0, 0, a, b), side(x, y, a, b, c, d), side(x, y, c, d, 0, 0)}
        count += len(sides) == 1 and 0 not in sides
    return count


def squares_in_a_sheet(w: int, h: int) -> int:
    if 0 in (w, h):
        return 0
    return 1 + squares_in_a_sheet(max(w, h) - min(w, h), min(w, h))


def right_triangles(c: int) -> int:
    return sum(
        hypot(x, y).is_integer() and x * x + y * y <= c * c and gcd(x, y) > 0 for x in range(1, c) for y in range(x, c)
    )


BRUTE_FORCE: dict[str, Callable[..., Any]] = {
    "polynomial value": polynomial_value,
    "powers of roots": powers_of_roots,
    "continued fraction": continued_fraction,
    "coefficient of a power": coefficient_of_a_power,
    "power modulo": power_modulo,
    "powers of divisors": powers_of_divisors,
    "coprime numbers": coprime_numbers,
    "congruences": congruences,
    "sum of digits": sum_of_digits,
    "lattice paths": lattice_paths,
    "payments": payments,
    "words without runs": words_without_runs,
    "shares with a limit": shares_with_a_limit,
    "distributions": distributions,
    "linear recurrence": linear_recurrence,
    "iterated square": iterated_square,
    "3n + 1": three_n_plus_one,
    "sum of whole parts": sum_of_whole_parts,
    "area under a line": area_under_a_line,
    "points in a circle": points_in_a_circle,
    "points in a triangle": points_in_a_triangle,
    "squares in a sheet": squares_in_a_sheet,
    "right triangles": right_triangles,
}
