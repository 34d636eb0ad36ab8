"""The public names of `agent_envs.tools.sandbox` under the short path that the docs promise."""

from agent_envs.tools.sandbox import *  # noqa: F403 - all of its `__all__`, and nothing else
from agent_envs.tools.sandbox import __all__ as __all__
