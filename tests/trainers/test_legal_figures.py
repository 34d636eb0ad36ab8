"""The free-turns benchmark computes means, differences and Student's intervals over seeds from finished runs."""

import json
import shutil

import pytest

from agent_envs.evaluation.report.turn_limits import LimitRow
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.runs.run_folder import Settings
from agent_envs.evaluation.statistics.rates import success_rate
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from benchmarks import legal_learn


def rows(*accuracies, turns=2.0):
    """A row a limit, 0 and 4, of an agent that abstains from all that it does not solve."""
    return [
        LimitRow("law", "", limit, rate(value), rate(1 - value), rate(0.0), turns, (None, None))
        for limit, value in zip((0, 4), accuracies, strict=True)
    ]


def rate(value):
    count = round(value * 20)
    return success_rate(
        [1.0] * count + [0.0] * (20 - count), [str(task) for task in range(20)], [str(task) for task in range(20)]
    )


def found():
    return {
        "base": {0: rows(0.0, 0.1), 1: rows(0.0, 0.2), 2: rows(0.0, 0.3)},
        "2 turns": {0: rows(0.0, 0.1), 1: rows(0.0, 0.2), 2: rows(0.0, 0.3)},
        "4 turns": {0: rows(0.0, 0.3), 1: rows(0.0, 0.3), 2: rows(0.0, 0.6)},
        "10 turns": {0: rows(0.0, 0.5), 1: rows(0.0, 0.5), 2: rows(0.0, 0.5)},
    }


def test_differences_have_students_interval_over_seeds():
    """4 turns - base is 0.2, 0.1, 0.3: mean 0.2, half-width 4.3027 x 0.1 / sqrt(3) = 0.2484."""
    told = legal_learn.differences(found())
    assert list(told) == [
        "2 turns - base", "4 turns - base", "10 turns - base", "4 turns - 2 turns", "10 turns - 4 turns",
    ]  # fmt: skip
    row = told["4 turns - base"]["success"]["4"]
    assert row["by_seed"] == {"0": 0.2, "1": 0.1, "2": 0.3} and row["mean"] == 0.2
    assert row["interval"] == pytest.approx([-0.0484, 0.4484], abs=1e-4)
    assert told["4 turns - base"]["success"]["0"]["interval"] is None
    assert told["10 turns - 4 turns"]["success"]["4"]["by_seed"] == {"0": 0.2, "1": 0.2, "2": -0.1}


def test_intervals_of_an_agent_hold_over_seeds_and_not_over_their_pooled_episodes():
    """Seeds at 20, 50 and 80 % say next to nothing, however many tasks each is measured on."""
    told = legal_learn.turns_table({"base": {seed: rows(0.0, value) for seed, value in enumerate((0.2, 0.5, 0.8))}})
    low, high = told["base"]["success"]["4"]["interval"]
    assert low < 0 and high > 1 and told["base"]["success"]["4"]["mean"] == 0.5
    assert told["base"]["turns"]["0"]["by_seed"] == {"0": 2.0, "1": 2.0, "2": 2.0}


def test_what_is_not_known_of_a_seed_is_left_out():
    told = legal_learn.turns_table({"base": {0: rows(0.0, 0.5), 1: rows(0.0, 0.5, turns=None)}})
    assert told["base"]["turns"]["4"]["by_seed"] == {"0": 2.0}


def test_a_line_a_seed_and_one_for_their_mean(tmp_path):
    from matplotlib.figure import Figure

    axis = Figure().subplots()
    legal_learn.draw_agent(axis, "base", found()["base"], "success", 100)
    assert [list(line.get_ydata()) for line in axis.lines[:3]] == [[0, 10], [0, 20], [0, 30]]
    assert list(axis.lines[3].get_ydata()) == pytest.approx([0, 20]) and len(axis.lines) == 4
    legal_learn.draw(found(), tmp_path / "law.png")
    assert (tmp_path / "law.png").read_bytes().startswith(b"\x89PNG")


def test_seeds_whose_runs_and_sweeps_have_ended_are_taken(tmp_path, monkeypatch, capsys):
    suite = adhoc_suite(Choice("LegalSearch", {}, "test", 2, turn_limits=(0, 1)))
    swept = tmp_path / "swept"
    evaluate(suite, Settings("random", smoke=True), folder=swept)
    told = {"success": 0.5, "interval": [0.25, 0.75]}
    kept = {"gain": None, "steps": 1, "env_steps": 2, "sampled_tokens": 3, "cpu_seconds": 4.0}
    for seed in (0, 1, 2):
        for folder in legal_learn.run_folders(tmp_path, seed).values():
            folder.mkdir()
            row = {"seed": seed, "before": told, "after": told, **kept}
            (folder / "result.json").write_text(json.dumps(row))
        for name in legal_learn.AGENTS[: 2 if seed == 1 else 4]:  # one sweep of seed 1 is missing
            shutil.copytree(swept, legal_learn.sweep_folder(tmp_path, name, seed))
    results = legal_learn.sweep_folder(tmp_path, "base", 2) / "results.json"
    results.write_text(results.read_text().replace('"complete": true', '"complete": false'))
    assert [legal_learn.has_ended(tmp_path, seed) for seed in (0, 1, 2, 3)] == [True, False, False, False]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    out = tmp_path / "out" / "law.json"
    out.parent.mkdir()
    monkeypatch.setattr("sys.argv", ["legal_learn", "--runs", str(tmp_path), "--finished", "--out", str(out)])
    legal_learn.main()
    table = json.loads(out.read_text())
    assert [row["seed"] for row in table["runs"]["4 turns"]["seeds"]] == [0]
    assert list(table["turns"]["base"]["success"]) == ["0", "1"] and "Student" in table["about"]["bars"]
    assert table["differences"]["10 turns - base"]["success"]["1"]["interval"] is None
    assert str(tmp_path) not in out.read_text() and out.with_suffix(".png").exists()
    assert {path: path.stat().st_mtime_ns for path in before if path != tmp_path} == {
        p: t for p, t in before.items() if p != tmp_path
    }
    assert "10 turns - 4 turns, accuracy by free turns" in capsys.readouterr().out


def test_presets_and_limits():
    assert (
        set(legal_learn.PRESETS.values()) == {"tiny-legal", "tiny-legal-4", "tiny-legal-2"}
        and legal_learn.LIMITS[0] == 0
    )
    assert set(legal_learn.STYLES) == set(legal_learn.LABELS) == set(legal_learn.AGENTS)
