"""Problems of number theory ask for remainders of powers, divisors, coprime numbers, congruences, or sums of digits."""

import random
from itertools import combinations
from math import isqrt, prod

from agent_envs.envs.tool_reasoning.math_world.problem import Numbers, kind, listed


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
    return prod((p ** (k * (times + 1)) - 1) // (p**k - 1) for p, times in factors(n).items())


def _coprime_by_sieve(n: int, m: int) -> int:
    """Return the count by inclusion and exclusion over the primes of m."""
    primes = list(factors(m))
    return sum(
        (-1) ** size * (n // prod(chosen)) for size in range(len(primes) + 1) for chosen in combinations(primes, size)
    )


_MODULI = (7, 9, 11, 13, 16, 17, 19, 23, 25, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)


def _congruences(rng: random.Random, level: int, numbers: Numbers) -> Numbers:
    count, pool = ((2, 8), (3, 10), (3, 16), (4, 20), (5, 25))[level - 1]
    moduli = tuple(sorted(rng.sample(_MODULI[:pool], count)))
    return {"rest": tuple(rng.randrange(1, m) for m in moduli[2:]), "moduli": moduli}


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


_POWERS = {1: "all", 2: "the squares of all", 3: "the cubes of all"}

KINDS = (
    kind("power modulo", lambda a, e, m: pow(a, e, m), lambda a, e, m: 2 * e.bit_length() * len(str(m))),
    kind(
        "powers of divisors", _divisors_by_primes, lambda n, k: isqrt(n) * k, shown=lambda n, k: {"powers": _POWERS[k]}
    ),
    kind("coprime numbers", _coprime_by_sieve, lambda n, m: n),
    kind(
        "congruences", _by_inverses, lambda r, s, rest, moduli: sum(moduli), more=_congruences, shown=_congruence_text
    ),
    kind("sum of digits", _digits_of_text, lambda a, e: e * len(str(a))),
)
