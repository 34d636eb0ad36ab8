"""Registering an agent issues a nonce, which draws tasks that nobody can have seen; a round draws for all that are registered.

The board keeps a folder: registrations.jsonl, append-only, and the suite that each row drew. A round adds a row for every agent
that is registered by then, whose nonce is made of its name and the round's salt: nobody can choose a name by what it draws.
"""

import secrets
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
from agent_envs.evaluation.suites.draw import drawn_suite, round_nonce
from agent_envs.evaluation.suites.suite import Hex, Suite, first_fault, read_suite, suite_text

NAME = "registrations.jsonl"
DAYS = 30  # that a pack may take
SuiteName = Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,40}@[0-9.]{1,9}$")]
Nonce = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Day = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]


class Registration(Strict):
    """One row of the registry: who will play which suite until when, and what drew it; `salt` is a round's, "" without one."""

    format: Annotated[Literal["agent-envs/registration@1"], Field(alias="schema")] = "agent-envs/registration@1"
    agent: Label
    suite: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,40}@[0-9.]{1,9}$")]
    nonce: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
    digest: Hex
    time: Annotated[str, Field(max_length=40)]
    due: Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    salt: Annotated[str, Field(pattern=r"^([0-9a-f]{32})?$")] = ""


def register(suite: Suite, agent: str, registry: Path, days: int = DAYS) -> tuple[Registration, Path, tuple[str, ...]]:
    """Issue a nonce, write the suite that it draws and a registration; return that, the suite's file, and entries left out.

    Raises:
        UsageError: the name of the agent is none, the suite cannot be drawn from, or there are no days.
    """
    return _draw(suite, agent, registry, days, secrets.token_hex(16))


def open_round(suite: Suite, registry: Path, days: int = DAYS) -> list[Registration]:
    """Publish a salt for a suite, from which all agents that are registered for it draw; return their rows of this round.

    Raises:
        UsageError: no agent is registered for the suite, it cannot be drawn from, or there are no days.
    """
    agents = dict.fromkeys(row.agent for row in registrations_of(registry) if row.suite == suite.name)
    if not agents:
        raise UsageError(f"round: no agent is registered for {suite.name} in {registry}; register them first")
    salt = secrets.token_hex(16)
    return [_draw(suite, agent, registry, days, round_nonce(agent, salt), salt)[0] for agent in agents]


def _draw(
    suite: Suite, agent: str, registry: Path, days: int, nonce: str, salt: str = ""
) -> tuple[Registration, Path, tuple[str, ...]]:
    """Draw a suite, write it and its row; return these and the entries left out."""
    if not 1 <= days <= 3650:
        raise UsageError(f"--days {days}: a submission may take 1 to 3650 days")
    new_suite, left = drawn_suite(suite, nonce)
    now = datetime.now(tz=UTC)
    try:
        row = Registration(
            agent=agent, suite=suite.name, nonce=nonce, id=new_suite.id, digest=new_suite.digest(), salt=salt,
            time=now.isoformat(timespec="seconds"), due=(now + timedelta(days=days)).date().isoformat(),
        )  # fmt: skip
    except ValidationError as error:
        raise UsageError(f"register: {first_fault(error)}") from None
    registry.mkdir(parents=True, exist_ok=True)
    path = registry / f"{new_suite.id}.json"
    write_atomically(path, lambda file: file.write(suite_text(new_suite).encode()))
    with Journal(registry / NAME) as journal:
        journal.append(row.model_dump(mode="json"))
    return row, path, left


def registrations_of(registry: Path) -> list[Registration]:
    """Return the rows of the registry, those of rounds too, in their order."""
    return [Registration.model_validate(row) for row in read_journal(registry / NAME)]


def registered_suite(registry: Path, name: str) -> tuple[Suite, Registration] | None:
    """Return a registration's suite and its row, by the suite's id; None without one; UsageError if the suite's file differs.

    Raises:
        UsageError: the board's own files do not belong together.
    """
    row = next((row for row in registrations_of(registry) if row.id == name), None)
    if row is None:
        return None
    path = registry / f"{row.id}.json"
    suite = read_suite(path.read_bytes(), str(path))
    if suite.digest() != row.digest:
        raise UsageError(f"{path} is not the suite that was registered: restore it from a copy")
    return suite, row


def draw_counts(rows: list[Registration], submitted: set[str], agent: str, suite: str) -> dict[str, int]:
    """Return the numbers of a suite's draws for an agent's name, or one like it, and of those that came back; {} for none.

    Args:
        rows: of the registry.
        submitted: ids of the suites of all submissions that the board took in.
        agent: its name.
        suite: the name of the board's suite.
    """
    mine = [row for row in rows if row.suite == suite and skeleton(row.agent) == skeleton(agent)]
    if not mine:
        return {}
    own, rounds = ({row.id for row in mine if bool(row.salt) == of_round} for of_round in (False, True))
    return {"registered": len(own), "submitted": len(submitted & own), "rounds": len(rounds),
            "rounds_submitted": len(submitted & rounds)}  # fmt: skip
