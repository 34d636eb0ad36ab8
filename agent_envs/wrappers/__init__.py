"""Wrappers add feedback, turn limits, forced answers or a bounded memory to any TurnEnv.

All of them can be snapshotted and forked, and travel in a spec.

Modules, in reading order:
    turns: `TurnLimit`, which truncates an episode, and `ForcedAnswer`, which prefills the answer (naive retrieval at 0 turns).
    memory: `Memory`, a bounded context: the task and the last turns.
    feedback: `VerbalFeedback`, verbal epsilon-greedy (VEG): explore or exploit before every turn.
    feedback_models: the sources of feedback, a script or a chat model: recordings, cleaned text, cost and its limits.
    feedback_prompts, feedback_templates/: the prompts of a feedback model, and the cut of long conversations.
    scripted_feedback: scripted feedback of a family: wordings, slots, qualities (good, weak, misleading).
"""

from agent_envs.wrappers.feedback import VerbalFeedback
from agent_envs.wrappers.memory import Memory
from agent_envs.wrappers.turns import ForcedAnswer, TurnLimit

__all__ = ["ForcedAnswer", "Memory", "TurnLimit", "VerbalFeedback"]
