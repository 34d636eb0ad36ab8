"""Registering an agent issues a nonce, which draws tasks that nobody can have seen; a round draws for all that are registered.

The board keeps a folder: registrations.jsonl and rounds.jsonl, append-only, the suite of each registration and the one of each
round that it draws from. A round's salt is published behind the registrations that take part, and each of these has tasks of
its own: nobody can choose a name by what it draws.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from agent_envs.base.caches import write_atomically
from agent_envs.base.errors import UsageError
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.base.strict_model import Strict
from agent_envs.evaluation.submission.lookalikes import skeleton
from agent_envs.evaluation.submission.models import Label
from agent_envs.evaluation.suites.draw import drawn_id, drawn_suite, round_nonce
from agent_envs.evaluation.suites.suite import Hex, Suite, first_fault, read_suite, suite_text

NAME, ROUNDS = "registrations.jsonl", "rounds.jsonl"
DAYS = 30  # that a pack may take
SuiteName = Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,40}@[0-9.]{1,9}$")]
Nonce = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Day = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]


class Registration(Strict):
    """One row of the registry: who will play which suite until when, and the nonce that was issued."""

    format: Annotated[Literal["agent-envs/registration@1"], Field(alias="schema")] = "agent-envs/registration@1"
    agent: Label
    suite: SuiteName
    nonce: Nonce
    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
    digest: Hex
    time: Annotated[str, Field(max_length=40)]
    due: Day


class Round(Strict):
    """A suite played as a round: the salt that every agent registered by then draws from, and its last day."""

    format: Annotated[Literal["agent-envs/round@1"], Field(alias="schema")] = "agent-envs/round@1"
    suite: SuiteName
    digest: Hex
    salt: Nonce
    time: Annotated[str, Field(max_length=40)]
    due: Day


@dataclass(frozen=True)
class Draw:
    """Tasks that were drawn for an agent: the suite's id, the suite that they stand for, and the last day of a pack.

    `round` is None where the registration's own nonce drew them.
    """

    id: str
    suite: str
    agent: str
    due: str
    round: Round | None = None


def register(suite: Suite, agent: str, registry: Path, days: int = DAYS) -> tuple[Registration, Path, tuple[str, ...]]:
    """Issue a nonce, write the suite that it draws and a registration; return that, the suite's file, and entries left out.

    Raises:
        UsageError: the name of the agent is none, the suite cannot be drawn from, or there are no days.
    """
    nonce = secrets.token_hex(16)
    new_suite, left = drawn_suite(suite, nonce)
    time, due = _dates(days)
    try:
        row = Registration(
            agent=agent, suite=suite.name, nonce=nonce, id=new_suite.id, digest=new_suite.digest(), time=time, due=due
        )
    except ValidationError as error:
        raise UsageError(f"register: {first_fault(error)}") from None
    path = _write_suite(registry / f"{new_suite.id}.json", new_suite)
    with Journal(registry / NAME) as journal:
        journal.append(row.model_dump(mode="json"))
    return row, path, left


def open_round(suite: Suite, registry: Path, days: int = DAYS) -> tuple[Round, tuple[str, ...]]:
    """Publish a salt for a suite, from which all agents that are registered for it draw; return the round and their names.

    Raises:
        UsageError: no agent is registered for the suite, it cannot be drawn from, or there are no days.
    """
    agents = dict.fromkeys(row.agent for row in _registrations(registry) if row.suite == suite.name)
    if not agents:
        raise UsageError(f"round: no agent is registered for {suite.name} in {registry}; register them first")
    time, due = _dates(days)
    row = Round(suite=suite.name, digest=suite.digest(), salt=secrets.token_hex(16), time=time, due=due)
    drawn_suite(suite, row.salt)  # refuses one that cannot be drawn from
    _write_suite(_round_path(registry, row), suite)
    with Journal(registry / ROUNDS) as journal:
        journal.append(row.model_dump(mode="json"))
    return row, tuple(agents)


def draws_of(registry: Path) -> Iterator[Draw]:
    """Yield what was drawn for each registered agent: by its registrations, and by every round that was opened after one."""
    rows = list(_registrations(registry))
    yield from (Draw(row.id, row.suite, row.agent, row.due) for row in rows)
    for item in map(Round.model_validate, read_journal(registry / ROUNDS)):
        for agent in dict.fromkeys(row.agent for row in rows if row.suite == item.suite and row.time <= item.time):
            yield Draw(drawn_id(item.suite, round_nonce(agent, item.salt)), item.suite, agent, item.due, item)


def registered_suite(registry: Path, name: str) -> tuple[Suite, Draw] | None:
    """Return a drawn suite by its id, and for whom it was drawn; None without one; UsageError if the board's file differs.

    Raises:
        UsageError: the board's own files do not belong together.
    """
    draw = next((draw for draw in draws_of(registry) if draw.id == name), None)
    if draw is None:
        return None
    if draw.round is not None:
        whole = _read_own(_round_path(registry, draw.round), draw.round.digest)
        return drawn_suite(whole, round_nonce(draw.agent, draw.round.salt))[0], draw
    digest = next(row.digest for row in _registrations(registry) if row.id == name)
    return _read_own(registry / f"{name}.json", digest), draw


def draw_counts(draws: list[Draw], submitted: set[str], agent: str, suite: str) -> dict[str, int]:
    """Return the numbers of a suite's draws for an agent's name, or one like it, and of those that came back; {} for none.

    Args:
        draws: of the registry.
        submitted: ids of the suites of all submissions that the board took in.
        agent: its name.
        suite: the name of the board's suite.
    """
    mine = [draw for draw in draws if draw.suite == suite and skeleton(draw.agent) == skeleton(agent)]
    if not mine:
        return {}
    own, rounds = ([draw.id for draw in mine if (draw.round is not None) == of_round] for of_round in (False, True))
    return {"registered": len(own), "submitted": len(submitted & {*own}), "rounds": len(rounds),
            "rounds_submitted": len(submitted & {*rounds})}  # fmt: skip


def _registrations(registry: Path) -> Iterator[Registration]:
    """Yield the rows of the registry, in their order."""
    return map(Registration.model_validate, read_journal(registry / NAME))


def _dates(days: int) -> tuple[str, str]:
    """Return the time now and the last day of so many; UsageError below 1 or above ten years."""
    if not 1 <= days <= 3650:
        raise UsageError(f"--days {days}: a pack may take 1 to 3650 days")
    now = datetime.now(tz=UTC)
    return now.isoformat(timespec="seconds"), (now + timedelta(days=days)).date().isoformat()


def _round_path(registry: Path, row: Round) -> Path:
    """Return the path of the suite that a round draws from."""
    return registry / f"round-{row.salt[:12]}.json"


def _write_suite(path: Path, suite: Suite) -> Path:
    """Write a suite's file into the registry, which is made if it is missing; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda file: file.write(suite_text(suite).encode()))
    return path


def _read_own(path: Path, digest: str) -> Suite:
    """Read a suite of the registry; UsageError where it is not the one that was written."""
    suite = read_suite(path.read_bytes(), str(path))
    if suite.digest() != digest:
        raise UsageError(f"{path} is not the suite that was registered: restore it from a copy")
    return suite
