"""Scripted feedback on games names the next action towards the goal, or where it misleads one away, from the messages alone.

The hint of each game says what the next action is; it reads the observations behind the prompt, each with the action before it.
"""

import random
import re
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import NamedTuple

from agent_envs.base.messages import Message
from agent_envs.base.protocol import Say
from agent_envs.envs.text_games.game import PROTOCOL, Action, numbered
from agent_envs.wrappers.scripted_feedback import FeedbackWordings, Hint, scripted

WORDINGS = FeedbackWordings(__package__)
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
MOST_TURNS = 150  # the last ones, that are read
_numbers = cache(numbered)
_NO_LETTER = re.compile(r"[^a-z]+")


class Observed(NamedTuple):
    """One observation, and the name of the action that led to it ("" of the first)."""

    action: str
    text: str


def read_observations(messages: Sequence[Message], actions: tuple[Action, ...], default: int) -> list[Observed]:
    """Return the newest MOST_TURNS observations behind the prompt, each with the action before it, `default` if invalid."""
    observations, action = list[Observed](), ""
    for message in messages[1:]:
        if message.role == "assistant":
            parsed = PROTOCOL.parse(message.content)
            text = parsed.text[:200].lower() if isinstance(parsed, Say) else ""
            name = " ".join(_NO_LETTER.sub(" ", text).split())
            action = actions[_numbers("feedback", actions).get(name, default)].name
        else:
            observations.append(Observed(action, message.content))
    return observations[-MOST_TURNS:]


def give_feedback(messages: Sequence[Message], mode: str, quality: str, rng: random.Random) -> str:
    """Return feedback on a conversation; see `agent_envs.wrappers.scripted_feedback.scripted`."""
    return scripted(WORDINGS, _advise, messages, mode, quality, rng)


def _advise(messages: Sequence[Message], mode: str, quality: str) -> Hint:
    """Return the game's next step as a hint; of bad quality, with an action that leads away from it."""
    game = next(package for opening, package in _GAMES.items() if messages[0].content.startswith(opening))
    situation, slots = import_module(f"{__package__}.{game}.hint").next_step(messages)
    if quality == "good":
        return situation, slots
    return "away", {**slots, "action": _AWAY.get(slots["action"], "idle" if game == "baba_is_ai" else "noop")}
