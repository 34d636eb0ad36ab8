"""Problems of sequences ask about recurrences, iterated maps, the 3n + 1 rule, or sums of whole parts."""

from agent_envs.envs.tool_reasoning.math_world.problem import Kind


def _term_after_term(a: int, b: int, p: int, q: int, n: int, m: int) -> int:
    for _ in range(n):
        a, b = b, (p * b + q * a) % m
    return a % m


def _by_matrix(a: int, b: int, p: int, q: int, n: int, m: int) -> int:
    """Return the same by squaring the matrix of the recurrence."""
    square, power = (p, q, 1, 0), (1, 0, 0, 1)
    while n:
        if n % 2:
            power = _product(power, square, m)
        square, n = _product(square, square, m), n // 2
    return (power[2] * b + power[3] * a) % m


def _product(one: tuple[int, ...], other: tuple[int, ...], m: int) -> tuple[int, int, int, int]:
    a, b, c, d = one
    e, f, g, h = other
    return (a * e + b * g) % m, (a * f + b * h) % m, (c * e + d * g) % m, (c * f + d * h) % m


def _iterated(x: int, c: int, m: int, n: int) -> int:
    for _ in range(n):
        x = (x * x + c) % m
    return x


def _by_cycle(x: int, c: int, m: int, n: int) -> int:
    """Return the same by finding where the values repeat."""
    places: dict[int, int] = {}
    values: list[int] = []
    while x not in places:
        places[x] = len(values)
        values.append(x)
        x = (x * x + c) % m
    start = places[x]
    return values[n] if n < len(values) else values[start + (n - start) % (len(values) - start)]


def _collatz(n: int) -> int:
    count = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    return count


def _collatz_in_leaps(n: int) -> int:
    """Return the same, all halvings after one another in one leap."""
    count = (n & -n).bit_length() - 1
    n >>= count
    while n > 1:
        n = 3 * n + 1
        zeros = (n & -n).bit_length() - 1
        count, n = count + 1 + zeros, n >> zeros
    return count


def _whole_parts(n: int, a: int, b: int) -> int:
    return sum(k * a // b for k in range(1, n + 1))


def _under_the_line(n: int, a: int, b: int) -> int:
    """Return the same in the manner of Euclid's algorithm: lattice points under a line, turned over and over."""
    total, sign, shift = 0, 1, 0
    count = n + 1  # the sum of (a k + shift) // b for k from 0 to n
    while count > 0:
        total += sign * ((a // b) * count * (count - 1) // 2 + (shift // b) * count)
        a, shift = a % b, shift % b
        top = (a * (count - 1) + shift) // b
        total += sign * top * (count - 1)
        # what is left counts the other way: sum of (b j + b - shift - 1) // a for j below top
        sign, count, a, b, shift = -sign, top, b, a, b - shift - 1
    return total


KINDS = (
    Kind(
        "linear recurrence",
        {
            "a": ((1, 9), (1, 30), (1, 99), (1, 99), (1, 99)),
            "b": ((1, 9), (1, 30), (1, 99), (1, 99), (1, 99)),
            "p": ((2, 3), (2, 5), (2, 7), (2, 9), (2, 9)),
            "q": ((2, 3), (2, 5), (2, 7), (2, 9), (2, 9)),
            "n": ((8, 14), (20, 50), (80, 300), (500, 2_000), (3_000, 9_000)),
            "m": ((97, 180), (190, 999), (1_000, 4_999), (5_000, 19_999), (20_000, 99_999)),
        },
        (
            "A sequence starts with a_0 = {a} and a_1 = {b} and goes on by a_(k+1) = {p} a_k + {q} a_(k-1). What is the "
            "remainder of a_n on division by m, for n = {n} and m = {m}?",
            "Let f(0) = {a}, f(1) = {b} and f(k) = {p} f(k-1) + {q} f(k-2) for k >= 2. Find f({n}) modulo {m}.",
            "Each term of a sequence is {p} times the term before it plus {q} times the one before that; terms number 0 and 1 "
            "are {a} and {b}. Which remainder does term number {n} leave when divided by {m}?",
        ),
        "for i in range(n):\n    a, b = b, (p * b + q * a) % m\nprint(a % m)",
        _term_after_term,
        _by_matrix,
        lambda a, b, p, q, n, m: 3 * n,
    ),
    Kind(
        "iterated square",
        {
            "x": ((2, 20), (2, 80), (2, 300), (2, 999), (2, 9_999)),
            "c": ((1, 20), (1, 80), (1, 300), (1, 999), (1, 9_999)),
            "m": ((90, 180), (181, 600), (601, 2_000), (2_001, 8_000), (8_001, 30_000)),
            "n": ((6, 12), (15, 40), (60, 200), (300, 1_200), (2_000, 8_000)),
        },
        (
            "Start with {x}. One step replaces a number z by the remainder of z^2 + {c} on division by {m}. Which number is "
            "there after {n} steps?",
            "Let x_0 = {x} and x_(k+1) = (x_k^2 + {c}) mod {m}. What is x_n for n = {n}?",
            "A machine squares the number it is fed, adds {c}, divides by {m} and puts out the remainder, which is fed in "
            "again. It is started with {x}. What is its output number {n}?",
        ),
        "for i in range(n):\n    x = (x * x + c) % m\nprint(x)",
        _iterated,
        _by_cycle,
        lambda x, c, m, n: 3 * n,
    ),
    Kind(
        "3n + 1",
        {
            "n": (
                (20, 80),
                (200, 900),
                (5_000, 40_000),
                (1_000_000, 9_999_999),
                (10_000_000_000, 99_999_999_999),
            )
        },
        (
            "Take {n}. Halve it if it is even; if it is odd, triple it and add 1. How many such steps lead to 1 for the first "
            "time?",
            "Under the rule z -> z/2 for even z and z -> 3z + 1 for odd z, after how many steps does {n} first arrive at 1?",
            "Count the steps of the 3z + 1 procedure (even numbers are halved) from {n} down to 1.",
        ),
        "count = 0\nwhile n != 1:\n    n = n // 2 if n % 2 == 0 else 3 * n + 1\n    count += 1\nprint(count)",
        _collatz,
        _collatz_in_leaps,
        _collatz,
    ),
    Kind(
        "sum of whole parts",
        {
            "n": ((8, 15), (20, 60), (100, 400), (500, 2_000), (3_000, 9_000)),
            "a": ((5, 40), (11, 99), (50, 500), (100, 999), (500, 5_000)),
            "b": ((3, 20), (7, 60), (11, 99), (50, 500), (99, 999)),
        },
        (
            "Let [t] be the largest whole number that is not above t. What is the sum of [k a / b] over k = 1, 2, ..., {n}, "
            "with a = {a} and b = {b}?",
            "For k from 1 to {n}, divide {a} times k by {b} and drop the remainder. What do the quotients add up to?",
            "Compute the sum of floor({a} k / {b}) for all whole k with 1 <= k <= {n}.",
        ),
        "print(sum(k * a // b for k in range(1, n + 1)))",
        _whole_parts,
        _under_the_line,
        lambda n, a, b: n,
        sound=lambda n, a, b: a % b != 0,
    ),
)
