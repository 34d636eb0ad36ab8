"""Rule-based agents read a conversation here: chat messages become words and calls, and words become values.

Everything here is a function of the messages alone, so that an agent made of it keeps no state and forks with its episode.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agent_envs.base.dialects import outside_thoughts
from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import Call, ToolCallProtocol
from agent_envs.base.serialization import canonical_json
from agent_envs.envs.tau2.actions import read_action
from agent_envs.rollout.policy import Request

Row = Mapping[str, Any]
_LONGEST = 5_000  # characters of one message that are read
_ANSWER = re.compile(
    r"(?i)\W*(?:(?!.*\b(?:but|wait|not|don't)\b)(yes|sure|ok(?:ay)?|correct|right|go ahead|(?:that )?sounds good)"
    r"|(?:no|nope|wait|stop|not|never ?mind|(?:please )?(?:do not|don't))(?! problem))\b"
)
CONSENT = re.compile(r"\bOnly if that means this\b[^:]*: (.*?)(?: And: .*)?$", re.DOTALL)  # then the wish is told again


@dataclass(frozen=True, slots=True)
class Called:
    """A call of the agent and its answer; `turn` counts the user's messages before it."""

    name: str
    arguments: Row
    content: str
    turn: int

    @property
    def failed(self) -> bool:
        """Whether the tool refused."""
        return self.content.startswith("Error")

    @property
    def value(self) -> Any:
        """The result as JSON data, to read only; the text itself where it is none."""
        return _parse(self.content)


def read(request: Request) -> tuple[list[str], list[tuple[str, int]], list[Called]]:
    """Split a conversation into the user's words, the agent's (each with the user's count before it), and answered calls."""
    names = frozenset(tool["function"]["name"] for tool in request.tools)
    user, own, calls, waiting = list[str](), list[tuple[str, int]](), list[Called](), list[ToolCall]()
    rows = [row for row in request.messages if row["role"] != "system"]
    for place, row in enumerate(rows):
        text = str(row["content"])
        if row["role"] == "assistant":
            action = read_action(text, names)
            native = [ToolCall(one["id"], **one["function"]) for one in row.get("tool_calls", ())]
            waiting = native or (list(action.calls) if isinstance(action, Call) else [])
            own += [] if waiting else [(outside_thoughts(text[:_LONGEST])[0].strip(), len(user))]
        elif row["role"] == "tool" and waiting:
            call = waiting.pop(0)
            calls.append(Called(call.name, json.loads(call.arguments), text, len(user)))
        elif row["role"] == "user" and (place or text != "The conversation so far:"):
            user.append(text[:_LONGEST])
    return user, own, calls


@lru_cache(maxsize=1024)
def _parse(content: str) -> Any:
    """Return a tool's answer as JSON data, cached; the text itself where it is none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content


def calling(*calls: tuple[str, Row]) -> str:
    """Render the turn that calls tools, each given by its name and arguments."""
    pairs = [(name, canonical_json(dict(arguments))) for name, arguments in calls]
    return ToolCallProtocol.render([ToolCall(f"call_{place}", *one) for place, one in enumerate(pairs)])


def plain(text: str) -> str:
    """Normalise a text: words in lower case, plurals made singular, with spaces between and around them."""
    words = re.findall(r"[a-z0-9]+(?:'[a-z]+)?", text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))
    return f" {' '.join(re.sub(r'(?<=..[^s])s$', '', word) for word in words)} "


def mentions(text: str, phrase: str) -> bool:
    """Return whether all words of a phrase stand in a text one after another, plurals and case aside."""
    return plain(phrase) in plain(text)


def answer(text: str) -> bool | None:
    """Return True for a yes or words that agree, False for a no, None for neither; by the text's beginning first."""
    first = _ANSWER.match(text)
    return bool(first[1]) if first else CONSENT.search(text) is not None or None


def matches(pattern: str, text: str) -> list[str]:
    """Return the matches of a pattern in a text, each once, in order."""
    return list(dict.fromkeys(match[0] for match in re.finditer(pattern, text)))


def names(text: str) -> list[tuple[str, str]]:
    """Return candidates for first and last names: two capitalised words in a row, likelier ones first."""
    pair = r"([A-Z][a-z'-]+) ([A-Z][a-z'-]+)\b"
    pairs = re.findall(rf"(?i:\b(?:name is|name's|i am|i'm|this is|it is|it's)) {pair}", text)
    return list(dict.fromkeys([*pairs, *re.findall(rf"\b{pair}", text)]))


def methods_in(text: str, methods: Sequence[Row]) -> list[Row]:
    """Return the payment methods that a text names, by last digits or by a kind of which there is one, in the text's order."""
    places = []
    for method in methods:
        alike = sum(one["source"] == method["source"] for one in methods)
        kind = re.search(method["source"].replace("_", " ?"), text, re.I) if alike == 1 else None
        place = text.find(method.get("last_four", "\0"))
        place = kind.start() if place < 0 and kind else place
        places += [(place, method["id"], method)] if place >= 0 else []
    return [method for _, _, method in sorted(places)]


def called(method: Row) -> str:
    """Return a payment method in words, "the KIND" or "the KIND ending in DIGITS"."""
    name = str(method["source"]).replace("_", " ").replace("paypal", "PayPal account")
    return f"the {name} ending in {method['last_four']}" if "last_four" in method else f"the {name}"
