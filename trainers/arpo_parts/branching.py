"""Rules say where a rollout branches: by the entropy after a tool's result (ARPO), by chance, or by hindsight.

ARPO (arXiv 2507.19849, section 3.1) forks after a tool's result. A result ends a turn here, so that is the beginning of the
next one: a path plays that turn to its end, the first k of its entropies decide, and forks start from what was before it
(`growing`). docs/arpo.md compares the rules of the paper and of the released code.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from agent_envs.base.errors import UsageError
from agent_envs.core.trajectory import Turn

ONLINE, AFTERWARDS = ("off", "random", "paper", "released", "early"), ("late", "top", "value")


@dataclass(frozen=True)
class BranchingSettings:
    """Where rollouts branch.

    Attributes:
        rule: `released` forks with chance clip(chance + weight * dH, 0, 1), `paper` where alpha + beta * dH > tau. Controls:
            `off` (whole rollouts: GRPO), `random` (the chance whatever the entropy), `early` and `late` (at the first, at the
            last result of a path), `top` (the half of a task's nodes with the highest dH), `value` (where extra rollouts
            differ most in reward: nobody who chooses places could do better), or `callable:MODULE:F`, a chance from a `Node`.
        roots: whole rollouts that a task begins with (N).
        beam: paths that leave a node at most (Z), the one that came to it among them.
        chance: p0 of `released`, and of `random`.
        weight: w of `released`.
        alpha: of `paper`.
        beta: of `paper`.
        tau: of `paper`; None measures the median of dH over 64 episodes of the start, and writes it into settings.json.
        tokens: k, the first sampled tokens of a turn, whose entropies count.
        normalise: their mean over V (as printed), their sum over ln V (as released), or their mean over ln V ("k ln V", from 0
            to 1); "auto" is "k ln V" for `paper`, and "ln V" for all else.
        window: the turn after the result, or (as released) the one that ended in the call.
        after: nodes are turns after a tool's result, or after any observation, for environments without tools.
        probes: rollouts from each node that `value` looks at; they are no data, and their calls are counted apart.
    """

    rule: str = "released"
    roots: int = 8
    beam: int = 2
    chance: float = 0.5
    weight: float = 0.2
    alpha: float = 0.0
    beta: float = 1.0
    tau: float | None = None
    tokens: int = 20
    normalise: Literal["auto", "V", "ln V", "k ln V"] = "auto"
    window: Literal["post_tool", "pre_tool"] = "post_tool"
    after: Literal["tool", "turn"] = "tool"
    probes: int = 8

    def __post_init__(self) -> None:
        """Refuse what no rule can decide by, with a UsageError."""
        if self.rule not in (*ONLINE, *AFTERWARDS) and not self.rule.startswith("callable:"):
            known = ", ".join((*ONLINE, *AFTERWARDS, "callable:MODULE:F"))
            raise UsageError(f"branching.rule={self.rule!r}: one of {known}")
        if min(self.roots, self.tokens, self.beam - 1, self.probes - 1) < 1:
            raise UsageError("branching.roots and tokens are >= 1, beam and probes >= 2")
        numbers = (self.weight, self.alpha, self.beta, self.tau or 0.0)
        if not 0 <= self.chance <= 1 or not all(map(math.isfinite, numbers)):
            raise UsageError("branching.chance is from 0 to 1; weight, alpha, beta and tau are finite numbers")
        if self.rule.startswith("callable:"):
            _function(self.rule)

    def summary(self, turn: Turn, vocabulary: int) -> float | None:
        """Return the entropy of a turn's first k sampled tokens, normalised; None where none was sampled."""
        kept = turn.sampled or (True,) * len(turn.entropies)
        values = [value for value, sampled in zip(turn.entropies, kept, strict=True) if sampled][: self.tokens]
        if not values:
            return None
        norm = self.normalise if self.normalise != "auto" else "k ln V" if self.rule == "paper" else "ln V"
        if norm == "V":
            return statistics.fmean(values) / vocabulary
        return (math.fsum(values) if norm == "ln V" else statistics.fmean(values)) / math.log(vocabulary)


@dataclass(frozen=True)
class Node:
    """A place where a path may fork: before the turn `turn` of the conversation `origin`.

    Attributes:
        number: which of its path's nodes it is, from 1.
        tool: whose result came before it.
        entropy: normalised, of the turn that decides.
        baseline: that of the root's first turn.
        left: leaves that the task may still have.
    """

    origin: str
    turn: int
    number: int
    tool: str
    entropy: float
    baseline: float
    left: int

    @property
    def delta(self) -> float:
        """How much surer (below 0) or less sure the policy is than at its first tokens."""
        return self.entropy - self.baseline


def tool_before(turn: Turn, after: str) -> str | None:
    """Return whose result a turn ended with, "" where nodes are all turns; None where the next turn is no node."""
    names = [row.name for row in turn.results if row.call_id]
    return names[-1] if names else "" if after == "turn" else None


def numbers_of(turns: Sequence[Turn], settings: BranchingSettings, vocabulary: int) -> tuple[str, float, float] | None:
    """Return tool, entropy and baseline where the last of a path's turns is a node; None too where the context had no room."""
    tool, decides = tool_before(turns[-2], settings.after), turns[-1 if settings.window == "post_tool" else -2]
    entropy, baseline = (settings.summary(turn, vocabulary) for turn in (decides, turns[0]))
    return None if tool is None or entropy is None or baseline is None else (tool, entropy, baseline)


def deltas(turns: Sequence[Turn], settings: BranchingSettings, vocabulary: int) -> list[float]:
    """Return dH at every node of a whole rollout."""
    found = (numbers_of(turns[:count], settings, vocabulary) for count in range(2, len(turns) + 1))
    return [numbers[1] - numbers[2] for numbers in found if numbers is not None]


def chance_of(node: Node, settings: BranchingSettings) -> float:
    """Return the chance of a fork; 0 for rules that choose among the nodes of whole rollouts."""
    if settings.rule == "random":
        return settings.chance
    if settings.rule == "early":
        return float(node.number == 1)
    if settings.rule == "released":
        return min(1.0, max(0.0, settings.chance + settings.weight * node.delta))
    if settings.rule == "paper":
        if settings.tau is None:
            raise UsageError("branching.tau: rule='paper' compares with a number; the paper gives none")
        return float(settings.alpha + settings.beta * node.delta > settings.tau)
    if settings.rule.startswith("callable:"):
        chance = float(_function(settings.rule)(node))
        if not 0 <= chance <= 1:
            raise UsageError(f"{settings.rule}: a chance is from 0 to 1, not {chance}")
        return chance
    return 0.0


def _function(rule: str) -> Callable[[Node], float]:
    _, module, name = f"{rule}::".split(":")[:3]
    try:
        found: Callable[[Node], float] = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"branching.rule={rule!r}: give callable:MODULE:FUNCTION ({error})") from None
    return found
