"""Task sources over rows serve the official tasks, by split.

Splits of the official tasks: the original's (train, test, base; telecom has small and full, too), and four of ours, drawn
80/20 from base: `train80` and `test20` within the domain, `pooled_train80` and `pooled_test20` over the 278 base tasks of all
three domains at once. A paper's test sets of 28, 7 and 21 tasks suggest such a pool; the draw is ours and not that paper's.
"""

from collections.abc import Callable, Mapping
from functools import cache, cached_property
from random import Random
from typing import Any

from agent_envs.base.caches import Uncopied
from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import digest as digest_of
from agent_envs.core.trajectory import Task
from agent_envs.envs.tau2.builtin import DOMAINS
from agent_envs.envs.tau2.official import BLOBS, COMMIT, deck
from agent_envs.envs.tau2.task_schema import Tau2Task, core_task, read_task, tau2_task

__all__ = [
    "OfficialSource", "RowSource", "Tau2Task", "core_task", "drawn_split", "read_task", "tau2_task",
]  # fmt: skip
TEST_SHARE, SEED = 0.2, 0  # of the splits that we draw
_OURS = {
    "train80": (False, False),
    "test20": (False, True),
    "pooled_train80": (True, False),
    "pooled_test20": (True, True),
}


class RowSource(Uncopied):
    """A task source over rows, which are parsed only when they are asked for."""

    def __init__(
        self, name: str, row: Callable[[str], dict[str, Any]], splits: Mapping[str, tuple[str, ...]], digest: str = ""
    ) -> None:
        """Take a function that returns the row of an id, to read only, and each split's ids, a reset's default split first."""
        self.name, self.digest, self.splits = name, digest, tuple(splits)
        self._row, self._split_ids = row, dict(splits)
        self._tasks: dict[tuple[str, str], Task] = {}

    def ids(self, split: str) -> tuple[str, ...]:
        """Return the ids of a split in file order; KeyError where there is no such split."""
        return self._split_ids[split]

    def size(self, split: str) -> int:
        """Return the number of tasks of a split."""
        return len(self.ids(split))

    def get(self, split: str, key: int | str) -> Task:
        """Return a task of a split by index >= 0 or by id, cached; KeyError where there is none."""
        ids = self.ids(split)
        if isinstance(key, int):
            if not 0 <= key < len(ids):
                raise KeyError(key)
            key = ids[key]
        elif key not in self._members[split]:
            raise KeyError(key)
        if (split, key) not in self._tasks:
            self._tasks[split, key] = core_task(self._row(key), split, self.name)
        return self._tasks[split, key]

    @cached_property
    def _members(self) -> dict[str, frozenset[str]]:
        """Return the ids of each split as a set, cached."""
        return {split: frozenset(self.ids(split)) for split in self.splits}


class OfficialSource(RowSource):
    """The published tasks of a domain, one deck for all environments of a process."""

    def __init__(self, domain: str) -> None:
        """Load the deck: its splits, our own ones and the digest of its files.

        Raises:
            UsageError: an unknown domain.
            DataMissing: the data is not there.
        """
        official_deck = deck(domain)
        order: tuple[str, ...] = ("train", "test", "base", "small", "full")
        splits = {name: official_deck.split(name) for name in order if name in official_deck.splits}
        paths = sorted(path for path in BLOBS if path.startswith(f"domains/{domain}/"))
        data_digest = digest_of([COMMIT, SEED, [[path, BLOBS[path]] for path in paths]])
        super().__init__(f"official-{domain}", official_deck.task, splits, data_digest)
        self.domain = domain
        self.splits = (*splits, *_OURS)

    def ids(self, split: str) -> tuple[str, ...]:
        """Return a split's ids in file order, one of ours drawn from the base tasks; KeyError without it, or DataMissing."""
        return drawn_split(self.domain, split) if split in _OURS else super().ids(split)


@cache
def drawn_split(domain: str, split: str) -> tuple[str, ...]:
    """Return the base tasks' ids in one of our 80/20 splits, in file order, cached; UsageError for others, or DataMissing.

    They are `train80`, `test20`, and `pooled_` before either: drawn over the base tasks of all domains, 56 of 278 for test.

    Raises:
        UsageError: no such split.
        DataMissing: the data is not there.
    """
    if split not in _OURS:
        raise UsageError(f"tau2 draws no split {split!r}; it draws {', '.join(_OURS)}")
    pooled, wants_test = _OURS[split]
    test_pairs = _draw_test_pairs("pooled" if pooled else domain, DOMAINS if pooled else (domain,))
    return tuple(task_id for task_id in deck(domain).split("base") if ((domain, task_id) in test_pairs) is wants_test)


@cache
def _draw_test_pairs(name: str, domains: tuple[str, ...]) -> frozenset[tuple[str, str]]:
    """Draw the (domain, task id) of the test split, a fixed share of these domains' base tasks, the same each time; cached."""
    pool = [(domain, task_id) for domain in domains for task_id in deck(domain).split("base")]
    Random(f"tau2/80-20/{name}/{SEED}").shuffle(pool)
    return frozenset(pool[: round(TEST_SHARE * len(pool))])
