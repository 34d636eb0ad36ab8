"""Third parties with bad manners get clear errors, and what can be helped is: prints, copies, odd scalars."""

import random

import gymnasium as gym
import pytest

from agent_envs import fork
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.envs.text_games.adapter import sharing
from tests.envs.text_games.adapter.stairs import Stairs, adapted, dry
from tests.rows import each_row


class Rude(Stairs):
    def reset(self, *, seed=None, options=None):
        print("hello from rude")
        super().reset(seed=seed)
        return self.seen(), None

    def step(self, action):
        print("step by step")
        return (*super().step(action)[:4], None)


def test_what_it_prints_is_dropped_and_info_may_be_none(capsys):
    env = adapted(Rude)
    env.reset(seed=0)
    env.step("ACTION: up")
    print("mine")
    assert capsys.readouterr() == ("mine\n", "")


def spoiled(**methods):
    return type("Odd", (Stairs,), methods)


def old_step(self, action):
    return self.seen(), 0.0, False, {}


def paying(reward):
    def step(self, action):
        return self.seen(), reward, False, False, {}

    return step


def failing(self, action):
    raise RuntimeError("socket closed")


@each_row(
    ("env", "arguments", "why", "kind"),
    [
        (spoiled(reset=lambda self, seed=None: 0), {}, r"Odd: reset\(\) did not return", UsageError),
        (spoiled(reset=lambda self: None), {}, r"Odd: reset\(\) raised TypeError", EnvFault),
        (spoiled(step=old_step), {}, r"Odd: step\(\) did not return", UsageError),
        (spoiled(step=failing), {}, r"Odd: step\(\) raised RuntimeError: socket closed", EnvFault),
        (spoiled(step=paying(float("nan"))), {}, "the reward is nan", UsageError),
        (spoiled(step=paying("much")), {}, "the reward is a str", UsageError),
        (spoiled(step=paying(2)), {"native": (0, 1)}, r"the reward is 2, outside native=\(0, 1\)", UsageError),
        (Stairs, {"describe": lambda *_: 5}, r"describe\(...\) returned a int", UsageError),
        (Stairs, {"describe": lambda *_: 1 / 0}, "division", ZeroDivisionError),
    ],
)
def test_bad_manners_have_names(env, arguments, why, kind):
    spoilt = adapted(env, **{"seeds": {"train": range(5)}, **arguments})
    with pytest.raises(kind, match=why):
        spoilt.reset(seed=0)
        spoilt.step("ACTION: up")


def test_a_fault_leaves_the_episode_where_it_was():
    class Shaky(Stairs):
        broken = False

        def step(self, action):
            if Shaky.broken:
                raise OSError("gone")
            return super().step(action)

    env = adapted(Shaky)
    dry(env)
    env.step("ACTION: up")
    Shaky.broken = True
    with pytest.raises(EnvFault, match="OSError: gone"):
        env.step("ACTION: up")
    Shaky.broken = False
    assert env.step("ACTION: up")[0] == "stair 2"


def test_texts_are_fit_for_utf8():
    assert adapted(describe=lambda *_: "a\ud800b").reset(seed=0)[1]["messages"][1]["content"] == "a?b"


def test_what_is_not_deterministic_is_named():
    class Dice(Stairs):
        def step(self, action):
            self.height = random.Random().randrange(10**9)
            return self.seen(), 0.0, False, False, {}

    env = adapted(Dice)
    env.reset(seed=0)
    env.step("ACTION: up")
    twin = fork(env)
    twin.step("ACTION: up")
    with pytest.raises(EnvFault, match="Dice is not deterministic"):
        env.step("ACTION: up")


def test_the_environment_that_is_given_is_not_stepped():
    mine = Stairs()
    env = adapted(mine)
    env.reset(seed=0)
    env.step("ACTION: up")
    assert not hasattr(mine, "height")


def test_a_first_start_uses_the_environment_that_was_made_to_look_at():
    made = []

    def make():
        made.append(Stairs())
        return made[-1]

    env = adapted(make)
    env.reset(seed=0)
    assert len(made) == 1 and hasattr(made[0], "height")
    env.reset(seed=0, options={"task": 1})
    assert len(made) == 2


def test_sharing_shares_what_it_is_told_and_spaces():
    env = gym.make("FrozenLake-v1", disable_env_checker=True)
    env.reset(seed=0)
    twin = sharing("P")(env)
    assert twin is not env and twin.unwrapped is not env.unwrapped
    assert twin.unwrapped.P is env.unwrapped.P and sharing()(env).unwrapped.P is not env.unwrapped.P
    assert twin.unwrapped.action_space is env.unwrapped.action_space
    assert twin.unwrapped.np_random is not env.unwrapped.np_random
    env.unwrapped.action_space.seed(1)
    assert sharing("P")(env).unwrapped.action_space is not env.unwrapped.action_space
    with pytest.raises(AttributeError, match="Q"):
        sharing("Q")(env)
