"""Demonstrations with expanded actions err on purpose: flaws strike by chance, and some ways to sort are wasteful."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from agent_envs.base.errors import UsageError
from agent_envs.envs.expa.sorting.algorithms import Moves, able_sizes
from agent_envs.envs.expa.sorting.knowledge import Pair, closure, known_order, minimal_swaps

KINDS = ("early", "repeated", "sampled")
STRATEGIES = ("solver", "fixed_order", "mixture")


@dataclass(frozen=True)
class ExpandedFlaws:
    """Chances, and who plays where they do not strike. `early`, `repeated` and `sampled` sum to at most 1.

    Attributes:
        early: in every decision, the chance to end the episode as it stands.
        repeated: the call before once more; nothing before the first call.
        sampled: a random call: a tool that may be entered, random legal actions in it, followed to its exit.
        silent: in every episode, the chance that no tool is used: a guess is written at once, and the episode ends.
            A guess at Countdown is a random expression of the given numbers, each once.
        strategy: `solver`; for sorting also `fixed_order` and `mixture`.
        skip: of fixed_order, which compares AB, AC, AD, ..., BC, BD, ...: the chance that a comparison whose outcome is
            known is left out, each by itself.
        fewest_swaps: of fixed_order, in every episode: the chance of the fewest swaps; else neighbours are swapped.
        algorithms: of mixture: names of `agent_envs.envs.expa.sorting.algorithms.ALGORITHMS` and their weights, one drawn for
            every episode among those that are for the task's number of items.
    """

    early: float = 0.0
    repeated: float = 0.0
    sampled: float = 0.0
    silent: float = 0.0
    strategy: str = "solver"
    skip: float = 0.5
    fewest_swaps: float = 0.5
    algorithms: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        """Refuse, with a UsageError, chances out of their range and unknown names."""
        chances = {name: getattr(self, name) for name in (*KINDS, "silent", "skip", "fewest_swaps")}
        for name, chance in chances.items():
            if type(chance) not in (int, float) or not 0 <= chance <= 1:
                raise UsageError(f"ExpandedFlaws: {name}={chance!r}: give a chance from 0 to 1")
        if sum(chances[name] for name in KINDS) > 1 + 1e-9:
            raise UsageError(f"ExpandedFlaws: {', '.join(KINDS)} sum to at most 1")
        if self.strategy not in STRATEGIES:
            raise UsageError(f"ExpandedFlaws: strategy={self.strategy!r}: use {', '.join(STRATEGIES)}")
        if (self.strategy == "mixture") != bool(self.algorithms):
            raise UsageError("ExpandedFlaws: algorithms belong to strategy='mixture', which needs some")
        for name, weight in self.algorithms:
            able_sizes(name)
            if type(weight) not in (int, float) or not 0 < weight < float("inf"):
                raise UsageError(f"ExpandedFlaws: algorithms: {name} has weight {weight!r}; give a number above 0")

    def draw(self, rng: random.Random) -> str:
        """Return the flaw of a decision, "" for none."""
        left = rng.random()
        for kind in KINDS:
            left -= getattr(self, kind)
            if left < 0:
                return kind
        return ""


def expanded_flaws_of(text: str) -> ExpandedFlaws:
    """Return the flaws that a setting names: "none", or the fields of ExpandedFlaws as a JSON object.

    Raises:
        UsageError: it is none.
    """
    try:
        fields = {} if text == "none" else json.loads(text)
        if isinstance(fields.get("algorithms"), dict):
            fields["algorithms"] = tuple(fields["algorithms"].items())
        return ExpandedFlaws(**fields)
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"flaws={text!r}: none, or a JSON object of the fields of ExpandedFlaws: {error}") from None


def fixed_order(n: int, rng: random.Random, skip: float, fewest_swaps: float) -> Moves:
    """Compare the pairs in their order, known outcomes left out by chance, then swap: by chance few times, else neighbours."""
    thrifty = rng.random() < fewest_swaps
    known: set[Pair] = set()
    for one, other in combinations(range(n), 2):
        if {(one, other), (other, one)} & closure(known) and rng.random() < skip:
            continue
        known.add((one, other) if (yield "compare", one, other) else (other, one))
    target = known_order(n, known)
    for one, other in minimal_swaps(tuple(range(n)), target) if thrifty else neighbour_swaps(target):
        yield "swap", one, other


def neighbour_swaps(target: tuple[int, ...]) -> Iterator[Pair]:
    """Yield the swaps of neighbours by which bubble sort gets from the order 0..n-1 to another one."""
    order = list(range(len(target)))
    for end in range(len(order) - 1, 0, -1):
        for place in range(end):
            one, other = order[place : place + 2]
            if target.index(one) > target.index(other):
                yield one, other
                order[place : place + 2] = other, one
