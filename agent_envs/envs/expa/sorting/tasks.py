"""Sorting, ordering and comparing tasks hide a permutation each, and are drawn with random access.

A source takes turns between kinds and sizes in a fixed sequence, so that the first tasks of a split hold the shares of its
mixture as nearly as whole tasks can. There are only 2 * n! different sorting tasks of n items: splits are disjoint by id and
by draw, and not by content. Tasks of one content are one cluster, so that statistics do not take them for independent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from math import gcd

from agent_envs.base.arguments import choice, whole_number
from agent_envs.base.serialization import sha256_text, state_type
from agent_envs.core.trajectory import Task
from agent_envs.datasets.seeded import SPLITS, SeededSource, stream
from agent_envs.envs.expa.calculator.random_expressions import Draw
from agent_envs.envs.expa.sorting.environments import SYMBOLS
from agent_envs.envs.expa.sorting.knowledge import least_swaps, sorted_order

DIRECTIONS = ("both", "ascending", "descending")
SORT_TRAIN: Mapping[int, int] = {2: 10, 3: 20, 4: 30, 5: 40}  # per cent by items, arXiv 2510.07581, appendix E
SORT_TEST: Mapping[int, int] = {4: 50, 5: 50}
ORDER_SHARES: Mapping[int, int] = {2: 30, 3: 30, 4: 20, 5: 20}
Mixture = Mapping[tuple[str, int], int]  # weights by (kind, items)


@state_type
@dataclass(frozen=True, slots=True)
class SortData:
    """The public content of a sorting task; how many swaps it needs stays hidden.

    Attributes:
        kind: sort, order or compare.
        size: number of items.
        descending: whether the wanted order is.
        relations: order tasks: what is told, as "A<B" or "B>A".
    """

    kind: str
    size: int
    descending: bool
    relations: tuple[str, ...]


class SortingSource(SeededSource[Task]):
    """The base of the two sources: the sequence of kinds and sizes, the direction, the task of a permutation."""

    def __init__(self, name: str, mixtures: Mapping[str, Mixture], directions: str, sizes: Mapping[str, int]) -> None:
        """Take the name, the mixture of each split, the directions, and how many tasks a reset draws from."""
        super().__init__(name, sizes)
        self._direction = choice(name, "directions", directions, DIRECTIONS)
        self._turns = {split: _taking_turns(mixtures[split]) for split in SPLITS}

    @property
    def items(self) -> int:
        """The most items of a task."""
        return max(size for turns in self._turns.values() for _, size in turns)

    @property
    def in_words(self) -> bool:
        """Whether some tasks are to compare two items, which is answered in words."""
        return any(kind == "compare" for turns in self._turns.values() for kind, _ in turns)

    def build(self, split: str, index: int) -> Task:
        """Draw the task of an index, alike each time: kind and size go by turns; order tasks need a swap at least."""
        turns = self._turns[split]
        kind, size = turns[index % len(turns)]
        draw = stream(self.name, split, index).random
        coin = draw() < 0.5
        descending = kind != "compare" and (coin if self._direction == "both" else self._direction == "descending")
        values = _permutation(draw, size)
        while kind == "order" and not least_swaps(values, descending):
            values = _permutation(draw, size)
        relations = _relations(draw, sorted_order(values)) if kind == "order" else ()
        order = [SYMBOLS[symbol] for symbol in sorted_order(values, descending)]
        sign = "<" if values[0] < values[1] else ">"
        content = f"{kind}/{descending}/{values}/{relations}"
        return Task(
            id=self.task_id(split, index),
            split=split,
            question=_question(kind, size, descending, relations),
            gold=(f"A {sign} B" if kind == "compare" else ", ".join(order),),
            # A digest, because a cluster's name is published and the values are the answer.
            cluster=f"{kind}-{sha256_text(content)[:16]}",
            data=SortData(kind, size, descending, relations),
            hidden=values,
        )


class SortSource(SortingSource):
    """Sorting tasks; as large and mixed as the paper's, dev as test and a tenth of its size."""

    def __init__(self, *, size: int | None = None, directions: str = "both") -> None:
        """Take the number of items of every task (None: the mixtures), and the directions."""
        mixtures = {
            split: {("sort", items): share for items, share in _shares("sort", size, mixture).items()}
            for split, mixture in (("train", SORT_TRAIN), ("dev", SORT_TEST), ("test", SORT_TEST))
        }
        super().__init__("sort", mixtures, directions, {"train": 80_000, "dev": 200, "test": 2_000})


class OrderSource(SortingSource):
    """Ordering tasks, and comparing tasks in train; as large and mixed as the paper's."""

    def __init__(self, *, size: int | None = None, directions: str = "both", compare_percent: int = 5) -> None:
        """Take the number of items (None: the mixture), the directions, and the percentage of comparing tasks in train."""
        compared = 0 if size is not None else whole_number("order", "compare_percent", compare_percent, 0, 100)
        shares = _shares("order", size, ORDER_SHARES)
        mixtures: dict[str, Mixture] = {}
        for split, percent in (("train", compared), ("dev", 0), ("test", 0)):
            ordering = {("order", items): share * (100 - percent) for items, share in shares.items()}
            mixtures[split] = {**ordering, ("compare", 2): sum(shares.values()) * percent}
        super().__init__("order", mixtures, directions, {"train": 20_000, "dev": 200, "test": 2_000})


def labels(task: Task) -> dict[str, str]:
    """Return a task's strata: kind and size; unless it is to compare, also direction and least swaps."""
    data: SortData = task.data
    strata = {"task": data.kind, "size": str(data.size)}
    if data.kind != "compare":
        strata["direction"] = _direction(data.descending)
        strata[f"least swaps of {data.size} items"] = str(least_swaps(task.hidden, data.descending))
    return strata


def _direction(descending: bool) -> str:
    """Return the direction of the order as a word."""
    return "descending" if descending else "ascending"


def _shares(source: str, size: int | None, mixture: Mapping[int, int]) -> Mapping[int, int]:
    """Return a mixture's weights by number of items; {size: 1} where a size is given, UsageError for one out of range."""
    return mixture if size is None else {whole_number(source, "size", size, 2, len(SYMBOLS)): 1}


def _taking_turns(mixture: Mixture) -> list[tuple[str, int]]:
    """Return one round that holds each kind as often as its reduced weight says, spread evenly over every beginning."""
    divisor = reduce(gcd, mixture.values())
    weights = {key: weight // divisor for key, weight in mixture.items() if weight}
    total, behind = sum(weights.values()), dict.fromkeys(weights, 0)
    turns = []
    for _ in range(total):
        for key, weight in weights.items():
            behind[key] += weight
        key_due = max(behind, key=behind.__getitem__)
        behind[key_due] -= total
        turns.append(key_due)
    return turns


def _permutation(draw: Draw, size: int) -> tuple[int, ...]:
    """Draw a permutation by sorting places by random draws."""
    return tuple(sorted(range(size), key=lambda _: draw()))


def _relations(draw: Draw, ascending: tuple[int, ...]) -> tuple[str, ...]:
    """Return an order's neighbours and 0 to n - 2 other pairs, shuffled, each written as `a<b` or `b>a` by chance."""
    size = len(ascending)
    others = [(low, high) for low in range(size) for high in range(low + 2, size)]
    extra = sorted(others, key=lambda _: draw())[: int(draw() * (size - 1))]
    pairs = sorted([*((low, low + 1) for low in range(size - 1)), *extra], key=lambda _: draw())
    symbol_pairs = [(SYMBOLS[ascending[low]], SYMBOLS[ascending[high]]) for low, high in pairs]
    return tuple([f"{less}<{more}" if draw() < 0.5 else f"{more}>{less}" for less, more in symbol_pairs])


def _question(kind: str, size: int, descending: bool, relations: tuple[str, ...]) -> str:
    """Return the question: bring items into ascending (or `descending`) order, with relations if any, or name the larger."""
    items = ", ".join(SYMBOLS[:size])
    if kind == "compare":
        return f"Which of {items} has the larger number?"
    knowledge = f", knowing that {', '.join(relations)}" if relations else ""
    return f"Bring {items} into {_direction(descending)} order of their numbers{knowledge}."
