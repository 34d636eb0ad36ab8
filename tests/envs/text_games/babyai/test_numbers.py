"""BabyAI in numbers: two worlds that look alike have one vector, and what the text tells can be read from it."""

import gymnasium as gym
import numpy as np
import pytest

from agent_envs import UsageError
from agent_envs.envs.text_games.babyai.describe import describe
from agent_envs.envs.text_games.babyai.grid import EMPTY, UNSEEN, WALL, visible
from agent_envs.envs.text_games.babyai.mission import surface
from agent_envs.envs.text_games.babyai.numbers import GridActions

ID = "agent_envs/BabyAIDiscrete-v0"
KINDS = ("key", "ball", "box", "door")
COLORS = ("red", "green", "blue", "purple", "yellow", "grey")


def read(vector):
    """Return the view that a vector tells, a word a cell."""
    words = []
    for cell in vector[: 49 * 16].reshape(49, 16):
        kind = (UNSEEN, EMPTY, WALL, *KINDS)[cell[:7].argmax()]
        color = COLORS[cell[7:13].argmax()] if cell[7:13].any() else ""
        state = ("open", "closed", "locked")[cell[13:].argmax()] if cell[13:].any() else ""
        words.append((kind, color, state))
    return words


def test_the_view_is_the_one_that_the_text_is_written_from():
    env, rng, missions = gym.make(ID), np.random.default_rng(0), {}
    for seed in range(40):
        vector, _ = env.reset(seed=seed)
        for _ in range(8):
            world = env.unwrapped.episode.state
            things = [
                world.things[ord(mark) - 64] if mark not in (UNSEEN, EMPTY, WALL) else mark for mark in visible(world)
            ]
            wanted = [
                (each, "", "") if isinstance(each, str) else (each.kind, each.color, each.state) for each in things
            ]
            assert read(vector) == wanted and vector[-1] == pytest.approx(1 - world.steps / world.limit)
            text = surface(world.instructions).replace(" a ", " the ")
            assert missions.setdefault(vector[49 * 16 : -1].tobytes(), text) == text
            vector, _, terminated, truncated, _ = env.step(int(rng.integers(6)))
            if terminated or truncated:
                break
    assert len(set(missions.values())) == len(missions) > 20


def test_a_number_is_the_action_of_that_number():
    numeric, text = gym.make(ID), gym.make("agent_envs/BabyAI-v0")
    numeric.reset(seed=3), text.reset(seed=3)
    for number in (0, 1, 2, 5, 3, 4):
        _, reward, *ends, info = numeric.step(np.int64(number))
        observation, *others, _ = text.step(text.unwrapped.say(number))
        assert [reward, *ends] == others and info["messages"][0]["content"] == observation
        assert describe(numeric.unwrapped.episode.state) == describe(text.unwrapped.episode.state)
    for wrong in (6, -1, "left", 1.5):
        with pytest.raises(UsageError, match="an action is a number from 0 to 5"):
            numeric.step(wrong)


def test_a_level_of_minigrid_fits_and_other_environments_are_refused():
    env = gym.make(ID, level="BossLevel")
    assert env.observation_space.contains(env.reset(seed=0)[0])
    with pytest.raises(UsageError, match="agent_envs/Sort-v0 is not BabyAI"):
        GridActions(gym.make("agent_envs/Sort-v0"))
