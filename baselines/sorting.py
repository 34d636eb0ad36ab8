"""The reference sorting algorithms play Sort and SortExpA: EARL's Table 2 has optimal, insertion, GCC (`earl_star`) and others.

They ask no model. The algorithms belong to the environment's family, because its rewards and pages rest on their counts.
Differs from the paper: Algorithm 2 as printed is `earl_star_as_printed`; `earl_star` has the skip that gives the listed
4.833.
"""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import UsageError
from agent_envs.core.env import core_of
from agent_envs.core.trajectory import Trajectory
from agent_envs.envs.expa.expanded_env import ExpandedActionEnv
from agent_envs.envs.expa.sorting.algorithms import ALGORITHMS, able_sizes
from agent_envs.envs.expa.sorting.environments import SYMBOLS
from agent_envs.envs.expa.sorting.solver import Move, expanded_action
from agent_envs.envs.expa.sorting.tasks import SortData
from agent_envs.rollout.policy import Reply, Request


class SortingAgent:
    """An agent that sorts as a reference algorithm does. It reads the answers to its calls, and nothing that is hidden.

    On the command line: `agent-envs eval Sort --agent baseline:sorting`, with `--agent-arg algorithm=merge` for another.
    """

    batch = 1
    needs_env = True

    def __init__(self, algorithm: str = "optimal", env: gym.Env[Any, Any] | None = None) -> None:
        """Take the name of an algorithm; `begin` binds the agent to an episode's environment."""
        able_sizes(algorithm)
        self.name = f"sorting-{algorithm}"
        self._algorithm, self._env = algorithm, env

    def begin(self, env: gym.Env[Any, Any]) -> "SortingAgent":
        """Return a new agent for one episode of `env`; UsageError if its task is not sorting, or of a size it is not for.

        Raises:
            UsageError: its task is no sorting task, or has more items than the algorithm is for.
        """
        core = core_of(env)
        data = core.episode.task.data
        if not isinstance(data, SortData) or data.kind != "sort":
            raise UsageError(f"{core.env_id}: {self.name} plays sorting tasks only: the ids Sort and SortExpA")
        sizes = able_sizes(self._algorithm)
        if data.size not in sizes:
            sizes_text = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else str(sizes[0])
            raise UsageError(
                f"{core.env_id}: {self.name} sorts {sizes_text} items, not {data.size}; make the id with size="
            )
        return SortingAgent(self._algorithm, env)

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return the algorithm's next action for each request."""
        return [Reply(self._action()) for _ in requests]

    def _action(self) -> str | int:
        """Return the next action, expanded or in tags; with none left the expanded end, or the answer "finished" in tags."""
        assert self._env is not None
        core = core_of(self._env)
        move = next_step(self._algorithm, core.trajectory)
        if isinstance(core, ExpandedActionEnv):
            return expanded_action(core, move)
        return "<answer>finished</answer>" if move is None else f"<{move[0]}>{', '.join(move[1])}</{move[0]}>"


def next_step(algorithm: str, trajectory: Trajectory) -> Move | None:
    """Return the algorithm's next call after the trajectory's; None at its end; UsageError if those are not its own."""
    assert trajectory.task is not None
    data: SortData = trajectory.task.data
    moves, answer = ALGORITHMS[algorithm](data.size), None
    results = [result for turn in trajectory.turns for result in turn.results if not result.error]
    for result in (*results, None):
        try:
            kind, one, other = moves.send(answer)
        except StopIteration:
            return None
        call = (kind, (SYMBOLS[one], SYMBOLS[other]))
        if result is None:
            return call
        if (result.name, result.ids) != call:
            raise UsageError(f"sorting-{algorithm}: the episode holds {result.name} {result.ids}, not its own {call}")
        answer = None if kind == "swap" else (result.content.split()[1] == "<") != data.descending
    raise AssertionError("the last round always returns")
