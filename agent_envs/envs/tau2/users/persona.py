"""A persona gives a user its manners: knobs for what a scripted one says, and words for a model that plays one.

All chance comes from the generator that a caller passes, so that equal episodes have equal words.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any, Literal

from agent_envs.base.errors import UsageError

Words = Literal["terse", "plain", "talkative"]
TASK = "task"  # the manners that the task's own script names


@dataclass(frozen=True, slots=True)
class Persona:
    """Knobs.

    Attributes:
        words: how many it makes.
        patience: how many messages in a row that bring nothing new it bears before it ends the conversation.
        insists: how often it protests against a refusal beyond what the script says.
        tells_all: it asks for all that it wants in its first message.
        identifies: it says who it is in its first message, unasked.
        piecemeal: it tells one fact a message, whatever is asked.
        forgets: how probable it is that it has to look a fact up before it tells it.
        mistakes: how probable it is that it first tells a number with two digits swapped.
        typos: how probable an error of typing is, by word.
        agrees: how probable it is that it says yes to what it does not want, and takes another act for it, as models
            that play users tend to.
    """

    words: Words = "plain"
    patience: int = 6
    insists: int = 0
    tells_all: bool = False
    identifies: bool = False
    piecemeal: bool = False
    forgets: float = 0.0
    mistakes: float = 0.0
    typos: float = 0.0
    agrees: float = 0.0


PERSONAS = {
    "plain": Persona(),
    "terse": Persona(words="terse"),
    "talkative": Persona(words="talkative", tells_all=True, identifies=True),
    "impatient": Persona(words="terse", patience=2, identifies=True),
    "insistent": Persona(patience=8, insists=2),
    "piecemeal": Persona(piecemeal=True),
    "forgetful": Persona(forgets=0.7),
    "mistaken": Persona(mistakes=1.0),
    "typing": Persona(typos=0.06),
}
# The same for a user that is a language model.
MANNERS = {
    "plain": "You are polite and to the point.",
    "terse": "You write as few words as possible, seldom a whole sentence.",
    "talkative": "You chat: you wander off into small stories before you come to the point, and after it.",
    "impatient": "You are in a hurry, and say so when the agent takes detours or asks for something twice.",
    "insistent": "You do not take a no at once: you protest against it, twice, before you give in.",
    "piecemeal": "You never tell more than one fact in a message, even when you are asked for several.",
    "forgetful": "You often have to look a detail up, and say so, before you tell it in your next message.",
    "mistaken": "The first number or name that you are asked for you tell with a slip in it; you put it right when the "
    "agent does not find it or asks again.",
    "typing": "You type in haste: your messages are full of spelling mistakes, but never inside a number, an id, a name or "
    "an e-mail address.",
}
# The wordings of generated tasks, by domain: they are part of the tasks' identity. What is missing goes without saying.
TASK_MANNERS = {
    "retail": {
        "plain": "You are polite and come to the point.",
        "terse": "You write short sentences and no more than is needed.",
        "talkative": "You like to talk: you say at once who you are and all that you want.",
        "insistent": "You do not take no for an answer at first, and ask again before you give in.",
        "piecemeal": "You tell one thing a message, and only what you are asked for.",
        "forgetful": "You often have to look a detail up before you can tell it.",
        "mistaken": "You mix up figures: at first you swap two digits of a zip code or an order number, and you correct that "
        "when the agent does not find it or asks again.",
    },
    "airline": {
        "terse": "You write short sentences and waste no words.",
        "talkative": "You are friendly and talkative, and mention small things that are beside the point.",
        "piecemeal": "You tell one thing at a time, and never more than you are asked for.",
        "forgetful": "You have to look things up before you can tell them.",
        "insistent": "You are stubborn and do not give in at once.",
        "mistaken": "You are hurried, and get figures of numbers wrong at first; asked again, you put them right.",
    },
    "telecom": {
        "terse": "You say no more than you are asked for, in few words.",
        "talkative": "You like to talk and add small remarks about your day.",
        "piecemeal": "You tell one thing at a time and wait to be asked for the next.",
        "forgetful": "You often have to look things up before you can tell them.",
        "insistent": "You do not take a no easily.",
        "mistaken": "You mix figures up when you first tell them, and correct yourself when something is not found.",
        "impatient": "You have little time and want to be done soon.",
    },
}
_KNOBS = {field.name: field.type for field in fields(Persona)}
_WORD = re.compile(r"\S+")
_TYPABLE = re.compile(r"[a-z]{5,}")


def persona_of(given: str | Mapping[str, Any], own: str = "plain") -> Persona:
    """Return the manners of a name or of a mapping of knobs.

    Args:
        given: a name; "task" for the script's own; or knobs that differ from those of the name in its member "like".
        own: the name that the script gives.

    Raises:
        UsageError: no such name or knob, or a value that the knob cannot take.
    """
    if isinstance(given, str):
        name = own if given == TASK else given
        if name not in PERSONAS:
            raise UsageError(f"tau2: no persona {name!r}; the personas are {', '.join((TASK, *PERSONAS))}")
        return PERSONAS[name]
    if not isinstance(given, Mapping):
        raise UsageError(f"tau2: persona={given!r}; give {', '.join((TASK, *PERSONAS))}, or a mapping of knobs")
    knobs = dict(given)
    like = persona_of(knobs.pop("like", "plain"), own)
    for knob, value in knobs.items():
        _fits(knob, value)
    return replace(like, **knobs)


def _fits(knob: str, value: Any) -> None:
    default = getattr(Persona(), knob, None) if knob in _KNOBS else None
    sound = {
        str: value in ("terse", "plain", "talkative"),
        bool: isinstance(value, bool),
        int: isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1000,
        float: isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1,
    }
    if default is None or not sound[type(default)]:
        knobs = ", ".join(_KNOBS)
        raise UsageError(f"tau2: a persona has no {knob}={value!r}; its knobs are like, {knobs}")


def swapped(value: str, random: Random) -> str:
    """Return a value with two neighbouring digits swapped; the value itself where it has no two that differ."""
    places = [
        place for place, (one, two) in enumerate(zip(value, value[1:], strict=False))
        if one.isdecimal() and two.isdecimal() and one != two
    ]  # fmt: skip
    if not places:
        return value
    place = random.choice(places)
    return value[:place] + value[place + 1] + value[place] + value[place + 2 :]


def mistyped(text: str, share: float, random: Random, spared: frozenset[str] = frozenset()) -> str:
    """Return a text with letters of some words swapped; names, values and short words stay as they are.

    Args:
        text: what is typed.
        share: the share of the words that errors befall.
        random: decides which.
        spared: words that stay right, in small letters.
    """

    def typed(found: re.Match[str]) -> str:
        word = found.group()
        if not _TYPABLE.fullmatch(word) or word in spared or random.random() >= share:
            return word
        place = random.randrange(1, len(word) - 2)
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]

    return _WORD.sub(typed, text)
