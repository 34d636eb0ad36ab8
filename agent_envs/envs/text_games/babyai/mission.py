"""BabyAI's missions are values: a clause, or a sequence of clauses, with what is done of it, and the mission's text.

`instructions` judges them after every step.
"""

from dataclasses import dataclass

from agent_envs.base.serialization import state_type

VERBS = {"goto": "go to", "pickup": "pick up", "open": "open", "putnext": "put"}
JOINTS = {"before": ", then ", "after": " after you ", "and": " and "}
LOCATIONS = {"": "", "front": " in front of you", "behind": " behind you"} | {
    side: f" on your {side}" for side in ("left", "right")
}


@state_type
@dataclass(frozen=True, slots=True)
class BabyDesc:
    """A description of things, and what it means in this episode.

    Attributes:
        kind: `key`, `ball`, `box`, `door`, or "" for any object.
        color: "" for any.
        loc: `left`, `right`, `front` or `behind`, seen from where the agent started; "" for anywhere.
        many: whether it fits more than one thing: the text says "a", not "the".
        matches: identities of the things that it means.
    """

    kind: str
    color: str
    loc: str
    many: bool
    matches: tuple[int, ...]


@state_type
@dataclass(frozen=True, slots=True)
class BabyClause:
    """One thing to do.

    Attributes:
        verb: `goto`, `pickup`, `open` or `putnext`.
        thing: what to go to, pick up, open, or put somewhere.
        beside: what to put it next to; None of other verbs.
        strict: whether to pick up, open or move another thing fails the mission.
        places: cells of what is to be gone to, or put next to, as the verifier knows them; () of other verbs.
        held: identity of what the agent carried when this clause was last judged, -1 for nothing.
    """

    verb: str
    thing: BabyDesc
    beside: BabyDesc | None = None
    strict: bool = False
    places: tuple[int, ...] = ()
    held: int = -1


@state_type
@dataclass(frozen=True, slots=True)
class BabySequence:
    """Two missions in one.

    Attributes:
        order: `before` (first, then second), `after` (first after second) or `and` (either may come first).
        first: named first in the text.
        strict: whether doing the later one too early fails the mission; means nothing in an `and`.
    """

    order: str
    first: "BabyClause | BabySequence"
    second: "BabyClause | BabySequence"
    first_done: bool = False
    second_done: bool = False
    strict: bool = False


Instructions = BabyClause | BabySequence


def surface(instructions: Instructions) -> str:
    """Return the mission's text, as minigrid words it, parts that are done included."""
    if isinstance(instructions, BabySequence):
        return surface(instructions.first) + JOINTS[instructions.order] + surface(instructions.second)
    text = f"{VERBS[instructions.verb]} {_noun_phrase(instructions.thing)}"
    return text if instructions.beside is None else f"{text} next to {_noun_phrase(instructions.beside)}"


def _noun_phrase(desc: BabyDesc) -> str:
    """Return a description as a noun phrase: article, colour, kind and place; "object" where the kind is open."""
    words = ("a" if desc.many else "the", desc.color, desc.kind or "object")
    return " ".join(filter(None, words)) + LOCATIONS[desc.loc]
