"""Scripted feedback of Crafter: what a player who remembers knows, and that who does what hints say gets on."""

import gymnasium as gym

from agent_envs.base.messages import Message
from agent_envs.core.trajectory import Task
from agent_envs.envs.text_games.crafter.env import ACTIONS, NOOP, CrafterWorld
from agent_envs.envs.text_games.crafter.hint import Land
from agent_envs.envs.text_games.crafter.world import new_game, world_digest, world_text
from agent_envs.envs.text_games.feedback import read_observations
from tests.envs.text_games.test_feedback import TASKS, as_text
from tests.hinted import counts


def test_good_hints_help_in_the_open_world():
    env = gym.make("agent_envs/Crafter-v0", goal="make_pickaxe", max_turns=40)
    lands = (land("make_pickaxe", number) for number in TASKS)
    assert list(counts(env, lands, as_text).values()) == [9, 2, 0]


def land(goal, number):
    """Return the task of a world, whether or not its goal can be reached in time."""
    digest = world_digest(world_text(new_game(number)))
    return Task(f"land-{number}", "train", goal, (), "land", CrafterWorld(goal, number, digest))


def test_where_a_player_stands_is_known_from_what_it_saw():
    env = gym.make("agent_envs/Crafter-v0", goal="make_pickaxe").unwrapped
    right, steps = 0, 0
    for number in range(6):
        env.reset(options={"task": land("make_pickaxe", number)})
        messages = list(env.episode.prompt)
        start = env.game.twin(env.episode.state).chart().place
        for turn in range(40):
            action = f"ACTION: {('move left', 'move up', 'do', 'move up', 'move right')[turn * turn % 5]}"
            if any(env.step(action)[2:4]):
                break
            messages += [Message("assistant", action, "policy"), *env.episode.turns[-1].observation]
            place = env.game.twin(env.episode.state).chart().place
            x, y = Land.of(read_observations(messages, ACTIONS, NOOP)).place
            right += (x, y) == (place % 64 - start % 64, place // 64 - start // 64)
            steps += 1
    assert (right, steps) == (239, 239)
