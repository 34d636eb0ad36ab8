"""Calc-Bench mixes arithmetic, Countdown, scaled word problems and counting in the sizes of the paper's Table 3."""

from bisect import bisect_right
from collections.abc import Mapping
from functools import cache, cached_property
from itertools import accumulate
from math import gcd

from agent_envs.base.serialization import digest
from agent_envs.core.trajectory import Task, TaskSource
from agent_envs.datasets.seeded import SPLITS
from agent_envs.envs.expa.generated import TABLE_3

_GOLDEN_RATIO = 0.6180339887498949


class CalcBenchSource:
    """A mixture with random access. A task keeps the id, the data and the question that it has in its own source.

    One block of a split holds each member's share exactly, and its first N tasks hold about the same shares for every N:
    index i stands at place (step * i) modulo the block's size, step near the golden section of the size and prime to it,
    and the members own runs of places. Larger indices go on with the next block, which holds the members' next tasks. A
    member that has no further task (a published data set) begins again.
    """

    name = "calcbench"
    splits = SPLITS

    def __init__(
        self,
        members: Mapping[str, TaskSource],
        sizes: Mapping[str, Mapping[str, int]] = TABLE_3,
    ) -> None:
        """Take the sources, each of another name, and how many tasks of each a block of a split holds, by the same names."""
        self._members = dict(members)
        self._sizes = {split: {name: sizes[split][name] for name in self._members} for split in SPLITS}

    @cached_property
    def digest(self) -> str:
        """What outside data the members rest on; "" if on none."""
        digests = {name: source.digest for name, source in self._members.items() if source.digest}
        return digest(digests) if digests else ""

    def size(self, split: str) -> int:
        """Return the number of tasks of one block."""
        return sum(self._sizes[split].values())

    def get(self, split: str, key: int | str) -> Task:
        """Return a task by index >= 0 or by the id that it has in its own source.

        Raises KeyError: an unknown split, a negative index, or an id that no member knows.
        """
        if split not in self._sizes:
            raise KeyError(split)
        if isinstance(key, str):
            return self._named(split, key)
        name, index = self.place(split, key)
        source = self._members[name]
        try:
            return source.get(split, index)
        except KeyError:
            return source.get(split, index % source.size(split))

    def place(self, split: str, index: int) -> tuple[str, int]:
        """Return the member that an index >= 0 falls to, and the index within it."""
        if isinstance(index, bool) or index < 0:
            raise KeyError(index)
        sizes = self._sizes[split]
        ends = list(accumulate(sizes.values()))
        block, place = divmod(index, ends[-1])
        place = place * _step(ends[-1]) % ends[-1]
        member = bisect_right(ends, place)
        name = list(sizes)[member]
        return name, block * sizes[name] + place - (ends[member] - sizes[name])

    def _named(self, split: str, key: str) -> Task:
        # The longest name first: one member's name may begin another's.
        for source in sorted(self._members.values(), key=lambda source: -len(source.name)):
            if key.startswith(f"{source.name}-"):
                return source.get(split, key)
        raise KeyError(key)


@cache
def _step(total: int) -> int:
    """Return the whole number next to the golden section of a total that has no divisor in common with it."""
    step = max(1, round(total * _GOLDEN_RATIO))
    while gcd(step, total) != 1:
        step += 1
    return step
