"""What the generated calculator tasks have in common: their content, their streams of draws, their splits and ids.

Every task is drawn from a stream of its own, named by source, split and index: no task depends on another. The splits are
disjoint by content: a content belongs to one of three buckets, one for each split, and a task draws until its content fits.
Within a split a content may come twice, and does where a source is set so narrow that there are few.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from agent_envs.base.serialization import state_type
from agent_envs.base.errors import UsageError
from agent_envs.core.trajectory import Task

SPLITS = ("train", "dev", "test")
BUCKETS = {split: bucket for bucket, split in enumerate(SPLITS)}
_MOST_DIGITS = 18  # of an index in an id


@state_type
@dataclass(frozen=True, slots=True)
class CalcData:
    """The public content of a calculator task.

    Attributes:
        kind: arithmetic, countdown, count or gsm8k_scaled.
        given: the numbers that the question gives, as digits, in its order; also those that it writes in words.
        target: countdown: the number to reach, as text.
        wording: how the question is put, for strata: `symbols`, `number words`, `operator words`, `words`, ...
        size: operators, steps or digits, for strata.
    """

    kind: str
    given: tuple[str, ...]
    target: str = ""
    wording: str = ""
    size: int = 0


@state_type
@dataclass(frozen=True, slots=True)
class Derivation:
    """What the solver of a calculator task may know.

    Attributes:
        steps: expressions to give to the calculator, in order.
        answer: what to write behind `####`.
    """

    steps: tuple[str, ...]
    answer: str


class GeneratedSource:
    """A source of generated tasks with random access. Any index >= 0 is a task; an id is `NAME-SPLIT-INDEX`."""

    splits: tuple[str, ...] = SPLITS
    digest = ""

    def __init__(self, name: str, sizes: Mapping[str, int]) -> None:
        """Take the source's name, and for each split how many tasks a reset draws from."""
        self.name, self._sizes = name, dict(sizes)

    def size(self, split: str) -> int:
        """Return how many tasks a reset without `task` draws from; larger indices are tasks too."""
        return self._sizes[split]

    def get(self, split: str, key: int | str) -> Task:
        """Return a task by index >= 0 or by id.

        Raises:
            KeyError: an unknown split, a negative index, or an id that is not of this source and split.
        """
        if split not in self._sizes:
            raise KeyError(split)
        if not isinstance(key, str):
            if isinstance(key, bool) or not 0 <= key < 10**_MOST_DIGITS:
                raise KeyError(shown(key))
            return self.build(split, int(key), f"{self.name}-{split}-{key}")
        digits = key.removeprefix(f"{self.name}-{split}-")
        sound = digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS
        if not sound or key != f"{self.name}-{split}-{int(digits)}":
            raise KeyError(key)
        return self.build(split, int(digits), key)

    def build(self, split: str, index: int, task_id: str) -> Task:
        """Draw the task of an index."""
        raise NotImplementedError


def stream(*parts: str | int) -> random.Random:
    """Return the generator of draws that a name of several parts stands for."""
    return random.Random("/".join(map(str, parts)))


def text_bucket(text: str) -> int:
    """Return the bucket of a content that is written as text."""
    return crc32(text.encode()) % len(SPLITS)


def shown(value: Any) -> str:
    """Return a wrong argument as a message shows it: never long, and for every value."""
    if isinstance(value, int) and abs(value) >= 10**40:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "..."


def checked_range(source: str, argument: str, value: Any, low: int, high: int) -> int:
    """Return a whole number from low to high, or raise a UsageError that names the argument."""
    if type(value) is not int or not low <= value <= high:
        raise UsageError(
            f"{source}: {argument}={shown(value)} is not possible; give a whole number from {low} to {high}"
        )
    return value


def checked_portion(source: str, argument: str, value: Any) -> float:
    """Return a number from 0 to 1, or raise a UsageError that names the argument."""
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise UsageError(f"{source}: {argument}={shown(value)} is not possible; give a number from 0 to 1")
    return float(value)


def checked_choice(source: str, argument: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return one of the choices, or raise a UsageError that names the argument."""
    if not isinstance(value, str) or value not in choices:
        raise UsageError(f"{source}: {argument}={shown(value)} is unknown; use {' or '.join(choices)}")
    return str(value)


def split_sizes(source: str, train_size: int, test_size: int) -> dict[str, int]:
    """Return the sizes of the splits, dev a tenth of test."""
    train = checked_range(source, "train_size", train_size, 1, 10**9)
    test = checked_range(source, "test_size", test_size, 1, 10**9)
    return {"train": train, "dev": max(1, round(test / 10)), "test": test}
