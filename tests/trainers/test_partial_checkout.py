"""A trainer runs in a checkout that has neither `benchmarks/` nor `tests/`."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests import ROOT
from tests.trainers.earl_runs import CPO, FEW, SORT

SMALL = [
    "--steps", "1", "--model.tokenizer-plays", "64", "--tasks-per-step", "2", "--group-size", "2",
    "--warm-start.demonstrations", "0", "--evaluation.every", "0", "--evaluation.test-tasks", "4", "--log.curves",
]  # fmt: skip
RUNS = {"grpo": ["--preset", "tiny-calcbench", *SMALL], "earl": [*FEW, *SORT, *CPO, "--steps", "1", "--log.curves"]}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a copy of the packages that a training run needs."""
    place = tmp_path_factory.mktemp("checkout")
    for name in ("agent_envs", "trainers"):
        shutil.copytree(ROOT / name, place / name)  # with what is compiled, as their times are kept
    return place


@pytest.mark.heavy
@pytest.mark.parametrize("program", RUNS)
def test_a_run_ends_with_its_result(checkout, program):
    """With its curves, and for EARL with the decision trees of the policy; that no module imports ours import-linter holds."""
    out = checkout / "runs" / program
    command = [sys.executable, "-m", f"trainers.{program}", *RUNS[program], "--out", str(out)]
    without_ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {**without_ours, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    assert result["steps"] == 1 and (out / "curves.png").exists()
    assert program != "earl" or (result["trees"] and list((out / "trees").glob("*.json")))
