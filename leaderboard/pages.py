"""A board becomes static pages without a script: itself, one page a row and a pair, an index; and the same as JSON and CSV."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import agent_envs
from agent_envs.base.caches import write_atomically
from agent_envs.base.version import code_digest
from agent_envs.evaluation.html.page import Bar, Cell, LinkedPages, Page, RenderedTranscript, Table
from agent_envs.evaluation.report.charts import Forest, points
from agent_envs.evaluation.statistics.paired import p_text
from agent_envs.evaluation.statistics.rates import Rate
from agent_envs.evaluation.verification.badges import BADGES
from leaderboard.blind_replay import blind_entries
from leaderboard.board import Board
from leaderboard.decisions import Decision
from leaderboard.figures import cost_chart, heat_map, turns_chart
from leaderboard.pair_page import pair_json, pair_page
from leaderboard.rounds import rounds_table
from leaderboard.standings import CLASSES, LEVEL, Pair, StandingsRow
from leaderboard.strata import board_strata, row_strata
from leaderboard.transcripts import transcripts_of

NUMBERS, SHEET = "boards.json", "boards.csv"
TOKENS = " Tokens are the submitter's count."
PLACES = "A place is a range where comparisons tell no rows apart. An agent's name leads to its page, a head to other orders."
MOST_PAIRS = 400
MOST_PAIR_PAGES = 200
# Other orders of a board, each a page of its own: name -> (what it sorts by, the key of a row).
ORDERS: dict[str, tuple[str, Callable[[StandingsRow], Any]]] = {
    "score": ("score", lambda row: -row.score.value),
    "turns": ("turns", lambda row: row.turns),
    "tokens": ("tokens", lambda row: (row.tokens is None, row.tokens)),
    "agent": ("agent's name", lambda row: row.entrant.submission.agent.name.casefold()),
    "date": ("date, newest first", lambda row: [-ord(letter) for letter in row.entrant.submission.date]),
}
NOT_PROVED = (
    "Every number of a row was computed by replaying its actions in this build. A replay does not prove who acted, nor that "
    "no better run was chosen among many; badges say what each one proves."
)


def write_boards(boards: list[Board], out: Path) -> Path:
    """Write an index, a page for each board, row and pair, boards.json and boards.csv; return the index; UsageError if barred.

    Returns the path of the index.

    Raises:
        UsageError: the folder holds other files, or cannot be written.
    """
    pages = LinkedPages(out)
    for board in boards:
        for order in _orders(board):
            pages.write(_board_path(board, order), page_of(board, order))
        anchors: dict[str, set[str]] = {}
        for row in board.standings.rows:
            transcripts, missing = transcripts_of(row.entrant, board.standings.suite)
            anchors[row.entrant.verdict.submission] = {item.anchor for item in transcripts}
            pages.write(_row_path(board, row), row_page(board, row, transcripts, missing))
        links = {name: f"../{_row_path(board, row)}" for name, row in _by_name(board).items()}
        links[""] = f"../{_board_path(board)}"
        for pair in _pairs_with_page(board):
            sides = (_by_name(board)[pair.first], _by_name(board)[pair.second])
            pages.write(_pair_path(board, pair), pair_page(board.standings, pair, sides, links, anchors))
    rows = tuple(
        (Cell(board.settings.title, _board_path(board)), board.settings.suite, str(len(board.standings.rows)))
        for board in boards
    )
    index = pages.write("index.html", Page("Boards", NOT_PROVED, (Table("Boards", ("board", "suite", "rows"), rows),)))
    text = json.dumps([to_json(board) for board in boards], indent=1, allow_nan=False) + "\n"
    write_atomically(out / NUMBERS, lambda file: file.write(text.encode()))
    write_atomically(out / SHEET, lambda file: file.write(sheet(boards).encode()))
    return index


def _row_path(board: Board, row: StandingsRow) -> str:
    """Return the path of a row's page."""
    return f"rows/{board.name[:60]}-{row.entrant.verdict.submission[:16]}.html"


def _board_path(board: Board, order: str = "score") -> str:
    """Return the path of a board's page in an order; the order by score has no suffix."""
    return f"boards/{board.name}{'' if order == 'score' else f'-by-{order}'}.html"


def _orders(board: Board) -> list[str]:
    """Return the orders that a board has: by tokens only where a row tells them."""
    has_tokens = any(row.tokens is not None for row in board.standings.rows)
    return [order for order in ORDERS if has_tokens or order != "tokens"]


def _pair_path(board: Board, pair: Pair) -> str:
    """Return the path of a pair's page."""
    return f"pairs/{board.name[:40]}-{pair.first[:16]}-{pair.second[:16]}.html"


def _by_name(board: Board) -> dict[str, StandingsRow]:
    """Return a board's rows by the name of their submission."""
    return {row.entrant.verdict.submission: row for row in board.standings.rows}


def _pairs_with_page(board: Board) -> list[Pair]:
    """Return the pairs that have a page: the closest ones that played the same tasks, where there are many."""
    return sorted((pair for pair in board.standings.pairs if pair.paired), key=lambda pair: abs(pair.difference))[
        :MOST_PAIR_PAGES
    ]


def page_of(board: Board, order: str = "score") -> Page:
    """Return the page of a board; of another order than by score only the rows, by class."""
    suite, settings = board.standings.suite, board.settings
    links = (Cell("all boards", "../index.html"),)
    rows = [_rows(board, group, order) for group in CLASSES]
    if order != "score":
        intro = f"Sorted by {ORDERS[order][0]}, within the classes. {NOT_PROVED}"
        back = Cell("the board, by score", f"../{_board_path(board)}")
        return Page(settings.title, intro, tuple(table for table in rows if table.rows), links=(back, *links))
    intro = f"{settings.about}\n\n{NOT_PROVED}" if settings.about else NOT_PROVED
    tables = [
        *rows,
        rounds_table(board.rounds),
        heat_map(suite, board.standings.rows),
        *board_strata(board.strata, board.standings.rows),
        _entries(board, board.standings.rows),
        _pairs(board),
        _submissions(board),
        _without_row(board),
    ]
    tables += [_badges(board.standings.rows), _published_scores(board), _decisions(board.decisions)]
    facts = (
        ("suite", suite.name),
        ("sha256 of the suite", suite.digest()),
        ("tasks", f"{sum(len(entry.tasks) for entry in suite.entries):,} in {len(suite.entries)} entries"),
        ("trials", str(suite.trials)),
    )
    tables_with_rows = tuple(table for table in tables if table.rows)
    agents = [row for row in board.standings.rows if row.group not in ("reference", "incomplete")]
    charts = (turns_chart(suite, agents), cost_chart(agents))
    curves = tuple(chart for chart in charts if chart is not None)
    return Page(settings.title, intro, tables_with_rows, curves=curves, facts=facts, notes=board.left, links=links)


def _rows(board: Board, group: str, order: str) -> Table:
    """Tabulate the rows of a class in an order; its heads link to the pages in other orders."""
    ks = sorted({k for row in board.standings.rows for k in row.pass_hat})
    has_tokens = "tokens" in _orders(board)
    mine = sorted((row for row in board.standings.rows if row.group == group), key=ORDERS[order][1])
    rows: tuple[tuple[str | Cell | Rate, ...], ...] = tuple(
        (_agent(board, row), row.place, row.score,
         f"{row.turns:.2f}", *(["" if row.tokens is None else f"{row.tokens:,.0f}"] if has_tokens else []),
         *(f"{100 * row.pass_hat[k]:.1f} %" for k in ks), row.entrant.submission.date)
        for row in mine
    )  # fmt: skip
    note = f"{CLASSES[group]} {PLACES}{TOKENS if has_tokens else ''}"
    by = {name: Cell(text, f"../{_board_path(board, name)}") if name != order else text
          for name, text in (("agent", "agent"), ("score", "score (95 % interval)"), ("turns", "turns an episode"),
                             ("tokens", "tokens an episode"), ("date", "date"))}  # fmt: skip
    more = [*([by["tokens"]] if has_tokens else []), *(f"pass^{k}" for k in ks), by["date"]]
    heads = (by["agent"], "place", by["score"], by["turns"], *more)
    return Table(group.capitalize(), heads, rows, note)


def _agent(board: Board, row: StandingsRow) -> Cell:
    """Return the cell that names a row's agent and links to its page, marked where it is disputed."""
    disputed = bool(row.entrant.history) and row.entrant.history[-1].verb == "disputed"
    name = row.entrant.submission.agent.name + (" (disputed)" if disputed else "")
    return Cell(name, f"../{_row_path(board, row)}", "odd" if disputed else "")


def row_page(
    board: Board, row: StandingsRow, transcripts: tuple[RenderedTranscript, ...] = (), missing: tuple[str, ...] = ()
) -> Page:
    """Return the page of one row: results, the submitter's words, verification, decisions, and some episodes.

    Args:
        board: that the row stands on.
        row: the row.
        transcripts: of its episodes.
        missing: what is to be said of those that cannot be shown.
    """
    meta, verdict = row.entrant.submission, row.entrant.verdict
    agent, harness, training = meta.agent, meta.harness, meta.training
    models = (f"{item.name} ({', '.join(filter(None, (item.provider, item.revision, item.weights, item.role)))})"
              for item in meta.models)  # fmt: skip
    trained = (("train", training.on_suite_train), ("test", training.on_suite_test))
    answers = ("not told", "no", "yes")
    facts = (
        ("class", row.group), ("place within it", row.place), ("score", row.score.text()), ("mean turns", f"{row.turns:.2f}"),
        ("tokens an episode, by the submitter", "" if row.tokens is None else f"{row.tokens:,.0f}"),
        *((f"pass^{k}", f"{100 * value:.1f} %") for k, value in row.pass_hat.items()),
        *((name, rate.text()) for name, rate in verdict.averages.items()),
        ("tasks drawn for it", row.entrant.draws_text), ("submission", verdict.submission),
        ("agent", " ".join(filter(None, (agent.name, agent.version)))),
        ("scaffold", agent.scaffold), ("code", agent.code_commit or agent.code_sha256), ("address", agent.url),
        ("models", "; ".join(models)), ("submitter", meta.submitter.name), ("date", meta.date), ("licence", meta.licence),
        ("hardware", meta.hardware), ("played with", f"agent-envs {harness.agent_envs}, Python {harness.python}"),
        *((f"trained on the suite's {part} tasks", answers[0 if answer is None else 1 + answer]) for part, answer in trained),
    )  # fmt: skip
    flags = [f"Flag: {flag}." for flag in verdict.flags]
    again = f"agent-envs verify submissions/{verdict.submission}"
    notes = (*flags, *missing, *filter(None, [training.notes]), f"To verify it again, in the board's folder: {again}")
    has_own_tasks = row.entrant.registered_suite is not None  # registered rows have tasks of their own
    strata = [] if has_own_tasks else row_strata(board.strata, row)
    rounds = [item for item in board.rounds if row in (item.fixed, item.round)]
    tables = (rounds_table(rounds, by_entry=True), _entries(board, [row]), *strata,
              _differences(board, row), _verification(row), _badges([row]),
              _decisions(row.entrant.history))  # fmt: skip
    intro = f"{CLASSES[row.group]} {NOT_PROVED}"
    links = (Cell("the board", f"../boards/{board.name}.html"), Cell("all boards", "../index.html"))
    tables_with_rows = tuple(table for table in tables if table.rows)
    return Page(
        f"{agent.name} on {verdict.suite}",
        intro,
        tables_with_rows,
        facts=tuple(f for f in facts if f[1]),
        notes=notes,
        links=links,
        transcripts=transcripts,
    )


def _verification(row: StandingsRow) -> Table:
    """Return the counts of this build's replay, and the digest of its code."""
    episodes = row.entrant.verdict.episodes
    ends = Counter(item.status for item in episodes)
    with_turns = [item for item in episodes if item.turns]
    rows = (
        ("episodes that the suite plans", f"{len(episodes):,}"),
        *((f"of these: {status}", f"{count:,}") for status, count in sorted(ends.items())),
        ("turns stepped again", f"{sum(item.turns for item in with_turns):,}"),
        ("episodes with exactly the built-in solver's actions", f"{sum(item.by_solver for item in with_turns):,}"),
        ("stepped with agent-envs", agent_envs.__version__),
        ("sha256 of its code", code_digest()),
    )
    note = "By this build, or an earlier one on this machine with the same code."
    return Table("Verification", ("what", "figure"), rows, note)


def _differences(board: Board, row: StandingsRow) -> Table:
    """Tabulate this row minus each other of its class, over the suite and, if the pair has a page, by entry; 400 lines."""
    name, by_name = row.entrant.verdict.submission, _by_name(board)
    mine = [pair for pair in board.standings.pairs if name in (pair.first, pair.second)]
    forest, paged = Forest.over(mine), set(map(id, _pairs_with_page(board)))
    rows: list[tuple[str | Cell | Bar, ...]] = []
    for pair in mine:
        sign = 1 if pair.second == name else -1
        cell = _agent(board, by_name[pair.first if sign == 1 else pair.second])
        apart, page = "yes" if pair.is_significant else "no", Cell("page of this pair", f"../{_pair_path(board, pair)}")
        line = (cell, "the suite", points(pair, sign), forest.bar(pair, sign), p_text(pair.adjusted), apart)
        rows.append((*line, page) if id(pair) in paged else line)
        if id(pair) in paged:
            items = board.standings.outcomes.entries(
                *(by_name[side].entrant.verdict for side in (pair.first, pair.second))
            )
            rows += [(cell, label, points(item, sign), forest.bar(item, sign), p_text(item.p_value), "")
                     for label, item in items.items()]  # fmt: skip
    heads = ("this row minus", "over", "points (95 % interval)", forest.head, "p value", "told apart", "comparison")
    note = "The p value over the suite is corrected for all pairs of the class; those of entries are not."
    left = len(rows) - MOST_PAIRS
    more = f" {left} more lines are left out; the suite's are in {NUMBERS}." if left > 0 else ""
    return Table("Beside the others of its class", heads, tuple(rows[:MOST_PAIRS]), note + more)


def _submissions(board: Board) -> Table:
    """Tabulate the submissions with their badges and flags."""
    rows = []
    for row in board.standings.rows:
        meta, verdict = row.entrant.submission, row.entrant.verdict
        models = ", ".join(model.name for model in meta.models)
        badges, flags = ", ".join(row.entrant.badges), "; ".join(verdict.flags)
        badges += f" ({row.entrant.draws_text})" if row.entrant.draws_text else ""
        rows.append((meta.agent.name, models, meta.submitter.name, meta.date, badges, flags, verdict.submission[:16]))
    heads = ("agent", "models", "submitter", "date", "badges", "flags", "submission")
    note = "Agent, models, submitter and date are the submitter's words; badges and flags are this build's."
    return Table("Submissions", heads, tuple(rows), note)


def _without_row(board: Board) -> Table:
    """Tabulate the registered agents that have no row, with how often tasks were drawn for them."""
    rows = tuple(
        (agent, *map(str, (counts["registered"], counts["submitted"], counts["rounds"], counts["rounds_submitted"])))
        for agent, counts in board.without_row.items()
    )
    note = "An agent registered under several names may have played under all of them and shown the best."
    heads = ("agent", "times registered", "submitted", "rounds", "submitted of these")
    return Table("Registered, without a row", heads, rows, note)


def _entries(board: Board, of: Sequence[StandingsRow]) -> Table:
    """Tabulate success, return and turns of each entry by row; entries whose tasks cannot be drawn are left out."""
    rows, blind = [], blind_entries(board.standings.rows)
    for entry in board.standings.suite.entries:
        for row in of:
            item = next((item for item in row.entrant.verdict.entries if item["entry"] == entry.label), None)
            if item is None:  # its tasks cannot be drawn
                continue
            low, high = item["interval"]
            success = f"{100 * item['success']:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
            mark = f" can be played blind: {100 * blind[entry.label]:.1f} %" if entry.label in blind else ""
            rows.append((
                Cell(entry.label + mark, "", "odd" if mark else ""), row.entrant.submission.agent.name, success,
                Bar(item["success"], low, high), f"{item['mean_return']:.3f}".replace("-", "−"), f"{item['mean_turns']:.2f}",
                f"{item['played']} of {item['episodes']}",
            ))  # fmt: skip
    heads = ("entry", "agent", "success (95 % interval)", "0 to 100 %", "mean return", "mean turns", "episodes played")
    note = (
        "An entry can be played blind where playing back the best of some random plays of each task, which needs no reading, "
        "wins more than 20 % of it and more than half of the best agent's lower bound."
    )
    return Table("Entry by entry", heads, tuple(rows), note if blind else "")


def _pairs(board: Board) -> Table:
    """Tabulate the 400 largest differences between rows of a class, each with a bar and p values."""
    names = {name: row.entrant.submission.agent.name for name, row in _by_name(board).items()}
    top_pairs = sorted(board.standings.pairs, key=lambda pair: -abs(pair.difference))[:MOST_PAIRS]
    forest, paged = Forest.over(top_pairs), set(map(id, _pairs_with_page(board)))
    rows: list[tuple[str | Cell | Bar, ...]] = []
    for pair in top_pairs:
        href = f"../{_pair_path(board, pair)}" if id(pair) in paged else ""
        rows.append((Cell(f"{names[pair.second]} minus {names[pair.first]}", href), points(pair), forest.bar(pair),
                     p_text(pair.p_value), p_text(pair.adjusted), "yes" if pair.is_significant else "no"))  # fmt: skip
    left = len(board.standings.pairs) - len(rows)
    note = (
        "Task by task, at the suite's weights, but for registered rows, which played other tasks each; p values over clusters "
        "of tasks, corrected for all pairs of a class. "
        "Told apart: the corrected p value is small enough, and the interval leaves out 0."
    )
    more = f" {left} pairs with smaller differences are in {NUMBERS} alone." if left else ""
    heads = ("pair, with its page", "points (95 % interval)", forest.head, "p value", "after Holm",
             f"told apart at {100 * LEVEL:.0f} %")  # fmt: skip
    return Table("Comparisons within a class", heads, tuple(rows), note + more)


def _badges(of: Sequence[StandingsRow]) -> Table:
    """Return the table of the rows' badges: what each proves and does not."""
    names = dict.fromkeys(name for row in of for name in row.entrant.badges)
    rows = tuple((name, BADGES[name].proves, BADGES[name].not_proved) for name in names)
    return Table("Badges", ("badge", "it proves", "it does not prove"), rows)


def _published_scores(board: Board) -> Table:
    """Return the table of scores that papers print, which nobody replayed."""
    rows = tuple((item.agent, f"{100 * item.score:.1f} %", item.source, item.url) for item in board.settings.published)
    note = "As papers print them, with prompts, tasks and limits of their own. Nobody replayed these."
    return Table("Published, not replayed", ("agent", "score", "source", "address"), rows, note)


def _decisions(decisions: Sequence[Decision]) -> Table:
    """Return the table of decisions about submissions."""
    rows = tuple((row.submission[:16], row.text()) for row in decisions)
    return Table("Decisions", ("submission", "decision"), rows, "From decisions.jsonl, in its order.")


def to_json(board: Board) -> dict[str, Any]:
    """Return the numbers of a board as plain data; entry by entry for the pairs that have a page."""
    suite, paged = board.standings.suite, set(map(id, _pairs_with_page(board)))
    return {
        "board": board.name, "title": board.settings.title, "suite": suite.name, "suite_digest": suite.digest(),
        "rows": [_row_json(row) for row in board.standings.rows], "can_be_played_blind": blind_entries(board.standings.rows),
        "pairs": [_pair_row(board, pair, paged) for pair in board.standings.pairs],
        "rounds": [item.to_json() for item in board.rounds],
        "registered_without_row": {agent: dict(counts) for agent, counts in board.without_row.items()},
        "published_not_replayed": [item.model_dump(mode="json") for item in board.settings.published],
        "not_shown": list(board.left), "decisions": [row.model_dump(mode="json") for row in board.decisions],
    }  # fmt: skip


def _pair_row(board: Board, pair: Pair, paged: set[int]) -> dict[str, Any]:
    """Return a pair as plain data, entry by entry only where it has a page."""
    sides = (_by_name(board)[name].entrant.verdict for name in (pair.first, pair.second))
    entries = board.standings.outcomes.entries(*sides) if id(pair) in paged else None
    return {**pair_json(pair, entries), "holm": pair.adjusted}


def _row_json(row: StandingsRow) -> dict[str, Any]:
    """Return a standings row as plain data: the verdict, its class, places and means, the submitter's words and decisions."""
    meta = row.entrant.submission
    return {
        **row.entrant.verdict.to_json(), "class": row.group, "best_place": row.best, "worst_place": row.worst,
        "mean_turns": row.turns, "tokens_as_told": row.tokens, "pass_hat": {str(k): value for k, value in row.pass_hat.items()},
        "draws": dict(row.entrant.draw_counts),
        "models": [model.model_dump(mode="json") for model in meta.models], "submitter": meta.submitter.name, "date": meta.date,
        "history": [item.text() for item in row.entrant.history],
    }  # fmt: skip


def sheet(boards: list[Board]) -> str:
    """Return the rows of all boards as CSV; a cell that a spreadsheet would take for a formula begins with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("board", "suite", "suite_digest", "class", "best_place", "worst_place", "agent", "models", "submitter",
                     "date", "score", "low", "high", "mean_turns", "badges", "submission"))  # fmt: skip
    for board in boards:
        for row in board.standings.rows:
            meta, verdict = row.entrant.submission, row.entrant.verdict
            models = ", ".join(model.name for model in meta.models)
            cells = (
                board.name, verdict.suite, board.standings.suite.digest(), row.group, row.best, row.worst, meta.agent.name,
                models, meta.submitter.name, meta.date, row.score.value, row.score.low, row.score.high, row.turns,
                ", ".join(row.entrant.badges), verdict.submission,
            )  # fmt: skip
            writer.writerow([f"'{cell}" if str(cell).startswith(("=", "+", "-", "@")) else cell for cell in cells])
    return text.getvalue()
