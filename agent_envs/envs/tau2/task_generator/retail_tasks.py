"""Tasks in the generated shop have graded difficulty and the published form, each with the script of its user.

- easy: one want, and the customer knows the order's number.
- medium: two wants; the customer often knows no number, or wants figures that must be worked out.
- hard: three wants, of which one or two are forbidden or rest on a condition; the customer insists, tells things
  piecemeal or wrong at first, and often knows nothing but its name and its zip code.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from agent_envs.envs.tau2.task_generator.retail_traps import CONDITIONAL, FORBIDDEN
from agent_envs.envs.tau2.task_generator.retail_wishes import WRITES, Case, Kind, Pieces, ask, figure, tellable
from agent_envs.envs.tau2.task_generator.retail_world import database
from agent_envs.envs.tau2.task_generator.source import members, task_id
from agent_envs.envs.tau2.task_generator.wishes import ORDINALS, Piece, Unfit, criteria, script_of, task_row, voiced
from agent_envs.envs.tau2.task_schema import Instructions
from agent_envs.envs.tau2.user_script import Fact

_ANY: tuple[Kind, ...] = (*WRITES, ask)
_KNOWS_EMAIL = {"easy": 0.7, "medium": 0.5, "hard": 0.15}
_VAGUE = {"easy": 0.0, "medium": 0.6, "hard": 0.75}
_PERSONAS = {
    "easy": ("plain", "plain", "terse", "talkative"),
    "medium": ("plain", "terse", "talkative", "piecemeal", "forgetful"),
    "hard": ("plain", "insistent", "piecemeal", "forgetful", "mistaken"),
}
_TIMES = {1: "once", 2: "twice"}


def make_row(split: str, number: int, difficulty: str, world: int = 0) -> dict[str, Any]:
    """Return a task as a published row with the members `user_script` and `difficulty`, as `source` asks for it."""
    case, pieces = draw_wishes(split, number, difficulty, world)
    return _published_row(case, pieces, difficulty, task_id(split, number, difficulty, world))


def draw_wishes(split: str, number: int, difficulty: str, world: int = 0) -> tuple[Case, Pieces]:
    """Draw a task's customer and its wishes, in the order in which it asks, redrawn until they fit; alike at each call."""
    rng = Random(f"tau2/retail/{world}/{split}/{number}/{difficulty}")
    tables = database(world).tables
    users = list(tables["users"].values())
    ours = [users[place] for place in members(split, len(users))]
    others = [user["user_id"] for user in ours]
    pieces: Pieces = ()
    while not pieces:
        case = Case(rng, tables, rng.choice(ours), others)
        pieces = _pieces(case, _kinds(rng, difficulty), difficulty)
    return case, pieces


def _kinds(rng: Random, difficulty: str) -> Sequence[Kind]:
    """Draw a task's kinds of wants: easy one, medium two, hard one or two traps and others; the rarer come first."""
    if difficulty == "easy":
        return [rng.choice(_ANY)]
    if difficulty == "medium":
        return [rng.choice(WRITES), rng.choice(_ANY)]
    traps = [rng.choice(FORBIDDEN), rng.choice(CONDITIONAL)]
    return (
        [*traps, rng.choice(_ANY)] if rng.random() < 0.6 else [rng.choice(traps), rng.choice(WRITES), rng.choice(_ANY)]
    )


def _pieces(case: Case, kinds: Sequence[Kind], difficulty: str) -> Pieces:
    """Return a customer's wishes in random order, perhaps with a question for all refunds; () where one is unfit or clashes."""
    groups: list[Pieces] = []
    try:
        for kind in kinds:
            group = kind(replace(case, vague=case.rng.random() < _VAGUE[difficulty]))
            uses = frozenset[str]().union(*(piece.uses for piece in group))
            if uses & case.used:
                return ()
            case = replace(case, used=case.used | uses)
            groups.append(group)
    except Unfit:
        return ()
    case.rng.shuffle(groups)
    pieces = tuple(piece for group in groups for piece in group)
    return (*pieces, *_grand_total(case, pieces))


def _grand_total(case: Case, pieces: Pieces) -> Pieces:
    """Return the question for the sum of two or more wishes' refunds, in 7 of 10 cases and if it has cents; else ()."""
    refunds = [piece.refund for piece in pieces if piece.refund]
    if len(refunds) < 2 or not tellable(sum(refunds)) or case.rng.random() < 0.3:
        return ()
    return (Piece(case.say("refunds"), answers=(figure(sum(refunds)),), question=True),)


def _published_row(case: Case, pieces: Pieces, difficulty: str, name: str) -> dict[str, Any]:
    """Return a case and its wishes as a published row: the customer's script, instructions, and the calls expected."""
    user, rng = case.user, case.rng
    knows_email = rng.random() < _KNOWS_EMAIL[difficulty]
    persona = rng.choice(_PERSONAS[difficulty])
    code, person = user["address"]["zip"], user["name"]
    full = f"{person['first_name']} {person['last_name']}"
    identity = [Fact("name", f"<my> name is {full}.", full), Fact("zip", f"<my> zip code is {code}.", code)]
    look = ("find_user_id_by_name_zip", {**person, "zip": code})
    if knows_email:
        identity.append(Fact("email", f"<my> e-mail address is {user['email']}.", user["email"]))
        look = ("find_user_id_by_email", {"email": user["email"]})
    knows_numbers = any(fact.value for piece in pieces for fact in piece.facts)
    unknown = [] if knows_email else ["You do not remember your e-mail address."]
    unknown += [] if knows_numbers else ["You do not know any order number."]
    script = script_of(identity, pieces, () if knows_email else ("email",), persona)
    instructions = Instructions(
        "retail", " ".join(_narrate(piece.say) for piece in pieces if not piece.only_if_refused),
        " ".join(_narrate(fact.say) for fact in identity), " ".join(unknown) or None, _task_instructions(pieces),
    )  # fmt: skip
    expected = criteria([look, ("get_user_details", {"user_id": user["user_id"]})], pieces)
    return task_row(name, instructions, script, expected)


def _narrate(text: str) -> str:
    """Return a wording in the second person, for the player of the customer."""
    return voiced(text.replace("please ", "you ask the agent to "), False)


def _task_instructions(pieces: Pieces) -> str:
    """Return the player's instructions: wishes after a refusal, details to tell if asked, how often to insist, how to end."""
    parts = []
    for ordinal, piece in zip(ORDINALS, pieces, strict=False):
        if piece.only_if_refused:
            parts.append(f"Only if that is refused, your {ordinal} wish comes in its place: {_narrate(piece.say)}")
        if piece.facts:
            details = " ".join(_narrate(fact.say) for fact in piece.facts)
            parts.append(f"What you tell about your {ordinal} wish if the agent asks: {details}")
        if piece.insists:
            parts.append(f"If this is refused, insist on it {_TIMES[piece.insists]}, and then let it be.")
    return " ".join([
        *parts, "Say yes when the agent has told you what it will do and it is what you want.",
        "End the conversation once everything is settled.",
    ])  # fmt: skip
