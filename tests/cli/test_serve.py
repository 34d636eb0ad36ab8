"""A retriever server started from the command line, and an evaluation that searches through it."""

from tests.needs import require

require("[serve]")

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.cli.conftest import ROOT, UNTIMED, strict


@contextmanager
def serving(*arguments):
    process = subprocess.Popen(
        [sys.executable, "-m", "agent_envs", "serve-retriever", "--port", "0", "--json", *arguments],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )  # fmt: skip
    try:
        yield process, json.loads(process.stdout.readline())["url"]
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0 and "Traceback" not in err, err


@pytest.mark.parametrize("style", ["search_r1", "skyrl"])
def test_an_evaluation_through_a_server_is_the_one_in_process(run, tmp_path, style):
    command = ("eval", "SearchQA", "--agent", "heuristic", "-n", "1", "--trials", "2", "--json")
    code, out, _ = run(*command, "--out", tmp_path / "here")
    here = strict(out)
    with serving("--corpus", "world:test:0") as (_, url):
        code, out, _ = run(*command, "--arg", f"retriever={style}@{url}", "--out", tmp_path / "there")
    there = strict(out)
    assert code == 0
    same = {name: value for name, value in here.items() if name != "suite_digest"}
    assert {**there, **UNTIMED} | {"suite_digest": ""} == {**same, **UNTIMED, "suite_digest": ""}
    externals = (tmp_path / "there" / "externals.jsonl").read_text().splitlines()
    assert len(externals) == 1  # two trials ask the same question, and a server is asked once


def test_a_server_that_is_gone_is_a_fault_and_a_partial_run(run, tmp_path, monkeypatch):
    monkeypatch.setattr("agent_envs.services.recording.FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr("agent_envs.rollout.lockstep.time.sleep", lambda seconds: None)
    command = ("eval", "SearchQA", "--agent", "heuristic", "-n", "1", "--arg", "retriever=search_r1@http://127.0.0.1:9")
    code, out, _ = run(*command, "--json", "--out", tmp_path / "r")
    row = strict(out)
    assert code == 3 and row["faults"] == 1 and row["complete"] is False
    assert row["success"] is None and row["interval"] == [None, None]  # nothing was measured
    assert "cannot connect" in next(iter(row["fault_causes"]))


def test_refusals(run):
    for more, words in (
        (["--corpus", "nowhere.jsonl"], "nowhere.jsonl"), (["--corpus", "world:test:x"], "world"),
        (["--corpus", "world:test:0", "--retriever", "oracle"], "a server can be one of"),
        (["--corpus", "world:test:0", "--host", "0.0.0.0"], "token"),
    ):  # fmt: skip
        code, out, err = run("serve-retriever", *more)
        assert code == 2 and out == "" and words in err
