"""Dual-discount GAE: numbers of the released code, the identity of Verlog's report, and a plain sum over all pairs of slots."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from tests.examples import examples
from trainers.advantages import DualDiscounts, dual_discount_gae

VALUES = [[0.5, 0.4], [0.6, 0.7, 0.2]]
NOTHING = [[0.0, 0.0], [0.0, 0.0, 0.0]]
WON = [[0.0, 0.0], [0.0, 0.0, 1.0]]
# Measured with the released code: the episode is won in the second turn; the same values, cut behind it at a value of .8.
RELEASED = [
    (WON, 0.0, [[0.4702, 0.5702], [0.4, 0.3, 0.8]]),
    (NOTHING, 0.8, [[0.274576, 0.374576], [0.192, 0.092, 0.592]]),
]


@pytest.mark.parametrize(("rewards", "bootstrap", "wanted"), RELEASED)
def test_numbers_of_the_released_code(rewards, bootstrap, wanted):
    found = dual_discount_gae(VALUES, rewards, [None, bootstrap], discounts=DualDiscounts())
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-12)


@given(values=st.lists(st.floats(-2, 2), min_size=5, max_size=5), reward=st.floats(-2, 2))
def test_the_report_s_identity_of_the_turn_before_the_last(values, reward):
    """A_-2,t = gamma_s (lambda_s r + (1 - lambda_s) V_-1,0) - V_-2,t: the next turn matters by its first value alone."""
    turns = [values[:2], values[2:]]
    found = dual_discount_gae(turns, [[0.0, 0.0], [0.0, 0.0, reward]], [None, 0.0], discounts=DualDiscounts())
    for value, advantage in zip(turns[0], found[0], strict=True):
        assert advantage == pytest.approx(0.99 * (0.95 * reward + 0.05 * turns[1][0]) - value, abs=1e-12)


UNIT, NUMBER = st.floats(0, 1), st.floats(-2, 2)


@st.composite
def lanes(draw):
    """Turns of 1 to 3 tokens, their bootstraps (None: it goes on), and the values and rewards of all."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    bootstraps = [*(draw(st.none() | NUMBER) for _ in sizes[1:]), draw(NUMBER)]
    released = draw(st.booleans())
    values = [[draw(NUMBER) for _ in range(size + released)] for size in sizes]
    rewards = [[draw(NUMBER) for _ in range(size)] for size in sizes]
    return values, rewards, bootstraps, "released" if released else "tokens"


@examples(200)
@given(lane=lanes(), numbers=st.tuples(UNIT, UNIT, UNIT, UNIT))
def test_it_is_the_plain_sum_over_all_pairs_of_slots(lane, numbers):
    values, rewards, bootstraps, slots = lane
    gamma_turn, lambda_turn, gamma_token, lambda_token = numbers
    found = dual_discount_gae(values, rewards, bootstraps, discounts=DualDiscounts(*numbers), slots=slots)
    places = [(turn, slot) for turn, own in enumerate(values) for slot in range(len(own))]
    errors, decays = {}, {}  # of each slot: the temporal difference, and what it passes back to the slot before
    for turn, slot in places:
        last = slot == len(values[turn]) - 1
        goes_on = not last or bootstraps[turn] is None
        ahead = values[turn][slot + 1] if not last else values[turn + 1][0] if goes_on else bootstraps[turn]
        gamma, decay = (gamma_turn, lambda_turn) if last else (gamma_token, lambda_token)
        reward = rewards[turn][slot] if slot < len(rewards[turn]) else 0.0
        errors[turn, slot] = reward + gamma * ahead - values[turn][slot]
        decays[turn, slot] = gamma * decay if goes_on else 0.0
    for first, (turn, slot) in enumerate(places):
        weight, total = 1.0, 0.0
        for place in itertools.islice(places, first, None):
            total += weight * errors[place]
            weight *= decays[place]
        assert found[turn][slot] == pytest.approx(total, abs=1e-9)


@given(lane=lanes())
def test_slots_are_equal_where_token_discounts_are_one(lane):
    values, rewards, bootstraps, slots = lane
    behind = [[*own[: len(given)], 0.7] for own, given in zip(values, rewards, strict=True)]
    plain = [own[:-1] for own in behind]
    both = [
        dual_discount_gae(table, rewards, bootstraps, discounts=DualDiscounts(), slots=kind)
        for table, kind in ((plain, "tokens"), (behind, "released"))
    ]
    for ours, theirs in zip(*both, strict=True):
        assert ours == pytest.approx(theirs[:-1], abs=1e-9)


def test_slots_differ_below_one():
    discounts = DualDiscounts(lambda_token=0.5)
    ours = dual_discount_gae(VALUES, WON, [None, 0.0], discounts=discounts)
    theirs = dual_discount_gae([[*row, 0.9] for row in VALUES], WON, [None, 0.0], discounts=discounts, slots="released")
    assert (
        max(abs(a - b) for left, right in zip(ours, theirs, strict=True) for a, b in zip(left, right, strict=False))
        > 0.4
    )


BROKEN = {
    "no bootstrap at the end": ([[0.1]], [[0.0]], [None], "a bootstrap"),
    "values for another number of tokens": ([[0.1, 0.2]], [[0.0]], [0.0], "1 values, at least 1, not 2"),
    "a turn without a slot": ([[]], [[]], [0.0], "at least 1, not 0"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_does_not_fit_is_named(case):
    *table, wanted = BROKEN[case]
    with pytest.raises(UsageError, match=wanted):
        dual_discount_gae(*table, discounts=DualDiscounts())
