"""`DiscreteActions` shows sorting to classic reinforcement learning: decisions only, with a mask and numbers to see."""

from operator import index
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

from agent_envs.base.errors import UsageError
from agent_envs.core.env import TurnWrapper
from agent_envs.envs.expa.actions import LANGUAGE
from agent_envs.envs.expa.expanded_env import ExpandedActionEnv, ExpandedState
from agent_envs.envs.expa.sorting.environments import SYMBOLS, PairEnvironment
from agent_envs.envs.expa.sorting.knowledge import closure
from agent_envs.envs.expa.sorting.scoring import arrangement
from agent_envs.envs.expa.sorting.solver import known_relations
from agent_envs.envs.expa.sorting.tasks import SortData, SortingSource


class DiscreteActions(TurnWrapper):
    """Show a sorting id with expanded actions as `Discrete(n)` actions over a numeric observation.

    The observation is a float32 vector in [-1, 1] for m items: what is known of every ordered pair (m * m: 1 where the row's
    item is known to be smaller, -1 larger, 0 unknown; conclusions included), which item stands where (m * m), which items the
    task has (m), the first operand of an open call (m), the active environment (one of language and the environments), whether
    the wanted order is descending (1), and the share of actions left (1). `info` stays as it is; `action_masks()` returns the
    mask under the name that sb3-contrib's MaskablePPO asks for. Text cannot be written, which sorting and ordering do without.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        """Wrap an id whose environments are compare and swap.

        Raises UsageError: it has no expanded actions, nothing numeric to show, or tasks that are answered in words.
        """
        super().__init__(env)
        core = self.turn_env()
        if not isinstance(core, ExpandedActionEnv):
            raise UsageError(
                f"DiscreteActions: {core.env_id} has no expanded actions; use its twin with ExpA in its name"
            )
        if not any(isinstance(item, PairEnvironment) for item in core.environments):
            raise UsageError(f"DiscreteActions: {core.env_id} has no numeric observation; the sorting ids have one")
        if isinstance(core.source, SortingSource) and core.source.in_words:
            raise UsageError(
                f"DiscreteActions: some tasks of {core.env_id} are answered in words; make it with compare_percent=0"
            )
        self.items = max(len(item.actions) for item in core.environments if isinstance(item, PairEnvironment))
        size = 2 * self.items**2 + 2 * self.items + len(core.environments) + 3
        self.action_space = Discrete(len(core.expanded_actions))
        self.observation_space = Box(-1.0, 1.0, (size,), np.float32)

    @property
    def _core(self) -> ExpandedActionEnv:
        """Return the wrapped environment, which has expanded actions."""
        core = self.turn_env()
        assert isinstance(core, ExpandedActionEnv)
        return core

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset and return the numeric observation."""
        _, info = self.env.reset(seed=seed, options=options)
        return self._features(), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take the expanded action of that id; return observation, reward, ends and info; UsageError if no whole number."""
        try:
            number = index(action)
        except TypeError:
            raise UsageError(
                f"DiscreteActions: step() got a {type(action).__name__}; an action is a whole number"
            ) from None
        _, reward, terminated, truncated, info = self.env.step(number)
        return self._features(), reward, terminated, truncated, info

    def action_masks(self) -> np.ndarray[Any, Any]:
        """Return the mask of legal actions, bool of shape (n,)."""
        mask = np.zeros(len(self._core.expanded_actions), dtype=bool)
        mask[list(self._core.legal_actions())] = True
        return mask

    def _features(self) -> np.ndarray[Any, Any]:
        """Return one vector: known relations, places, items there, first operand, active environment, direction, share left."""
        trajectory, m = self._core.trajectory, self.items
        assert trajectory.task is not None
        data: SortData = trajectory.task.data
        state: ExpandedState = self._core.episode.state
        relations, places = np.zeros((m, m), np.float32), np.zeros((m, m), np.float32)
        for one, other in closure(known_relations(trajectory)):
            relations[one, other], relations[other, one] = 1, -1
        for place, item in enumerate(arrangement(trajectory)):
            places[item, place] = 1
        first, present = np.zeros(m, np.float32), np.zeros(m, np.float32)
        present[: data.size] = 1
        for symbol in state.latent.keyed:
            if symbol in SYMBOLS[:m]:
                first[SYMBOLS.index(symbol)] = 1
        names = [LANGUAGE, *(item.name for item in self._core.environments)]
        active = np.array([name == state.active for name in names], np.float32)
        left = 1 - len(trajectory.turns) / self._core.max_turns
        tail = np.array([data.descending, left], np.float32)
        return np.concatenate([relations.ravel(), places.ravel(), present, first, active, tail])
