"""A deep-search agent in the manner of WebThinker thinks, searches, opens pages, and keeps notes in place of a long history.

Each turn sees the task, its own notes and the newest result alone; what a result adds goes into the notes between <think>
tags (Li et al. 2025, arXiv 2504.21776). Differs from WebThinker: one model call a turn, no separate explorer that clicks by
itself, and no report is drafted: the answer is short. `notes` caps the characters that are kept.
"""

import re
from typing import Any

from agent_envs.base.errors import UsageError
from baselines.chat_agent import ChatAgent, TurnModel
from baselines.prompts import prompt, user
from baselines.view import EpisodeView, joined

_THOUGHT = re.compile(r"<think>(.*?)</think>", re.S)


class DeepSearch(ChatAgent):
    """An agent that investigates with notes."""

    short = "deep_search"

    def __init__(self, model: Any = "", *, notes: int = 8000, **options: Any) -> None:
        """Take the number of characters of notes to keep, the newest; UsageError below 1."""
        super().__init__(model, **options)
        if notes < 1:
            raise UsageError(f"baseline deep_search: notes={notes}; give characters >= 1")
        self.notes = notes

    def turn(self, view: EpisodeView, model: TurnModel) -> str:
        """Return the model's next turn, asked with the task, the end of its notes, what was done, and the newest evidence."""
        thoughts = [
            f"{n}. {thought.strip()}" for n, text in enumerate(view.actions, 1) for thought in _THOUGHT.findall(text)
        ]
        done = [f"({_THOUGHT.sub('', text).strip()})" for text in view.actions]
        notes = joined([*thoughts, *(["Done: " + " ".join(done)] if done else [])])[-self.notes :]
        newest = view.evidence[-1] if view.evidence else "(nothing yet)"
        text = prompt("deep_search", "step", task=view.instructions, notes=notes, newest=newest)
        return model.reply([user(text)], view.stop, view.tools).canonical
