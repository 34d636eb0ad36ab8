"""A suite's entries are drawn anew from a text that nobody knew before: other tasks of the same kinds, the same for everyone.

A registration draws from its nonce, a round from the agent's name and a salt. Only families whose tasks are generated can be
drawn from; entries on fixed data are left out, by name.
"""

import hashlib
import re

import gymnasium as gym

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import digest, sha256_text
from agent_envs.base.terminal import escaped
from agent_envs.core.env import core_of
from agent_envs.evaluation.suites.plan import entry_env
from agent_envs.evaluation.suites.suite import Entry, Suite

FIRST, LAST = 10**6, 2**30  # indices of tasks, beyond those of every split
_TRIES = 50


def round_nonce(agent: str, salt: str) -> str:
    """Return a round's nonce: a digest of the agent's name, as registration and submission have it, and the salt.

    Raises:
        UsageError: the salt is not of 32 hex digits, as a board publishes it.
    """
    if not re.fullmatch("[0-9a-f]{32}", salt):
        raise UsageError(f"--round {escaped(salt, 40)}: a round's salt is 32 hex digits, as the board published it")
    return digest([agent, salt])[:32]


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
    update = {"id": name, "scored": suite.scored}
    return suite.part(tuple(entries)).model_copy(update=update), tuple(left)


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
