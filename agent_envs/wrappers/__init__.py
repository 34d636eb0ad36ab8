"""Wrappers over any TurnEnv: limits on turns, forced answers, memory. All of them snapshot, fork and travel in a spec."""

from agent_envs.wrappers.memory import Memory
from agent_envs.wrappers.turns import ForcedAnswer, TurnLimit

__all__ = ["ForcedAnswer", "Memory", "TurnLimit"]
