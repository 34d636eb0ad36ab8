"""`agent-envs report` tells what runs came to, as tables for a terminal, for Markdown and for pages."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent_envs.base.terminal import visible
from agent_envs.evaluation.report.turn_limits import LimitedRun, LimitRow, limit_rows
from agent_envs.evaluation.runs.by_label import Spread, figure
from agent_envs.evaluation.runs.episode_numbers import FAILURES, EpisodeNumbers
from agent_envs.evaluation.runs.evaluate import Result, result_of_run
from agent_envs.evaluation.runs.measures import Measures
from agent_envs.evaluation.runs.run_folder import Run
from agent_envs.evaluation.runs.summary import Summary
from agent_envs.evaluation.statistics.paired import minimum_detectable
from agent_envs.evaluation.statistics.rates import Rate, rerun_interval
from agent_envs.wrappers.feedback_costs import feedback_usage


@dataclass(frozen=True)
class Grid:
    """A table of texts."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Report:
    """The tables of a run, or of several, and notes that a reader must see.

    `told` holds, as plain data, what families tell beside success: entry -> `strata` and `metrics`. `limits` are the rows of
    a sweep over turn limits.
    """

    title: str
    grids: tuple[Grid, ...]
    notes: tuple[str, ...]
    told: dict[str, dict[str, Any]] = field(default_factory=dict)
    limits: tuple[LimitRow, ...] = ()

    def markdown(self) -> str:
        """Return the report as Markdown; what strangers wrote is escaped."""
        parts = [f"# {_cell(self.title)}"]
        for grid in self.grids:
            head = " | ".join(map(_cell, grid.heads))
            rule = " | ".join("---" for _ in grid.heads)
            rows = "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in grid.rows)
            parts.append(f"## {_cell(grid.caption)}\n\n| {head} |\n| {rule} |\n{rows}")
        parts += [f"- {_cell(note)}" for note in self.notes]
        return "\n\n".join(parts) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        tables = [{"caption": grid.caption, "heads": grid.heads, "rows": grid.rows} for grid in self.grids]
        parts = {
            name: {entry: table[name] for entry, table in self.told.items() if name in table}
            for name in ("strata", "metrics")
        }
        filled: dict[str, Any] = {name: table for name, table in parts.items() if table}
        filled |= {"turn_limits": [row.to_json() for row in self.limits]} if self.limits else {}
        return {"title": self.title, "tables": tables, "notes": list(self.notes), **filled}


def report_on(*runs: Run) -> Report:
    """Return the report on a run, finished or not; of several runs, their tables as one, with a column for the agent."""
    names = agent_names(runs)
    drafts = [_report(run) for run in runs]
    limits = limit_rows(
        [LimitedRun(name, run.suite, draft[1]) for name, run, draft in zip(names, runs, drafts, strict=True)]
    )
    reports = [draft[0] for draft in drafts]
    report = reports[0] if len(runs) == 1 else _joined(names, reports)
    return replace(report, grids=(*report.grids, *limit_grids(limits)), limits=tuple(limits))


def agent_names(runs: Sequence[Run]) -> list[str]:
    """Return the agents of runs, with the folder where one plays twice, and numbered where that says nothing."""
    agents = [run.agent for run in runs]
    names = [f"{run.agent} ({run.folder.resolve().name})" if agents.count(run.agent) > 1 else run.agent for run in runs]
    return [f"{name}, {place}" if names.count(name) > 1 else name for place, name in enumerate(names, 1)]


def _joined(names: Sequence[str], reports: Sequence[Report]) -> Report:
    captions = dict.fromkeys(grid.caption for report in reports for grid in report.grids)
    parts = [
        [(name, grid) for name, report in zip(names, reports, strict=True) for grid in report.grids
         if grid.caption == caption]
        for caption in captions
    ]  # fmt: skip
    pairs = list(zip(names, reports, strict=True))
    notes = tuple(f"{name}: {note}" for name, report in pairs for note in report.notes)
    told = {f"{name}: {entry}": table for name, report in pairs for entry, table in report.told.items()}
    return Report(", ".join(names), tuple(map(_merged, parts)), notes, told)


def _merged(parts: Sequence[tuple[str, Grid]]) -> Grid:
    """Return grids of one caption as one; a column that a grid has not is empty."""
    heads = list(dict.fromkeys(head for _, grid in parts for head in grid.heads))
    rows = []
    for name, grid in parts:
        for row in grid.rows:
            cells = dict(zip(grid.heads, row, strict=True))
            rows.append((name, *(cells.get(head, "") for head in heads)))
    return Grid(parts[0][1].caption, ("agent", *heads), tuple(rows))


def limit_grids(rows: Sequence[LimitRow]) -> list[Grid]:
    """Return one table for each subject of a sweep over turn limits."""
    heads = ("agent", "free turns", "episodes", "accuracy (95 % interval)", "abstained", "wrong", "turns")
    groups: dict[str, list[tuple[str, ...]]] = {}
    for row in rows:
        rates = (_percent(row.success), _percent(row.abstained), _percent(row.wrong))
        head = (row.series, str(row.free_turns), str(row.success.trials))
        groups.setdefault(row.subject, []).append((*head, *rates, _hundredths(row.turns, row.turns_interval)))
    return [Grid(f"Against turn limits, {subject}", heads, tuple(cells)) for subject, cells in groups.items()]


def _percent(rate: Rate | None) -> str:
    return "" if rate is None else rate.text().partition(" (")[0]


def _hundredths(mean: float | None, interval: tuple[float | None, float | None]) -> str:
    low, high = interval
    return ("" if mean is None else f"{mean:.2f}") + ("" if low is None else f" [{low:.2f}, {high:.2f}]")


def _report(run: Run) -> tuple[Report, list[EpisodeNumbers]]:
    measures = Measures()
    result, numbers = result_of_run(run, measures)
    items = result.summaries
    trials, *others = shared_grids(result, numbers)
    grids = [_success(result), *trials, _behaviour(items, numbers), *(grid for part in others for grid in part)]
    notes = [*result.notes, *result_notes(result), *_detectable(items, numbers)]
    if result.settings.smoke:
        notes.append("a smoke run: only a part of the tasks was planned (-n); it cannot be packed or ranked")
    notes += measures.notes.values()
    title = f"{result.suite.name}, {result.settings.agent}"
    return Report(title, tuple(grids), tuple(notes), {item.entry: item.told() for item in items}), numbers


def shared_grids(result: Result, numbers: Sequence[EpisodeNumbers]) -> tuple[list[Grid], ...]:
    """Return what reports and pages tell alike: trials, how episodes ended, feedback, and what families tell."""
    items = result.summaries
    trials = [_trials(items, numbers)] if result.suite.trials > 1 else []
    return trials, [_outcomes(items)], feedback_grids(items), _families(items)


def result_notes(result: Result) -> list[str]:
    """Return what is odd in a run's numbers, and what failed."""
    notes = [line for item in result.summaries for line in item.warnings()]
    for item in result.summaries:
        notes += [f"{item.entry}: fault, {count} times: {cause[:500]}" for cause, count in item.fault_causes.items()]
    return notes


def feedback_grids(items: Sequence[Summary]) -> list[Grid]:
    """Return what the feedback of a run took: tokens times price, for an episode and for all."""
    heads = ("entry", "calls", "tokens in", "of them cached", "tokens out", "USD an episode", "USD")
    rows = []
    for item in items:
        used = feedback_usage(item.usage)
        if not used:
            continue
        each = [f"{used.get(name, 0) / item.episodes:.2f}" for name in ("calls", "input", "cached", "output")]
        cost = item.feedback_cost_usd
        dollars = ("not known",) * 2 if cost is None else (f"{cost / item.episodes:.6f}", f"{cost:.4f}")
        rows.append((item.entry, *each, *dollars))
    return (
        [Grid("Feedback: calls and tokens an episode, over the planned episodes", heads, tuple(rows))] if rows else []
    )


def _families(items: Sequence[Summary]) -> list[Grid]:
    """Return what families tell beside success: success by each label of tasks, metrics, and metrics by each label.

    A label with one value only would repeat the table of all tasks, and has none.
    """
    labels = list(dict.fromkeys(label for item in items for label, rows in item.strata.items() if len(rows) > 1))
    grids = [_rates_by_label(items, label) for label in labels]
    if any(item.metrics for item in items):
        grids += [_metrics(items), *(_metrics_by(items, label) for label in labels)]
    return [grid for grid in grids if grid.rows]


def _rates_by_label(items: Sequence[Summary], label: str) -> Grid:
    rows = [
        (
            item.entry, row.value, str(row.success.tasks), row.success.text(),
            "" if row.mean_return is None else f"{row.mean_return:.3f}",
        )
        for item in items
        for row in item.strata.get(label, ())
    ]  # fmt: skip
    return Grid(f"Success by {label}", ("entry", label, "tasks", "success (95 % interval)", "mean return"), tuple(rows))


def _metrics(items: Sequence[Summary]) -> Grid:
    rows = [
        (
            item.entry, name, _mean(metric.played), str(metric.played.episodes),
            _mean(metric.solved), str(metric.solved.episodes),
            *map(figure, (metric.solved.p10, metric.solved.median, metric.solved.p90)),
        )
        for item in items
        for name, metric in item.metrics.items()
    ]  # fmt: skip
    heads = ("entry", "metric", "mean (95 % interval)", "ended", "mean, solved (95 % interval)", "solved", "p10, solved",
             "median, solved", "p90, solved")  # fmt: skip
    return Grid("Metrics of all episodes that ended, and of the solved", heads, tuple(rows))


def _metrics_by(items: Sequence[Summary], label: str) -> Grid:
    found = [(item.entry, row) for item in items for row in item.strata.get(label, ()) if row.metrics]
    names = list(dict.fromkeys(name for _, row in found for name in row.metrics))
    rows = [
        (entry, row.value, str(row.ended), *(figure(row.metrics.get(name)) for name in names)) for entry, row in found
    ]
    return Grid(
        f"Metrics by {label}, means over the episodes that ended", ("entry", label, "ended", *names), tuple(rows)
    )


def _mean(spread: Spread) -> str:
    low, high = spread.interval
    return figure(spread.mean) + ("" if low is None else f" [{figure(low)}, {figure(high)}]")


def _success(result: Result) -> Grid:
    heads = ("entry", "split", "success (95 % interval)", "tasks x trials", "mean return", "cost, USD")
    rows = [
        (
            item.entry, item.split, item.verdict, f"{item.success.tasks} x {result.suite.trials}",
            f"{item.mean_return:.3f}", "not known" if item.cost_usd is None else f"{item.cost_usd:.4f}",
        )
        for item in result.summaries
    ]  # fmt: skip
    if result.score is not None and len(result.summaries) > 1:
        rows.append(("suite", "", result.score.text(), "", "", ""))
    rows += [(name, "", rate.text(), "", "", "") for name, rate in result.averages.items()]
    return Grid("Success", heads, tuple(rows))


def _trials(items: Sequence[Summary], numbers: Sequence[EpisodeNumbers]) -> Grid:
    ks = sorted({k for item in items for k in item.pass_hat if k > 1})
    heads = ("entry", *(f"pass^{k}" for k in ks), *(f"pass@{k}" for k in ks), "the same tasks again")
    rows = []
    for item in items:
        mine = [row for row in numbers if row.entry == item.entry]
        low, high = rerun_interval([float(row.success) for row in mine], [row.task for row in mine])
        rates = [table[k].text() if k in table else "" for table in (item.pass_hat, item.pass_at) for k in ks]
        rows.append((item.entry, *rates, f"[{100 * low:.1f}, {100 * high:.1f}] %"))
    return Grid("Trials: all of k succeed (pass^k), any of k succeeds (pass@k)", heads, tuple(rows))


def _behaviour(items: Sequence[Summary], numbers: Sequence[EpisodeNumbers]) -> Grid:
    heads = ("entry", "valid actions", "turns", "tool calls", "characters beside the action, a turn", "tokens in", "tokens out",
             "agent s a turn")  # fmt: skip
    rows = []
    for item in items:
        ended = [row for row in numbers if row.entry == item.entry and row.played]
        turns, valid = sum(row.turns for row in ended), sum(row.valid for row in ended)
        tokens = [sum(row.usage.get(name, 0) for row in ended) for name in ("input", "output")]
        rows.append((
            item.entry, f"{100 * item.valid_actions:.1f} % ({valid} of {turns})", f"{item.mean_turns:.2f}",
            f"{item.mean_calls:.2f}", f"{item.mean_prose:.0f}",
            *(f"{count / len(ended):.0f}" if count else "" for count in tokens),
            f"{sum(row.agent_seconds for row in ended) / max(turns, 1):.4f}",
        ))  # fmt: skip
    return Grid("Behaviour, means over the episodes that ended", heads, tuple(rows))


def _outcomes(items: Sequence[Summary]) -> Grid:
    kinds = [kind for kind in FAILURES if any(item.outcomes.get(kind) for item in items)]
    heads = ("entry", *kinds, "retried after a fault")
    rows = [(item.entry, *(str(item.outcomes.get(kind, 0)) for kind in kinds), str(item.retried)) for item in items]
    return Grid("How the episodes ended", heads, tuple(rows))


def _detectable(items: Sequence[Summary], numbers: Sequence[EpisodeNumbers]) -> list[str]:
    alone = [item.entry for item in items if item.success.clusters < 2]
    lines = [f"{name}: one cluster of tasks says nothing about others; no difference can be detected" for name in alone]
    points: dict[str, list[str]] = {}
    for item in items:
        rows = [row for row in numbers if row.entry == item.entry]
        if item.entry not in alone:
            columns = [float(row.success) for row in rows], [row.task for row in rows], [row.cluster for row in rows]
            points.setdefault(f"{100 * minimum_detectable(*columns):.0f} points", []).append(item.entry)
    if points:
        told = [f"{size} ({', '.join(names)})" for size, names in points.items()] if len(points) > 1 else list(points)
        lines.append(
            f"a difference to another agent below about {', '.join(told)} would probably go unseen "
            "(80 % power, paired test at 5 %, outcomes of the two agents uncorrelated)"
        )
    return lines


_MARKS = str.maketrans({
    **{mark: f"\\{mark}" for mark in "\\|*_`[]#!~"}, "<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " ",
})  # fmt: skip


def _cell(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return visible(str(text)).translate(_MARKS)
