"""Tests play a part of their cases in `make test` and all in `make test-heavy`: the profile of hypothesis says which."""

import random
from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import settings

FULL = 100  # hypothesis' own number: a test that names another one has the same part of it as those that name none
Value = TypeVar("Value")


def examples(count: int, **others: Any) -> settings:
    """Return settings with that many examples under the profile `thorough`, and the same part of them under another."""
    return settings(max_examples=max(1, count * settings.default.max_examples // FULL), **others)


def part(whole: Value, fewer: Value) -> Value:
    """Return the first value in `make test-heavy`, the second one in `make test`.

    A test that names it, or a constant of its module made by it, gets the mark `thorough` (tests/conftest.py).
    """
    return whole if settings.default.max_examples >= FULL else fewer


def sample(cases: Sequence[Value], count: int) -> list[Value]:
    """Return all cases in `make test-heavy`, in `make test` as many as that, always the same and in their order."""
    places = sorted(random.Random("cases").sample(range(len(cases)), count))
    return part(list(cases), [cases[place] for place in places])
