"""`SeededSource` is the base of sources that make their tasks from seeds: a subclass only says how one task is made.

Any index >= 0 is a task, also beyond the size of its split, and has the id `NAME-SPLIT-INDEX`. A new source takes four steps:

1. Derive a class from `SeededSource[Task]`, and hand a name and the size of each split to `super().__init__`.
2. Write `build(split, index)`. Take all draws from `stream(self.name, split, index)`, so that no task depends on another, on
   the order in which tasks are asked for, or on the process. The task's id is `self.task_id(split, index)`.
3. Keep the splits apart: draw until `in_split(split, text)`, where equal tasks have equal texts. Every text belongs to one of
   train, dev and test, by its checksum. (Or draw the worlds of each split from streams of its own.)
4. Give tasks of one content one `cluster`: statistics do not take them for independent.

Tasks that share worlds (a library, a corpus) derive from `SeededWorlds` and write `tasks(split, world)`. An index must draw
the same task for ever: stored runs and suites name tasks by id and digest. docs/guide.md has an example that runs.
"""

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import index as plain_int
from typing import Generic, Protocol, TypeVar
from zlib import crc32

from agent_envs.base.arguments import display_value
from agent_envs.base.caches import Uncopied

SPLITS = ("train", "dev", "test")
_MOST_DIGITS = 18  # of a number in an id


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


TaskT = TypeVar("TaskT", bound=_HasId)  # `agent_envs.Task`, which stands on a higher floor


def stream(*parts: str | int) -> random.Random:
    """Return the generator of draws that a name of several parts stands for."""
    return random.Random("/".join(map(str, parts)))


def in_split(split: str, text: str) -> bool:
    """Return whether a content, written as text, belongs to a split: each belongs to exactly one of train, dev and test."""
    return crc32(text.encode()) % len(SPLITS) == SPLITS.index(split)


class SeededSource(Uncopied, Generic[TaskT]):
    """Tasks made from seeds, with random access by index or by id. Nothing of a source is written after its making.

    Attributes:
        name: the source's name, with which its ids begin.
        splits: those of the sizes, in their order; the first is the default of a reset.
        digest: what outside data the tasks rest on; "" for none.
        bounded: whether a split ends with its size, in place of going on for ever.
    """

    digest = ""
    bounded = False

    def __init__(self, name: str, sizes: Mapping[str, int], *, cache_size: int = 64) -> None:
        """Take the name, how many tasks of each split a reset draws from, and how many to keep, as a group resets to one."""
        self.name, self._sizes = name, dict(sizes)
        self.splits = tuple(self._sizes)
        self._task = lru_cache(maxsize=cache_size)(self.build) if cache_size else self.build

    def build(self, split: str, index: int) -> TaskT:
        """Make the task of an index; each source overrides it."""
        raise NotImplementedError(f"{type(self).__name__} must write build(split, index)")

    def task_id(self, split: str, index: int) -> str:
        """Return `NAME-SPLIT-INDEX`, the id for `build` to give. Ids of another form need another `index_in`."""
        return f"{self.name}-{split}-{index}"

    def size(self, split: str) -> int:
        """Return the number of tasks that a reset without `task` draws from; larger indices are tasks too, unless `bounded`."""
        return self._sizes[split]

    def get(self, split: str, key: int | str) -> TaskT:
        """Return a task by index >= 0 or by id; KeyError for an unknown split, an index that is none, or another source's id.

        Raises:
            KeyError: an unknown split, an index that is none, or an id that is not of this source and split.
        """
        if split not in self._sizes:
            raise KeyError(split)
        if isinstance(key, str):
            index = self.index_in(split, key)
        else:
            whole = hasattr(key, "__index__") and not isinstance(key, bool)
            index = self.index_at(split, plain_int(key)) if whole else -1
        if not 0 <= index < (self._sizes[split] if self.bounded else 10**_MOST_DIGITS):
            raise KeyError(key if isinstance(key, str) else display_value(key))
        task = self._task(split, index)
        if isinstance(key, str) and task.id != key:
            raise KeyError(key)
        return task

    def index_at(self, split: str, place: int) -> int:
        """Return the index at a place: the same, unless a subclass leaves indices out, here and in `index_in`."""
        return place

    def index_in(self, split: str, task_id: str) -> int:
        """Return the index that an id holds, -1 for none. `get` makes its task and compares the whole id."""
        numbers = self.numbers_in(split, task_id, 1)
        return numbers[0] if numbers else -1

    def numbers_in(self, split: str, task_id: str, count: int) -> tuple[int, ...]:
        """Return the numbers behind `NAME-SPLIT-` in an id, () where there are not so many."""
        head, *numbers = task_id.rsplit("-", count)
        digits = all(text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS for text in numbers)
        return tuple(map(int, numbers)) if digits and head == f"{self.name}-{split}" else ()


class SeededWorlds(SeededSource[TaskT]):
    """Several tasks in each of many worlds; an id is `NAME-SPLIT-WORLD-ITEM`.

    Index i lies in world i % n of the split's first n worlds (so that few tasks already span many worlds), and beyond those
    in the next n.
    """

    def __init__(self, name: str, worlds: Mapping[str, int], each: int) -> None:
        """Take the name, how many worlds of each split a reset draws from, and the most tasks of a world."""
        super().__init__(name, {split: count * each for split, count in worlds.items()})
        self._worlds, self._each = dict(worlds), each

    def tasks(self, split: str, world: int) -> Sequence[TaskT]:
        """Return the tasks of a world, at least one; each source overrides it. Asked for often, so keep them."""
        raise NotImplementedError(f"{type(self).__name__} must write tasks(split, world)")

    def build(self, split: str, index: int) -> TaskT:
        """Return an index's task: n worlds, then their items, then the next n worlds; worlds with fewer items begin again."""
        turn, column = divmod(index, self._worlds[split])
        block, item = divmod(turn, self._each)
        tasks = self.tasks(split, block * self._worlds[split] + column)
        return tasks[item % len(tasks)]

    def index_in(self, split: str, task_id: str) -> int:
        """Return the index of the world and item that an id holds; -1 for none, or an item beyond the most of a world."""
        world, item = self.numbers_in(split, task_id, 2) or (0, self._each)
        if item >= self._each:
            return -1
        block, column = divmod(world, self._worlds[split])
        return (block * self._each + item) * self._worlds[split] + column
