"""Environments that are slow, stuck or faulty, as registered ids."""

import time

import gymnasium as gym

from agent_envs import EnvFault
from tests.toy import Guess


class Slow(Guess):
    """Steps of 50 ms."""

    def step(self, action):
        time.sleep(0.05)
        return super().step(action)


class Stuck(Guess):
    """A step that takes a second."""

    seconds = 1.0

    def step(self, action):
        time.sleep(self.seconds)
        return super().step(action)


class Failing(Guess):
    """A service that is away at every step."""

    def step(self, action):
        raise EnvFault("the service is away")


for kind in (Slow, Stuck, Failing):
    if f"toy/{kind.__name__}-v0" not in gym.registry:
        gym.register(f"toy/{kind.__name__}-v0", entry_point=f"{__name__}:{kind.__name__}")
