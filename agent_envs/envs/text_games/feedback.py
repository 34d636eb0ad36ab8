"""Scripted feedback on games names the next action towards the goal, or where it misleads one away, from the messages alone."""

import random
from collections.abc import Sequence
from importlib import import_module

from agent_envs.base.messages import Message
from agent_envs.wrappers.scripted_feedback import Hint, Wordings, scripted

WORDINGS = Wordings(__package__)
# How the instructions of a game begin, and its package.
_GAMES = {
    "You move through a grid of rooms": "babyai",
    "You play a puzzle on a small map": "baba_is_ai",
    "You are in a wild land": "crafter",
}
_AWAY = {
    "turn left": "turn right", "turn right": "turn left", "go forward": "turn left", "pick up": "turn left",
    "drop": "turn left", "toggle": "turn left", "left": "right", "right": "left", "up": "down", "down": "up",
    "move left": "move right", "move right": "move left", "move up": "move down", "move down": "move up",
}  # fmt: skip


def give_feedback(messages: Sequence[Message], mode: str, quality: str, rng: random.Random) -> str:
    """Return feedback on a conversation; see `agent_envs.wrappers.scripted_feedback.scripted`."""
    return scripted(WORDINGS, _advise, messages, mode, quality, rng)


def _advise(messages: Sequence[Message], mode: str, quality: str) -> Hint:
    game = next(package for opening, package in _GAMES.items() if messages[0].content.startswith(opening))
    situation, slots = import_module(f"{__package__}.{game}.hint").next_step(messages)
    if quality == "good":
        return situation, slots
    return "away", {**slots, "action": _AWAY.get(slots["action"], "idle" if game == "baba_is_ai" else "noop")}
