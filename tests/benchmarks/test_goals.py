"""A goal is lost where it was met and is missed by more than the rounds differ; exponents are slopes of logarithms."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks import goals, growth
from benchmarks.goals import Goal, lost, measured, row_of, table
from tests import ROOT

DEPENDENCIES = "direct dependencies of a core install"
FAST = Goal("fast", 100, True, lambda: 120.0)
SMALL = Goal("small", 5, False, lambda: 4.0)


@pytest.mark.parametrize(
    ("before", "rounds", "gone"),
    [
        ([120], [90, 95, 92], ["fast"]),
        ([120], [80, 110, 95], []),  # missed by 5, the rounds lie 30 apart
        ([90], [50, 51, 52], []),  # was not met before
        ([120], [130, 101, 100], []),
    ],
)
def test_a_goal_that_was_met_is_lost_beyond_the_noise(before, rounds, gone):
    assert lost({"fast": row_of(FAST, before)}, {"fast": row_of(FAST, rounds)}) == gone


def test_what_may_not_grow_is_lost_upwards():
    assert lost({"small": row_of(SMALL, [4])}, {"small": row_of(SMALL, [6, 6.1, 6.2])}) == ["small"]
    assert lost({"small": row_of(SMALL, [4])}, {"small": row_of(SMALL, [1, 1.1, 1.2])}) == []


def test_a_row_that_cannot_be_measured_says_why_and_is_not_lost():
    absent = Goal("fast", 100, True, lambda: "the peer is not here")
    rows = measured([absent, SMALL], 2)
    assert rows["fast"]["not measured"] == "the peer is not here" and rows["small"]["rounds"] == [4, 4]
    assert lost({"fast": row_of(FAST, [120])}, rows) == []
    assert "the peer is not here" in table(rows) and "met" in table(rows)


def test_a_lost_goal_is_told_by_the_exit_code_and_written_until_it_is_met_again(tmp_path, monkeypatch):
    out = tmp_path / "goals.json"
    monkeypatch.setattr(goals, "KEPT", out)
    monkeypatch.setattr("sys.argv", ["goals", "--rounds", "1", "--out", str(out)])
    for value, code in ((120.0, 0), (50.0, 1), (51.0, 1), (101.0, 0)):
        monkeypatch.setattr(goals, "GOALS", (Goal("fast", 100, True, lambda value=value: value),))
        assert goals.main() == code
        kept = json.loads(out.read_text())["rows"]["fast"]
        assert kept["value"] == value and kept.get("lost", False) == bool(code) and kept["once met"]


def test_rows_that_are_left_out_stay_as_they_were_kept(tmp_path, monkeypatch):
    out = tmp_path / "goals.json"
    monkeypatch.setattr(goals, "KEPT", out)
    monkeypatch.setattr(goals, "GOALS", (Goal("fast", 100, True, lambda: 120.0), SMALL))
    for words in ([], ["--only", "small"]):
        monkeypatch.setattr("sys.argv", ["goals", "--rounds", "1", "--out", str(out), *words])
        assert goals.main() == 0
        assert list(json.loads(out.read_text())["rows"]) == ["fast", "small"]


def test_a_goal_that_was_missed_by_noise_once_can_still_be_lost(tmp_path, monkeypatch):
    out = tmp_path / "goals.json"
    monkeypatch.setattr(goals, "KEPT", out)
    monkeypatch.setattr("sys.argv", ["goals", "--rounds", "3", "--out", str(out)])
    for values, code in (((120, 120, 120), 0), ((80, 99, 130), 0), ((50, 50, 51), 1)):
        left = iter(values)
        monkeypatch.setattr(goals, "GOALS", (Goal("fast", 100, True, lambda left=left: next(left)),))
        assert goals.main() == code, values
        kept = json.loads(out.read_text())["rows"]["fast"]
        assert kept["value"] == values[1] and kept["met"] == (values[1] >= 100) and kept["once met"]


@pytest.mark.parametrize(("count", "code"), [(9, 0), (10, 1)])
def test_the_command_ends_with_one_where_a_goal_that_was_met_is_lost(tmp_path, count, code):
    """A process of its own, in a folder whose kept figures say that the count was met, and whose project names so many."""
    names = [f"package{number}" for number in range(count)]
    (tmp_path / "pyproject.toml").write_text(f"[project]\ndependencies = {json.dumps(names)}\n", "utf-8")
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    row = {"value": 9.0, "rounds": [9.0], "goal": 9, "more is better": False, "met": True}
    kept = json.dumps({"rows": {DEPENDENCIES: row}})
    (tmp_path / goals.KEPT).write_text(kept, "utf-8")
    command = [sys.executable, "-m", "benchmarks.goals", "--only", DEPENDENCIES, "--out", str(goals.KEPT)]
    ran = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert ran.returncode == code, ran.stderr
    assert (f"LOST: {DEPENDENCIES}" in ran.stderr) == ("MISSED" in ran.stdout) == bool(code)
    now = json.loads((tmp_path / goals.KEPT).read_text("utf-8"))["rows"][DEPENDENCIES]
    assert now["value"] == count and now.get("lost", False) == bool(code)


def test_an_exponent_is_the_slope_of_logarithms():
    assert growth.exponent({10: 3.0, 100: 3.0, 1_000: 3.0}) == 0
    assert growth.exponent({10: 3.0, 100: 30.0, 1_000: 300.0}) == 1
    assert growth.exponent({1: 1.0, 4: 2.0, 16: 4.0}) == 0.5
