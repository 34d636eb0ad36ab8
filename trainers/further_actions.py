"""Environments that have more actions than text have parts of their own, which are loaded where such an environment is played.

Shared code knows these parts by a name and four functions, and imports none of them. Of the environments here, those with
expanded actions (ids that end in ExpA) are such ones; EARL brings their parts.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Protocol, cast

import gymnasium as gym

from agent_envs.core.trajectory import Trajectory
from agent_envs.core.wrapper_stack import core_of
from agent_envs.envs.expa import ExpandedActionEnv

_EXPANDED = "trainers.earl_parts.expanded.for_runs"


class FurtherActions(Protocol):
    """How actions beyond text are chosen, played and imitated."""

    def give_head(self, model: Any, chat: Any, env: gym.Env[Any, Any], folder: str, start: str) -> None:
        """Give a model the head that chooses them: a folder's, where it holds one, or a new one that starts as named."""

    def player(self, model: Any, chat: Any, sampling: Any, **limits: Any) -> Any:
        """Return the player of such environments with a model, named and limited as `EnginePolicy` is."""

    def demonstrations(self, env: gym.Env[Any, Any], count: int, flaws: str, **tasks: Any) -> Iterator[Trajectory]:
        """Yield episodes of a solver with the flaws that a setting names."""

    def check_flaws(self, text: str) -> None:
        """Refuse, with a UsageError, what names no such flaws."""


def further_actions(env: gym.Env[Any, Any]) -> FurtherActions | None:
    """Return the parts of an environment's further actions; None where all actions are text."""
    return _expanded() if isinstance(core_of(env), ExpandedActionEnv) else None


def further_actions_of(env_id: str) -> FurtherActions | None:
    """Return the same of an environment that is not made yet, by its id."""
    return _expanded() if env_id.partition("-v")[0].endswith("ExpA") else None


def _expanded() -> FurtherActions:
    return cast(FurtherActions, import_module(_EXPANDED))
