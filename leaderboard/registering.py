"""Registering an agent issues a nonce, which draws tasks that nobody can have seen; a round draws for all that are registered.

The board keeps a folder: registrations.jsonl, append-only, and the suite that each row drew. A round adds a row for every agent
that is registered by then, whose nonce is made of its name and the round's salt: no name can be made up for what it draws. Who
registers several names before the salt can still choose among them afterwards, and so a board lists names that have no row.
"""

import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from agent_envs.base.caches import write_atomically
from agent_envs.base.errors import UsageError
from agent_envs.base.jsonl_log import Journal
from agent_envs.evaluation.suites.draw import drawn_suite, round_nonce
from agent_envs.evaluation.suites.suite import Suite, first_fault, suite_text
from agent_envs.evaluation.verification.badges import skeleton
from agent_envs.evaluation.verification.suites_known import NAME, Registration, registrations_of

DAYS = 30  # that a pack may take


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


def counts_without_row(
    rows: list[Registration], submitted: set[str], names: set[str], suite: str
) -> dict[str, dict[str, int]]:
    """Return the counts of each agent that is registered for a suite and not among `names`; of this very name alone."""
    mine: dict[str, list[Registration]] = {}
    for row in rows:
        if row.suite == suite and row.agent not in names:
            mine.setdefault(row.agent, []).append(row)
    return {agent: draw_counts(own, submitted, agent, suite) for agent, own in mine.items()}
