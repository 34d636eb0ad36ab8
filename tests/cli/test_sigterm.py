"""SIGTERM is Ctrl-C: commands and trainers end in their own way, say how to go on, and leave no child behind."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from agent_envs.base.jsonl_log import Journal, read_journal
from tests import ROOT
from tests.needs import needs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def begin(*words, ignore=False):
    """Start a module; `ignore`: as a shell's background job, which ignores Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, "-m", *map(str, words)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN if ignore else signal.default_int_handler),
    )  # fmt: skip


def wait_for(condition, process):
    for _ in range(1200):
        if condition():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("nothing came")


def stop(process):
    """Send SIGTERM and return the exit code, and what was said; no process of its session may be left."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    return process.returncode, out + err


@pytest.mark.parametrize("ignore", [False, True])
def test_an_evaluation_stops_and_goes_on(tmp_path, ignore):
    run = tmp_path / "run"
    words = ("eval", "SearchQA", "--agent", "benchmarks.agents:Slow", "-n", "300", "--concurrency", "2", "--out", run)
    process = begin("agent_envs", *words, ignore=ignore)
    journal = run / "journal.jsonl"
    wait_for(lambda: journal.exists() and journal.stat().st_size > 4_000, process)
    code, text = stop(process)
    assert code == 3 and f"agent-envs eval --resume {run} goes on" in text and "Traceback" not in text
    before = sum("trajectory" in row for row in read_journal(journal))
    process = begin("agent_envs", "eval", "--resume", run)
    wait_for(lambda: sum("trajectory" in row for row in read_journal(journal)) > before, process)
    assert stop(process)[0] == 3


@needs("[train]")
def test_a_trainer_stops_and_says_how_it_goes_on(tmp_path):
    process = begin("trainers.grpo", "--preset", "tiny-minute", "--seed", "0", "--out", tmp_path / "run")
    wait_for(lambda: any((tmp_path / "run").glob("*")), process)
    code, text = stop(process)
    # Where it met code that is run from a text, as dataclasses are, Python ends by the signal itself: 130 in a shell, too.
    assert code in (130, -signal.SIGINT)
    assert "grpo: stopped; go on with python -m trainers.grpo --resume" in text and "Traceback" not in text


@needs("[crafter]")
def test_an_evaluation_that_ends_before_its_tasks_are_drawn_begins_again(tmp_path):
    """Each task of Crafter is a world of its own: to draw a thousand takes longer than anybody waits."""
    run = tmp_path / "run"
    process = begin("agent_envs", "eval", "Crafter", "-n", "1000", "--trials", "2", "--out", run)
    wait_for((run / "request.jsonl").exists, process)
    code, text = stop(process)
    assert code != 0 and f"eval --resume {run} begins again" in text and "Traceback" not in text
    assert [path.name for path in run.iterdir()] == ["request.jsonl"]
    (request,) = read_journal(run / "request.jsonl")
    assert (request["env_id"], request["limit"], request["trials"]) == ("Crafter", 1000, 2)
    refused = begin("agent_envs", "eval", "Sort", "-n", "3", "--out", run)
    assert "request of another command" in refused.communicate(timeout=60)[1] and refused.returncode == 2
    (run / "request.jsonl").unlink()
    with Journal(run / "request.jsonl") as journal:
        journal.append({**request, "env_id": "Sort", "limit": 3})
    process = begin("agent_envs", "eval", "--resume", run, "--json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert json.loads(out)["episodes"] == 6 and not (run / "request.jsonl").exists() and (run / "results.json").exists()


@pytest.mark.parametrize("words", [("Nothing",), ("Sort", "--split", "none"), ("Sort", "--agent", "nobody")])
def test_what_is_refused_leaves_no_folder(tmp_path, words):
    process = begin("agent_envs", "eval", *words, "-n", "2", "--out", tmp_path / "run")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and "agent-envs: " in err and not (tmp_path / "run").exists()
