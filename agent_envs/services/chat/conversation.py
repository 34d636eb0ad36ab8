"""Chat messages with calls as text become turns with native calls, in the pairs that services demand.

Both wire formats demand that every call is answered by a result right behind it, and that every result answers a call. Where
that does not hold (a forced turn, a refused call, a turn cut by a limit), or where no tools are offered, calls and results are
sent as the text that they are.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from agent_envs.base.messages import Role, ToolCall
from agent_envs.base.protocol import MAX_CALL_DEPTH, Call, ToolCallProtocol, is_too_deep, sound_json
from agent_envs.base.serialization import canonical_json
from agent_envs.services.chat.model import ChatRequest

TOOLS = 'Tools, each called as <tool_call>{"name": ..., "arguments": {...}}</tool_call>:'
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OPENING, _CLOSING = "<tool_call>", "</tool_call>"
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "assistant": "assistant", "tool": "tool"}


@dataclass(frozen=True)
class ChatTurn:
    """One message. `calls` is the assistant's; `call_id` a tool's; `cached` ends a prefix that is worth a cache.

    `opaque` holds what the service of this model wants back with the assistant's message, see `pack_opaque`.
    """

    role: Role
    text: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    cached: bool = False
    opaque: dict[str, Any] = field(default_factory=dict)


def pack_opaque(model: str, **parts: Any) -> str:
    """Return parts of a model's reply that its service wants back as they came, as JSON with the model's name; "" for none."""
    return json.dumps({"model": model, **parts}, ensure_ascii=False) if any(parts.values()) else ""


def read_opaque(text: Any, model: str) -> dict[str, Any]:
    """Return the parts that `pack_opaque` put together for this very model; {} for another one's, or what is no such text."""
    with suppress(ValueError, RecursionError):
        value = json.loads(text) if isinstance(text, str) and text else None
        return value if isinstance(value, dict) and value.get("model") == model else {}
    return {}


def conversation(request: ChatRequest, *, prefill: bool = False, model: str = "") -> list[ChatTurn]:
    """Return a request's turns: calls with their results, those without pair as text; last its prefill, begun or asked for.

    Args:
        request: whose turns.
        prefill: the request's prefill is the last message, which the model goes on from, and no instruction to it.
        model: who is asked: opaque parts of its own replies go back to it.
    """
    turns: list[ChatTurn] = []
    count = 0
    for head, results in _blocks([_chat_turn(message, model) for message in request.messages]):
        native = _native(head) if request.tools and head is not None else None
        call_ids = [call.id for call in native.calls] if native else []
        if native is None or not call_ids or not set(call_ids) <= {result.call_id for result in results}:
            if head is not None:
                text = "\n".join(part for part in (head.text, ToolCallProtocol.render(head.calls)) if part)
                turns.append(replace(head, text=text, calls=()))
            turns += [ChatTurn("user", result.text) for result in results]
            continue
        # Nine letters and digits: the narrowest form that a server demands of ids.
        ids = {old: f"call{count + number:05d}" for number, old in enumerate(call_ids)}
        count += len(call_ids)
        turns.append(replace(native, calls=tuple(replace(call, id=ids[call.id]) for call in native.calls)))
        answers: dict[str, ChatTurn] = {}
        extra_turns: list[ChatTurn] = []
        for result in results:
            if result.call_id in ids and result.call_id not in answers:
                answers[result.call_id] = result
            else:
                extra_turns.append(ChatTurn("user", result.text))
        turns += [replace(answers[old], call_id=ids[old]) for old in call_ids]
        turns += extra_turns
    if not request.prefill:
        return turns
    text = clean(request.prefill)
    return [*turns, ChatTurn("assistant", text) if prefill else ChatTurn("user", f"Begin your reply with {text}")]


def tools_in_text(request: ChatRequest) -> ChatRequest:
    """Return a request whose tools stand in its system message, and whose calls and results are text."""
    text, (first, *others) = tools_text(request.tools), [*request.messages] or [{"role": "user", "content": ""}]
    if _ROLES.get(first["role"]) == "system":
        head = [{**first, "content": f"{first['content']}\n\n{text}"}]
    else:
        head = [{"role": "system", "content": text}, first]
    return replace(request, messages=[*head, *others], tools=())


def tools_text(tools: Sequence[dict[str, Any]]) -> str:
    """Return tools as text: how one is called, and a schema a line."""
    return "\n".join([TOOLS, *(canonical_json(tool["function"]) for tool in tools)])


def read_native_call(call_id: str, name: str | None, arguments: Any) -> ToolCall | str:
    """Return a service's call; where it has no name, or no JSON object, the text that shows the policy's mistake."""
    # The call is a level more than its arguments; what is too deep stays as it is, and is refused as a turn for that.
    is_deep = isinstance(arguments, str) and is_too_deep(arguments, MAX_CALL_DEPTH - 1)
    if isinstance(arguments, str):
        try:
            value = arguments if is_deep else sound_json(arguments) if arguments.strip() else {}
        except ValueError:
            value = arguments
    else:
        value = {} if arguments is None else arguments
    try:
        text = clean(arguments if is_deep else canonical_json(value))
    except (ValueError, RecursionError):
        value, text = arguments, canonical_json(str(arguments))
    if name is None:
        inner = clean(text).replace(_CLOSING, "<\\/tool_call>")
        return f'{_OPENING}\n{{"arguments": {inner}}}\n{_CLOSING}'
    call = ToolCall(call_id, clean(name), text)
    return call if isinstance(value, dict) else clean(ToolCallProtocol.render([call]))


def clean(text: str) -> str:
    """Return a text that UTF-8 can carry: a lone surrogate becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _chat_turn(message: dict[str, Any], model: str) -> ChatTurn:
    """Convert a chat message to a turn with its calls and the model's own opaque parts; an unknown role becomes the user's."""
    role = _ROLES.get(message["role"], "user")
    rows = message.get("tool_calls") or ()
    calls = tuple(ToolCall(row["id"], row["function"]["name"], row["function"]["arguments"]) for row in rows)
    content = clean(message.get("content") or "")
    opaque = read_opaque(message.get("opaque"), model)
    return ChatTurn(role, content, calls, message.get("tool_call_id", ""), message.get("cached") is True, opaque)


def _blocks(rows: list[ChatTurn]) -> Iterator[tuple[ChatTurn | None, list[ChatTurn]]]:
    """Yield each message that is no result, with the results right behind it; results at the start stand behind None."""
    head: ChatTurn | None = None
    results: list[ChatTurn] = []
    for row in rows:
        if row.role == "tool":
            results.append(row)
            continue
        if head is not None or results:
            yield head, results
        head, results = row, []
    if head is not None or results:
        yield head, results


def _native(head: ChatTurn) -> ChatTurn | None:
    """Return an assistant's message with its calls apart from its text; None where it holds none that can be sent."""
    if head.role != "assistant":
        return None
    if not head.calls:
        parsed = ToolCallProtocol().parse(head.text)
        if not isinstance(parsed, Call) or ToolCallProtocol.render(parsed.calls) not in head.text:
            return None  # what a model wrote as text, in a form of its own, goes back as text
        head = replace(head, text=_prose(head.text), calls=parsed.calls)
    # A name that the policy made up may hold what a service refuses; an id that repeats cannot be answered.
    sound = all(_NAME.fullmatch(call.name) for call in head.calls)
    return head if sound and len({call.id for call in head.calls}) == len(head.calls) else None


def _prose(text: str) -> str:
    """Remove all text between call tags, and join the rest by lines; an unclosed call ends the text."""
    parts: list[str] = []
    while True:
        before, opening, behind = text.partition(_OPENING)
        parts.append(before.strip())
        if not opening:
            return "\n".join(part for part in parts if part)
        text = behind.partition(_CLOSING)[2]
