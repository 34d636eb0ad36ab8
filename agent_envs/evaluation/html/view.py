"""`agent-envs view` writes a run as static pages: an index of its numbers and episodes, and transcripts, at most 50 a page.

The journal is read once. Transcripts wait on disk, so that of ten thousand episodes only the numbers are held.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from agent_envs.base.errors import AgentEnvsError, UsageError
from agent_envs.core.trajectory import Header
from agent_envs.evaluation.html.index_page import LinkedPages
from agent_envs.evaluation.html.page import Cell, Drawn, Page, Table, Transcript, draw
from agent_envs.evaluation.html.replayed_view import ReplayReader
from agent_envs.evaluation.html.view_tables import (
    ORDER,
    Shown,
    badge,
    episode_tables,
    run_facts,
    run_notes,
    summary_tables,
    title_of,
    usage_text,
)
from agent_envs.evaluation.runs.episode_numbers import EpisodeNumbers
from agent_envs.evaluation.runs.evaluate import result_from
from agent_envs.evaluation.runs.measures import EntryTasks, Measures
from agent_envs.evaluation.runs.run_folder import Run, Spool, open_run
from agent_envs.evaluation.suites.suite import Entry
from agent_envs.rollout.episode_runner import EpisodeResult
from agent_envs.rollout.run_log import result_of

Progress = Callable[[int, int, float], None]

TRANSCRIPTS_A_PAGE = 50
BYTES_A_PAGE = 2_500_000
ROWS_A_PAGE = 2_000
PICTURE_BYTES = 50_000_000  # of all pages together


@dataclass(frozen=True, slots=True)
class _Episode:
    """An episode of the journal: its key, its place in the plan (from 1), and its entry's (from 0)."""

    key: str
    place: int
    entry: int
    numbers: EpisodeNumbers

    @property
    def anchor(self) -> str:
        return f"e{self.place}"


def write_view(folder: Path, target: Path, *, most: int | None = None, progress: Progress | None = None) -> Path:
    """Write the pages of a run and return the path of the first, `index.html`.

    Args:
        folder: of the run; it may be unfinished.
        target: a new or empty folder, or one of an earlier view, whose pages are replaced.
        most: at most so many transcripts, as many from each entry; None for all.
        progress: called with (transcripts written, to be written, successes among them).

    Raises:
        UsageError: there is no run, the target holds other files, or pages cannot be written there.
    """
    if most is not None and most < 1:
        raise UsageError(f"view: most={most}; give a number >= 1")
    run = open_run(folder)
    try:
        return _write_site(run, LinkedPages(target), most, progress)
    except AgentEnvsError:
        raise
    except OSError as error:
        raise UsageError(
            f"view: the pages of {folder} cannot be written to {target}: {error.strerror or error}"
        ) from error


def _write_site(run: Run, site: LinkedPages, most: int | None, progress: Progress | None) -> Path:
    with tempfile.TemporaryFile(dir=site.folder) as file:
        results = Spool(file)
        measures = Measures()
        episodes = _ordered(_read(run, results, measures))
        chosen = _chosen(episodes, most)
        golds = GoldAnswers()
        links = _write_transcripts(run, site, _transcripts(run, results, chosen, golds, progress), len(chosen))
    rows = [Shown(item.entry, item.numbers, links.get(item.place, "")) for item in episodes]
    numbers = measures.planned(run.suite, {item.key: item.numbers for item in episodes})
    notes = (*_left_out(episodes, chosen), *golds.notes.values(), *measures.notes.values())
    index = _write_index(run, site, rows, numbers, notes)
    return index


def _read(run: Run, results: Spool, measures: Measures) -> list[_Episode]:
    labels = {entry.label: number for number, entry in enumerate(run.suite.entries)}
    places = {key: place for place, (key, *_) in enumerate(run.suite.episodes(), 1)}
    found: dict[str, _Episode] = {}
    for played in run.rows():
        results.put(played.key, _text_of(played.result))
        numbers = played.numbers(measures)
        found[played.key] = _Episode(played.key, places[played.key], labels[played.entry.label], numbers)
    return list(found.values())


def _text_of(result: EpisodeResult) -> str:
    row = {name: getattr(result, name) for name in ("status", "fault", "usage", "attempts", "seconds", "agent_seconds")}
    return json.dumps({"key": "", **row, "trajectory": result.trajectory.to_json()})


def _ordered(episodes: list[_Episode]) -> list[_Episode]:
    """Return the episodes entry by entry, trials of a task together, the tasks with the fewest solved trials first."""
    wins: Counter[tuple[int, str]] = Counter()
    first: dict[tuple[int, str], int] = {}
    for item in episodes:
        task = (item.entry, item.numbers.task)
        wins[task] += item.numbers.success
        first[task] = min(first.get(task, item.place), item.place)

    def rank(item: _Episode) -> tuple[int, int, int, int]:
        task = (item.entry, item.numbers.task)
        return item.entry, wins[task], first[task], item.place

    return sorted(episodes, key=rank)


def _chosen(episodes: list[_Episode], most: int | None) -> list[_Episode]:
    """Return those whose transcripts are shown: the first of each entry, as many from each as there is room for."""
    if most is None or most >= len(episodes):
        return episodes
    seen: Counter[int] = Counter()
    turn: dict[int, int] = {}
    for item in episodes:
        turn[item.place] = seen[item.entry]
        seen[item.entry] += 1
    kept = {item.place for item in sorted(episodes, key=lambda item: (turn[item.place], item.entry))[:most]}
    return [item for item in episodes if item.place in kept]


def _left_out(episodes: list[_Episode], chosen: list[_Episode]) -> list[str]:
    if len(chosen) == len(episodes):
        return []
    return [
        f"{len(chosen):,} of {len(episodes):,} transcripts are written: from each entry those that stand first in its table. "
        "The other rows have no link."
    ]


def _transcripts(
    run: Run, results: Spool, chosen: list[_Episode], golds: "GoldAnswers", progress: Progress | None
) -> Iterator[tuple[_Episode, Drawn]]:
    wins, room = 0, PICTURE_BYTES
    with ReplayReader(run.externals) as reader:
        for number, item in enumerate(chosen, 1):
            result = result_of(json.loads(results.get(item.key)), run.folder)[1]
            entry = run.suite.entries[item.entry]
            gold = golds.of(entry, result.trajectory.header)
            shown = _transcript(run, item, result, gold)
            seen = reader.of(entry, result.trajectory, pictured=room > 0)
            note = "\n".join(filter(None, (shown.note, seen.note)))
            drawn = draw(
                replace(shown, conversation=seen.conversation, pictures=seen.pictures, note=note), BYTES_A_PAGE
            )
            room -= drawn.picture_bytes
            yield item, drawn
            wins += item.numbers.success
            if progress is not None:
                progress(number, len(chosen), wins)


def _transcript(run: Run, item: _Episode, result: EpisodeResult, gold: tuple[str, ...]) -> Transcript:
    numbers, several = item.numbers, run.suite.trials > 1
    trial = f"{numbers.trial + 1} of {run.suite.trials}"
    parts = [numbers.entry] if len(run.suite.entries) > 1 else []
    title = ", ".join([*parts, numbers.task, *([f"trial {trial}"] if several else [])])
    meta = [
        ("cluster", numbers.cluster), ("trial", trial), ("episode key", item.key), ("status", numbers.status),
        ("valid actions", f"{numbers.valid} of {numbers.turns}"), ("tokens", usage_text(result.usage)),
        ("time", f"{result.seconds:.3f} s (agent {result.agent_seconds:.3f} s)"),
        ("failed attempts", str(len(result.attempts))),
    ]  # fmt: skip
    lines = [f"Attempt {number} failed: {cause[:2_000]}" for number, cause in enumerate(result.attempts[:20], 1)]
    if result.fault:
        lines.append(f"{numbers.outcome}: {result.fault[:2_000]}")
    if gold:
        meta.append(("gold answers", "; ".join(gold)))
    return Transcript(item.anchor, title, tuple(meta), result.trajectory, "\n".join(lines), badge(numbers))


def _write_transcripts(
    run: Run, site: LinkedPages, transcripts: Iterator[tuple[_Episode, Drawn]], total: int
) -> dict[int, str]:
    """Write `pages/0001.html` and so on, and return the link from the index to each episode, by its place."""
    links: dict[int, str] = {}
    batch: list[Drawn] = []
    number, before, size = 1, 0, 0

    def write(last: bool) -> None:
        nonlocal number, before, size
        span = f"Transcripts {before + 1:,} to {before + len(batch):,} of {total:,}."
        page = Page(
            f"{title_of(run)}, page {number}", f"{span} {ORDER}", transcripts=tuple(batch), links=_ways(number, last)
        )
        site.write(f"pages/{number:04}.html", page)
        number, before, size = number + 1, before + len(batch), 0
        batch.clear()

    for item, drawn in transcripts:
        length = len(drawn.html.encode("utf-8"))
        if batch and (len(batch) == TRANSCRIPTS_A_PAGE or size + length > BYTES_A_PAGE):
            write(last=False)
        batch.append(drawn)
        size += length
        links[item.place] = f"pages/{number:04}.html#{item.anchor}"
    if batch:
        write(last=True)
    return links


def _ways(number: int, last: bool) -> tuple[Cell, ...]:
    """Return the links of a page that is one of several, beside the index."""
    ways = [Cell("index", "../index.html")]
    ways += [Cell("previous page", f"{number - 1:04}.html")] if number > 1 else []
    ways += [] if last else [Cell("next page", f"{number + 1:04}.html")]
    return tuple(ways)


def _write_index(
    run: Run, site: LinkedPages, rows: list[Shown], numbers: list[EpisodeNumbers], notes: tuple[str, ...]
) -> Path:
    """Write the index; the rows of many episodes go to pages of their own, `episodes/0001.html` and so on."""
    suite, title = run.suite, title_of(run)
    result = result_from(suite, run.config.settings(), numbers, run.config.prices)
    tables, places = _episode_pages(run, site, rows) if len(rows) > ROWS_A_PAGE else _own_tables(run, rows)
    planned = sum(item.episodes for item in result.summaries)
    intro = f"{len(rows):,} of {planned:,} planned episodes are in this run."
    page = Page(
        title, intro, (*summary_tables(suite, result, numbers, places), *tables),
        facts=run_facts(run, result), notes=run_notes(result, notes),
    )  # fmt: skip
    return site.write("index.html", page)


def _own_tables(run: Run, rows: list[Shown]) -> tuple[list[Table], dict[int, str]]:
    return episode_tables(run.suite, rows), {row.entry: f"#entry-{row.entry + 1}" for row in rows}


def _episode_pages(run: Run, site: LinkedPages, rows: list[Shown]) -> tuple[list[Table], dict[int, str]]:
    places: dict[int, str] = {}
    cells: list[tuple[str | Cell, ...]] = []
    for number, start in enumerate(range(0, len(rows), ROWS_A_PAGE), 1):
        part = rows[start : start + ROWS_A_PAGE]
        name, last = f"episodes/{number:04}.html", start + len(part) == len(rows)
        linked = [replace(row, href=row.href and f"../{row.href}") for row in part]
        span = f"{start + 1:,} to {start + len(part):,}"
        page = Page(f"{title_of(run)}, episodes {span}", f"Of {len(rows):,} episodes.",
                    tuple(episode_tables(run.suite, linked)), links=_ways(number, last))  # fmt: skip
        site.write(name, page)
        for row in part:
            places.setdefault(row.entry, f"{name}#entry-{row.entry + 1}")
        labels = list(dict.fromkeys(run.suite.entries[row.entry].label for row in part))
        solved = sum(row.numbers.success for row in part)
        more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        cells.append((Cell(span, name), f"{labels[0]}{more}", f"{len(part) - solved:,}"))
    table = Table("Episodes", ("episodes", "entry", "not solved"), tuple(cells), ORDER)
    return [table], places


class GoldAnswers:
    """Reads one entry's source at a time: ask for the tasks of an entry together."""

    def __init__(self) -> None:
        """Start with none."""
        self.notes: dict[str, str] = {}
        self._entry: Entry | None = None

    def of(self, entry: Entry, header: Header) -> tuple[str, ...]:
        """Return the gold answers of an episode's task; none, and a line in `notes`, where they are not known here."""

        def missing(why: str) -> None:
            self.notes.setdefault(entry.label, f"{entry.label}: gold answers are not shown, as {why}.")

        if entry is not self._entry:
            self._entry, self._tasks = entry, EntryTasks(entry, missing)
        if ":" in entry.env_id:  # a page must not import what a run's file names
            missing("its environment is not registered here")
            return ()
        task = self._tasks.get(header.task_id, header.task_digest) if header.task_digest else None
        return () if task is None else task.gold
