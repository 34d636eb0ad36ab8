"""The rewards: what the released one pays, and a proof that optimal play is the maximum of the fixed one."""

from fractions import Fraction
from functools import cache
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.envs.expa.sorting.algorithms import optimal
from agent_envs.envs.expa.sorting.knowledge import least_swaps, minimal_swaps
from agent_envs.envs.expa.sorting.scoring import fixed, released
from benchmarks.sorting_plays import exact, mean_reward, run


def padded(n):
    """The best plan, with its first comparison again where it needs only four."""
    moves, answer, count = optimal(n), None, 0
    try:
        while True:
            move = moves.send(answer)
            if move[0] == "swap" and count == 4:
                yield "compare", 0, 1
                count += 1
            answer = yield move
            count += move[0] == "compare"
    except StopIteration:
        if count == 4:
            yield "compare", 0, 1


def paid(algorithm, formula):
    found = [(values, run(algorithm, values)) for values in permutations(range(4))]
    total = sum(
        formula(
            "sort", 4, correct=play.sorted, compares=play.compares, swaps=play.swaps, least_swaps=least_swaps(values)
        )
        for values, play in found
    )
    return round(total / 24, 4)


def test_the_released_reward_punishes_optimal_play():
    # Selection compares six times always and swaps as little as possible.
    assert {name: round(mean_reward(name, 4, released), 3) for name in ("optimal", "earl-star", "selection")} == {
        "optimal": 0.833, "earl-star": 0.722, "selection": 0.917,
    }  # fmt: skip
    assert paid(padded, released) == 1.0
    redundant = [released("sort", 4, correct=True, compares=c, swaps=2, least_swaps=2) for c in [5] * 7 + [6] * 17]
    assert round(sum(redundant) / 24, 3) == 0.941


def test_the_fixed_reward_of_the_same_plays():
    assert {name: round(mean_reward(name, 4, fixed), 4) for name in ("optimal", "earl-star", "selection")} == {
        "optimal": 0.8628, "earl-star": 0.8594, "selection": 0.8351,
    }  # fmt: skip
    assert paid(padded, fixed) == 0.8559
    linear = 1 - exact("optimal", 4).mean_compares / 48 - exact("optimal", 4).mean_swaps / 48
    assert mean_reward("optimal", 4, fixed) == pytest.approx(float(linear))


@pytest.mark.parametrize(
    ("n", "least", "most"), [(2, 1, 2), (3, 3, 6), (4, 5, 8), (5, 7, 15), (6, 10, 18), (7, 13, 21), (8, 16, 24)]
)
def test_the_released_formula(n, least, most):
    def pays(compares, swaps, needed=1):
        return released("sort", n, correct=True, compares=compares, swaps=swaps, least_swaps=needed)

    assert pays(least - 1, 1) == 0.5 and pays(least, 1) == 1
    assert pays(most, 1) == pays(10 * most, 1) == 0.75
    assert pays(least, max(2, n * (n - 1) // 2)) == pays(least, 1000) == 0.75
    assert pays(most, 1000) == 0.5
    middle = (least + most) / 2
    assert pays(middle, 1) == pytest.approx(0.875)
    assert pays(least, n, needed=n - 1) == pytest.approx(1 - 0.25 / max(1, n * (n - 1) / 2 - n + 1))


def test_released_order_and_compare():
    def order(swaps, least):
        return released("order", 4, correct=True, compares=0, swaps=swaps, least_swaps=least)

    assert [order(swaps, 2) for swaps in (2, 4, 6, 9)] == [1, 0.75, 0.5, 0.5]
    assert released("order", 2, correct=True, compares=0, swaps=3, least_swaps=1) == 0.5
    calls = [released("compare", 2, correct=True, compares=count, swaps=0, least_swaps=0) for count in range(4)]
    assert calls == [0.5, 1, 0.5, 0.5]


KINDS, COUNTS = st.sampled_from(["sort", "order", "compare"]), st.integers(0, 10_000)


@given(KINDS, st.integers(2, 8), st.booleans(), COUNTS, COUNTS, st.integers(0, 7))
def test_ranges(kind, n, correct, compares, swaps, least):
    counts = {"correct": correct, "compares": compares, "swaps": swaps, "least_swaps": least}
    for formula in (released, fixed):
        assert (0.5 <= formula(kind, n, **counts) <= 1) if correct else formula(kind, n, **counts) == 0


@given(st.integers(2, 8), COUNTS, COUNTS)
def test_fixed_falls_with_every_call(n, compares, swaps):
    def pays(kind, compares, swaps):
        return fixed(kind, n, correct=True, compares=compares, swaps=swaps, least_swaps=0)

    assert pays("sort", compares + 1, swaps) < pays("sort", compares, swaps)
    assert pays("sort", compares, swaps + 1) < pays("sort", compares, swaps)
    assert pays("order", 0, swaps + 1) < pays("order", 0, swaps)
    # Each call costs less than the one before, or as much: there is no corner and no cliff.
    costs = [pays("sort", count, 0) - pays("sort", count + 1, 0) for count in (compares, compares + 1)]
    assert costs[0] >= costs[1] - 1e-12


def test_a_guess_in_a_compare_task_is_worse():
    def pays(count):
        return fixed("compare", 2, correct=True, compares=count, swaps=0, least_swaps=0)

    assert [pays(count) for count in range(4)] == [0.75, 1, 0.75, 0.625]
    assert pays(0) / 2 < pays(1)


# Expected reward by dynamic programming. A state is the set of orders that are still possible and the number of comparisons
# so far; an action compares a pair (also one whose answer is known), or stops and swaps, as little as possible, to one of the
# possible orders, which is paid if it is the hidden one. All figures are sums over the possible orders.


class Game:
    def __init__(self, n, formula, kind="sort"):
        self.n, self.formula, self.kind = n, formula, kind
        self.start = frozenset(permutations(range(n)))
        self.most = n * (n - 1) // 2 + 3
        self.best = cache(self.best)

    def stops(self, possible, made):
        for target in sorted(possible):
            swaps = len(minimal_swaps(tuple(range(self.n)), target))
            value = self.formula(self.kind, self.n, correct=True, compares=made, swaps=swaps, least_swaps=swaps)
            count = len(possible)
            yield Fraction(value).limit_denominator(10**6), (made * count,) * 2, (swaps * count,) * 2

    def compares(self, possible, made):
        """Yield (whether the answer is open, figures) of every comparison."""
        for one, other in combinations(range(self.n), 2):
            yes = frozenset(order for order in possible if order.index(one) < order.index(other))
            parts = [self.best(part, made + 1) for part in (yes, possible - yes) if part]
            low_high = [tuple(sum(part[k][end] for part in parts) for end in (0, 1)) for k in (1, 2)]
            yield len(parts) == 2, (sum(part[0] for part in parts), *low_high)

    def best(self, possible, made):
        """Return the best sum of rewards, and the lowest and highest sums of comparisons and of swaps that have it."""
        choices = list(self.stops(possible, made))
        if made < self.most:
            choices += [figures for _, figures in self.compares(possible, made)]
        value = max(choice[0] for choice in choices)
        argmax = [choice for choice in choices if choice[0] == value]
        ends = [tuple(end(choice[k][e] for choice in argmax) for e, end in ((0, min), (1, max))) for k in (1, 2)]
        return value, *ends

    def means(self):
        value, compares, swaps = self.best(self.start, 0)
        count = len(self.start)
        return value / count, *({Fraction(total, count) for total in ends} for ends in (compares, swaps))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_optimal_play_is_the_one_maximum_of_fixed(n):
    value, compares, swaps = Game(n, fixed).means()
    # Every policy that reaches the maximum has the optimum's means.
    assert compares == {exact("optimal", n).mean_compares} and swaps == {
        n - sum(Fraction(1, k) for k in range(1, n + 1))
    }
    assert float(value) == pytest.approx(mean_reward("optimal", n, fixed))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_every_deviation_loses_in_every_situation(n):
    game, seen, edge = Game(n, fixed), set(), [(frozenset(permutations(range(n))), 0)]
    while edge:
        possible, made = edge.pop()
        if (possible, made) in seen or made >= game.most - 2:
            continue
        seen.add((possible, made))
        stop = max(choice[0] for choice in game.stops(possible, made))
        compares = list(game.compares(possible, made))
        known = max((figures[0] for is_open, figures in compares if not is_open), default=Fraction(0))
        value = game.best(possible, made)[0]
        if len(possible) == 1:
            assert stop == value > known
        else:
            # Neither guessing nor comparing what is known already.
            assert max(figures[0] for is_open, figures in compares if is_open) == value > max(stop, known)
        for one, other in combinations(range(n), 2):
            yes = frozenset(order for order in possible if order.index(one) < order.index(other))
            edge += [(part, made + 1) for part in (yes, possible - yes) if part]
    assert len(seen) >= {2: 3, 3: 30, 4: 300}[n]


def test_the_same_search_shows_that_the_released_reward_wants_five_comparisons():
    value, compares, _ = Game(4, released).means()
    assert value == 1 and compares == {Fraction(5)}
    assert Fraction(5) > exact("optimal", 4).mean_compares


@pytest.mark.parametrize("n", [2, 3, 4])
def test_an_order_that_is_told_is_best_reached_by_the_fewest_swaps(n):
    for order in permutations(range(n)):
        needed = len(minimal_swaps(tuple(range(n)), order))
        pays = [fixed("order", n, correct=True, compares=0, swaps=swaps, least_swaps=needed) for swaps in range(20)]
        assert max(pays[needed:]) == pays[needed] > max(pays[needed + 1 :])
