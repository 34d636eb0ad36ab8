"""Rewards are declared under a name, as sums of bounded terms over typed turns.

A term reads the trajectory up to its newest turn and gives that step's share. Text counts only where the policy wrote it
(`turn.action`, `turn.parsed`); tools count through `turn.results`; observation text is never matched.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from agent_envs.base.serialization import digest
from agent_envs.core.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Term:
    """One named part of a step's reward, in [low, high]."""

    name: str
    low: float
    high: float
    doc: str
    value: Callable[[Trajectory], float]


@dataclass(slots=True)  # read once and not kept, as `Outcome`
class Reward:
    """A step's reward: the total is the sum of the terms."""

    total: float
    terms: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class RewardSpec:
    """A reward under a name. `episode` bounds the return of a whole episode."""

    name: str
    terms: tuple[Term, ...]
    episode: tuple[float, float]

    def __call__(self, trajectory: Trajectory) -> Reward:
        """Return the reward of the newest turn."""
        total = 0.0
        values = []
        for term in self.terms:
            value = float(term.value(trajectory))
            if not term.low <= value <= term.high:
                raise AssertionError(f"reward term {term.name} gave {value}, outside [{term.low}, {term.high}]")
            values.append((term.name, value))
            total += value
        return Reward(total, tuple(values))

    @property
    def low(self) -> float:
        """The least reward of a step."""
        return _added(term.low for term in self.terms)

    @property
    def high(self) -> float:
        """The greatest reward of a step."""
        return _added(term.high for term in self.terms)

    def describe(self) -> dict[str, Any]:
        """Return the declaration as plain data."""
        rows = [{"name": term.name, "low": term.low, "high": term.high, "doc": term.doc} for term in self.terms]
        return {"name": self.name, "terms": rows, "step": [self.low, self.high], "episode": list(self.episode)}

    @property
    def digest(self) -> str:
        """sha256 of the declaration."""
        return digest(self.describe())


def _added(values: Iterable[float]) -> float:
    """Add from left to right: `sum` rounds otherwise from Python 3.12 on, and digests of declarations would differ."""
    return reduce(add, values, 0)
