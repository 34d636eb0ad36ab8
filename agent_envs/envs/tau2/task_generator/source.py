"""Tasks without end: a domain's generator as a task source, and the domain over the database that its tasks play in.

A task is named by its difficulty, split and number (`easy-train-17`; `easy-train-17-w3` in world 3) and made when it is asked
for. The customers of a world are divided among the splits, so that no task of one concerns a customer of another.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from importlib.resources import files
from typing import Any

from agent_envs.base.serialization import digest
from agent_envs.base.errors import UsageError
from agent_envs.envs.tau2.builtin import builtin_domain
from agent_envs.envs.tau2.task_schema import core_task
from agent_envs.envs.tau2.toolkit import Domain
from agent_envs.core.trajectory import Task

DOMAINS = ("retail", "airline", "telecom")
DIFFICULTIES = ("easy", "medium", "hard")
STARTER = {"telecom": "starter"}  # the first rung, in domains that have one; never in "mixed"
SIZES = {"train": 100_000, "dev": 1_000, "test": 1_000}
_ID = re.compile(r"(starter|easy|medium|hard)-(train|dev|test)-(0|[1-9][0-9]{0,6})(?:-w([1-9][0-9]{0,8}))?")


def task_id(split: str, number: int, difficulty: str, world: int = 0) -> str:
    """Return the id of a generated task."""
    return f"{difficulty}-{split}-{number}" + (f"-w{world}" if world else "")


def world_of(task: str) -> int:
    """Return the world of a generated task's id."""
    found = _ID.fullmatch(task)
    return int(found[4] or 0) if found else 0


def members(split: str, count: int) -> range:
    """Return which of `count` customers the tasks of a split concern: 80 in 100 train's, 10 dev's, 10 test's."""
    train, dev = count * 8 // 10, count * 9 // 10
    return {"train": range(train), "dev": range(train, dev), "test": range(dev, count)}[split]


@lru_cache(maxsize=24)
def generated_domain(name: str, compat: str = "tau2-1.0.1", world: int = 0) -> Domain:
    """Return a domain over the database of one of its generated worlds; it is made once per process and shared.

    Args:
        name: "retail", "airline" or "telecom".
        compat: "tau2-1.0.1" or "fixed".
        world: which database; tasks belong to one.

    Raises:
        UsageError: an unknown name.
    """
    made, shown = _module(name, "world"), replace(builtin_domain(name, compat), policy=_text(f"{name}.md"))
    if name == "telecom":
        agent, user = made.databases(world)
        return replace(shown, agent_database=agent, user_database=user, solo_policy=_text("telecom_solo.md"))
    return replace(shown, agent_database=made.database(world))


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


class GeneratedSource:
    """A domain's generated tasks, in train, dev and test; a train split has 100,000, and other worlds have as many more."""

    splits = tuple(SIZES)

    def __init__(self, domain: str, world: int = 0, difficulty: str = "mixed") -> None:
        """Take the domain, the world, and how hard the tasks are.

        Args:
            domain: "retail", "airline" or "telecom".
            world: the database that the tasks play in.
            difficulty: "easy", "medium", "hard", or "mixed" for all three in turn; in telecom also "starter".

        Raises:
            UsageError: a value that there is none of.
        """
        known = [STARTER[domain]] if domain in STARTER else []
        known += DIFFICULTIES
        if difficulty not in (*known, "mixed"):
            raise UsageError(f"difficulty={difficulty!r}: choose {', '.join(known)} or mixed")
        if isinstance(world, bool) or not isinstance(world, int) or not 0 <= world < 10**9:
            raise UsageError(f"world={world!r}: a world is a whole number from 0 to 999999999")
        _module(domain, "tasks")
        self.domain, self.world, self.difficulty = domain, world, difficulty
        self.name = f"generated-{domain}"
        self.digest = digest(["tau2 generated", domain, world, difficulty])

    def size(self, split: str) -> int:
        """Return the number of tasks of a split."""
        return SIZES[split]

    def get(self, split: str, key: int | str) -> Task:
        """Return a task of a split by index >= 0 or by id."""
        number = key if isinstance(key, int) else self._number(split, key)
        if not 0 <= number < self.size(split):
            raise KeyError(key)
        return _made(self.domain, self.world, split, number, self._difficulty(number))

    def _difficulty(self, number: int) -> str:
        return DIFFICULTIES[number % 3] if self.difficulty == "mixed" else self.difficulty

    def _number(self, split: str, key: str) -> int:
        found = _ID.fullmatch(key)
        if found is None or task_id(split, int(found[3]), self._difficulty(int(found[3])), self.world) != key:
            raise KeyError(key)
        return int(found[3])

    def __deepcopy__(self, memo: Any) -> "GeneratedSource":
        """Nothing of it is ever written, so a copy of an environment shares it."""
        return self


@lru_cache(maxsize=2048)
def _made(domain: str, world: int, split: str, number: int, difficulty: str) -> Task:
    make_row: Callable[..., dict[str, Any]] = _module(domain, "tasks").make_row
    return core_task(make_row(split, number, difficulty, world), split, f"generated-{domain}")


def _module(domain: str, part: str) -> Any:
    if domain not in DOMAINS:
        raise UsageError(f"tau2 has no domain {domain!r}; the domains are {', '.join(DOMAINS)}")
    # By name, so that a process that plays one domain loads one generator.
    return import_module(f"{__package__}.{domain}_{part}")
