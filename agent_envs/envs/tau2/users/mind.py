"""`Mind` is what a scripted user keeps in memory between two lines; with it the user looks things up in its script."""

import re
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import state_type
from agent_envs.envs.tau2.user_script import Fact, UserScript, Want
from agent_envs.envs.tau2.users.device import Request, Step

_ORDER = re.compile(r"#w?\d{3,}", re.IGNORECASE)
_PHONE = re.compile(r"\b\d{3}-\d{3}-\d{4}\b")
_RESERVATION = re.compile(r"(?i:reservation|booking|confirmation)[^.?!\n]{0,25}?(?<!light )\b(?!HAT\d)([A-Z0-9]{6})\b")
_LOCATOR = re.compile(
    r"\b(?!HAT\d)(?=[A-Z]{0,5}\d)(?=\d*[A-Z]\d*[A-Z])[A-Z0-9]{6}\b"
)  # such as XYY6K0, wherever it stands


@state_type
@dataclass(frozen=True, slots=True)
class Mind:
    """The memory of a scripted user.

    Attributes:
        want: the place of the want that is pursued.
        asked: places of the wants that the agent was told.
        settled: places of the wants that were fulfilled.
        agreed: places of the wants that it consented to; a consent stands.
        reminded: places of the wants that it asked for again when the agent took its leave.
        protests: how often the user protested against the refusal of the current want.
        complaints: how often it said that something was not brought about.
        unhelpful: messages in a row that brought nothing new.
        told: facts that were told, as they were said.
        owed: topics of facts that it has still to tell.
        wrong: the topic that it told wrongly; "-" once that is corrected.
        queue: what it was asked to do on its device and has not begun.
        steps: the calls of what it is doing; the first was made.
        reports: what its device showed and the agent does not know yet.
        checking: the last call was its own check.
        checked: whether the current want's check "passed" or "failed" since the agent spoke; "" before it was made.
        announced: the agent said that it will hand the user over.
        doubted: it consented although the agent spoke of what cannot be.
        seen: how many changes of the agent's it had news of when it turned to the want that is pursued.
        counted: how many of them it had news of when it last spoke.
        unconsented: how many were made while it had consented to no open want.
    """

    want: int = 0
    asked: tuple[int, ...] = ()
    settled: tuple[int, ...] = ()
    agreed: tuple[int, ...] = ()
    reminded: tuple[int, ...] = ()
    protests: int = 0
    complaints: int = 0
    unhelpful: int = 0
    told: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()
    wrong: str = ""
    queue: tuple[Request, ...] = ()
    steps: tuple[Step, ...] = ()
    reports: tuple[str, ...] = ()
    checking: bool = False
    checked: str = ""
    announced: bool = False
    doubted: bool = False
    seen: int = 0
    counted: int = 0
    unconsented: int = 0

    def replace(self, **changes: Any) -> "Mind":
        """Return a copy with some attributes changed."""
        return Mind(**dict(zip(Mind.__match_args__, _VALUES(self), strict=True)) | changes)


_VALUES = attrgetter(*Mind.__match_args__)


def remembered(memory: Any, script: UserScript) -> Mind:
    """Return a dialogue's memory as a user's mind; UsageError where it is none that this script could have.

    Raises UsageError: it is none that this script could have.
    """
    wants = range(len(script.wants))
    if isinstance(memory, Mind):  # of which a snapshot's was checked field by field when it was read
        places = (memory.want, *memory.asked, *memory.settled, *memory.agreed, *memory.reminded)
        if all(type(place) is int and place in wants for place in places):
            return memory
    raise UsageError("tau2: the stored state of the simulated user cannot be read: it is not of this task's script")


def following(script: UserScript, mind: Mind, refused: bool) -> int | None:
    """Return the place of the next unsettled want, or None; one that waits for a refusal only right after a refused one."""
    for place in range(mind.want + 1, len(script.wants)):
        if script.wants[place].only_if_refused and not refused:
            continue
        if place not in mind.settled:
            return place
        refused = False
    return None


def open_wants(script: UserScript, mind: Mind) -> list[int]:
    """Return the places of the wants that the agent knows and has not fulfilled: the current one first."""
    others = [place for place in mind.asked if place > mind.want and place not in mind.settled]
    return [mind.want, *others] if mind.want not in mind.settled else others


def unconsented(script: UserScript, mind: Mind, changes: int) -> int:
    """Return the count so far, and changes made since the last count if the user consented to none of its open wants."""
    consented = any(place in mind.agreed for place in open_wants(script, mind))
    return mind.unconsented + (0 if consented else max(0, changes - mind.counted))


def facts_about(script: UserScript, mind: Mind, topic: str, place: int) -> tuple[Fact, ...]:
    """Return the facts on a topic of the want at a place, else of the user, else of another want told; () for none.

    What is settled is past, except where the want is a question, which may be about all that went before.
    """
    want = script.wants[place]
    others = [other for other in mind.asked if other != place and (want.question or other not in mind.settled)]
    for facts in (want.facts, script.facts, *(script.wants[other].facts for other in others)):
        matches = tuple(fact for fact in facts if fact.topic == topic)
        if matches:
            return matches
    return ()


def named_ids(text: str) -> frozenset[str]:
    """Return the numbers of orders, reservations and phones that stand in a text, in small letters."""
    return frozenset(code.lower() for kind in (_ORDER, _PHONE, _RESERVATION, _LOCATOR) for code in kind.findall(text))


@lru_cache(maxsize=4096)
def ids_of(want: Want) -> frozenset[str]:
    """Return the numbers of orders, reservations and phones that a want is about, in small letters; cached."""
    return named_ids(want.say) | _ids_told(want.facts)


@lru_cache(maxsize=1024)
def ids_known(script: UserScript) -> frozenset[str]:
    """Return all numbers of orders, reservations and phones that a user knows, in small letters; cached."""
    return _ids_told(script.facts).union(*map(ids_of, script.wants))


def _ids_told(facts: tuple[Fact, ...]) -> frozenset[str]:
    """Return the numbers of orders, reservations and phones that facts tell, in small letters."""
    values = {fact.value.lower() for fact in facts if fact.topic in ("order", "reservation") and fact.value}
    return named_ids(" ".join(fact.say for fact in facts)) | values
