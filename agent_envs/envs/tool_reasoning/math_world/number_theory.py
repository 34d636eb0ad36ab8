"""Problems of number theory ask for remainders of powers, divisors, coprime numbers, congruences, or sums of digits."""

import random
from itertools import combinations
from math import gcd, isqrt, prod

from agent_envs.envs.tool_reasoning.math_world.problem import Kind, Numbers, listed


def _power_by_digits(a: int, e: int, m: int) -> int:
    """Return a^e mod m by going through the decimal digits of the exponent."""
    value = 1 % m
    for digit in str(e):
        tenth = 1
        for _ in range(10):
            tenth = tenth * value % m
        value = tenth
        for _ in range(int(digit)):
            value = value * a % m
    return value


def _divisors_by_trial(n: int, k: int) -> int:
    total = 0
    for d in range(1, isqrt(n) + 1):
        if n % d == 0:
            total += d**k + ((n // d) ** k if d * d < n else 0)
    return total


def factors(n: int) -> dict[int, int]:
    """Return the prime factors of n >= 1 with their multiplicities."""
    found: dict[int, int] = {}
    p = 2
    while p * p <= n:
        while n % p == 0:
            found[p] = found.get(p, 0) + 1
            n //= p
        p += 1
    return found | ({n: 1} if n > 1 else {})


def _divisors_by_primes(n: int, k: int) -> int:
    return prod((p ** (k * (times + 1)) - 1) // (p**k - 1) for p, times in factors(n).items())


def _coprime_one_by_one(n: int, m: int) -> int:
    return sum(gcd(i, m) == 1 for i in range(1, n + 1))


def _coprime_by_sieve(n: int, m: int) -> int:
    """Return the same by inclusion and exclusion over the primes of m."""
    primes = list(factors(m))
    return sum(
        (-1) ** size * (n // prod(chosen)) for size in range(len(primes) + 1) for chosen in combinations(primes, size)
    )


_MODULI = (7, 9, 11, 13, 16, 17, 19, 23, 25, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)


def _congruences(rng: random.Random, level: int, numbers: Numbers) -> Numbers:
    count, pool = ((2, 8), (3, 10), (3, 16), (4, 20), (5, 25))[level - 1]
    moduli = tuple(sorted(rng.sample(_MODULI[:pool], count)))
    return {"rest": tuple(rng.randrange(1, m) for m in moduli[2:]), "moduli": moduli}


def _by_steps(r: int, s: int, rest: tuple[int, ...], moduli: tuple[int, ...]) -> int:
    """Return the least x >= 0 of a system of congruences by stepping to it, one congruence after the other."""
    x, step = 0, 1
    for residue, modulus in zip((r, s, *rest), moduli, strict=True):
        while (x - residue) % modulus:
            x += step
        step *= modulus
    return x


def _by_inverses(r: int, s: int, rest: tuple[int, ...], moduli: tuple[int, ...]) -> int:
    whole = prod(moduli)
    parts = (
        residue * (whole // modulus) * pow(whole // modulus, -1, modulus)
        for residue, modulus in zip((r, s, *rest), moduli, strict=True)
    )
    return sum(parts) % whole


def _congruence_text(r: int, s: int, rest: tuple[int, ...], moduli: tuple[int, ...]) -> dict[str, str]:
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


def _digits_of_text(a: int, e: int) -> int:
    return sum(map(int, str(a**e)))


def _digits_in_blocks(a: int, e: int) -> int:
    """Return the sum of digits of a^e, multiplied out in blocks of eighteen digits."""
    blocks = [1]
    for _ in range(e):
        carry = 0
        for place, block in enumerate(blocks):
            carry, blocks[place] = divmod(block * a + carry, 10**18)
        if carry:
            blocks.append(carry)
    total = 0
    for block in blocks:
        while block:
            block, digit = divmod(block, 10)
            total += digit
    return total


_POWERS = {1: "all", 2: "the squares of all", 3: "the cubes of all"}

KINDS = (
    Kind(
        "power modulo",
        {
            "a": ((3, 19), (7, 40), (11, 99), (13, 500), (17, 999)),
            "e": ((12, 30), (40, 120), (200, 900), (1_000, 50_000), (100_000, 10_000_000)),
            "m": ((31, 80), (90, 300), (301, 999), (1_000, 9_999), (10_007, 99_999)),
        },
        (
            "What is the remainder when a^e is divided by m, for a = {a}, e = {e} and m = {m}?",
            "Find the remainder that {a} to the power of {e} leaves on division by {m}.",
            "Which number from 0 up to, but not including, {m} is congruent to {a}^{e} modulo {m}?",
        ),
        "print(pow(a, e, m))",
        lambda a, e, m: pow(a, e, m),
        _power_by_digits,
        lambda a, e, m: 2 * e.bit_length() * len(str(m)),
    ),
    Kind(
        "powers of divisors",
        {
            "n": ((60, 400), (401, 3_000), (3_001, 30_000), (30_001, 300_000), (300_001, 3_000_000)),
            "k": ((1, 1), (1, 1), (2, 2), (2, 2), (3, 3)),
        },
        (
            "Add up {powers} positive divisors of {n}, 1 and {n} included. What is the sum?",
            "What do {powers} positive divisors of {n} (itself among them) sum to?",
            "Find the sum of {powers} positive whole numbers that divide {n} without remainder.",
        ),
        "total = 0\nd = 1\nwhile d * d <= n:\n    if n % d == 0:\n        total += d ** k\n"
        "        if d * d < n:\n            total += (n // d) ** k\n    d += 1\nprint(total)",
        _divisors_by_trial,
        _divisors_by_primes,
        lambda n, k: isqrt(n) * k,
        shown=lambda n, k: {"powers": _POWERS[k]},
    ),
    Kind(
        "coprime numbers",
        {
            "n": ((60, 200), (201, 900), (901, 4_000), (4_001, 12_000), (12_001, 40_000)),
            "m": ((12, 60), (30, 200), (60, 700), (200, 3_000), (1_000, 30_000)),
        },
        (
            "How many of the whole numbers from 1 to {n} have no prime factor in common with {m}?",
            "Count the integers i with 1 <= i <= {n} whose greatest common divisor with {m} is 1.",
            "Among the first {n} positive integers, how many are coprime to {m}?",
        ),
        "from math import gcd\nprint(sum(1 for i in range(1, n + 1) if gcd(i, m) == 1))",
        _coprime_one_by_one,
        _coprime_by_sieve,
        lambda n, m: n,
    ),
    Kind(
        "congruences",
        {
            "r": ((1, 40), (1, 90), (10, 400), (20, 900), (50, 5_000)),
            "s": ((1, 40), (1, 90), (10, 400), (20, 900), (50, 5_000)),
        },
        (
            "Find the smallest whole number x >= 0 such that x - {r} is divisible by {m1} and x - {s} by {m2}{also}.",
            "What is the least x >= 0 that leaves the same remainder as {r} on division by {m1}, the same remainder as {s} "
            "on division by {m2}{more}?",
            "A whole number x >= 0 is congruent to {r} modulo {m1}, to {s} modulo {m2}{further}. How small can x be?",
        ),
        "x, step = 0, 1\nfor residue, modulus in zip((r, s) + rest, moduli):\n    while (x - residue) % modulus:\n"
        "        x += step\n    step *= modulus\nprint(x)",
        _by_steps,
        _by_inverses,
        lambda r, s, rest, moduli: sum(moduli),
        more=_congruences,
        shown=_congruence_text,
    ),
    Kind(
        "sum of digits",
        {
            "a": ((3, 19), (7, 29), (11, 49), (13, 69), (17, 99)),
            "e": ((10, 20), (25, 60), (70, 180), (200, 500), (600, 1_200)),
        },
        (
            "What is the sum of the decimal digits of {a}^{e}?",
            "Write out {a} to the power of {e} in full and add its digits. What do you get?",
            "Find the digit sum, in base ten, of the number {a}^{e}.",
        ),
        "print(sum(int(digit) for digit in str(a ** e)))",
        _digits_of_text,
        _digits_in_blocks,
        lambda a, e: e * len(str(a)),
    ),
)
