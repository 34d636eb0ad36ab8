"""Scripted feedback for ExpA's tasks on both faces: the conversation says whether to calculate or to sort."""

import random
from collections.abc import Sequence

from agent_envs.envs.expa.calculator import feedback as calculator
from agent_envs.envs.expa.sorting import feedback as sorting
from agent_envs.base.messages import Message
from agent_envs.wrappers.scripted_feedback import Hint, Wordings, scripted

WORDINGS = Wordings(__package__)


def give_feedback(messages: Sequence[Message], mode: str, quality: str, rng: random.Random) -> str:
    """Return feedback on a conversation; see `agent_envs.wrappers.scripted_feedback.scripted`."""
    return scripted(WORDINGS, _advise, messages, mode, quality, rng)


def _advise(messages: Sequence[Message], mode: str, quality: str) -> Hint:
    opened = next((place for place, message in enumerate(messages) if message.role == "user"), 0)
    question = messages[opened].content
    advise = sorting.advise if question.startswith("The items ") else calculator.advise
    return advise(question, messages[opened + 1 :], mode, quality)
