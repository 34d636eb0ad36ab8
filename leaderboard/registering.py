"""Registering an agent issues a nonce, which draws tasks from the generators that nobody can have seen or trained on.

The board keeps a folder: registrations.jsonl, append-only, and the suite of each registration. Only families whose tasks are
generated can be drawn from; entries on fixed data are left out, by name.
"""

import hashlib
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import gymnasium as gym
from pydantic import Field, ValidationError

from agent_envs.base.caches import write_atomically
from agent_envs.base.errors import UsageError
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.base.serialization import sha256_text
from agent_envs.base.strict_model import Strict
from agent_envs.core.env import core_of
from agent_envs.evaluation.submission.models import Label
from agent_envs.evaluation.suites.plan import entry_env
from agent_envs.evaluation.suites.suite import Entry, Hex, Suite, first_fault, read_suite, suite_text

FIRST, LAST = 10**6, 2**30  # indices of tasks, beyond those of every split
NAME = "registrations.jsonl"
_TRIES = 50


class Registration(Strict):
    """One row of the registry: who will play which suite, and the nonce that was issued."""

    format: Annotated[Literal["agent-envs/registration@1"], Field(alias="schema")] = "agent-envs/registration@1"
    agent: Label
    suite: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,40}@[0-9.]{1,9}$")]
    nonce: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
    digest: Hex
    time: Annotated[str, Field(max_length=40)]


def drawn_suite(suite: Suite, nonce: str) -> tuple[Suite, tuple[str, ...]]:
    """Return the suite of entries redrawn by the nonce, and the labels of those left out as fixed; UsageError if all are.

    Raises:
        UsageError: no entry of the suite has generated tasks that can be drawn.
    """
    entries, left = [], []
    for entry in suite.entries:
        tasks = _draw_tasks(entry, nonce)
        if tasks:
            entries.append(entry.model_copy(update={"tasks": tasks}))
        else:
            left.append(entry.label)
    if not entries:
        raise UsageError(f"{suite.name}: none of its entries has generated tasks that a nonce can draw")
    name = f"{suite.id[:27]}-{sha256_text(f'{suite.name}+{nonce}')[:12]}"
    return suite.part(tuple(entries)).model_copy(update={"id": name, "scored": suite.scored}), tuple(left)


def _draw_tasks(entry: Entry, nonce: str) -> tuple[tuple[str, str, str], ...]:
    """Draw as many new tasks by a nonce as an entry has, fewer if draws repeat too often; () where its tasks are fixed."""
    source = core_of(entry_env(entry)).source
    rows: dict[str, tuple[str, str, str]] = {}
    if source.digest:  # outside data or a fixed list: there is nothing new to draw
        return ()
    for number in range(_TRIES * len(entry.tasks)):
        if len(rows) == len(entry.tasks):
            break
        index = FIRST + int(hashlib.sha256(f"{nonce}:{entry.label}:{number}".encode()).hexdigest(), 16) % (LAST - FIRST)
        try:
            task = source.get(entry.split, index)
        except (KeyError, IndexError, gym.error.Error):
            return ()
        rows.setdefault(task.id, (task.id, task.digest, task.cluster or task.id))
    return tuple(rows.values())


def register(suite: Suite, agent: str, registry: Path) -> tuple[Registration, Path, tuple[str, ...]]:
    """Issue a nonce, write the suite that it draws and a registration; return that, the suite's file, and entries left out.

    Raises:
        UsageError: the name of the agent is none, or the suite cannot be drawn from.
    """
    nonce = secrets.token_hex(16)
    new_suite, left = drawn_suite(suite, nonce)
    try:
        row = Registration(
            agent=agent, suite=suite.name, nonce=nonce, id=new_suite.id, digest=new_suite.digest(),
            time=datetime.now(tz=UTC).isoformat(timespec="seconds"),
        )  # fmt: skip
    except ValidationError as error:
        raise UsageError(f"register: {first_fault(error)}") from None
    registry.mkdir(parents=True, exist_ok=True)
    path = registry / f"{new_suite.id}.json"
    write_atomically(path, lambda file: file.write(suite_text(new_suite).encode()))
    with Journal(registry / NAME) as journal:
        journal.append(row.model_dump(mode="json"))
    return row, path, left


def drawn_from(registry: Path) -> dict[str, str]:
    """Return the suite that each registration drew from, by the id of the suite that it drew."""
    rows = map(Registration.model_validate, read_journal(registry / NAME))
    return {row.id: row.suite for row in rows}


def registered_suite(registry: Path, name: str) -> tuple[Suite, str] | None:
    """Return a registration's suite and agent, by the suite's id; None without one; UsageError if the suite's file differs.

    Raises:
        UsageError: the board's own files do not belong together.
    """
    for row in read_journal(registry / NAME):
        registration = Registration.model_validate(row)
        if registration.id == name:
            path = registry / f"{registration.id}.json"
            suite = read_suite(path.read_bytes(), str(path))
            if suite.digest() != registration.digest:
                raise UsageError(f"{path} is not the suite that was registered: restore it from a copy")
            return suite, registration.agent
    return None
