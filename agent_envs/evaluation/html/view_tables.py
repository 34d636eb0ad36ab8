"""The tables of a run's index page show its numbers, what was played, and its episodes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent_envs.base.serialization import canonical_json
from agent_envs.evaluation.html.page import Bar, Cell, Table
from agent_envs.evaluation.report.report import result_notes, shared_grids
from agent_envs.evaluation.runs.episode_numbers import UNPLAYED, EpisodeNumbers
from agent_envs.evaluation.runs.evaluate import Result
from agent_envs.evaluation.runs.run_folder import Run
from agent_envs.evaluation.statistics.rates import Rate
from agent_envs.evaluation.suites.suite import ADHOC, Suite

ORDER = "The tasks with the fewest solved trials come first."
MOST_NOTES = 40


@dataclass(frozen=True, slots=True)
class Shown:
    """An episode as a row: its entry's place in the suite, its numbers, and where its transcript is ("" for nowhere)."""

    entry: int
    numbers: EpisodeNumbers
    href: str = ""


def title_of(run: Run) -> str:
    """Return what a run is called."""
    suite = run.suite
    if suite.id != ADHOC:
        return f"{run.agent} on {suite.name}"
    names = list(dict.fromkeys(entry.env_id.rpartition("/")[2] for entry in suite.entries))
    return f"{run.agent} on {', '.join(names[:3])}{' and more' if len(names) > 3 else ''}"


def badge(numbers: EpisodeNumbers) -> Cell:
    """Return an outcome as a badge; what was not played to its end is neither good nor bad."""
    tone = "odd" if numbers.outcome in UNPLAYED else "good" if numbers.success else "bad"
    return Cell(numbers.outcome, tone=tone)


def run_facts(run: Run, result: Result) -> tuple[tuple[str, str], ...]:
    """Return who played what, and what it took."""
    identity, items = run.config.identity, result.summaries
    planned, trials = sum(item.episodes for item in items), run.suite.trials
    tokens: Counter[str] = Counter()
    for item in items:
        tokens.update(item.usage)
    known = result.cost_usd
    seconds, agent_seconds = sum(item.seconds for item in items), sum(item.agent_seconds for item in items)
    rows = [
        ("agent", identity.agent),
        ("agent's options", canonical_json(identity.agent_options) if identity.agent_options else "none"),
        ("suite", f"{identity.suite}, digest {identity.suite_digest[:12]}"),
        *advice_facts(run.suite),
        ("episodes", f"{planned:,}, {trials} a task{', a smoke run' if identity.smoke else ''}"),
        ("agent-envs", identity.package),
        ("tokens", usage_text(tokens)),
        ("cost", "not known: no price" if known is None else f"{known:,.4f} USD" if known else "nothing"),
        ("episode time", f"{seconds:,.1f} s (agent {agent_seconds:,.1f} s)"),
    ]
    return tuple(rows)


def advice_facts(suite: Suite) -> list[tuple[str, str]]:
    """Return which feedback there was before every turn, if any."""
    told = list(dict.fromkeys(entry.feedback.label for entry in suite.entries if entry.feedback is not None))
    return [("feedback", ", ".join(label.removeprefix("feedback=") for label in told))] if told else []


def usage_text(usage: Mapping[str, int]) -> str:
    """Return counted tokens as text."""
    return ", ".join(f"{name} {count:,}" for name, count in sorted(usage.items())) or "none counted"


def run_notes(result: Result, more: Iterable[str]) -> tuple[str, ...]:
    """Return what a reader must know beside the numbers."""
    lines = [*result.notes, *result_notes(result), *more]
    left = len(lines) - MOST_NOTES
    return tuple(lines[:MOST_NOTES]) + ((f"{left} more notes are left out.",) if left > 0 else ())


def summary_tables(
    suite: Suite, result: Result, numbers: Sequence[EpisodeNumbers], places: Mapping[int, str]
) -> list[Table]:
    """Return the tables above the episodes; `places` has the link to each entry's episodes."""
    grids = [grid for part in shared_grids(result, numbers) for grid in part]
    return [_success(result, places), *(Table(grid.caption, grid.heads, grid.rows) for grid in grids), _played(suite)]


def episode_tables(suite: Suite, rows: Sequence[Shown]) -> list[Table]:
    """Return one table an entry, rows in their order."""
    groups: dict[int, list[Shown]] = {}
    for row in rows:
        groups.setdefault(row.entry, []).append(row)
    several = suite.trials > 1
    heads = ("task", *(("trial",) if several else ()), "outcome", "reward", "turns", "valid", "calls")
    tables = []
    for number, group in groups.items():
        label = suite.entries[number].label
        cells = tuple(_episode(row, several) for row in group)
        tables.append(Table(f"Episodes of {label}", heads, cells, ORDER, f"entry-{number + 1}"))
    return tables


def _episode(row: Shown, several: bool) -> tuple[str | Cell, ...]:
    item = row.numbers
    last = (
        badge(item), f"{item.total_reward:.4g}".replace("-", "−"), str(item.turns), str(item.valid), str(item.calls)
    )  # fmt: skip
    if several:
        return (item.task, Cell(f"trial {item.trial + 1}", row.href), *last)
    return (Cell(item.task, row.href), *last)


def _success(result: Result, places: Mapping[int, str]) -> Table:
    heads = ("entry", "split", "success (95 % interval)", "0 to 100 %", "valid actions", "turns", "calls", "return")
    rows: list[tuple[str | Cell | Bar, ...]] = []
    for number, item in enumerate(result.summaries):
        numbers = (f"{100 * item.valid_actions:.1f} %", f"{item.mean_turns:.2f}", f"{item.mean_calls:.2f}",
                   f"{item.mean_return:.3f}".replace("-", "−"))  # fmt: skip
        label = Cell(item.entry, places.get(number, ""))
        rows.append((label, item.split, item.verdict, _bar(item.success), *numbers))
    if result.score is not None and len(rows) > 1:
        rows.append(("score, weighted over the entries", "", result.score.text(), _bar(result.score)))
    rows += [(name, "", rate.text(), _bar(rate)) for name, rate in result.averages.items()]
    note = "Rates are over the n planned episodes; turns, calls and return are means over those that ended."
    return Table("Success", heads, tuple(rows), note)


def _bar(rate: Rate) -> Bar:
    return Bar(rate.value, rate.low, rate.high)


def _played(suite: Suite) -> Table:
    columns = (
        ("entry", [entry.label for entry in suite.entries]),
        ("environment", [entry.env_id for entry in suite.entries]),
        ("arguments", [canonical_json(entry.arguments) if entry.arguments else "" for entry in suite.entries]),
        ("split", [entry.split for entry in suite.entries]),
        ("tasks", [f"{len(entry.tasks):,}" for entry in suite.entries]),
        ("turn limit", ["" if entry.turn_limit is None else str(entry.turn_limit) for entry in suite.entries]),
        ("counts as success", [entry.success for entry in suite.entries]),
        ("weight", [f"{entry.weight:g}" for entry in suite.entries]),
        ("spec digest", [entry.spec_digest[:12] for entry in suite.entries]),
    )
    filled = [(name, cells) for name, cells in columns if any(cells)]
    rows = tuple(zip(*(cells for _, cells in filled), strict=True))
    return Table("What was played", tuple(name for name, _ in filled), rows)
