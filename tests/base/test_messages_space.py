"""The space of all strings."""

import copy

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs import Utterance


@given(st.text(st.characters()))
def test_every_string_is_in_it(text):
    assert text in Utterance()


@pytest.mark.parametrize("value", [None, 3, b"x", ["x"], np.array("x"), ("x",)])
def test_nothing_else_is(value):
    assert value not in Utterance()


def test_samples_are_seeded_members():
    one, two = Utterance(seed=3), Utterance()
    two.seed(3)
    samples = [one.sample() for _ in range(50)]
    assert samples == [two.sample() for _ in range(50)] and len(set(samples)) > 20
    assert all(sample in one and 1 <= len(sample.split()) <= 8 for sample in samples)
    assert copy.deepcopy(one).sample() == one.sample()


def test_masks_have_no_meaning():
    for arguments in ({"mask": np.ones(2)}, {"probability": np.ones(2)}):
        with pytest.raises(ValueError, match="no mask"):
            Utterance().sample(**arguments)


def test_all_of_them_are_one_space():
    assert Utterance(seed=1) == Utterance(seed=2) and hash(Utterance()) == hash(Utterance())
    assert Utterance() != gym.spaces.Text(5) and repr(Utterance()) == "Utterance()"
    assert not Utterance().is_np_flattenable
    assert gym.spaces.Dict(text=Utterance()).contains({"text": "\ud800"})


def test_samples_travel_as_json():
    samples = ["", "a\n", "é"]
    assert Utterance().from_jsonable(Utterance().to_jsonable(samples)) == samples
