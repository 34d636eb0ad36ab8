"""Scripted agents for benchmarks and demonstrations search three times and answer, at once or after a latency."""

import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from agent_envs import Reply, Request
from agent_envs.core.registry import companion
from agent_envs.rollout.policy import CompanionPolicy

TURNS = 4
LATENCY_SECONDS = 0.05


def script(request: Request) -> Reply:
    """Search three times, then answer: four turns, with words of the question as queries."""
    question = request.messages[0]["content"].rsplit("Question: ", 1)[-1]
    words = question.rstrip("?").split()
    if request.turn < TURNS:
        return Reply(f"<search>{' '.join(words[-request.turn - 1 :])}</search>", usage={"input": 100, "output": 10})
    return Reply(f"<answer>{words[-1]}</answer>", usage={"input": 100, "output": 10})


class Instant:
    """A policy of four turns that replies at once."""

    name, batch = "instant", 1

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return the scripted replies."""
        return [script(request) for request in requests]


class Slow(Instant):
    """A model behind an API: 50 ms a call, any number of calls at a time."""

    name = "slow"

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return the scripted replies after the latency."""
        time.sleep(LATENCY_SECONDS)
        return super().act(requests)


class SlowEngine(Slow):
    """A local engine: 50 ms a call, whatever the size of the batch, one call at a time."""

    name = "engine"

    def __init__(self, batch: int = 32) -> None:
        """Take at most `batch` requests a call."""
        self.batch = batch


class Heuristics:
    """The heuristic of each environment; random legal play where a third party's has none."""

    name, batch, needs_env = "heuristics", 1, True

    def begin(self, env: gym.Env[Any, Any]) -> CompanionPolicy:
        """Return the built-in agent for one episode of `env`."""
        kind = "random" if companion(env, "heuristic") is None else "heuristic"
        return CompanionPolicy(kind, env)

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Raise: the agent that `begin` returns for an episode acts in it."""
        raise NotImplementedError("Heuristics plays by episode: call begin(env) first")
