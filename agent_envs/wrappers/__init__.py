"""Wrappers over any TurnEnv: feedback, turn limits, forced answers, memory. All snapshot, fork and travel in a spec."""

from agent_envs.wrappers.feedback import VerbalFeedback
from agent_envs.wrappers.memory import Memory
from agent_envs.wrappers.turns import ForcedAnswer, TurnLimit

__all__ = ["ForcedAnswer", "Memory", "TurnLimit", "VerbalFeedback"]
