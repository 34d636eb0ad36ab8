"""Rule-based agents read a conversation here: chat messages are put into turns, calls with their results, and words.

Everything here is a function of the messages alone, so that an agent made of it keeps no state and forks with its episode.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import Call, ToolCallProtocol
from agent_envs.base.serialization import canonical_json
from agent_envs.envs.tau2.actions import read_action, without_thought
from agent_envs.rollout.policy import Request

LONGEST = 5_000  # characters of one message that are read
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_MONEY = re.compile(r"\$ ?(\d[\d,]*(?:\.\d+)?)|\b(\d[\d,]{0,15}(?:\.\d{1,9})?) ?(?:dollars|usd|bucks)\b", re.IGNORECASE)
_NAME = re.compile(r"\b([A-Z][a-z'-]+) ([A-Z][a-z'-]+)\b")
_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_NO = re.compile(
    r"\b(no|nope|nah|don't|do not|not yet|wait|stop|hold on|rather not|never mind|nevermind|instead|wrong|incorrect)\b", re.I
)  # fmt: skip
_YES = re.compile(
    r"\b(yes|yeah|yep|yup|sure|ok|okay|correct|confirm|confirmed|go ahead|please do|proceed|absolutely|of course|certainly"
    r"|definitely|that's right|that is right|sounds good|do it|agreed|fine with me)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Called:
    """A call of the agent and what came back.

    Attributes:
        name: the tool.
        arguments: what it was given.
        content: the text of the result.
        turn: the place of the user's last words before it in `Talk.user`.
    """

    name: str
    arguments: Mapping[str, Any]
    content: str
    turn: int

    @property
    def failed(self) -> bool:
        """Whether the tool refused."""
        return self.content.startswith("Error")

    @property
    def value(self) -> Any:
        """The result as JSON data; the text itself where it is none."""
        return parsed(self.content)


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation from the agent's side.

    Attributes:
        user: what the user said, in order.
        own: what the agent said to the user, the greeting included.
        calls: the agent's calls in order.
        awaiting: whether the last message is the user's, and not a tool's.
        spoken: for each of `own`, how much of `user` came before it.
    """

    user: tuple[str, ...]
    own: tuple[str, ...]
    calls: tuple[Called, ...]
    awaiting: bool
    spoken: tuple[int, ...]

    @property
    def last(self) -> str:
        """The user's last words, "" before any."""
        return self.user[-1] if self.user else ""

    @property
    def said(self) -> str:
        """The agent's last words to the user, "" before any."""
        return self.own[-1] if self.own else ""

    def named(self, *names: str) -> tuple[Called, ...]:
        """Return the calls of some tools that did not fail, in order."""
        return tuple(call for call in self.calls if call.name in names and not call.failed)

    def tried(self, name: str, **arguments: Any) -> Called | None:
        """Return the last call of a tool whose arguments contain these, or None."""
        for call in reversed(self.calls):
            if call.name == name and all(call.arguments.get(key) == value for key, value in arguments.items()):
                return call
        return None

    def since(self, turn: int) -> str:
        """Return the user's words from a place on, as one text."""
        return "\n".join(self.user[turn:])


def talk_of(request: Request) -> Talk:
    """Return the conversation that a request shows."""
    names = frozenset(tool["function"]["name"] for tool in request.tools)
    user, own, calls, spoken = list[str](), list[str](), list[Called](), list[int]()
    waiting = list[ToolCall]()
    rows = [row for row in request.messages if row["role"] != "system"]
    for place, row in enumerate(rows):
        text = str(row["content"])[:LONGEST]
        if row["role"] == "tool":
            if waiting:
                call = waiting.pop(0)
                calls.append(Called(call.name, json.loads(call.arguments), str(row["content"]), len(user)))
        elif row["role"] == "assistant":
            waiting = list(_calls(str(row["content"]), row.get("tool_calls", ()), names))
            if not waiting:
                own.append(without_thought(text))
                spoken.append(len(user))
        elif place or text != "The conversation so far:":
            # Before a greeting stands a line that only tells that the conversation began.
            user.append(text)
    awaiting = bool(rows) and rows[-1]["role"] == "user"
    return Talk(tuple(user), tuple(own), tuple(calls), awaiting, tuple(spoken))


def _calls(text: str, native: Sequence[Mapping[str, Any]], names: Collection[str]) -> Iterator[ToolCall]:
    if native:
        for row in native:
            yield ToolCall(row["id"], row["function"]["name"], row["function"]["arguments"])
        return
    found = read_action(text, names)
    if isinstance(found, Call):
        yield from found.calls


def calling(name: str, **arguments: Any) -> str:
    """Return the turn that calls a tool."""
    return calling_all([(name, arguments)])


def calling_all(calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return the turn that calls several tools at once."""
    return ToolCallProtocol.render(
        [ToolCall(f"call_{place}", name, canonical_json(dict(given))) for place, (name, given) in enumerate(calls)]
    )


@lru_cache(maxsize=1024)
def parsed(content: str) -> Any:
    """Return a result as JSON data, to read only; the text itself where it is no JSON."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, plurals made singular."""
    return [singular(word) for word in _WORD.findall(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))]


def singular(word: str) -> str:
    """Return a word without the "s" of a plural."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def mentions(text: str, phrase: str) -> bool:
    """Return whether all words of a phrase stand in a text one after another, plurals and case aside."""
    return f" {' '.join(words(phrase))} " in f" {' '.join(words(text))} "


def agrees(text: str) -> bool:
    """Return whether an answer to a proposal is a yes: one that begins so, or says so and nothing against it."""
    first = _first_of(text)
    if first is not None:
        return first
    return bool(_YES.search(text)) and not _NO.search(text)


def refuses(text: str) -> bool:
    """Return whether an answer to a proposal is a no."""
    first = _first_of(text)
    return not first if first is not None else bool(_NO.search(text)) and not agrees(text)


def _first_of(text: str) -> bool | None:
    """Return whether a text begins with yes or with no; None if with neither."""
    start = text.strip()[:12]
    yes, no = re.match(r"(?i)\W*(yes|yeah|yep|sure)\b", start), re.match(r"(?i)\W*(no|nope)\b(?! problem)", start)
    return True if yes else False if no else None


def emails(text: str) -> list[str]:
    """Return the e-mail addresses in a text."""
    return [found.rstrip(".") for found in _EMAIL.findall(text)]


def matches(pattern: str, text: str) -> list[str]:
    """Return what a pattern finds in a text, each once, in order."""
    return list(dict.fromkeys(found[0] for found in re.finditer(pattern, text)))


def zips(text: str) -> list[str]:
    """Return the zip codes in a text."""
    return matches(r"(?<![\w#@.-])\d{5}(?![\w@-])", text)


def dates(text: str) -> list[str]:
    """Return the dates in a text that are written as 2024-05-17."""
    return matches(r"\b\d{4}-\d{2}-\d{2}\b", text)


def amounts(text: str) -> list[float]:
    """Return the amounts of money in a text: "$40", "1,200.50 dollars"."""
    return [float((found[1] or found[2]).replace(",", "")) for found in _MONEY.finditer(text)]


def names(text: str) -> list[tuple[str, str]]:
    """Return what may be the first and last name of somebody: two capitalised words in a row, likelier ones first."""
    told = re.findall(
        r"(?i:\b(?:name is|name's|i am|i'm|this is|it is|it's|under)) ([A-Z][a-z'-]+) ([A-Z][a-z'-]+)", text
    )
    return list(dict.fromkeys([*told, *_NAME.findall(text)]))
