"""A goal is lost where it was met and is missed by more than the rounds differ, whatever the machine; exponents are slopes."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks import calibration, goals, growth
from benchmarks.goals import Goal, Round, lost_goals, measure_goals, table
from tests import ROOT

DEPENDENCIES = "direct dependencies of a core install"
FAST = Goal("fast", 100, True, lambda: 120.0)
SMALL = Goal("small", 5, False, lambda: 4.0)
STEP = Goal("step", 25, False, lambda: 8_000.0, unit="steps per CPU-s")  # 125 us, 25 thousandths of 5,000


def row_of(goal, figures, units=None):
    """Return the row of rounds, with the calibration's units before and after each."""
    plays = [tuple({"one": unit / 2, "other": unit * 2} for unit in pair) for pair in units or [()] * len(figures)]
    return goals.row_of(goal, [Round(*each) for each in zip(figures, plays, strict=True)])


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
    assert lost_goals({"fast": row_of(FAST, before)}, {"fast": row_of(FAST, rounds)}) == gone


def test_what_may_not_grow_is_lost_upwards():
    assert lost_goals({"small": row_of(SMALL, [4])}, {"small": row_of(SMALL, [6, 6.1, 6.2])}) == ["small"]
    assert lost_goals({"small": row_of(SMALL, [4])}, {"small": row_of(SMALL, [1, 1.1, 1.2])}) == []


def test_a_row_that_cannot_be_measured_says_why_and_is_not_lost():
    absent = Goal("fast", 100, True, lambda: "the peer is not here")
    rows = measure_goals([absent, SMALL], 2)
    assert rows["fast"]["not measured"] == "the peer is not here" and rows["small"]["rounds"] == [4, 4]
    assert lost_goals({"fast": row_of(FAST, [120])}, rows) == []
    assert "the peer is not here" in table(rows) and "met" in table(rows)


@pytest.mark.parametrize(("slower", "code"), [(1, 1), (2.4, 1), (0.5, 1), (1, 1.5), (2.4, 1.5)])
def test_a_slower_machine_loses_no_goal_and_slower_code_does_on_any_machine(slower, code):
    before = row_of(STEP, [9_000] * 3, [(5_000, 5_000)] * 3)
    rates = [9_000 / slower / code * noise for noise in (0.99, 1, 1.01)]
    now = row_of(STEP, rates, [(5_000 * slower, 5_000 * slower)] * 3)
    assert now["value"] == pytest.approx(before["value"] * code, rel=1e-3) and before["value"] == 22.22
    assert now["measured"][1] == pytest.approx(9_000 / slower / code, rel=1e-3)
    assert now["calibration us"] == [5_000 * slower] * 3
    assert lost_goals({"step": before}, {"step": now}) == (["step"] if code > 1 else [])
    assert f"where a unit is {5_000 * slower:g} us" in table({"step": now})


@pytest.mark.parametrize(("unit", "figure"), [("us", 100), ("ms", 0.1), ("s", 1e-4), ("steps per CPU-s", 10_000)])
def test_figures_of_every_unit_come_to_thousandths_of_the_calibrations(unit, figure):
    goal = Goal("step", 25, False, lambda: figure, unit=unit)
    assert row_of(goal, [figure], [(5_000, 5_000)])["value"] == pytest.approx(20)


def test_a_round_in_which_the_calibration_drifts_is_void():
    row = row_of(STEP, [9_000, 2_000, 9_000], [(5_000, 5_500), (5_000, 9_000), (5_000, 5_000)])
    assert row["void rounds"] == 1 and row["measured"] == [9_000, 9_000] and row["met"]
    assert row_of(STEP, [9_000, 2_000], [(5_000, 9_000), (9_000, 5_000)])["void"] == 1.8


def test_a_run_without_a_sound_round_is_neither_judged_nor_written(tmp_path, monkeypatch, capsys):
    out, units = tmp_path / "goals.json", iter((5_000, 9_000))
    monkeypatch.setattr(goals, "RESULTS_FILE", out)
    monkeypatch.setattr(goals, "GOALS", (STEP,))
    monkeypatch.setattr(calibration, "play", lambda: {"part": next(units)})
    monkeypatch.setattr("sys.argv", ["goals", "--rounds", "1", "--out", str(out)])
    assert goals.main() == 2 and not out.exists()
    assert "VOID" in capsys.readouterr().err


def test_the_calibration_is_played_before_and_after_a_measurement():
    calls = []
    goal = Goal("step", 25, False, lambda: calls.append("measure") or 9_000, unit="steps per CPU-s")
    measure_goals([goal, SMALL], 2, lambda: calls.append("play") or {"part": 5_000.0})
    assert calls == ["play", "measure", "play"] * 2
    assert calibration.unit_of([{"a": 1.0, "b": 100.0}, {"a": 10.0, "b": 10.0}]) == pytest.approx(10)
    assert calibration.drift_of([]) == 1 and calibration.drift_of([{"a": 4.0}, {"a": 5.0}]) == pytest.approx(1.25)
    play = calibration.play()
    assert list(play) == list(calibration.PARTS) and all(0 < value < 1e6 for value in play.values())


def test_what_was_not_measured_now_stays_as_it_was_kept(tmp_path, monkeypatch):
    out = tmp_path / "goals.json"
    kept = row_of(FAST, [120]) | {"once met": True}
    out.write_text(json.dumps({"rows": {"fast": kept, "a goal of before": kept}}), "utf-8")
    monkeypatch.setattr(goals, "RESULTS_FILE", out)
    monkeypatch.setattr(goals, "GOALS", (Goal("fast", 100, True, lambda: "the peer is not here"), SMALL))
    monkeypatch.setattr("sys.argv", ["goals", "--rounds", "1", "--out", str(out)])
    assert goals.main() == 0
    rows = json.loads(out.read_text())["rows"]
    assert list(rows) == ["fast", "small"] and rows["fast"] == kept | {"of an earlier run": True}
    assert "of an earlier run" not in rows["small"]


def test_a_lost_goal_is_told_by_the_exit_code_and_written_until_it_is_met_again(tmp_path, monkeypatch):
    out = tmp_path / "goals.json"
    monkeypatch.setattr(goals, "RESULTS_FILE", out)
    monkeypatch.setattr("sys.argv", ["goals", "--rounds", "1", "--out", str(out)])
    for value, code in ((120.0, 0), (50.0, 1), (51.0, 1), (101.0, 0)):
        monkeypatch.setattr(goals, "GOALS", (Goal("fast", 100, True, lambda value=value: value),))
        assert goals.main() == code
        kept = json.loads(out.read_text())["rows"]["fast"]
        assert kept["value"] == value and kept.get("lost", False) == bool(code) and kept["once met"]


def test_rows_that_are_left_out_stay_as_they_were_kept(tmp_path, monkeypatch):
    out = tmp_path / "goals.json"
    monkeypatch.setattr(goals, "RESULTS_FILE", out)
    monkeypatch.setattr(goals, "GOALS", (Goal("fast", 100, True, lambda: 120.0), SMALL))
    for words in ([], ["--only", "small"]):
        monkeypatch.setattr("sys.argv", ["goals", "--rounds", "1", "--out", str(out), *words])
        assert goals.main() == 0
        assert list(json.loads(out.read_text())["rows"]) == ["fast", "small"]


def test_a_goal_that_was_missed_by_noise_once_can_still_be_lost(tmp_path, monkeypatch):
    out = tmp_path / "goals.json"
    monkeypatch.setattr(goals, "RESULTS_FILE", out)
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
    (tmp_path / goals.RESULTS_FILE).write_text(kept, "utf-8")
    command = [sys.executable, "-m", "benchmarks.goals", "--only", DEPENDENCIES, "--out", str(goals.RESULTS_FILE)]
    ran = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert ran.returncode == code, ran.stderr
    assert (f"LOST: {DEPENDENCIES}" in ran.stderr) == ("MISSED" in ran.stdout) == bool(code)
    now = json.loads((tmp_path / goals.RESULTS_FILE).read_text("utf-8"))["rows"][DEPENDENCIES]
    assert now["value"] == count and now.get("lost", False) == bool(code)


def test_an_exponent_is_the_slope_of_logarithms():
    assert growth.exponent({10: 3.0, 100: 3.0, 1_000: 3.0}) == 0
    assert growth.exponent({10: 3.0, 100: 30.0, 1_000: 300.0}) == 1
    assert growth.exponent({1: 1.0, 4: 2.0, 16: 4.0}) == 0.5
