"""Scripted feedback for tau2 gives hints on the next turn, by the rules of the heuristic agents.

The rules know a conversation by their own words. What the agent said is read as what they would have said, where it says much
the same, so that hints may be followed freely.
"""

import random
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from agent_envs.base.messages import Message
from agent_envs.base.protocol import Call, Say
from agent_envs.envs.tau2.actions import read_action
from agent_envs.envs.tau2.dialogue import arguments_text
from agent_envs.envs.tau2.heuristics import act
from agent_envs.envs.tau2.turn_taking import DONE
from agent_envs.rollout.policy import Request
from agent_envs.wrappers.scripted_feedback import FeedbackWordings, Hint, scripted

WORDINGS = FeedbackWordings(__package__)
_TOOLS = "Your tools, with their arguments:\n"
_TOOL = re.compile(r"^- (\w{1,100})\(", re.MULTILINE)
_FINDS = re.compile(r"find_user|get_customer_by|get_user_details")
_LOOKS = re.compile(r"get_|list_|search_|check_|calculate|run_|can_")
_WORD = re.compile(r"[\w#$.]*\d[\w.]*|[a-z]{4,}")
_HANDED = "transfer_to_human_agents"
_ALIKE = 0.4  # share of the words of the rules that the agent's must hold to be taken for them
_MOST_TURNS = 60  # of the agent's, the last ones, that are read so
_KINDS = {
    "propose": re.compile(r"yes/no|\bShall I\b"),
    "close": re.compile(r"anything else|is all settled|being transferred", re.IGNORECASE),
    "identify": re.compile(r"\b(?:your|user) (?:e-mail|user id|full name|name)|find you", re.IGNORECASE),
    "refuse": re.compile(r"\bI am sorry\b"),
    "step": re.compile(r"^(?:\w[^.]{0,100}\. )?Please (?:check|turn|take|reset|restart|run|try|set|grant|disconnect)"),
}


def give_feedback(messages: Sequence[Message], mode: str, quality: str, rng: random.Random) -> str:
    """Return feedback on a conversation; see `agent_envs.wrappers.scripted_feedback.scripted`."""
    return scripted(WORDINGS, _advise, messages, mode, quality, rng)


def _advise(messages: Sequence[Message], mode: str, quality: str) -> Hint:
    """Return a hint: the heuristic's next turn (good exploit), else the conversation's stage, or that it was handed over."""
    prompt = messages[0].content
    names = _TOOL.findall(prompt.rpartition(_TOOLS)[2])
    rows = [message.as_dict() for message in messages]
    side = "user" if prompt.startswith("You are a customer") else "solo" if DONE in names else "agent"
    situation, slots = _next(rows, names, side)
    if mode == "exploit" and quality == "good":
        return situation, slots
    moment = {"agent": _stage(situation), "solo": "alone", "user": "customer"}[side]
    if quality != "good" and any(row["role"] == "assistant" and _HANDED in row["content"] for row in rows):
        return "handed over", {}
    return moment, {"tool": slots.get("tool", "")}


def _stage(situation: str) -> str:
    """Return the stage of a conversation: identification, looking up, changing, or ending."""
    return {"find": "unknown", "identify": "unknown", "look": "reading", "close": "ending"}.get(situation, "acting")


def _next(rows: Sequence[Mapping[str, Any]], names: Sequence[str], side: str) -> Hint:
    """Return the heuristic's next turn as a hint: its call by tool and side, or its words by side and, of an agent, kind."""
    tools = [{"function": {"name": name}} for name in names]
    text = act(Request("", 0, _translate(rows, tools), tools))
    action = read_action(text, names)
    if isinstance(action, Call):
        called = [f"{call.name}({arguments_text(call.arguments)})" for call in action.calls]
        slots = {"call": " and ".join(called[:1]), "tool": action.calls[0].name, "count": str(len(called))}
        return _situation_of_call(action.calls[0].name, side), slots
    words = action.text if isinstance(action, Say) else text
    if side != "agent":
        return ("answer" if side == "solo" else "reply"), {"words": words}
    return next((kind for kind, pattern in _KINDS.items() if pattern.search(words)), "say"), {"words": words}


def _situation_of_call(name: str, side: str) -> str:
    """Return a call's situation: device for a user's, else by its tool finished, transfer, find, look, do (solo) or change."""
    if side == "user":
        return "device"
    if name in (DONE, _HANDED):
        return "finished" if name == DONE else "transfer"
    return "find" if _FINDS.match(name) else "look" if _LOOKS.match(name) else "do" if side == "solo" else "change"


def _translate(rows: Sequence[Mapping[str, Any]], tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with the agent's last words replaced by the heuristic's where both say much the same."""
    names = frozenset(tool["function"]["name"] for tool in tools)
    own = [place for place, row in enumerate(rows) if row["role"] == "assistant" and not row.get("tool_calls")]
    read = {place for place in own[-_MOST_TURNS:] if _speaks(str(rows[place]["content"]), names)}
    messages: list[dict[str, Any]] = []
    for place, row in enumerate(rows):
        if place in read and any(before["role"] == "user" for before in messages[1:]):
            rule_text = act(Request("", 0, messages, tools))
            if _speaks(rule_text, names) and _are_alike(str(row["content"]), rule_text):
                row = {**row, "content": rule_text}
        messages.append(dict(row))
    return messages


@lru_cache(maxsize=1024)
def _speaks(text: str, names: frozenset[str]) -> bool:
    """Return whether a turn is words to the other side, cached."""
    return isinstance(read_action(text, names), Say)


def _are_alike(text: str, rule_text: str) -> bool:
    """Return whether a text has at least a fixed share of the words of the rules' text, both cut to 5,000 characters."""
    rule_words = set(_WORD.findall(rule_text.lower()[:5_000]))
    return len(rule_words & set(_WORD.findall(text.lower()[:5_000]))) >= _ALIKE * len(rule_words)
