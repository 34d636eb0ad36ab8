"""Pages of a board: pairs, other orders, charts, and what of many rows has no page."""

import shutil
from dataclasses import replace

import pytest

from agent_envs.evaluation.html.page import Cell, render
from agent_envs.evaluation.suites.suite import load_suite
from agent_envs.evaluation.verification import verify
from leaderboard.board import Board, BoardSettings, add
from leaderboard.pages import page_of, to_json, write_boards
from leaderboard.pair_page import pair_page
from leaderboard.standings import standings
from tests.evaluation.verification.changes import change_rows, shards_of
from tests.leaderboard.boards import built, how, made_up, many_tasks
from tests.needs import needs


def test_a_pair_has_a_page_with_its_entries_and_the_tasks_that_differ(made, board, tmp_path):
    suite, place = made
    for name in ("random", "heuristic"):
        add(place / name, board, how(suite), "maintainer")
    found = built(board)
    (pair,) = found.standings.pairs
    by_name = {row.entrant.verdict.submission: row for row in found.standings.rows}
    sides = (by_name[pair.first], by_name[pair.second])
    links = {"": "../boards/mine.html", pair.first: "../rows/a.html", pair.second: "../rows/b.html"}
    page = pair_page(found.standings, pair, sides, links, {})
    entries, counts = page.tables  # tasks of a private suite are not named
    assert [row[0] for row in entries.rows] == ["the suite", *(entry.label for entry in suite.entries)]
    rates = [[item["success"] for item in row.entrant.verdict.entries] for row in sides]
    for place_, row in enumerate(entries.rows[1:]):
        assert row[1:3] == tuple(f"{100 * rate[place_]:.1f} %" for rate in rates)
        assert row[4].value == pytest.approx(rates[1][place_] - rates[0][place_]) and row[4].least == -row[4].most
        better, worse = int(counts.rows[place_][2]), int(counts.rows[place_][1])
        assert better + worse + int(counts.rows[place_][3]) == len(suite.entries[place_].tasks)
    known = replace(found.standings, suite=suite.model_copy(update={"id": "demo"}))
    shown = {pair.second: {f"e-{suite.model_copy(update={'id': 'demo'}).key(entry, task, 0)}"
                           for entry in suite.entries for task, _, _ in entry.tasks}}  # fmt: skip
    tasks = pair_page(known, pair, sides, links, shown).tables[-1]
    moved = sum(int(row[1]) + int(row[2]) for row in counts.rows)
    assert len(tasks.rows) == min(moved, 40) > 0
    assert all(row[2].href == "" and row[3].href.startswith("../rows/b.html#e-") for row in tasks.rows)
    text = render(page)
    assert b'aria-label="' in text and b"<script" not in text


def test_a_board_is_sorted_by_other_columns_on_pages_of_their_own(tmp_path):
    suite = many_tasks(20)
    rows = [made_up(suite, name, 0.5, seed, turns, usage) for name, seed, turns, usage in
            (("a", 1, 3, {"input": 4_000, "output": 40}), ("b", 2, 1, {"input": 80}), ("c", 3, 2, {}))]  # fmt: skip
    board = Board("b", BoardSettings.model_construct(title="B", suite="many@1", about="", published=[]),
                  standings(suite, rows), (), ())  # fmt: skip
    names = {
        order: [row[0].text for row in page_of(board, order).tables[0].rows] for order in ("turns", "tokens", "agent")
    }
    assert names == {"turns": ["b", "c", "a"], "tokens": ["b", "a", "c"], "agent": ["a", "b", "c"]}
    cells = {row[0].text: row[4] for row in page_of(board).tables[0].rows}
    assert cells == {"a": "101", "b": "2", "c": ""}  # 40 episodes
    links = [head.href for head in page_of(board).tables[0].headers if isinstance(head, Cell)]
    assert links == [f"../boards/b-by-{order}.html" for order in ("agent", "turns", "tokens", "date")]
    (turns, cost) = page_of(board).curves
    assert [name for name, _ in cost.series] == [f"{n}: {row.entrant.verdict.agent}" for n, row in enumerate(
        (row for row in board.standings.rows if row.tokens is not None), start=1)]  # fmt: skip
    for row, (name, points) in zip(board.standings.rows, turns.series, strict=True):
        assert name == row.entrant.verdict.agent and points[-1][1] == pytest.approx(100 * row.score.value)
    silent = Board("b", board.settings, standings(suite, [made_up(suite, "a", 0.5, 1)]), (), ())
    heads = [head.text if isinstance(head, Cell) else head for head in page_of(silent).tables[0].headers]
    assert heads == ["agent", "place", "score (95 % interval)", "turns an episode", "pass^2", "date"]
    assert len(page_of(silent).curves) == 1
    write_boards([board, replace(silent, name="c")], tmp_path / "site")
    assert {path.name for path in (tmp_path / "site" / "boards").iterdir()} == {
        "b.html", *(f"b-by-{order}.html" for order in ("turns", "tokens", "agent", "date")),
        "c.html", *(f"c-by-{order}.html" for order in ("turns", "agent", "date")),
    }  # fmt: skip


@needs("[babyai]")
def test_families_stand_in_a_heat_map():
    demo = load_suite("demo@1")
    suite = demo.model_copy(
        update={"entries": tuple(item for item in demo.entries if item.label in ("Count-v0", "Sort-v0", "BabyAI-v0"))}
    )
    found = standings(suite, [made_up(suite, "a", 0.7, 1)])
    board = Board("b", BoardSettings.model_construct(title="B", suite="demo@1", about="", published=[]), found, (), ())
    heat = next(table for table in page_of(board).tables if table.caption.startswith("Success by family"))
    (row,) = heat.rows
    count, sort, babyai = (item["success"] for item in found.rows[0].entrant.verdict.entries)
    weights = [entry.weight for entry in suite.entries]
    expa = (weights[0] * count + weights[1] * sort) / (weights[0] + weights[1])
    assert heat.headers == ("agent", "expa", "text games")
    assert [cell.text for cell in row[1:]] == [f"{100 * expa:.1f}", f"{100 * babyai:.1f}"]
    assert row[1].tone == f"h{round(10 * expa)}"


def test_of_many_pairs_the_closest_have_pages_and_entries(monkeypatch):
    monkeypatch.setattr("leaderboard.pages.MOST_PAIR_PAGES", 2)
    suite = many_tasks(40)
    found = standings(suite, [made_up(suite, name, chance, seed) for name, chance, seed in
                              (("a", 0.2, 1), ("b", 0.4, 2), ("c", 0.6, 3), ("d", 0.9, 4))])  # fmt: skip
    board = Board("b", BoardSettings.model_construct(title="B", suite="many@1", about="", published=[]), found, (), ())
    pairs = to_json(board)["pairs"]
    sizes = sorted(abs(pair["difference"]) for pair in pairs)
    assert sorted(abs(pair["difference"]) for pair in pairs if "entries" in pair) == sizes[:2] and len(pairs) == 6
    assert sum(bool(row[0].href) for table in page_of(board).tables if table.caption.startswith("Comparisons")
               for row in table.rows) == 2  # fmt: skip


def test_tokens_are_those_that_the_rows_tell(made, tmp_path):
    suite, place = made
    bad = tmp_path / "told"
    shutil.copytree(place / "random", bad)
    for at in range(len(shards_of(bad))):
        change_rows(bad, lambda rows: [row | {"usage": {"input": 7, "output": 2}} for row in rows], at)
    assert verify.verify(place / "random", how(suite)).usage == {}
    assert verify.verify(bad, how(suite)).usage == {"input": 7 * 48, "output": 2 * 48}
