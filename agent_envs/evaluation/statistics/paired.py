"""Two agents are compared on the same tasks: difference, interval, test, correction for many tests, detectable difference.

Each task gives one difference, the second agent's mean over its trials minus the first's, so what makes tasks hard for both
cancels. From 30 clusters on the test is the paired t test over clusters; with fewer, and wherever fewer clusters differ from
the rest than could make any sign test significant, clusters' signs are flipped instead (Fisher's randomisation test).
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.statistics.rates import clustered_variance, number_names, success_rate
from agent_envs.evaluation.statistics.student import t_quantile, t_tail

FEW_CLUSTERS = 30  # below it the t test leans on normality that outcomes of 0 and 1 do not have
EXACT_SIGNS = 14  # all 2^14 flips are tried; above, FLIPS of them, drawn once
FLIPS = 20_000
CHUNK = 1_000  # flips at a time: memory
POWER = 0.8
NAMED_TASKS = 3


@dataclass(frozen=True, slots=True)
class Paired:
    """The second agent minus the first, on the same tasks."""

    difference: float  # mean over tasks of the difference between task means
    low: float
    high: float
    p_value: float  # two-sided, for "no difference"; never 0
    method: str  # the test, in words
    tasks: int
    clusters: int
    detectable: float  # the smallest true difference that it finds with 80 % power, by the spread seen here; 1.0: none


def compare_paired(
    first: Mapping[str, Sequence[float]],
    second: Mapping[str, Sequence[float]],
    clusters: Mapping[str, str] | None = None,
    level: float = 0.95,
) -> Paired:
    """Compare two agents on the same tasks; of each, task -> one number in [0, 1] a trial. Without clusters a task is its own.

    The interval is that of `paired_interval`; where it widens, as clusters are alike, `detectable` is at least `_win_share`'s.
    The test of `detectable` is at 1 - level.

    Raises:
        UsageError: no tasks, other tasks, a task without trials or cluster, or a value outside [0, 1].
    """
    if not 0 < level < 1:
        raise UsageError(f"compare_paired: level lies in (0, 1), not {level}")
    tasks = _common_tasks(first, second, clusters)
    differences = _means(second, tasks) - _means(first, tasks)
    homes = number_names([task if clusters is None else clusters[task] for task in tasks])
    difference, low, high = paired_interval(differences, homes, level)
    error, sums, few = _spread(differences, homes, level)
    count = len(sums)
    critical = t_quantile((1 + level) / 2, max(count - 1, 1))
    if few or count < FEW_CLUSTERS:
        p_value, method, flipped = sign_flips(sums, 1 - level)
        critical = critical if few else flipped
    else:
        tail = t_tail(abs(difference) / error, count - 1)
        p_value, method = min(max(2 * tail, math.ulp(0.0)), 1.0), "paired t"
    unit = "tasks" if clusters is None or count == len(tasks) else "clusters of tasks"
    return Paired(
        difference, low, high, p_value, f"{method} over {count} {unit}", len(tasks), count,
        _detectable_difference(error, critical, count, _fewest_signs(level), few),
    )  # fmt: skip


def paired_interval(
    differences: NDArray[np.float64], homes: NDArray[np.intp], level: float = 0.95
) -> tuple[float, float, float]:
    """Return the mean of differences, one a task, and its clustered t interval in [-1, 1]; `homes` are from `number_names`.

    Where (nearly) all clusters show one difference d, their spread is (nearly) 0 and says too little about clusters that were
    not drawn: with C clusters, up to q = 1 - (1 - level)^(1/C) of all clusters (the rule of three: 3/C) may differ from what
    every one of these shows, by anything up to -1 or 1. The interval then also covers (1 - q) d - q to (1 - q) d + q.
    "Nearly": fewer clusters depart from d than could make a sign test significant, 6 at the level 0.95.
    """
    difference = float(differences.mean())
    error, sums, few = _spread(differences, homes, level)
    half = t_quantile((1 + level) / 2, len(sums) - 1) * error if len(sums) > 1 else 2.0
    low, high = difference - half, difference + half
    if few:
        unseen = 1 - (1 - level) ** (1 / len(sums))
        low = min(low, (1 - unseen) * difference - unseen)
        high = max(high, (1 - unseen) * difference + unseen)
    return difference, max(-1.0, low), min(1.0, high)


def p_text(p: float) -> str:
    """Return a p value as it is shown; none is 0."""
    return f"{p:.4f}" if p >= 0.00005 else "< 0.0001"


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted for testing all of them, in their order (Holm 1979, step-down); UsageError outside [0, 1]."""
    if not all(0 <= p <= 1 for p in p_values):
        raise UsageError("holm: every p value lies in [0, 1]")
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def minimum_detectable(
    values: Sequence[float], tasks: Sequence[str], clusters: Sequence[str] | None = None, level: float = 0.95
) -> float:
    """Return the least detectable difference to another agent at 80 % power, by this one's spread; 1.0 where there is none.

    A plan from one run: the other agent is taken to vary between tasks as this one does, and the task means of the two not to
    correlate, which is cautious, as tasks that are hard for one agent are mostly hard for others; the paired comparison
    itself, with both runs at hand, uses what it sees. 1.0 where no difference could be found.
    `values`, `tasks` and `clusters` are those of `success_rate`; the test is at 1 - level.
    """
    labels = tasks if clusters is None else clusters
    success_rate(values, tasks, labels, level)
    table: dict[str, list[float]] = {}
    home_of: dict[str, str] = {}
    for value, task, cluster in zip(values, tasks, labels, strict=True):
        table.setdefault(task, []).append(value)
        home_of[task] = cluster
    names = sorted(table)
    homes = number_names([home_of[name] for name in names])
    error, sums, few = _spread(_means(table, names), homes, level)
    count = len(sums)
    critical = t_quantile((1 + level) / 2, max(count - 1, 1))
    return _detectable_difference(math.sqrt(2) * error, critical, count, _fewest_signs(level), few)


def _common_tasks(
    first: Mapping[str, Sequence[float]], second: Mapping[str, Sequence[float]], clusters: Mapping[str, str] | None
) -> list[str]:
    """Return the sorted tasks of two agents; UsageError where one lacks a task, there is none, or one has no cluster."""
    if first.keys() != second.keys():
        odd = sorted(first.keys() ^ second.keys())
        more = f" and {len(odd) - NAMED_TASKS} more" if len(odd) > NAMED_TASKS else ""
        raise UsageError(f"compare_paired: only one agent has {', '.join(map(repr, odd[:NAMED_TASKS]))}{more}")
    if not first:
        raise UsageError("compare_paired: no tasks")
    homeless = [] if clusters is None else sorted(first.keys() - clusters.keys())
    if homeless:
        raise UsageError(f"compare_paired: no cluster for {', '.join(map(repr, homeless[:NAMED_TASKS]))}")
    return sorted(first)


def _means(table: Mapping[str, Sequence[float]], tasks: Sequence[str]) -> NDArray[np.float64]:
    """Return each task's mean; UsageError for a task without trials or with values outside [0, 1]."""
    for task in tasks:
        if not len(table[task]) or not all(0 <= value <= 1 for value in table[task]):
            raise UsageError(f"compare_paired: every task has trials, with values in [0, 1]; not {task!r}")
    return np.array([math.fsum(table[task]) / len(table[task]) for task in tasks])


def _spread(
    values: NDArray[np.float64], homes: NDArray[np.intp], level: float
) -> tuple[float, NDArray[np.float64], bool]:
    """Return the clustered standard error of the mean, the clusters' sums, and whether (nearly) all show one mean."""
    sums = np.asarray(np.bincount(homes, weights=values), dtype=np.float64)
    error = math.sqrt(clustered_variance(values, homes)[0])
    means = (sums / np.bincount(homes)).round(9)
    others = len(means) - int(np.unique(means, return_counts=True)[1].max())  # than the commonest
    return error, sums, others < _fewest_signs(level)


def _fewest_signs(level: float) -> int:
    """Return the number of differences of one sign from which a two-sided sign test is significant."""
    return math.ceil(math.log2(2 / (1 - level)))


def sign_flips(sums: NDArray[np.float64], alpha: float) -> tuple[float, str, float]:
    """Flip clusters' signs: the p value of their sum, the method, and the test's critical value in standard errors.

    The critical value is the one that a t test of the same power would have. With r the flips' own critical sum (half a step
    below the first significant one: the continuity correction) over its root mean square sqrt(sum s^2), which holds the mean
    as well as the spread, it is r / sqrt(1 - r^2 / C): larger than t's quantile, as sums of few outcomes are tied. It is
    infinite where no flip can be significant.
    """
    moving = sums[np.abs(sums) > 1e-9]
    statistic, monte_carlo = abs(float(moving.sum())) * (1 - 1e-9) - 1e-9, len(moving) > EXACT_SIGNS
    totals = np.sort(_flipped_sums(moving))
    hits = len(totals) - int(np.searchsorted(totals, statistic))
    p_value = (monte_carlo + hits) / (monte_carlo + len(totals))
    allowed = math.floor(alpha * (monte_carlo + len(totals))) - monte_carlo
    short = float(totals[len(totals) - allowed - 1])
    above = totals[np.searchsorted(totals, short + 1e-9) :]
    ratio = ((short + float(above[0])) / 2) ** 2 / float((moving**2).sum()) if len(above) else math.inf
    critical = math.sqrt(ratio / (1 - ratio / len(sums))) if ratio < len(sums) else math.inf
    return p_value, f"sign flips, {FLIPS:,} drawn," if monte_carlo else "sign flips, exact,", critical


def _flipped_sums(values: NDArray[np.float64]) -> NDArray[Any]:
    """Return the distances from 0 of the values' sums under every flip of signs; of over 14, under 20,000 drawn flips."""
    count = len(values)
    if count <= EXACT_SIGNS:
        return np.abs(np.where(np.arange(2**count)[:, None] >> np.arange(count) & 1, -1.0, 1.0) @ values)
    generator, parts = random.Random(f"sign flips of {count} clusters"), []
    for _ in range(FLIPS // CHUNK):
        bits = np.frombuffer(generator.randbytes(CHUNK * count), dtype=np.uint8).reshape(CHUNK, count)
        parts.append(np.abs(np.where(bits & 1, -1.0, 1.0) @ values))
    return np.concatenate(parts)


def _detectable_difference(error: float, critical: float, clusters: int, needed: int, few: bool) -> float:
    """Return (critical value + t_0.8) times the standard error, from a floor if `few` to 1; 1.0 where no test finds any."""
    if clusters < needed or math.isinf(critical):
        return 1.0
    usual = (critical + t_quantile(POWER, clusters - 1)) * error
    return min(1.0, max(usual, _win_share(clusters, needed) if few else 0.0))


@lru_cache(maxsize=256)
def _win_share(clusters: int, needed: int) -> float:
    """Return the share of clusters won outright at which `needed` or more are won with 80 % power; cached.

    It stands in for the spread where two runs hardly differ: such a difference is the smallest of that kind that the sign
    test would find.
    """
    low, high = 0.0, 1.0
    for _ in range(50):
        share = (low + high) / 2
        missed = math.fsum(math.comb(clusters, n) * share**n * (1 - share) ** (clusters - n) for n in range(needed))
        low, high = (share, high) if 1 - missed < POWER else (low, share)
    return high
