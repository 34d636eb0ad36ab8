"""`EnvUnderTest` holds the environment under test, how to make it again, and what all checks share."""

import inspect
import json
import pickle
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import is_local, sha256_text
from agent_envs.base.terminal import escaped
from agent_envs.core.env import TurnEnv, core_of, spec_json
from agent_envs.core.registry import companion
from agent_envs.core.snapshot import Snapshot, fork, snapshot

MOST_CHARACTERS = 1_000  # of the detail of a check
HOOKS = {"solver": ("env",), "sampler": ("env", "rng"), "heuristic": ("request",)}  # and how they are called


class CheckFailed(Exception):
    """The failure of a check: what the environment does against the contract."""


class CheckSkipped(Exception):
    """A check that could not be made, and why."""


@dataclass(frozen=True)
class Check:
    """One line of a report; `status` is passed, failed, skipped or, of anyone's environment, cannot be asked."""

    name: str
    status: str
    detail: str
    seconds: float

    def __post_init__(self) -> None:
        """Keep the detail one bounded line: an environment's own words must not write lines of the report."""
        object.__setattr__(self, "detail", escaped(self.detail, MOST_CHARACTERS))


@dataclass(frozen=True)
class Report:
    """The results of the checks."""

    env_id: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(check.status != "failed" for check in self.checks)

    @property
    def counts(self) -> Counter[str]:
        """How many checks have each status."""
        return Counter(check.status for check in self.checks)

    def text(self) -> str:
        """Return the environment's id, one line a check below it (status, name, detail), and how many have each status."""
        width = max(8, *(len(status) + 1 for status in self.counts))
        lines = [f"{check.status:{width}}{check.name:30}{check.detail}" for check in self.checks]
        return "\n".join([self.env_id, *lines, ", ".join(f"{count} {status}" for status, count in self.counts.items())])

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        checks = [asdict(check) for check in self.checks]
        return {"env_id": self.env_id, "ok": self.ok, "counts": dict(self.counts), "checks": checks}


@dataclass(frozen=True)
class Script:
    """One recorded episode: how it starts and what is done in it."""

    seed: int
    task: int
    split: str
    actions: tuple[Any, ...]


@dataclass(frozen=True)
class ForkPoint:
    """A snapshot and a pickle in the middle of a script, and the digests of what follows it."""

    script: Script
    turn: int
    snapshot: Snapshot
    pickled: bytes
    future: list[str]

    @property
    def start(self) -> int:
        """The start for `play`: the turn, or without one a number before the reset, which `play` does at 0."""
        return self.turn or -len(self.script.actions)

    def to_json(self) -> dict[str, Any]:
        """Return script, start, snapshot and pickle (as hex) as JSON, which a fresh process goes on from."""
        text = self.snapshot.to_bytes().decode("utf-8", "surrogatepass")
        return {"script": asdict(self.script), "start": self.start, "snapshot": text, "pickle": self.pickled.hex()}


@dataclass
class EnvUnderTest:
    """An environment that can be made again, and the tasks that checks play."""

    env_id: str
    recipe: dict[str, Any]
    split: str
    tasks: int
    hostile: int
    importable: bool
    hooks: dict[str, Callable[..., Any]]
    _scripts: list[Script] = field(default_factory=list)
    _moments: list[ForkPoint] = field(default_factory=list)

    @classmethod
    def of(
        cls, env: str | gym.Env[Any, Any], arguments: dict[str, Any], *, tasks: int, hostile: int, split: str | None
    ) -> "EnvUnderTest":
        """Return the subject of an id or environment: how to make it again, split, tasks, hooks; UsageError where one lacks."""
        if isinstance(env, str):
            env = gym.make(env, **arguments)
        elif arguments:
            raise UsageError(f"check_turn_env: arguments {sorted(arguments)} go with an id, not with an environment")
        core = core_of(env)
        for name in ("source", "reward_spec", "max_turns"):
            if not hasattr(core, name):
                raise UsageError(
                    f"check_turn_env: {core.env_id} sets no {name} in its constructor, as every TurnEnv does"
                )
        recipe: dict[str, Any] = {"module": type(core).__module__}
        if env.spec is not None:
            recipe["spec"] = spec_json(env)
        elif env is core and not is_local(core.arguments):
            recipe |= {"class": type(core).__qualname__, "arguments": core.arguments}
        else:
            raise UsageError(f"check_turn_env: {core.env_id} cannot be made again; make it with gymnasium.make")
        if companion(env, "sampler") is None:
            raise UsageError(
                f"check_turn_env: {core.env_id} has no sampler of legal actions, which the checks play with: "
                "agent_envs.register_companions(YourEnv, sampler=..., solver=...)"
            )
        hooks = {kind: hook for kind in HOOKS if (hook := companion(env, kind)) is not None}
        for kind, hook in hooks.items():
            try:
                inspect.signature(hook).bind(*HOOKS[kind])
            except TypeError as error:
                code, called = getattr(hook, "__code__", None), f"called as {kind}({', '.join(HOOKS[kind])})"
                where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
                raise UsageError(f"check_turn_env: {core.env_id}: its {kind}{where} is {called}: {error}") from error
        splits = core.source.splits
        split_name = split or ("test" if "test" in splits else splits[-1])
        count = min(tasks, core.source.size(split_name))
        return cls(core.env_id, recipe, split_name, count, hostile, recipe["module"] != "__main__", hooks)

    def make(self) -> gym.Env[Any, Any]:
        """Return a fresh environment."""
        return make_again(self.recipe)

    def reset(self, env: gym.Env[Any, Any], task: Any, seed: int = 0) -> tuple[str, dict[str, Any]]:
        """Reset to a task of the split."""
        return env.reset(seed=seed, options={"task": task, "split": self.split})

    def scripts(self) -> list[Script]:
        """Return the random sampler's episode of each task, recorded at the first call."""
        if not self._scripts:
            env = self.make()
            for task in range(self.tasks):
                self.reset(env, task, seed=task)
                rng = random.Random(f"check:{task}")
                actions, over = [], False
                while not over:
                    actions.append(self.sample(env, rng))
                    _, _, terminated, truncated, _ = env.step(actions[-1])
                    over = terminated or truncated
                self._scripts.append(Script(task, task, self.split, tuple(actions)))
        return self._scripts

    def moments(self) -> list[ForkPoint]:
        """Return a snapshot and pickle at a random turn of each script, and the digests after it; made at the first call."""
        if not self._moments:
            env = self.make()
            for script in self.scripts():
                digests = play(env, script)
                turn = random.Random(f"restore:{script.task}").randrange(len(script.actions))
                self.reset(env, script.task, script.seed)
                for action in script.actions[:turn]:
                    env.step(action)
                self._moments.append(ForkPoint(script, turn, snapshot(env), pickle.dumps(env), digests[turn + 1 :]))
        return self._moments

    def sample(self, env: gym.Env[Any, Any], rng: random.Random) -> Any:
        """Return a random legal action by the class's sampler; an id as a plain int."""
        sampler = companion(env, "sampler")
        assert sampler is not None
        action = sampler(env, rng)
        return int(action) if isinstance(action, np.integer) else action  # scripts travel as JSON

    def lasting_step(
        self, env: gym.Env[Any, Any], rng: random.Random
    ) -> tuple[gym.Env[Any, Any], Any, tuple[Any, ...]]:
        """Step a fork by a random legal action that ends no episode, or `env` by "" if 16 all do; return env, action, result.

        Returns:
            The environment that goes on, which may be a fork; the action; and what the step returned.
        """
        for _ in range(16):
            action, twin = self.sample(env, rng), fork(env)
            result = twin.step(action)
            if not result[2]:
                return twin, action, result
        return env, "", env.step("")


def make_again(recipe: dict[str, Any]) -> gym.Env[Any, Any]:
    """Return the environment of a recipe, in this process or another."""
    module = __import__(recipe["module"], fromlist=["_"])
    if "spec" in recipe:
        return gym.make(EnvSpec.from_json(recipe["spec"]))
    env: TurnEnv = getattr(module, recipe["class"])(**recipe["arguments"])
    return env


def step_digest(result: Sequence[Any]) -> str:
    """Return the digest of a reset's or a step's whole result."""
    # A second pass sorts the keys: only then are all of them texts, whatever a stranger's environment has for keys.
    plain = json.loads(json.dumps(list(result), default=_jsonable, allow_nan=False))
    return sha256_text(json.dumps(plain, sort_keys=True))


def play(env: gym.Env[Any, Any], script: Script, start: int = 0) -> list[str]:
    """Return digests of a script's steps from `start` on (negative: from its end); at 0 of its reset too, else none is made."""
    digests = []
    if start == 0:
        digests.append(step_digest(env.reset(seed=script.seed, options={"task": script.task, "split": script.split})))
    digests += [step_digest(env.step(action)) for action in script.actions[start:]]
    return digests


def _jsonable(value: Any) -> Any:
    """Return numpy arrays as lists and scalars as plain values for JSON; TypeError for anything else."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"info holds a {type(value).__name__}, which JSON has no form for")
