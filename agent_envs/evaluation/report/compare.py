"""`agent-envs compare` compares two agents on the same tasks, or the entries of a sweep, task by task."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from statistics import fmean
from typing import Any

import numpy as np

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.runs.measures import EpisodeNumbers, Measures
from agent_envs.evaluation.runs.run_folder import Run
from agent_envs.evaluation.runs.summary import figure, interval_or_none, is_share, metric_names, rate_of, values_of
from agent_envs.evaluation.statistics.paired import Paired, compare_paired, holm, paired_interval
from agent_envs.evaluation.statistics.rates import Rate, number_names
from agent_envs.evaluation.suites.suite import Entry, describe_changes


@dataclass(frozen=True)
class MetricContrast:
    """A metric of both sides: means over tasks of the means over trials, of the tasks whose every episode has it.

    The interval is that of the paired difference, second minus first, and not corrected for many metrics; bounds that are not
    known are None.
    """

    means: tuple[float, float]
    difference: float
    interval: tuple[float | None, float | None]
    tasks: int
    share: bool

    def text(self) -> str:
        """Return the comparison in words: both means, their difference with its interval, and the number of tasks."""
        means, (low, high) = [figure(mean, share=self.share) for mean in self.means], self.interval
        change, *bounds = (figure(value, "+", self.share) for value in (self.difference, low, high))
        between = "" if low is None else f" [{', '.join(bounds)}]"
        difference = f"second minus first {change}{' points' if self.share else ''}{between}"
        return f"{' and '.join(means)}; {difference} (n={self.tasks} tasks)"

    def to_json(self) -> dict[str, Any]:
        """Return plain data; shares are numbers from 0 to 1, and so is their difference."""
        unit, (first, second) = "share" if self.share else "number", self.means
        head = {"unit": unit, "first": first, "second": second, "difference": self.difference}
        return {**head, "interval": list(self.interval), "tasks": self.tasks}


@dataclass(frozen=True)
class Contrast:
    """One comparison: the second minus the first. `adjusted` is the p value after Holm's correction over all shown.

    `metrics` are those that both sides have, over the same tasks; None for one that applies to no task of both.
    """

    entry: str
    first: str
    second: str
    rates: tuple[Rate, Rate]
    paired: Paired
    adjusted: float
    metrics: dict[str, MetricContrast | None] = field(default_factory=dict)

    def metric_texts(self) -> list[tuple[str, str]]:
        """Return each metric's name, and the comparison in words; "-" where it does not apply."""
        return [(name, "-" if metric is None else metric.text()) for name, metric in self.metrics.items()]

    def verdict(self, first: str = "", second: str = "") -> str:
        """Return "not distinguishable" from an adjusted p of 0.05 on, else which is better, by its name or the given one."""
        if self.adjusted >= 0.05:
            return "not distinguishable"
        return f"{second or self.second if self.paired.difference > 0 else first or self.first} is better"

    def to_json(self) -> dict[str, Any]:
        """Return the comparison of an entry as plain data: both sides, the paired test, the verdict and metrics."""
        first, second = (
            {"name": name, "success": rate.value, "interval": [rate.low, rate.high]}
            for name, rate in zip((self.first, self.second), self.rates, strict=True)
        )
        row = {"entry": self.entry, "first": first, "second": second, **asdict(self.paired)}
        row |= {"adjusted_p": self.adjusted, "verdict": self.verdict()}
        metrics = {name: item and item.to_json() for name, item in self.metrics.items()}
        return {**row, "metrics": metrics} if metrics else row


def compare_runs(first: Run, second: Run) -> tuple[list[Contrast], list[str]]:
    """Return the paired comparison of each entry, and notes; UsageError where tasks differ or none was ended by both."""
    names = (first.agent, second.agent)
    if names[0] == names[1]:
        names = (f"{names[0]} ({first.folder.name})", f"{names[1]} ({second.folder.name})")
    notes = []
    pairs = list(zip(first.suite.entries, second.suite.entries, strict=False))
    if first.suite.digest() != second.suite.digest():
        same = len(first.suite.entries) == len(second.suite.entries) and all(a.tasks == b.tasks for a, b in pairs)
        what = describe_changes(first.suite.to_json(), second.suite.to_json())
        if not same:
            raise UsageError(f"these runs cannot be compared: their suites differ in {what}; play both on one suite")
        notes.append(f"the suites differ in {what}: this compares two settings on the same tasks, not two agents alone")
    measures = (Measures(), Measures())
    numbers = (_by_entry(first.numbers(measures[0])), _by_entry(second.numbers(measures[1])))
    drafts = [_contrast(one, names, (numbers[0][one.label], numbers[1][other.label])) for one, other in pairs]
    lines = dict.fromkeys(line for side in measures for line in side.notes.values())
    return _with_adjusted_p(drafts), [*notes, *_missing_notes(numbers), *lines]


def compare_entries(run: Run) -> tuple[list[Contrast], list[str]]:
    """Return the comparison of each other entry of a sweep with the first, and notes; UsageError for one, or other tasks.

    Raises:
        UsageError: the run has one entry only, or the entries' tasks differ.
    """
    base, *others = run.suite.entries
    if not others or any(
        {task for task, _, _ in other.tasks} != {task for task, _, _ in base.tasks} for other in others
    ):
        raise UsageError(
            f"{run.folder} has no entries over the same tasks; name two runs, or make a run with "
            "--sweep, --turn-limits or --feedback none,NAME"
        )
    measures = Measures()
    numbers = _by_entry(run.numbers(measures))
    drafts = [
        _contrast(other, (base.label, other.label), (numbers[base.label], numbers[other.label])) for other in others
    ]
    return _with_adjusted_p(drafts), [*_missing_notes((numbers,)), *measures.notes.values()]


def _by_entry(numbers: Sequence[EpisodeNumbers]) -> dict[str, list[EpisodeNumbers]]:
    """Group episodes by entry, in the suite's order; episodes of an entry lie together."""
    return {entry: list(rows) for entry, rows in groupby(numbers, lambda row: row.entry)}  # in the suite's order


def _contrast(
    entry: Entry, names: tuple[str, str], sides: tuple[list[EpisodeNumbers], list[EpisodeNumbers]]
) -> Contrast:
    """Compare over the tasks that both sides played to the end, as a fault is no failure; UsageError without such tasks."""
    lacking = {row.task for side in sides for row in side if not row.complete}
    both = [[row for row in side if row.task not in lacking] for side in sides]
    if not both[0]:
        raise UsageError(f"{entry.label}: no task was played to its end by both; finish the runs with eval --resume")
    clusters = {task: cluster for task, _, cluster in entry.tasks if task not in lacking}
    paired = compare_paired(_by_task(both[0]), _by_task(both[1]), clusters)
    shared = [name for name in metric_names(both[0]) if name in metric_names(both[1])]
    metrics = {name: _metric(name, both, clusters) for name in shared}
    return Contrast(entry.label, *names, (rate_of(both[0]), rate_of(both[1])), paired, paired.p_value, metrics)


def _metric(name: str, sides: list[list[EpisodeNumbers]], clusters: Mapping[str, str]) -> MetricContrast | None:
    """Compare a metric's task means of two agents on their common tasks, or return None if there are none."""
    first, second = (_means(name, side) for side in sides)
    tasks = [task for task in first if task in second]
    if not tasks:
        return None
    means = (fmean(first[task] for task in tasks), fmean(second[task] for task in tasks))
    differences = [second[task] - first[task] for task in tasks]
    homes = [clusters[task] for task in tasks]
    share = is_share(name, [*sides[0], *sides[1]])
    interval = interval_or_none(differences, homes)
    if share:
        interval = paired_interval(np.array(differences), number_names(homes))[1:]
    return MetricContrast(means, fmean(differences), interval, len(tasks), share)


def _means(name: str, side: Sequence[EpisodeNumbers]) -> dict[str, float]:
    """Return the mean over trials of each task to whose every episode a metric applies."""
    table: dict[str, list[float]] = {}
    for row, value in zip(*values_of(name, side), strict=True):
        table.setdefault(row.task, []).append(value)
    for row in side:
        if row.metrics.get(name) is None:
            table.pop(row.task, None)
    return {task: fmean(values) for task, values in table.items()}


def _by_task(rows: Sequence[EpisodeNumbers]) -> dict[str, list[float]]:
    """Group the successes of episodes by task; episodes of a task lie together."""
    return {task: [float(row.success) for row in side] for task, side in groupby(rows, lambda row: row.task)}


def _with_adjusted_p(drafts: list[Contrast]) -> list[Contrast]:
    """Return the contrasts with p values adjusted for their number by Holm's method."""
    corrected = holm([draft.paired.p_value for draft in drafts])
    return [replace(draft, adjusted=p) for draft, p in zip(drafts, corrected, strict=True)]


def _missing_notes(sides: Sequence[Mapping[str, Sequence[EpisodeNumbers]]]) -> list[str]:
    """Return a note that tasks with an unfinished episode on either side are left out; [] where there is none."""
    lacking = {(entry, row.task) for side in sides for entry, rows in side.items() for row in rows if not row.complete}
    return [f"{len(lacking)} tasks are left out: not every episode of theirs came to its end"] if lacking else []
