"""Stock phrases give a scripted user several ways of saying each thing that its script does not word."""

import json
import re
from importlib.resources import files
from random import Random

from agent_envs.envs.tau2.user_script import Fact
from agent_envs.envs.tau2.users.persona import Persona

STOP, TRANSFER = "###STOP###", "###TRANSFER###"
_PHRASES = json.loads(files(__package__).joinpath("phrases.json").read_text(encoding="utf-8"))
# Of each thing, the ways of a terse, a plain and a talkative user.
_WAYS: dict[str, list[list[str]]] = _PHRASES["ways"]
_MANNERS = ("terse", "plain", "talkative")
# How a user names what it does not know, where that is more than "the" and the topic.
_UNKNOWN: dict[str, str] = _PHRASES["unknown"]
# What a customer agrees to follows these words, one phrase for each manner; agents may know a consent by them.
CONSENT = re.compile(r"\bOnly if that means this\b")
NEUTRAL: str = _PHRASES["neutral"]
COMMON: str = _PHRASES["common"]
SHORT: dict[str, str] = _PHRASES["short"]  # spellings of those in a hurry
ALIKE: list[str] = _PHRASES["alike"]
_CLAUSE = re.compile(r"(?<=[a-z,;] )(?:if|that|which|whichever|who|and else)\b")
_VERB = re.compile(
    r"\b(?:i|it|is|are|was|were|goes|should|has|have|had|do|does|must|can|will|would|need|use|uses|used|want|tell|take|put|send)\b",
    re.IGNORECASE,
)
_SMALL = frozenset("to from me on with the only my all in at by for one two three four no yes".split())
_OPEN = ("options", "payment", "cabin", "bags", "insurance", "trip", "amount")


def say(what: str, persona: Persona, random: Random) -> str:
    """Draw one of the wordings of a phrase."""
    return random.choice(_WAYS[what][_MANNERS.index(persona.words)])


def unknown(topics: tuple[str, ...]) -> str:
    """Return the sentences that say that topics are unknown, indifferent, or without reason; "" for none of them."""
    names = {topic: _UNKNOWN.get(topic, f"the {topic}") for topic in topics if topic not in ("reason", "problem")}
    minded = [name for topic, name in names.items() if topic in _OPEN]
    others = [name for topic, name in names.items() if topic not in _OPEN]
    sentences = [f"I do not know {_join(others)}."] if others else []
    sentences += [f"I have no preference about {_join(minded)}."] if minded else []
    return " ".join([*sentences, *(["There is no particular reason."] if "reason" in topics else [])])


def _join(names: list[str]) -> str:
    """Return names as a list with `or` before the last."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def as_sentence(fact: Fact) -> str:
    """Return a fact as a sentence: its words, or, if they lack a verb, "For the TOPIC I want this: ..." with them."""
    first = re.split(r"(?<=[.;:!?]) ", fact.say, maxsplit=1)[0]
    if _VERB.search(_CLAUSE.split(first)[0]):
        return fact.say
    word, _, rest = fact.say.partition(" ")
    is_name = rest[:1].isupper() and word.lower() not in _SMALL or rest[:1].isdigit()
    topic = fact.topic.replace("_", " ")
    return f"For the {topic} I want this: {fact.say if is_name else fact.say[:1].lower() + fact.say[1:]}"
