"""What generated law and generated agreements have in common: questions, worlds, knobs, and the source that serves them."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.envs.legal_search.library import Library
from agent_envs.envs.legal_search.tasks import ABSTAIN, LegalScenario, LegalStep
from agent_envs.core.trajectory import Task

READS = (1, 2, 3, 4)
WORLDS = {"train": 85, "dev": 15, "test": 15}  # with 20 questions each: 1,700 / 300 / 300, the paper's 2,300
KEPT_WORLDS = 128  # at once in a process, all of the standard set: about 0.3 MB each


@dataclass(frozen=True, slots=True)
class GeneratedQuestion:
    """A question over a generated library, and the way to its answer.

    Attributes:
        text: as it is asked.
        answers: the accepted forms of its answer; () where the library does not hold it.
        kind: one of its source's kinds, or "unanswerable".
        reads: how many sections must be read, or had to be if none were missing.
        support: the ids to read in order, down to the paragraph; of an unanswerable question those that are still there.
        citations: the ids of which any one is a right citation.
        steps: (query, section to read) in order; no query where a section read before cites the id.
        metric: how the answer is compared, "em" or "numeric".
    """

    text: str
    answers: tuple[str, ...]
    kind: str
    reads: int
    support: tuple[str, ...]
    citations: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]
    metric: str


@dataclass(frozen=True)
class GeneratedWorld:
    """A library without the sections that were removed, and questions over it with pairwise different texts."""

    library: Library
    questions: tuple[GeneratedQuestion, ...]
    removed: tuple[str, ...]

    def __deepcopy__(self, memo: object) -> "GeneratedWorld":
        """Worlds are never written, so a copy of an environment shares them."""
        return self


WorldOf = Callable[[Any, str, int], GeneratedWorld]


class GeneratedSource:
    """Questions over generated worlds: unlimited, and disjoint between splits.

    Index i lies in world i % n of the split's first n worlds (so that few tasks already span many worlds), and beyond
    those in the next n. A task's id is `NAME-SPLIT-WORLD-ITEM`.
    """

    splits = tuple(WORLDS)
    digest = ""

    def __init__(self, name: str, config: Any, world_of: WorldOf) -> None:
        """Take the name, the knobs of the worlds, and what returns (and keeps) the world of knobs, split and index."""
        self.name, self.config, self._world_of = name, config, world_of

    def size(self, split: str) -> int:
        """Return the number of tasks in the split's first worlds; larger indices are tasks too."""
        return WORLDS[split] * int(self.config.questions_per_world)

    def get(self, split: str, key: int | str) -> Task:
        """Return a task by index >= 0 or by id; raises KeyError where there is none."""
        if isinstance(key, str):
            found = re.fullmatch(rf"{self.name}-(\w+)-(0|[1-9][0-9]{{0,8}})-(0|[1-9][0-9]{{0,2}})", key, re.ASCII)
            if not found or found[1] != split:
                raise KeyError(key)
            world, item = int(found[2]), int(found[3])
        elif key < 0:
            raise KeyError(key)
        else:
            block, place = divmod(key, self.size(split))
            item, column = divmod(place, WORLDS[split])
            world = block * WORLDS[split] + column
        tasks = _world_tasks(self.name, self.config, self._world_of, split, world)
        if isinstance(key, str) and item >= len(tasks):
            raise KeyError(key)
        return tasks[item % len(tasks)]

    def library(self, task: Task) -> Library:
        """Return the library of a task's world."""
        _, split, world, _ = task.data
        return self._world_of(self.config, split, world).library


@lru_cache(maxsize=KEPT_WORLDS)
def _world_tasks(name: str, config: Any, world_of: WorldOf, split: str, index: int) -> tuple[Task, ...]:
    world = world_of(config, split, index)
    cluster = f"{name}-{split}-{index}"
    return tuple(
        Task(
            id=f"{cluster}-{item}",
            split=split,
            question=question.text,
            gold=question.answers or (ABSTAIN,),
            cluster=cluster,
            data=(f"{question.kind}-{question.reads}", split, index, world.library.digest),
            hidden=LegalScenario(
                gold_sections=question.support,
                answer_sections=question.citations,
                steps=tuple(LegalStep(query, section) for query, section in question.steps),
                answerable=bool(question.answers),
                metric=question.metric if question.answers else "abstain",
            ),
        )
        for item, question in enumerate(world.questions)
    )


def whole_numbers(config: Any, **limits: tuple[int, int]) -> None:
    """Refuse knobs that are no whole number within their limits: name=(least, most)."""
    for name, (low, high) in limits.items():
        value = getattr(config, name)
        if type(value) is not int or not low <= value <= high:
            raise UsageError(f"{_owner(config)}: {name}={value!r} is not possible; use an int from {low} to {high}")


def shares(config: Any, *names: str) -> None:
    """Make knobs floats from 0 to 1, and refuse others."""
    for name in names:
        value = getattr(config, name)
        if type(value) not in (int, float) or not 0 <= value <= 1:
            raise UsageError(f"{_owner(config)}: {name}={value!r} is not possible; use a number from 0 to 1")
        object.__setattr__(config, name, float(value))


def subsets(config: Any, **allowed: tuple[Any, ...]) -> None:
    """Make knobs sorted tuples without doubles, so that equal settings are equal configurations, and refuse others."""
    for name, values in allowed.items():
        value = getattr(config, name)
        items = list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes) else []
        if not items or any(type(item) not in (int, str) or item not in values for item in items):
            raise UsageError(
                f"{_owner(config)}: {name}={value!r} is not possible; use a tuple of one or more of {values}"
            )
        object.__setattr__(config, name, tuple(sorted(set(items))))


def _owner(config: Any) -> str:
    return type(config).__name__
