"""Episodes of solvers, and of agents that err on purpose, are played on tasks from all over a split."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import UsageError
from agent_envs.core.env import core_of
from agent_envs.core.trajectory import Trajectory
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import Policy, Reply, Request
from trainers.environments import spread_task

Act = Callable[[Request], str | int]


class EpisodeAgent:
    """An agent that is made anew for each episode: `start`, called at its beginning, returns what acts in it."""

    batch = 1
    needs_env = True
    privileged = True

    def __init__(self, name: str, start: Callable[[gym.Env[Any, Any]], Act]) -> None:
        """Take its name, and what makes it."""
        self.name, self._start, self._act = name, start, None

    def begin(self, env: gym.Env[Any, Any]) -> "EpisodeAgent":
        """Return the agent of the episode that `env` is at the start of."""
        agent = copy.copy(self)
        agent._act = self._start(env)
        return agent

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return an action for each request of the one episode that `begin` was called for; UsageError before that."""
        if self._act is None:
            raise UsageError(f"{self.name} acts in one environment; call begin(env) first")
        return [Reply(self._act(request)) for request in requests]


def spread_episode(env: gym.Env[Any, Any], policy: Policy, split: str, number: int) -> Trajectory:
    """Play the `number`-th task of those that `spread_task` takes from a split."""
    task = spread_task(core_of(env).source, split, number)
    return run_episode(env, policy, seed=number, split=split, task=task).trajectory
