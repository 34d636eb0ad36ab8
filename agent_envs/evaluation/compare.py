"""`compare`: two agents on the same tasks, or the entries of a sweep, task by task."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agent_envs.errors import UsageError
from agent_envs.evaluation.episodes import EpisodeNumbers
from agent_envs.evaluation.run_folder import Run
from agent_envs.evaluation.statistics.paired import Paired, compare_paired, holm
from agent_envs.evaluation.statistics.rates import Rate, success_rate
from agent_envs.evaluation.suite import Entry, named_changes


@dataclass(frozen=True)
class Contrast:
    """One comparison: the second minus the first. `adjusted` is the p value after Holm's correction over all shown."""

    entry: str
    first: str
    second: str
    rates: tuple[Rate, Rate]
    paired: Paired
    adjusted: float

    @property
    def verdict(self) -> str:
        """What may be said, in words."""
        if self.adjusted >= 0.05:
            return "not distinguishable"
        return f"{self.second if self.paired.difference > 0 else self.first} is better"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        rates = [{"success": rate.value, "interval": [rate.low, rate.high]} for rate in self.rates]
        head = {
            "entry": self.entry,
            "first": {"name": self.first, **rates[0]},
            "second": {"name": self.second, **rates[1]},
        }
        return {**head, **asdict(self.paired), "adjusted_p": self.adjusted, "verdict": self.verdict}


def compare_runs(first: Run, second: Run) -> tuple[list[Contrast], list[str]]:
    """Return the paired comparison of each entry, and notes.

    Raises:
        UsageError: the runs share no tasks.
    """
    names = (first.agent, second.agent)
    if names[0] == names[1]:
        names = (f"{names[0]} ({first.folder.name})", f"{names[1]} ({second.folder.name})")
    notes = []
    pairs = list(zip(first.suite.entries, second.suite.entries, strict=False))
    if first.suite.digest() != second.suite.digest():
        same = len(first.suite.entries) == len(second.suite.entries) and all(a.tasks == b.tasks for a, b in pairs)
        what = named_changes(first.suite.to_json(), second.suite.to_json())
        if not same:
            raise UsageError(f"these runs cannot be compared: their suites differ in {what}; play both on one suite")
        notes.append(f"the suites differ in {what}: this compares two settings on the same tasks, not two agents alone")
    numbers = (_by_entry(first.numbers()), _by_entry(second.numbers()))
    drafts = [_contrast(one, names, (numbers[0][one.label], numbers[1][other.label])) for one, other in pairs]
    return _adjusted(drafts), notes + _left_out(numbers)


def compare_entries(run: Run) -> tuple[list[Contrast], list[str]]:
    """Return the comparison of each entry of a sweep with the first.

    Raises:
        UsageError: the run has one entry only, or the entries' tasks differ.
    """
    base, *others = run.suite.entries
    if not others or any(
        {task for task, _, _ in other.tasks} != {task for task, _, _ in base.tasks} for other in others
    ):
        raise UsageError(
            f"{run.folder} has no entries over the same tasks; name two runs, or make a run with --sweep or --turn-limits"
        )
    numbers = _by_entry(run.numbers())
    drafts = [
        _contrast(other, (base.label, other.label), (numbers[base.label], numbers[other.label])) for other in others
    ]
    return _adjusted(drafts), _left_out((numbers,))


def _by_entry(numbers: Sequence[EpisodeNumbers]) -> dict[str, list[EpisodeNumbers]]:
    groups: dict[str, list[EpisodeNumbers]] = {}
    for item in numbers:
        groups.setdefault(item.entry, []).append(item)
    return groups


def _contrast(
    entry: Entry, names: tuple[str, str], sides: tuple[list[EpisodeNumbers], list[EpisodeNumbers]]
) -> Contrast:
    """Compare over the tasks that both sides played to the end: a fault is no failure of an agent."""
    lacking = {item.task for side in sides for item in side if not item.played}
    kept = [[item for item in side if item.task not in lacking] for side in sides]
    if not kept[0]:
        raise UsageError(f"{entry.label}: no task was played to its end by both; finish the runs with eval --resume")
    clusters = {task: cluster for task, _, cluster in entry.tasks if task not in lacking}
    paired = compare_paired(_by_task(kept[0]), _by_task(kept[1]), clusters)
    rates = tuple(
        success_rate([float(i.success) for i in side], [i.task for i in side], [i.cluster for i in side])
        for side in kept
    )
    return Contrast(entry.label, *names, (rates[0], rates[1]), paired, paired.p_value)


def _by_task(items: Sequence[EpisodeNumbers]) -> dict[str, list[float]]:
    table: dict[str, list[float]] = {}
    for item in items:
        table.setdefault(item.task, []).append(float(item.success))
    return table


def _adjusted(drafts: list[Contrast]) -> list[Contrast]:
    corrected = holm([draft.paired.p_value for draft in drafts])
    return [
        Contrast(draft.entry, draft.first, draft.second, draft.rates, draft.paired, p)
        for draft, p in zip(drafts, corrected, strict=True)
    ]


def _left_out(sides: Sequence[Mapping[str, Sequence[EpisodeNumbers]]]) -> list[str]:
    lacking = {
        (entry, item.task) for side in sides for entry, items in side.items() for item in items if not item.played
    }
    return [f"{len(lacking)} tasks are left out: not every episode of theirs came to its end"] if lacking else []
