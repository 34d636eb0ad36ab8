"""The built wheel and its extras work outside the checkout, and golden replays pass on the oldest supported numpy."""

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from agent_envs.core.registry import TABLE
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.evaluation.suites.suite import load_suite, suite_text
from tests import ROOT
from tests.needs import needs

pytestmark = [pytest.mark.heavy, needs("network")]
# One worker has all of them: the wheel is built once, and so is the venv of what every id needs.
of_the_wheel = pytest.mark.xdist_group("wheel")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
# Each id as the command line evaluates it, in one process for all: what it printed and how it ended, a line of JSON each.
EVALUATED = """
import contextlib, io, json, sys
from agent_envs.cli.app import main
for env_id in sys.argv[1:]:
    sys.argv = ["agent-envs", "eval", env_id, "--agent", "solver", "-n", "8", "--json"]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    print(json.dumps({"id": env_id, "code": code, "out": out.getvalue(), "err": err.getvalue()}))
"""


def run(*command, cwd, **kwargs):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False, **kwargs
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    return ran.stdout


def new_venv(folder, *packages, beside=None):
    """Return the interpreter of a new venv with packages; what the venv `beside` has is found there and not installed again.

    One pip, ours, installs into all of them, and leaves it to Python to compile what is imported.
    """
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    if beside is not None:
        (packages_of(python) / "beside.pth").write_text(f"{packages_of(beside)}\n", encoding="utf-8")
    run(*PIP, "--python", python, "install", "--quiet", "--no-compile", *packages, cwd=folder.parent)
    return python


def packages_of(python):
    return next(python.parent.parent.glob("lib/python*/site-packages"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT, cwd=folder)
    return next(folder.glob("*.whl"))


@of_the_wheel
def test_the_wheel_holds_the_package_alone(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"agent_envs"}
    tracked = run("git", "ls-files", "agent_envs", cwd=ROOT).split("\n")
    assert set(filter(None, tracked)) == {name for name in names if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def plain(wheel, tmp_path_factory):
    """The interpreter of a venv with the wheel and no extra."""
    return new_venv(tmp_path_factory.mktemp("plain") / "venv", wheel)


@of_the_wheel
def test_the_wheel_makes_checks_and_evaluates_every_id(plain, tmp_path):
    where = run(plain, "-c", "import agent_envs; print(agent_envs.__file__)", cwd=tmp_path)
    assert str(plain.parent.parent) in where
    assert "torch" not in run(*PIP, "--python", plain, "list", cwd=tmp_path).lower()
    command = plain.parent / "agent-envs"
    rows = json.loads(run(command, "list", "--json", cwd=tmp_path))
    assert rows
    report = json.loads(run(command, "check", "--all", "--json", "-n", "4", "--hostile", "500", cwd=tmp_path))
    checked = [item["env_id"] for item in report["reports"] if item["ok"]]
    assert checked == [row["id"] for row in rows if not row["extra"]]
    solver = run(command, "eval", rows[0]["id"], "--agent", "solver", "-n", "8", "--json", cwd=tmp_path)
    assert json.loads(solver)["success"] == 1.0
    assert solved(plain, checked, tmp_path) == dict.fromkeys(checked, 1.0)
    run(command, "new", "Find", cwd=tmp_path)
    run(command, "new", "Dial", "--expanded", cwd=tmp_path)
    run(command, "check", "find:find/Find-v0", "-n", "2", "--hostile", "50", cwd=tmp_path / "find-env")
    missing = {row["id"]: row["extra"] for row in rows if row["extra"]}
    for ran in evaluated(plain, missing, tmp_path):
        line = f'pip install "agent-envs[{missing[ran["id"]]}]"'
        assert ran["code"] == 2 and line in " ".join(ran["err"].split()) and "Traceback" not in ran["err"]


def evaluated(python, ids, folder):
    """Return how the solver's evaluation of each id ended; one that raises ends the process, which `run` tells."""
    return [json.loads(line) for line in run(python, "-c", EVALUATED, *ids, cwd=folder).splitlines()]


def solved(python, ids, folder):
    """Return the solver's success by id."""
    told = evaluated(python, ids, folder)
    assert [ran for ran in told if ran["code"] != 0] == []
    return {ran["id"]: json.loads(ran["out"])["success"] for ran in told}


@of_the_wheel
def test_a_submission_is_played_packed_and_verified_by_the_wheel_alone(plain, tmp_path):
    command = plain.parent / "agent-envs"
    run(command, "eval", "--suite", "demo@1", "--agent", "random", "--out", "run", "--pack", "packed", cwd=tmp_path)
    verdict = json.loads(run(command, "verify", "packed", "--json", cwd=tmp_path))
    assert (
        verdict["verdict"] == "accepted" and "agent.scaffold" in verdict["unanswered"] and len(verdict["entries"]) > 8
    )
    shard = next((tmp_path / "packed").rglob("*.gz"))
    shard.write_bytes(shard.read_bytes()[:-1])
    end = subprocess.run([command, "verify", "packed"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert end.returncode == 1 and end.stdout.startswith("rejected: ")


@of_the_wheel
@pytest.mark.parametrize("extra", sorted({row.extra for row in TABLE if row.extra}))
def test_an_extra_brings_what_its_ids_need(wheel, plain, tmp_path, extra):
    python = new_venv(tmp_path / "venv", f"{wheel}[{extra}]", beside=plain)
    ids = [row.id for row in TABLE if row.extra == extra]
    rows = json.loads(run(python, "-m", "agent_envs", "list", "--json", cwd=tmp_path))
    assert ids == [row["id"] for row in rows if row["extra"] == extra]
    assert solved(python, ids, tmp_path) == dict.fromkeys(ids, 1.0)


@of_the_wheel
def test_golden_replays_on_the_oldest_numpy(wheel, tmp_path):
    import numpy

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = next(line for line in project["dependencies"] if line.startswith("numpy>=")).replace(">=", "==") + ".*"
    python = new_venv(tmp_path / "venv", oldest, "pytest", "hypothesis", f"{wheel}[babyai,crafter,sandbox]")
    # Its files are read without importing it, and it asks for a newer numpy.
    files = next(line for line in project["optional-dependencies"]["legal"] if line.startswith("wordllama"))
    run(*PIP, "--python", python, "install", "--quiet", "--no-deps", files, cwd=tmp_path)
    version = run(python, "-c", "import numpy; print(numpy.__version__)", cwd=tmp_path).strip()
    assert version.startswith("1.26") and int(numpy.__version__.split(".")[0]) >= 2
    out = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_golden.py", cwd=ROOT, timeout=600)
    assert "passed" in out and "failed" not in out


def test_the_oldest_official_client_plays_as_the_newest_does(tmp_path):
    """The newest of the range is what the suite runs with: tests/services/chat/test_sdks.py holds that."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    oldest = extras["anthropic"][0].split(",")[0].replace(">=", "==")
    python = new_venv(tmp_path / "venv", "--no-deps", oldest, beside=Path(sys.executable))
    version = run(python, "-c", "import anthropic; print(anthropic.__version__)", cwd=tmp_path).strip()
    assert version == f"{oldest.partition('==')[2]}.0.0"
    tests = ("tests/services", "tests/rollout/test_chat_policy.py", "tests/wrappers/test_feedback_wire.py")
    out = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not newest", *tests, cwd=ROOT, timeout=600)
    assert "passed" in out and "failed" not in out


@of_the_wheel
def test_inspect_ai_reads_an_exported_submission(wheel, plain, tmp_path):
    suite = load_suite("demo@1")
    entries = [entry for entry in suite.entries if entry.label in ("SearchQA-v0", "Tau2Retail-v0")]
    entries += adhoc_suite(Choice("SortExpA", limit=8)).entries
    assert [entry.label for entry in entries] == ["SearchQA-v0", "Tau2Retail-v0", "SortExpA-v0"]
    suite = suite.model_copy(update={"id": "mine", "entries": tuple(entries)})
    evaluate(suite, Settings("random"), folder=tmp_path / "run")
    pack_run(tmp_path / "run", tmp_path / "packed")
    (tmp_path / "suite.json").write_text(suite_text(suite), encoding="utf-8")
    python = new_venv(tmp_path / "venv", f"{wheel}[inspect]", beside=plain)
    told = ("--to", "inspect", "--suite", tmp_path / "suite.json", "--jobs", "1", "--out", tmp_path / "log.eval")
    run(python, "-m", "leaderboard", "export", tmp_path / "packed", *told, cwd=ROOT)
    script = (
        "import sys; from inspect_ai.log import read_eval_log; log = read_eval_log(sys.argv[1]); "
        "print(log.status, len(log.samples), sum(s.scores['success'].value for s in log.samples), "
        "sum(len(s.messages) > 1 for s in log.samples), "
        "sum(m.text.startswith('[action ') for s in log.samples for m in s.messages), "
        "any(m.text == '[compare]' for s in log.samples for m in s.messages))"
    )
    rows = [row.result for row in open_run(tmp_path / "run").rows()]
    won = float(sum(row.trajectory.success for row in rows))
    found = run(python, "-c", script, tmp_path / "log.eval", cwd=tmp_path).split()
    assert found == ["success", str(len(rows)), str(won), str(len(rows)), "0", "True"]


def test_the_demo_runs_and_prints_its_page_last(tmp_path):
    out = run(
        sys.executable, "-m", "benchmarks.demo", "--tasks", "20", "--out", tmp_path / "demo", cwd=ROOT, timeout=600
    )
    page = Path(out.strip().splitlines()[-1])
    assert page == tmp_path / "demo" / "index.html"
    text = page.read_text(encoding="utf-8")
    assert all(word in text for word in ("solver", "heuristic", "random", "Content-Security-Policy"))
