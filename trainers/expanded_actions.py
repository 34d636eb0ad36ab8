"""Environments with expanded actions (ids that end in ExpA) have parts of their own, loaded where such a one is played.

Code that algorithms share reaches them here by a name, and imports none of them; EARL brings them.
"""

from importlib import import_module
from typing import Any

import gymnasium as gym

from agent_envs.core.env import core_of
from agent_envs.envs.expa import ExpandedActionEnv

_PARTS = {
    "player": "trainers.earl_parts.expanded.player",
    "demonstrations": "trainers.earl_parts.expanded.demonstrations",
}


def expanded_parts(env: gym.Env[Any, Any] | str, part: str = "player") -> Any:
    """Return the module `player` or `demonstrations` for an environment's expanded actions; None where all are text.

    Args:
        env: the environment, or the id of one that is not made yet.
        part: its name, `player` or `demonstrations`.
    """
    if isinstance(env, str):
        expanded = env.partition("-v")[0].endswith("ExpA")
    else:
        expanded = isinstance(core_of(env), ExpandedActionEnv)
    return import_module(_PARTS[part]) if expanded else None
