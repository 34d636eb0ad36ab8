"""`dual_control` of `agent_envs.envs.tau2` under the short path that the docs promise."""

from agent_envs.envs.tau2 import dual_control

__all__ = ["dual_control"]
