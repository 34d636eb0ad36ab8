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

from agent_envs.envs.tau2.task_generator.names import Person
from agent_envs.envs.tau2.task_generator.retail_addresses import home_address, order_address
from agent_envs.envs.tau2.task_generator.retail_changes import ask, change_item, pay_otherwise, swap
from agent_envs.envs.tau2.task_generator.retail_returns import cancel, give_back
from agent_envs.envs.tau2.task_generator.retail_traps import CONDITIONAL, FORBIDDEN
from agent_envs.envs.tau2.task_generator.retail_wants import (
    Case,
    Detail,
    Effect,
    Kind,
    figure,
    said,
    tellable,
)
from agent_envs.envs.tau2.task_generator.retail_world import database
from agent_envs.envs.tau2.task_generator.source import members, task_id
from agent_envs.envs.tau2.user_script import Fact, UserScript, Want, script_row
from agent_envs.envs.tau2.users.persona import TASK_MANNERS

_WRITES: tuple[Kind, ...] = (cancel, give_back, swap, change_item, order_address, pay_otherwise, home_address)
_ANY = (*_WRITES, ask)
_KNOWS_EMAIL = {"easy": 0.7, "medium": 0.5, "hard": 0.15}
_VAGUE = {"easy": 0.0, "medium": 0.6, "hard": 0.75}
_PERSONAS = {
    "easy": ("plain", "plain", "terse", "talkative"),
    "medium": ("plain", "terse", "talkative", "piecemeal", "forgetful"),
    "hard": ("plain", "insistent", "piecemeal", "forgetful", "mistaken"),
}
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
_TIMES = {1: "once", 2: "twice"}


def make_row(split: str, number: int, difficulty: str, world: int = 0) -> dict[str, Any]:
    """Return a task as a published row with the members `user_script` and `difficulty`.

    Args:
        split: "train", "dev" or "test", whose customers it concerns.
        number: which task, from 0.
        difficulty: "easy", "medium" or "hard".
        world: the database that it plays in.
    """
    case, effects = drawn(split, number, difficulty, world)
    return _Writer(case, effects, difficulty, task_id(split, number, difficulty, world)).row()


def drawn(split: str, number: int, difficulty: str, world: int = 0) -> tuple[Case, tuple[Effect, ...]]:
    """Return the customer of a task and its wants, in the order in which it asks for them."""
    rng = Random(f"tau2/retail/{world}/{split}/{number}/{difficulty}")
    tables = database(world).tables
    users = list(tables["users"].values())
    ours = [users[place] for place in members(split, len(users))]
    others = [user["user_id"] for user in ours]
    effects: tuple[Effect, ...] = ()
    while not effects:
        case = Case(rng, tables, rng.choice(ours), others)
        effects = _effects(case, _kinds(rng, difficulty), difficulty)
    return case, effects


def _kinds(rng: Random, difficulty: str) -> Sequence[Kind]:
    """Return the kinds of wants of a task, the rarer first; at least one of them is granted by a call or by a figure."""
    if difficulty == "easy":
        return [rng.choice(_ANY)]
    if difficulty == "medium":
        return [rng.choice(_WRITES), rng.choice(_ANY)]
    traps = [rng.choice(FORBIDDEN), rng.choice(CONDITIONAL)]
    return (
        [*traps, rng.choice(_ANY)] if rng.random() < 0.6 else [rng.choice(traps), rng.choice(_WRITES), rng.choice(_ANY)]
    )


def _effects(case: Case, kinds: Sequence[Kind], difficulty: str) -> tuple[Effect, ...]:
    """Return the wants of a customer, () where it cannot have them."""
    found: list[tuple[Effect, ...]] = []
    for kind in kinds:
        made = kind(replace(case, vague=case.rng.random() < _VAGUE[difficulty]))
        uses = frozenset[str]().union(*(effect.uses for effect in made))
        if not made or uses & case.used:
            return ()
        case = replace(case, used=case.used | uses)
        found.append(made)
    case.rng.shuffle(found)
    effects = tuple(effect for made in found for effect in made)
    return (*effects, *_grand_total(case, effects))


def _grand_total(case: Case, effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """Return a question for all that several wants give back, where there is something to add up."""
    refunds = [effect.refund for effect in effects if effect.refund]
    if len(refunds) < 2 or not tellable(sum(refunds)) or case.rng.random() < 0.3:
        return ()
    text = case.rng.choice((
        "{I} want to know how much money {I} get back in total from all of that together.",
        "lastly, please tell {me} the sum of all refunds that {I} get now.",
    ))  # fmt: skip
    return (Effect(said(text), (), (), frozenset(), (figure(sum(refunds)),), question=True),)


class _Writer:
    """Puts a customer's wants into a row."""

    def __init__(self, case: Case, effects: tuple[Effect, ...], difficulty: str, name: str) -> None:
        self.user, self.rng, self.effects, self.difficulty, self.name = case.user, case.rng, effects, difficulty, name
        self.knows_email = self.rng.random() < _KNOWS_EMAIL[difficulty]
        self.persona = self.rng.choice(_PERSONAS[difficulty])
        self.person = Person(self.user["name"]["first_name"], self.user["name"]["last_name"])

    def row(self) -> dict[str, Any]:
        """Return the row."""
        instructions = {
            "domain": "retail",
            "reason_for_call": " ".join(effect.say.told for effect in self.effects if not effect.only_if_refused),
            "known_info": " ".join(detail.words.told for detail in self._identity()),
            "unknown_info": self._unknown(),
            "task_instructions": self._instructions(),
        }
        return {
            "id": self.name,
            "user_scenario": {"persona": TASK_MANNERS["retail"][self.persona], "instructions": instructions},
            "evaluation_criteria": {
                "actions": [
                    {"action_id": f"{self.name}_{place}", "requestor": "assistant", "name": name, "arguments": arguments}
                    for place, (name, arguments) in enumerate(self._actions())
                ],
                "communicate_info": list(dict.fromkeys(text for effect in self.effects for text in effect.tells)),
                "reward_basis": ["DB", "COMMUNICATE"],
            },
            "user_script": script_row(self._script()),
            "difficulty": self.difficulty,
        }  # fmt: skip

    def _identity(self) -> list[Detail]:
        code = self.user["address"]["zip"]
        known = [
            Detail("name", said("{my} name is {name}.", name=self.person.full), self.person.full),
            Detail("zip", said("{my} zip code is {code}.", code=code), code),
        ]
        if self.knows_email:
            known.append(
                Detail("email", said("{my} e-mail address is {mail}.", mail=self.user["email"]), self.user["email"])
            )
        return known

    def _unknown(self) -> str | None:
        knows_numbers = any(detail.value for effect in self.effects for detail in effect.details)
        parts = [] if self.knows_email else ["You do not remember your e-mail address."]
        return " ".join([*parts, *([] if knows_numbers else ["You do not know any order number."])]) or None

    def _instructions(self) -> str:
        parts = []
        for place, effect in enumerate(self.effects):
            if effect.only_if_refused:
                parts.append(
                    f"Only if that is refused, your {_ORDINALS[place]} wish comes in its place: {effect.say.told}"
                )
            details = [detail.words.told for detail in effect.details]
            if details:
                parts.append(f"What you tell about your {_ORDINALS[place]} wish if the agent asks: {' '.join(details)}")
            if effect.insists:
                parts.append(f"If this is refused, insist on it {_TIMES[effect.insists]}, and then let it be.")
        return " ".join([
            *parts, "Say yes when the agent has told you what it will do and it is what you want.",
            "End the conversation once everything is settled.",
        ])  # fmt: skip

    def _actions(self) -> list[tuple[str, dict[str, Any]]]:
        user_id = self.user["user_id"]
        name = {"first_name": self.person.first, "last_name": self.person.last, "zip": self.user["address"]["zip"]}
        found = ("find_user_id_by_email", {"email": self.user["email"]})
        actions: list[tuple[str, dict[str, Any]]] = [found if self.knows_email else ("find_user_id_by_name_zip", name)]
        actions.append(("get_user_details", {"user_id": user_id}))
        for effect in self.effects:
            actions += [action for action in effect.actions if action not in actions]
        return actions

    def _script(self) -> UserScript:
        facts = tuple(_fact(detail) for detail in self._identity())
        wants = tuple(
            Want(
                effect.say.own, tuple(map(_fact, effect.details)), effect.signs, effect.question, effect.only_if_refused,
                effect.insists, effect.declines, effect.objection,
            )
            for effect in self.effects
        )  # fmt: skip
        return UserScript(facts, wants, () if self.knows_email else ("email",), self.persona)


def _fact(detail: Detail) -> Fact:
    return Fact(detail.topic, detail.words.own, detail.value)
