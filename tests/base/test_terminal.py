"""Tables of a terminal keep words whole, at any width."""

import re

import pytest

from agent_envs.base.terminal import print_table, stage_lines


def printed(capsys, monkeypatch, columns, heads, rows):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    print_table("a title of several words", heads, rows)
    return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)


HEADS = ["environment", "success", "interval", "comparisons"]
ROWS = [
    ["SearchQA, the longest name of all of them", "18.0 %", "[9.3, 31.9]", "unquestionable"],
    ["Sort", "2 %", "", "few"],
]


@pytest.mark.parametrize("columns", [30, 50, 80, 200])
def test_no_word_of_a_table_is_broken(capsys, monkeypatch, columns):
    text = printed(capsys, monkeypatch, columns, HEADS, ROWS)
    words = {word for row in (HEADS, *ROWS) for cell in row for word in cell.split()}
    assert words <= set(text.split()) and max(map(len, text.splitlines())) <= columns
    side_by_side = any({"environment", "comparisons"} <= set(line.split()) for line in text.splitlines())
    assert side_by_side == (columns >= 80)


def test_a_stage_ends_with_a_line_where_there_is_no_terminal(capsys):
    tell = stage_lines("Sort-v0")
    for fraction in (0.25, 0.999, 1.0):
        tell("tasks drawn", fraction)
    assert capsys.readouterr().err == "Sort-v0: tasks drawn 100 %\n"  # the others came within two seconds
