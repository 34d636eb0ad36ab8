"""The public names of `agent_envs.envs.expa` under the short path that the docs promise."""

from agent_envs.envs.expa import *  # noqa: F403 - all of its `__all__`, and nothing else
from agent_envs.envs.expa import __all__ as __all__
