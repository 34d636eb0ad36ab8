"""The plan of claims on a real model: equal starts and budgets, runs that fit into a call, calls that go on."""

from tests.needs import require

require("[train]")

import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.statistics.rates import clustered_variance
from benchmarks import real_curves, real_leads, training_runs
from benchmarks.real_curves import ADAPTER, MODEL, Calls, Plan
from benchmarks.real_leads import ClaimTable, PlannedLead, measured_lead, planned_leads
from benchmarks.training_runs import report_seeds
from tests import ROOT
from trainers.command_line import parse
from trainers.evaluation import OUTCOMES_FILE
from trainers.sft import SFTSettings

ARMS = ("grpo", "sft", "sft-sound", "rejection")
KINDS = {**real_curves.SETTINGS, "sft": SFTSettings}


@pytest.fixture
def trainer(monkeypatch, tmp_path):
    """Stand in for trainers: each writes what a run leaves, and a start an adapter; `log` has their folders."""
    log, seconds, failing, base = [], {}, set(), tmp_path / "base"
    base.mkdir()
    (base / "tokenizer.json").write_text("{}")

    def run_trainer(command, env, output, timeout):
        out = Path(command[command.index("--out") + 1])
        name = str(out.relative_to(out.parents[1])).removesuffix(".part")
        if seconds.get(name, 0) > timeout:
            (out / "half").write_text("")
            raise subprocess.TimeoutExpired(command, timeout)
        log.append(name)
        if name in failing:
            raise subprocess.CalledProcessError(1, command)
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
        solved = 16 + 8 * ("grpo" in name)
        rows = [{"measure": "after", "task": f"{n}", "cluster": f"{n}", "success": n < solved} for n in range(32)]
        (out / "test_outcomes.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    monkeypatch.setattr(real_curves, "run_trainer", run_trainer)
    monkeypatch.setattr(real_curves, "model_place", lambda name: str(base))
    run_trainer.log, run_trainer.seconds, run_trainer.failing = log, seconds, failing
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
            plan.table["start"][row["start"]]["preset"].partition("/")[2], 5
        )
        assert {run.seed for run in runs} == set(plan.seeds(claim))
        for name, value in row.get("budget", {}).items():
            assert all(run.options[name] == value for run in runs)
    rows = {arm: row["options"] for arm, row in plan.table["claim"]["grpo"]["arm"].items()}
    played = rows["grpo"]["steps"] * rows["grpo"]["tasks-per-step"] * rows["grpo"]["group-size"]
    assert (
        rows["sft"]["episodes"]
        == rows["sft-sound"]["episodes"]
        == played
        == rows["rejection"]["episodes"] * rows["rejection"]["samples-per-task"]
    )
    reported = {seed for claim in plan.table["claim"] if claim != "starts" for seed in plan.seeds(claim)}
    assert plan.seeds("starts") == (0, 1) and not reported & {0, 1, 2}
    folders = [run.folder for run in plan.runs()]
    assert len(folders) == len(set(folders)) and all(
        run.start_folder in folders[:place] for place, run in enumerate(plan.runs()) if run.start
    )


def in_range(card, start="searchqa", **after):
    """Leave the results of a start's runs on dev tasks."""
    for seed in (0, 1):
        folder = card / "starts" / f"{start}-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "result.json").write_text(json.dumps({"after": {"success": 0.4, "valid_actions": 0.95} | after}))


def test_a_call_plays_what_fits_and_the_next_goes_on(trainer, tmp_path):
    plan, card = Plan(rehearsal=False), tmp_path / "out" / "card"
    in_range(card)
    runs = plan.runs("grpo/grpo")
    seeds = plan.seeds("grpo")
    assert [run.folder.parent.name for run in runs[:4]] == ["starts", "starts", "start", "grpo"]
    trainer.seconds[f"grpo/grpo-{seeds[1]}"] = 1e9
    upcoming = Calls(plan, card, minutes=5).play(runs)
    first = [f"start/searchqa-{seeds[0]}", f"grpo/grpo-{seeds[0]}", f"start/searchqa-{seeds[1]}"]
    later = [f"{run}-{seed}" for seed in seeds[2:] for run in ("start/searchqa", "grpo/grpo")]
    assert trainer.log == [*first, *later]
    assert upcoming == [f"grpo/grpo-{seeds[1]} was cut off; the same command plays it anew"]
    assert [path.name for path in (card / "grpo" / f"grpo-{seeds[1]}.part").iterdir()] == ["seconds.json"]
    trainer.seconds.clear()
    before = (card / first[1] / "result.json").read_bytes()
    assert Calls(plan, card, minutes=5).play(runs) == ["these runs have all ended"]
    assert trainer.log[9:] == [f"grpo/grpo-{seeds[1]}"]
    assert (card / first[1] / "result.json").read_bytes() == before and not list(card.rglob("*.part"))
    assert Calls(plan, card, minutes=0).play(runs) == ["these runs have all ended"] and len(trainer.log) == 10


def test_what_is_left_of_a_call_is_not_begun_with_a_run_that_takes_longer(trainer, tmp_path):
    plan, card = Plan(rehearsal=False), tmp_path / "card"
    in_range(card)
    calls = Calls(plan, card, minutes=4)
    calls._end -= 150  # seconds of it have passed
    assert calls.play(plan.runs("grpo/grpo"))[0].startswith("next: start/searchqa-") and trainer.log == []


def test_a_run_that_takes_longer_than_a_call_is_refused_also_where_it_was_cut_off(trainer, tmp_path):
    plan, card, seed = Plan(rehearsal=False), tmp_path / "card", Plan(rehearsal=False).seeds("grpo")[0]
    in_range(card)
    runs = plan.runs("grpo/grpo")[:4]
    assert (
        Calls(plan, card, minutes=3).play(runs)[0] == "grpo/grpo takes 4.0 minutes or more: give more than --minutes 3"
    )
    part = card / "grpo" / f"grpo-{seed}.part"
    part.mkdir(parents=True)
    (part / "seconds.json").write_text("300")
    assert Calls(plan, card, minutes=5).play(runs) == [
        "grpo/grpo takes 5.5 minutes or more: give more than --minutes 5"
    ]
    assert trainer.log == [f"start/searchqa-{seed}"]


def test_arms_are_refused_until_their_start_is_in_range(trainer, tmp_path):
    plan, card = Plan(rehearsal=False), tmp_path / "card"
    runs = [run for run in plan.runs("grpo/grpo") if run.claim != "starts"]
    refused = "arms that begin from searchqa are refused: starts/searchqa-0 "
    assert Calls(plan, card, minutes=9).play(runs) == [f"{refused}has not ended"]
    needs = "20% to 60% and 90% are needed"
    in_range(card, success=0.71)
    assert Calls(plan, card, minutes=9).play(runs) == [f"{refused}has 71% success and 95% valid turns; {needs}"]
    in_range(card, valid_actions=0.8)
    assert Calls(plan, card, minutes=9).play(runs) == [f"{refused}has 40% success and 80% valid turns; {needs}"]
    assert trainer.log == [] and set(plan.table["claim"]["starts"]["starts"]) == set(plan.table["start"])
    in_range(card)
    assert Calls(plan, card, minutes=9).play(runs) == ["these runs have all ended"]


def test_a_failure_is_noted_and_the_next_run_played(trainer, tmp_path, monkeypatch, capsys):
    trainer.failing.add("grpo/sft-0")
    words = ["real_curves", "--minutes", "1", "--out", str(tmp_path), "--only", "grpo", "--cpu"]
    monkeypatch.setattr(sys, "argv", words)
    real_curves.main()
    printed, folder = capsys.readouterr().out, tmp_path / "rehearsal" / "grpo" / "sft-0.failed"
    note = f"grpo/sft-0 failed: {folder / 'log.txt'} says why; delete that folder to play it anew"
    assert note in printed and trainer.log == ["start/searchqa-0", *(f"grpo/{arm}-0" for arm in ARMS)]
    table = json.loads((tmp_path / "figures-rehearsal.json").read_text())
    assert set(table["claims"]["grpo"]["arms"]) == {*ARMS} - {"sft"}
    real_curves.main()
    assert note in capsys.readouterr().out and len(trainer.log) == 5


def test_figures_are_written_where_a_call_breaks(trainer, tmp_path, monkeypatch):
    def breaking(self, run, left, play=Calls._play):
        if run.arm == "sft":
            raise RuntimeError("the disk is full")
        return play(self, run, left)

    monkeypatch.setattr(Calls, "_play", breaking)
    monkeypatch.setattr(
        sys, "argv", ["real_curves", "--minutes", "1", "--out", str(tmp_path), "--only", "grpo", "--cpu"]
    )
    with pytest.raises(RuntimeError, match="the disk is full"):
        real_curves.main()
    table = json.loads((tmp_path / "figures-rehearsal.json").read_text())
    assert table["about"]["command"].endswith("--out DIR --only grpo --cpu")
    assert set(table["claims"]["grpo"]["arms"]) == {"grpo"}


def test_a_run_that_was_killed_is_played_anew(trainer, tmp_path):
    plan, card = Plan(rehearsal=True), tmp_path / "out" / "card"
    runs = plan.runs("grpo/grpo")
    part = card / "grpo" / "grpo-0.part"
    part.mkdir(parents=True)
    (part / "result.json").write_text("not whole")
    assert Calls(plan, card, minutes=1).play(runs) == ["these runs have all ended"]
    assert trainer.log == ["start/searchqa-0", "grpo/grpo-0"]
    assert not part.exists()
    assert sorted(path.name for path in (card / "grpo" / "grpo-0").iterdir()) == [
        "log.txt", "result.json", "seconds.json", "settings.json", "test_outcomes.jsonl",
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


def test_figures_of_a_card_are_paired_and_say_when_they_are_a_rehearsal(trainer, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "argv", ["real_curves", "--minutes", "1", "--out", str(tmp_path), "--only", "grpo", "--cpu"]
    )
    real_curves.main()
    printed = capsys.readouterr().out
    assert "a rehearsal: it claims nothing\nthese runs have all ended" in printed
    assert "smallest leads that it can show, in points: grpo" in printed.splitlines()[0]
    table = json.loads((tmp_path / "figures-rehearsal.json").read_text())
    assert table["rehearsal"] and table["about"]["card"] == "rehearsal" and set(table["claims"]) == {"grpo"}
    claim = table["claims"]["grpo"]
    assert set(claim["arms"]) == {*ARMS} and set(claim["leads"]) == {f"grpo over {arm}" for arm in ARMS[1:]}
    assert {lead["verdict"] for lead in claim["leads"].values()} == {"a rehearsal"}
    monkeypatch.setattr(ClaimTable, "digest", lambda plan, claim: "of another plan")
    with pytest.raises(SystemExit):
        real_curves.main()
    assert "figures-rehearsal.json has grpo by another plan" in capsys.readouterr().err


LEAD = PlannedLead("grpo", ("grpo", "sft"), "after", in_gains=False)


def outcomes(solved, tasks=128, clusters=128, **measures):
    """Outcomes of a run that solves its first tasks; of measures by name too."""
    keys = [json.dumps([f"c{task % clusters}", f"t{task}"]) for task in range(tasks)]
    return {
        name: {key: float(n < count) for n, key in enumerate(keys)}
        for name, count in {"after": solved, **measures}.items()
    }


def test_a_lead_is_paired_by_task_in_each_seed():
    runs = {"grpo": {7: outcomes(96), 8: outcomes(90)}, "sft": {7: outcomes(60), 8: outcomes(64), 9: outcomes(0)}}
    row = measured_lead(LEAD, runs, 1, 0.1)
    assert row["difference"] == pytest.approx((36 + 26) / 256, abs=1e-4)
    assert row["over_seeds"]["by_seed"] == {"7": round(36 / 128, 4), "8": round(26 / 128, 4)}
    low, high = row["interval"]
    assert low < 0 < row["difference"] < high and 0.05 < row["p_value"] < 0.2  # two seeds have one degree of freedom
    assert measured_lead(LEAD, runs, 23, 0.1)["interval"][0] < low  # corrected for all comparisons
    assert measured_lead(LEAD, {"grpo": {7: outcomes(9)}, "sft": {8: outcomes(9)}}, 1, 0.1) is None


def test_the_error_of_a_lead_is_over_seeds_and_over_tasks():
    """Numbers by hand: of seeds alone, of clusters alone where seeds agree, and of both less what they share."""
    rows = [(seed, task) for seed in "abcde" for task in range(40)]
    seeds, tasks = [seed for seed, _ in rows], [str(task) for _, task in rows]
    differ = real_leads.two_way_error([0.1 * "abcde".index(seed) for seed in seeds], seeds, tasks)
    assert differ == pytest.approx(statistics.stdev([0, 0.1, 0.2, 0.3, 0.4]) / math.sqrt(5))
    agree = real_leads.two_way_error([float(int(task) < 10) for task in tasks], seeds, tasks)
    assert agree == pytest.approx(statistics.stdev([1] * 10 + [0] * 30) / math.sqrt(40))
    assert real_leads.two_way_error([float(int(task) < 10) for task in tasks], seeds, [t[0] for t in tasks]) > agree
    mixed = [x + 0.1 * "abcde".index(seed) for x, seed in zip([float(int(t) < 10) for t in tasks], seeds, strict=True)]
    shared = clustered_variance(np.array(mixed), np.arange(len(mixed)))[0]
    assert real_leads.two_way_error(mixed, seeds, tasks) == pytest.approx(math.sqrt(differ**2 + agree**2 - shared))
    assert real_leads.p_value(0.3, 0.1, 5) == pytest.approx(0.039942, abs=1e-5)  # Student's t of 3, four degrees
    assert real_leads.p_value(0.3, 0.1, 1) == real_leads.p_value(0.3, 0.0, 5) == 1


def test_a_lead_on_every_seed_is_not_shown_where_seeds_differ():
    """The tasks' own test, and five signs of one kind, would show it: p is below 1e-4 over tasks."""
    solved = (61, 62, 63, 100, 120)
    runs = {"grpo": dict(enumerate(map(outcomes, solved))), "sft": dict.fromkeys(range(5), outcomes(60))}
    row = measured_lead(LEAD, runs, 1, 0.1)
    assert all(value > 0 for value in row["over_seeds"]["by_seed"].values()) and row["p_value"] > 0.1


def test_a_task_that_a_fault_left_out_of_one_arm_is_no_pair():
    runs = {"grpo": {7: outcomes(96)}, "sft": {7: outcomes(60, tasks=64)}}
    row = measured_lead(LEAD, runs, 1, 0.1)
    assert row["difference"] == pytest.approx(4 / 64, abs=1e-4)
    assert row["p_value"] == 1 and row["interval"] == [-1, 1]  # one seed says nothing of others


def test_arms_with_other_starts_are_compared_in_gains():
    lead = PlannedLead("earl", ("expa-cpo", "zero"), "after", in_gains=True)
    runs = {"expa-cpo": {7: outcomes(96, before=60)}, "zero": {7: outcomes(40, before=2)}}
    row = measured_lead(lead, runs, 1, 0.1)
    assert row["difference"] == pytest.approx((36 - 38) / 128, abs=1e-4) == row["over_seeds"]["mean"]
    names = [lead.name for lead in planned_leads(Plan(rehearsal=False)) if lead.claim == "earl"]
    assert names == [
        *(f"expa-cpo over {arm}, in gains" for arm in ("prompt-grpo", "prompt-cpo")),
        "expa-cpo over expa-grpo",
        "expa-cpo over zero, in gains",
    ]


def test_advice_is_measured_alike_in_all_arms(tmp_path):
    names = [lead.name for lead in planned_leads(Plan(rehearsal=False)) if lead.claim == "veg"]
    assert names == [
        f"good over {arm}, {side} feedback" for side in ("without", "with") for arm in ("grpo", "misleading", "fading")
    ]
    plan = Plan(rehearsal=False)
    for run in plan.runs("veg"):
        settings, _ = parse(
            KINDS[run.program], [*plan.words(run, ROOT), "--out", str(tmp_path / run.arm)], program=run.program
        )
        assert "VerbalFeedback" in settings.stacks if run.program == "sft" else settings.tester == "scripted:good"


def test_verdicts_follow_from_one_rule():
    leads = [(0.2, 0.001, 0.001), (-0.2, 0.001, 0.002), (0.2, 0.02, 0.02), (0.2, 0.001, 0.4)]
    words = [verdict for *_, verdict in real_leads.verdicts(leads, 10)]
    assert words == ["shown", "the contrary is shown", "not shown", "undecided: task outcomes were not kept"]
    assert real_leads.verdicts([(0.2, 0.001, 0.001)], 49)[0][2] == "shown"  # Holm's first step: 49 of them
    assert real_leads.verdicts([(0.2, 0.001, 0.001)], 51)[0][2] == "not shown"


def test_leads_are_corrected_for_all_comparisons_of_the_page(trainer, tmp_path):
    plan, card = Plan(rehearsal=False), tmp_path / "card"
    in_range(card)
    runs = [run for run in plan.runs("grpo") if run.claim != "starts" and run.arm in ("searchqa", "grpo", "sft")]
    Calls(plan, card, minutes=99).play(runs[:-3])
    lead = real_leads.figures(plan, card)["grpo"]["leads"]["grpo over sft"]
    assert lead["verdict"] == "4 of 5 seeds" and "p_holm" not in lead
    Calls(plan, card, minutes=99).play(runs)
    lead = real_leads.figures(plan, card)["grpo"]["leads"]["grpo over sft"]
    assert lead["p_holm"] == pytest.approx(min(1.0, real_leads.comparisons(plan) * lead["p_value"]))
    assert real_leads.comparisons(plan) > len(planned_leads(plan)) and 0.2 < lead["planned_detectable"] < 0.3
    assert real_leads.OUTCOMES_FILE == OUTCOMES_FILE


def test_the_peer_of_verlog_has_its_loss(tmp_path):
    plan, rows = Plan(rehearsal=False), {}
    for run in plan.runs("verlog"):
        if run.claim == "verlog":
            words = [*plan.words(run, ROOT), "--out", str(tmp_path / run.arm)]
            rows[run.arm], _ = parse(KINDS[run.program], words, program=run.program)
    one, other = rows["verlog"], rows["grpo"]
    for name in ("optim", "beta", "entropy", "dual_clip", "eps_low", "eps_high", "minibatches", "epochs"):
        assert getattr(one, name) == getattr(other, name), name
    assert (other.kl, other.kl_in) == ("k1", "reward")


def test_the_guide_says_what_the_plan_takes():
    minutes, calls = Plan(rehearsal=False).price(9)
    text = " ".join((ROOT / "docs" / "training.md").read_text(encoding="utf-8").split())
    assert f"{minutes:g} minutes of one GPU, estimated, in {calls} calls of nine" in text


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
