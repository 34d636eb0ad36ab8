"""A feedback model is shown the template, the task's instructions, and the conversation as quoted data."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import Message
from agent_envs.base.serialization import canonical_json, digest
from agent_envs.wrappers.scripted_feedback import MODES

EPSILON = 0.1  # the default of the paper
SLOTS = ("instructions", "conversation")
MOST_INSTRUCTIONS = 60_000  # characters as JSON
MOST_CONVERSATION = 24_000  # characters of all messages together, as the JSON lines that are sent
MOST_CUT = 240  # characters of a message that is cut, as JSON
_NOTE = 48  # no fewer than a cut is told in
_NOTHING = "(nothing yet: the first turn comes next)"
_WHO = {"policy": "assistant"}


@dataclass(frozen=True)
class Templates:
    """The two prompts of a feedback model: `explore` and `exploit`, with slots for instructions and conversation."""

    explore: str
    exploit: str

    @property
    def texts(self) -> dict[str, str]:
        """The templates by mode, as `read_templates` takes them."""
        return {"explore": self.explore, "exploit": self.exploit}

    @property
    def digest(self) -> str:
        """12 hex digits that name their content."""
        return digest(self.texts)[:12]

    def messages(self, mode: str, talk: Sequence[Message], tools: Sequence[Any], prefill: str) -> list[dict[str, Any]]:
        """Return a system message (all before the conversation's slot), if any, and a user message with the conversation.

        Args:
            mode: `explore` or `exploit`.
            talk: the conversation as the policy sees it.
            tools: the schemas of native tools that the policy is offered.
            prefill: what its next turn must begin with, "" for nothing.
        """
        text = self.explore if mode == "explore" else self.exploit
        opening, rest = split_instructions(talk)
        begin = _place(text)
        instructions = "\n\n".join(message.content for message in opening)
        functions = [tool["function"] for tool in tools]
        if tool_lines := "\n".join(f"- {row['name']}: {row.get('description', '')}".rstrip(": ") for row in functions):
            instructions += f"\n\nTools of the assistant:\n{tool_lines}"
        rows = newest_lines(rest, MOST_CONVERSATION)
        if prefill:
            rows.append(_row("environment", f"The next turn has to begin with {prefill}"))
        values = {
            "instructions": canonical_json(_cut(instructions, MOST_INSTRUCTIONS)),
            "conversation": "\n".join(rows) or _NOTHING,
        }
        system, user = (Template(part.strip()).safe_substitute(values) for part in (text[:begin], text[begin:]))
        # The same in all calls of an episode, and of a task family whose instructions are: worth a service's cache.
        stable = {"role": "system", "content": system, "cached": True}
        return [stable, {"role": "user", "content": user}] if system else [{"role": "user", "content": user}]


def read_templates(source: str | Mapping[str, str]) -> Templates:
    """Return templates of a folder's explore.md and exploit.md, or texts by these names; "" gives ours; UsageError if unfit.

    Raises:
        UsageError: one is missing, is no text, has no slot for the instructions or the conversation, or has another slot.
    """
    if isinstance(source, Mapping):
        return _check_texts({str(mode): source[mode] for mode in source}, "templates")
    if not isinstance(source, str | Path):
        raise UsageError(f"VerbalFeedback: templates={source!r}; give a folder, or the texts of {' and '.join(MODES)}")
    if not source:
        return _own_templates()
    texts = {}
    for mode in MODES:
        try:
            texts[mode] = (Path(source) / f"{mode}.md").read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UsageError(
                f"VerbalFeedback: templates={source!r}: {mode}.md cannot be read ({error}); a folder of templates holds "
                f"{' and '.join(f'{name}.md' for name in MODES)}"
            ) from None
    return _check_texts(texts, source)


@cache
def _own_templates() -> Templates:
    """Return the package's own templates of feedback, checked and cached."""
    home = files("agent_envs.wrappers").joinpath("feedback_templates")
    return _check_texts({mode: home.joinpath(f"{mode}.md").read_text(encoding="utf-8") for mode in MODES}, str(home))


def _check_texts(texts: Mapping[str, Any], where: str) -> Templates:
    """Check the templates of both modes for their slots and return them; UsageError for missing or unknown ones."""
    if sorted(texts) != sorted(MODES) or not all(isinstance(text, str) for text in texts.values()):
        raise UsageError(f"VerbalFeedback: templates: give the texts of {' and '.join(MODES)}, and nothing else")
    for mode, text in texts.items():
        slots = Template(text).get_identifiers()
        missing = [f"${slot}" for slot in SLOTS if slot not in slots]
        if missing:
            raise UsageError(
                f"VerbalFeedback: {where}: {mode} has no {' and no '.join(missing)}: write it where that belongs"
            )
        if other := [name for name in slots if name not in SLOTS]:
            raise UsageError(
                f"VerbalFeedback: {where}: {mode} has the unknown slot ${other[0]}; the slots are "
                f"{' and '.join(f'${slot}' for slot in SLOTS)}, and $$ is a dollar sign"
            )
    return Templates(**{mode: text.strip() for mode, text in texts.items()})


def _place(text: str) -> int:
    """Return the place of the first slot of the conversation, escaped `$$` apart; StopIteration without one."""
    slots = Template.pattern.finditer(text)
    return next(slot.start() for slot in slots if "conversation" in (slot["named"], slot["braced"]))


def split_instructions(talk: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """Return a conversation in two: the leading system messages, else the first message, as instructions, and the rest."""
    count = next((place for place, message in enumerate(talk) if message.role != "system"), len(talk))
    return talk[: count or 1], talk[count or 1 :]


def newest_lines(messages: Sequence[Message], most: int) -> list[str]:
    """Return messages as JSON lines of `most` characters in all: long ones cut, then the oldest but the first left out.

    Where they are longer, texts are cut, in this order and no more than is needed: old observations, the policy's turns, the
    first message (which asks for something) to a quarter of `most`, the newest observation to half of it. Then the oldest
    messages behind the first are left out. The rows say both.

    Args:
        messages: a conversation.
        most: at least 4,000; the ends of lines count.
    """
    rows = [_row(_WHO.get(message.author, message.author), message.content) for message in messages]
    over = sum(map(len, rows)) + len(rows) - most
    for place, room in _cuts(messages, most):
        if over <= 0:
            break
        who, before = _WHO.get(messages[place].author, messages[place].author), len(rows[place])
        shorter = _row(who, _cut(messages[place].content, max(room, before - over - _NOTE - len(_row(who, "")))))
        if len(shorter) < before:
            rows[place] = shorter
            over -= before - len(shorter)
    if over <= 0:
        return rows
    last = 1
    while over + len(_omission_note(last)) + 1 > 0 and last < len(rows) - 1:
        over -= len(rows[last]) + 1
        last += 1
    return [rows[0], _omission_note(last - 1), *rows[last:]]


def _cuts(messages: Sequence[Message], most: int) -> Iterator[tuple[int, int]]:
    """Yield (place, least characters) of messages to cut, in order: old observations, policy's turns, first, newest."""
    others = [place for place, message in enumerate(messages) if message.author != "policy"]
    own = (place for place, message in enumerate(messages) if message.author == "policy" and place)
    yield from ((place, MOST_CUT) for place in others[:-1] if place)
    yield from ((place, MOST_CUT) for place in own)
    yield 0, most // 4
    yield from ((place, most // 2) for place in others[-1:] if place)


def _row(who: str, text: str) -> str:
    """Return a message of the dialogue as a line of JSON, with its sender."""
    return canonical_json({"from": who, "text": text})


def _omission_note(count: int) -> str:
    """Return the line of JSON that stands for older messages that were left out."""
    return canonical_json({"left_out": f"{count} older messages"})


def _cut(text: str, most: int) -> str:
    """Return a text whose JSON has at most `most` characters, unchanged if it fits; else a note of how many are cut follows."""
    if len(text) <= most and len(canonical_json(text)) - 2 <= most:
        return text
    # No character's JSON is shorter than itself, and that of a longer beginning never shorter.
    size_left = (
        bisect_right(range(min(len(text), most) + 1), most, key=lambda size: len(canonical_json(text[:size])) - 2) - 1
    )
    return f"{text[:size_left]} (cut: {len(text) - size_left} characters are left out)"
