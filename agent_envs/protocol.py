"""From a policy's text to a typed action: Say, Call, Answer or Malformed. Never raises, and linear in the text's length.

Three protocols serve every environment: tags (`<search>...</search>`), JSON tool calls inside `<tool_call>` tags, and a
label (`ACTION: ...`). An unclosed last action tag counts as closed (servers cut the stop string); the first complete
action tag wins, and what follows it stays in the record and is ignored.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_envs.canonical import canonical_json, state_type
from agent_envs.messages import ToolCall

MAX_CALL_CHARACTERS = 100_000


@state_type
@dataclass(frozen=True, slots=True)
class Say:
    """Plain text, addressed to whoever listens."""

    text: str


@state_type
@dataclass(frozen=True, slots=True)
class Call:
    """One or more tool calls."""

    calls: tuple[ToolCall, ...]


@state_type
@dataclass(frozen=True, slots=True)
class Answer:
    """The final answer."""

    text: str


@state_type
@dataclass(frozen=True, slots=True)
class Malformed:
    """Text with no action in it; `reason` is fit to be shown to the policy."""

    reason: str


Parsed = Say | Call | Answer | Malformed


@dataclass(frozen=True)
class TagProtocol:
    """Actions are XML-like tags, as Search-R1 defines them (arXiv 2503.09516, section 3.2).

    Attributes:
        tools: tag name -> (tool name, the argument that receives the tag's text).
        answer: the tag that ends the episode.
    """

    tools: Mapping[str, tuple[str, str]]
    answer: str = "answer"

    @property
    def stop(self) -> tuple[str, ...]:
        """Stop strings for a sampler; they stay in the text."""
        return tuple(f"</{name}>" for name in (*self.tools, self.answer))

    def parse(self, text: str) -> Parsed:
        """Return the first complete action of the text, else its last unclosed one, else Malformed."""
        best: tuple[int, str, str] | None = None
        opened: tuple[int, str, str] | None = None
        for name in (*self.tools, self.answer):
            opening = f"<{name}>"
            # If the first opening tag has no closing tag after it, no later one has: one search a name is enough.
            start = text.find(opening)
            if start < 0:
                continue
            end = text.find(f"</{name}>", start)
            if end >= 0:
                if best is None or start < best[0]:
                    best = (start, name, text[start + len(opening) : end])
            else:
                last = text.rfind(opening)
                if opened is None or last > opened[0]:
                    opened = (last, name, text[last + len(opening) :])
        found = best or opened
        if found is None:
            names = " or ".join(f"<{name}>...</{name}>" for name in (*self.tools, self.answer))
            return Malformed(f"no action found: write {names}")
        return self._action(found[1], found[2].strip())

    def _action(self, name: str, body: str) -> Parsed:
        if name == self.answer:
            return Answer(body)
        tool, argument = self.tools[name]
        return Call((ToolCall("call_0", tool, canonical_json({argument: body})),))


@dataclass(frozen=True)
class ToolCallProtocol:
    """Native tool calls, in the one canonical text that every id of ours uses for them.

    A call is `<tool_call>` newline JSON newline `</tool_call>`, the JSON being `{"name": ..., "arguments": {...}}`; several
    calls stand one after another, one newline apart; each result is a message of role `tool` whose `tool_call_id` is
    `call_0`, `call_1`, ... in order. Text without a call is speech.
    """

    stop: tuple[str, ...] = ()

    @staticmethod
    def render(calls: Sequence[ToolCall]) -> str:
        r"""Return the canonical text of calls; a closing tag inside a JSON string is written `<\/tool_call>`."""
        rows = (f'{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}' for call in calls)
        safe = (row.replace("</tool_call>", "<\\/tool_call>") for row in rows)
        return "\n".join(f"<tool_call>\n{row}\n</tool_call>" for row in safe)

    def parse(self, text: str) -> Parsed:
        """Return the calls of the text in order; Malformed if any is not a JSON call; Say if there is none."""
        calls: list[ToolCall] = []
        position = text.find("<tool_call>")
        if position < 0:
            return Say(text)
        while position >= 0:
            start = position + len("<tool_call>")
            end = text.find("</tool_call>", start)
            body = text[start : end if end >= 0 else len(text)]
            call = read_call(body, f"call_{len(calls)}")
            if isinstance(call, Malformed):
                return call
            calls.append(call)
            position = text.find("<tool_call>", end) if end >= 0 else -1
        return Call(tuple(calls))


@dataclass(frozen=True)
class LabelProtocol:
    """The action is the line after the last label, as Verlog and BALROG have it (`THINK: ... ACTION: go forward`)."""

    label: str = "ACTION:"
    stop: tuple[str, ...] = ()

    def parse(self, text: str) -> Parsed:
        """Return Say with the first line after the last label, or Malformed."""
        position = text.rfind(self.label)
        if position < 0:
            return Malformed(f"no action found: end with {self.label} and the action")
        lines = text[position + len(self.label) :].strip().splitlines()
        return Say(lines[0].strip()) if lines else Malformed(f"nothing stands after {self.label}")


def read_call(body: str, call_id: str) -> ToolCall | Malformed:
    """Return the call in a JSON text, or why there is none. Bounded, and safe on hostile nesting and numbers."""
    if len(body) > MAX_CALL_CHARACTERS:
        return Malformed(f"the tool call is longer than {MAX_CALL_CHARACTERS} characters")
    try:
        value: Any = json.loads(body, parse_constant=_no_constant)
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            return Malformed('a tool call is {"name": "...", "arguments": {...}}')
        arguments = value.get("arguments", {})
        if not isinstance(arguments, dict):
            return Malformed("the arguments of a tool call are a JSON object")
        # JSON escapes can make lone surrogates of plain ASCII text, behind the replacing of the whole turn.
        texts = (value["name"], canonical_json(arguments))
        name, body = (text.encode("utf-8", "replace").decode("utf-8") for text in texts)
        return ToolCall(call_id, name, body)
    except (ValueError, RecursionError) as error:
        return Malformed(f"the tool call is not valid JSON: {type(error).__name__}")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
