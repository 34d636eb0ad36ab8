"""Tools that are called in tags can be called natively, too: one call a turn, of a tool with one text, or of `answer`."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agent_envs.base import protocol
from agent_envs.base.messages import Message, ToolCall
from agent_envs.base.serialization import canonical_json

PROTOCOLS = ("tags", "json")
ANSWER = ("answer", "text", "Give the final answer, in the form that the task asks for; it ends the task.")
_CALLS = protocol.ToolCallProtocol()
_MOST_READ = 20  # calls of a turn that are answered at all


@dataclass(frozen=True)
class NativeTags:
    """The tools of a protocol of tags, and `answer(text)`, as native calls.

    The first call of a turn counts. An answer as the tags have it counts before any call: a wrapper may force one.
    """

    tags: protocol.TagProtocol | protocol.MarkedAnswerProtocol

    @property
    def schemas(self) -> tuple[dict[str, Any], ...]:
        """Schemas of the tools, in the shape of OpenAI's function tools."""
        tools = ((name, argument, self.tags.about[name]) for name, argument in self.tags.tools.values())
        return tuple(text_tool(*tool) for tool in (*tools, ANSWER))

    def parse(self, text: str) -> protocol.Parsed:
        """Return an answer in tags before any call, else the first call as Answer or Call with its argument, or Malformed."""
        spoken, opening, _ = text.partition("<tool_call>")
        if isinstance(parsed := self.tags.parse(spoken), protocol.Answer):
            return parsed
        argument_of = dict((*self.tags.tools.values(), ANSWER[:2]))
        parsed = (
            _CALLS.parse(text) if opening else protocol.Malformed(f"it calls no tool: call {' or '.join(argument_of)}")
        )
        if not isinstance(parsed, protocol.Call):
            return parsed
        call, *more = parsed.calls
        if call.name not in argument_of:
            return protocol.Malformed(f"there is no tool {call.name[:60]!r}: call {' or '.join(argument_of)}")
        argument = argument_of[call.name]
        value = json.loads(call.arguments).get(argument)
        if not isinstance(value, str):
            return protocol.Malformed(f"{call.name} takes {argument}, a text")
        if call.name == ANSWER[0]:
            return protocol.Answer(value.strip())
        return protocol.Call((ToolCall(call.id, call.name, canonical_json({argument: value.strip()})), *more))

    def write(self, text: str) -> str:
        """Return a text in tags as the native call it stands for, answers as `answer`; a text without a tag unchanged."""
        parsed = self.tags.parse(text)
        if isinstance(parsed, protocol.Answer):
            return _CALLS.render([ToolCall("call_0", ANSWER[0], canonical_json({ANSWER[1]: parsed.text}))])
        return _CALLS.render(parsed.calls) if isinstance(parsed, protocol.Call) else text


def text_tool(name: str, argument: str, about: str) -> dict[str, Any]:
    """Return the schema of a tool that takes one text."""
    parameters = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}


def native_call(schemas: Iterable[Mapping[str, Any]], name: str, text: str) -> str:
    """Return a turn that calls a tool of one text natively; StopIteration: no schema has that name."""
    function = next(schema["function"] for schema in schemas if schema["function"]["name"] == name)
    (argument,) = function["parameters"]["required"]
    return _CALLS.render([ToolCall("call_0", name, canonical_json({argument: text}))])


def replied(call: protocol.Call, content: str) -> tuple[Message, ...]:
    """Return a turn's tool messages: `content` for the first call, "Not carried out" for others, 20 calls at most."""
    first, *more = call.calls[:_MOST_READ]
    rest = (Message("tool", "Not carried out: one call a turn.", "tool", (), one.id) for one in more)
    return (Message("tool", content, "tool", (), first.id), *rest)


def in_tags(conversation: Iterable[tuple[str, str]], around: str) -> list[str]:
    """Return a conversation's texts: unchanged without tool results; else those within `around`, native calls as tags."""
    rows = list(conversation)
    if all(role != "tool" for role, _ in rows):
        return [text for _, text in rows]
    return [f"<{around}> {text} </{around}>" if role == "tool" else _to_tags(text) for role, text in rows]


def _to_tags(text: str) -> str:
    """Return the first native call of a text as a tag of its first argument; any other text unchanged."""
    parsed = _CALLS.parse(text)
    if not isinstance(parsed, protocol.Call):
        return text
    call = parsed.calls[0]
    value = next(iter(json.loads(call.arguments).values()), "")
    return f"<{call.name}>{value}</{call.name}>"
