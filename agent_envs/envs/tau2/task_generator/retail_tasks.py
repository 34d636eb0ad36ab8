"""Tasks in the generated shop, of graded difficulty, in the published form, each with the script of its user.

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
    Deed,
    Detail,
    Kind,
    figure,
    said,
    tellable,
)
from agent_envs.envs.tau2.task_generator.retail_world import database
from agent_envs.envs.tau2.task_generator.source import members, task_id
from agent_envs.envs.tau2.users.persona import TASK_MANNERS
from agent_envs.envs.tau2.user_script import Fact, UserScript, Want, script_row

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
    case, deeds = drawn(split, number, difficulty, world)
    return _Writer(case, deeds, difficulty, task_id(split, number, difficulty, world)).row()


def drawn(split: str, number: int, difficulty: str, world: int = 0) -> tuple[Case, tuple[Deed, ...]]:
    """Return the customer of a task and its wants, in the order in which it asks for them."""
    rng = Random(f"tau2/retail/{world}/{split}/{number}/{difficulty}")
    tables = database(world).tables
    users = list(tables["users"].values())
    ours = [users[place] for place in members(split, len(users))]
    others = [user["user_id"] for user in ours]
    deeds: tuple[Deed, ...] = ()
    while not deeds:
        case = Case(rng, tables, rng.choice(ours), others)
        deeds = _deeds(case, _kinds(rng, difficulty), difficulty)
    return case, deeds


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


def _deeds(case: Case, kinds: Sequence[Kind], difficulty: str) -> tuple[Deed, ...]:
    """Return the wants of a customer, () where it cannot have them."""
    found: list[tuple[Deed, ...]] = []
    for kind in kinds:
        made = kind(replace(case, vague=case.rng.random() < _VAGUE[difficulty]))
        uses = frozenset[str]().union(*(deed.uses for deed in made))
        if not made or uses & case.used:
            return ()
        case = replace(case, used=case.used | uses)
        found.append(made)
    case.rng.shuffle(found)
    deeds = tuple(deed for made in found for deed in made)
    return (*deeds, *_grand_total(case, deeds))


def _grand_total(case: Case, deeds: tuple[Deed, ...]) -> tuple[Deed, ...]:
    """Return a question for all that several wants give back, where there is something to add up."""
    refunds = [deed.refund for deed in deeds if deed.refund]
    if len(refunds) < 2 or not tellable(sum(refunds)) or case.rng.random() < 0.3:
        return ()
    text = case.rng.choice((
        "{I} want to know how much money {I} get back in total from all of that together.",
        "lastly, please tell {me} the sum of all refunds that {I} get now.",
    ))  # fmt: skip
    return (Deed(said(text), (), (), frozenset(), (figure(sum(refunds)),), question=True),)


class _Writer:
    """Puts a customer's wants into a row."""

    def __init__(self, case: Case, deeds: tuple[Deed, ...], difficulty: str, name: str) -> None:
        self.user, self.rng, self.deeds, self.difficulty, self.name = case.user, case.rng, deeds, difficulty, name
        self.knows_email = self.rng.random() < _KNOWS_EMAIL[difficulty]
        self.persona = self.rng.choice(_PERSONAS[difficulty])
        self.person = Person(self.user["name"]["first_name"], self.user["name"]["last_name"])

    def row(self) -> dict[str, Any]:
        """Return the row."""
        instructions = {
            "domain": "retail",
            "reason_for_call": " ".join(deed.say.told for deed in self.deeds if not deed.only_if_refused),
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
                "communicate_info": list(dict.fromkeys(text for deed in self.deeds for text in deed.tells)),
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
        knows_numbers = any(detail.value for deed in self.deeds for detail in deed.details)
        parts = [] if self.knows_email else ["You do not remember your e-mail address."]
        return " ".join([*parts, *([] if knows_numbers else ["You do not know any order number."])]) or None

    def _instructions(self) -> str:
        parts = []
        for place, deed in enumerate(self.deeds):
            if deed.only_if_refused:
                parts.append(
                    f"Only if that is refused, your {_ORDINALS[place]} wish comes in its place: {deed.say.told}"
                )
            details = [detail.words.told for detail in deed.details]
            if details:
                parts.append(f"What you tell about your {_ORDINALS[place]} wish if the agent asks: {' '.join(details)}")
            if deed.insists:
                parts.append(f"If this is refused, insist on it {_TIMES[deed.insists]}, and then let it be.")
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
        for deed in self.deeds:
            actions += [action for action in deed.actions if action not in actions]
        return actions

    def _script(self) -> UserScript:
        facts = tuple(_fact(detail) for detail in self._identity())
        wants = tuple(
            Want(
                deed.say.own, tuple(map(_fact, deed.details)), deed.signs, deed.question, deed.only_if_refused, deed.insists,
                deed.declines, deed.objection,
            )
            for deed in self.deeds
        )  # fmt: skip
        return UserScript(facts, wants, () if self.knows_email else ("email",), self.persona)


def _fact(detail: Detail) -> Fact:
    return Fact(detail.topic, detail.words.own, detail.value)
