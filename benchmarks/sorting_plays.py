"""Sorting algorithms play without an environment: their exact means over all permutations of the items."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from math import fsum

from agent_envs.base.errors import UsageError
from agent_envs.envs.expa.sorting.algorithms import ALGORITHMS, Algorithm, able_sizes
from agent_envs.envs.expa.sorting.knowledge import least_swaps, sorted_order

Formula = Callable[..., float]


@dataclass(frozen=True, slots=True)
class Play:
    """An algorithm's play on one permutation: its moves, the final order, and whether that is sorted."""

    compares: int
    swaps: int
    order: tuple[int, ...]
    sorted: bool


@dataclass(frozen=True, slots=True)
class PlayRow:
    """An algorithm's exact figures over all permutations of its items."""

    mean_compares: Fraction
    mean_swaps: Fraction
    max_compares: int
    max_swaps: int
    all_sorted: bool
    permutations: int


def run(algorithm: Algorithm, values: tuple[int, ...], descending: bool = False) -> Play:
    """Run an algorithm on symbols with these values, from the order 0..n-1 on; return its calls, order and success."""
    order, calls = list(range(len(values))), Counter[str]()
    moves, answer = algorithm(len(values)), None
    while True:
        try:
            kind, one, other = moves.send(answer)
        except StopIteration:
            break
        calls[kind] += 1
        answer = None
        if kind == "compare":
            answer = (values[one] > values[other]) if descending else (values[one] < values[other])
        else:
            here, there = order.index(one), order.index(other)
            order[here], order[there] = other, one
    done = tuple(order) == sorted_order(values, descending)
    return Play(calls["compare"], calls["swap"], tuple(order), done)


def plays(name: str, n: int, descending: bool = False) -> Iterator[tuple[tuple[int, ...], Play]]:
    """Yield every permutation of n values and what the algorithm does with it.

    Raises UsageError: there is no algorithm of that name, or it is not for n items.
    """
    able = able_sizes(name)
    if n not in able:
        raise UsageError(f"sorting: {name} is for {able[0]} to {able[-1]} items, not {n}")
    for values in permutations(range(n)):
        yield values, run(ALGORITHMS[name], values, descending)


def exact(name: str, n: int, descending: bool = False) -> PlayRow:
    """Return an algorithm's exact means and worst cases over all permutations of n values."""
    outcomes = [play for _, play in plays(name, n, descending)]
    return PlayRow(
        mean_compares=Fraction(sum(play.compares for play in outcomes), len(outcomes)),
        mean_swaps=Fraction(sum(play.swaps for play in outcomes), len(outcomes)),
        max_compares=max(play.compares for play in outcomes),
        max_swaps=max(play.swaps for play in outcomes),
        all_sorted=all(play.sorted for play in outcomes),
        permutations=len(outcomes),
    )


def mean_reward(name: str, n: int, formula: Formula, descending: bool = False) -> float:
    """Return an algorithm's mean reward over all permutations of n values, by a formula of `rewards`."""
    paid = [
        formula(
            "sort", n, correct=play.sorted, compares=play.compares, swaps=play.swaps,
            least_swaps=least_swaps(values, descending),
        )
        for values, play in plays(name, n, descending)
    ]  # fmt: skip
    return fsum(paid) / len(paid)


def strata(n: int) -> dict[int, int]:
    """Count the permutations of n values by the fewest swaps that sort them."""
    return dict(sorted(Counter(least_swaps(values) for values in permutations(range(n))).items()))
