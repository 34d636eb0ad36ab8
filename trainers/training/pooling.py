"""Metrics of several micro-batches, gradient steps or processes are pooled as those of all of them together."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

from accelerate.utils import gather_object

COUNTS = ("drift", "faults", "edited")  # summed over processes


class Ratio(float):
    """A total over a count that differs between processes; as a number, 0 where nothing was counted."""

    total: float
    count: float

    def __new__(cls, total: float, count: float) -> "Ratio":
        """Keep what the number is made of."""
        made = super().__new__(cls, total / count if count else 0.0)
        made.total, made.count = total, count
        return made

    def __getnewargs__(self) -> tuple[float, float]:  # type: ignore[override]
        """Travel whole between processes."""
        return self.total, self.count


def extreme(name: str) -> Callable[..., Any] | None:
    """Return `min` or `max` where a metric's name ends in that word, as TRL's do; tools have names of their own."""
    words = name.rsplit("/", 1)[-1].split("_")
    if name.startswith("tools/"):
        return None
    return min if "min" in words else max if "max" in words else None


def add_up(totals: MutableMapping[str, float], metrics: Mapping[str, Any], weight: float) -> None:
    """Add a micro-batch's means, times its weight, to totals; of smallest and largest values the extreme one stays."""
    for name, value in metrics.items():
        pick, found = extreme(name), float(value)
        if pick:
            totals[name] = pick(totals.get(name, found), found)
        else:
            totals[name] = totals.get(name, 0.0) + found * weight


def averages(totals: Mapping[str, float], weight: float) -> dict[str, float]:
    """Return what `add_up` added up, over the whole weight."""
    return {name: value if extreme(name) else value / weight for name, value in totals.items()}


def mean_by_name(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each number over the rows that have it, or its extreme where its name says so."""
    told = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row[name] for row in rows if name in row]
        pick = extreme(name)
        told[name] = pick(values) if pick else sum(values) / len(values)
    return told


def sums_of_processes(totals: Mapping[str, float]) -> dict[str, float]:
    """Return the totals of all processes by name, or their extreme; a process may lack some."""
    return _of_processes(totals, lambda name, values, processes: sum(values))


def means_of_processes(stats: Mapping[str, float]) -> dict[str, float]:
    """Return a step's numbers over all processes, which have equal shares; what a process lacks is 0 there."""
    return _of_processes(stats, _mean)


def _mean(name: str, values: list[float], processes: int) -> float:
    ratios = [value for value in values if isinstance(value, Ratio)]
    if ratios:
        return Ratio(sum(ratio.total for ratio in ratios), sum(ratio.count for ratio in ratios))
    return sum(values) if name in COUNTS else sum(values) / processes


def _of_processes(own: Mapping[str, float], rule: Callable[[str, list[float], int], float]) -> dict[str, float]:
    everyone = gather_object([dict(own)])
    told: dict[str, float] = {}
    for name in dict.fromkeys(name for found in everyone for name in found):
        values = [found[name] for found in everyone if name in found]
        pick = extreme(name)
        told[name] = pick(values) if pick else rule(name, values, len(everyone))
    return told
