"""The demo: its length by the log of a measured one, what a log accounts for, and what a killed demo goes on with."""

import json
import signal
import subprocess
import sys

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.core.registry import TABLE
from benchmarks import demo, demo_board, demo_model
from benchmarks.demo_log import BUDGET, MEASURED, TASKS, DemoStep, Log, by_share, estimate_seconds, read_log
from benchmarks.demo_model import MODEL
from benchmarks.training_runs import report_seeds
from tests import ROOT
from tests.needs import needs

STEPS = [DemoStep("play", "evaluation", 10), DemoStep("learn", "training"), DemoStep("page", "page")]
HEAD = {"demo": "1"}


@needs("[envs]")
def test_the_measured_demo_is_the_planned_one_and_kept_within_its_budget(monkeypatch):
    monkeypatch.delenv("AGENT_ENVS_DATA", raising=False)
    head, rows = read_log(MEASURED)
    planned = [(step.name, step.share, step.episodes) for step in demo.plan_steps(TASKS, full=False)]
    assert [(row["step"], row["share"], row["episodes"]) for row in rows] == planned
    assert head["tasks"] == TASKS and not head["full"] and head["data"] == ""
    sums = by_share(rows)
    assert all(0 < sums[share] <= most for share, most in BUDGET.items()) and sum(BUDGET.values()) == 120
    plan = demo.plan_steps(TASKS, full=False)
    assert sum(estimate_seconds(plan).values()) == pytest.approx(sum(sums.values()))
    longer = estimate_seconds(demo.plan_steps(2 * TASKS, full=False))
    assert longer["searchqa-world-random"] == pytest.approx(2 * estimate_seconds(plan)["searchqa-world-random"])


def test_the_model_that_the_demo_begins_with_is_small_and_comes_from_its_command():
    files = {path.name: path.stat().st_size for path in MODEL.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(files) and sum(files.values()) < 1_000_000
    assert "python -m benchmarks.demo_model" in demo_model.__doc__


def test_the_training_that_is_told_is_the_demos_own():
    kept = json.loads((MEASURED.parent / "demo_training.json").read_text(encoding="utf-8"))
    assert " ".join(demo.SHORTER) in kept["command"] and kept["seed"] == report_seeds(demo.PRESET)[0]
    before, after = (f"{100 * kept[side]['success']:.1f}" for side in ("before", "after"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"[{before} to {after} % of {kept['after']['tasks']} test tasks]" in readme


@needs("[envs]")
def test_every_environment_is_played_by_random_heuristic_and_solver(monkeypatch):
    monkeypatch.delenv("AGENT_ENVS_DATA", raising=False)
    played = {(name.split("-")[0], agent) for name, (agent, _) in demo.runs(TASKS).items()}
    assert played >= {(row.name.lower(), agent) for row in TABLE for agent in ("random", "heuristic", "solver")}


@needs("[envs]")
def test_the_full_demo_has_the_rest(monkeypatch):
    monkeypatch.delenv("AGENT_ENVS_DATA", raising=False)
    short, full = (demo.plan_steps(*how) for how in ((TASKS, False), (demo.FULL_TASKS, True)))
    assert {step.name for step in full} - {step.name for step in short} == {"sorting"}
    assert sum(step.episodes for step in full) > 2 * sum(step.episodes for step in short)


def test_a_log_accounts_for_every_step_and_a_killed_demo_goes_on(tmp_path):
    done, path = [], tmp_path / "log.jsonl"
    log = demo.open_log(tmp_path, HEAD, STEPS)
    log.run("play", lambda tell: done.append("play"))
    (tmp_path / "runs").mkdir()
    with pytest.raises(KeyboardInterrupt):
        log.run("learn", killed)
    log.close()
    assert [row["step"] for row in read_log(path)[1]] == ["play"]
    log = demo.open_log(tmp_path, HEAD, STEPS)
    assert log.missing == ["learn", "page"] and (tmp_path / "runs").is_dir()
    for name in log.steps:
        log.run(name, lambda tell, name=name: (tell(0.5), done.append(name)))
    assert done == ["play", "learn", "page"] and log.missing == [] and log.length() == 0
    cpu, wall = log.so_far()
    log.close()
    rows = read_log(path)[1]
    assert cpu >= sum(row["cpu_seconds"] for row in rows) and wall >= sum(row["seconds"] for row in rows)
    assert sum(by_share(rows).values()) == pytest.approx(sum(row["cpu_seconds"] for row in rows))


def killed(tell):
    raise KeyboardInterrupt


@pytest.mark.parametrize("why", ["finished", "another plan", "damaged"])
def test_what_cannot_go_on_is_played_again(tmp_path, why):
    log = Log(tmp_path / "log.jsonl", HEAD, STEPS)
    for name in ("play", "learn", "page")[: 3 if why == "finished" else 1]:
        log.run(name, lambda tell: None)
    log.close()
    for folder in ("runs", "mine"):
        (tmp_path / folder).mkdir()
    if why == "damaged":
        path = tmp_path / "log.jsonl"
        path.write_text(path.read_text().replace("play", "stay") + "more")
    again = demo.open_log(tmp_path, HEAD if why != "another plan" else {"demo": "2"}, STEPS)
    assert list(again.rows) == [] and not (tmp_path / "runs").exists() and (tmp_path / "mine").exists()
    again.close()
    assert read_log(tmp_path / "log.jsonl")[0] == again_head(why)


def again_head(why):
    return {"demo": "2"} if why == "another plan" else HEAD


def test_a_submission_that_is_not_accepted_ends_the_demo(tmp_path, monkeypatch):
    class Verdict:
        verdict, findings, unknown = "rejected", (), ()

    monkeypatch.setattr(demo_board, "add", lambda *_: Verdict)
    with pytest.raises(UsageError, match="is rejected, not accepted"):
        demo_board.run_here("add", [tmp_path / "packed", "--board", tmp_path, "--who", "me"], print)


PARENT = """
import os, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from benchmarks.training_runs import end_trainers_with_us, run_trainer
end_trainers_with_us()
program = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
trainer = ["sh", "-c", f"'{sys.executable}' -c '{program}' & wait"]  # a trainer that has a process of its own

class Interrupted(subprocess.Popen):
    def __init__(self, *words, **options):
        if sys.argv[1] == "start fails":
            os.kill(os.getpid(), int(sys.argv[2]))
            raise OSError("no process can be made")
        super().__init__(*words, **options)
        os.kill(os.getpid(), int(sys.argv[2]))

if sys.argv[1].startswith("start"):
    subprocess.Popen = Interrupted
if sys.argv[1] == "one thread":
    run_trainer(trainer, os.environ, sys.stdout)
with ThreadPoolExecutor(1) as pool:
    list(pool.map(lambda _: run_trainer(trainer, os.environ, sys.stdout), range(2)))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("when", ["runs", "one thread", "starts", "start fails"])
def test_a_demo_that_is_stopped_ends_its_trainer_too(number, when):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, when, str(int(number))],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if not when.startswith("start"):
        assert parent.stdout.readline().strip().isdigit()  # the trainer runs
        parent.send_signal(number)
    _, errors = parent.communicate(timeout=30)  # it returns when the trainer, too, has closed its output
    assert parent.returncode == -number and "the same command goes on" in errors
