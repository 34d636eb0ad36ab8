"""A persona gives a user its manners: knobs for what a scripted one says, and words for a model that plays one.

All chance comes from the generator that a caller passes, so that equal episodes have equal words.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib.resources import files
from random import Random
from typing import Any, Literal

from agent_envs.base.errors import UsageError

Words = Literal["terse", "plain", "talkative"]
TASK = "task"  # the manners that the task's own script names


@dataclass(frozen=True, slots=True)
class Persona:
    """The knobs of a user's manners.

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
_MANNERS = json.loads(files(__package__).joinpath("manners.json").read_text(encoding="utf-8"))
MANNERS: dict[str, str] = _MANNERS["model"]
# The wordings of generated tasks, by domain: they are part of the tasks' identity. What is missing goes without saying.
TASK_MANNERS: dict[str, dict[str, str]] = _MANNERS["tasks"]
_KNOBS = {field.name: field.type for field in fields(Persona)}
_WORD = re.compile(r"\S+")
_TYPABLE = re.compile(r"[a-z]{5,}")


def persona_of(spec: str | Mapping[str, Any], own: str = "plain") -> Persona:
    """Return the persona of a name ("task": `own`) or of knobs over "like"; UsageError for an unknown name, knob or value.

    Args:
        spec: a name; "task" for the script's own; or knobs that differ from those of the name in its member "like".
        own: the name that the script gives.

    Raises:
        UsageError: no such name or knob, or a value that the knob cannot take.
    """
    if isinstance(spec, str):
        name = own if spec == TASK else spec
        if name not in PERSONAS:
            raise UsageError(f"tau2: no persona {name!r}; the personas are {', '.join((TASK, *PERSONAS))}")
        return PERSONAS[name]
    if not isinstance(spec, Mapping):
        raise UsageError(f"tau2: persona={spec!r}; give {', '.join((TASK, *PERSONAS))}, or a mapping of knobs")
    knobs = dict(spec)
    like = persona_of(knobs.pop("like", "plain"), own)
    for knob, value in knobs.items():
        _fits(knob, value)
    return replace(like, **knobs)


def _fits(knob: str, value: Any) -> None:
    """Raise UsageError unless a persona has this knob, and the value is of its kind and within its limits."""
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
    """Return a value with two unequal neighbouring digits swapped, drawn at random; unchanged where there are none."""
    places = [
        place for place, (one, two) in enumerate(zip(value, value[1:], strict=False))
        if one.isdecimal() and two.isdecimal() and one != two
    ]  # fmt: skip
    if not places:
        return value
    place = random.choice(places)
    return value[:place] + value[place + 1] + value[place] + value[place + 2 :]


def mistyped(text: str, share: float, random: Random, spared: frozenset[str] = frozenset()) -> str:
    """Return a text with letters swapped in a share of words; short ones, names and `spared` (in small letters) stay."""

    def typed(match: re.Match[str]) -> str:
        """Return a word with two neighbouring inner letters swapped; unchanged if short, spared or not drawn."""
        word = match.group()
        if not _TYPABLE.fullmatch(word) or word in spared or random.random() >= share:
            return word
        place = random.randrange(1, len(word) - 2)
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]

    return _WORD.sub(typed, text)
