"""A run is summarised by entry of its suite, by labels of tasks and metrics of episodes, and by the suite's score.

Rates are over the planned episodes and have intervals.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from agent_envs.evaluation.runs.measures import EpisodeNumbers
from agent_envs.evaluation.statistics.rates import (
    Rate,
    mean_interval,
    pass_at_k,
    pass_hat_k,
    pass_rate,
    success_rate,
    weighted_rate,
)
from agent_envs.evaluation.suites.suite import Entry, Suite
from agent_envs.services.chat.model import UNCOUNTED, known_counts

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_DIGITS = re.compile(r"([0-9]+)")


ADVICE = "the environments' argument examples=1 puts a worked turn before the task"
FEW_VALID = 0.95
NO_RESULT = "no result"
Costs = tuple[float | None, float | None]  # of an episode, and the part for feedback
POWERS = (1, 2, 4, 8, 16, 32, 64)  # the k of pass^k and pass@k, up to the number of trials


@dataclass(frozen=True)
class LabelRate:
    """The planned episodes of the tasks with one value of a label."""

    value: str  # of the label
    success: Rate  # over the planned episodes
    ended: int  # how many of them came to an end
    mean_return: float | None  # over those; None where there are none
    metrics: dict[str, float | None]  # the mean of each, over those of them that it applies to

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
    """A metric over the episodes that came to an end, and over those of them that were solved; `share`: print per cent."""

    overall: Spread
    solved: Spread
    share: bool

    def to_json(self) -> dict[str, Any]:
        """Return plain data; shares are numbers from 0 to 1."""
        rows = (("played", asdict(self.overall)), ("solved", asdict(self.solved)))
        spreads = {name: {**row, "interval": list(row["interval"])} for name, row in rows}
        return {"unit": "share" if self.share else "number", **spreads}


def rates_by_label(numbers: Sequence[EpisodeNumbers]) -> dict[str, tuple[LabelRate, ...]]:
    """Return the strata of each label, numbers in their order. A task without a label is in no stratum of it."""
    groups: dict[str, dict[str, list[EpisodeNumbers]]] = {}
    for row in numbers:
        for name, value in row.labels.items():
            groups.setdefault(name, {}).setdefault(value, []).append(row)
    return {
        name: tuple(
            _label_rate(value, rows) for value, rows in sorted(values.items(), key=lambda pair: natural(pair[0]))
        )
        for name, values in groups.items()
    }


def metrics_of(numbers: Sequence[EpisodeNumbers]) -> dict[str, Metric]:
    """Return each metric by name, over the episodes that have it and over those of them that were solved."""
    solved = [row for row in numbers if row.success]
    return {
        name: Metric(spread_of(name, numbers), spread_of(name, solved), is_share(name, numbers))
        for name in metric_names(numbers)
    }


def metric_names(numbers: Sequence[EpisodeNumbers]) -> list[str]:
    """Return the names of the metrics of episodes, in the order of their first use."""
    return list(dict.fromkeys(name for row in numbers for name in row.metrics))


def is_share(name: str, numbers: Sequence[EpisodeNumbers]) -> bool:
    """Return whether a metric of episodes is a share."""
    return any(name in row.shares for row in numbers)


def values_of(name: str, numbers: Sequence[EpisodeNumbers]) -> tuple[list[EpisodeNumbers], list[float]]:
    """Return the episodes that a metric applies to, and their values."""
    pairs = [(row, value) for row in numbers if (value := row.metrics.get(name)) is not None]
    return [row for row, _ in pairs], [value for _, value in pairs]


def spread_of(name: str, numbers: Sequence[EpisodeNumbers]) -> Spread:
    """Return a metric over the episodes it applies to, an empty spread if to none; quantiles are interpolated linearly."""
    rows, values = values_of(name, numbers)
    if not rows:
        return Spread(0)
    p10, median, p90 = (float(value) for value in np.percentile(values, (10, 50, 90)))
    return Spread(len(rows), _mean(values), metric_interval(values, rows), p10, median, p90)


def metric_interval(values: Sequence[float], rows: Sequence[EpisodeNumbers]) -> tuple[float | None, float | None]:
    """Return the interval of a metric's mean: a rate's for shares, and none below 0 for counts; as `interval_or_none` else."""
    low, high = interval_or_none(values, [row.cluster for row in rows])
    if low is None or min(values) < 0:
        return low, high
    if max(values) <= 1:
        rate = rate_of(rows, values)
        return rate.low, rate.high
    return max(low, 0.0), high


def rate_of(rows: Sequence[EpisodeNumbers], values: Sequence[float] | None = None) -> Rate:
    """Return the rate of success over episodes, or of other values, which are cut to [0, 1]."""
    numbers = np.clip([float(row.success) for row in rows] if values is None else values, 0.0, 1.0).tolist()
    return success_rate(numbers, [row.task for row in rows], [row.cluster for row in rows])


def interval_or_none(values: Sequence[float], clusters: Sequence[str]) -> tuple[float | None, float | None]:
    """Return the interval of a mean; (None, None) of one cluster or of equal values."""
    low, high = mean_interval(values, clusters)
    if not np.isfinite(low) or high - low <= 1e-9 * max(abs(low), abs(high)):
        return None, None
    return low, high


def figure(value: float | None, sign: str = "", share: bool = False) -> str:
    """Format a number with four digits, a whole one in full, None as "-"; `sign` "+": that one is positive; `share`: %.

    A share with a sign is a difference, in points, and has no unit behind it.
    """
    if value is None:
        return "-"
    if share:
        return format(100 * value, "+.1f") if sign else f"{100 * value:.1f} %"
    return format(value, f"{sign},.0f" if abs(value) >= 1_000 else f"{sign}.4g")


def natural(text: str) -> tuple[Any, ...]:
    """Return a sort key for texts: numbers first, by value, and "size 2" before "size 10"."""
    if _NUMBER.fullmatch(text):
        return (0, float(text), text)
    parts = _DIGITS.split(text)
    return (1, tuple((part, 0.0) if at % 2 == 0 else ("", float(part)) for at, part in enumerate(parts)), text)


def _label_rate(value: str, numbers: Sequence[EpisodeNumbers]) -> LabelRate:
    """Compute the success, mean return and mean metrics of the episodes with one value of a label."""
    complete = [row for row in numbers if row.complete]
    metrics = {name: values_of(name, complete)[1] for name in metric_names(complete)}
    means = {name: _mean(values) if values else None for name, values in metrics.items()}
    mean_return = _mean([row.total_reward for row in complete]) if complete else None
    return LabelRate(value, rate_of(numbers), len(complete), mean_return, means)


def _mean(values: Sequence[float]) -> float:
    """Return the mean of values as a float."""
    return float(np.mean(values))


@dataclass(frozen=True)
class Summary:
    """The numbers of one entry. Planned episodes that were not played count as no success, and are told.

    Means of turns, calls and characters are over the episodes that came to an end. `feedback_cost_usd` is the part of
    `cost_usd` that was paid for feedback; both are None where a price is not known. `strata` (by label) and `metrics` are what
    the environment's family tells beside success, and are empty for those that tell nothing.
    """

    entry: str
    env_id: str
    split: str
    turn_limit: int | None
    success: Rate
    pass_hat: dict[int, Rate]
    pass_at: dict[int, Rate]
    mean_return: float
    return_interval: tuple[float, float]
    episodes: int
    outcomes: dict[str, int]
    fault_causes: dict[str, int]
    retried: int
    mean_turns: float
    valid_actions: float
    mean_calls: float
    mean_prose: float
    usage: dict[str, int]
    cost_usd: float | None
    feedback_cost_usd: float | None
    seconds: float
    agent_seconds: float
    strata: dict[str, tuple[LabelRate, ...]]
    metrics: dict[str, Metric]
    replies: dict[str, int]  # how the policy's ended, see `reply_counts`; of tokens the most

    @property
    def faults(self) -> int:
        """Episodes in which an outside service failed for good."""
        return self.outcomes.get("fault", 0)

    @property
    def unplayed(self) -> int:
        """Planned episodes that were not begun, or cut short by the cost limit."""
        return self.outcomes.get("budget", 0) + self.outcomes.get("missing", 0)

    @property
    def verdict(self) -> str:
        """The rate as text; where no episode came to an end there is no result."""
        return self.success.text() if self.episodes > self.faults + self.unplayed else NO_RESULT

    def to_json(self) -> dict[str, Any]:
        """Return plain data; `success` is a number and `interval` its bounds. What is not known is None."""
        row = asdict(self)
        del row["strata"], row["metrics"], row["replies"]
        rate = row.pop("success")
        low, high = self.return_interval
        has_spread = math.isfinite(low) and low < high  # equal returns say nothing about the spread of others
        row["return_interval"] = [low, high] if has_spread else [None, None]
        for name in ("pass_hat", "pass_at"):
            row[name] = {str(k): [item["value"], item["low"], item["high"]] for k, item in row[name].items()}
        counts = {"tasks": rate["tasks"], "clusters": rate["clusters"]}
        counts |= {"faults": self.faults, "unplayed": self.unplayed}
        keys = ("value", "low", "high") if self.verdict != NO_RESULT else ("none",) * 3
        value, *interval = (rate.get(key) for key in keys)
        return {"success": value, "interval": interval, **row, **counts, **self.breakdown()}

    def breakdown(self) -> dict[str, Any]:
        """Return the strata and the metrics as plain data; an empty one of the two is left out."""
        strata = {name: [item.to_json() for item in rows] for name, rows in self.strata.items()}
        metrics = {name: item.to_json() for name, item in self.metrics.items()}
        return {name: table for name, table in (("strata", strata), ("metrics", metrics)) if table}

    def warnings(self, limit: str = "") -> list[str]:
        """Return warnings to a reader of these numbers; `limit` is the agent's on a reply, "max_tokens=64"."""
        lines = self._reply_warnings(limit)
        # What a limit cut tells nothing about the format.
        ended = self.episodes - self.faults - self.unplayed
        turns = round(self.mean_turns * ended) - sum(
            self.replies.get(name, 0) for name in ("cut_invalid", "refused", "full")
        )
        if turns > 0 and self.valid_actions * self.mean_turns * ended < FEW_VALID * turns - 1e-9:
            lines.append(
                f"{self.entry}: only {100 * self.valid_actions:.1f} % of the turns were valid; below "
                f"{100 * FEW_VALID:.0f} % a score tells about the format as much as about the task; {ADVICE}"
            )
        if self.faults:
            lines.append(f"{self.entry}: {self.faults} of {self.episodes} episodes ended in a fault and count 0")
        if self.unplayed:
            lines.append(
                f"{self.entry}: {self.unplayed} of {self.episodes} planned episodes were not played and count 0"
            )
        return lines

    def _reply_warnings(self, limit: str) -> list[str]:
        """Return warnings of replies that limits cut or kept away, and of tokens that nobody counts."""
        counts, lines = self.replies, []
        if counts.get("cut"):
            thoughts = (
                f"; {counts['thought']} of them thought until the end without an answer" if counts["thought"] else ""
            )
            at = limit or "the agent's limit on a reply's tokens"
            lines.append(f"{counts['cut']} of {counts['all']} replies were cut at {at}{thoughts}")
        if counts.get("refused"):
            lines.append(
                f"{counts['refused']} of {self.episodes} episodes ended in a refusal by the model or a filter, and "
                "count 0"
            )
        if counts.get("full"):
            sizes = (counts[name] for name in ("prompt_tokens", "context_tokens"))
            prompt, context = (f"{size:,}" if size else "not told" for size in sizes)
            lines.append(
                f"{counts['full']} of {self.episodes} episodes ended because the context was full and count 0 (prompt {prompt} "
                f"tokens, context {context}): raise the server's context or use Memory"
            )
        if self.usage.get(UNCOUNTED):
            lines.append(
                f"{self.usage[UNCOUNTED]} replies came without a count of their tokens: tokens and cost are not known"
            )
        return [f"{self.entry}: {line}" for line in lines]


def summarise(
    suite: Suite, numbers: Sequence[EpisodeNumbers], costs: Sequence[float | None], advice: Sequence[float | None]
) -> tuple[Summary, ...]:
    """Return the summary of each entry.

    `costs` are US dollars, one a planned episode, None where no price is known; `advice` is the part paid for feedback.
    """
    groups: dict[str, list[tuple[EpisodeNumbers, Costs]]] = {entry.label: [] for entry in suite.entries}
    for row, cost, part in zip(numbers, costs, advice, strict=True):
        groups[row.entry].append((row, (cost, part)))
    return tuple(_summary(entry, suite.trials, groups[entry.label]) for entry in suite.entries)


def has_result(summaries: Sequence[Summary]) -> bool:
    """Return whether any episode of a run came to an end."""
    return any(summary.verdict != NO_RESULT for summary in summaries)


def score_of(suite: Suite, summaries: Sequence[Summary]) -> Rate | None:
    """Return the suite's score, the weighted mean of its entries' success rates; None where unscored or without any result."""
    if not suite.scored or not has_result(summaries):
        return None
    return weighted_rate([summary.success for summary in summaries], [entry.weight for entry in suite.entries])


def averages_of(suite: Suite, rates: Sequence[Rate]) -> dict[str, Rate]:
    """Return the averages of a suite by name, from the success rates of its entries."""
    of = dict(zip((entry.label for entry in suite.entries), rates, strict=True))
    averages = {}
    for average in suite.averages:
        labels = [label for label in of if label in average.weights]  # in the suite's order, whatever the file's is
        averages[average.name] = weighted_rate(
            [of[label] for label in labels], [average.weights[label] for label in labels]
        )
    return averages


def _summary(entry: Entry, trials: int, priced: list[tuple[EpisodeNumbers, Costs]]) -> Summary:
    """Summarise the episodes of an entry; returns and turns are means over those that ended, success over all."""
    numbers = [row for row, _ in priced]
    tasks, clusters = [row.task for row in numbers], [row.cluster for row in numbers]
    wins = [float(row.success) for row in numbers]
    ks = [k for k in POWERS if 1 < trials and k <= trials]
    complete = [row for row in numbers if row.complete]
    turns = sum(row.turns for row in complete)
    usage: Counter[str] = Counter()
    replies: Counter[str] = Counter()
    for row in numbers:
        usage.update(row.usage)
        replies.update({name: count for name, count in row.replies.items() if not name.endswith("_tokens")})
    for name in ("prompt_tokens", "context_tokens"):
        replies[name] = max(row.replies.get(name, 0) for row in numbers)
    costs, advice = ([pair[place] for _, pair in priced] for place in (0, 1))
    returns = [row.total_reward for row in complete] or [0.0]
    faults = Counter(row.fault for row in numbers if row.status == "fault")
    return Summary(
        entry=entry.label, env_id=entry.env_id, split=entry.split, turn_limit=entry.turn_limit,
        success=success_rate(wins, tasks, clusters),
        pass_hat={k: pass_rate(pass_hat_k, wins, tasks, k, clusters) for k in ks},
        pass_at={k: pass_rate(pass_at_k, wins, tasks, k, clusters) for k in ks}, mean_return=sum(returns) / len(returns),
        return_interval=mean_interval(returns, [row.cluster for row in complete] or ["none"]), episodes=len(numbers),
        outcomes=dict(sorted(Counter(row.outcome for row in numbers).items())), fault_causes=dict(faults.most_common(5)),
        retried=sum(row.attempts > 0 for row in numbers), mean_turns=turns / max(len(complete), 1),
        valid_actions=sum(row.valid for row in complete) / max(turns, 1),
        mean_calls=sum(row.calls for row in complete) / max(len(complete), 1),
        mean_prose=sum(row.prose for row in complete) / max(turns, 1), usage=known_counts(dict(sorted(usage.items()))),
        cost_usd=total_cost(costs), feedback_cost_usd=total_cost(advice),
        seconds=math.fsum(row.seconds for row in numbers), agent_seconds=math.fsum(row.agent_seconds for row in numbers),
        strata=rates_by_label(numbers), metrics=metrics_of(numbers), replies=dict(replies),
    )  # fmt: skip


def total_cost(costs: Sequence[float | None]) -> float | None:
    """Return the sum; None where a cost is not known."""
    return None if None in costs else math.fsum(cost for cost in costs if cost is not None)
