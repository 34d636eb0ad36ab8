"""What a feedback model is shown: the template, the task's instructions, and the conversation as quoted data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from agent_envs.canonical import canonical_json, digest
from agent_envs.errors import UsageError
from agent_envs.messages import Message

MODES = ("explore", "exploit")
EPSILON = 0.1  # the default of the paper
SLOTS = ("instructions", "conversation")
MOST_INSTRUCTIONS = 60_000  # characters
MOST_CONVERSATION = 24_000  # characters of all messages together
KEPT = 240  # characters of a message that is cut
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
        """Return the request's messages: what does not change in an episode as a system message, then the rest.

        Args:
            mode: `explore` or `exploit`.
            talk: the conversation as the policy sees it.
            tools: the schemas of native tools that the policy is offered.
            prefill: what its next turn must begin with, "" for nothing.
        """
        text = self.explore if mode == "explore" else self.exploit
        opening, rest = divided(talk)
        before, slot, behind = text.partition(_slot(text))
        values = {
            "instructions": canonical_json(_cut(_instructions(opening, tools), MOST_INSTRUCTIONS)),
            "conversation": _quoted(rest, prefill),
        }
        system, user = (Template(part.strip()).safe_substitute(values) for part in (before, slot + behind))
        # The same in all calls of an episode, and of a task family whose instructions are: worth a service's cache.
        stable = {"role": "system", "content": system, "cached": True}
        return [stable, {"role": "user", "content": user}] if system else [{"role": "user", "content": user}]


def read_templates(source: str | Mapping[str, str]) -> Templates:
    """Return the templates of a folder with explore.md and exploit.md, or the texts themselves by these names; ours for "".

    Raises:
        UsageError: one is missing, is no text, or has no slot for the instructions or the conversation.
    """
    if isinstance(source, Mapping):
        return _checked({str(mode): source[mode] for mode in source}, "templates")
    if not source:
        return _ours()
    texts = {}
    for mode in MODES:
        try:
            texts[mode] = (Path(source) / f"{mode}.md").read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UsageError(
                f"VerbalFeedback: templates={source!r}: {mode}.md cannot be read ({error}); a folder of templates holds "
                f"{' and '.join(f'{name}.md' for name in MODES)}"
            ) from None
    return _checked(texts, source)


@cache
def _ours() -> Templates:
    home = files("agent_envs.wrappers").joinpath("feedback_templates")
    return _checked({mode: home.joinpath(f"{mode}.md").read_text(encoding="utf-8") for mode in MODES}, str(home))


def _checked(texts: Mapping[str, Any], where: str) -> Templates:
    if sorted(texts) != sorted(MODES) or not all(isinstance(text, str) for text in texts.values()):
        raise UsageError(f"VerbalFeedback: templates: give the texts of {' and '.join(MODES)}, and nothing else")
    for mode, text in texts.items():
        found = Template(text).get_identifiers()
        missing = [f"${slot}" for slot in SLOTS if slot not in found]
        if missing:
            raise UsageError(
                f"VerbalFeedback: {where}: {mode} has no {' and no '.join(missing)}: write it where that belongs"
            )
    return Templates(**{mode: text.strip() for mode, text in texts.items()})


def _slot(text: str) -> str:
    """Return the slot of the conversation as it is written."""
    return "${conversation}" if "${conversation}" in text else "$conversation"


def divided(talk: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """Return a conversation in two: the task's instructions (what the system says, else the first message), and the rest."""
    count = next((place for place, message in enumerate(talk) if message.role != "system"), len(talk))
    return talk[: count or 1], talk[count or 1 :]


def _instructions(opening: Sequence[Message], tools: Sequence[Any]) -> str:
    text = "\n\n".join(message.content for message in opening)
    rows = [tool["function"] for tool in tools]
    named = "\n".join(f"- {row['name']}: {row.get('description', '')}".rstrip(": ") for row in rows)
    return f"{text}\n\nTools of the assistant:\n{named}" if named else text


def _quoted(rest: Sequence[Message], prefill: str) -> str:
    texts = bounded(rest, MOST_CONVERSATION)
    rows = [
        canonical_json({"from": _WHO.get(m.author, m.author), "text": text})
        for m, text in zip(rest, texts, strict=True)
    ]
    if prefill:
        rows.append(canonical_json({"from": "environment", "text": f"The next turn has to begin with {prefill}"}))
    return "\n".join(rows) or _NOTHING


def bounded(messages: Sequence[Message], most: int) -> list[str]:
    """Return the texts of messages, cut to about `most` characters: old observations first, then old turns, then the newest.

    A cut is told in the text.
    """
    texts = [message.content for message in messages]
    over = sum(map(len, texts)) - most
    own = [place for place, message in enumerate(messages) if message.author == "policy"]
    others = [place for place, message in enumerate(messages) if message.author != "policy"]
    for place in (*others[:-1], *own, *others[-1:]):
        if over <= 0:
            break
        length = len(texts[place])
        texts[place] = _cut(texts[place], max(KEPT, length - over) if place == others[-1] else KEPT)
        over -= length - len(texts[place])
    return texts


def _cut(text: str, most: int) -> str:
    """Return a text without what is beyond `most` characters, which it says."""
    return text if len(text) <= most else f"{text[:most]} (cut: {len(text) - most} characters are left out)"
