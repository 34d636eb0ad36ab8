"""The messages of a game are read into observations, each with the action before it, for scripted feedback."""

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from agent_envs.base.messages import Message
from agent_envs.base.protocol import Say
from agent_envs.envs.text_games.game import PROTOCOL, Action, numbered

MOST_TURNS = 150  # the last ones, that are read
_NO_LETTER = re.compile(r"[^a-z]+")


class Played(NamedTuple):
    """One observation, and the name of the action that led to it ("" of the first)."""

    action: str
    text: str


def played(messages: Sequence[Message], actions: tuple[Action, ...], default: int) -> list[Played]:
    """Return the observations behind the prompt, in order; an invalid turn counts as the default action."""
    found, action = list[Played](), ""
    for message in messages[1:]:
        if message.role == "assistant":
            action = actions[_numbers(actions).get(_said(message.content), default)].name
        else:
            found.append(Played(action, message.content))
    return found[-MOST_TURNS:]


@cache
def _numbers(actions: tuple[Action, ...]) -> dict[str, int]:
    return numbered("feedback", actions)


def _said(text: str) -> str:
    parsed = PROTOCOL.parse(text)
    return " ".join(_NO_LETTER.sub(" ", parsed.text[:200].lower()).split()) if isinstance(parsed, Say) else ""
