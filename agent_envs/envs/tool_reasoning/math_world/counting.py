"""Problems of counting ask for paths around obstacles, payments, words without runs, shares with a limit, distributions."""

import random
from collections.abc import Iterable
from math import comb

from agent_envs.envs.tool_reasoning.math_world.problem import Numbers, kind, listed

Point = tuple[int, int]


def _obstacles(rng: random.Random, level: int, numbers: Numbers) -> Numbers:
    w, h = numbers["w"], numbers["h"]
    blocked: set[Point] = set()
    while len(blocked) < level + 1:
        blocked.add((rng.randint(0, w), rng.randint(0, h)))
        blocked -= {(0, 0), (w, h)}
    return {"blocked": tuple(sorted(blocked))}


def _by_first_obstacle(w: int, h: int, blocked: tuple[Point, ...]) -> int:
    """Return the number of paths: all of them, less those that meet each obstacle first."""

    def paths(start: Point, end: Point) -> int:
        right, up = end[0] - start[0], end[1] - start[1]
        return comb(right + up, up) if right >= 0 and up >= 0 else 0

    clean: dict[Point, int] = {}
    for point in (*sorted(blocked, key=sum), (w, h)):
        clean[point] = paths((0, 0), point) - sum(count * paths(first, point) for first, count in clean.items())
    return clean[w, h]


def _points(points: Iterable[Point]) -> str:
    return listed([f"({x}, {y})" for x, y in points])


def _coins(rng: random.Random, level: int, numbers: Numbers) -> Numbers:
    count, largest = ((3, 9), (3, 12), (4, 20), (5, 30), (6, 50))[level - 1]
    return {"coins": tuple(sorted(rng.sample(range(2, largest + 1), count)))}


def _by_largest_first(n: int, coins: tuple[int, ...]) -> int:
    """Return the ways to pay by choosing how often each coin is used, the largest first."""
    left = {n: 1}
    for coin in reversed(coins[1:]):
        after: dict[int, int] = {}
        for amount, ways in left.items():
            for rest in range(amount, -1, -coin):
                after[rest] = after.get(rest, 0) + ways
        left = after
    return sum(ways for amount, ways in left.items() if amount % coins[0] == 0)


def _by_last_run(n: int, k: int, r: int) -> int:
    """Return the number of words by the recurrence that takes the whole last run away."""
    words = [0] * (n + 1)
    for length in range(1, n + 1):
        words[length] = (k - 1) * sum(words[max(length - r + 1, 1) : length]) + (k if length < r else 0)
    return words[n]


def _by_excess(n: int, k: int, c: int) -> int:
    """Return the ways to share by inclusion and exclusion over who gets too much."""
    rows = ((j, n - j * (c + 1)) for j in range(k + 1))
    return sum((-1) ** j * comb(k, j) * comb(rest + k - 1, k - 1) for j, rest in rows if rest >= 0)


def _by_empty_boxes(n: int, k: int) -> int:
    return sum((-1) ** j * comb(k, j) * (k - j) ** n for j in range(k + 1))


KINDS = (
    kind(
        "lattice paths",
        _by_first_obstacle,
        lambda w, h, blocked: w * h,
        more=_obstacles,
        shown=lambda w, h, blocked: {"points": _points(blocked)},
    ),
    kind(
        "payments",
        _by_largest_first,
        lambda n, coins: n * len(coins),
        more=_coins,
        shown=lambda n, coins: {"values": listed(list(coins))},
    ),
    kind("words without runs", _by_last_run, lambda n, k, r: n * r),
    kind("shares with a limit", _by_excess, lambda n, k, c: n * k, sound=lambda n, k, c: n <= k * c),
    kind("distributions", _by_empty_boxes, lambda n, k: n * k, sound=lambda n, k: n >= k),
)
