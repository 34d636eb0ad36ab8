"""`MathWorldSource` gives the tasks of math_world by index and id, in a fixed rotation of needs, subjects and levels."""

import random
from collections.abc import Sequence
from functools import lru_cache

from agent_envs.base.documents import Corpus
from agent_envs.base.errors import UsageError
from agent_envs.core.trajectory import Task
from agent_envs.datasets.seeded import SeededSource
from agent_envs.datasets.world import WorldConfig
from agent_envs.envs.tool_reasoning.content import NEEDS, ToolReasoningData
from agent_envs.envs.tool_reasoning.math_world.almanac import Link, NumberWorld, number_world
from agent_envs.envs.tool_reasoning.math_world.problem import LEVELS
from agent_envs.envs.tool_reasoning.math_world.problems import KINDS
from agent_envs.envs.tool_reasoning.math_world.questions import (
    ProblemDraft,
    calculation,
    calculation_with_facts,
    search,
)

NAME = "math_world"
SIZES = {"train": 4_000, "dev": 250, "test": 1_000}
WORLDS = 32  # that the tasks of a split's size are spread over
_ROTATION = ("python", "both", "search", "both", "python")
_CELLS = len(_ROTATION) * len(KINDS) * len(LEVELS)


def _cell(index: int) -> tuple[str, str, int]:
    """Return needs, subject and level of an index: every 125 indices in a row hold every combination."""
    turn, rest = index % 5, index // 5
    need = _ROTATION[turn]
    subject = list(KINDS)[(turn + rest) % 5]
    level = LEVELS[(turn + 2 * rest + rest // 5) % 5]
    return need, "facts" if need == "search" else subject, level


class MathWorldSource(SeededSource[Task]):
    """Generated problems with exact answers: 2 of 5 need code, 1 of 5 a search, 2 of 5 both.

    Any index >= 0 is a task; its id is `math_world-SPLIT-INDEX`. Index i is searched in world i % 32 of the split; beyond the
    size of the split in the next 32. Splits share no problem: their worlds differ, and a calculation belongs to one split by
    its content. A source that leaves some needs or levels out counts through the rest, and its ids stay the same.
    """

    answerable = True

    def __init__(
        self, needs: Sequence[str] = (), levels: Sequence[int | str] = (), world: WorldConfig | None = None
    ) -> None:
        """Take the needs and levels to keep, all for none, and what worlds are like; raises UsageError for an unknown name."""
        self._world = world or WorldConfig()
        need_set = _check_choice("needs", needs, NEEDS)
        level_set = {
            int(level) for level in _check_choice("levels", [str(level) for level in levels], tuple(map(str, LEVELS)))
        }
        cells = (_cell(index) for index in range(_CELLS))
        self._cells = [index for index, (need, _, level) in enumerate(cells) if need in need_set and level in level_set]
        super().__init__(NAME, {split: size // _CELLS * len(self._cells) for split, size in SIZES.items()})

    def build(self, split: str, index: int) -> Task:
        """Draw the task of an index; it is kept for all sources."""
        return _task(split, index, self._world)

    def index_at(self, split: str, place: int) -> int:
        """Return the index of a place among those that are kept."""
        block, turn = divmod(place, len(self._cells))
        return block * _CELLS + self._cells[turn]

    def index_in(self, split: str, task_id: str) -> int:
        """Return the index that an id holds, -1 where there is none or it is left out."""
        index = super().index_in(split, task_id)
        return index if index % _CELLS in self._cells else -1

    def corpus(self, task: Task) -> Corpus | None:
        """Return the documents that a task is searched in."""
        return self._world_of(task).corpus

    def links(self, task: Task, doc_id: str) -> tuple[Link, ...]:
        """Return the documents that a document of a task's corpus leads to; raises KeyError where there is none."""
        return self._world_of(task).links(doc_id)

    def _world_of(self, task: Task) -> NumberWorld:
        """Return the world that a task is of."""
        return number_world(task.split, task.data.world, self._world)


@lru_cache(maxsize=4_096)
def _task(split: str, index: int, config: WorldConfig) -> Task:
    """Return the task of an index, cached; questions of one world are one cluster, those for python alone each their own."""
    need, subject, level = _cell(index)
    world_index = index // SIZES[split] * WORLDS + index % WORLDS
    world = number_world(split, world_index, config)
    task_id = f"{NAME}-{split}-{index}"
    draft = _draft(random.Random(f"{NAME}:v0:{split}:{index}"), split, need, subject, level, world)
    return Task(
        id=task_id,
        split=split,
        question=draft.question,
        gold=draft.answers,
        cluster=task_id if need == "python" else f"{NAME}-{split}-world-{world_index}",
        data=ToolReasoningData(
            source=NAME,
            subject=subject,
            level=str(level),
            needs=need,
            kind=draft.kind,
            steps=draft.steps,
            world=world_index,
            searched=world.corpus.digest,
        ),
        hidden=draft.scenario,
    )


def _draft(rng: random.Random, split: str, need: str, subject: str, level: int, world: NumberWorld) -> ProblemDraft:
    """Draw a task's content: for "search" a question, for "both" a calculation with facts, else a calculation."""
    if need == "search":
        return search(rng, level, world)
    if need == "both":
        return calculation_with_facts(rng, KINDS[subject], level, world)
    return calculation(rng, KINDS[subject], level, split)


def _check_choice(argument: str, names: Sequence[str], choices: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names as a tuple, all choices if there are none; UsageError for one that is no choice."""
    if isinstance(names, str) or any(not isinstance(item, str) or item not in choices for item in names):
        raise UsageError(f"{NAME}: {argument}={names!r} is not possible; give a list of some of: {', '.join(choices)}")
    return tuple(names) or choices
