"""The tables of a run's index page show its numbers, what was played, and its episodes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from agent_envs.base.serialization import canonical_json
from agent_envs.evaluation.html.page import Cell, Curve, Table
from agent_envs.evaluation.report.report import curves_of, result_notes, tables_of
from agent_envs.evaluation.runs.episode_numbers import UNPLAYED, EpisodeNumbers
from agent_envs.evaluation.runs.evaluate import Result
from agent_envs.evaluation.runs.run_folder import Run
from agent_envs.evaluation.suites.suite import Suite

ORDER = "The tasks with the fewest solved trials come first."
MOST_NOTES = 40
TEXTS = ("question", "answer", "gold")


@dataclass(frozen=True, slots=True)
class Shown:
    """An episode as a row.

    Attributes:
        key: of the episode.
        place: in the plan, from 1.
        entry: its entry's, from 0.
        numbers: what counts of it.
        texts: the beginnings of `TEXTS`, "" where they are not known.
        href: to its transcript, "" where there is none.
    """

    key: str
    place: int
    entry: int
    numbers: EpisodeNumbers
    texts: tuple[str, str, str] = ("", "", "")
    href: str = ""

    @property
    def anchor(self) -> str:
        """Where its transcript stands on its page."""
        return f"e{self.place}"


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
    advice = dict.fromkeys(entry.feedback.label for entry in run.suite.entries if entry.feedback is not None)
    seconds, agent_seconds = sum(item.seconds for item in items), sum(item.agent_seconds for item in items)
    rows = [
        ("agent", identity.agent),
        ("agent's options", canonical_json(identity.agent_options) if identity.agent_options else "none"),
        ("suite", f"{identity.suite}, digest {identity.suite_digest[:12]}"),
        *([("feedback", ", ".join(label.removeprefix("feedback=") for label in advice))] if advice else []),
        ("episodes", f"{planned:,}, {trials} a task{', a smoke run' if identity.smoke else ''}"),
        ("agent-envs", identity.package),
        ("tokens", usage_text(tokens)),
        ("cost", "not known: no price" if known is None else f"{known:,.4f} USD" if known else "nothing"),
        ("episode time", f"{seconds:,.1f} s (agent {agent_seconds:,.1f} s)"),
    ]
    return tuple(rows)


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
) -> list[Table | Curve]:
    """Return the tables and figures above the episodes; `places` has the link to each entry's episodes."""
    success, *tables = tables_of(result, numbers)
    linked = tuple((Cell(str(row[0]), places.get(n, "")), *row[1:]) for n, row in enumerate(success.rows))
    return [replace(success, rows=linked), *tables, *curves_of(result.summaries, numbers), _played(suite)]


def episode_tables(suite: Suite, rows: Sequence[Shown]) -> list[Table]:
    """Return one table an entry, rows in their order; without columns of which nothing is known."""
    groups: dict[int, list[Shown]] = {}
    for row in rows:
        groups.setdefault(row.entry, []).append(row)
    several, tables = suite.trials > 1, list[Table]()
    for number, group in groups.items():
        known = [n for n in range(len(TEXTS)) if any(row.texts[n] for row in group)]
        heads = (
            "task", *(("trial",) if several else ()), *(TEXTS[n] for n in known), "outcome", "reward", "turns", "valid",
            "calls",
        )  # fmt: skip
        cells = tuple(_episode(row, several, known) for row in group)
        caption = f"Episodes of {suite.entries[number].label}"
        tables.append(Table(caption, heads, cells, ORDER, f"entry-{number + 1}", heads.index("outcome")))
    return tables


def _episode(row: Shown, several: bool, known: Sequence[int]) -> tuple[str | Cell, ...]:
    item = row.numbers
    name = (item.task, Cell(f"trial {item.trial + 1}", row.href)) if several else (Cell(item.task, row.href),)
    counts = (f"{item.total_reward:.4g}".replace("-", "−"), str(item.turns), str(item.valid), str(item.calls))
    return (*name, *(row.texts[n] for n in known), badge(item), *counts)


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
