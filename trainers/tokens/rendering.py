"""Chat templates are found, rendered as text, and given messages in the shape that they take."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from transformers import PreTrainedTokenizerBase

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import ToolCall

Rows = list[dict[str, Any]]
OWN = ("chatml", "qwen", "llama")
# A template that writes today's date would give another conversation tomorrow. Llama 3.1 falls back to this day.
TODAY = date(2024, 7, 26)
_FAILURES = (TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
LATER_SYSTEM = "later system"
CALL = ToolCall("call_0", "seek", '{"goal":"amber"}')
_TOOL: dict[str, Any] = {"name": "seek", "description": "Seeks.", "parameters": {"type": "object", "properties": {}}}
_SCHEMA = {"type": "function", "function": _TOOL}


class _Generation(Extension):
    """`{% generation %}` marks what an assistant wrote; here the marks are ignored."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[Node]:
        """Return the body alone."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A compiled template. It comes with a checkpoint, so it is foreign code: it runs in jinja's sandbox.

    Attributes:
        source: the jinja text.
    """

    def __init__(self, source: str, variables: Mapping[str, str]) -> None:
        """Compile a jinja text.

        Args:
            source: the template.
            variables: what it can name beside messages and tools (`bos_token`, ...).

        Raises:
            UsageError: it is no jinja.
        """
        self.source = source
        self._variables = dict(variables)
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals |= {"raise_exception": _refuse, "strftime_now": TODAY.strftime}
        try:
            self._compiled = environment.from_string(source)
        except TemplateError as error:
            raise UsageError(f"the chat template is no jinja: {error}") from error

    def render(self, messages: Rows, tools: Sequence[Mapping[str, Any]] = (), generate: bool = False) -> str:
        """Return messages as one text; with `generate`, up to where the assistant's next turn begins.

        Raises:
            UsageError: the template refuses them.
        """
        try:
            return self._compiled.render(
                messages=messages,
                tools=list(tools) or None,
                documents=None,
                add_generation_prompt=generate,
                **self._variables,
            )
        except _FAILURES as error:
            roles = ", ".join(str(row["role"]) for row in messages[-8:])
            raise UsageError(f"the chat template refuses messages of {roles}: {error}") from error


def find_template(tokenizer: PreTrainedTokenizerBase, template: str) -> ChatTemplate:
    """Return the template that is meant: "auto" (the tokenizer's), the name of one of ours, or a jinja text.

    Raises:
        UsageError: there is none.
    """
    source: Any = template
    if template == "auto":
        source = tokenizer.chat_template
        source = source.get("default") if isinstance(source, dict) else source
    elif template in OWN:
        source = (Path(__file__).parent / "templates" / f"{template}.jinja").read_text(encoding="utf-8")
    if not isinstance(source, str) or "{" not in source:
        raise UsageError(f"chat template {template!r}: give {', '.join(OWN)}, jinja text, or a tokenizer that has one")
    named = {key: value for key, value in tokenizer.special_tokens_map.items() if isinstance(value, str)}
    return ChatTemplate(source, named)


def shaped(messages: Rows, folded: Collection[str], *, merge: bool, objects: bool) -> Rows:
    """Return messages as a template takes them.

    Args:
        messages: any.
        folded: roles that become `user`, in one message with the users' beside them.
        merge: whether all users' messages in a row become one.
        objects: whether the arguments of calls are objects, not JSON texts.
    """
    rows: Rows = []
    joins = False
    for message in messages:
        foreign = message["role"] in folded
        row = {"role": "user", "content": message["content"]} if foreign else dict(message)
        row = with_objects(row) if objects else row
        if rows and rows[-1]["role"] == row["role"] == "user" and (merge or joins or foreign):
            rows[-1] = {"role": "user", "content": f"{rows[-1]['content']}\n\n{row['content']}"}
            joins = joins or foreign
        else:
            rows.append(row)
            joins = foreign
    return rows


def with_objects(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose calls have objects as arguments, where they were JSON texts of objects."""
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        function = call["function"]
        calls.append({**call, "function": {**function, "arguments": _as_object(function["arguments"])}})
    return {**message, "tool_calls": calls}


def _as_object(arguments: Any) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return arguments


def _refuse(message: str) -> None:
    raise TemplateError(message)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


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
