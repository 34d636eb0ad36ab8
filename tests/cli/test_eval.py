"""`agent-envs eval`: numbers that others can read, and runs that survive a kill."""

import os
import subprocess
import sys
import time

import pytest

from agent_envs.base.errors import MissingExtra
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.submission.pack import lost_episodes
from agent_envs.evaluation.suites import plan
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.evaluation.suites.suite import suite_text
from agent_envs.rollout.run_many import run_many
from tests.cli.conftest import ROOT, UNTIMED, shell, strict
from tests.needs import needs


def test_eval_prints_a_rate_with_its_interval(run, tmp_path):
    out_folder = tmp_path / "run"
    command = ("eval", "SearchQA", "--agent", "random", "-n", "5", "--out", out_folder, "--json")
    code, out, err = run(*command)
    first = strict(out)
    assert code == 0 and err == ""
    assert isinstance(first["success"], float) and first["faults"] == 0 and first["smoke"] is True
    low, high = first["interval"]
    assert 0 <= low <= first["success"] <= high <= 1 and low < high
    assert (first["split"], first["episodes"], first["tasks"], first["agent"]) == ("test", 5, 5, "random")
    assert first["run"] == str(out_folder)
    assert {path.name for path in out_folder.iterdir()} >= {"config.json", "journal.jsonl", "results.json"}
    results = strict((out_folder / "results.json").read_text())
    assert {**results, "run": str(out_folder)} == first
    before = (out_folder / "journal.jsonl").read_bytes()
    assert len(before.splitlines()) == 6
    code, out, _ = run(*command)
    assert code == 0 and strict(out) == first
    assert (out_folder / "journal.jsonl").read_bytes() == before
    for more in (["--agent", "null"], ["-n", "6"], ["--arg", "top_k=1"], ["--split", "dev"]):
        code, out, err = run(*command, *more)
        assert code == 2 and out == "" and str(out_folder) in err and "another" in err
    assert (out_folder / "journal.jsonl").read_bytes() == before


def test_a_folder_of_other_things_is_no_place_for_a_run(run, tmp_path):
    command = ("eval", "SearchQA", "-n", "1", "--out", tmp_path)
    (tmp_path / ".gitkeep").touch()
    (tmp_path / "suite.json.x1").touch()  # of a run that was killed as it began
    (tmp_path / "thesis.txt").touch()
    code, out, err = run(*command)
    assert code == 2 and out == "" and "thesis.txt and no run" in err
    assert len(list(tmp_path.iterdir())) == 3
    (tmp_path / "thesis.txt").unlink()
    (tmp_path / "suite.json").write_text("of somebody else")
    code, out, err = run(*command)
    assert code == 2 and out == "" and "of another run, or of none" in err
    assert (tmp_path / "suite.json").read_text() == "of somebody else"
    (tmp_path / "suite.json").unlink()
    assert run(*command)[0] == 0 and run(*command)[0] == 0, "and a second time it goes on"


def test_who_stops_a_run_as_it_begins_leaves_what_was_asked_for(run, tmp_path, monkeypatch):
    def stopped(suite):
        raise KeyboardInterrupt

    monkeypatch.setattr("agent_envs.evaluation.suites.suite.suite_text", stopped)
    assert run("eval", "SearchQA", "-n", "1", "--out", tmp_path / "run")[0] == 3
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["request.jsonl"]


def test_eval_in_words(run, agents):
    code, out, err = run("eval", "SearchQA", "--agent", "solver", "-n", "3", "--split", "dev")
    assert code == 0 and "success 100.0 % [" in out and "on dev" in out
    assert "3/3, of these 100.0 % solved" in err
    (folder,) = (agents / "runs").iterdir()
    assert str(folder.relative_to(agents)) in out and (folder / "results.json").exists()


def test_eval_of_one_task_prints_json_that_others_can_read(run, tmp_path):
    code, out, _ = run("eval", "SearchQA", "--agent", "null", "-n", "1", "--out", tmp_path / "r", "--json")
    row = strict(out)
    assert code == 0 and row["interval"] == [0.0, 1.0] and row["return_interval"] == [None, None]
    strict((tmp_path / "r" / "results.json").read_text())


def test_eval_with_arguments_and_trials(run, tmp_path):
    common = ("--agent", "heuristic", "-n", "40", "--json")
    oracle = strict(run("eval", "SearchQA", "--arg", "retriever=oracle", *common, "--out", tmp_path / "a")[1])
    empty = strict(run("eval", "SearchQA", "--arg", "retriever=empty", *common, "--out", tmp_path / "b")[1])
    assert oracle["success"] > empty["success"]
    knobs = '{"hops": [1], "questions_per_world": 4}'
    row = strict(
        run("eval", "SearchQA", "--arg", f"world={knobs}", "--trials", "2", "--concurrency", "3", "--json", "--agent", "solver",
            "--out", tmp_path / "c")[1]
    )  # fmt: skip
    assert (row["success"], row["episodes"], row["tasks"], row["smoke"]) == (1.0, 256, 128, False)


def test_eval_of_worlds_with_fewer_questions_than_asked_for(run, tmp_path):
    knobs = '{"passages": 40, "questions_per_world": 40, "unanswerable": 1.0, "hops": [1]}'
    code, out, err = run(
        "eval", "SearchQA", "--agent", "solver", "--arg", f"world={knobs}", "--json", "--out", tmp_path / "r"
    )
    row = strict(out)
    assert code == 0 and 32 < row["tasks"] < 32 * 40 and row["episodes"] == row["tasks"] and row["success"] == 1.0


def test_eval_of_an_agent_from_the_working_directory(agents):
    ran = shell("eval", "SearchQA", "--agent", "cli_agents:Slow", "-n", "3", "--json", cwd=agents)
    row = strict(ran.stdout)
    assert ran.returncode == 0 and row["agent"] == "cli_agents:Slow" and row["mean_turns"] == 2.0


def test_faults_are_no_successes_and_a_partial_run(run, agents, monkeypatch):
    monkeypatch.setitem(run_many.__kwdefaults__, "pause_seconds", 0.0)  # between attempts: 20 seconds in all
    command = ("eval", "SearchQA", "--agent", "cli_agents:Faulty", "-n", "60", "--json", "--out", "r")
    code, out, _ = run(*command)
    row = strict(out)
    assert code == 3 and 0 < row["faults"] < 60 and row["episodes"] == 60
    code, out, _ = run(*command)
    assert code == 3 and strict(out)["faults"] == row["faults"]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_killed_run_goes_on_to_the_same_numbers(run, agents, concurrency):
    folder = agents / "killed"
    journal = folder / "journal.jsonl"
    command = (
        "eval",
        "SearchQA",
        "--agent",
        "cli_agents:Slow",
        "-n",
        "60",
        "--json",
        "--concurrency",
        str(concurrency),
    )
    environment = {**os.environ, "SLOW": "0.03", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "agent_envs", *command, "--out", str(folder)], cwd=agents, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while not (journal.exists() and journal.read_bytes().count(b"\n") > 6):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    with journal.open("ab") as file:
        file.write(b'{"row": {"torn')
    kept = [line for line in journal.read_bytes().split(b"\n") if line][:-1]
    assert 6 < len(kept) < 61 and not (folder / "results.json").exists()
    (code, resumed, _), (other, whole, _) = (run(*command, "--out", place) for place in (folder, agents / "whole"))
    assert code == other == 0
    assert journal.read_bytes().split(b"\n")[: len(kept)] == kept
    assert journal.read_bytes().count(b"\n") == 61
    assert {**strict(resumed), **UNTIMED} == {**strict(whole), **UNTIMED}


def test_two_writers_of_one_run_are_kept_apart(run, agents):
    from agent_envs.base.jsonl_log import Journal

    command = ("eval", "SearchQA", "--agent", "null", "-n", "2", "--json", "--out", "r")
    with Journal(agents / "r" / "journal.jsonl"):
        code, out, err = run(*command)
        assert code == 2 and out == "" and "another process" in err
    assert run(*command)[0] == 0


@pytest.mark.data
def test_retail_without_a_judge_has_a_ceiling(run, tmp_path):
    """And the command says so on the standard error, however the result is told."""
    command = ("eval", "Tau2Retail", "--agent", "solver", "--arg", "tasks=official", "--split", "test20")
    code, out, err = run(*command, "--out", tmp_path / "run", "--json")
    line = "note: Tau2Retail-v0: 8 of 23 tasks rest on a judge and nobody judges: the ceiling is 65.2 %"
    assert code == 0 and line in err and strict(out)["notes"] == [line.removeprefix("note: ")]
    assert line in run("eval", "--resume", tmp_path / "run")[2]
    assert line.removeprefix("note: ") in run("report", tmp_path / "run")[1].replace("\n", " ")
    more = ("--arg", "reward=without_nl", "--out", tmp_path / "other")
    assert "ceiling" not in run(*command, *more)[2]


def test_an_oracle_plan_is_told_and_not_packed(run, tmp_path):
    """It shows the gold: what follows is no score of an agent."""
    command = ("eval", "Tau2Retail", "--agent", "null", "--arg", "plan=oracle", "--arg", "difficulty=easy", "-n", "1")
    code, out, err = run(*command, "--out", tmp_path / "run", "--json")
    line = "Tau2Retail-v0: the gold is shown, an oracle plan tells the expected actions: a diagnosis, and no score of an agent"
    assert code == 0 and f"note: {line}" in err and strict(out)["notes"] == [line]
    assert f"note: {line}" in run("eval", "--resume", tmp_path / "run")[2]
    suite = adhoc_suite(Choice("Tau2Retail", {"plan": "oracle", "difficulty": "easy"}, limit=1))
    evaluate(suite, Settings("null"), folder=tmp_path / "whole")
    code, _, err = run("pack", tmp_path / "whole", tmp_path / "packed")
    assert code == 2 and f"cannot be packed: {line}" in err and not (tmp_path / "packed").exists()


@needs("[envs]")
def test_a_suite_says_at_once_all_that_it_misses(run, monkeypatch):
    real = plan.entry_env

    def lacking(entry):
        for name in ("Crafter", "BabyAI"):
            if name in entry.label:
                raise MissingExtra(name.lower(), name.lower(), name)
        return real(entry)

    monkeypatch.setattr(plan, "entry_env", lacking)
    code, _, told = run("eval", "--suite", "core", "-n", "1", "--json")
    assert code == 2 and told.count("\n") == 1
    for part in ('pip install "agent-envs[envs]"', "Crafter-v0 is skipped: ", "BabyAI-v0 is skipped: "):
        assert part in told


def test_the_plan_is_told_and_a_model_with_a_price_needs_a_word(run, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    prices = tmp_path / "prices.json"
    prices.write_text(
        '{"schema": "agent-envs/prices@1", "date": "2026-01-01", "source": "s", "models": {"m": {"input": 1, "output": 2}}}'
    )
    command = ("eval", "SearchQA", "--agent", "openai:m@http://127.0.0.1:9/v1", "--prices", prices, "--trials", "2")
    code, _, told = run(*command)
    assert code == 2 and "episodes (4,096 tasks, 2 each)" in told and "give -n N, --max-cost USD, or --yes" in told
    for more in (("-n", "3"), ("--max-cost", "1"), ("--yes",)):
        code, _, told = run(*command, *more)
        assert "does the server run" in told and told.startswith("plan: ") and not (tmp_path / "runs").exists()
    assert "plan: " not in run("eval", "SearchQA", "-n", "2", "--out", tmp_path / "r")[2]


@needs("[envs]")
def test_damaged_files_of_a_run_are_set_aside_and_played_again(run, tmp_path):
    """A row of the journal, and an answer of the sandbox that a finished episode needs."""
    folder = tmp_path / "run"
    code, out, _ = run("eval", "ToolReasoning", "--agent", "solver", "-n", "12", "--out", folder, "--json")
    truth = strict(out)
    damaged = {}
    for name, number in (("journal.jsonl", 3), ("externals.jsonl", 2)):
        lines = (folder / name).read_bytes().splitlines(keepends=True)
        damaged[name] = lines[number] = lines[number].replace(b'":', b'"!', 1)
        (folder / name).write_bytes(b"".join(lines))
    code, _, err = run("eval", "--resume", folder)
    assert code == 2 and "--set-aside" in err
    code, out, err = run("eval", "--resume", folder, "--set-aside", "--json")
    assert code == 0 and strict(out) | UNTIMED == truth | UNTIMED
    assert "2 lines of episodes" in err and "and 1 of services' answers" in err
    for name, line in damaged.items():
        assert line in (folder / name.replace(".", "-damaged.")).read_bytes()
    assert lost_episodes(open_run(folder)) == []
    for words in (("--resume", folder, "--set-aside"), ("Sort", "-n", "1", "--set-aside")):
        code, _, err = run("eval", *words)
        assert code == (0 if words[0] == "--resume" else 2)


@needs("[envs]")
def test_a_kill_between_the_answers_and_the_episodes_that_need_them_is_made_good(run, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    _, out, _ = run("eval", "ToolReasoning", "--agent", "solver", "-n", "12", "--out", folder, "--json")
    lines = (folder / "externals.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "externals.jsonl").write_bytes(b"".join([lines[0].replace(b'":', b'"!', 1), *lines[1:]]))

    def killed(run):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("agent_envs.evaluation.submission.pack.lost_episodes", killed)
        assert run("eval", "--resume", folder, "--set-aside")[0] != 0
    assert lost_episodes(open_run(folder)) != []
    code, again, _ = run("eval", "--resume", folder, "--set-aside", "--json")
    assert code == 0 and strict(again) | UNTIMED == strict(out) | UNTIMED and lost_episodes(open_run(folder)) == []


def test_a_request_is_kept_where_it_is_refused_at_its_resume_and_others_files_stay(run, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    suite = adhoc_suite(Choice("Sort", {}, "test", 2))
    (tmp_path / "here" / "mine.json").write_text(suite_text(suite.model_copy(update={"id": "mine", "version": "1.0"})))

    def stopped(suite):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("agent_envs.evaluation.suites.suite.suite_text", stopped)
        assert run("eval", "--suite", "mine.json", "--out", tmp_path / "run")[0] == 3
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("agent_envs.evaluation.suites.plan.playable_part", lambda suite: 1 / 0)
        assert run("eval", "--resume", "run")[0] == 2
    assert (tmp_path / "run" / "request.jsonl").exists()
    monkeypatch.chdir(tmp_path)
    assert run("eval", "--resume", "run")[0] == 0 and not (tmp_path / "run" / "request.jsonl").exists()
    (tmp_path / "theirs").mkdir()
    for name in ("request.jsonl", "journal.jsonl"):
        (tmp_path / "theirs" / name).write_text("mine")
        for words in (("Nope",), ("Sort", "-n", "1")):
            assert run("eval", *words, "--out", tmp_path / "theirs")[0] == 2
        assert [(path.name, path.read_text()) for path in (tmp_path / "theirs").iterdir()] == [(name, "mine")]
        (tmp_path / "theirs" / name).unlink()
