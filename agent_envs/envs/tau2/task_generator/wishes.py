"""Texts, wishes and rows that the three generators share.

A text is written once for both persons, with marks: `<I> want <my> order` is "I want my order" of the user itself and "you want
your order" in a scenario. The wordings of a domain stand in `DOMAIN_words.json`, with slots in braces.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from agent_envs.envs.tau2.task_schema import Instructions
from agent_envs.envs.tau2.user_script import Fact, UserScript, Want, script_row
from agent_envs.envs.tau2.users.persona import TASK_MANNERS

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
_PERSONS = {
    "I": ("I", "you"), "my": ("my", "your"), "me": ("me", "you"), "am": ("am", "are"), "was": ("was", "were"),
}  # fmt: skip
_MARK = re.compile(r"<(I|my|me|am|was)>")
_SENTENCE = re.compile(r"(?:^|[.!?] )[a-z]")
T = TypeVar("T")
Action = tuple[str, dict[str, Any]]


class Unfit(Exception):
    """A customer's situation does not give what a wish is about; another customer or wish is drawn then."""


def need(value: T | None) -> T:
    """Return a value that a wish needs; Unfit is raised where it is empty."""
    if not value:
        raise Unfit
    return value


@cache
def wordings(domain: str) -> dict[str, Any]:
    """Return the wordings of a domain's wishes by name, read once, to read only."""
    words: dict[str, Any] = json.loads(files(__package__).joinpath(f"{domain}_words.json").read_text(encoding="utf-8"))
    return words


def voiced(text: str, first: bool) -> str:
    """Return a text in the first or in the second person, its sentences begun with capitals."""
    words = _MARK.sub(lambda match: _PERSONS[match[1]][not first], text)
    return _SENTENCE.sub(lambda match: match[0].upper(), words)


def listed(names: Iterable[str]) -> str:
    """Return names as a sentence lists them, "a, b and c"; one alone unchanged; ValueError for none."""
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last


@dataclass(frozen=True)
class Piece:
    """One thing that a customer wants, and what an agent that keeps to the policy does about it.

    Attributes:
        say: the wish, as whole sentences.
        facts: what is told when it is asked for.
        actions: the gold calls, reads included.
        answers: what the agent has to tell.
        signs, question, only_if_refused, insists, declines, objection: as in `Want`.
        play: what an airline's scenario adds on how to behave.
        uses: what no other wish of a shop's task may touch: orders, "gift", "home".
        refund: what a shop's customer gets back.
    """

    say: str
    facts: tuple[Fact, ...] = ()
    actions: tuple[Action, ...] = ()
    answers: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    question: bool = False
    only_if_refused: bool = False
    insists: int = 0
    declines: tuple[str, ...] = ()
    objection: str = ""
    play: str = ""
    uses: frozenset[str] = frozenset()
    refund: float = 0.0

    def want(self) -> Want:
        """Return the piece as a want of the scripted user, in the first person."""
        return Want(
            voiced(self.say, True), own_facts(self.facts), self.signs, self.question, self.only_if_refused, self.insists,
            self.declines, voiced(self.objection, True),
        )  # fmt: skip


def own_facts(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Return facts in the first person."""
    return tuple(replace(fact, say=voiced(fact.say, True)) for fact in facts)


def script_of(facts: Iterable[Fact], pieces: Iterable[Piece], unknown: tuple[str, ...], persona: str) -> dict[str, Any]:
    """Return the script of a user who knows facts and wants pieces."""
    return script_row(UserScript(own_facts(facts), tuple(piece.want() for piece in pieces), unknown, persona))


def criteria(looks: list[Action], pieces: Iterable[Piece]) -> dict[str, Any]:
    """Return criteria: calls in order, each once, `looks` first, and facts to tell, each once; basis DB and COMMUNICATE."""
    calls, answers = list[Action](), dict[str, None]()
    for call in [*looks, *(call for piece in pieces for call in piece.actions)]:
        if call not in calls:
            calls.append(call)
    for piece in pieces:
        answers |= dict.fromkeys(piece.answers)
    actions = [{"requestor": "assistant", "name": tool, "arguments": arguments} for tool, arguments in calls]
    return {"actions": actions, "communicate_info": list(answers), "reward_basis": ["DB", "COMMUNICATE"]}


def task_row(
    name: str, instructions: Instructions, script: dict[str, Any], expected: dict[str, Any], **more: Any
) -> dict[str, Any]:  # fmt: skip
    """Return a task as a published row with its user's script; its difficulty is what its name begins with.

    `expected` are its criteria, whose actions are numbered here; `more` are members that one domain has alone.
    """
    actions = [{"action_id": f"{name}_{place}", **row} for place, row in enumerate(expected["actions"])]
    persona = TASK_MANNERS[instructions.domain].get(script["persona"])
    return {
        "id": name, "user_scenario": {"persona": persona, "instructions": asdict(instructions)},
        **more, "evaluation_criteria": {**expected, "actions": actions}, "user_script": script,
        "difficulty": name.partition("-")[0],
    }  # fmt: skip
