"""Success rates, suites' scores, mean returns, pass^k and pass@k are computed here with their confidence intervals.

Trials of one task are not independent, and neither are tasks of one cluster (one world, one document). Standard errors are
therefore clustered, with the C/(C-1) correction (Miller 2024, arXiv 2411.00640, appendix A), and the interval of a rate is
Wilson's at the effective sample size that such an error implies: it never shrinks to a point at 0/n or n/n.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.statistics.student import t_quantile

FLAT_VARIANCE = 1e-24  # squared standard errors below this are rounding noise around zero


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate in [0, 1] with its interval and the numbers of trials, tasks and clusters behind it."""

    value: float
    low: float
    high: float
    tasks: int
    trials: int
    clusters: int

    @property
    def share(self) -> str:
        """The rate in per cent with its interval: `62.0 % [55.1, 68.4]`."""
        return f"{100 * self.value:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}]"

    @property
    def percent(self) -> tuple[float, float, float]:
        """The rate and its interval in per cent, as numbers."""
        return 100 * self.value, 100 * self.low, 100 * self.high

    @property
    def basis(self) -> str:
        """The number of trials, and of clusters where those are fewer: `200 in 50 clusters`."""
        plural = "s" if self.clusters > 1 else ""
        return f"{self.trials} in {self.clusters} cluster{plural}" if self.clusters < self.trials else f"{self.trials}"

    def text(self) -> str:
        """Return share and basis: `62.0 % [55.1, 68.4] (n=200 in 50 clusters)`."""
        return f"{self.share} (n={self.basis})"


def success_rate(
    values: Sequence[float], tasks: Sequence[str], clusters: Sequence[str] | None = None, level: float = 0.95
) -> Rate:
    """Return the mean over tasks of the mean over trials, with an interval for new tasks of the same kind.

    There is one value in [0, 1] a trial, with its task and the cluster of that; None: every task is its own cluster.

    Raises:
        UsageError: nothing to average, lengths differ, a value is outside [0, 1], or a task lies in two clusters.
    """
    numbers, home = _by_task(values, tasks, level, clusters)
    means = np.bincount(home, weights=numbers) / np.bincount(home)
    return _rate(
        means, _cluster_of_task(home, tasks if clusters is None else clusters), level, len(numbers), len(numbers)
    )


def weighted_rate(rates: Sequence[Rate], weights: Sequence[float]) -> Rate:
    """Return the weighted mean of independent rates: a suite's score.

    The interval is MOVER's ("method of variance estimates recovery": Zou and Donner, Statistics in Medicine 27, 2008,
    1693-1702): each bound lies sqrt(sum w^2 d^2) from the value, d the distances of the rates' own bounds on that side.
    So it is a point only where every one of them is, and keeps their level. Weights are taken relative to their sum.

    Raises:
        UsageError: no rates, other numbers of weights and rates, or weights that are negative, infinite or all 0.
    """
    shares = _numbers(weights, rates=rates)
    if shares.min() < 0 or shares.sum() <= 0:
        raise UsageError("weighted_rate: weights are not negative, and not all 0")
    shares = shares / shares.max()
    shares /= shares.sum()
    values, lows, highs = (np.array([getattr(rate, name) for rate in rates]) for name in ("value", "low", "high"))
    value = min(max(float(shares @ values), 0.0), 1.0)
    low, high = value - math.hypot(*(shares * (values - lows))), value + math.hypot(*(shares * (highs - values)))
    counts = (sum(getattr(rate, name) for rate in rates) for name in ("tasks", "trials", "clusters"))
    return Rate(value, max(0.0, low), min(1.0, high), *counts)


def rerun_interval(values: Sequence[float], tasks: Sequence[str], level: float = 0.95) -> tuple[float, float]:
    """Return the interval of the rate on these very tasks, run again: noise of trials; UsageError for a task with one trial.

    Its squared error is the mean over tasks of (variance of the trials / trials) over the number of tasks; Wilson's
    interval at the effective sample size. It reaches at least 1 - (1 - level)^(1 / trials) to each side: that much may
    be wrong where no task's trials disagreed (the rule of three). A task with one trial is refused.
    """
    numbers, home = _by_task(values, tasks, level)
    trials = np.bincount(home)
    if trials.min() < 2:
        raise UsageError("rerun_interval: every task needs at least 2 trials")
    means = np.bincount(home, weights=numbers) / trials
    spread = np.bincount(home, weights=(numbers - means[home]) ** 2) / (trials - 1)
    variance = float((spread / trials).sum()) / len(trials) ** 2
    value = min(max(float(means.mean()), 0.0), 1.0)
    reach = 1 - (1 - level) ** (1 / len(numbers))
    low, high = value, value
    if variance > FLAT_VARIANCE and 0 < value < 1:
        low, high = _wilson(value, value * (1 - value) / variance, _two_sided(level, len(numbers) - len(trials) + 1))
    return max(0.0, min(low, value - reach)), min(1.0, max(high, value + reach))


def mean_interval(values: Sequence[float], clusters: Sequence[str], level: float = 0.95) -> tuple[float, float]:
    """Return the interval of the mean of unbounded values (clustered standard error, t quantile), without end for one cluster.

    One cluster says nothing about others: its interval is (-inf, inf).
    """
    numbers = _numbers(values, level, clusters=clusters)
    mean = float(numbers.mean())
    variance, count = clustered_variance(numbers, number_names(clusters))
    if count == 1:
        return -math.inf, math.inf
    half = _two_sided(level, count) * math.sqrt(variance)
    return mean - half, mean + half


def pass_rate(
    estimate: Callable[[int, int, int], float],
    values: Sequence[float],
    tasks: Sequence[str],
    k: int,
    clusters: Sequence[str] | None = None,
    level: float = 0.95,
) -> Rate:
    """Return pass^k or pass@k, the mean of `estimate` over tasks, with its interval; UsageError for values but 0 and 1."""
    numbers, home = _by_task(values, tasks, level, clusters)
    if not np.isin(numbers, (0.0, 1.0)).all():
        raise UsageError("pass^k and pass@k: every value is 1 (success) or 0")
    trials, wins = np.bincount(home).tolist(), np.bincount(home, weights=numbers).tolist()
    if not 1 <= k <= min(trials):
        raise UsageError(
            f"pass^k and pass@k: k={k}, but a task has {min(trials)} trials; 1 <= k <= trials of every task"
        )
    means = np.array([estimate(int(won), tried, k) for won, tried in zip(wins, trials, strict=True)])
    labels = _cluster_of_task(home, tasks if clusters is None else clusters)
    return _rate(means, labels, level, len(numbers), sum(tried // k for tried in trials))


def pass_hat_k(successes: int, trials: int, k: int) -> float:
    """Return the unbiased pass^k of a task, C(c, k) / C(n, k): that k new trials all succeed; UsageError where none can be."""
    if not 0 <= successes <= trials or not 1 <= k <= trials:
        raise UsageError(
            f"pass^k and pass@k: 0 <= successes <= trials and 1 <= k <= trials, not {successes}, {trials}, {k}"
        )
    return math.comb(successes, k) / math.comb(trials, k)


def pass_at_k(successes: int, trials: int, k: int) -> float:
    """Return the unbiased estimate of pass@k of one task, 1 - C(n - c, k) / C(n, k): that any of k trials succeeds."""
    return 1.0 - pass_hat_k(trials - successes, trials, k)


def clustered_variance(values: NDArray[np.float64], homes: NDArray[np.intp]) -> tuple[float, int]:
    """Return the squared standard error of the mean, and the number of clusters; `homes` are from `number_names`."""
    sums = np.bincount(homes, weights=values - values.mean())
    count = len(sums)
    return float((sums**2).sum()) / len(values) ** 2 * count / max(count - 1, 1), count


def number_names(names: Sequence[str]) -> NDArray[np.intp]:
    """Return names of clusters or tasks as numbers from 0, in the order of the names."""
    return np.unique(np.asarray(names, dtype=object).astype(str), return_inverse=True)[1]


def _numbers(values: Sequence[float], level: float = 0.95, **labels: Sequence[Any]) -> NDArray[np.float64]:
    """Return values as an array; UsageError unless finite, at least one, as many as each label, and level in (0, 1)."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not numbers.size:
        raise UsageError("statistics: give at least one value")
    if not np.isfinite(numbers).all():
        raise UsageError("statistics: every value is a finite number")
    for name, column in labels.items():
        if len(column) != len(numbers):
            raise UsageError(f"statistics: {len(numbers)} values and {len(column)} {name}")
    if not 0 < level < 1:
        raise UsageError(f"statistics: level lies in (0, 1), not {level}")
    return numbers


def _by_task(
    values: Sequence[float], tasks: Sequence[str], level: float, clusters: Sequence[str] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the numbers and each one's task as a number; UsageError outside [0, 1] or where lengths differ."""
    numbers = _numbers(values, level, tasks=tasks, clusters=tasks if clusters is None else clusters)
    if numbers.min() < 0 or numbers.max() > 1:
        raise UsageError("success_rate: every value lies in [0, 1]; mean_interval takes unbounded ones")
    return numbers, number_names(tasks)


def _cluster_of_task(task_of: NDArray[np.intp], clusters: Sequence[str]) -> list[str]:
    """Return the cluster of each task; UsageError where a task lies in two."""
    homes: dict[int, str] = {}
    for task, cluster in zip(task_of.tolist(), clusters, strict=True):
        if homes.setdefault(task, cluster) != cluster:
            raise UsageError(f"success_rate: a task lies in two clusters, {homes[task]!r} and {cluster!r}")
    return [homes[task] for task in range(len(homes))]


def _rate(means: NDArray[np.float64], clusters: Sequence[str], level: float, trials: int, most: int) -> Rate:
    """Return the rate over tasks with Wilson's interval, 0 to 1 for one cluster; `most` bounds its effective sample size."""
    value = min(max(float(means.mean()), 0.0), 1.0)
    variance, count = clustered_variance(means, number_names(clusters))
    low, high = 0.0, 1.0
    if count > 1:
        low, high = _wilson(value, _effective(value, variance, count, most), _two_sided(level, count))
    return Rate(value, low, high, len(means), trials, count)


def _effective(value: float, variance: float, clusters: int, most: int) -> float:
    """Return the independent trials that would give this standard error, 1 to `most`; the clusters where it is nearly 0."""
    if variance < FLAT_VARIANCE or value in (0.0, 1.0):
        return float(clusters)
    return min(max(value * (1 - value) / variance, 1.0), float(most))


def _wilson(value: float, n: float, z: float) -> tuple[float, float]:
    """Return Wilson's interval of a rate, within [0, 1] and never beyond the rate itself."""
    spread = z * z / n
    centre = (value + spread / 2) / (1 + spread)
    half = math.sqrt(value * (1 - value) * spread + spread**2 / 4) / (1 + spread)
    return max(0.0, min(value, centre - half)), min(1.0, max(value, centre + half))


def _two_sided(level: float, clusters: int) -> float:
    """Return the quantile of Student's t for a two-sided interval over clusters."""
    return t_quantile((1 + level) / 2, clusters - 1)
