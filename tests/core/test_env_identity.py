"""Equal seeds and arguments give equal tasks, spec digests and episode keys, in copies and in other processes too."""

import copy
import random

import gymnasium as gym
import numpy as np
import pytest

from agent_envs.core.trajectory import Turn
from tests.fresh_process import printed
from tests.toy import ID, Guess

COMPARE = "<compare>50</compare>"


def started(**arguments):
    env = gym.make(ID, **arguments)
    env.reset(seed=0)
    return env


def test_same_seed_same_task_and_a_seed_only_picks_the_task():
    env = gym.make(ID).unwrapped
    picked = [env.reset(seed=seed)[1]["task_id"] for seed in range(30)]
    assert picked == [gym.make(ID).unwrapped.reset(seed=seed)[1]["task_id"] for seed in range(30)]
    assert len(set(picked)) > 5
    observations = {env.reset(seed=seed, options={"task": 4})[0] for seed in range(5)}
    assert len(observations) == 1


def test_unseeded_resets_go_on_with_the_generator():
    one, two = gym.make(ID).unwrapped, gym.make(ID).unwrapped
    one.reset(seed=5), two.reset(seed=5)
    ids = [one.reset()[1]["task_id"] for _ in range(10)]
    assert ids == [two.reset()[1]["task_id"] for _ in range(10)] and len(set(ids)) > 1


def test_playing_draws_nothing_from_np_random():
    env = started().unwrapped
    before = env.np_random.bit_generator.state
    env.step(COMPARE), env.step("<luck>x</luck>"), env.step("<answer>1</answer>")
    assert env.np_random.bit_generator.state == before
    env.reset(options={"task": 3})
    assert env.np_random.bit_generator.state == before


def test_the_global_generators_are_not_touched():
    random.seed(7), np.random.seed(7)
    before = (random.getstate(), np.random.get_state()[1].tolist())
    env = started()
    env.step(COMPARE), env.action_space.sample()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_a_default_episode_key_depends_on_spec_task_and_seed_alone():
    key = started().unwrapped.episode.key
    assert key == started().unwrapped.episode.key
    assert key != started(turns=8).unwrapped.episode.key
    env = gym.make(ID).unwrapped
    keys = set()
    for task in (0, "train-0", 1):
        for seed in (0, 1):
            env.reset(seed=seed, options={"task": task})
            keys.add(env.episode.key)
    assert len(keys) == 4
    env.reset(seed=0, options={"episode_key": "mine"})
    assert env.episode.key == "mine"


def test_digests_and_keys_are_the_same_in_other_processes():
    code = (
        "import gymnasium as gym, tests.toy as t; e = gym.make(t.ID, turns=4); e.reset(seed=11); u = e.unwrapped;"
        "o = e.step('<luck>a</luck>')[0]; print(u.spec_digest, u.episode.key, u.episode.task.digest, o)"
    )
    env = gym.make(ID, turns=4)
    env.reset(seed=11)
    core = env.unwrapped
    observation = env.step("<luck>a</luck>")[0]
    assert printed(code) == f"{core.spec_digest} {core.episode.key} {core.episode.task.digest} {observation}\n"


def test_the_spec_digest_counts_what_differs_from_the_defaults():
    default = gym.make(ID).unwrapped.spec_digest
    assert gym.make(ID, turns=9).unwrapped.spec_digest == default
    assert gym.make(ID, render_mode="ansi").unwrapped.spec_digest == default
    assert gym.make(ID, turns=8).unwrapped.spec_digest != default


def test_a_default_given_as_a_list_is_still_the_default():
    given = gym.make(ID, words=("higher", "lower"))
    assert given.unwrapped.spec_digest == gym.make(ID).unwrapped.spec_digest
    travelled = gym.make(gym.envs.registration.EnvSpec.from_json(given.spec.to_json()))
    assert travelled.unwrapped.arguments["words"] == ["higher", "lower"]
    assert travelled.unwrapped.spec_digest == given.unwrapped.spec_digest


class Demanding(Guess):
    """An argument without a default."""

    def __init__(self, *, least: int, turns: int = 9) -> None:
        super().__init__(turns=turns)
        self.least = least


def test_an_environment_with_a_required_argument_can_be_copied():
    env = Demanding(least=3)
    env.reset(seed=0)
    twin = copy.deepcopy(env)
    assert twin.arguments == env.arguments == {"least": 3, "turns": 9} and twin.least == 3
    assert twin.step(COMPARE)[0] == env.step(COMPARE)[0]
    with pytest.raises(TypeError, match="least"):
        Demanding()


def test_spaces_belong_to_one_environment():
    one, two = Guess(), Guess()
    one.action_space.seed(1), two.action_space.seed(2)
    assert one.action_space is not two.action_space
    assert one.action_space == two.action_space


def test_a_turn_carries_its_origin():
    env = gym.make(ID).unwrapped
    env.reset(seed=0, options={"episode_key": "k"})
    env.step(COMPARE)
    turn = env.episode.turns[-1]
    assert isinstance(turn, Turn) and (turn.origin, turn.node) == ("k/", "k/:1")
