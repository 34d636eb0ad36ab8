"""Problems of sequences ask about recurrences, iterated maps, the 3n + 1 rule, or sums of whole parts."""

from agent_envs.envs.tool_reasoning.math_world.problem import kind


def _term_after_term(a: int, b: int, p: int, q: int, n: int, m: int) -> int:
    for _ in range(n):
        a, b = b, (p * b + q * a) % m
    return a % m


def _iterated(x: int, c: int, m: int, n: int) -> int:
    for _ in range(n):
        x = (x * x + c) % m
    return x


def _collatz(n: int) -> int:
    count = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    return count


def _whole_parts(n: int, a: int, b: int) -> int:
    return sum(k * a // b for k in range(1, n + 1))


KINDS = (
    kind("linear recurrence", _term_after_term, lambda a, b, p, q, n, m: 3 * n),
    kind("iterated square", _iterated, lambda x, c, m, n: 3 * n),
    kind("3n + 1", _collatz, _collatz),
    kind("sum of whole parts", _whole_parts, lambda n, a, b: n, sound=lambda n, a, b: a % b != 0),
)
