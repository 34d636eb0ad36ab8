"""Scripted feedback of the games: who does what good hints say wins more, who does what bad ones say hardly ever."""

from tests.needs import require

require("[envs]")

import random
import re

import gymnasium as gym
import pytest

from agent_envs.base.messages import Message
from agent_envs.envs.text_games.baba_is_ai.env import describe
from agent_envs.envs.text_games.baba_is_ai.hint import read_map
from agent_envs.envs.text_games.babyai.env import ACTIONS
from agent_envs.envs.text_games.babyai.hint import Belief
from agent_envs.envs.text_games.feedback import read_observations
from tests.examples import part
from tests.hinted import Moment, along, counts, half_able

TASKS = range(part(30, 10))


def as_text(moment):
    """Do the action that a hint names; else what comes to mind, now and then the right thing."""
    named = re.search(r"Next: ([a-z ]+)\.$", moment.hint)
    return f"ACTION: {named[1]}" if named else half_able(moment, 0.0 if "rooms" in moment.prompt else 0.3)


@pytest.mark.parametrize(
    "name, arguments, found",
    [("BabyAI", {}, part([30, 5, 0], [10, 1, 0])), ("BabaIsAI", {"max_turns": 40}, part([30, 13, 0], [10, 6, 0]))],
    ids=str,
)
def test_good_hints_help_and_misleading_ones_hurt(name, arguments, found):
    env = gym.make(f"agent_envs/{name}-v0", **arguments)
    assert list(counts(env, TASKS, as_text).values()) == found


def test_a_map_is_read_as_it_is_described():
    env = gym.make("agent_envs/BabaIsAI-v0").unwrapped
    for number in range(40):
        env.reset(options={"task": number})
        world = env.episode.state.world
        read = read_map(describe(world))
        assert (read.width, read.height, read.texts) == (world.width, world.height, world.texts)
        assert sorted(zip(read.places, read.objects)) == sorted(zip(world.places, world.objects))  # noqa: B905


def test_where_a_player_stands_is_known_from_what_it_saw():
    env = gym.make("agent_envs/BabyAI-v0", kind="putnext")
    for number in range(5):
        env.reset(options={"task": number})
        core, messages = env.unwrapped, list(env.unwrapped.episode.prompt)
        start, over = core.episode.state, False
        while not over:
            action = half_able(Moment(env, messages, "", random.Random(0), {}), 1.0)
            over = any(env.step(action)[2:4])
            messages += [Message("assistant", action, "policy"), *core.episode.turns[-1].observation]
            world, belief = core.episode.state, Belief.of(read_observations(messages, ACTIONS, 2))
            y, x = divmod(world.place, world.width)
            top, left = divmod(start.place, start.width)
            turned = 1j ** (start.facing + 1)  # minigrid counts facings from the east, a belief from the first one on
            assert belief.place * turned == complex(x - left, y - top)


def test_the_hints_of_an_episode():
    env = gym.make("agent_envs/BabyAI-v0", kind="pickup")
    look = "It was not seen yet where the blue key is, so look where nothing was seen. Next: turn left."
    go, take = (f"The way to the blue key is known. Next: {action}." for action in ("go forward", "pick up"))
    assert along(env, 2) == [*[look] * 5, *[go] * 3, take]
    away = along(env, 2, "misleading")
    assert away[0] == "It cannot be that way to the blue key. Next: turn right."
    assert away[-1] == "It cannot be that way to the blue key. Next: turn left."
