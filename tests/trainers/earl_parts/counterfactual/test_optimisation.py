"""Counterfactual policy optimisation: which groups, where, which action, and what it is worth."""

import itertools
import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from trainers.contracts import Sampling, TokenSequence
from trainers.earl_parts.counterfactual.optimisation import (
    CounterfactualSettings,
    RouteChoice,
    counterfactual_advantages,
    draw_position,
    failed_groups,
    has_failed,
    row_of,
    uniform_of,
)

PAPER = CounterfactualSettings("paper")
RELEASED = CounterfactualSettings("released")


@pytest.mark.parametrize(
    "rewards, paper, released",
    [
        ([0.0, 0.0], True, True),
        ([-1.0, -0.5], True, False),
        ([-1.0, 1.0], False, True),
        ([0.0, 0.1], False, False),
        ([0.1, 0.2, -0.3], False, False),  # 0.1 + 0.2 - 0.3 is no exact 0
        ([0.0, -0.0], True, True),
    ],
)
def test_when_a_group_failed(rewards, paper, released):
    assert has_failed(rewards, "paper") is paper
    assert has_failed(rewards, "released") is released
    assert has_failed(rewards, "off") is False


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([-1.0, 0.0, 1.0])), min_size=1, max_size=12), st.randoms())
def test_the_layout_of_groups_does_not_matter(rows, shuffler):
    for rule in ("paper", "released"):
        whole = failed_groups([reward for _, reward in rows], [name for name, _ in rows], rule)
        mixed = list(rows)
        shuffler.shuffle(mixed)
        assert failed_groups([reward for _, reward in mixed], [name for name, _ in mixed], rule) == whole
        by_hand = {name: [reward for other, reward in rows if other == name] for name, _ in rows}
        assert whole == {name for name, rewards in by_hand.items() if has_failed(rewards, rule)}


def test_a_test_by_shards_would_rewrite_a_group_that_succeeded():
    """What the released code does: the rows of one group are split over two processes, and tested in each."""
    rewards, groups = [0.0, 0.0, 0.0, 1.0], ["a"] * 4
    assert failed_groups(rewards[:2], groups[:2], "released") == {"a"}
    assert failed_groups(rewards, groups, "released") == set()


def formula(log_weights, temperature, top_k, top_p):
    """The distribution of t', written down again: temperature, then the best k, then the fewest that hold p."""
    weights = {place: math.exp(weight / temperature) for place, weight in enumerate(log_weights)}
    best = sorted(weights, key=lambda place: -weights[place])[:top_k]
    total, kept, held = sum(weights[place] for place in best), [], 0.0
    for place in best:
        if held < top_p:
            kept.append(place)
            held += weights[place] / total
    whole = sum(weights[place] for place in kept)
    return [weights[place] / whole if place in kept else 0.0 for place in range(len(log_weights))]


@pytest.mark.parametrize("chosen, numbers", [(PAPER, (1.0, 99, 1.0)), (RELEASED, (10.0, 10, 0.9))])
def test_positions_are_drawn_with_the_probabilities_of_the_formula(chosen, numbers):
    generator = random.Random("weights")
    log_weights = [generator.gauss(-3, 2 if chosen.rule == "paper" else 12) for _ in range(14)]
    expected = formula(log_weights, *numbers)
    count = 4_000
    seen = Counter(draw_position(log_weights, chosen.sampling, uniform_of(f"row {row}")) for row in range(count))
    assert not any(seen[place] for place, share in enumerate(expected) if share == 0)
    kept = [place for place, share in enumerate(expected) if share > 0]
    assert len(kept) == (14 if chosen.rule == "paper" else len(kept)) and 2 < len(kept)
    square = sum((seen[place] - count * expected[place]) ** 2 / (count * expected[place]) for place in kept)
    freedom = len(kept) - 1
    assert square < freedom + 4 * math.sqrt(2 * freedom)  # far beyond the 99.9th percentile


@given(
    st.lists(st.integers(-300, 0).map(lambda tenths: tenths / 10), min_size=1, max_size=16, unique=True),
    st.floats(0.5, 20),
    st.integers(1, 20),
    st.floats(0.05, 1),
    st.floats(0, 1, exclude_max=True),
)
def test_a_uniform_is_inverted_through_the_enumerated_distribution(log_weights, temperature, top_k, top_p, uniform):
    chosen = Sampling(temperature, top_k, top_p)
    shares = formula(log_weights, temperature, top_k, top_p)
    borders = list(itertools.accumulate(shares))
    place = draw_position(log_weights, chosen, uniform)
    if all(abs(uniform - border) > 1e-9 for border in borders):
        assert place == next(number for number, border in enumerate(borders) if uniform < border)


def test_positions_are_drawn_as_the_rule_says():
    assert PAPER.sampling == Sampling(1.0, 0, 1.0) and RELEASED.sampling == Sampling(10.0, 10, 0.9)


def test_released_flattens_what_paper_tells_apart():
    log_weights = [-20.0, -1.0, -20.0]
    assert formula(log_weights, 1.0, 99, 1.0)[1] > 0.999
    drawn = Counter(draw_position(log_weights, RELEASED.sampling, uniform_of(str(row))) for row in range(300))
    assert set(drawn) == {0, 1, 2} and drawn[1] < 270
    assert {draw_position(log_weights, PAPER.sampling, uniform_of(str(row))) for row in range(300)} == {1}


def test_settings_that_name_nothing_are_refused():
    with pytest.raises(UsageError, match="no meaning with counterfactual.encourage=average"):
        CounterfactualSettings("paper", encourage="average", action="swap")
    with pytest.raises(UsageError, match="rule='off'"):
        _ = CounterfactualSettings().sampling
    with pytest.raises(UsageError, match="rule='papper'"):
        has_failed([0.0], "papper")


def encouragement(kind="fixed", action="", names=("compare", "swap", "ask")):
    return RouteChoice(CounterfactualSettings("paper", kind, action), names, seed=3)


def test_which_action_is_encouraged():
    assert [encouragement().choose(step) for step in range(3)] == ["compare"] * 3
    assert [encouragement(action="swap").choose(step) for step in range(3)] == ["swap"] * 3
    turns = encouragement("round_robin")
    assert [turns.choose(step) for step in range(4)] == ["compare", "swap", "ask", "compare"]
    with pytest.raises(UsageError, match="are compare, swap, ask"):
        encouragement(action="calculator")
    with pytest.raises(UsageError, match="are none"):
        encouragement(names=())


def test_the_moving_average_draws_more_often_what_gained_more():
    moving = encouragement("average")
    assert set(moving.shares().values()) == {1 / 3}
    moving.learn("swap", 1.0)
    moving.learn("ask", -1.0)
    # Averages 0.001, 0.9 * 0.001 + 0.1 = 0.1009 and (below its start, so it counts as that) 0.001; over their maximum.
    weights = [math.exp(0.001 / 0.1009), math.e, math.exp(0.001 / 0.1009)]
    assert list(moving.shares().values()) == pytest.approx([weight / sum(weights) for weight in weights])
    drawn = Counter(moving.choose(step) for step in range(3000))
    for name, share in moving.shares().items():
        assert abs(drawn[name] - 3000 * share) < 4 * math.sqrt(3000 * share * (1 - share))


def test_the_moving_average_goes_on_from_a_checkpoint():
    moving, again = encouragement("average"), encouragement("average")
    for gain in (0.5, -0.2, 0.1):
        moving.learn("ask", gain)
    again.restore(moving.state())
    assert again.shares() == moving.shares() and again.state() == moving.state()
    assert [again.choose(step) for step in range(20)] == [moving.choose(step) for step in range(20)]
    with pytest.raises(UsageError, match="knows the routing actions"):
        encouragement(names=("swap",)).restore(moving.state())


def test_advantages_worked_by_hand():
    """Group a fails; b is normalised: mean 0.5, squares 3 * 0.25 + 2.25 = 3 -> over 3 -> std 1 (over 4: 0.866)."""
    rewards = [0.0, -1.0, 0.0, 0.0, 0.0, 2.0, 1.0, 1.0]
    groups = ["a", "a", "b", "b", "b", "b", "c", "c"]
    found = counterfactual_advantages(rewards, groups, {0: 1.0, 1: -1.5}, "paper")
    assert found.counterfactual == {0: 1.0, 1: -0.5}
    assert found.factual[:2] == (None, None)
    assert found.factual[2:6] == pytest.approx((*[-0.5 / (1 + 1e-6)] * 3, 1.5 / (1 + 1e-6)), abs=1e-12)
    assert found.factual[6:] == (0.0, 0.0)
    released = counterfactual_advantages(rewards, groups, {}, "released")  # -1 + 0 is not 0: a is a group like others
    assert released.factual[:2] == pytest.approx((math.sqrt(0.5), -math.sqrt(0.5)), abs=1e-5)
    assert released.counterfactual == {}
    off = counterfactual_advantages(rewards, groups, {}, "off")
    assert None not in off.factual
    with pytest.raises(UsageError, match="its group 'b' did not fail"):
        counterfactual_advantages(rewards, groups, {3: 1.0}, "paper")


def test_the_whole_counterfactual_row_has_the_difference_as_its_advantage():
    sequence = TokenSequence((5, 6, 7, 8), (False, True, False, True), (0.0, -1.0, 0.0, -2.0), (0, 1, 0, 2))
    assert row_of(sequence, -0.25).advantages == (0.0, -0.25, 0.0, -0.25)
