"""Live copies along lines of actions: what is started, stepped, copied and kept, and what happens where an environment lies."""

import copy
import pickle
import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import EnvFault
from agent_envs.envs.text_games.adapter.replay_copies import Replayed
from tests.examples import examples


class Tape:
    """An environment that writes down what was done to it; `world` counts what was done to all of them."""

    def __init__(self, seed, world):
        self.seed, self.done, self.world = seed, "", world
        world["starts"] += 1

    def act(self, action):
        self.done += str(action)
        self.world["acts"] += 1
        return f"{self.seed}:{self.done}"

    def __deepcopy__(self, memo):
        self.world["copies"] += 1
        twin = object.__new__(type(self))
        twin.seed, twin.done, twin.world = self.seed, self.done, self.world
        return twin


def store(**changes):
    world = {"starts": 0, "acts": 0, "copies": 0}
    options = {
        "name": "Tape", "start": lambda seed: Tape(seed, world), "act": Tape.act, "mark": lambda env: env.done[-2:]
    }  # fmt: skip
    return Replayed(**{**options, **changes}), world


def test_a_line_that_goes_on_costs_one_start_and_no_copies():
    tapes, world = store(every=100)
    line = ""
    for action in "abcdefgh":
        assert tapes.step(7, line, action) == f"7:{line}{action}"
        line += action
        with tapes.at(7, line) as env:
            assert env.done == line
    assert world == {"starts": 1, "acts": 8, "copies": 0}


def test_actions_may_be_tuples():
    tapes, _ = store()
    assert tapes.step(1, (), 5) == "1:5" and tapes.step(1, (5,), 6) == "1:56" and tapes.step(1, (5,), 7) == "1:57"


def test_a_place_that_was_left_is_gone_to_again_from_the_nearest_kept_copy():
    tapes, world = store(every=4)
    for at in range(10):
        tapes.step(1, "abcdefghij"[:at], "abcdefghij"[at])
    assert world == {"starts": 1, "acts": 10, "copies": 2}  # after 4 and after 8
    assert tapes.step(1, "abcdefghi", "X") == "1:abcdefghiX"  # from 8: one action again, and it is kept
    assert world == {"starts": 1, "acts": 12, "copies": 4}
    assert tapes.step(1, "abcdefghi", "Y") == "1:abcdefghiY"
    assert world == {"starts": 1, "acts": 13, "copies": 5}
    assert tapes.step(1, "ab", "Z") == "1:abZ" and world["starts"] == 2
    assert tapes.step(2, "ab", "Z") == "2:abZ" and world["starts"] == 3


def test_looking_changes_nothing_and_survives_an_error():
    tapes, world = store()
    tapes.step(1, "", "a")
    with pytest.raises(ZeroDivisionError), tapes.at(1, "a"):
        raise ZeroDivisionError
    assert tapes.step(1, "a", "b") == "1:ab" and world["starts"] == 1


def test_a_copy_that_raised_is_not_used_again():
    def act(env, action):
        env.act(action)
        if action == "!":
            raise RuntimeError("broken")

    tapes, world = store(act=act)
    tapes.step(1, "", "a")
    with pytest.raises(RuntimeError, match="broken"):
        tapes.step(1, "a", "!")
    tapes.step(1, "a", "b")
    with tapes.at(1, "ab") as env:
        assert env.done == "ab" and world["starts"] == 2


def test_the_store_is_bounded():
    tapes, world = store(every=1, live=3, checkpoints=2)
    for seed in range(50):
        tapes.step(seed, "", "a")
    assert len(tapes._live) == 3 and len(tapes._checkpoints) == 2
    tapes.step(0, "a", "b")
    assert world["starts"] == 51


@pytest.mark.parametrize("how", ["never", "raises", "itself"])
def test_what_cannot_be_copied_is_replayed_from_the_seed(how):
    def refuse(env):
        raise TypeError("no copies")

    tapes, world = store(every=2, copy={"never": None, "raises": refuse, "itself": lambda env: env}[how])
    for at in range(6):
        tapes.step(1, "abcdef"[:at], "abcdef"[at])
    assert tapes.step(1, "abc", "X") == "1:abcX"
    assert world == {"starts": 2, "acts": 10, "copies": 0}


def test_copies_that_are_not_whole_are_found_out_and_the_seed_decides():
    def spoiled(env):
        twin = copy.deepcopy(env)
        twin.done += "?"
        return twin

    tapes, world = store(every=2, copy=spoiled)
    for at in range(3):
        tapes.step(1, "abc"[:at], "abc"[at])
    assert tapes.step(1, "ab", "X", mark="ab") == "1:abX" and world["starts"] == 2
    assert tapes.step(1, "ab", "Y", mark="ab") == "1:abY" and world["starts"] == 3


def test_an_environment_that_is_not_deterministic_is_a_fault_that_names_it():
    rng = random.Random(0)
    tapes, _ = store(act=lambda env, action: env.act(rng.random()))
    tapes.step(1, "", "a")
    with tapes.at(1, "a") as env:
        mark = env.done[-2:]
    tapes.step(1, "a", "b", mark)
    with pytest.raises(
        EnvFault, match="Tape is not deterministic, or is another version: seed 1 and 1 actions"
    ) as caught:
        tapes.step(1, "a", "c", mark)
    assert caught.value.retryable is False


def test_a_copy_or_a_pickle_of_a_store_begins_empty():
    tapes = Replayed(name="Tape", start=_started, act=Tape.act, every=1)
    tapes.step(1, "", "a")
    assert tapes._live and tapes._checkpoints and not {"_live", "_checkpoints"} & tapes.__getstate__().keys()
    for other in (copy.deepcopy(tapes), pickle.loads(pickle.dumps(tapes))):
        assert not other._live and other.step(1, "a", "b") == "1:ab"


def _started(seed):
    return Tape(seed, {"starts": 0, "acts": 0, "copies": 0})


def test_threads_share_a_store():
    tapes, _ = store(every=3, live=4, checkpoints=4)
    wrong = []

    def work(number):
        rng = random.Random(number)
        line = ""
        for _ in range(200):
            line = line[: rng.randrange(len(line) + 1)] if rng.random() < 0.3 else line
            action = rng.choice("ab")
            if tapes.step(number % 2, line, action) != f"{number % 2}:{line}{action}":
                wrong.append(line)
            line += action

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@examples(50)
@given(st.lists(st.tuples(st.integers(0, 1), st.text("ab", max_size=9), st.sampled_from("ab")), max_size=30))
def test_whatever_was_asked_before_a_step_gives_the_same(asked):
    tapes, _ = store(every=2, live=2, checkpoints=3)
    for seed, line, action in asked:
        assert tapes.step(seed, line, action) == f"{seed}:{line}{action}"
