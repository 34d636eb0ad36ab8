"""`agent-envs report` tells what runs came to, as tables for a terminal, for Markdown and for pages."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent_envs.base.terminal import visible
from agent_envs.evaluation.report.charts import Cell, Curve, StackedBar, Table, histogram
from agent_envs.evaluation.report.turn_limits import LimitRow, limit_rows
from agent_envs.evaluation.runs.evaluate import Result, result_of_run
from agent_envs.evaluation.runs.measures import FAILURES, EpisodeNumbers, Measures
from agent_envs.evaluation.runs.run_folder import Run
from agent_envs.evaluation.runs.summary import NO_RESULT, Metric, Spread, Summary, figure
from agent_envs.evaluation.statistics.paired import minimum_detectable
from agent_envs.evaluation.statistics.rates import Rate, rerun_interval
from agent_envs.evaluation.suites.suite import ADHOC
from agent_envs.services.chat.model import MAX_TOKENS, UNCOUNTED
from agent_envs.services.chat.named import is_chat_name
from agent_envs.wrappers.feedback_models import feedback_usage

MOST_ENTRIES = 6  # that have a curve each
FEW = 20  # episodes, below which a percentile says little
DETECTABLE = (
    "smallest difference to be seen: a smaller true difference to another agent would probably go unseen (80 % power, paired "
    "test at 5 %, outcomes of the two agents uncorrelated); 100 points where one cluster of tasks says nothing about others"
)


@dataclass(frozen=True)
class RunReport:
    """The tables of a run, or of several, and notes that a reader must see.

    `breakdowns` holds, as plain data, what families tell beside success: entry -> `strata` and `metrics`. `limits` are the rows
    of a sweep over turn limits, `curves` the figures of one run.
    """

    title: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...]
    breakdowns: dict[str, dict[str, Any]] = field(default_factory=dict)
    limits: tuple[LimitRow, ...] = ()
    curves: tuple[Curve, ...] = ()

    def markdown(self) -> str:
        """Return the report as Markdown; what strangers wrote is escaped."""
        parts = [f"# {_cell(self.title)}"]
        for table in self.tables:
            heads, rows = table.texts()
            lines = (f"| {' | '.join(map(_cell, row))} |" for row in (heads, ["---"] * len(heads), *rows))
            parts.append("\n".join((f"## {_cell(table.caption)}\n", *lines)))
        parts += [f"- {_cell(note)}" for note in self.notes]
        return "\n\n".join(parts) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data: title, tables, notes, and strata, metrics and turn limits where there are any."""
        names = ("caption", "heads", "rows")
        tables = [dict(zip(names, (table.caption, *table.texts()), strict=True)) for table in self.tables]
        parts = {
            name: {entry: row[name] for entry, row in self.breakdowns.items() if name in row}
            for name in ("strata", "metrics")
        }
        filled: dict[str, Any] = {name: table for name, table in parts.items() if table}
        filled |= {"turn_limits": [row.to_json() for row in self.limits]} if self.limits else {}
        return {"title": self.title, "tables": tables, "notes": list(self.notes), **filled}


def report_on(*runs: Run) -> RunReport:
    """Return the report on a run, finished or not; of several runs, their tables as one, with a column for the agent."""
    names = agent_names(runs)
    drafts = [_report(run) for run in runs]
    limits = limit_rows([(name, run.suite, draft[1]) for name, run, draft in zip(names, runs, drafts, strict=True)])
    reports = [draft[0] for draft in drafts]
    report = reports[0] if len(runs) == 1 else _join(names, reports)
    return replace(report, tables=(*report.tables, *limit_tables(limits)), limits=tuple(limits))


def agent_names(runs: Sequence[Run]) -> list[str]:
    """Return the names of runs' agents, with the folder of one that plays twice, numbered where even that is the same."""
    agents = [run.agent for run in runs]
    names = [f"{run.agent} ({run.folder.resolve().name})" if agents.count(run.agent) > 1 else run.agent for run in runs]
    return [f"{name}, {place}" if names.count(name) > 1 else name for place, name in enumerate(names, 1)]


def _join(names: Sequence[str], reports: Sequence[RunReport]) -> RunReport:
    """Join the reports of several runs into one: tables of one caption are merged, notes carry the run's name."""
    pairs = list(zip(names, reports, strict=True))
    parts: dict[str, list[tuple[str, Table]]] = {}
    for name, table in ((name, table) for name, report in pairs for table in report.tables):
        parts.setdefault(table.caption, []).append((name, table))
    notes = tuple(f"{name}: {note}" for name, report in pairs for note in report.notes)
    breakdowns = {f"{name}: {entry}": row for name, report in pairs for entry, row in report.breakdowns.items()}
    title = " · ".join(dict.fromkeys(report.title for report in reports))
    return RunReport(title, tuple(map(_merge_tables, parts.values())), notes, breakdowns)


def _merge_tables(parts: Sequence[tuple[str, Table]]) -> Table:
    """Merge tables of one caption; a cell of a column that a table lacks is empty."""
    heads = list(dict.fromkeys(head for _, table in parts for head in table.headers))
    rows = []
    for name, table in parts:
        for row in table.rows:
            cells = dict(zip(table.headers, row, strict=True))
            rows.append((name, *(cells.get(head, "") for head in heads)))
    return Table(parts[0][1].caption, ("agent", *heads), tuple(rows))


def limit_tables(rows: Sequence[LimitRow]) -> list[Table]:
    """Return one table for each subject of a sweep over turn limits."""
    heads = ("agent", "free turns", "episodes", "accuracy (95 % interval)", "abstained", "wrong", "turns an episode")
    groups: dict[str, list[tuple[str, ...]]] = {}
    for row in rows:
        rates = (rate.share if rate else "" for rate in (row.success, row.abstained, row.wrong))
        head = (row.series, str(row.free_turns), str(row.success.trials))
        low, high = row.turns_interval
        interval = "" if low is None else f" [{low:.2f}, {high:.2f}]"
        turns = ("" if row.turns is None else f"{row.turns:.2f}") + interval
        groups.setdefault(row.subject, []).append((*head, *rates, turns))
    return [Table(f"Against turn limits, {subject}", heads, tuple(cells)) for subject, cells in groups.items()]


def title_of(run: Run) -> str:
    """Return a run's title: its agent, and the suite or the environments."""
    suite = run.suite
    names = list(dict.fromkeys(entry.env_id.rpartition("/")[2] for entry in suite.entries))
    what = f"{', '.join(names[:3])}{' and more' if len(names) > 3 else ''}" if suite.id == ADHOC else suite.name
    return f"{run.agent} on {what}"


def _report(run: Run) -> tuple[RunReport, list[EpisodeNumbers]]:
    """Build the report of one run, and return it with the episodes' numbers."""
    measures = Measures()
    result, numbers = result_of_run(run, measures)
    summaries = result.summaries
    notes = [*result.notes, *result_notes(result), DETECTABLE]
    if result.settings.smoke:
        notes.append("a smoke run: only a part of the tasks was planned (-n); it cannot be packed or ranked")
    notes += measures.notes.values()
    breakdowns = {summary.entry: summary.breakdown() for summary in summaries}
    tables, curves = tables_of(result, numbers), curves_of(summaries, numbers)
    return RunReport(title_of(run), tables, tuple(notes), breakdowns, curves=curves), numbers


def tables_of(result: Result, numbers: Sequence[EpisodeNumbers]) -> tuple[Table, ...]:
    """Return the tables of success, trials, behaviour, outcomes, costs of feedback, and the families' own."""
    items = result.summaries
    first = [_success(result, numbers), *([_trials(items, numbers)] if result.suite.trials > 1 else [])]
    return (*first, _behaviour(items, numbers), _outcomes(items), *feedback_tables(items), *_families(items))


def curves_of(summaries: Sequence[Summary], numbers: Sequence[EpisodeNumbers]) -> tuple[Curve, ...]:
    """Return pass^k, if there are several trials, and histograms of turns and returns; over 6 entries only these, pooled."""
    groups = {
        summary.entry: [row for row in numbers if row.entry == summary.entry and row.complete] for summary in summaries
    }
    curves = []
    if len(summaries) > MOST_ENTRIES:
        groups = {"all entries": [row for row in numbers if row.complete]}
    elif any(summary.pass_hat for summary in summaries):
        rates = {summary.entry: {1: summary.success, **summary.pass_hat} for summary in summaries}
        lines = {name: tuple((float(k), *rate.percent) for k, rate in row.items()) for name, row in rates.items()}
        curves.append(Curve("All of k trials succeed (pass^k)", "trials k", "tasks, %", tuple(lines.items())))
    turns = {name: [float(row.turns) for row in rows] for name, rows in groups.items()}
    rewards = {name: [row.total_reward for row in rows] for name, rows in groups.items()}
    histograms = (
        histogram("Turns", "turns of an episode", turns, 1.0),
        histogram("Returns", "return of an episode", rewards),
    )
    return (*curves, *filter(None, histograms))


def result_notes(result: Result) -> list[str]:
    """Return warnings about a run's numbers, and the causes of its faults."""
    limit = result.settings.agent_options.get("max_tokens", MAX_TOKENS if is_chat_name(result.settings.agent) else None)
    notes = [line for summary in result.summaries for line in summary.warnings(f"max_tokens={limit}" if limit else "")]
    for item in result.summaries:
        notes += [f"{item.entry}: fault, {count} times: {cause[:500]}" for cause, count in item.fault_causes.items()]
    return notes


def feedback_tables(summaries: Sequence[Summary]) -> list[Table]:
    """Return the table of the tokens and cost of a run's feedback, for an episode and for all; [] if none was used."""
    heads = ("entry", "calls", "tokens in", "of them cached", "tokens out", "USD an episode", "USD")
    rows = []
    for summary in summaries:
        used = feedback_usage(summary.usage)
        if not used:
            continue
        each = [f"{used.get(name, 0) / summary.episodes:.2f}" for name in ("calls", "input", "cached", "output")]
        cost = summary.feedback_cost_usd
        dollars = ("not known",) * 2 if cost is None else (f"{cost / summary.episodes:.6f}", f"{cost:.4f}")
        rows.append((summary.entry, *each, *dollars))
    table = Table("Feedback: calls and tokens an episode, over the planned episodes", heads, tuple(rows))
    return [table] if rows else []


def _families(summaries: Sequence[Summary]) -> list[Table]:
    """Return the tables of families: success by each label of tasks, metrics, and metrics by each label.

    A label with one value only would repeat the table of all tasks, and has none.
    """
    labels = list(dict.fromkeys(label for item in summaries for label, rows in item.strata.items() if len(rows) > 1))
    tables = [_rates_by_label(summaries, label) for label in labels]
    if any(summary.metrics for summary in summaries):
        tables += [_metrics(summaries), *(_metrics_by(summaries, label) for label in labels)]
    return [table for table in tables if table.rows]


def _rates_by_label(summaries: Sequence[Summary], label: str) -> Table:
    """Tabulate success by the values of a task label."""
    rows = [
        (
            summary.entry, row.value, str(row.success.tasks), row.success,
            "" if row.mean_return is None else f"{row.mean_return:.3f}",
        )
        for summary in summaries
        for row in summary.strata.get(label, ())
    ]  # fmt: skip
    return Table(
        f"Success by {label}", ("entry", label, "tasks", "success (95 % interval)", "mean return"), tuple(rows)
    )


def _metrics(summaries: Sequence[Summary]) -> Table:
    """Tabulate each metric's mean over all episodes that ended, and its mean and percentiles over the solved."""
    rows = [
        (
            summary.entry, name, _mean(metric.overall, metric.share), str(metric.overall.episodes),
            _mean(metric.solved, metric.share), str(metric.solved.episodes),
            *(_percentile(at, metric) for at in (metric.solved.p10, metric.solved.median, metric.solved.p90)),
        )
        for summary in summaries
        for name, metric in summary.metrics.items()
    ]  # fmt: skip
    heads = ("entry", "metric", "mean (95 % interval)", "ended", "mean, solved (95 % interval)", "solved", "10th percentile",
             "median", "90th percentile")  # fmt: skip
    note = f"Percentiles are of the solved episodes, from {FEW} of them on."
    return Table("Metrics of all episodes that ended, and of the solved", heads, tuple(rows), note)


def _percentile(value: float | None, metric: Metric) -> str:
    """Return a percentile of the solved episodes as text; "-" of few."""
    return figure(value if metric.solved.episodes >= FEW else None, share=metric.share)


def _metrics_by(summaries: Sequence[Summary], label: str) -> Table:
    """Tabulate the means of metrics by the values of a task label."""
    strata = [(summary, row) for summary in summaries for row in summary.strata.get(label, ()) if row.metrics]
    names = list(dict.fromkeys(name for _, row in strata for name in row.metrics))
    rows = [
        (summary.entry, row.value, str(row.ended),
         *(figure(row.metrics.get(name), share=name in row.metrics and summary.metrics[name].share) for name in names))
        for summary, row in strata
    ]  # fmt: skip
    return Table(
        f"Metrics by {label}, means over the episodes that ended", ("entry", label, "ended", *names), tuple(rows)
    )


def _mean(spread: Spread, share: bool) -> str:
    """Return a mean with its interval in brackets, where it has one."""
    mean, low, high = (figure(value, share=share) for value in (spread.mean, *spread.interval))
    return mean if spread.interval[0] is None else f"{mean} [{low}, {high}]"


def _success(result: Result, numbers: Sequence[EpisodeNumbers]) -> Table:
    """Tabulate success, return, cost and smallest detectable difference by entry, with the suite's score and averages."""
    heads = ("entry", "split", "success (95 % interval)", "tasks x trials", "mean return", "cost, USD",
             "smallest difference to be seen, points")  # fmt: skip
    rows: list[tuple[str | Rate, ...]] = []
    for summary in result.summaries:
        mine = [row for row in numbers if row.entry == summary.entry]
        wins, tasks, homes = [row.success for row in mine], [row.task for row in mine], [row.cluster for row in mine]
        rows.append((
            summary.entry, summary.split, NO_RESULT if summary.verdict == NO_RESULT else summary.success,
            f"{summary.success.tasks} x {result.suite.trials}", f"{summary.mean_return:.3f}",
            "not known" if summary.cost_usd is None else f"{summary.cost_usd:.4f}",
            f"{100 * minimum_detectable(wins, tasks, homes):.1f}",
        ))  # fmt: skip
    if result.score is not None and len(result.summaries) > 1:
        rows.append(("score, weighted over the entries", "", result.score, "", "", "", ""))
    rows += [(name, "", rate, "", "", "", "") for name, rate in result.averages.items()]
    return Table("Success", heads, tuple(rows))


def _trials(summaries: Sequence[Summary], numbers: Sequence[EpisodeNumbers]) -> Table:
    """Tabulate pass^k and pass@k for k > 1, and the interval of a rerun of the same tasks."""
    heads = ("entry", "success, were the same tasks played again", "k", "pass^k", "pass@k")
    rows = []
    for summary in summaries:
        mine = [row for row in numbers if row.entry == summary.entry]
        low, high = rerun_interval([float(row.success) for row in mine], [row.task for row in mine])
        again = f"[{100 * low:.1f}, {100 * high:.1f}] %"
        rows += [
            (summary.entry, again, str(k), rate.share, summary.pass_at[k].share)
            for k, rate in summary.pass_hat.items()
            if k > 1
        ]
    return Table("Trials: all of k succeed (pass^k), any of k succeeds (pass@k)", heads, tuple(rows))


def _behaviour(summaries: Sequence[Summary], numbers: Sequence[EpisodeNumbers]) -> Table:
    """Tabulate valid actions, turns, calls, tokens and time of the episodes that ended."""
    heads = ("entry", "valid turns", "turns an episode", "tool calls an episode", "characters beside the action, a turn",
             "tokens in, an episode", "tokens out, an episode", "agent's seconds a turn")  # fmt: skip
    rows = []
    for summary in summaries:
        ended = [row for row in numbers if row.entry == summary.entry and row.complete]
        turns, valid = sum(row.turns for row in ended), sum(row.valid for row in ended)
        counted = not any(row.usage.get(UNCOUNTED) for row in ended)
        tokens = [counted * sum(row.usage.get(name, 0) for row in ended) for name in ("input", "output")]
        rows.append((
            summary.entry, f"{100 * summary.valid_actions:.1f} % ({valid} of {turns})", f"{summary.mean_turns:.2f}",
            f"{summary.mean_calls:.2f}", f"{summary.mean_prose:.0f}",
            *(f"{count / len(ended):.0f}" if count else "" for count in tokens),
            f"{sum(row.agent_seconds for row in ended) / max(turns, 1):.4f}",
        ))  # fmt: skip
    return Table("Behaviour, means over the episodes that ended", heads, tuple(rows))


def _outcomes(summaries: Sequence[Summary]) -> Table:
    """Tabulate the counts of each outcome and of retried episodes, with a bar of shares."""
    kinds = [kind for kind in FAILURES if any(summary.outcomes.get(kind) for summary in summaries)]
    colours = {kind: list(FAILURES).index(kind) for kind in kinds}
    heads: list[str | Cell] = ["entry", *(Cell(kind, tone=f"k{n}") for kind, n in colours.items()), "retried", "shares"]
    rows: tuple[tuple[str | StackedBar, ...], ...] = tuple(
        (summary.entry, *(str(summary.outcomes.get(kind, 0)) for kind in kinds), str(summary.retried),
         StackedBar(tuple((n, summary.outcomes.get(kind, 0) / summary.episodes) for kind, n in colours.items())))
        for summary in summaries
    )  # fmt: skip
    return Table(
        "How the episodes ended",
        tuple(heads),
        rows,
        "Retried: after an infrastructure error. The bar has the columns' order.",
    )


_MARKS = str.maketrans({
    **{mark: f"\\{mark}" for mark in "\\|*_`[]#!~"}, "<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " ",
})  # fmt: skip


def _cell(text: str) -> str:
    """Escape a text for a cell of a Markdown table."""
    return visible(str(text)).translate(_MARKS)
