"""Environments whose steps pay for an answer, end their process, or lack a package, and agents that play them."""

import os
import time
from pathlib import Path

import gymnasium as gym

from agent_envs.base.errors import EnvFault, MissingExtra
from agent_envs.rollout.policy import Reply
from agent_envs.services.recording import CallSite, ExternalPort
from tests.toy import Guess

FOLDER = "RAY_TOYS"  # the variable that names the folder in which toys leave their marks


def mark(name):
    """Whether this mark is new; it is there from now on."""
    try:
        Path(os.environ[FOLDER], name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def note(line):
    """Write a line of calls."""
    with Path(os.environ[FOLDER], "calls").open("a") as file:
        file.write(f"{line}\n")
    return line


class Paid(Guess):
    """Each step asks a service, which writes a line; the process of one step in three ends right after the answer."""

    @property
    def waits(self):
        return True

    def step(self, action):
        place = f"{self.episode.key}-{len(self.episode.turns)}"
        port = ExternalPort("toy", lambda request, seconds: note(request["place"]), recording=self.services.recording)
        port.call({"place": place}, CallSite(self.episode.key, ordinal=len(self.episode.turns)))
        if len(self.episode.turns) % 3 == 1 and mark(f"{place}.end"):
            os._exit(9)
        return super().step(action)


class Dying(Guess):
    """A step that takes all memory: the system kills the process, at each try where `once` is False."""

    def __init__(self, *, once: bool = True):
        super().__init__()
        self.once = once

    def step(self, action):
        if mark("dead") or not self.once:
            os.kill(os.getpid(), 9)
        return super().step(action)


class Lacking(Guess):
    """An environment whose package is on the driver's machine alone."""

    def __init__(self):
        if str(os.getpid()) != os.environ["RAY_TOYS_DRIVER"]:
            raise MissingExtra("minigrid", "babyai", "BabyAI")
        super().__init__()


class Away(Guess):
    """A service that is away in the second turn, for good."""

    def step(self, action):
        if self.episode.turns:
            raise EnvFault("the service is away", retryable=False)
        return super().step(action)


class Talker:
    """An agent that is paid for, and counts what it is asked for each turn of an episode."""

    name, batch = "talker", 1

    def __init__(self, seconds=0.0):
        self.calls, self._seconds = [], seconds

    def act(self, requests):
        self.calls += [(request.origin, request.turn) for request in requests]
        time.sleep(self._seconds)
        return [Reply(f"<luck>{request.turn} {request.seed}</luck>", usage={"calls": 1}) for request in requests]


for kind in (Paid, Dying, Lacking, Away):
    if f"toy/{kind.__name__}-v0" not in gym.registry:
        gym.register(f"toy/{kind.__name__}-v0", entry_point=f"{__name__}:{kind.__name__}")
