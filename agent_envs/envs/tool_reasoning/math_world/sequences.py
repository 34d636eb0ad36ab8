"""Problems of sequences ask about recurrences, iterated maps, the 3n + 1 rule, or sums of whole parts."""

from agent_envs.envs.tool_reasoning.math_world.problem import kind


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
    kind("linear recurrence", _term_after_term, _by_matrix, lambda a, b, p, q, n, m: 3 * n),
    kind("iterated square", _iterated, _by_cycle, lambda x, c, m, n: 3 * n),
    kind("3n + 1", _collatz, _collatz_in_leaps, _collatz),
    kind("sum of whole parts", _whole_parts, _under_the_line, lambda n, a, b: n, sound=lambda n, a, b: a % b != 0),
)
