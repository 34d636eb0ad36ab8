"""`GeneratedSource` serves a domain's generated tasks, and `generated_domain` the domain over the database that they use.

A task is named by its difficulty, split and number (`easy-train-17`; `easy-train-17-w3` in world 3) and made when it is asked
for. The customers of a world are divided among the splits, so that no task of one concerns a customer of another. A domain's
module `DOMAIN_tasks` has `make_row(split, number, difficulty, world)`.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from importlib.resources import files
from typing import Any

from agent_envs.base.arguments import choice, whole_number
from agent_envs.base.serialization import digest
from agent_envs.core.trajectory import Task
from agent_envs.datasets.seeded import SeededSource
from agent_envs.envs.tau2.builtin import builtin_domain, known_domain
from agent_envs.envs.tau2.task_schema import core_task
from agent_envs.envs.tau2.toolkit import Domain

DIFFICULTIES = ("easy", "medium", "hard")
STARTER = {"telecom": "starter"}  # the first rung, in domains that have one; never in "mixed"
SIZES = {"train": 100_000, "dev": 1_000, "test": 1_000}
_ID = re.compile(r"(starter|easy|medium|hard)-(train|dev|test)-(0|[1-9][0-9]{0,6})(?:-w([1-9][0-9]{0,8}))?")


def task_id(split: str, number: int, difficulty: str, world: int = 0) -> str:
    """Return the id of a generated task."""
    return f"{difficulty}-{split}-{number}" + (f"-w{world}" if world else "")


def world_of(task: str) -> int:
    """Return the world of a generated task's id; 0 for any other id."""
    match = _ID.fullmatch(task)
    return int(match[4] or 0) if match else 0


def members(split: str, count: int) -> range:
    """Return the places, among `count` customers, of those of a split: 80 in 100 train's, 10 dev's, 10 test's."""
    train, dev = count * 8 // 10, count * 9 // 10
    return {"train": range(train), "dev": range(train, dev), "test": range(dev, count)}[split]


@lru_cache(maxsize=24)
def generated_domain(name: str, compat: str = "tau2-1.0.1", world: int = 0) -> Domain:
    """Return a domain over one of its generated worlds (`compat` "tau2-1.0.1" or "fixed"), made once per process.

    Numbers are told by value, whatever `compat` says.
    """
    module, domain = _module(name, "world"), builtin_domain(name, compat)
    domain = replace(domain, policy=_text(f"{name}.md"), compat=replace(domain.compat, facts_as_text=False))
    if name == "telecom":
        agent, user = module.databases(world)
        return replace(domain, agent_database=agent, user_database=user, solo_policy=_text("telecom_solo.md"))
    return replace(domain, agent_database=module.database(world))


def _text(name: str) -> str:
    """Read a file of the package as text."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


class GeneratedSource(SeededSource[Task]):
    """A domain's generated tasks, in train, dev and test; a train split has 100,000, and other worlds have as many more."""

    bounded = True

    def __init__(self, domain: str, world: int = 0, difficulty: str = "mixed") -> None:
        """Take the domain, the world, and how hard the tasks are; "mixed" is each of DIFFICULTIES in turn."""
        levels = [STARTER[domain]] if domain in STARTER else []
        levels += DIFFICULTIES
        choice(f"Tau2{domain.title()}", "difficulty", difficulty, (*levels, "mixed"))
        whole_number(f"Tau2{domain.title()}", "world", world, 0, 10**9 - 1)
        _module(domain, "tasks")
        self.domain, self.world, self.difficulty = domain, world, difficulty
        super().__init__(f"generated-{domain}", SIZES)
        self.digest = digest(["tau2 generated", domain, world, difficulty, "told by value"])

    def build(self, split: str, index: int) -> Task:
        """Build the task of a number."""
        difficulty = DIFFICULTIES[index % 3] if self.difficulty == "mixed" else self.difficulty
        return _build_task(self.domain, self.world, split, index, difficulty)

    def index_in(self, split: str, task_id: str) -> int:
        """Return the number that an id holds, -1 for none."""
        match = _ID.fullmatch(task_id)
        return int(match[3]) if match else -1


@lru_cache(maxsize=2048)
def _build_task(domain: str, world: int, split: str, number: int, difficulty: str) -> Task:
    """Generate a task from its place and difficulty, cached."""
    make_row: Callable[..., dict[str, Any]] = _module(domain, "tasks").make_row
    return core_task(make_row(split, number, difficulty, world), split, f"generated-{domain}")


def _module(domain: str, part: str) -> Any:
    """Import a domain's generator module, for its tasks or its world; UsageError for an unknown domain."""
    # By name, so that a process that plays one domain loads one generator.
    return import_module(f"{__package__}.{known_domain(domain)}_{part}")
