"""A board becomes static pages without a script: itself, one page a row, an index of boards; and the same as JSON and CSV."""

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import agent_envs
from agent_envs.datasets.corpora import write_atomically
from agent_envs.evaluation.html.index_page import LinkedPages
from agent_envs.evaluation.html.page import Bar, Cell, Drawn, Page, Table
from agent_envs.evaluation.statistics.paired import Paired
from leaderboard.badges import BADGES
from leaderboard.board import Board
from leaderboard.decisions import Decision
from leaderboard.standings import CLASSES, LEVEL, Pair, Row
from leaderboard.transcripts import transcripts_of
from leaderboard.verify import code_digest

NUMBERS, SHEET = "boards.json", "boards.csv"
MOST_PAIRS = 400
NOT_PROVED = (
    "Every number of a row was computed by replaying its actions in this build. A replay does not prove who acted, nor that "
    "no better run was chosen among many; badges say what each one proves."
)


def write_boards(boards: list[Board], out: Path) -> Path:
    """Write an index, a page a board and a row, boards.json and boards.csv into a new folder, or an earlier build's.

    Returns the path of the index.

    Raises:
        UsageError: the folder holds other files, or cannot be written.
    """
    pages = LinkedPages(out)
    for board in boards:
        pages.write(f"boards/{board.name}.html", page_of(board))
        for row in board.standings.rows:
            pages.write(_place(board, row), row_page(board, row, *transcripts_of(row.entrant, board.standings.suite)))
    rows = tuple(
        (Cell(board.settings.title, f"boards/{board.name}.html"), board.settings.suite, str(len(board.standings.rows)))
        for board in boards
    )
    index = pages.write("index.html", Page("Boards", NOT_PROVED, (Table("Boards", ("board", "suite", "rows"), rows),)))
    text = json.dumps([to_json(board) for board in boards], indent=1, allow_nan=False) + "\n"
    write_atomically(out / NUMBERS, lambda file: file.write(text.encode()))
    write_atomically(out / SHEET, lambda file: file.write(sheet(boards).encode()))
    return index


def _place(board: Board, row: Row) -> str:
    return f"rows/{board.name[:60]}-{row.entrant.verdict.submission[:16]}.html"


def page_of(board: Board) -> Page:
    """Return the page of a board."""
    suite, settings = board.standings.suite, board.settings
    intro = f"{settings.about}\n\n{NOT_PROVED}" if settings.about else NOT_PROVED
    tables = [_rows(board, group) for group in CLASSES] + [
        _entries(board, board.standings.rows),
        _pairs(board),
        _submissions(board),
    ]
    tables += [_badges(board.standings.rows), _published(board), _decisions(board.decisions)]
    facts = (
        ("suite", suite.name),
        ("digest", suite.digest()),
        ("tasks", f"{sum(len(entry.tasks) for entry in suite.entries):,} in {len(suite.entries)} entries"),
        ("trials", str(suite.trials)),
    )
    shown = tuple(table for table in tables if table.rows)
    return Page(
        settings.title, intro, shown, facts=facts, notes=board.left, links=(Cell("all boards", "../index.html"),)
    )


def _rows(board: Board, group: str) -> Table:
    ks = sorted({k for row in board.standings.rows for k in row.pass_hat})
    mine = [row for row in board.standings.rows if row.group == group]
    rows: tuple[tuple[str | Cell | Bar, ...], ...] = tuple(
        (_agent(board, row), row.place, row.score.text(), Bar(row.score.value, row.score.low, row.score.high),
         f"{row.turns:.2f}", *(f"{100 * row.pass_hat[k]:.1f} %" for k in ks))
        for row in mine
    )  # fmt: skip
    note = f"{CLASSES[group]} A place is a range where the comparisons below do not tell rows apart."
    heads = ("agent", "place", "score (95 % interval)", "0 to 100 %", "turns", *(f"pass^{k}" for k in ks))
    return Table(group.capitalize(), heads, rows, note)


def _agent(board: Board, row: Row) -> Cell:
    disputed = bool(row.entrant.history) and row.entrant.history[-1].verb == "disputed"
    name = row.entrant.submission.agent.name + (" (disputed)" if disputed else "")
    return Cell(name, f"../{_place(board, row)}", "odd" if disputed else "")


def row_page(board: Board, row: Row, transcripts: tuple[Drawn, ...] = (), missing: tuple[str, ...] = ()) -> Page:
    """Return the page of one row: what it came to, what its submitter says, what was verified and decided, some episodes.

    Args:
        board: that the row stands on.
        row: the row.
        transcripts: of its episodes.
        missing: what is to be said of those that cannot be shown.
    """
    told, verdict = row.entrant.submission, row.entrant.verdict
    agent, harness, training = told.agent, told.harness, told.training
    models = (f"{item.name} ({', '.join(filter(None, (item.provider, item.revision, item.weights, item.role)))})"
              for item in told.models)  # fmt: skip
    trained = (("train", training.on_suite_train), ("test", training.on_suite_test))
    said = ("not told", "no", "yes")
    facts = (
        ("class", row.group), ("place in its class", row.place), ("score", row.score.text()), ("turns", f"{row.turns:.2f}"),
        *((f"pass^{k}", f"{100 * value:.1f} %") for k, value in row.pass_hat.items()),
        *((name, rate.text()) for name, rate in verdict.averages.items()),
        ("submission", verdict.submission), ("agent", " ".join(filter(None, (agent.name, agent.version)))),
        ("scaffold", agent.scaffold), ("code", agent.code_commit or agent.code_sha256), ("address", agent.url),
        ("models", "; ".join(models)), ("submitter", told.submitter.name), ("date", told.date), ("licence", told.licence),
        ("hardware", told.hardware), ("played with", f"agent-envs {harness.agent_envs}, Python {harness.python}"),
        *((f"trained on the suite's {part} tasks", said[0 if answer is None else 1 + answer]) for part, answer in trained),
    )  # fmt: skip
    flags = [f"Flag: {flag}." for flag in verdict.flags]
    again = f"python -m leaderboard verify submissions/{verdict.submission}"
    notes = (*flags, *missing, *filter(None, [training.notes]), f"To verify it again, in the board's folder: {again}")
    tables = (_entries(board, [row]), _against(board, row), _verification(row), _badges([row]),
              _decisions(row.entrant.history))  # fmt: skip
    intro = f"{CLASSES[row.group]} {NOT_PROVED}"
    links = (Cell("the board", f"../boards/{board.name}.html"), Cell("all boards", "../index.html"))
    shown = tuple(table for table in tables if table.rows)
    return Page(
        f"{agent.name} on {verdict.suite}",
        intro,
        shown,
        facts=tuple(f for f in facts if f[1]),
        notes=notes,
        links=links,
        transcripts=transcripts,
    )


def _verification(row: Row) -> Table:
    """Return what this build stepped, and with what."""
    episodes = row.entrant.verdict.episodes
    ends = Counter(item.status for item in episodes)
    played = [item for item in episodes if item.turns]
    rows = (
        ("episodes that the suite plans", f"{len(episodes):,}"),
        *((f"of these: {status}", f"{count:,}") for status, count in sorted(ends.items())),
        ("turns stepped again", f"{sum(item.turns for item in played):,}"),
        ("episodes with the very actions of the built-in solver", f"{sum(item.by_solver for item in played):,}"),
        ("stepped with agent-envs", agent_envs.__version__),
        ("digest of its code", code_digest()),
    )
    note = "By this build, or an earlier one on this machine with the same code."
    return Table("Verification", ("what", "figure"), rows, note)


def _against(board: Board, row: Row) -> Table:
    """Return this row minus each other of its class, over the suite and entry by entry."""
    name = row.entrant.verdict.submission
    others = {other.entrant.verdict.submission: other for other in board.standings.rows}
    rows: list[tuple[str | Cell | Bar, ...]] = []
    for pair in board.standings.pairs:
        if name in (pair.first, pair.second):
            sign = 1 if pair.second == name else -1
            cell = _agent(board, others[pair.first if sign == 1 else pair.second])
            rows.append(
                (cell, "the suite", points(pair, sign), f"{pair.adjusted:.4f}", "yes" if pair.told_apart else "no")
            )
            rows += [
                (cell, label, points(item, sign), f"{item.p_value:.4f}", "") for label, item in pair.entries.items()
            ]
    heads = ("this row minus", "over", "points (95 % interval)", "p", "told apart")
    note = "The p value over the suite is corrected for all pairs of the class; those of entries are not."
    left = len(rows) - MOST_PAIRS
    more = f" {left} more lines are in {NUMBERS} alone." if left > 0 else ""
    return Table("Beside the others of its class", heads, tuple(rows[:MOST_PAIRS]), note + more)


def _submissions(board: Board) -> Table:
    rows = []
    for row in board.standings.rows:
        told, verdict = row.entrant.submission, row.entrant.verdict
        models = ", ".join(model.name for model in told.models)
        badges, flags = ", ".join(row.entrant.badges), "; ".join(verdict.flags)
        rows.append((told.agent.name, models, told.submitter.name, told.date, badges, flags, verdict.submission[:16]))
    heads = ("agent", "models", "submitter", "date", "badges", "flags", "submission")
    note = "Agent, models, submitter and date are the submitter's words; badges and flags are this build's."
    return Table("Submissions", heads, tuple(rows), note)


def _entries(board: Board, of: Sequence[Row]) -> Table:
    rows = []
    for place, entry in enumerate(board.standings.suite.entries):
        for row in of:
            item = row.entrant.verdict.entries[place]
            low, high = item["interval"]
            success = f"{100 * item['success']:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
            rows.append((
                entry.label, row.entrant.submission.agent.name, success,
                Bar(item["success"], low, high), f"{item['mean_return']:.3f}".replace("-", "−"), f"{item['mean_turns']:.2f}",
                f"{item['played']} of {item['episodes']}",
            ))  # fmt: skip
    heads = ("entry", "agent", "success (95 % interval)", "0 to 100 %", "mean return", "turns", "played")
    return Table("Entry by entry", heads, tuple(rows))


def _pairs(board: Board) -> Table:
    names = {row.entrant.verdict.submission: row.entrant.submission.agent.name for row in board.standings.rows}
    rows = [
        (f"{names[pair.second]} minus {names[pair.first]}", points(pair),
         f"{pair.p_value:.4f}", f"{pair.adjusted:.4f}", "yes" if pair.told_apart else "no")
        for pair in sorted(board.standings.pairs, key=lambda pair: -abs(pair.difference))[:MOST_PAIRS]
    ]  # fmt: skip
    left = len(board.standings.pairs) - len(rows)
    note = (
        "Task by task, at the suite's weights; p values over clusters of tasks, corrected for all pairs of a class. "
        "Told apart: the corrected p value is small enough, and the interval leaves out 0."
    )
    more = f" {left} pairs with smaller differences are in {NUMBERS} alone." if left else ""
    heads = ("pair", "points (95 % interval)", "p", "after Holm", f"told apart at {100 * LEVEL:.0f} %")
    return Table("Comparisons within a class", heads, tuple(rows), note + more)


def points(pair: Pair | Paired, sign: int = 1) -> str:
    """Return a difference in points with its interval; with the sign -1 that of the first minus the second."""
    middle, low, high = (
        100 * sign * value + 0.0 for value in (pair.difference, pair.low, pair.high)
    )  # + 0.0: no "-0.0"
    low, high = min(low, high), max(low, high)
    return f"{middle:+.1f} [{low:+.1f}, {high:+.1f}]".replace("-", "−")


def _badges(of: Sequence[Row]) -> Table:
    names = dict.fromkeys(name for row in of for name in row.entrant.badges)
    rows = tuple((name, BADGES[name].proves, BADGES[name].not_proved) for name in names)
    return Table("Badges", ("badge", "it proves", "it does not prove"), rows)


def _published(board: Board) -> Table:
    rows = tuple((item.agent, f"{100 * item.score:.1f} %", item.source, item.url) for item in board.settings.published)
    note = "As papers print them, with prompts, tasks and limits of their own. Nobody replayed these."
    return Table("Published, not replayed", ("agent", "score", "source", "address"), rows, note)


def _decisions(decisions: Sequence[Decision]) -> Table:
    rows = tuple((row.submission[:16], row.text()) for row in decisions)
    return Table("Decisions", ("submission", "decision"), rows, "From decisions.jsonl, in its order.")


def to_json(board: Board) -> dict[str, Any]:
    """Return the numbers of a board as plain data."""
    suite = board.standings.suite
    return {
        "board": board.name, "title": board.settings.title, "suite": suite.name, "suite_digest": suite.digest(),
        "rows": [_row_json(row) for row in board.standings.rows],
        "pairs": [
            {**pair_json(pair), "holm": pair.adjusted} for pair in board.standings.pairs
        ],
        "published_not_replayed": [item.model_dump(mode="json") for item in board.settings.published],
        "not_shown": list(board.left), "decisions": [row.model_dump(mode="json") for row in board.decisions],
    }  # fmt: skip


def _row_json(row: Row) -> dict[str, Any]:
    told = row.entrant.submission
    return {
        **row.entrant.verdict.to_json(), "class": row.group, "best_place": row.best, "worst_place": row.worst,
        "mean_turns": row.turns, "pass_hat": {str(k): value for k, value in row.pass_hat.items()},
        "models": [model.model_dump(mode="json") for model in told.models], "submitter": told.submitter.name, "date": told.date,
        "history": [item.text() for item in row.entrant.history],
    }  # fmt: skip


def pair_json(pair: Pair) -> dict[str, Any]:
    """Return a comparison as plain data; p values are not corrected."""
    entries = {
        label: {"difference": item.difference, "interval": [item.low, item.high], "p": item.p_value,
                "detectable": item.detectable}
        for label, item in pair.entries.items()
    }  # fmt: skip
    return {"first": pair.first, "second": pair.second, "difference": pair.difference, "interval": [pair.low, pair.high],
            "p": pair.p_value, "entries": entries}  # fmt: skip


def sheet(boards: list[Board]) -> str:
    """Return the rows of all boards as CSV; a cell that a spreadsheet would take for a formula begins with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("board", "suite", "suite_digest", "class", "best_place", "worst_place", "agent", "models", "submitter",
                     "date", "score", "low", "high", "mean_turns", "badges", "submission"))  # fmt: skip
    for board in boards:
        for row in board.standings.rows:
            told, verdict = row.entrant.submission, row.entrant.verdict
            models = ", ".join(model.name for model in told.models)
            cells = (
                board.name, verdict.suite, board.standings.suite.digest(), row.group, row.best, row.worst, told.agent.name,
                models, told.submitter.name, told.date, row.score.value, row.score.low, row.score.high, row.turns,
                ", ".join(row.entrant.badges), verdict.submission,
            )  # fmt: skip
            writer.writerow([f"'{cell}" if str(cell).startswith(("=", "+", "-", "@")) else cell for cell in cells])
    return text.getvalue()
