"""A small third party's environment whose manners can be spoiled: climb three stairs; some seeds have a slippery first one."""

import threading

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from agent_envs.core.registry import register_companions
from agent_envs.envs.text_games.adapter import TextAdapter, look_ahead


class Stairs(gym.Env):
    def __init__(self, top=3, space=None, render_mode=None):
        self.top, self.render_mode = top, render_mode
        self.action_space = space or Discrete(3)
        self.observation_space = Dict({"height": Box(0, 99, (1,), np.int64)})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.height, self.slippery = 0, bool(self.np_random.integers(2))
        return self.seen(), {"slippery": self.slippery}

    def step(self, action):
        up = int(action) - int(getattr(self.action_space, "start", 0)) - 1
        if not (self.slippery and self.height == 0 and self.np_random.integers(2)):
            self.height = max(self.height + up, 0)
        top = self.height == self.top
        return self.seen(), np.float32(top), np.bool_(top), np.bool_(False), {}

    def seen(self):
        return {"height": np.array([self.height])}


def told(env, observation, info):
    return f"stair {int(observation['height'][0])}"


NAMES = ["down", "stay", "up"]


def adapted(env=Stairs, describe=told, actions=NAMES, prompt="Climb.", **arguments):
    return TextAdapter(env, describe, actions, prompt, **{"max_turns": 8, **arguments})


class Climb(TextAdapter):
    """Stairs with an id of its own."""

    made = Stairs

    def __init__(self, *, top=3, reward="binary", copies=True, render_mode=None):
        more = {} if copies else {"copy_env": None}
        super().__init__(self.made, told, NAMES, "Climb {goal}.", goal="up", max_turns=8, native=(0, 1), reward=reward,
                         env_arguments={"top": top}, render_mode=render_mode, **more)  # fmt: skip


class Locked(Stairs):
    """It cannot be copied."""

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.lock = threading.Lock()


class LockedClimb(Climb):
    """Stairs that cannot be copied, with an id."""

    made = Locked


def dry(env, **options):
    """Reset to the first seed whose first stair is not slippery."""
    for task in range(20):
        env.reset(seed=0, options={"task": task, **options})
        with env.game.replays.at(env.episode.state.seed, "") as live:
            if not live.info["slippery"]:
                return task
    raise AssertionError


register_companions(Climb, solver=look_ahead())
register_companions(LockedClimb, solver=lambda env: "ACTION: up")
