"""The Verlog benchmark: paired differences, curves over environment steps, and a page that says what its file does."""

import json
import re
import subprocess

import pytest

from benchmarks import training_runs, verlog_learn
from tests import ROOT
from tests.needs import needs


def result(seed, after, steps=400):
    sides = {"before": {"success": 0.25}, "after": {"success": after}}
    return {"seed": seed, "env_steps": steps, "steps": 3, **sides}


@pytest.fixture
def rows(monkeypatch):
    """Metrics of a run: an evaluation in the middle, and one at the end, which the test takes the place of."""
    found = [
        {"env_steps": 100, "explained_variance": 0.12345},
        {"env_steps": 200, "eval/success": 0.5, "explained_variance": 0.5},
        {"env_steps": 400, "eval/success": 0.9, "explained_variance": 0.6},
    ]
    monkeypatch.setattr(verlog_learn, "read_metrics", lambda path: found)
    monkeypatch.setattr(verlog_learn, "greedy", lambda folder: {"success": 0.95})
    return found


def test_differences_are_paired_by_seed_and_know_what_they_could_have_shown(rows, monkeypatch, tmp_path):
    """GRPO - Verlog is -0.1, 0.1, 0.0: mean 0, half-width 4.3027 x 0.1 / sqrt(3)."""
    monkeypatch.setattr(verlog_learn, "built_in", lambda *_: {"success": 0.1})
    found = {
        "Verlog": {seed: result(seed, value) for seed, value in ((7, 0.9), (8, 0.8), (9, 0.7))},
        "GRPO": {seed: result(seed, value) for seed, value in ((7, 0.8), (8, 0.9), (9, 0.7))},
    }
    table = verlog_learn.table_of(found, tmp_path, 4)
    row = table["arms"]["GRPO"]
    assert row["ahead_of_verlog"]["by_seed"] == {"7": -0.1, "8": 0.1, "9": 0.0} and row["ahead_of_verlog"]["mean"] == 0
    assert row["smallest_difference_shown"] == pytest.approx(0.2484, abs=1e-4)
    assert "ahead_of_verlog" not in table["arms"]["Verlog"]
    assert table["arms"]["Verlog"]["curves"]["7"] == [(0.0, 0.25), (200, 0.5), (400.0, 0.9)]
    assert table["arms"]["Verlog"]["explained_variance"]["7"] == [0.1235, 0.5, 0.6]
    assert table["arms"]["Verlog"]["greedy"] == {seed: {"success": 0.95} for seed in ("7", "8", "9")}
    assert set(table["built_in"]) == {"random, 16 turns", "random, 64 turns", "solver, 16 turns", "solver, 64 turns"}


def test_a_seed_that_its_check_stopped_has_failed_and_ends_nothing(rows, monkeypatch, tmp_path, capsys):
    """One of two seeds of Verlog is stopped; any other fault of a run is one."""
    random_play = {"success": 0.1, "interval": [0.0, 0.2]}
    monkeypatch.setattr(verlog_learn, "built_in", lambda *_: random_play)

    def run(command, env, log):
        folder = tmp_path / command[command.index("--out") + 1]
        program, seed = command[2], int(command[command.index("--seed") + 1])
        if program == "trainers.verlog" and seed == 8:
            log.write("verlog: the critic has not settled: value loss 1 -> 2\n")
            raise subprocess.CalledProcessError(2, command)
        ended = result(seed, 0.9) | {"cpu_seconds": 6.0}
        ended["before"]["interval"] = ended["after"]["interval"] = [0.0, 1.0]
        (folder / "result.json").write_text(json.dumps(ended))

    monkeypatch.setattr(training_runs, "run_trainer", run)
    out = tmp_path / "figures.json"
    words = ["--seeds", "7", "8", "--runs", str(tmp_path / "runs"), "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["verlog_learn", *words])
    verlog_learn.main()
    told = capsys.readouterr().out
    assert "Verlog         seed 8: stopped by its check" in told and "stopped by its check: seeds 8" in told
    arms = json.loads(out.read_text())["arms"]
    assert arms["Verlog"]["stopped_by_its_check"] == [8] and list(arms["Verlog"]["after"]["by_seed"]) == ["7"]
    assert list(arms["GRPO"]["after"]["by_seed"]) == ["7", "8"] and "stopped_by_its_check" not in arms["GRPO"]
    assert verlog_learn.table_of({"Verlog": {}}, tmp_path, 4, {"Verlog": [7, 8]})["arms"]["Verlog"] == {
        "stopped_by_its_check": [7, 8]
    }
    monkeypatch.setattr(verlog_learn, "STOPPED", "something else")
    with pytest.raises(subprocess.CalledProcessError):
        verlog_learn.main()


def test_one_seed_could_have_shown_nothing():
    assert verlog_learn.half_width({"by_seed": {"7": 0.1}}) is None and verlog_learn.half_width(None) is None


@needs("[babyai]")
def test_built_in_agents_play_the_tasks_that_runs_are_measured_on():
    solver, random = (verlog_learn.built_in(agent, 16, 12) for agent in ("solver", "random"))
    assert solver["success"] == 1.0 and solver["tasks"] == 12 and random["success"] < 0.6


@pytest.mark.parametrize(("name", "place"), [("verlog_learn", 0), ("verlog_one_discount", 1), ("verlog_ablations", 2)])
def test_the_page_says_what_the_files_do(name, place):
    told = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "verlog.md").read_text(encoding="utf-8")
    lines = re.split("\n### (?:One discount|Ablations)", page)[place].splitlines()
    for arm, row in told["arms"].items():
        line = next(line for line in lines if line.startswith(f"| {arm} |"))
        for side in ("before", "after"):
            values = row[side]["by_seed"].values()
            assert ", ".join(f"{100 * value:.1f}" for value in values) in line, (arm, side)
            assert f"{100 * row[side]['mean']:.1f}" in line, (arm, side)
        if greedy := row.get("greedy"):
            assert ", ".join(f"{100 * greedy[seed]['success']:.1f}" for seed in row["after"]["by_seed"]) in line, arm
        if gap := row.get("ahead_of_verlog"):
            bounds = gap["interval"] and " [{:+.1f}, {:+.1f}]".format(*(100 * bound for bound in gap["interval"]))
            assert f"{100 * gap['mean']:+.1f}{bounds or ''}" in line, arm
        for seed in row.get("stopped_by_its_check", ()):
            assert any(str(seed) in row and "check stopped" in row for row in lines), seed
    for agent, row in told["built_in"].items():
        line = next(line for line in lines if line.startswith(f"| {agent} |"))
        assert f"{100 * row['success']:.1f}" in line, agent


@needs("[train]")
@pytest.mark.parametrize("arm", [arm for arm in verlog_learn.ABLATIONS if verlog_learn.ABLATIONS[arm][0] == "verlog"])
def test_every_ablation_changes_one_thing_of_the_preset(arm, tmp_path):
    from trainers.command_line import parse
    from trainers.verlog import VerlogSettings

    words = ("--preset", verlog_learn.PRESET, "--out", str(tmp_path / "run"))
    plain, changed = (
        parse(VerlogSettings, [*words, *more], program="verlog")[0] for more in ((), verlog_learn.ABLATIONS[arm][1])
    )
    names = {name for name in vars(plain) if getattr(plain, name) != getattr(changed, name)}
    assert (
        names
        == {
            "one discount": {"discounts"},
            "no warm-up": {"warmup", "steps"},
            "first weight 1": {"critic"},
            "native reward": {"env"},
            "released truncation": {"released_truncation"},
        }[arm]
    )
    if arm == "native reward":
        assert json.loads(changed.env.arguments) == {**json.loads(plain.env.arguments), "reward": "native"}
