"""Success by the labels of tasks, and the metrics of episodes, are computed here with their intervals."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from agent_envs.evaluation.runs.episode_numbers import EpisodeNumbers
from agent_envs.evaluation.statistics.rates import Rate, mean_interval, success_rate

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_DIGITS = re.compile(r"([0-9]+)")


@dataclass(frozen=True)
class LabelRate:
    """The planned episodes of the tasks with one value of a label."""

    value: str  # of the label
    success: Rate  # over the planned episodes
    ended: int  # how many of them came to an end
    mean_return: float | None  # over those; None where there are none
    metrics: dict[str, float]  # the mean of each, over those

    def to_json(self) -> dict[str, Any]:
        """Return plain data; `success` is a number and `interval` its bounds."""
        rate = self.success
        counts = {"tasks": rate.tasks, "trials": rate.trials, "clusters": rate.clusters, "ended": self.ended}
        head = {"value": self.value, "success": rate.value, "interval": [rate.low, rate.high], **counts}
        return {**head, "mean_return": self.mean_return, "metrics": self.metrics}


@dataclass(frozen=True)
class Spread:
    """A metric over some episodes. Of no episodes all is None; so are bounds that are not known."""

    episodes: int
    mean: float | None = None
    interval: tuple[float | None, float | None] = (None, None)
    p10: float | None = None
    median: float | None = None
    p90: float | None = None


@dataclass(frozen=True)
class Metric:
    """A metric over the episodes that came to an end, and over those of them that were solved."""

    played: Spread
    solved: Spread

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {name: {**row, "interval": list(row["interval"])} for name, row in asdict(self).items()}


def rates_by_label(items: Sequence[EpisodeNumbers]) -> dict[str, tuple[LabelRate, ...]]:
    """Return the strata of each label, numbers in their order. A task without a label is in no stratum of it."""
    groups: dict[str, dict[str, list[EpisodeNumbers]]] = {}
    for item in items:
        for name, value in item.labels.items():
            groups.setdefault(name, {}).setdefault(value, []).append(item)
    return {
        name: tuple(_label_rate(value, rows) for value, rows in sorted(values.items(), key=lambda row: natural(row[0])))
        for name, values in groups.items()
    }


def metrics_of(items: Sequence[EpisodeNumbers]) -> dict[str, Metric]:
    """Return each metric over all episodes that have it: all that came to an end, whatever became of them."""
    return {
        name: Metric(spread_of(name, items), spread_of(name, [item for item in items if item.success]))
        for name in metric_names(items)
    }


def metric_names(items: Sequence[EpisodeNumbers]) -> list[str]:
    """Return the names of the metrics of episodes, in the order of their first use."""
    return list(dict.fromkeys(name for item in items for name in item.metrics))


def spread_of(name: str, items: Sequence[EpisodeNumbers]) -> Spread:
    """Return a metric over the episodes that have it; quantiles are interpolated linearly."""
    rows = [item for item in items if name in item.metrics]
    if not rows:
        return Spread(0)
    values = [item.metrics[name] for item in rows]
    p10, median, p90 = (float(value) for value in np.percentile(values, (10, 50, 90)))
    return Spread(len(rows), _mean(values), metric_interval(values, rows), p10, median, p90)


def metric_interval(values: Sequence[float], rows: Sequence[EpisodeNumbers]) -> tuple[float | None, float | None]:
    """Return the interval of a metric's mean: a rate's for shares, and none below 0 for counts; as `known_interval` else."""
    low, high = known_interval(values, [item.cluster for item in rows])
    if low is None or min(values) < 0:
        return low, high
    if max(values) <= 1:
        rate = rate_of(rows, values)
        return rate.low, rate.high
    return max(low, 0.0), high


def rate_of(rows: Sequence[EpisodeNumbers], values: Sequence[float] | None = None) -> Rate:
    """Return the rate of success over episodes, or of other values, which are cut to [0, 1]."""
    numbers = np.clip([float(item.success) for item in rows] if values is None else values, 0.0, 1.0).tolist()
    return success_rate(numbers, [item.task for item in rows], [item.cluster for item in rows])


def known_interval(values: Sequence[float], clusters: Sequence[str]) -> tuple[float | None, float | None]:
    """Return the interval of a mean; (None, None) where one cluster or equal values say nothing about others."""
    low, high = mean_interval(values, clusters)
    if not np.isfinite(low) or high - low <= 1e-9 * max(abs(low), abs(high)):
        return None, None
    return low, high


def figure(value: float | None, sign: str = "") -> str:
    """Return a number with four digits, whole ones with all; "" for None. `sign` "+" also tells that one is positive."""
    if value is None:
        return ""
    return format(value, f"{sign},.0f" if abs(value) >= 1_000 else f"{sign}.4g")


def natural(text: str) -> tuple[Any, ...]:
    """Return the key by which texts sort as people expect: numbers first, by value, and "size 2" before "size 10"."""
    if _NUMBER.fullmatch(text):
        return (0, float(text), text)
    parts = _DIGITS.split(text)
    return (1, tuple((part, 0.0) if at % 2 == 0 else ("", float(part)) for at, part in enumerate(parts)), text)


def _label_rate(value: str, items: Sequence[EpisodeNumbers]) -> LabelRate:
    ended = [item for item in items if item.played]
    known = {name: [item.metrics[name] for item in ended if name in item.metrics] for name in metric_names(ended)}
    means = {name: _mean(values) for name, values in known.items()}
    mean_return = _mean([item.total_reward for item in ended]) if ended else None
    return LabelRate(value, rate_of(items), len(ended), mean_return, means)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
