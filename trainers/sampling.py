"""Groups of episodes that start alike are planned and played for a trainer, onto trajectory trees.

The record of truth is the tree; from it a player rebuilds the very tokens that the model saw, and `Group.drift` counts where
it could not.
"""

import contextlib
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import gymnasium as gym

from agent_envs.base.errors import AgentEnvsError
from agent_envs.base.jsonl_log import Journal
from agent_envs.core.registry import full_id, spec_json
from agent_envs.core.trajectory import Trajectory, TrajectoryTree
from agent_envs.rollout.episode_runner import EpisodeResult
from agent_envs.rollout.policy import origin_of
from agent_envs.rollout.run_log import Planned
from agent_envs.services.run_services import Services
from trainers.contracts import TokenSequence
from trainers.stacks import WrapperRow, wrapped
from trainers.tokens import drift as drifted

NOTHING = TokenSequence((), (), (), ())
Play = Callable[[Sequence[Planned]], dict[str, EpisodeResult]]


@dataclass(frozen=True)
class Group:
    """Episodes that started alike: one tree, its trajectories in the order of their rollout index.

    Attributes:
        tree: all turns.
        results: of the episodes that were played to their end; faults are left out.
        sequences: the tokens of each result, without what follows the last sampled token.
        drift: tokens that the record could not rebuild exactly; 0, or there is a bug.
        faults: episodes that an outside fault ended: they have no reward.
        weights: of the results, where they are leaves of a tree that branches; empty where all count alike.
    """

    tree: TrajectoryTree
    results: tuple[EpisodeResult, ...]
    sequences: tuple[tuple[TokenSequence, ...], ...]
    drift: int
    faults: int
    weights: tuple[float, ...] = ()

    @property
    def turns(self) -> int:
        """Turns of all its episodes."""
        return sum(len(result.trajectory.turns) for result in self.results)


def environment_spec(name: str, arguments: Mapping[str, Any], wrappers: Sequence[WrapperRow] = ()) -> str:
    """Return the spec of an environment with its wrappers as JSON, as `run_many` takes it.

    Raises:
        UsageError: an argument cannot travel, or there is no such wrapper.
    """
    return spec_json(wrapped(gym.make(full_id(name), **arguments), wrappers))


def tasks_of_step(step: int, count: int, size: int, seed: int) -> list[int]:
    """Return the task indices of a step (from 0): every task once before any comes again, in an order that the seed sets."""
    return tasks_at(range(step * count, (step + 1) * count), size, seed)


def tasks_at(places: range, size: int, seed: int) -> list[int]:
    """Return the task indices at places of that order, which begins anew, as another one, where all have come."""
    return [_order(size, seed, place // size)[place % size] for place in places]


@lru_cache(maxsize=2)
def _order(size: int, seed: int, epoch: int) -> list[int]:
    return random.Random(f"tasks:{seed}:{epoch}").sample(range(size), size)


def plan_groups(spec: str, split: str, tasks: Sequence[int], group_size: int, key: str) -> list[Planned]:
    """Return the plan of groups that start identically: same task, same environment seed, sampling keyed by rollout."""
    return [
        Planned(f"{key}/{place}.{task}/{rollout}", spec, task, split, seed=task, trial=rollout)
        for place, task in enumerate(tasks)
        for rollout in range(group_size)
    ]


class Player(Protocol):
    """Plays episodes and keeps them as tokens: what an `EnginePolicy` is to text, and `expanded.ExpandedPlayer` to ExpA ids.

    Attributes:
        batch: how many episodes it plays at a time.
        sampled_tokens: drawn so far, over all episodes.
        edited: turns whose text the environment recorded otherwise than it was sampled.
        services: what stands before the outside services of the environments that it plays.
    """

    services: Services
    batch: int
    sampled_tokens: int
    edited: int

    def play(self, plan: Sequence[Planned]) -> dict[str, EpisodeResult]:
        """Return the results of a plan by key: all of them, faults among them.

        Raises:
            BudgetSpent: nothing may be paid any more for the others.
        """
        ...

    def sequences(self, episode_key: str) -> list[TokenSequence]:
        """Return the tokens of an episode as they were sampled."""
        ...

    def rebuilt(self, trajectory: Trajectory) -> list[TokenSequence]:
        """Return the same tokens made from the record alone."""
        ...

    def demonstrated(
        self, trajectory: Trajectory, spec: str, tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[TokenSequence]:
        """Return the tokens of an episode that somebody else played in the environment of a spec, shown these tools."""
        ...

    def forget(self) -> None:
        """Drop everything that is kept of episodes."""
        ...


def play_groups(
    plan: Sequence[Planned], policy: Player, *, keep: bool = False, play: Play | None = None
) -> list[Group]:
    """Play a plan of groups and return them in its order; the policy has forgotten everything afterwards, unless it is to keep.

    Args:
        plan: of groups, as `plan_groups` makes it.
        policy: who plays, and knows the tokens.
        keep: whether it forgets nothing.
        play: how the policy plays the plan; None for `policy.play`.

    Raises:
        BudgetSpent: nothing may be paid any more for the others: a part of a plan is none to learn from.
        AgentEnvsError: every episode ended in a fault: there is nothing to learn from.
    """
    results = (play or policy.play)(plan)
    keys: dict[str, list[str]] = {}
    for item in plan:
        keys.setdefault(item.key.rpartition("/")[0], []).append(item.key)
    groups = [group_of([results[key] for key in members], policy) for members in keys.values()]
    if not keep:
        policy.forget()
    if not any(group.results for group in groups):
        raise AgentEnvsError(f"all {len(plan)} episodes ended in a fault, the first: {results[plan[0].key].fault}")
    return [group for group in groups if group.results]


def group_of(results: Sequence[EpisodeResult], policy: Player) -> Group:
    """Return episodes that started alike, with their tokens; those that an outside fault ended are counted and left out."""
    played = tuple(result for result in results if result.status in ("terminated", "truncated"))
    if not played:
        return Group(TrajectoryTree(results[0].trajectory.header, ()), (), (), 0, len(results))
    tree = TrajectoryTree(played[0].trajectory.header, played[0].trajectory.prompt)
    sequences, drift = [], 0
    for result in played:
        tree.add(result.trajectory)
        rebuilt = [trimmed(sequence) for sequence in policy.rebuilt(result.trajectory)]
        header = result.trajectory.header
        origin = origin_of(header.episode_key, header.branch)
        sampled = [trimmed(sequence) for sequence in policy.sequences(origin)]
        drift += sum(drifted(*pair) for pair in itertools.zip_longest(sampled, rebuilt, fillvalue=NOTHING))
        sequences.append(tuple(sequence for sequence in sampled if any(sequence.trained)))
    return Group(tree, played, tuple(sequences), drift, len(results) - len(played))


def keep_episodes(groups: Sequence[Group], step: int, path: Path) -> None:
    """Add the episodes of a step to a file, with their tokens."""
    with contextlib.closing(Journal(path)) as journal:
        for group in groups:
            for result in group.results:
                journal.append({"step": step, "trajectory": result.trajectory.to_json()})


def trimmed(sequence: TokenSequence) -> TokenSequence:
    """Return a sequence up to its last trained token: nothing after it can matter to a causal model."""
    length = max((place + 1 for place, kept in enumerate(sequence.trained) if kept), default=0)
    parts = (getattr(sequence, field.name) for field in fields(sequence))
    return TokenSequence(*(part[:length] for part in parts))
