"""The command line: what it teaches, what it prints, its exit codes, and runs that survive a kill."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

import agent_envs
from agent_envs import cli
from tests.search_qa.conftest import write_folder

ROOT = Path(__file__).parent.parent
AGENT = '''
import json, os, time
from agent_envs.errors import EnvFault
from agent_envs.policies import Reply

class Slow:
    """Answers the question's last word, slowly where SLOW is set."""
    name, batch = "slow", 1
    def act(self, requests):
        time.sleep(float(os.environ.get("SLOW", "0")))
        question = requests[0].messages[0]["content"].rsplit("Question: ", 1)[-1]
        return [Reply(f"<answer>{question.rstrip('?').split()[-1]}</answer>" if requests[0].turn > 1 else "<search>a</search>")]

class Faulty(Slow):
    """Its service fails on some tasks."""
    name = "faulty"
    def act(self, requests):
        if "2" in requests[0].episode_key[:2]:
            raise EnvFault("the model is out")
        return super().act(requests)

class NeedsWords:
    name, batch = "needs", 1
    def __init__(self, words): ...

class NoPolicy:
    pass
'''


def strict(text):
    """Parse JSON as other languages do: without NaN and Infinity."""

    def refuse(name):
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def run(monkeypatch, capsys):
    """A function that runs the command line in this process and returns (exit code, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "path", list(sys.path))

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["agent-envs", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err + captured.out
        return code, captured.out, captured.err

    return command


@pytest.fixture
def agents(tmp_path, monkeypatch):
    """A working directory with a module of agents."""
    (tmp_path / "cli_agents.py").write_text(AGENT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "cli_agents", raising=False)
    return tmp_path


def shell(*arguments, cwd=ROOT, **options):
    command = [sys.executable, "-m", "agent_envs", *map(str, arguments)]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, **options.pop("env", {})}
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False, env=environment, **options
    )


def commands(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


VERBS = dict(commands(typer.main.get_command(cli.app)))


def test_the_verbs():
    wanted = {("list",), ("show",), ("play",), ("check",), ("eval",), ("data", "list"), ("data", "get"), ("data", "path")}
    assert set(VERBS) >= wanted


@pytest.mark.parametrize("path", VERBS, ids=" ".join)
def test_help_explains_every_option(run, path):
    code, out, _ = run(*path, "--help")
    assert code == 0
    assert VERBS[path].help and VERBS[path].help.split(";")[0].split(".")[0] in out
    for parameter in VERBS[path].params:
        assert parameter.help, f"{' '.join(path)}: {parameter.name} has no help"
        assert parameter.help.split()[0] in out


def test_the_first_help_gives_an_example(run):
    code, out, _ = run("--help")
    assert code == 0 and "agent-envs eval SearchQA --agent random -n 20" in out
    assert all(verb in out for verb in ("list", "show", "play", "check", "eval", "data"))


def test_help_is_light():
    code = """
import json, sys
sys.argv = ["agent-envs", "--help"]
from agent_envs import cli
try:
    cli.main()
except SystemExit:
    pass
print(json.dumps([m for m in ("torch", "transformers", "pydantic", "jinja2", "bm25s", "httpx", "pooch", "huggingface_hub", "pyarrow") if m in sys.modules]))
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout.splitlines()[-1]) == []


def test_list(run):
    code, out, _ = run("list")
    assert code == 0 and all(env_id in out for env_id in agent_envs.env_ids())
    code, out, _ = run("list", "--json")
    rows = strict(out)
    assert [row["id"] for row in rows] == agent_envs.env_ids() and all(row["summary"] for row in rows)


@pytest.mark.parametrize("name", ["SearchQA", "SearchQA-v0", "agent_envs/SearchQA-v0"])
def test_show(run, name):
    code, out, _ = run("show", name)
    assert code == 0
    for part in ("agent_envs/SearchQA-v0", "max_generations", "exact_match", "<search>", "(reward 1)", "Question: "):
        assert part in out


def test_show_json(run):
    code, out, _ = run("show", "SearchQA", "--json", "--arg", "reward=em_format", "--arg", "top_k=1")
    page = strict(out)
    assert code == 0 and page["id"] == "agent_envs/SearchQA-v0"
    assert page["reward"]["name"] == "em_format" and page["splits"]["test"] == 4096
    assert "Doc 1(" in page["example"] and "Doc 2(" not in page["example"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "nope"], "agent_envs/SearchQA-v0"),
        (["play", "nope"], "agent_envs/SearchQA-v0"),
        (["check", "nope"], "agent_envs/SearchQA-v0"),
        (["eval", "nope"], "agent_envs/SearchQA-v0"),
        (["check"], "--all"),
        (["check", "nomodule:X"], "nomodule"),
        (["check", "os:path"], "os:path"),
        (["check", ":x"], ":x"),
        (["check", "SearchQA", "-n", "0"], "-n"),
        (["show", "SearchQA", "--arg", "tusk=1"], "tusk"),
        (["eval", "SearchQA", "--arg", "tusk=1"], "tusk"),
        (["show", "SearchQA", "--arg", "tusk"], "NAME=VALUE"),
        (["show", "SearchQA", "--arg", "tasks=5"], "tasks=5"),
        (["show", "SearchQA", "--arg", "retriever=bing"], "bm25, random, empty, oracle"),
        (["play", "SearchQA", "--task", "-1"], "no task -1"),
        (["play", "SearchQA", "--split", "validation"], "train, dev, test"),
        (["eval", "SearchQA", "--split", "validation"], "train, dev, test"),
        (["eval", "SearchQA", "--agent", "nobody"], "random, heuristic, solver, null"),
        (["eval", "SearchQA", "--agent", "nomodule:X"], "nomodule"),
        (["eval", "SearchQA", "--agent", ":X"], ":X"),
        (["eval", "SearchQA", "--agent", "..a:X"], "..a:X"),
        (["eval", "SearchQA", "--agent", "os:path"], "os:path"),
        (["eval", "SearchQA", "--agent", "cli_agents:Nothing"], "Nothing"),
        (["eval", "SearchQA", "--agent", "cli_agents:NeedsWords"], "words"),
        (["eval", "SearchQA", "--agent", "cli_agents:NoPolicy"], "act(requests)"),
        (["eval", "SearchQA", "-n", "0"], "-n"),
        (["eval", "SearchQA", "--trials", "0"], "--trials"),
        (["eval", "SearchQA", "--concurrency", "0"], "--concurrency"),
        (["eval", "SearchQA", "-n", "1", "--out", "cli_agents.py"], "cli_agents.py"),
        (["data", "path", "nope"], "hotpotqa"),
        (["data", "get", "nope"], "hotpotqa"),
        (["data", "path", "hotpotqa", "--split", "validation"], "train, dev, test"),
        (["frobnicate"], "frobnicate"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_exits_with_2_and_says_what_there_is(run, agents, arguments, words):
    code, out, err = run(*arguments)
    assert code == 2
    assert words in err
    assert out == "" and not (agents / "runs").exists()


def test_play_with_piped_input():
    ran = shell("play", "SearchQA", "--task", "0", "--split", "test", input="<search>Buhex\nborn</search>\n\nhm\n\n<answer>x</answer>\n\n")
    assert ran.returncode == 0 and ran.stderr == ""
    for part in ("Question: ", "<information>", "turn 1, 6 left", "turn 3, 4 left", "Your turn held no action", "not solved"):
        assert part in ran.stdout
    assert "malformed" in ran.stdout


def test_play_ends_with_its_input():
    for text in ("", "<search>a</search>\n\n", "\n", "<search>a</search>"):
        ran = shell("play", "SearchQA", input=text)
        assert ran.returncode == 0 and "no more input" in ran.stdout, text
        assert "Traceback" not in ran.stderr


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m agent_envs show SearchQA | head -c 10; exit ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_check_passes_ours_and_a_strangers(run):
    code, out, _ = run("check", "SearchQA", "-n", "2", "--hostile", "50")
    assert code == 0 and "failed" not in out and "hidden gold" in out
    code, out, _ = run("check", "tests.toy:Guess", "-n", "2", "--hostile", "50", "--json", "--arg", "turns=4")
    (report,) = strict(out)["reports"]
    assert code == 0 and report["ok"] and report["env_id"] == "tests.toy:Guess"
    assert {check["status"] for check in report["checks"]} == {"passed"}


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("ReadsObservations", "planted answers"),
        ("ReadsResults", "planted answers"),
        ("LeaksGold", "hidden gold"),
        ("LeaksScenarioLate", "hidden gold"),
        ("SharesState", "forks"),
        ("DrawsGlobally", "global state"),
        ("CountsHashes", "fresh processes"),
        ("RaisesOnOddText", "hostile text"),
        ("AddsInfo", "info"),
        ("LiesAboutBounds", "rewards"),
        ("CannotBeSolved", "solver"),
        ("PaysSilence", "solver"),
    ],
)
def test_check_catches_what_is_broken(run, name, check):
    code, out, _ = run("check", f"tests.broken:{name}", "-n", "2", "--hostile", "250", "--json")
    (report,) = strict(out)["reports"]
    failed = {row["name"]: row["detail"] for row in report["checks"] if row["status"] == "failed"}
    assert code == 1 and not report["ok"]
    assert failed.get(check)


def test_check_tells_in_words(run):
    code, out, err = run("check", "tests.broken:LeaksGold", "-n", "1", "--hostile", "5")
    assert code == 1
    assert any(line.startswith("failed") and "hidden gold" in line for line in out.splitlines())
    assert "hidden gold ..." in err


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


def test_eval_in_words(run, agents):
    code, out, err = run("eval", "SearchQA", "--agent", "solver", "-n", "3", "--split", "dev")
    assert code == 0 and "success 100.0 % [" in out and "on dev" in out
    assert "3/3, 100.0 % solved" in err
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
    knobs = '{"passages": 40, "questions_per_world": 200, "kinds": ["comparison"], "hops": [4]}'
    code, out, err = run("eval", "SearchQA", "--agent", "solver", "--arg", f"world={knobs}", "--json", "--out", tmp_path / "r")
    row = strict(out)
    assert code == 0 and 0 < row["tasks"] < 32 * 200 and row["episodes"] == row["tasks"] and row["success"] == 1.0


def test_eval_of_an_agent_from_the_working_directory(agents):
    ran = shell("eval", "SearchQA", "--agent", "cli_agents:Slow", "-n", "3", "--json", cwd=agents)
    row = strict(ran.stdout)
    assert ran.returncode == 0 and row["agent"] == "cli_agents:Slow" and row["mean_turns"] == 2.0


def test_faults_are_no_successes_and_a_partial_run(run, agents):
    command = ("eval", "SearchQA", "--agent", "cli_agents:Faulty", "-n", "60", "--json", "--out", "r")
    code, out, _ = run(*command)
    row = strict(out)
    assert code == 3 and 0 < row["faults"] < 60 and row["episodes"] == 60
    code, out, _ = run(*command)
    assert code == 3 and strict(out)["faults"] == row["faults"]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_killed_run_goes_on_to_the_same_numbers(agents, concurrency):
    folder = agents / "killed"
    journal = folder / "journal.jsonl"
    command = ("eval", "SearchQA", "--agent", "cli_agents:Slow", "-n", "60", "--json", "--concurrency", str(concurrency))
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
    resumed = shell(*command, "--out", folder, cwd=agents)
    whole = shell(*command, "--out", agents / "whole", cwd=agents)
    assert resumed.returncode == whole.returncode == 0
    assert journal.read_bytes().split(b"\n")[: len(kept)] == kept
    assert journal.read_bytes().count(b"\n") == 61
    assert {**strict(resumed.stdout), "run": ""} == {**strict(whole.stdout), "run": ""}


def test_two_writers_of_one_run_are_kept_apart(run, agents):
    from agent_envs.journal import Journal

    command = ("eval", "SearchQA", "--agent", "null", "-n", "2", "--json", "--out", "r")
    with Journal(agents / "r" / "journal.jsonl"):
        code, out, err = run(*command)
        assert code == 2 and out == "" and "another process" in err
    assert run(*command)[0] == 0


def test_data_list(run, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("AGENT_ENVS_DATA", raising=False)
    code, out, _ = run("data", "list", "--json")
    rows = {row["name"]: row for row in strict(out)}
    assert code == 0 and set(rows) >= {"nq", "hotpotqa", "bamboogle", "nq+hotpotqa", "sample", "wiki-18"}
    assert {row["here"] for row in rows.values()} == {"no"}
    write_folder(tmp_path / "data")
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path / "data"))
    rows = {row["name"]: row for row in strict(run("data", "list", "--json")[1])}
    assert rows["hotpotqa"]["here"] == "dev 6" and rows["nq+hotpotqa"]["here"] == "dev 7" and rows["musique"]["here"] == "no"
    assert rows["sample"]["here"].endswith("corpus.jsonl")
    assert all(row["licence"] and row["published"] and row["title"] for row in rows.values())
    assert "hotpotqa" in run("data", "list")[1]


def test_data_path(run, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    folder = write_folder(tmp_path / "data")
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path / "data"))
    assert run("data", "path", "hotpotqa")[:2] == (0, f"{folder / 'dev' / 'hotpotqa.jsonl'}\n")
    assert run("data", "path", "sample")[:2] == (0, f"{folder / 'corpus.jsonl'}\n")
    assert run("data", "path", "nq+hotpotqa")[1].count("\n") == 2
    for arguments in (["hotpotqa", "--split", "train"], ["musique"], ["wiki-18"]):
        code, out, err = run("data", "path", *arguments)
        assert code == 2 and out == ""
        assert "is not on this machine" in err and f"agent-envs data get {arguments[0]}" in err
    monkeypatch.delenv("AGENT_ENVS_DATA")
    code, _, err = run("data", "path", "hotpotqa")
    assert code == 2 and "AGENT_ENVS_DATA (not set)" in err and "agent-envs data get hotpotqa --split dev" in err
