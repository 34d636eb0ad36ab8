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
from tests import ROOT

pytestmark = pytest.mark.heavy


def run(*command, cwd, **kwargs):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False, **kwargs
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    return ran.stdout


def new_venv(folder, *packages):
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    run(
        folder / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *packages,
        cwd=folder.parent,
    )
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT, cwd=folder)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_the_package_alone(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"agent_envs"}
    for name in ("agent_envs/envs/search_qa/prompt.md", "agent_envs/evaluation/html/page.html", "agent_envs/py.typed"):
        assert name in names


def test_the_wheel_makes_checks_and_evaluates_every_id(wheel, tmp_path):
    python = new_venv(tmp_path / "venv", wheel)
    where = run(python, "-c", "import agent_envs; print(agent_envs.__file__)", cwd=tmp_path)
    assert str(tmp_path) in where
    assert "torch" not in run(python, "-m", "pip", "list", cwd=tmp_path).lower()
    command = tmp_path / "venv" / "bin" / "agent-envs"
    rows = json.loads(run(command, "list", "--json", cwd=tmp_path))
    assert rows
    report = json.loads(run(command, "check", "--all", "--json", "-n", "4", "--hostile", "500", cwd=tmp_path))
    assert [item["env_id"] for item in report["reports"] if item["ok"]] == [
        row["id"] for row in rows if not row["extra"]
    ]
    for row in rows:
        if not row["extra"]:
            assert solved(command, row, tmp_path) == 1.0
    for row in rows:
        if row["extra"]:
            words = [str(command), "eval", row["id"], "--agent", "solver", "-n", "8"]
            ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
            line = f'pip install "agent-envs[{row["extra"]}]"'
            assert ran.returncode == 2 and line in " ".join(ran.stderr.split()) and "Traceback" not in ran.stderr


def solved(command, row, folder):
    told = run(command, "eval", row["id"], "--agent", "solver", "-n", "8", "--json", cwd=folder)
    return json.loads(told)["success"]


@pytest.mark.parametrize("extra", sorted({row.extra for row in TABLE if row.extra}))
def test_an_extra_brings_what_its_ids_need(wheel, tmp_path, extra):
    new_venv(tmp_path / "venv", f"{wheel}[{extra}]")
    command = tmp_path / "venv" / "bin" / "agent-envs"
    rows = [row for row in json.loads(run(command, "list", "--json", cwd=tmp_path)) if row["extra"] == extra]
    assert rows and [solved(command, row, tmp_path) for row in rows] == [1.0] * len(rows)


def test_golden_replays_on_the_oldest_numpy(tmp_path):
    import numpy

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = next(line for line in project["dependencies"] if line.startswith("numpy>=")).replace(">=", "==") + ".*"
    python = new_venv(tmp_path / "venv", oldest, "pytest", f"{ROOT}[babyai,crafter,sandbox]")
    # Its files are read without importing it, and it asks for a newer numpy.
    files = next(line for line in project["optional-dependencies"]["legal"] if line.startswith("wordllama"))
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", files, cwd=tmp_path)
    version = run(python, "-c", "import numpy; print(numpy.__version__)", cwd=tmp_path).strip()
    assert version.startswith("1.26") and int(numpy.__version__.split(".")[0]) >= 2
    out = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_golden.py", cwd=ROOT, timeout=600)
    assert "passed" in out and "failed" not in out


def test_the_demo_runs_and_prints_its_page_last(tmp_path):
    out = run(
        sys.executable, "-m", "benchmarks.demo", "--tasks", "20", "--out", tmp_path / "demo", cwd=ROOT, timeout=600
    )
    page = Path(out.strip().splitlines()[-1])
    assert page == tmp_path / "demo" / "index.html"
    text = page.read_text(encoding="utf-8")
    assert all(word in text for word in ("solver", "heuristic", "random", "Content-Security-Policy"))
