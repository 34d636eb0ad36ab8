"""The plan of claims on a real model: equal starts and budgets, runs that fit into a call, calls that go on."""

from tests.needs import require

require("[train]")

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_envs.base.errors import UsageError
from benchmarks import real_curves, training_runs
from benchmarks.real_curves import ADAPTER, MODEL, Calls, Plan
from benchmarks.training_runs import report_seeds
from trainers.command_line import parse
from trainers.sft import SFTSettings
from trainers.veg import VEGSettings

KINDS = {**real_curves.SETTINGS, "sft": SFTSettings, "veg": VEGSettings}


@pytest.fixture
def trainer(monkeypatch, tmp_path):
    """Stand in for trainers: each writes what a run leaves, and a start an adapter; `log` has their folders."""
    log, seconds, base = [], {}, tmp_path / "base"
    base.mkdir()
    (base / "tokenizer.json").write_text("{}")

    def run_trainer(command, env, output, timeout):
        out = Path(command[command.index("--out") + 1])
        name = str(out.relative_to(out.parents[1])).removesuffix(".part")
        if seconds.get(name, 0) > timeout:
            (out / "half").write_text("")
            raise subprocess.TimeoutExpired(command, timeout)
        log.append(name)
        (out / "checkpoints").mkdir()
        (out / "settings.json").write_text("{}")
        if "trainers.sft" in command:
            (out / "model").mkdir()
            for file in (*ADAPTER[:2], "tokenizer.json"):
                (out / "model" / file).write_text("{}")
        else:
            start = Path(command[command.index("--model.name") + 1])
            assert json.loads((start / ADAPTER[0]).read_text())["base_model_name_or_path"] == str(base)
            assert (start / "tokenizer.json").exists()
        success = {"success": 0.25 + 0.01 * len(log), "interval": [0.0, 1.0], "valid_actions": 0.9}
        (out / "result.json").write_text(json.dumps({"before": success, "after": success}))

    monkeypatch.setattr(real_curves, "run_trainer", run_trainer)
    monkeypatch.setattr(real_curves, "model_place", lambda name: str(base))
    run_trainer.log, run_trainer.seconds = log, seconds
    return run_trainer


@pytest.mark.parametrize("rehearsal", [False, True])
def test_every_run_of_the_plan_has_settings_that_its_trainer_takes(rehearsal, tmp_path):
    plan = Plan(rehearsal)
    for number, run in enumerate(plan.runs()):
        words = [*plan.words(run, tmp_path), "--out", str(tmp_path / str(number))]
        settings, _ = parse(KINDS[run.program], words, program=run.program)
        assert settings.model.lora_rank == 8 and settings.seed == run.seed and not settings.log.optimiser
        assert settings.steps == 4 if rehearsal else settings.evaluation.test_tasks == 128
        assert settings.model.name == str(tmp_path / run.start_folder / "model") if run.start else MODEL
        if run.program != "sft":
            assert not settings.warm_start.demonstrations


def test_arms_of_a_claim_have_one_start_a_seed_and_equal_budgets():
    plan = Plan(rehearsal=False)
    for claim, row in plan.table["claim"].items():
        runs = [run for run in plan.runs() if run.claim == claim]
        assert "arm" not in row or plan.seeds(claim) == report_seeds(
            plan.table["start"][row["start"]]["preset"].partition("/")[2], 3
        )
        assert {run.seed for run in runs} == set(plan.seeds(claim))
        for name, value in row.get("budget", {}).items():
            assert {run.options[name] for run in runs} == {value}
    rows = {arm: row["options"] for arm, row in plan.table["claim"]["grpo"]["arm"].items()}
    played = rows["grpo"]["steps"] * rows["grpo"]["tasks-per-step"] * rows["grpo"]["group-size"]
    assert rows["sft"]["episodes"] == played == rows["rejection"]["episodes"] * rows["rejection"]["samples-per-task"]
    reported = {seed for claim in plan.table["claim"] if claim != "starts" for seed in plan.seeds(claim)}
    assert plan.seeds("starts") == (0, 1) and not reported & {0, 1, 2}
    folders = [run.folder for run in plan.runs()]
    assert len(folders) == len(set(folders)) and all(
        run.start_folder in folders[:place] for place, run in enumerate(plan.runs()) if run.start
    )


def test_a_call_plays_what_fits_and_the_next_goes_on(trainer, tmp_path):
    plan, card = Plan(rehearsal=False), tmp_path / "out" / "card"
    runs = plan.runs("grpo/grpo")
    seeds = plan.seeds("grpo")
    upcoming = Calls(plan, card, minutes=1.9).play(runs)
    assert trainer.log == [] and upcoming.startswith(f"next: start/searchqa-{seeds[0]}, about 2.0 minutes")
    trainer.seconds[f"grpo/grpo-{seeds[1]}"] = 1e9
    upcoming = Calls(plan, card, minutes=5).play(runs)
    first = [f"start/searchqa-{seeds[0]}", f"grpo/grpo-{seeds[0]}", f"start/searchqa-{seeds[1]}"]
    assert trainer.log == first and upcoming.startswith(f"next: grpo/grpo-{seeds[1]}, about ")
    assert not list(card.rglob("*.part")) and not list(card.rglob("half"))  # it was cut off
    trainer.seconds.clear()
    before = (card / first[1] / "result.json").read_bytes()
    assert Calls(plan, card, minutes=5).play(runs) == ""
    assert trainer.log[3:] == [f"grpo/grpo-{seeds[1]}", f"start/searchqa-{seeds[2]}", f"grpo/grpo-{seeds[2]}"]
    assert (card / first[1] / "result.json").read_bytes() == before
    assert Calls(plan, card, minutes=0).play(runs) == "" and len(trainer.log) == 6


def test_a_run_that_was_killed_is_played_anew(trainer, tmp_path):
    plan, card = Plan(rehearsal=True), tmp_path / "out" / "card"
    runs = plan.runs("grpo/grpo")
    part = card / "grpo" / "grpo-0.part"
    part.mkdir(parents=True)
    (part / "result.json").write_text("not whole")
    assert Calls(plan, card, minutes=1).play(runs) == "" and trainer.log == ["start/searchqa-0", "grpo/grpo-0"]
    assert not part.exists()
    assert sorted(path.name for path in (card / "grpo" / "grpo-0").iterdir()) == [
        "log.txt", "result.json", "seconds.json", "settings.json",
    ]  # fmt: skip
    assert {path.name for path in (card / "start" / "searchqa-0" / "model").iterdir()} >= {*ADAPTER[:2]}


def test_a_start_stays_until_all_of_its_arms_have_ended(trainer, tmp_path):
    plan, card = Plan(rehearsal=True), tmp_path / "out" / "card"
    Calls(plan, card, minutes=1).play(plan.runs("arpo/arpo"))
    start = card / "start" / "toolreasoning-0" / "model"
    assert start.is_dir()
    Calls(plan, card, minutes=1).play(plan.runs("arpo"))
    assert not start.exists() and trainer.log.count("start/toolreasoning-0") == 1
    Calls(plan, card, minutes=1).play(plan.runs("arpo"))
    assert trainer.log.count("start/toolreasoning-0") == 1


def test_figures_of_a_card_are_paired_by_seed_and_say_when_they_are_a_rehearsal(trainer, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "argv", ["real_curves", "--minutes", "1", "--out", str(tmp_path), "--only", "grpo", "--cpu"]
    )
    real_curves.main()
    printed = capsys.readouterr().out
    assert "a rehearsal: it claims nothing\nthese runs have all ended" in printed
    table = json.loads((tmp_path / "figures-rehearsal.json").read_text())
    assert table["rehearsal"] and table["about"]["card"] == "rehearsal" and set(table["claims"]) == {"grpo"}
    claim = table["claims"]["grpo"]
    assert set(claim["arms"]) == {"grpo", "sft", "rejection"}
    assert claim["leads"]["grpo over rejection"]["by_seed"] == {"0": -0.02}
    assert "grpo over rejection: -2.0, no interval (seed 0)" in printed


def test_one_line_where_nothing_can_be_played(tmp_path, monkeypatch, capsys):
    plan = Plan(rehearsal=True)
    with pytest.raises(UsageError, match="--only ppo: no such claim or arm; there are starts/searchqa, "):
        plan.runs("ppo")
    monkeypatch.setattr(sys, "argv", ["real_curves", "--minutes", "1", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as end:
        real_curves.main()
    assert end.value.code == 2
    assert (
        capsys.readouterr().err == "real_curves: there is no GPU here: --cpu plays a rehearsal, which claims nothing\n"
    )
    (tmp_path / "large").write_bytes(b"0" * (real_curves.MOST_BYTES_A_FILE + 1))
    with pytest.raises(UsageError, match="large 16,000,001: too many to keep"):
        real_curves.check_size(tmp_path)


def test_a_trainer_that_takes_too_long_is_ended(tmp_path):
    pid, code = (
        tmp_path / "pid",
        "import os, pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); ",
    )
    with (tmp_path / "log").open("w") as log, pytest.raises(subprocess.TimeoutExpired):
        command = [sys.executable, "-c", f"{code}time.sleep(600)", str(pid)]
        training_runs.run_trainer(command, os.environ, log, timeout=5)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
