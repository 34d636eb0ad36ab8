"""Strata of boards: the labels of tasks split the planned episodes, for rows with intervals and for boards side by side."""

from dataclasses import replace

import pytest

from agent_envs.evaluation.html.page import Cell
from agent_envs.evaluation.statistics.rates import Rate
from agent_envs.evaluation.suites.suite import load_suite
from leaderboard.board import Board, BoardSettings
from leaderboard.pages import page_of, row_page
from leaderboard.standings import standings
from leaderboard.strata import MOST_AGENTS, board_strata, row_strata, strata_of
from tests.leaderboard.boards import made_up, many_tasks

LABELLED = ("SearchQA-v0", "CalcBench-v0")


@pytest.fixture(scope="module")
def labelled():
    demo = load_suite("demo@1")
    return demo.model_copy(update={"entries": tuple(entry for entry in demo.entries if entry.label in LABELLED)})


def test_the_parts_of_a_label_are_the_whole(labelled):
    strata = strata_of(labelled)
    (row,) = standings(labelled, [made_up(labelled, "a", 0.5, 1)]).rows
    whole = {item["entry"]: item for item in row.entrant.verdict.entries}
    total = set()
    assert strata and all(len({value for _, value in table}) > 1 for table in strata.values())
    for label, table in zip(strata, row_strata(strata, row), strict=True):
        assert table.caption == f"Success by {label}"
        for entry in {line[0] for line in table.rows}:
            rates = [line[2] for line in table.rows if line[0] == entry]
            assert all(isinstance(rate, Rate) and rate.low <= rate.value <= rate.high for rate in rates)
            count = sum(rate.trials for rate in rates)
            assert count <= whole[entry]["episodes"]
            if count == whole[entry]["episodes"]:  # every task has the label
                total.add(entry)
                won = sum(rate.value * rate.trials for rate in rates)
                assert won == pytest.approx(whole[entry]["success"] * count)
    assert total == {"CalcBench-v0"}


def test_pages_show_them_and_none_of_a_suite_of_ones_own(labelled):
    rows = standings(labelled, [made_up(labelled, name, 0.5, seed) for seed, name in enumerate("abcdefghij")])
    board = Board("b", BoardSettings(title="B", suite="demo@1"), rows, (), ())
    captions = [table.caption for table in page_of(board).tables]
    names = [f"Success by {label}" for label in strata_of(labelled)]
    assert [name for name in captions if name in names] == names
    assert [table.caption for table in row_page(board, rows.rows[0]).tables if table.caption in names] == names
    table = board_strata(board.strata, rows.rows)[0]
    assert len(table.headers) == 3 + MOST_AGENTS and f"The best {MOST_AGENTS} rows." in table.note
    assert all(isinstance(cell, Cell) and 0 <= float(cell.text) <= 100 for row in table.rows for cell in row[3:])
    drawn = [replace(row, entrant=replace(row.entrant, registered_suite=labelled)) for row in rows.rows]
    assert all(table.rows == () for table in board_strata(board.strata, drawn))  # they played other tasks
    assert strata_of(many_tasks(3)) == strata_of(labelled.model_copy(update={"id": "mine"})) == {}
