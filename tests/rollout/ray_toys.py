"""Environments whose steps pay for an answer, end their process, or lack a package, and agents that play them."""

import os
import time
from pathlib import Path

import gymnasium as gym

from agent_envs.base.errors import EnvFault, MissingExtra, UsageError
from agent_envs.core.env import spec_json
from agent_envs.rollout.episode_runner import Planned
from agent_envs.rollout.policy import Reply
from agent_envs.rollout.ray_backend import Actors
from agent_envs.rollout.reply_log import ReplyLog
from agent_envs.rollout.run_many import run_many
from agent_envs.services.recording import CallSite, ExternalPort
from agent_envs.services.run_services import Services
from tests.toy import Guess

FOLDER = "RAY_TOYS"  # the variable that names the folder in which toys leave their marks


def mark(name):
    """Whether this mark is new; it is there from now on."""
    try:
        Path(os.environ[FOLDER], name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def note(line, name="calls"):
    """Write a line of a file."""
    with Path(os.environ[FOLDER], name).open("a") as file:
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
    """A step that takes all memory: the system kills the process, at each try where `once` is False, or of one episode."""

    def __init__(self, *, once: bool = True, key: str = ""):
        super().__init__()
        self.once, self.key = once, key

    def step(self, action):
        if (self.episode.key == self.key and self.episode.turns) if self.key else (mark("dead") or not self.once):
            os.kill(os.getpid(), 9)
        return super().step(action)


class Greedy(Guess):
    """A step that takes four fifths of the memory that is free, once, if it is not ended before."""

    def step(self, action):
        if mark("greedy"):
            taken = [b"x" * 10**8 for _ in range(int(memory()[1] * 0.8 / 1e8))]
            time.sleep(60)
            del taken
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


class Exiting(Guess):
    """A step that ends the program, or what runs it."""

    def __init__(self, *, interrupt: bool = False):
        super().__init__()
        self.interrupt = interrupt

    def step(self, action):
        raise KeyboardInterrupt if self.interrupt else SystemExit(0)


class Stillborn:
    """The class of an actor whose process ends as it begins."""

    def __init__(self):
        os._exit(7)

    def play(self, turns, ended=(), recording=None):
        return []


class Talker:
    """An agent that is paid for, and counts what it is asked for each turn of an episode, in a file where that has a name."""

    batch = 1

    def __init__(self, seconds=0.0, file="", name="talker"):
        self.name = name
        self.calls, self._seconds, self._file = [], seconds, file

    def act(self, requests):
        self.calls += [(request.origin, request.turn) for request in requests]
        if self._file:
            note("\n".join(f"{request.origin}:{request.turn}" for request in requests), self._file)
        time.sleep(self._seconds)
        return [Reply(f"<luck>{request.turn} {request.seed}</luck>", usage={"calls": 1}) for request in requests]


class Keyless(Talker):
    """An agent whose key is on the driver's machine alone."""

    def __init__(self):
        if str(os.getpid()) != os.environ["RAY_TOYS_DRIVER"]:
            raise UsageError("set TOY_KEY")
        super().__init__()


class OddError(Exception):
    """An error that does not unpickle."""

    def __init__(self, code, *, body):
        super().__init__(f"{code} {body}")


class Odd(Talker):
    """An agent with an error of its own."""

    def act(self, requests):
        raise OddError(3, body=len(requests))


class NotedReplies(ReplyLog):
    """A log of replies that notes in the file of calls what it has."""

    def put(self, key, place, reply):
        super().put(key, place, reply)
        note(f"kept {key}:{reply.action.removeprefix('<luck>').split()[0]}", "talks")


class Again:
    """An agent that says in each episode what another one said."""

    batch = 1

    def __init__(self, name, results):
        self.name = name
        self._turns = {result.trajectory.header.episode_key: result.trajectory.turns for result in results}

    def act(self, requests):
        return [Reply(self._turns[request.episode_key][request.turn - 1].action) for request in requests]


def memory():
    """The bytes of memory that the machine has, and those that are free."""
    rows = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return tuple(int(rows[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))


def losses(actors):
    """The number of times that Ray began another process for one of these actors."""
    import ray

    ids = [place.handle._actor_id.hex() for place in actors._places if place.handle is not None]
    return sum(ray._private.state.actors(one)["NumRestarts"] for one in ids)


def greedy_run():
    """Play an episode of Greedy in an actor and print its status, and how often the actor was lost."""
    plan = [Planned("k", spec_json(gym.make("toy/Greedy-v0")), 0, "test", 0)]
    with Actors(1, agent=Talker) as actors:
        ((_, result),) = run_many(plan, Talker(), services=actors.services(Services()))
        lost = losses(actors)
    print(result.status, lost)


for kind in (Paid, Dying, Greedy, Exiting, Lacking, Away):
    if f"toy/{kind.__name__}-v0" not in gym.registry:
        gym.register(f"toy/{kind.__name__}-v0", entry_point=f"{__name__}:{kind.__name__}")
