"""Scripted feedback is made here for the `give_feedback` of every family: wordings from a file, slots and bounds.

It stands in for a feedback model f_psi where none is to be asked (verbal epsilon-greedy; see `wrappers/feedback.py`). A family
says in which situation a conversation stands and what it is about; the words come from its `feedback.json`, so that they form
a small closed vocabulary: `{mode: {quality: {situation: [texts]}}}`. An exploiting hint is one of the texts. An exploring one
is two of them, each an avenue, and one of the situation `unlikely` where there is one. Weak feedback knows the situation `any`
alone; in `lost` the conversation could not be read.
"""

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.resources import files

from agent_envs.base.errors import AgentEnvsError, UsageError
from agent_envs.base.messages import Message

MODES = ("explore", "exploit")  # of all feedback, also of chat models
QUALITIES = ("good", "weak", "misleading")
MOST = 600  # characters of a message
LONGEST = 100_000  # characters of one message of the conversation that are read
_MOST_SLOT = 480
_SLOT = re.compile(r"\{(\w+)\}")
_TOKEN = re.compile(r"\w+|[^\w\s]")
# What reading a conversation that may hold anything can come to; there is always something to say.
_UNREADABLE = (
    AgentEnvsError, ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, StopIteration, TypeError,
    ValueError,
)  # fmt: skip

Hint = tuple[str, Mapping[str, str]]  # a situation, and what stands in the slots of its texts
Advise = Callable[[Sequence[Message], str, str], Hint]


class FeedbackWordings:
    """The texts of a family's scripted feedback, read when they are first needed."""

    def __init__(self, package: str) -> None:
        self._package = package

    @cached_property
    def table(self) -> dict[str, dict[str, dict[str, list[str]]]]:
        """Texts by mode, quality and situation, read once."""
        text = files(self._package).joinpath("feedback.json").read_text("utf-8")
        return json.loads(text)  # type: ignore[no-any-return]

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """What stands in the texts between slots, each once, sorted: phrases that never change."""
        rows = (row for modes in self.table.values() for rows in modes.values() for row in rows.values())
        return tuple(sorted({part.strip() for row in rows for text in row for part in _SLOT.split(text)[::2]} - {""}))

    @cached_property
    def words(self) -> frozenset[str]:
        r"""Every token of the texts but what fills slots, as `re.findall(r"\w+|[^\w\s]", text.lower())` has them; cached."""
        return frozenset(_TOKEN.findall(" ".join(self.texts).lower()))


def scripted(
    wordings: FeedbackWordings, advise: Advise, messages: Sequence[Message], mode: str, quality: str, rng: random.Random
) -> str:
    """Return feedback of at most 600 characters, whatever the conversation holds; UsageError for an unknown mode or quality.

    Args:
        wordings: the family's texts.
        advise: finds a situation and slots for (messages, mode, quality); it is given no feedback, and not asked if weak.
        messages: the conversation as the policy sees it.
        mode: `explore` or `exploit`.
        quality: `good`, `weak` or `misleading`.
        rng: chooses among texts.

    Raises:
        UsageError: there is no such mode or quality.
    """
    for name, value, choices in (("mode", mode, MODES), ("quality", quality, QUALITIES)):
        if value not in choices:
            raise UsageError(f"feedback: {name}={value!r}; use one of {', '.join(choices)}")
    texts = wordings.table[mode][quality]
    situation, slots = "any", dict[str, str]()
    if quality != "weak":
        conversation = [replace(m, content=m.content[:LONGEST]) for m in messages if m.author != "feedback"]
        try:
            situation, values = advise(conversation, mode, quality)
            slots = {name: text for name, value in values.items() if (text := _clean(value))}
        except _UNREADABLE:
            situation = "lost"
    sentences = _choose_texts(texts[situation], slots, mode, rng) or _choose_texts(texts["lost"], {}, mode, rng)
    if mode == "explore" and "unlikely" in texts:
        sentences.append(rng.choice(texts["unlikely"]))
    return " ".join(_SLOT.sub(lambda slot: slots[slot[1]], text) for text in sentences)[:MOST]


def _choose_texts(texts: Sequence[str], slots: Mapping[str, str], mode: str, rng: random.Random) -> list[str]:
    """Return texts whose slots can be filled: to explore two at random, to exploit one of those of most slots; [] for none."""
    fitting = [text for text in texts if set(_SLOT.findall(text)) <= slots.keys()]
    if mode == "explore" or not fitting:
        return rng.sample(fitting, min(2, len(fitting)))
    most = max(text.count("{") for text in fitting)
    return [rng.choice([text for text in fitting if text.count("{") == most])]


def _clean(text: str) -> str:
    """Return a text of the conversation fit to be quoted: one short line without tags, marks of control and surrogates."""
    plain = "".join(character if character.isprintable() else " " for character in text[: 4 * _MOST_SLOT])
    return " ".join(plain.replace("<", " ").replace(">", " ").split())[:_MOST_SLOT].strip()
