"""Generated law is served as tasks: its questions, its worlds, checks of its settings, and the task source."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agent_envs.base.arguments import portion, whole_number
from agent_envs.base.caches import Uncopied
from agent_envs.base.errors import UsageError
from agent_envs.core.trajectory import Task
from agent_envs.datasets.seeded import SeededWorlds
from agent_envs.envs.legal_search.library import Library
from agent_envs.envs.legal_search.tasks import ABSTAIN, LegalScenario, LegalStep

READS = (1, 2, 3, 4, 5, 6)
WORLDS = {"train": 17, "dev": 3, "test": 3}  # with 100 questions each: 1,700 / 300 / 300, the paper's 2,300
KEPT_WORLDS = 24  # at once in a process, all of the standard set: about 5 MB each


@dataclass(frozen=True, slots=True)
class GeneratedQuestion:
    """A question over a generated library, and the way to its answer.

    Attributes:
        answers: the accepted forms of its answer; () where the library does not hold it.
        kind: one of its source's kinds, or "unanswerable".
        reads: how many sections must be read, or had to be if none were missing.
        chapter: the chapter that it is about, whose questions are not independent of each other.
        support: the ids to read in order, all of which prove the answer; of an unanswerable question those still there.
        steps: (query, section to read) in order; no query where a section read before cites the id.
        metric: how the answer is compared, "em" or "numeric".
        lines: (section, letter of its paragraph, "" for the whole) of all that the answer rests on.
    """

    text: str
    answers: tuple[str, ...]
    kind: str
    reads: int
    chapter: str
    support: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]
    metric: str
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class GeneratedWorld(Uncopied):
    """A library without the sections that were removed, and questions over it with pairwise different texts."""

    library: Library
    questions: tuple[GeneratedQuestion, ...]
    removed: tuple[str, ...]


WorldOf = Callable[[Any, str, int], GeneratedWorld]


class StatutesSource(SeededWorlds[Task]):
    """Questions over generated worlds: unlimited, and disjoint between splits."""

    def __init__(self, name: str, config: Any, world_of: WorldOf) -> None:
        """Take the name, the knobs of the worlds, and what returns (and keeps) the world of knobs, split and index."""
        super().__init__(name, WORLDS, config.questions_per_world)
        self.config, self._world_of = config, world_of

    def tasks(self, split: str, world: int) -> tuple[Task, ...]:
        """Return the tasks of a world, which are kept."""
        return _world_tasks(self.name, self.config, self._world_of, split, world)

    def library(self, task: Task) -> Library:
        """Return the library of a task's world."""
        _, split, world, _ = task.data
        return self._world_of(self.config, split, world).library


@lru_cache(maxsize=KEPT_WORLDS)
def _world_tasks(name: str, config: Any, world_of: WorldOf, split: str, index: int) -> tuple[Task, ...]:
    """Return the tasks of a generated world, cached; one without an answer has ABSTAIN as its gold, and no answer sections."""
    world = world_of(config, split, index)
    return tuple(
        Task(
            id=f"{name}-{split}-{index}-{item}",
            split=split,
            question=question.text,
            gold=question.answers or (ABSTAIN,),
            cluster=f"{name}-{split}-{index}-{question.chapter}",
            data=(f"{question.kind}-{question.reads}", split, index, world.library.digest),
            hidden=LegalScenario(
                gold_sections=question.support,
                answer_sections=question.support if question.answers else (),
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
        whole_number(_owner(config), name, getattr(config, name), low, high)


def shares(config: Any, *names: str) -> None:
    """Make knobs floats from 0 to 1, and refuse others."""
    for name in names:
        object.__setattr__(config, name, portion(_owner(config), name, getattr(config, name)))


def subsets(config: Any, **allowed: tuple[Any, ...]) -> None:
    """Replace knobs by sorted tuples without doubles, so that equal settings compare equal; UsageError for others."""
    for name, values in allowed.items():
        value = getattr(config, name)
        items = list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes) else []
        if not items or any(type(item) not in (int, str) or item not in values for item in items):
            raise UsageError(
                f"{_owner(config)}: {name}={value!r} is not possible; use a tuple of one or more of {values}"
            )
        object.__setattr__(config, name, tuple(sorted(set(items))))


def _owner(config: Any) -> str:
    """Return the name of a configuration's class, for messages."""
    return type(config).__name__
