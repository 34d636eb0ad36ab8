"""Tasks of a generated airline say who calls, what for, and what an agent that keeps to the policy does about it."""

from collections.abc import Mapping
from functools import lru_cache
from random import Random
from typing import Any

from agent_envs.envs.tau2.task_generator.airline_case import Case
from agent_envs.envs.tau2.task_generator.airline_traps import REFUSED, RIDDLES, cancel_rest
from agent_envs.envs.tau2.task_generator.airline_wants import SERVED
from agent_envs.envs.tau2.task_generator.airline_world import database
from agent_envs.envs.tau2.task_generator.source import members, task_id
from agent_envs.envs.tau2.task_generator.wishes import ORDINALS, Piece, Unfit, criteria, script_of, task_row, voiced
from agent_envs.envs.tau2.task_schema import Instructions
from agent_envs.envs.tau2.user_script import Fact

_KINDS = {**SERVED, **REFUSED, **RIDDLES, "cancel_rest": cancel_rest}
_WRITES = ("cancel", "cabin", "move", "bags", "passenger", "book")
_PERSONAS = {
    "easy": ("plain", "plain", "terse", "talkative"),
    "medium": ("plain", "terse", "talkative", "forgetful", "piecemeal"),
    "hard": ("plain", "piecemeal", "forgetful", "insistent", "mistaken"),
}


def make_row(split: str, number: int, difficulty: str, world: int = 0) -> dict[str, Any]:
    """Return a task as a published row with `user_script` and `difficulty`, drawn until it fits; alike each time.

    "easy" is one wish; "medium" two, about reservations whose numbers the customer does not know, with something to be added
    up; "hard" two to four, of which the policy forbids some, and some have to be worked out.
    """
    rng = Random(f"tau2/airline/{world}/{split}/{number}")
    records, customers = database(world), _customers(split, world)
    while True:
        user = rng.choice(customers)
        case = Case(rng, records, user, difficulty, _draw_vagueness(rng, difficulty))
        pieces = _draw(case, _plan(rng, difficulty))
        if pieces:
            break
    persona, name = rng.choice(_PERSONAS[difficulty]), task_id(split, number, difficulty, world)
    expected = criteria([("get_user_details", {"user_id": case.user["user_id"]})], pieces)
    return task_row(name, _instructions(case, pieces), script_of(_facts(case.user), pieces, (), persona), expected)


@lru_cache(maxsize=32)
def _customers(split: str, world: int) -> tuple[dict[str, Any], ...]:
    """Return the customers of a world whom a split's tasks may be about, cached."""
    users = tuple(database(world).tables["users"].values())
    return tuple(users[place] for place in members(split, len(users)))


def _draw_vagueness(rng: Random, difficulty: str) -> bool:
    """Draw whether the customer is vague; never at the easy level."""
    return rng.random() < {"easy": 0.0, "medium": 0.7, "hard": 0.6}[difficulty]


def _plan(rng: Random, difficulty: str) -> list[str]:
    """Draw a task's kinds of wishes, by difficulty: easy one, medium one or two, hard two to four, in order."""
    if difficulty == "easy":
        return [rng.choice(_WRITES)]
    if difficulty == "medium":
        form = rng.random()
        if form < 0.3:
            return [rng.choice(("struck", "late"))]
        if form < 0.55:
            plan = [rng.choice(("costs", "balance")), rng.choice(_WRITES)]
            rng.shuffle(plan)
            return plan
        return rng.sample(_WRITES, 2)
    no, (riddle, other) = rng.sample(sorted(REFUSED), 2), rng.sample(sorted(RIDDLES), 2)
    plan = [
        [no[0], *rng.sample(_WRITES, 2)],
        [no[0], riddle, rng.choice(_WRITES)],
        [*no, riddle],
        [no[0], riddle, rng.choice(("costs", "balance"))],
        [riddle, rng.choice(("struck", "late"))],
        [riddle, other, rng.choice(_WRITES)],
    ][rng.randrange(6)]
    rng.shuffle(plan)
    # A trip that has begun is handed over, which ends the conversation.
    return [*plan, "cancel_rest"] if rng.random() < 0.15 else plan


def _draw(case: Case, plan: list[str]) -> list[Piece]:
    """Draw a plan's pieces; [] if one does not fit the customer, nothing is changed, or a vague one's trips look alike."""
    pieces = list[Piece]()
    try:
        for kind in plan:
            pieces += _KINDS[kind](case)
    except Unfit:
        return []
    alike = len({trip.words for trip in case.trips}) < len(case.trips)
    writes = any(name.startswith(("update", "cancel", "book", "send")) for piece in pieces for name, _ in piece.actions)
    return pieces if writes and not (case.vague and alike) else []


def _facts(user: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Return the facts that identify a customer: name, user id and date of birth."""
    name, key, born = f"{user['name']['first_name']} {user['name']['last_name']}", user["user_id"], user["dob"]
    return (
        Fact("name", f"My name is {name}.", name), Fact("user_id", f"My user id is {key}.", key),
        Fact("date_of_birth", f"My date of birth is {born}.", born),
    )  # fmt: skip


def _instructions(case: Case, pieces: list[Piece]) -> Instructions:
    """Write the scenario in the second person: identity, wishes, details, what is unknown, and how to behave."""
    user = case.user
    wishes = [f"the {ordinal} wish" for ordinal in ORDINALS[: len(pieces)]] if pieces[1:] else ["your wish"]
    details = [_details(wish, piece) for wish, piece in zip(wishes, pieces, strict=True) if piece.facts]
    plays = [voiced(piece.play.format(wish=wish), False) for wish, piece in zip(wishes, pieces, strict=True)]
    behave = [
        "Ask for one thing after the other, in this order." if pieces[1:] else "",
        "Tell details when you are asked for them.", *plays,
        "Say yes when the agent proposes what you want, and end the conversation once all of it is settled.",
    ]  # fmt: skip
    name = f"{user['name']['first_name']} {user['name']['last_name']}"
    identity = f"You are {name}. Your user id is {user['user_id']}. Your date of birth is {user['dob']}."
    unknown = "You do not have the numbers of your reservations at hand." if case.vague else None
    reason, behaviour = "\n".join(map(_wish, range(len(pieces)), pieces)), " ".join(filter(None, behave))
    return Instructions("airline", reason, "\n".join([identity, *details]), unknown, behaviour)


def _wish(place: int, piece: Piece) -> str:
    """Return a wish as a sentence of the scenario, by its place among the wishes."""
    text = voiced(piece.say, False)
    link = ("", "After that: ", "Then: ", "And then: ", "At last: ", "And finally: ")[place]
    return f"{link}If, and only if, the agent refused that: {text}" if piece.only_if_refused else f"{link}{text}"


def _details(wish: str, piece: Piece) -> str:
    """Return the facts of a wish in the second person, each behind its topic, for a user that is a language model."""
    texts = [f"{fact.topic.replace('_', ' ')}: {voiced(fact.say, False)}" for fact in piece.facts]
    return f"For {wish}: {' '.join(texts)}"
