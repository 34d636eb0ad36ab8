"""A board's page draws success against tokens, success by turns, and success by family as a heat map."""

from collections import defaultdict
from collections.abc import Sequence

from agent_envs.core.registry import TABLE
from agent_envs.evaluation.html.page import Cell, Curve, Table
from agent_envs.evaluation.suites.suite import Entry, Suite
from leaderboard.standings import StandingsRow

MOST_CURVES, MOST_DOTS, MOST_TURNS = 6, 24, 60


def cost_chart(rows: Sequence[StandingsRow]) -> Curve | None:
    """Return success against tokens an episode, of the best rows whose submission tells its tokens; None without two."""
    rows_with_tokens = [row for row in rows if row.tokens is not None][:MOST_DOTS]
    if len(rows_with_tokens) < 2:
        return None
    series = tuple(
        (f"{number}: {row.entrant.submission.agent.name}",
         ((row.tokens or 0.0, 100 * row.score.value, 100 * row.score.low, 100 * row.score.high),))
        for number, row in enumerate(rows_with_tokens, start=1)
    )  # fmt: skip
    return Curve("Success against cost", "tokens read and written, an episode, by the submitter", "score, %", series)


def turns_chart(suite: Suite, rows: Sequence[StandingsRow]) -> Curve | None:
    """Return the share of the score that the first 6 rows reach by turn; None where no success took 2 turns or more.

    It says how long successes take, and not what a lower turn limit would give: an agent that knew of one might hurry.
    """
    rows = rows[:MOST_CURVES]
    longest = max((item.turns for row in rows for item in row.entrant.verdict.episodes if item.success), default=0)
    if longest < 2:
        return None
    turns = sorted({max(1, round(longest * step / MOST_TURNS)) for step in range(MOST_TURNS + 1)})
    shares: dict[str, dict[str, float]] = {}  # registered rows have suites of their own
    series = []
    for row in rows:
        row_suite = row.entrant.registered_suite or suite
        if row_suite.id not in shares:
            shares[row_suite.id] = _shares(row_suite)
        reached = [
            (item.turns, shares[row_suite.id][item.key]) for item in row.entrant.verdict.episodes if item.success
        ]
        points = tuple((float(t), 100 * sum(share for n, share in reached if n <= t), None, None) for t in turns)
        series.append((row.entrant.submission.agent.name, points))
    return Curve("Success within so many turns", "turns", "episodes, at the suite's weights, %", tuple(series))


def _shares(suite: Suite) -> dict[str, float]:
    """Return each episode's share of the score, by its key."""
    total = sum(entry.weight for entry in suite.entries)
    return {key: entry.weight / total / (len(entry.tasks) * suite.trials) for key, entry, *_ in suite.episodes()}


def heat_map(suite: Suite, rows: Sequence[StandingsRow]) -> Table:
    """Return success by family, agents x families, as means at the entries' weights; no rows where there is one family."""
    family_names = {row.id: row.family.replace("_", " ") for row in TABLE}
    families: dict[str, list[Entry]] = defaultdict(list)
    for entry in suite.entries:
        families[family_names.get(entry.env_id, entry.env_id)].append(entry)
    cells: list[tuple[str | Cell, ...]] = []
    for row in rows:
        successes = {item["entry"]: item["success"] for item in row.entrant.verdict.entries}
        line: list[str | Cell] = [row.entrant.submission.agent.name]
        for entries in families.values():
            mine = [entry for entry in entries if entry.label in successes]  # tasks of some cannot be drawn
            weight = sum(entry.weight for entry in mine)
            value = sum(entry.weight * successes[entry.label] for entry in mine) / weight if mine else 0.0
            line.append(Cell(f"{100 * value:.1f}", tone=f"h{round(10 * value)}") if mine else "")
        cells.append(tuple(line))
    return Table("Success by family, %", ("agent", *families), tuple(cells) if len(families) > 1 else ())
