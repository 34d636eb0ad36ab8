"""Counterfactual policy optimisation trains on what a forced routing action would have gained (arXiv 2510.07581).

Where a whole group of episodes failed, each of them is played again from a position of its own at which a routing action is
forced, and the difference in reward is the advantage of the new episode. Elsewhere it is GRPO. `rule` names whose details:

                        paper (section 2, D.2)                      released code
    a group failed      all rewards <= 0                            the sum of its rewards is 0
    weight of t'        pi(desc(g) | h_t), language model alone     max(pi(first token of desc), pi(g)), whole policy
    positions           language mode, g legal                      of those, before a vocabulary token; else the first
    drawn with          temperature 1, all positions                temperature 10, top-k 10, top-p 0.9
    std of advantages   "the standard deviation"                    unbiased, + 1e-6 (here for both)
    encouraged action   "select" (here: in turn)                    drawn by a moving average of what it gained
"""

import math
import random
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from agent_envs.base.errors import UsageError
from trainers.advantages import group_advantages
from trainers.batching import TrainRow
from trainers.contracts import Sampling, TokenSequence
from trainers.earl_parts.counterfactual.positions import Rule
from trainers.engines.decode import draw

DEFAULT_ENCOURAGEMENT = {"paper": "round_robin", "released": "average"}
DEFAULT_SAMPLING = {"paper": Sampling(1.0), "released": Sampling(10.0, 10, 0.9)}
STD_EPS = 1e-6
DECAY, START = 0.9, 1e-3  # of the released moving average of gains


@dataclass(frozen=True)
class CounterfactualSettings:
    """The settings of counterfactual episodes, which have a routing action forced.

    Attributes:
        rule: "paper", "released" (see `trainers.earl_parts.counterfactual.optimisation`), or "off".
        encourage: which routing action a step encourages: "fixed", "round_robin", "average" (one that gained more so far is
            drawn more often); empty for the rule's own: in turn with "paper", which leaves it open, "average" with "released".
        action: the name of the fixed one; empty for the first.
        train_forced: train the forced action as well, as the released code does.
    """

    rule: Rule = "off"
    encourage: Literal["", "fixed", "round_robin", "average"] = ""
    action: str = ""
    train_forced: bool = True

    def __post_init__(self) -> None:
        """Refuse, with a UsageError, an action that would be ignored."""
        if self.action and self.encourage not in ("", "fixed"):
            raise UsageError(
                f"counterfactual.action={self.action!r} has no meaning with counterfactual.encourage={self.encourage}"
            )

    @property
    def encouraging(self) -> str:
        """The rule by which the encouraged action is chosen."""
        return self.encourage or ("fixed" if self.action else DEFAULT_ENCOURAGEMENT.get(self.rule, "fixed"))

    @property
    def sampling(self) -> Sampling:
        """The sampling parameters of positions; UsageError where the rule is "off"."""
        _check_rule(self.rule)
        return DEFAULT_SAMPLING[self.rule]


def _check_rule(rule: str) -> None:
    """Raise UsageError unless the rule is `paper` or `released`."""
    if rule not in DEFAULT_SAMPLING:
        raise UsageError(f"rule={rule!r}: {' or '.join(DEFAULT_SAMPLING)}")


def has_failed(rewards: Sequence[float], rule: Rule) -> bool:
    """Return whether a group failed: no reward above 0 (`paper`), a sum of 0 (`released`), never (`off`); UsageError if empty.

    `paper`: no reward is above 0. `released`: their sum is 0, so a group of -1 and 1 failed, and one of -1 and -1 did not.
    With "off" no group does.

    Raises:
        UsageError: there is no such rule, or the group is empty.
    """
    if rule == "off":
        return False
    _check_rule(rule)
    if not rewards:
        raise UsageError("failed: a group without episodes neither failed nor succeeded")
    return max(rewards) <= 0 if rule == "paper" else math.fsum(rewards) == 0


def failed_groups(rewards: Sequence[float], groups: Sequence[Hashable], rule: Rule) -> set[Hashable]:
    """Return the names of the groups that failed, however their rows are laid out.

    The released code tests the rows of a group that happen to lie in one process, and so rewrites episodes of groups that
    succeeded elsewhere.

    Args:
        rewards: of all episodes of all groups.
        groups: the group of each.
        rule: see `has_failed`.
    """
    members: dict[Hashable, list[float]] = {}
    for name, reward in zip(groups, rewards, strict=True):
        members.setdefault(name, []).append(reward)
    return {name for name, group_rewards in members.items() if has_failed(group_rewards, rule)}


def draw_position(log_weights: Sequence[float], sampling: Sampling, uniform: float) -> int:
    """Return the number of a position, drawn with probability proportional to its weight ** (1 / temperature).

    The filters come after the temperature: top-k, then top-p of what that leaves.

    Args:
        log_weights: see `Positions`; not empty.
        sampling: temperature, top-k and top-p, see `CounterfactualSettings.sampling`.
        uniform: in [0, 1), see `uniform_of`.
    """
    weights = torch.tensor([log_weights], dtype=torch.float64)
    return int(draw(weights, torch.tensor([uniform], dtype=torch.float64), sampling).ids[0])


def uniform_of(key: str) -> float:
    """Return the uniform in [0, 1) that draws an episode's position: always the same for the same key."""
    return random.Random(f"counterfactual:{key}").random()


class RouteChoice:
    """The choice of the routing action that a step encourages: one for all its episodes."""

    def __init__(self, settings: CounterfactualSettings, actions: Sequence[str], seed: int) -> None:
        """Take the names of the routing actions (on a text face: of the tools), in their order, and the run's seed.

        Raises:
            UsageError: there is none, or not the one that the settings name.
        """
        self._actions = tuple(actions)
        if not self._actions or settings.action not in ("", *self._actions):
            raise UsageError(
                f"counterfactual.action={settings.action!r}: the routing actions are {', '.join(actions) or 'none'}"
            )
        self._kind, self._fixed, self._seed = settings.encouraging, settings.action or self._actions[0], seed
        self._averages = dict.fromkeys(self._actions, START)

    def choose(self, step: int) -> str:
        """Return the action of a step (from 0): fixed, in turn, or drawn by shares; the same for the same step and gains."""
        if self._kind == "fixed":
            return self._fixed
        if self._kind == "round_robin":
            return self._actions[step % len(self._actions)]
        target = random.Random(f"encouraged:{self._seed}:{step}").random()
        for name, share in self.shares().items():
            target -= share
            if target < 0:
                return name
        return self._actions[-1]

    def shares(self) -> dict[str, float]:
        """Return the sampling probability of each action: a softmax of averages scaled to a maximum of 1.

        Averages below their start count as the start, so that none is ever given up.
        """
        averages = {name: max(average, START) for name, average in self._averages.items()}
        weights = {name: math.exp(average / max(averages.values())) for name, average in averages.items()}
        return {name: weight / math.fsum(weights.values()) for name, weight in weights.items()}

    def learn(self, action: str, gain: float) -> None:
        """Take the mean of R' - R over all counterfactual episodes of a step, of all processes together."""
        self._averages[action] = DECAY * self._averages[action] + (1 - DECAY) * gain

    def state(self) -> dict[str, float]:
        """Return the state for a checkpoint, as plain JSON."""
        return dict(self._averages)

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on from a checkpoint's averages; UsageError where it was written with other routing actions.

        Raises:
            UsageError: it was written with other routing actions.
        """
        if sorted(state) != sorted(self._actions):
            raise UsageError(f"the checkpoint knows the routing actions {sorted(state)}, not {sorted(self._actions)}")
        self._averages = {name: float(state[name]) for name in self._actions}


@dataclass(frozen=True, slots=True)
class CounterfactualAdvantages:
    """The advantages of a step's episodes.

    Attributes:
        factual: one an episode; None where its group failed: it is dropped.
        counterfactual: by the number of the factual episode that was played again.
    """

    factual: tuple[float | None, ...]
    counterfactual: dict[int, float]


def counterfactual_advantages(
    rewards: Sequence[float], groups: Sequence[Hashable], counterfactual: Mapping[int, float], rule: Rule
) -> CounterfactualAdvantages:
    """Return D.2's advantages: R' - R of replays, group-relative of groups that did not fail, None of those that failed.

    The std is the unbiased one (n - 1), as in the released code; the paper does not say which. A group that did not fail
    and whose rewards are all equal has advantages of 0. Episodes of failed groups that were not played again (no position, or
    a fault) are dropped.

    Args:
        rewards: of all factual episodes, whole groups.
        groups: the group of each.
        counterfactual: R' by the number of the factual episode.
        rule: see `has_failed`.

    Raises:
        UsageError: an episode was played again though its group did not fail.
    """
    lost = failed_groups(rewards, groups, rule)
    for number in counterfactual:
        if groups[number] not in lost:
            raise UsageError(f"episode {number} was played again, but its group {groups[number]!r} did not fail")
    plain = group_advantages(torch.tensor(rewards, dtype=torch.float64), groups, eps=STD_EPS).tolist()
    factual = tuple(None if name in lost else float(value) for name, value in zip(groups, plain, strict=True))
    gains = {number: earned - rewards[number] for number, earned in counterfactual.items()}
    return CounterfactualAdvantages(factual, gains)


def row_of(sequence: TokenSequence, advantage: float) -> TrainRow:
    """Return a row with one advantage on every trained token, those of a shared prefix included."""
    return TrainRow(sequence, tuple(advantage if trained else 0.0 for trained in sequence.trained))
