"""`agent-envs view` writes a run as static pages: an index of its numbers and episodes, and transcripts, at most 50 a page.

The journal is read once. Transcripts wait on disk, so that of ten thousand episodes only the numbers are held.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent_envs.base.errors import AgentEnvsError, UsageError
from agent_envs.base.protocol import Answer
from agent_envs.base.serialization import canonical_json
from agent_envs.evaluation.html.page import Cell, Curve, LinkedPages, Page, RenderedTranscript, Table, Transcript, draw
from agent_envs.evaluation.html.replayed_view import ReplayedEpisode, ReplayReader
from agent_envs.evaluation.report.report import DETECTABLE, curves_of, result_notes, tables_of, title_of
from agent_envs.evaluation.runs.evaluate import Result, result_from
from agent_envs.evaluation.runs.measures import FAILURES, UNPLAYED, EpisodeNumbers, Measures
from agent_envs.evaluation.runs.run_folder import Run, Spool, open_run
from agent_envs.evaluation.suites.suite import ADHOC, Suite
from agent_envs.rollout.episode_runner import EpisodeResult
from agent_envs.rollout.run_many import result_of
from agent_envs.services.chat.model import known_counts

Progress = Callable[[int, int, float], None]

TRANSCRIPTS_A_PAGE = 50
BYTES_A_PAGE = 2_500_000
ROWS_A_PAGE = 500
LONGEST_TEXT = 160  # characters of a question, an answer or a gold answer in a list
PICTURE_BYTES = 50_000_000  # of all pages together
ORDER = "The tasks with the fewest solved trials come first."
MOST_NOTES = 40
TEXTS = ("question", "answer", "gold")


@dataclass(frozen=True, slots=True)
class ViewRow:
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


def write_view(folder: Path, target: Path, *, most: int | None = None, progress: Progress | None = None) -> Path:
    """Write a run's pages and return the path of `index.html`; UsageError without a run or for a target that is not fit.

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
    """Write the pages of a run: transcripts of at most `most` episodes, and an index of all; return the index's path."""
    with tempfile.TemporaryFile(dir=site.folder) as file:
        results = Spool(file)
        measures = Measures()
        episodes = _sort_rows(_read(run, results, measures))
        subset = _rows_with_transcripts(episodes, most)
        with ReplayReader(run.externals) as reader:
            links = _write_transcripts(run, site, _transcripts(run, results, subset, reader, progress), len(subset))
            rows = [replace(row, texts=_texts(run, row, reader), href=links.get(row.place, "")) for row in episodes]
    numbers = measures.plan_numbers(run.suite, {row.key: row.numbers for row in episodes})
    notes = [*reader.notes.values(), *measures.notes.values()]
    if len(subset) < len(episodes):
        count = f"{len(subset):,} of {len(episodes):,} transcripts are written"
        notes.insert(0, f"{count}: from each entry those that stand first in its table. The other rows have no link.")
    return _write_index(run, site, rows, numbers, notes)


def _texts(run: Run, row: ViewRow, reader: ReplayReader) -> tuple[str, str, str]:
    """Return an episode's question, answer and gold as a list shows them; question and gold are "" without the task."""
    task = reader.task(run.suite.entries[row.entry], row.numbers.task)
    return (_one_line(task.question) if task else "", row.texts[1], _one_line("; ".join(task.gold)) if task else "")


def _one_line(text: str) -> str:
    """Return a text as one line, cut with an ellipsis where it is longer."""
    line = " ".join(text[: 4 * LONGEST_TEXT].split())
    return line if len(line) <= LONGEST_TEXT else f"{line[:LONGEST_TEXT]}\u2026"


def _read(run: Run, results: Spool, measures: Measures) -> list[ViewRow]:
    """Read every episode once: its result goes to the spool on disk, its row for tables is returned."""
    labels = {entry.label: number for number, entry in enumerate(run.suite.entries)}
    places = {key: place for place, (key, *_) in enumerate(run.suite.episodes(), 1)}
    rows: dict[str, ViewRow] = {}
    for episode in run.rows():
        names = ("status", "fault", "usage", "attempts", "seconds", "agent_seconds")
        row = {name: getattr(episode.result, name) for name in names}
        results.put(episode.key, json.dumps({"key": "", **row, "trajectory": episode.stored}))
        numbers = episode.numbers(measures)
        turns = episode.result.trajectory.turns
        last = turns[-1].parsed if turns else None
        texts = ("", _one_line(last.text) if isinstance(last, Answer) else "", "")
        rows[episode.key] = ViewRow(episode.key, places[episode.key], labels[episode.entry.label], numbers, texts)
    return list(rows.values())


def _sort_rows(episodes: list[ViewRow]) -> list[ViewRow]:
    """Return the episodes entry by entry, trials of a task together, the tasks with the fewest solved trials first."""
    wins: Counter[tuple[int, str]] = Counter()
    for row in episodes:
        wins[row.entry, row.numbers.task] += row.numbers.success
    return sorted(episodes, key=lambda row: (row.entry, wins[row.entry, row.numbers.task], row.place))


def _rows_with_transcripts(episodes: list[ViewRow], most: int | None) -> list[ViewRow]:
    """Return the rows that get transcripts: all for None, else `most`, the first of each entry, equally many from each."""
    if most is None or most >= len(episodes):
        return episodes
    counts: Counter[int] = Counter()
    turn: dict[int, int] = {}
    for row in episodes:
        turn[row.place] = counts[row.entry]
        counts[row.entry] += 1
    places = {row.place for row in sorted(episodes, key=lambda row: (turn[row.place], row.entry))[:most]}
    return [row for row in episodes if row.place in places]


def _transcripts(
    run: Run, results: Spool, subset: list[ViewRow], reader: ReplayReader, progress: Progress | None
) -> Iterator[tuple[ViewRow, RenderedTranscript]]:
    """Yield each row with its drawn transcript, with pictures as long as their room lasts, and report progress."""
    wins, room = 0, PICTURE_BYTES
    for number, row in enumerate(subset, 1):
        result = result_of(json.loads(results.get(row.key)), run.folder)[1]
        entry = run.suite.entries[row.entry]
        task = reader.task(entry, row.numbers.task)
        view = reader.of(entry, result.trajectory, pictured=room > 0)
        transcript = draw(_transcript(run, row, result, task.gold if task else (), view), BYTES_A_PAGE)
        room -= transcript.picture_bytes
        yield row, transcript
        wins += row.numbers.success
        if progress is not None:
            progress(number, len(subset), wins)


def _transcript(
    run: Run, row: ViewRow, result: EpisodeResult, gold: tuple[str, ...], view: ReplayedEpisode
) -> Transcript:
    """Build an episode's transcript: title, facts, gold answers, failed attempts and fault, conversation and pictures."""
    numbers, several = row.numbers, run.suite.trials > 1
    trial = f"{numbers.trial + 1} of {run.suite.trials}"
    parts = [numbers.entry] if len(run.suite.entries) > 1 else []
    title = ", ".join([*parts, numbers.task, *([f"trial {trial}"] if several else [])])
    meta = [
        ("cluster", numbers.cluster), ("trial", trial), ("episode key", row.key), ("status", numbers.status),
        ("valid turns", f"{numbers.valid} of {numbers.turns}"), ("tokens", usage_text(result.usage)),
        ("time", f"{result.seconds:.3f} s (agent {result.agent_seconds:.3f} s)"),
        ("failed attempts", str(len(result.attempts))),
    ]  # fmt: skip
    lines = [f"Attempt {number} failed: {cause[:2_000]}" for number, cause in enumerate(result.attempts[:20], 1)]
    if result.fault:
        lines.append(f"{numbers.outcome}: {result.fault[:2_000]}")
    if gold:
        meta.append(("gold answers", "; ".join(gold)))
    note = "\n".join(filter(None, (*lines, view.note)))
    return Transcript(row.anchor, title, tuple(meta), result.trajectory, note, badge(numbers),
                      view.conversation, view.pictures, view.names, view.terms)  # fmt: skip


def _write_transcripts(
    run: Run, site: LinkedPages, transcripts: Iterator[tuple[ViewRow, RenderedTranscript]], total: int
) -> dict[int, str]:
    """Write `pages/0001.html` and so on, and return the link from the index to each episode, by its place."""
    links: dict[int, str] = {}
    batch: list[RenderedTranscript] = []
    number, before, size = 1, 0, 0

    def write(last: bool) -> None:
        """Write the batch as a page with links to its neighbours, and empty the batch."""
        nonlocal number, before, size
        span = f"Transcripts {before + 1:,} to {before + len(batch):,} of {total:,}."
        title, links = f"{title_of(run)}, page {number}", _page_links(number, last)
        page = Page(title, f"{span} {ORDER}", transcripts=tuple(batch), links=links)
        site.write(f"pages/{number:04}.html", page)
        number, before, size = number + 1, before + len(batch), 0
        batch.clear()

    for row, transcript in transcripts:
        length = len(transcript.html.encode("utf-8"))
        if batch and (len(batch) == TRANSCRIPTS_A_PAGE or size + length > BYTES_A_PAGE):
            write(last=False)
        batch.append(transcript)
        size += length
        links[row.place] = f"pages/{number:04}.html#{row.anchor}"
    if batch:
        write(last=True)
    return links


def _page_links(number: int, last: bool) -> tuple[Cell, ...]:
    """Return links to the index and to the neighbours of a page of transcripts."""
    ways = [Cell("index", "../index.html")]
    ways += [Cell("previous page", f"{number - 1:04}.html")] if number > 1 else []
    ways += [] if last else [Cell("next page", f"{number + 1:04}.html")]
    return tuple(ways)


def _write_index(
    run: Run, site: LinkedPages, rows: list[ViewRow], numbers: list[EpisodeNumbers], notes: list[str]
) -> Path:
    """Write the index and return its path; the rows of over 500 episodes go to pages `episodes/0001.html` and so on."""
    suite, title = run.suite, title_of(run)
    result = result_from(suite, run.config.settings(), numbers, run.config.prices)
    tables, places = episode_tables(suite, rows), {row.entry: f"#entry-{row.entry + 1}" for row in rows}
    if len(rows) > ROWS_A_PAGE:
        tables, places = _episode_pages(run, site, rows)
    planned = sum(item.episodes for item in result.summaries)
    intro = f"{len(rows):,} of {planned:,} planned episodes are in this run."
    success, *more = summary_tables(suite, result, numbers, places)
    parts = (success, *tables, *more) if len(suite.entries) == 1 else (success, *more, *tables)
    page = Page(title, intro, parts, facts=run_facts(run, result), notes=run_notes(result, [*notes, DETECTABLE]))
    return site.write("index.html", page)


def _episode_pages(run: Run, site: LinkedPages, rows: list[ViewRow]) -> tuple[list[Table], dict[int, str]]:
    """Write the pages of episode rows; return the table of these pages, and each entry's link by its number."""
    places: dict[int, str] = {}
    cells: list[tuple[str | Cell, ...]] = []
    outcomes = sorted({row.numbers.outcome for row in rows}, key=list(FAILURES).index)
    for number, start in enumerate(range(0, len(rows), ROWS_A_PAGE), 1):
        part = rows[start : start + ROWS_A_PAGE]
        name, last = f"episodes/{number:04}.html", start + len(part) == len(rows)
        linked = [replace(row, href=row.href and f"../{row.href}") for row in part]
        span = f"{start + 1:,} to {start + len(part):,}"
        page = Page(f"{title_of(run)}, episodes {span}", f"Of {len(rows):,} episodes.",
                    tuple(episode_tables(run.suite, linked)), links=_page_links(number, last))  # fmt: skip
        site.write(name, page)
        for row in part:
            places.setdefault(row.entry, f"{name}#entry-{row.entry + 1}")
        labels = list(dict.fromkeys(run.suite.entries[row.entry].label for row in part))
        more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        ends = Counter(row.numbers.outcome for row in part)
        cells.append((Cell(span, name), f"{labels[0]}{more}", *(f"{ends[outcome]:,}" for outcome in outcomes)))
    table = Table("Episodes", ("episodes", "entry", *outcomes), tuple(cells), ORDER)
    return [table], places


def badge(numbers: EpisodeNumbers) -> Cell:
    """Return the badge of an outcome; an unfinished episode's is neither good nor bad."""
    tone = "odd" if numbers.outcome in UNPLAYED else "good" if numbers.success else "bad"
    return Cell(numbers.outcome, tone=tone)


def run_facts(run: Run, result: Result) -> tuple[tuple[str, str], ...]:
    """Return the facts of a run by name: agent, suite, planned episodes, tokens, cost and time."""
    identity, summaries = run.config.identity, result.summaries
    planned, trials = sum(summary.episodes for summary in summaries), run.suite.trials
    tokens: Counter[str] = Counter()
    for summary in summaries:
        tokens.update(summary.usage)
    cost = result.cost_usd
    advice = dict.fromkeys(entry.feedback.label for entry in run.suite.entries if entry.feedback is not None)
    seconds = sum(summary.seconds for summary in summaries)
    agent_seconds = sum(summary.agent_seconds for summary in summaries)
    rows = [
        ("agent", identity.agent),
        ("agent's options", canonical_json(identity.agent_options) if identity.agent_options else "none"),
        ("suite", "chosen on the command line" if run.suite.id == ADHOC else identity.suite),
        ("sha256 of the suite begins", identity.suite_digest[:12]),
        *([("feedback", ", ".join(label.removeprefix("feedback=") for label in advice))] if advice else []),
        ("episodes", f"{planned:,}, {trials} a task{', on a part of the tasks (-n)' if identity.smoke else ''}"),
        ("agent-envs", identity.package),
        ("tokens", usage_text(known_counts(tokens))),
        ("cost", "not known: no price or count" if cost is None else f"{cost:,.4f} USD" if cost else "nothing"),
        ("episode time", f"{seconds:,.1f} s (agent {agent_seconds:,.1f} s)"),
    ]
    return tuple(rows)


def usage_text(usage: Mapping[str, int]) -> str:
    """Return counted tokens as text."""
    return ", ".join(f"{name} {count:,}" for name, count in sorted(usage.items())) or "none counted"


def run_notes(result: Result, more: Iterable[str]) -> tuple[str, ...]:
    """Return the notes beside the numbers, at most 40, and behind them a line on how many are left out."""
    lines = [*result.notes, *result_notes(result), *more]
    left = len(lines) - MOST_NOTES
    return tuple(lines[:MOST_NOTES]) + ((f"{left} more notes are left out.",) if left > 0 else ())


def summary_tables(
    suite: Suite, result: Result, numbers: Sequence[EpisodeNumbers], places: Mapping[int, str]
) -> list[Table | Curve]:
    """Return the tables and figures above the episodes; `places` has the link to each entry's episodes."""
    success, *tables = tables_of(result, numbers)
    names = [f"{row[0]}: episodes" if n in places else str(row[0]) for n, row in enumerate(success.rows)]
    linked = tuple((Cell(names[n], places.get(n, "")), *row[1:]) for n, row in enumerate(success.rows))
    return [replace(success, rows=linked), *tables, *curves_of(result.summaries, numbers), _plan_table(suite)]


def episode_tables(suite: Suite, rows: Sequence[ViewRow]) -> list[Table]:
    """Return one table an entry, rows in their order; empty columns are left out."""
    groups: dict[int, list[ViewRow]] = {}
    for row in rows:
        groups.setdefault(row.entry, []).append(row)
    several, tables = suite.trials > 1, list[Table]()
    for number, group in groups.items():
        columns = [n for n in range(len(TEXTS)) if any(row.texts[n] for row in group)]
        heads = (
            "task", *(("trial",) if several else ()), *(TEXTS[n] for n in columns), "outcome", "return", "turns",
            "valid turns", "tool calls",
        )  # fmt: skip
        cells = tuple(_episode(row, several, columns) for row in group)
        caption = f"Episodes of {suite.entries[number].label}"
        tables.append(Table(caption, heads, cells, ORDER, f"entry-{number + 1}", heads.index("outcome")))
    return tables


def _episode(row: ViewRow, several: bool, columns: Sequence[int]) -> tuple[str | Cell, ...]:
    """Build the table cells of an episode; the link is on the trial if there are several, else on the task."""
    numbers = row.numbers
    name = (numbers.task, Cell(f"trial {numbers.trial + 1}", row.href)) if several else (Cell(numbers.task, row.href),)
    reward, counts = f"{numbers.total_reward:.4g}".replace("-", "−"), (numbers.turns, numbers.valid, numbers.calls)
    return (*name, *(row.texts[n] for n in columns), badge(numbers), reward, *map(str, counts))


def _plan_table(suite: Suite) -> Table:
    """Build the table of the suite's entries without the columns that are empty throughout."""
    columns = (
        ("entry", [entry.label for entry in suite.entries]),
        ("environment", [entry.env_id for entry in suite.entries]),
        ("arguments", [canonical_json(entry.arguments) if entry.arguments else "" for entry in suite.entries]),
        ("split", [entry.split for entry in suite.entries]),
        ("tasks", [f"{len(entry.tasks):,}" for entry in suite.entries]),
        ("turn limit", ["" if entry.turn_limit is None else str(entry.turn_limit) for entry in suite.entries]),
        ("counts as success", [entry.success for entry in suite.entries]),
        ("weight", [f"{entry.weight:g}" for entry in suite.entries]),
        ("sha256 of its settings begins", [entry.spec_digest[:12] for entry in suite.entries]),
    )
    filled = [(name, cells) for name, cells in columns if any(cells)]
    rows = tuple(zip(*(cells for _, cells in filled), strict=True))
    return Table("What was played", tuple(name for name, _ in filled), rows)
