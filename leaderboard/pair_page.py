"""Two rows of a board beside each other: the difference, entry by entry, and the tasks on which they differ most."""

from collections.abc import Mapping
from typing import Any

from agent_envs.evaluation.html.page import Bar, Cell, Page, Table
from agent_envs.evaluation.report.charts import Forest, points
from agent_envs.evaluation.statistics.paired import Paired, p_text
from agent_envs.evaluation.suites.suite import suite_names
from leaderboard.standings import Pair, Standings, StandingsRow

MOST_TASKS = 40


def pair_json(pair: Pair, entries: Mapping[str, Paired] | None = None) -> dict[str, Any]:
    """Return a comparison as plain data, entry by entry if these are given; p values are not corrected."""
    row = {"first": pair.first, "second": pair.second, "difference": pair.difference, "interval": [pair.low, pair.high],
           "p": pair.p_value}  # fmt: skip
    if entries is None:
        return row
    return row | {"entries": {
        label: {"difference": item.difference, "interval": [item.low, item.high], "p": item.p_value,
                "detectable": item.detectable}
        for label, item in entries.items()
    }}  # fmt: skip


def pair_page(
    standings: Standings,
    pair: Pair,
    rows: tuple[StandingsRow, StandingsRow],
    links: Mapping[str, str],
    anchors: Mapping[str, set[str]],
) -> Page:
    """Return the page that compares a pair: facts, differences over the suite and each entry, and the tasks that differ most.

    Args:
        standings: that both stand in.
        pair: the two.
        rows: their rows, in its order.
        links: submission -> its page; "" -> the board's.
        anchors: submission -> anchors of the episodes that its page shows.
    """
    first, second = (row.entrant.submission.agent.name for row in rows)
    entries = standings.outcomes.entries(*(row.entrant.verdict for row in rows))
    forest = Forest.over([pair, *entries.values()])
    facts = (
        *((f"{place}: {row.entrant.submission.agent.name}", f"{row.score.text()}, place {row.place}")
          for place, row in zip(("first", "second"), rows, strict=True)),
        ("second minus first, points", points(pair)), ("p value", p_text(pair.p_value)),
        ("after Holm's correction", p_text(pair.adjusted)), ("told apart", "yes" if pair.is_significant else "no"),
    )  # fmt: skip
    verdicts = [row.entrant.verdict for row in rows]
    table: list[tuple[str | Cell | Bar, ...]] = [
        (
            "the suite",
            *(f"{100 * row.score.value:.1f} %" for row in rows),
            points(pair),
            forest.bar(pair),
            p_text(pair.p_value),
        )
    ]
    for place, (label, item) in enumerate(entries.items()):
        rates = (f"{100 * verdict.entries[place]['success']:.1f} %" for verdict in verdicts)
        table.append(
            (label, *rates, points(item), forest.bar(item), p_text(item.p_value), f"{100 * item.detectable:.1f}")
        )
    heads = ("over", "first", "second", "second minus first, points (95 % interval)", forest.head, "p value",
             "smallest difference to be seen, points")  # fmt: skip
    note = (
        "P values are not corrected. A true difference below the last column's would probably go unseen (80 % power)."
    )
    tables = (
        Table("Entry by entry", heads, tuple(table), note),
        _sides(standings, rows),
        _tasks(standings, rows, links, anchors),
    )
    link_cells = (
        Cell("the board", links[""]),
        Cell("first row", links[pair.first]),
        Cell("second row", links[pair.second]),
    )
    intro = "Two rows of one class on the same tasks: what makes tasks hard for both cancels."
    tables_with_rows = tuple(item for item in tables if item.rows)
    return Page(f"{second} minus {first}", intro, tables_with_rows, facts=facts, links=link_cells)


def _sides(standings: Standings, rows: tuple[StandingsRow, StandingsRow]) -> Table:
    """Count by entry the tasks where the first or the second row succeeds more often, both alike, or neither ever."""
    counts = []
    for entry, before, after in zip(
        standings.suite.entries, *(standings.outcomes.of(row.entrant.verdict) for row in rows), strict=True
    ):
        moved = after.mean(1) - before.mean(1)
        solved = int((before.mean(1) + after.mean(1) == 0).sum())
        counts.append(
            (entry.label, *map(str, (int((moved < 0).sum()), int((moved > 0).sum()), int((moved == 0).sum()), solved)))
        )
    heads = ("entry", "first more often", "second more often", "alike", "of these: neither ever")
    return Table("Tasks by who succeeds more often", heads, tuple(counts))


def _tasks(
    standings: Standings,
    rows: tuple[StandingsRow, StandingsRow],
    links: Mapping[str, str],
    anchors: Mapping[str, set[str]],
) -> Table:
    """Tabulate the 40 tasks on which they differ most, with links to transcripts; no rows for a suite that is not shipped."""
    suite, differences = standings.suite, []
    if suite.id in suite_names():
        for entry, before, after in zip(
            suite.entries, *(standings.outcomes.of(row.entrant.verdict) for row in rows), strict=True
        ):
            moved = after.sum(1) - before.sum(1)
            for place in moved.nonzero()[0]:
                differences.append((-abs(moved[place]), entry, entry.tasks[place][0], before[place], after[place]))
    cells: list[tuple[str | Cell | Bar, ...]] = []
    for _, entry, task, *sides in sorted(differences, key=lambda item: item[0])[:MOST_TASKS]:
        row: list[str | Cell] = [entry.label, task]
        for side, wins in zip(rows, sides, strict=True):
            name = side.entrant.verdict.submission
            candidates = (f"e-{suite.key(entry, task, trial)}" for trial in range(suite.trials))
            href = next((f"{links[name]}#{anchor}" for anchor in candidates if anchor in anchors.get(name, ())), "")
            row.append(Cell(f"{int(wins.sum())} of {suite.trials}", href))
        cells.append(tuple(row))
    note = "Successes of trials. A link leads to a transcript, where the row's page has one."
    more = f" {len(differences) - len(cells)} more tasks differ." if len(differences) > len(cells) else ""
    return Table("Tasks on which they differ most", ("entry", "task", "first", "second"), tuple(cells), note + more)
