"""Success by the labels of tasks: what a family tells of its tasks (kind, size, hops) splits a suite, for all rows alike."""

from collections.abc import Sequence

from agent_envs.evaluation.html.page import Cell, Table
from agent_envs.evaluation.runs.measures import EpisodeNumbers, Measures
from agent_envs.evaluation.runs.summary import natural
from agent_envs.evaluation.statistics.rates import success_rate
from agent_envs.evaluation.suites.suite import Suite, suite_names
from leaderboard.standings import StandingsRow

MOST_AGENTS = 8  # columns of a board's table
Strata = dict[str, dict[tuple[str, str], list[tuple[str, EpisodeNumbers]]]]  # label -> (entry, value) -> keys and tasks


def strata_of(suite: Suite) -> Strata:
    """Return planned episodes by label, entry and value, of labels with several values; {} for a suite that is not shipped."""
    strata: Strata = {}
    if suite.id in suite_names():
        planned = Measures().plan_numbers(suite, {})
        for (key, *_), item in zip(suite.episodes(), planned, strict=True):
            for label, value in item.labels.items():
                strata.setdefault(label, {}).setdefault((item.entry, value), []).append((key, item))
    several = {label: {entry for entry, _ in table if sum(name == entry for name, _ in table) > 1}
               for label, table in strata.items()}  # fmt: skip
    return {
        label: {place: strata[label][place] for place in sorted(strata[label], key=lambda place: (place[0], natural(place[1])))
                if place[0] in several[label]}
        for label in strata
        if several[label]
    }  # fmt: skip


def board_strata(strata: Strata, rows: Sequence[StandingsRow]) -> list[Table]:
    """Return a table for each label with the success of the first 8 rows but registered ones; no lines without rows."""
    rows = [row for row in rows if row.entrant.registered_suite is None]  # registered rows have tasks of their own
    top_rows = rows[:MOST_AGENTS]
    won = [{item.key for item in row.entrant.verdict.episodes if item.success} for row in top_rows]
    note = f"Per cent; intervals stand on the rows' pages.{f' The best {MOST_AGENTS} rows.' if len(rows) > MOST_AGENTS else ''}"
    tables = []
    for label, table in strata.items():
        lines: list[tuple[str | Cell, ...]] = []
        for (entry, value), episodes in table.items():
            shares = [sum(key in keys for key, _ in episodes) / len(episodes) for keys in won]
            cells = [Cell(f"{100 * share:.1f}", tone=f"h{round(10 * share)}") for share in shares]
            lines.append((entry, value, f"{len({item.task for _, item in episodes})}", *cells))
        heads = ("entry", label, "tasks", *(row.entrant.submission.agent.name for row in top_rows))
        tables.append(Table(f"Success by {label}", heads, tuple(lines) if top_rows else (), note))
    return tables


def row_strata(strata: Strata, row: StandingsRow) -> list[Table]:
    """Return tables with the success of one row and its intervals, one a label."""
    won = {item.key for item in row.entrant.verdict.episodes if item.success}
    tables = []
    for label, table in strata.items():
        lines = []
        for (entry, value), episodes in table.items():
            items = [item for _, item in episodes]
            wins = [float(key in won) for key, _ in episodes]
            rate = success_rate(wins, [item.task for item in items], [item.cluster for item in items])
            lines.append((entry, value, rate))
        tables.append(Table(f"Success by {label}", ("entry", label, "success (95 % interval)"), tuple(lines)))
    return tables
