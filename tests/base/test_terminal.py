"""Tables of a terminal keep words whole, at any width."""

import re
import unicodedata

import pytest

from agent_envs.base.terminal import one_line, plain_name, print_table, safe_text, stage_lines
from tests.rows import each_row


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


@each_row(
    "name",
    ["\u3164", "\u2800", "random\ufe0f", "a\u2800b", "a\U000e0101b", "a\u034fb", "\uffa0", "\u115f\u1160", "a\u180bb",
     "\U0001d159", "a" + "\u0336" * 60, "a" + "\u0336" * 3, "e\u0301\u0336\u0336\u0336", "\u0336a", "a \u0336b"],
)  # fmt: skip
def test_names_that_hide_are_blank_or_pile_up_marks_are_refused(name):
    plain = unicodedata.normalize("NFC", name)
    for rule in (one_line, safe_text):
        with pytest.raises(ValueError, match="blank character|combining marks"):
            rule(plain)


@each_row(
    "name",
    [".", "...", "- -", "|", "`", "\ufffc", "\ufffd", "a\ufffd", "a\ufffcb", "my  agent", "a   b",
     "r\u0336a\u0336n\u0336d\u0336o\u0336m\u0336", "r\u0332a\u0332ndom\u0332", "a\u0336", "1\u03362\u03363\u0336"],
)  # fmt: skip
def test_names_that_show_nothing_or_are_stroked_are_refused(name):
    plain = unicodedata.normalize("NFC", name)
    with pytest.raises(ValueError, match="a name has"):
        plain_name(plain)


@each_row(
    "name",
    [
        "",
        "Tiếng Việt ở Huế",
        "हिन्दी क्षि",
        "שָׁלוֹם",
        "العَرَبِيَّة",
        "ที่นี่",
        "Ọlọ́run",
        "Ẹ̀kọ́",
        "gpt-4.1",
        "7",
        "🤖",
        "x\u0302yz",
        "C++",
        "検索",
    ],
)
def test_names_that_are_read_pass(name):
    plain = unicodedata.normalize("NFC", name)
    assert plain_name(plain) == plain


@each_row(
    "name",
    [
        "Große Suche 検索",
        "Tiếng Việt",
        "שָׁלוֹם",
        "العَرَبِيَّة",
        "ที่นี่",
        "हिन्दी क्षि",
        "a\u0336b\u0336",
        "x\u0302\u0336",
        "Ελληνικά",
        "",
        "gpt-5 (α)",
    ],
)
def test_names_of_the_worlds_scripts_pass(name):
    plain = unicodedata.normalize("NFC", name)
    assert one_line(plain) == plain
