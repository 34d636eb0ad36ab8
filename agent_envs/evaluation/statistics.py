"""Numbers with intervals: success rates, mean returns, pass^k and pass@k.

Trials of one task are not independent, and neither are tasks of one cluster (one world, one document). Standard errors are
therefore clustered, with the C/(C-1) correction (Miller 2024, arXiv 2411.00640, appendix A), and the interval of a rate is
Wilson's at the effective sample size that such an error implies: it never shrinks to a point at 0/n or n/n.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent_envs.errors import UsageError

FLAT_VARIANCE = 1e-24  # squared standard errors below this are rounding noise around zero
LARGE_DF = 100_000


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate in [0, 1] with its interval, and what it rests on."""

    value: float
    low: float
    high: float
    tasks: int
    trials: int
    clusters: int

    def text(self) -> str:
        """Return the rate in per cent, its interval, the number of trials, and of clusters where those are fewer.

        For example `62.0 % [55.1, 68.4] (n=200 in 50 clusters)`.
        """
        within = f" in {self.clusters} clusters" if self.clusters < self.trials else ""
        return f"{100 * self.value:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}] (n={self.trials}{within})"


def success_rate(
    values: Sequence[float], tasks: Sequence[str], clusters: Sequence[str] | None = None, level: float = 0.95
) -> Rate:
    """Return the mean over tasks of the mean over trials, with an interval for new tasks of the same kind.

    Args:
        values: one number in [0, 1] a trial.
        tasks: the task of each trial.
        clusters: the cluster of each trial; None: every task is its own.
        level: the nominal coverage.

    Raises:
        UsageError: nothing to average, lengths differ, a value is outside [0, 1], or a task lies in two clusters.
    """
    numbers = _numbers(values, level, tasks=tasks, clusters=tasks if clusters is None else clusters)
    if numbers.min() < 0 or numbers.max() > 1:
        raise UsageError("success_rate: every value lies in [0, 1]; mean_interval takes unbounded ones")
    _, task_of = np.unique(np.asarray(tasks, dtype=object).astype(str), return_inverse=True)
    means = np.bincount(task_of, weights=numbers) / np.bincount(task_of)
    homes: dict[int, str] = {}
    for task, cluster in zip(task_of.tolist(), tasks if clusters is None else clusters, strict=True):
        if homes.setdefault(task, cluster) != cluster:
            raise UsageError(f"success_rate: a task lies in two clusters, {homes[task]!r} and {cluster!r}")
    value = min(max(float(means.mean()), 0.0), 1.0)
    variance, count = _clustered_variance(means, [homes[task] for task in range(len(means))])
    low, high = 0.0, 1.0
    if count > 1:
        low, high = _wilson(value, _effective(value, variance, count, len(numbers)), _two_sided(level, count))
    return Rate(value, low, high, len(means), len(numbers), count)


def mean_interval(values: Sequence[float], clusters: Sequence[str], level: float = 0.95) -> tuple[float, float]:
    """Return the interval of the mean of unbounded values: clustered standard error, t quantile.

    One cluster says nothing about others: its interval is (-inf, inf).

    Raises:
        UsageError: nothing to average, or lengths differ.
    """
    numbers = _numbers(values, level, clusters=clusters)
    mean = float(numbers.mean())
    variance, count = _clustered_variance(numbers, clusters)
    if count == 1:
        return -math.inf, math.inf
    half = _two_sided(level, count) * math.sqrt(variance)
    return mean - half, mean + half


def pass_hat_k(successes: int, trials: int, k: int) -> float:
    """Return the unbiased estimate of pass^k of one task, C(c, k) / C(n, k): the chance that k new trials all succeed.

    Average it over tasks, or pass it to `success_rate` as one value a task.

    Raises:
        UsageError: more successes than trials, or k outside 1..trials.
    """
    _check_counts(successes, trials, k)
    return math.comb(successes, k) / math.comb(trials, k)


def pass_at_k(successes: int, trials: int, k: int) -> float:
    """Return the unbiased estimate of pass@k of one task, 1 - C(n - c, k) / C(n, k): that any of k trials succeeds.

    Raises:
        UsageError: more successes than trials, or k outside 1..trials.
    """
    _check_counts(successes, trials, k)
    return 1.0 - math.comb(trials - successes, k) / math.comb(trials, k)


@lru_cache(maxsize=256)
def t_quantile(p: float, df: float) -> float:
    """Return the p-quantile of Student's t with `df` degrees of freedom.

    Raises:
        UsageError: p outside (0, 1), or df not positive.
    """
    if not 0 < p < 1 or not df > 0:
        raise UsageError(f"t_quantile: p in (0, 1) and df > 0, not p={p}, df={df}")
    if p == 0.5:
        return 0.0
    if df > LARGE_DF:
        z = NormalDist().inv_cdf(p)
        return z + (z**3 + z) / (4 * df)  # Fisher and Cornish's first term; the second is below 1e-9 here
    tail = min(p, 1 - p)
    low, high = 0.0, 1.0
    while _upper_tail(high, df) > tail:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _upper_tail(middle, df) > tail:
            low = middle
        else:
            high = middle
    return math.copysign((low + high) / 2, p - 0.5)


def _numbers(values: Sequence[float], level: float, **labels: Sequence[str]) -> NDArray[np.float64]:
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


def _clustered_variance(values: NDArray[Any], clusters: Sequence[str]) -> tuple[float, int]:
    """Return the squared standard error of the mean, and the number of clusters."""
    names, home = np.unique(np.asarray(clusters, dtype=object).astype(str), return_inverse=True)
    count = len(names)
    sums = np.bincount(home, weights=values - values.mean())
    return float((sums**2).sum()) / len(values) ** 2 * count / max(count - 1, 1), count


def _effective(value: float, variance: float, clusters: int, trials: int) -> float:
    """Return how many independent trials would give this standard error."""
    if variance < FLAT_VARIANCE or value in (0.0, 1.0):
        return float(clusters)
    return min(max(value * (1 - value) / variance, 1.0), float(trials))


def _wilson(value: float, n: float, z: float) -> tuple[float, float]:
    spread = z * z / n
    centre = (value + spread / 2) / (1 + spread)
    half = math.sqrt(value * (1 - value) * spread + spread**2 / 4) / (1 + spread)
    return max(0.0, min(value, centre - half)), min(1.0, max(value, centre + half))


def _two_sided(level: float, clusters: int) -> float:
    return t_quantile((1 + level) / 2, clusters - 1)


def _check_counts(successes: int, trials: int, k: int) -> None:
    if not 0 <= successes <= trials or not 1 <= k <= trials:
        raise UsageError(
            f"pass^k and pass@k: 0 <= successes <= trials and 1 <= k <= trials, not {successes}, {trials}, {k}"
        )


def _upper_tail(t: float, df: float) -> float:
    """Return P(T > t) for t >= 0: half the regularised incomplete beta function at df / (df + t^2)."""
    a, b, x, mirrored = df / 2, 0.5, df / (df + t * t), False
    y = t * t / (df + t * t)
    if x > (a + 1) / (a + b + 2):
        a, b, x, y, mirrored = b, a, y, x, True
    if x == 0:
        return 0.5 if mirrored else 0.0
    front = math.exp(a * math.log(x) + b * math.log(y) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)) / a
    beta = front * _beta_fraction(a, b, x)
    return 0.5 * (1 - beta if mirrored else beta)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function (DLMF 8.17.22), by Steed's forward recurrence."""
    total = term = d = 1.0
    for m in range(1, 20_000):
        half, odd = divmod(m - 1, 2)
        if odd:
            k = half + 1
            ratio = k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k))
        else:
            ratio = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        d = 1 / (1 + ratio * d)
        term *= d - 1
        total += term
        if abs(term) < 1e-16 * abs(total):
            break
    return total
