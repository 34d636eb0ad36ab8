"""A chat template is checked by rendering conversations that grow: a report says what it changes, drops or refuses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerBase

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import ToolCallProtocol
from trainers.tokens.rendering import TODAY, ChatTemplate, Rows, find_template, shaped

LATER_SYSTEM = "later system"
_CALL = ToolCall("call_0", "seek", '{"goal":"amber"}')
_TOOL: dict[str, Any] = {"name": "seek", "description": "Seeks.", "parameters": {"type": "object", "properties": {}}}
_SCHEMA = {"type": "function", "function": _TOOL}


@dataclass(frozen=True)
class TemplateReport:
    """What a chat template does.

    Where `append_only` is False, rendering a longer conversation changes text before its end. Nothing is lost by that here:
    conversations are rendered by pieces. The opening is rendered once; after each turn of the assistant only what follows it
    is rendered and appended. So earlier turns stay as they were sampled (thoughts, calls and white space included), and what
    the model is trained on is what it saw.

    Attributes:
        append_only: whether every render of ours was the beginning of the next longer one.
        reasons: why not.
        notes: what else is done to messages on their way.
        folded: roles that the template refuses or leaves out; their messages become the user's. `later system` stands
            for system messages after the opening.
        alternates: the template refuses or loses one of two messages of the user in a row; they are made one.
        objects: calls have objects as arguments, because the template writes a JSON text as a text within a text.
        takes_tools: whether schemas of tools are shown in the opening.
    """

    append_only: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    folded: tuple[str, ...]
    alternates: bool
    objects: bool
    takes_tools: bool

    def shape(self, messages: Rows, *, opening: bool) -> Rows:
        """Return messages as the template takes them, in the opening or after it."""
        system = "system" if opening else LATER_SYSTEM
        roles = {name.removeprefix("later ") for name in self.folded if name in (system, "tool")}
        return shaped(messages, roles, merge=self.alternates, objects=self.objects)


def check_template(tokenizer: PreTrainedTokenizerBase, template: str = "auto") -> TemplateReport:
    """Return what a template does to conversations that grow: with a system prompt, thoughts, calls, results, turns.

    Args:
        tokenizer: whose special tokens the template can name.
        template: "auto" for the tokenizer's own, "chatml", "qwen", "llama", or a jinja text.

    Raises:
        UsageError: there is no template, or it cannot write a plain conversation.
    """
    return examine(find_template(tokenizer, template))


def examine(template: ChatTemplate) -> TemplateReport:
    """Return the report on a compiled template.

    Raises:
        UsageError: it cannot write a plain conversation.
    """
    plain = [_row("user", "one"), _row("assistant", "two"), _row("user", "three")]
    if not _shows(template, plain):
        template.render(plain)
        raise UsageError("the chat template leaves out what users or the assistant said")
    folded = tuple(role for role, rows in _ROLES if not _shows(template, rows))
    alternates = not _shows(template, [_row("user", "one"), _row("user", "two")])
    objects = _CALL.arguments not in _rendered(template, _calling())
    takes_tools = _TOOL["name"] in _rendered(template, plain[:1], tools=True)
    found = TemplateReport(True, (), (), folded, alternates, objects, takes_tools)

    def write(messages: Rows) -> str:
        return template.render(found.shape(messages, opening=True))

    def prompt(messages: Rows) -> str:
        return template.render(found.shape(messages, opening=True), generate=True)

    reasons = [check(write) for check in (_plain_reason, _thought_reason, _call_reason, _result_reason, _space_reason)]
    reasons.append(_prompt_reason(write, prompt))
    kept = tuple(reason for reason in reasons if reason)
    notes = _notes(template, found, calls=_takes_calls(write))
    return TemplateReport(not kept, kept, notes, folded, alternates, objects, takes_tools)


def _row(role: str, content: str) -> dict[str, Any]:
    row = {"role": role, "content": content}
    return {**row, "tool_call_id": "call_0"} if role == "tool" else row


_ROLES: tuple[tuple[str, Rows], ...] = (
    ("system", [_row("system", "zero"), _row("user", "one")]),
    (LATER_SYSTEM, [_row("user", "one"), _row("assistant", "two"), _row("system", "three"), _row("user", "four")]),
    ("tool", [_row(role, f"{role}{n}") for n, role in enumerate(("user", "assistant", "tool", "tool", "user"))]),
)


def _calling() -> Rows:
    call = {"id": _CALL.id, "type": "function", "function": {"name": _CALL.name, "arguments": _CALL.arguments}}
    return [_row("user", "one"), {"role": "assistant", "content": "", "tool_calls": [call]}]


def _rendered(template: ChatTemplate, messages: Rows, tools: bool = False) -> str:
    try:
        return template.render(messages, [_SCHEMA] if tools else ())
    except UsageError:
        return ""


def _shows(template: ChatTemplate, messages: Rows) -> bool:
    """Return whether all contents come out, in order: what moves before an earlier turn would be lost in a piece."""
    text, place = _rendered(template, messages), 0
    for row in messages:
        found = text.find(row["content"], place)
        if found < 0:
            return False
        place = found + len(row["content"])
    return True


def _growth(write: Callable[[Rows], str], messages: Rows) -> str:
    """Return where a render is not the beginning of the next; "" if each is."""
    first = 1 + next(place for place, row in enumerate(messages) if row["role"] == "user")
    before = write(messages[:first])
    for count in range(first + 1, len(messages) + 1):
        after = write(messages[:count])
        if not after.startswith(before):
            return (
                f"the text of {count - 1} messages changes when a message of role {messages[count - 1]['role']} follows"
            )
        before = after
    return ""


def _plain_reason(write: Callable[[Rows], str]) -> str:
    rows = [_row("system", "zero"), *(_row(role, f"{role}{n}") for n in range(3) for role in ("user", "assistant"))]
    changed = _growth(write, rows)
    if changed and any("zero" not in write(rows[:count]) for count in range(2, len(rows) + 1)):
        return f"the system prompt is dropped from longer conversations: {changed}"
    return changed and f"earlier turns are written anew: {changed}"


def _thought_reason(write: Callable[[Rows], str]) -> str:
    thought = "<think>weigh\n\n it</think>\nchoose"
    rows = [_row("user", "one"), _row("assistant", thought), _row("user", "two"), _row("assistant", "three")]
    changed = _growth(write, rows)
    if "weigh" not in write(rows):
        return f"thinking is stripped from earlier turns: {changed or 'already in the turn itself'}"
    if changed or thought not in write(rows[:2]):
        return f"thinking is rewritten: {changed or 'it does not come out as it went in'}"
    return ""


def _call_reason(write: Callable[[Rows], str]) -> str:
    canonical = ToolCallProtocol.render([_CALL])
    for said in (_row("assistant", canonical), _calling()[1]):
        if "tool_calls" in said and not _takes_calls(write):
            continue
        rows = [_row("user", "one"), said, _row("tool", "two"), _row("assistant", "three"), _row("user", "four")]
        try:
            changed = _growth(write, rows)
            whole = canonical in write(rows[:2])
        except UsageError as error:
            return f"tool calls are refused: {error}"
        if changed or not whole:
            return f"tool calls are rewritten: {changed or f'{canonical!r} comes out in another form'}"
    return ""


def _takes_calls(write: Callable[[Rows], str]) -> bool:
    try:
        return _CALL.name in write(_calling())
    except UsageError:
        return True  # it looks at them


def _result_reason(write: Callable[[Rows], str]) -> str:
    roles = ("user", "assistant", "tool", "tool", "assistant", "tool", "assistant", "user", "assistant")
    changed = _growth_or_refusal(write, [_row(role, f"{role}{n}") for n, role in enumerate(roles)])
    return changed and f"turns before tool results are written anew: {changed}"


def _growth_or_refusal(write: Callable[[Rows], str], rows: Rows) -> str:
    try:
        # Results that share one turn are one observation: only where the assistant speaks again must the text have grown.
        return _growth(lambda some: write(_without_open_results(some)), rows)
    except UsageError as error:
        return str(error)


def _without_open_results(rows: Rows) -> Rows:
    kept = list(rows)
    while kept and kept[-1]["role"] == "tool":
        kept.pop()
    return kept


def _space_reason(write: Callable[[Rows], str]) -> str:
    said = " \n two \n "
    trimmed = said not in write([_row("user", "one"), _row("assistant", said), _row("user", "three")])
    return "white space around the assistant's text is trimmed" if trimmed else ""


def _prompt_reason(write: Callable[[Rows], str], prompt: Callable[[Rows], str]) -> str:
    start = [_row("user", "one")]
    begun = prompt(start)
    said = write([*start, _row("assistant", "two")])
    return (
        ""
        if said.startswith(begun)
        else "an assistant's turn does not begin with the generation prompt when written anew"
    )


def _notes(template: ChatTemplate, found: TemplateReport, *, calls: bool) -> tuple[str, ...]:
    notes = [
        f"messages of role {role} are folded into the user's: the template has no place for them"
        for role in found.folded
    ]
    if found.alternates:
        notes.append("messages of the user in a row are made one: the template wants roles to alternate")
    if not found.takes_tools:
        notes.append("schemas of tools are not shown: the template has no place for them")
    if not calls:
        notes.append("calls in fields of their own are not shown, only those that stand in the text of a turn")
    if "strftime_now" in template.source:
        notes.append(
            f"the template writes a date; it is always {TODAY.isoformat()}, so that a record reads the same later"
        )
    return tuple(notes)
