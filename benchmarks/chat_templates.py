"""A chat template is checked by rendering conversations that grow: a report says what it changes, drops or refuses.

    python -m benchmarks.chat_templates MODEL

Trainers render conversations by pieces, so that nothing of it reaches a run; whoever plays a model elsewhere may want to know.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from agent_envs.base.errors import UsageError
from agent_envs.base.protocol import ToolCallProtocol
from trainers.tokens.rendering import (
    CALL,
    TODAY,
    ChatTemplate,
    Rows,
    TemplateShape,
    calling,
    find_template,
    row,
    shape_of,
)


@dataclass(frozen=True)
class TemplateReport:
    """A report on a chat template: why renders are not append-only, and its other changes.

    Attributes:
        reasons: why a render is not always the beginning of the next longer one; none where it is.
        notes: what else is done to messages on their way.
    """

    reasons: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def append_only(self) -> bool:
        """Whether every render of ours was the beginning of the next longer one."""
        return not self.reasons


def check_template(tokenizer: PreTrainedTokenizerBase, template: str = "auto") -> TemplateReport:
    """Render conversations that grow, with system prompt, thoughts, calls and results, and report what the template changes.

    Args:
        tokenizer: whose special tokens the template can name.
        template: "auto" for the tokenizer's own, "chatml", "qwen", "llama", or a jinja text.

    Raises:
        UsageError: there is no template, or it cannot write a plain conversation.
    """
    compiled = find_template(tokenizer, template)
    shape = shape_of(compiled)

    def write(messages: Rows) -> str:
        """Render messages with the template, roles folded as it needs."""
        return compiled.render(shape.shape(messages, opening=True))

    def prompt(messages: Rows) -> str:
        """Render messages with the template and the beginning of the next turn."""
        return compiled.render(shape.shape(messages, opening=True), generate=True)

    reasons = [check(write) for check in (_plain_reason, _thought_reason, _call_reason, _result_reason, _space_reason)]
    reasons.append(_prompt_reason(write, prompt))
    return TemplateReport(tuple(filter(None, reasons)), _notes(compiled, shape, calls=_takes_calls(write)))


def _growth(write: Callable[[Rows], str], messages: Rows) -> str:
    """Describe the first render that is no prefix of the next one; "" if each is."""
    first = 1 + next(place for place, message in enumerate(messages) if message["role"] == "user")
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
    """Return the reason why growing plain conversations change their earlier text, or ""."""
    rows = [row("system", "zero"), *(row(role, f"{role}{n}") for n in range(3) for role in ("user", "assistant"))]
    changed = _growth(write, rows)
    if changed and any("zero" not in write(rows[:count]) for count in range(2, len(rows) + 1)):
        return f"the system prompt is dropped from longer conversations: {changed}"
    return changed and f"earlier turns are written anew: {changed}"


def _thought_reason(write: Callable[[Rows], str]) -> str:
    """Return the reason why a turn's thinking does not come out as it went in, or ""."""
    thought = "<think>weigh\n\n it</think>\nchoose"
    rows = [row("user", "one"), row("assistant", thought), row("user", "two"), row("assistant", "three")]
    changed = _growth(write, rows)
    if "weigh" not in write(rows):
        return f"thinking is stripped from earlier turns: {changed or 'already in the turn itself'}"
    if changed or thought not in write(rows[:2]):
        return f"thinking is rewritten: {changed or 'it does not come out as it went in'}"
    return ""


def _call_reason(write: Callable[[Rows], str]) -> str:
    """Return the reason why tool calls do not come out as they went in, in text or in fields; "" if they do."""
    canonical = ToolCallProtocol.render([CALL])
    for message in (row("assistant", canonical), calling()[1]):
        if "tool_calls" in message and not _takes_calls(write):
            continue
        rows = [row("user", "one"), message, row("tool", "two"), row("assistant", "three"), row("user", "four")]
        try:
            changed = _growth(write, rows)
            whole = canonical in write(rows[:2])
        except UsageError as error:
            return f"tool calls are refused: {error}"
        if changed or not whole:
            return f"tool calls are rewritten: {changed or f'{canonical!r} comes out in another form'}"
    return ""


def _takes_calls(write: Callable[[Rows], str]) -> bool:
    """Return whether a template writes calls of tools; one that refuses the example looks at them, so it does."""
    try:
        return CALL.name in write(calling())
    except UsageError:
        return True  # it looks at them


def _result_reason(write: Callable[[Rows], str]) -> str:
    """Return why turns before tool results cannot be kept; empty where they can."""
    roles = ("user", "assistant", "tool", "tool", "assistant", "tool", "assistant", "user", "assistant")
    changed = _growth_or_refusal(write, [row(role, f"{role}{n}") for n, role in enumerate(roles)])
    return changed and f"turns before tool results are written anew: {changed}"


def _growth_or_refusal(write: Callable[[Rows], str], rows: Rows) -> str:
    """Return the change in a growing conversation, or the template's refusal; "" if there is neither."""
    try:
        # Results that share one turn are one observation: only where the assistant speaks again must the text have grown.
        return _growth(lambda some: write(_without_open_results(some)), rows)
    except UsageError as error:
        return str(error)


def _without_open_results(rows: Rows) -> Rows:
    """Return rows without the tool results at their end."""
    prefix = list(rows)
    while prefix and prefix[-1]["role"] == "tool":
        prefix.pop()
    return prefix


def _space_reason(write: Callable[[Rows], str]) -> str:
    """Return why the assistant's white space is not kept; empty where it is."""
    text = " \n two \n "
    trimmed = text not in write([row("user", "one"), row("assistant", text), row("user", "three")])
    return "white space around the assistant's text is trimmed" if trimmed else ""


def _prompt_reason(write: Callable[[Rows], str], prompt: Callable[[Rows], str]) -> str:
    """Return the reason why a turn does not begin with the generation prompt, or ""."""
    start = [row("user", "one")]
    generation_prompt = prompt(start)
    conversation = write([*start, row("assistant", "two")])
    return (
        ""
        if conversation.startswith(generation_prompt)
        else "an assistant's turn does not begin with the generation prompt when written anew"
    )


def _notes(template: ChatTemplate, shape: TemplateShape, *, calls: bool) -> tuple[str, ...]:
    """List the adaptations that a template needs: folded roles, joined messages, missing tools, a fixed date."""
    notes = [
        f"messages of role {role} are folded into the user's: the template has no place for them"
        for role in shape.folded
    ]
    if shape.alternates:
        notes.append("messages of the user in a row are made one: the template wants roles to alternate")
    if not shape.takes_tools:
        notes.append("schemas of tools are not shown: the template has no place for them")
    if not calls:
        notes.append("calls in fields of their own are not shown, only those that stand in the text of a turn")
    if "strftime_now" in template.source:
        notes.append(
            f"the template writes a date; it is always {TODAY.isoformat()}, so that a record reads the same later"
        )
    return tuple(notes)


def main() -> None:
    """Run the command line."""
    report = check_template(AutoTokenizer.from_pretrained(sys.argv[1]))
    for line in report.reasons or ("every render is the beginning of the next longer one",):
        print(line)
    for note in report.notes:
        print(f"note: {note}")


if __name__ == "__main__":
    main()
