"""Environments with expanded actions (ids that end in ExpA) have parts of their own, loaded where such a one is played.

Code that algorithms share reaches them here by a name, and imports none of them; EARL brings them.
"""

from importlib import import_module
from typing import Any

import gymnasium as gym

from agent_envs.core.env import core_of
from agent_envs.envs.expa import ExpandedActionEnv


def expanded_parts(env: gym.Env[Any, Any] | str) -> Any:
    """Return the module whose functions play and imitate an environment's expanded actions; None where all actions are text.

    Args:
        env: the environment, or the id of one that is not made yet.
    """
    if isinstance(env, str):
        expanded = env.partition("-v")[0].endswith("ExpA")
    else:
        expanded = isinstance(core_of(env), ExpandedActionEnv)
    return import_module("trainers.earl_parts.expanded.for_runs") if expanded else None
