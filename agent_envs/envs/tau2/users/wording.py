"""Stock phrases give a scripted user several ways of saying each thing that its script does not word."""

import json
from importlib.resources import files
from random import Random

from agent_envs.envs.tau2.users.persona import Persona

STOP, TRANSFER = "###STOP###", "###TRANSFER###"
_PHRASES = json.loads(files(__package__).joinpath("phrases.json").read_text(encoding="utf-8"))
# Of each thing, the ways of a terse, a plain and a talkative user.
_WAYS: dict[str, list[list[str]]] = _PHRASES["ways"]
_MANNERS = ("terse", "plain", "talkative")
# How a user names what it does not know, where that is more than "the" and the topic.
_UNKNOWN: dict[str, str] = _PHRASES["unknown"]
_OPEN = ("options", "payment", "cabin", "bags", "insurance", "trip", "amount")


def say(what: str, persona: Persona, random: Random) -> str:
    """Return one way of saying something."""
    return random.choice(_WAYS[what][_MANNERS.index(persona.words)])


def unknown(topics: tuple[str, ...]) -> str:
    """Return the sentences that say that a user does not know something, or does not mind."""
    names = {topic: _UNKNOWN.get(topic, f"the {topic}") for topic in topics if topic not in ("reason", "problem")}
    minded = [name for topic, name in names.items() if topic in _OPEN]
    known = [name for topic, name in names.items() if topic not in _OPEN]
    sentences = [f"I do not know {_joined(known)}."] if known else []
    sentences += [f"I have no preference about {_joined(minded)}."] if minded else []
    return " ".join([*sentences, *(["There is no particular reason."] if "reason" in topics else [])])


def _joined(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
