"""Declared rewards: bounds, sums, declarations."""

import math
from dataclasses import replace
from functools import reduce
from operator import add

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs import Reward, RewardSpec, Term
from agent_envs.core.episode import terms_from
from tests.examples import examples
from tests.needs import needs
from tests.toy import ID, REWARD


def trajectory(*actions):
    env = gym.make(ID)
    env.reset(seed=0)
    for action in actions:
        env.step(action)
    return env.unwrapped.trajectory


def spec(*terms):
    return RewardSpec("r", tuple(Term(f"t{i}", *term) for i, term in enumerate(terms)), episode=(0.0, 1.0))


@pytest.mark.parametrize("value", [-0.001, 1.001, math.nan, math.inf, -math.inf, 2])
def test_a_term_outside_its_bounds_is_an_error_that_names_it(value):
    with pytest.raises(AssertionError, match=r"reward term t1 gave .*outside \[0.0, 1.0\]"):
        spec((0.0, 1.0, "", lambda _: 0.0), (0.0, 1.0, "", lambda _: value))(trajectory("a"))


@given(st.lists(st.floats(0.0, 1.0), max_size=5))
@needs("[envs]")
def test_terms_sum_to_the_total(values):
    given_spec = spec(*((0.0, 1.0, "", lambda _, value=value: value) for value in values))
    reward = given_spec(trajectory("a"))
    assert reward.total == reduce(add, values, 0.0)  # from left to right: `sum` rounds otherwise from Python 3.12 on
    assert [value for _, value in reward.terms] == values
    assert given_spec.low <= reward.total <= given_spec.high


def test_the_declared_bounds_are_the_same_in_every_python():
    highs = [(0.0, high, "", lambda _: 0.0) for high in (0.1, 0.2, 0.3)]
    assert spec(*highs).describe()["step"] == [0.0, 0.6000000000000001]  # `sum` gives 0.6 from Python 3.12 on


def test_bounds_are_included_and_whole_numbers_become_floats():
    reward = spec((0.0, 1.0, "", lambda _: True), (0.0, 1.0, "", lambda _: 0))(trajectory("a"))
    assert reward == Reward(1.0, (("t0", 1.0), ("t1", 0.0)))
    assert all(type(value) is float for _, value in reward.terms) and type(reward.total) is float


def test_a_spec_without_terms_gives_nothing():
    assert spec()(trajectory("a")) == Reward(0.0, ())


def test_a_term_reads_the_trajectory_up_to_the_newest_turn():
    turns = []
    spec((0.0, 1.0, "", lambda seen: turns.append(len(seen.turns)) or 0.0))(trajectory("a", "b", "c"))
    assert turns == [3]


def test_terms_of_one_reckoning_reckon_once_a_turn():
    reckoned, bounds = [], {name: (0.0, 1.0, "") for name in "abc"}
    terms = terms_from(lambda run: reckoned.append(len(run.turns)) or {"a": len(run.turns) / 4}, bounds)
    for run in (trajectory("a"), trajectory("a", "b")):
        assert RewardSpec("r", terms, (0.0, 1.0))(run).terms == (("a", len(run.turns) / 4), ("b", 0.0), ("c", 0.0))
        assert [term.applies(run) for term in terms] == [True, False, False]
    assert reckoned == [1, 2]


def test_terms_that_one_function_gives_are_read_together_and_another_term_is_asked_itself():
    bounds, calls = {name: (0.0, 1.0, "") for name in "ab"}, []
    terms = terms_from(lambda run: calls.append(run) or {"b": 1.0}, bounds)
    spec = RewardSpec("r", terms, (0.0, 1.0))
    assert spec(trajectory("x")) == Reward(1.0, (("a", 0.0), ("b", 1.0))) and len(calls) == 1
    bonus, half = Term("bonus", 0.0, 1.0, "", lambda run: 1.0), replace(terms[1], value=lambda run: 0.5)
    assert replace(spec, terms=(*terms, bonus))(trajectory("x")).total == 2.0
    assert replace(spec, terms=(terms[0], half))(trajectory("x")).terms == (("a", 0.0), ("b", 0.5))
    other = replace(spec, terms=(terms[0], replace(terms[1], name="c")))
    assert other(trajectory("x")).terms == (("a", 0.0), ("c", 1.0))


def test_the_declaration_is_public_and_its_digest_follows_it():
    assert REWARD.describe() == {
        "name": "guess",
        "terms": [
            {"name": "correct", "low": 0.0, "high": 1.0, "doc": "1 for the number"},
            {"name": "cost", "low": -0.0625, "high": 0.0, "doc": "each hint costs a sixteenth"},
        ],
        "step": [-0.0625, 1.0],
        "episode": [-1.0, 1.0],
    }
    assert replace(REWARD, name="other").digest != REWARD.digest != replace(REWARD, episode=(-2.0, 1.0)).digest
    assert replace(REWARD).digest == REWARD.digest


@examples(40)
@given(st.lists(st.sampled_from(["<compare>5</compare>", "<luck>x</luck>", "x", "<answer>4</answer>"]), max_size=9))
def test_an_episode_stays_in_the_declared_bounds(actions):
    env = gym.make(ID)
    env.reset(seed=0)
    total = 0.0
    for action in actions:
        _, reward, terminated, truncated, _ = env.step(action)
        assert REWARD.low <= reward <= REWARD.high
        total += reward
        if terminated or truncated:
            break
    assert REWARD.episode[0] <= total <= REWARD.episode[1]
    assert env.unwrapped.trajectory.total_reward == total
