"""Every figure of the reference algorithms, exact over all permutations."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, permutations

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.envs.expa.sorting.algorithms import ALGORITHMS, able_sizes
from agent_envs.envs.expa.sorting.knowledge import closure, least_swaps
from benchmarks.sorting_plays import exact, plays, run, strata

EACH = [(name, n) for name in ALGORITHMS for n in able_sizes(name) if n <= 6]
FIGURES = [
    # algorithm, items, comparisons and swaps in the mean, most comparisons
    ("optimal", 2, "1", "1/2", 1),
    ("optimal", 3, "16/6", "7/6", 3),
    ("optimal", 4, "112/24", "46/24", 5),
    ("optimal", 5, "832/120", "326/120", 7),
    ("insertion", 4, "118/24", "3", 6),
    ("insertion", 5, "926/120", "5", 10),
    ("binary-insertion", 4, "112/24", "3", 5),
    ("binary-insertion", 5, "848/120", "5", 8),
    ("network-4", 4, "5", "56/24", 5),
    ("selection", 4, "6", "46/24", 6),
    ("bubble", 4, "134/24", "3", 6),
    ("merge", 4, "112/24", "46/24", 5),
    ("merge", 5, "860/120", "326/120", 8),
    ("earl-star", 4, "116/24", "46/24", 6),
    ("earl-star-as-printed", 4, "5", "46/24", 6),
]
ROUNDED = {  # as the paper's Table 2 and others print them
    ("optimal", 4): (4.667, 1.917),
    ("optimal", 5): (6.933, 2.717),
    ("insertion", 4): (4.917, 3.0),
    ("insertion", 5): (7.717, 5.0),
    ("binary-insertion", 5): (7.067, 5.0),
    ("network-4", 4): (5.0, 2.333),
    ("earl-star", 4): (4.833, 1.917),
    ("bubble", 4): (5.583, 3.0),
    ("merge", 5): (7.167, 2.717),
}


@pytest.mark.parametrize(("name", "n", "compares", "swaps", "worst"), FIGURES)
@pytest.mark.parametrize("descending", [False, True])
def test_figures(name, n, compares, swaps, worst, descending):
    row = exact(name, n, descending)
    assert (row.mean_compares, row.mean_swaps) == (Fraction(compares), Fraction(swaps))
    assert row.max_compares == worst and row.all_sorted
    if (name, n) in ROUNDED:
        assert (round(float(row.mean_compares), 3), round(float(row.mean_swaps), 3)) == ROUNDED[name, n]


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("earl-star", {4: 12, 5: 4, 6: 8}),
        ("earl-star-as-printed", {4: 12, 6: 12}),
        ("optimal", {4: 8, 5: 16}),
        ("network-4", {5: 24}),
    ],
)
def test_how_comparisons_are_distributed(name, counts):
    assert Counter(play.compares for _, play in plays(name, 4)) == counts


@pytest.mark.parametrize(
    ("n", "counts", "inversions"),
    [
        (2, {0: 1, 1: 1}, "1/2"),
        (3, {0: 1, 1: 3, 2: 2}, "3/2"),
        (4, {0: 1, 1: 6, 2: 11, 3: 6}, "3"),
        (5, {0: 1, 1: 10, 2: 35, 3: 50, 4: 24}, "5"),
    ],
)
def test_strata_and_inversions(n, counts, inversions):
    assert strata(n) == counts
    harmonic = sum(Fraction(1, k) for k in range(1, n + 1))
    assert exact("optimal", n).mean_swaps == n - harmonic
    assert exact("insertion", n).mean_swaps == Fraction(inversions)
    wrong = sum(one > other for values in permutations(range(n)) for one, other in combinations(values, 2))
    assert Fraction(wrong, exact("optimal", n).permutations) == Fraction(inversions)


@pytest.mark.parametrize(("name", "n"), EACH)
def test_every_algorithm_sorts_everything_both_ways(name, n):
    for descending in (False, True):
        for values, play in plays(name, n, descending):
            found = [values[symbol] for symbol in play.order]
            assert play.sorted and found == sorted(values, reverse=descending)
            assert play.swaps >= least_swaps(values, descending)
    if n <= 5:
        assert exact(name, n).mean_compares >= exact("optimal", n).mean_compares


def test_fixed_pair_orders_with_conclusions_never_beat_earl_star():
    def mean(order):
        def fixed_order(n):
            known = set()
            for one, other in order:
                if not {(one, other), (other, one)} & closure(known):
                    known.add((one, other) if (yield "compare", one, other) else (other, one))

        found = [run(fixed_order, values) for values in permutations(range(4))]
        return Fraction(sum(play.compares for play in found), 24)

    pairs = list(combinations(range(4), 2))
    # The first two pairs either share a symbol or do not; names of symbols make no other difference.
    starts = [[(0, 1), (0, 2)], [(0, 1), (2, 3)]]
    orders = [[*start, *rest] for start in starts for rest in permutations(set(pairs) - set(start))]
    assert min(map(mean, orders)) == mean(pairs) == exact("earl-star", 4).mean_compares == Fraction(116, 24)


def test_a_wrong_order_is_seen():
    def swapping(n):
        yield "swap", 0, 1

    assert not run(swapping, (0, 1, 2)).sorted and run(swapping, (1, 0, 2)).sorted
    assert run(swapping, (1, 2, 0), descending=True).order == (1, 0, 2)
    assert run(swapping, (1, 2, 0), descending=True).sorted


def test_algorithms_that_are_not_there():
    with pytest.raises(UsageError, match="'quick' is unknown; the algorithms are optimal, insertion"):
        exact("quick", 4)
    with pytest.raises(UsageError, match="network-4 is for 4 to 4 items, not 5"):
        exact("network-4", 5)
    with pytest.raises(UsageError, match="optimal is for 2 to 5 items, not 6"):
        exact("optimal", 6)
