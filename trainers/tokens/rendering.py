"""Chat templates are found, rendered as text, and given messages in the shape that they take."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase
from transformers.utils.chat_template_utils import _compile_jinja_template

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import ToolCall
from agent_envs.base.serialization import sha256_text
from agent_envs.services.chat.conversation import tools_text

Rows = list[dict[str, Any]]
OWN = ("chatml", "qwen", "llama")
# A template that writes today's date would give another conversation tomorrow. Llama 3.1 falls back to this day.
TODAY = date(2024, 7, 26)
_FAILURES = (TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
LATER_SYSTEM = "later system"
CALL = ToolCall("call_0", "seek", '{"goal":"amber"}')
_TOOL: dict[str, Any] = {"name": "seek", "description": "Seeks.", "parameters": {"type": "object", "properties": {}}}
_SCHEMA = {"type": "function", "function": _TOOL}


class ChatTemplate:
    """A compiled template. It comes with a checkpoint, so it is foreign code: it runs in transformers' sandbox.

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
        try:
            self._compiled = _compile_jinja_template(source)
        except TemplateError as error:
            raise UsageError(f"the chat template is no jinja: {error}") from error

    def render(self, messages: Rows, tools: Sequence[Mapping[str, Any]] = (), generate: bool = False) -> str:
        """Return messages as one text; with `generate`, up to the assistant's next turn; UsageError if the template refuses.

        Raises:
            UsageError: the template refuses them.
        """
        try:
            return self._compiled.render(
                messages=messages,
                tools=list(tools) or None,
                documents=None,
                add_generation_prompt=generate,
                strftime_now=TODAY.strftime,
                **self._variables,
            )
        except _FAILURES as error:
            roles = ", ".join(str(row["role"]) for row in messages[-8:])
            raise UsageError(f"the chat template refuses messages of {roles}: {error}") from error


def find_template(tokenizer: PreTrainedTokenizerBase, template: str) -> ChatTemplate:
    """Return the template meant: "auto" (the tokenizer's), the name of ours, or a jinja text; UsageError where there is none.

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
    special_tokens = {key: value for key, value in tokenizer.special_tokens_map.items() if isinstance(value, str)}
    return ChatTemplate(source, special_tokens)


def with_objects(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose calls have objects as arguments, parsed where they were JSON texts; others as they are."""
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        function = call["function"]
        calls.append({**call, "function": {**function, "arguments": _as_object(function["arguments"])}})
    return {**message, "tool_calls": calls}


def _as_object(arguments: Any) -> Any:
    """Parse a call's arguments; what is no JSON text stays as it is."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return arguments


@dataclass(frozen=True)
class TemplateShape:
    """The shape in which a template takes messages.

    Rendering a longer conversation may change text before its end. Nothing is lost by that here: conversations are rendered by
    pieces. The opening is rendered once; after each turn of the assistant only what follows it is rendered and appended. So
    earlier turns stay as they were sampled (thoughts, calls and white space included), and what the model is trained on is
    what it saw. `python -m benchmarks.chat_templates MODEL` tells what a template would change.

    Attributes:
        folded: roles that the template refuses or leaves out; their messages become the user's. `later system` stands
            for system messages after the opening.
        alternates: the template refuses or loses one of two messages of the user in a row; they are made one.
        objects: calls have objects as arguments, because the template writes a JSON text as a text within a text.
        takes_tools: whether schemas of tools are shown in the opening; where not, they are put into the system message.
    """

    folded: tuple[str, ...]
    alternates: bool
    objects: bool
    takes_tools: bool

    def shape(self, messages: Rows, *, opening: bool) -> Rows:
        """Return messages as the template takes them, in the opening or after it; what is folded joins the users' beside it."""
        system = "system" if opening else LATER_SYSTEM
        roles = {name.removeprefix("later ") for name in self.folded if name in (system, "tool")}
        rows: Rows = []
        joins = False
        for message in messages:
            foreign = message["role"] in roles
            row = {"role": "user", "content": message["content"]} if foreign else dict(message)
            row = with_objects(row) if self.objects else row
            if rows and rows[-1]["role"] == row["role"] == "user" and (self.alternates or joins or foreign):
                rows[-1] = {"role": "user", "content": f"{rows[-1]['content']}\n\n{row['content']}"}
                joins = joins or foreign
            else:
                rows.append(row)
                joins = foreign
        return rows


def shape_of(template: ChatTemplate) -> TemplateShape:
    """Return a template's shape by trial: folded roles, joined users, arguments as objects, tools; UsageError if unfit.

    Raises:
        UsageError: it cannot write a plain conversation.
    """
    plain = [row("user", "one"), row("assistant", "two"), row("user", "three")]
    if not _shows(template, plain):
        template.render(plain)
        raise UsageError("the chat template leaves out what users or the assistant said")
    folded = tuple(role for role, rows in _ROLES if not _shows(template, rows))
    alternates = not _shows(template, [row("user", "one"), row("user", "two")])
    objects = CALL.arguments not in _try_render(template, calling())
    return TemplateShape(folded, alternates, objects, _TOOL["name"] in _try_render(template, plain[:1], tools=True))


def row(role: str, content: str) -> dict[str, Any]:
    """Return a message; a result of a tool answers `CALL`."""
    message = {"role": role, "content": content}
    return {**message, "tool_call_id": CALL.id} if role == "tool" else message


_ROLES: tuple[tuple[str, Rows], ...] = (
    ("system", [row("system", "zero"), row("user", "one")]),
    (LATER_SYSTEM, [row("user", "one"), row("assistant", "two"), row("system", "three"), row("user", "four")]),
    ("tool", [row(role, f"{role}{n}") for n, role in enumerate(("user", "assistant", "tool", "tool", "user"))]),
)


def calling() -> Rows:
    """Return a conversation whose assistant makes `CALL`."""
    call = {"id": CALL.id, "type": "function", "function": {"name": CALL.name, "arguments": CALL.arguments}}
    return [row("user", "one"), {"role": "assistant", "content": "", "tool_calls": [call]}]


def _try_render(template: ChatTemplate, messages: Rows, tools: bool = False) -> str:
    """Render messages, perhaps with a tool; empty where the template refuses them."""
    try:
        return template.render(messages, [_SCHEMA] if tools else ())
    except UsageError:
        return ""


def _shows(template: ChatTemplate, messages: Rows) -> bool:
    """Return whether all contents come out, in order; False where one does not or the template refuses them."""
    text, place = _try_render(template, messages), 0
    for message in messages:
        start = text.find(message["content"], place)
        if start < 0:
            return False
        place = start + len(message["content"])
    return True


_QUESTION = {"role": "user", "content": "?"}


def _with_schemas(messages: Rows, tools: Sequence[Mapping[str, Any]]) -> Rows:
    """Return messages with the schemas of tools in the system message, made if it is missing; unchanged without tools."""
    if not tools or not messages:
        return messages
    has_system = messages[0]["role"] == "system"
    words = [messages[0]["content"]] if has_system else []
    return [row("system", "\n\n".join([*words, tools_text([dict(tool) for tool in tools])])), *messages[has_system:]]


class Pieces:
    """The renderer of a conversation's pieces. What follows a turn is cut from behind a mark that stands for the turn."""

    def __init__(self, template: ChatTemplate, shape: TemplateShape) -> None:
        """Take a template and what is known of it."""
        self._template = template
        self._shape = shape
        self._header = self._missing_header()

    def opening(self, messages: Rows, tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """Return messages and the beginning of the assistant's turn; if the last is the assistant's, it is gone on with.

        Raises:
            UsageError: there are no messages, or the template refuses them.
        """
        schemas = tools if self._shape.takes_tools else ()
        rows = self._shape.shape(_join(messages if schemas else _with_schemas(messages, tools)), opening=True)
        if not rows:
            raise UsageError("a conversation needs a message to open with")
        if rows[-1]["role"] != "assistant" or rows[-1].get("tool_calls"):
            return self._template.render(rows, schemas, generate=True) + self._header
        mark = _mark(rows)
        text = self._template.render([*rows[:-1], {"role": "assistant", "content": mark}], schemas)
        return _split_at_mark(text, mark)[0] + str(rows[-1]["content"])

    def after(self, messages: Rows) -> str:
        """Render the text behind the assistant's words: the end of its turn, messages, and the beginning of its next turn.

        Raises:
            UsageError: the template refuses the messages.
        """
        mark = _mark(messages)
        rows = self._shape.shape(messages, opening=False)
        text = self._template.render([_QUESTION, {"role": "assistant", "content": mark}, *rows], generate=True)
        return _split_at_mark(text, mark)[1] + self._header

    def closing(self) -> str:
        """Render the text behind the assistant's last words."""
        mark = _mark([])
        return _split_at_mark(self._template.render([_QUESTION, {"role": "assistant", "content": mark}]), mark)[1]

    def _missing_header(self) -> str:
        """Return the text before the assistant's words of a template without a generation prompt; "" where it has one."""
        prompt = self._template.render([_QUESTION], generate=True)
        if prompt != self._template.render([_QUESTION]):
            return ""
        mark = _mark([])
        before = _split_at_mark(self._template.render([_QUESTION, {"role": "assistant", "content": mark}]), mark)[0]
        return before.removeprefix(prompt).rstrip(" ") if before.startswith(prompt) else ""


def _mark(messages: Rows) -> str:
    """Return a text that the messages cannot hold: they would have to hold their own digest."""
    return f"turn{sha256_text(json.dumps(messages))}turn"


def _split_at_mark(text: str, mark: str) -> tuple[str, str]:
    """Return the text before and behind the last mark; UsageError where the template left it out."""
    before, separator, after = text.rpartition(mark)
    if not separator:
        raise UsageError("the chat template leaves out what the assistant said last")
    return before, after


def _join(messages: Rows) -> Rows:
    """Return messages with those of the assistant in a row made one text, and without empty ones of it."""
    rows: Rows = []
    for row in messages:
        is_text = row["role"] == "assistant" and not row.get("tool_calls")
        if is_text and not row["content"]:
            continue
        if is_text and rows and rows[-1]["role"] == "assistant" and not rows[-1].get("tool_calls"):
            rows[-1] = {**rows[-1], "content": rows[-1]["content"] + row["content"]}
        else:
            rows.append(row)
    return rows
