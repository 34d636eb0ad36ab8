"""Orders are deduced from comparisons, and the next comparison and the swaps to the target order are optimal."""

import random
from fractions import Fraction
from itertools import combinations, permutations
from math import ceil, factorial, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.envs.expa.sorting.knowledge import (
    closure,
    consistent,
    least_swaps,
    minimal_swaps,
    next_comparison,
    sorted_order,
)
from tests.examples import examples


def pairs_of(values, chosen):
    return frozenset((one, other) if values[one] < values[other] else (other, one) for one, other in chosen)


def needed(values, known=frozenset()):
    """How many comparisons following next_comparison takes until the order is known."""
    count = 0
    while (pair := next_comparison(len(values), known)) is not None:
        known |= pairs_of(values, [pair])
        count += 1
    assert len(values) > 5 or consistent(len(values), known) == [sorted_order(values)]
    assert closure(known) >= pairs_of(values, combinations(range(len(values)), 2))
    return count


def test_conclusions():
    assert closure([(0, 1), (1, 2)]) == {(0, 1), (1, 2), (0, 2)}
    assert closure([]) == frozenset()
    assert closure([(3, 2), (2, 1), (1, 0)]) == {(one, other) for one in range(4) for other in range(one)}
    assert (0, 0) in closure([(0, 1), (1, 0)])


@given(st.permutations(range(5)), st.sets(st.sampled_from(list(combinations(range(5), 2)))))
@examples(100)
def test_conclusions_are_what_holds_in_every_possible_order(values, chosen):
    known = pairs_of(values, chosen)
    orders = consistent(5, known)
    assert sorted_order(tuple(values)) in orders
    always = {
        (one, other)
        for one, other in permutations(range(5), 2)
        if all(order.index(one) < order.index(other) for order in orders)
    }
    assert closure(known) == always


@pytest.mark.parametrize(("n", "total", "worst"), [(2, 2, 1), (3, 16, 3), (4, 112, 5), (5, 832, 7)])
def test_the_optimum(n, total, worst):
    counts = [needed(values) for values in permutations(range(n))]
    assert Fraction(total, factorial(n)) == Fraction(sum(counts), len(counts))
    assert max(counts) == worst == ceil(log2(factorial(n)))
    # No plan can have less than the evenest tree with as many leaves.
    depth = factorial(n).bit_length() - 1
    assert total == factorial(n) * depth + 2 * (factorial(n) - 2**depth)


@given(st.permutations(range(4)), st.sets(st.sampled_from(list(combinations(range(4), 2)))))
@examples(60)
def test_optimal_from_any_knowledge_on(values, chosen):
    known = pairs_of(values, chosen)
    orders = frozenset(consistent(4, known))

    def fewest(possible):
        if len(possible) == 1:
            return 0
        totals = []
        for one, other in combinations(range(4), 2):
            yes = frozenset(order for order in possible if order.index(one) < order.index(other))
            if yes and yes != possible:
                totals.append(fewest(yes) + fewest(possible - yes))
        return len(possible) + min(totals)

    def numbers(order):
        return tuple(order.index(symbol) for symbol in range(4))

    assert sum(needed(numbers(order), known) for order in orders) == fewest(orders)


def test_even_splits_reach_the_bound_at_6_and_nearly_at_7_and_8():
    counts = [needed(values) for values in permutations(range(6))]
    assert Fraction(sum(counts), 720) == Fraction(9 * 720 + 2 * (720 - 512), 720) and max(counts) == 10
    rng = random.Random("even splits")
    for n, worst in ((7, 13), (8, 17)):
        counts = [needed(tuple(rng.sample(range(n), n))) for _ in range(100)]
        assert log2(factorial(n)) - 0.5 < sum(counts) / 100 < log2(factorial(n)) + 0.5 and max(counts) <= worst


def test_the_first_of_equally_good_comparisons():
    assert [next_comparison(n, frozenset()) for n in range(2, 9)] == [(0, 1)] * 7
    assert next_comparison(4, frozenset({(0, 1)})) == (0, 2)
    assert next_comparison(6, frozenset({(0, 1)})) == (2, 3)
    assert next_comparison(1, frozenset()) is None


@pytest.mark.parametrize("n", [3, 6])
def test_knowledge_that_cannot_be(n):
    for wrong in ({(0, 1), (1, 2), (2, 0)}, {(1, 1)}):
        with pytest.raises(UsageError, match="contradict"):
            next_comparison(n, frozenset(wrong))
    with pytest.raises(UsageError, match=f"not in 0..{n - 1}"):
        next_comparison(n, frozenset({(0, n)}))


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.permutations(range(n)), st.permutations(range(n)))))
def test_swaps_lead_to_the_target(both):
    order, target = map(tuple, both)
    present = list(order)
    for one, other in minimal_swaps(order, target):
        here, there = present.index(one), present.index(other)
        present[here], present[there] = other, one
    assert tuple(present) == target
    links, cycles = dict(zip(order, target, strict=True)), 0
    while links:
        cycles += 1
        symbol = next(iter(links))
        while symbol in links:
            symbol = links.pop(symbol)
    assert len(minimal_swaps(order, target)) == len(order) - cycles


def test_the_fewest_swaps_by_search():
    distance, edge = {(0, 1, 2, 3): 0}, [(0, 1, 2, 3)]
    for order in edge:
        for here, there in combinations(range(4), 2):
            moved = list(order)
            moved[here], moved[there] = order[there], order[here]
            if tuple(moved) not in distance:
                distance[tuple(moved)] = distance[order] + 1
                edge.append(tuple(moved))
    for values in permutations(range(4)):
        assert least_swaps(values) == distance[sorted_order(values)]
        assert least_swaps(values, descending=True) == distance[sorted_order(values)[::-1]]
