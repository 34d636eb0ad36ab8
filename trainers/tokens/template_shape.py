"""The shape in which a chat template takes messages is found by rendering a few: what it drops or refuses is told otherwise."""

from dataclasses import dataclass
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import ToolCall
from trainers.tokens.rendering import ChatTemplate, Rows, shaped

LATER_SYSTEM = "later system"
CALL = ToolCall("call_0", "seek", '{"goal":"amber"}')
_TOOL: dict[str, Any] = {"name": "seek", "description": "Seeks.", "parameters": {"type": "object", "properties": {}}}
_SCHEMA = {"type": "function", "function": _TOOL}


@dataclass(frozen=True)
class TemplateShape:
    """How a template takes messages.

    Rendering a longer conversation may change text before its end. Nothing is lost by that here: conversations are rendered by
    pieces. The opening is rendered once; after each turn of the assistant only what follows it is rendered and appended. So
    earlier turns stay as they were sampled (thoughts, calls and white space included), and what the model is trained on is
    what it saw. `python -m benchmarks.chat_templates MODEL` tells what a template would change.

    Attributes:
        folded: roles that the template refuses or leaves out; their messages become the user's. `later system` stands
            for system messages after the opening.
        alternates: the template refuses or loses one of two messages of the user in a row; they are made one.
        objects: calls have objects as arguments, because the template writes a JSON text as a text within a text.
        takes_tools: whether schemas of tools are shown in the opening.
    """

    folded: tuple[str, ...]
    alternates: bool
    objects: bool
    takes_tools: bool

    def shape(self, messages: Rows, *, opening: bool) -> Rows:
        """Return messages as the template takes them, in the opening or after it."""
        system = "system" if opening else LATER_SYSTEM
        roles = {name.removeprefix("later ") for name in self.folded if name in (system, "tool")}
        return shaped(messages, roles, merge=self.alternates, objects=self.objects)


def shape_of(template: ChatTemplate) -> TemplateShape:
    """Return the shape of a compiled template.

    Raises:
        UsageError: it cannot write a plain conversation.
    """
    plain = [row("user", "one"), row("assistant", "two"), row("user", "three")]
    if not _shows(template, plain):
        template.render(plain)
        raise UsageError("the chat template leaves out what users or the assistant said")
    folded = tuple(role for role, rows in _ROLES if not _shows(template, rows))
    alternates = not _shows(template, [row("user", "one"), row("user", "two")])
    objects = CALL.arguments not in _rendered(template, calling())
    return TemplateShape(folded, alternates, objects, _TOOL["name"] in _rendered(template, plain[:1], tools=True))


def row(role: str, content: str) -> dict[str, Any]:
    """Return a message; a result of a tool answers `CALL`."""
    made = {"role": role, "content": content}
    return {**made, "tool_call_id": CALL.id} if role == "tool" else made


_ROLES: tuple[tuple[str, Rows], ...] = (
    ("system", [row("system", "zero"), row("user", "one")]),
    (LATER_SYSTEM, [row("user", "one"), row("assistant", "two"), row("system", "three"), row("user", "four")]),
    ("tool", [row(role, f"{role}{n}") for n, role in enumerate(("user", "assistant", "tool", "tool", "user"))]),
)


def calling() -> Rows:
    """Return a conversation whose assistant makes `CALL`."""
    call = {"id": CALL.id, "type": "function", "function": {"name": CALL.name, "arguments": CALL.arguments}}
    return [row("user", "one"), {"role": "assistant", "content": "", "tool_calls": [call]}]


def _rendered(template: ChatTemplate, messages: Rows, tools: bool = False) -> str:
    try:
        return template.render(messages, [_SCHEMA] if tools else ())
    except UsageError:
        return ""


def _shows(template: ChatTemplate, messages: Rows) -> bool:
    """Return whether all contents come out, in order: what moves before an earlier turn would be lost in a piece."""
    text, place = _rendered(template, messages), 0
    for message in messages:
        found = text.find(message["content"], place)
        if found < 0:
            return False
        place = found + len(message["content"])
    return True
