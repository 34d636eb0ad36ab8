"""GRPO still learns: one minute on one core, judged on held-out tasks by a paired interval."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.heavy
def test_a_minute_of_grpo_teaches(tmp_path):
    command = [
        sys.executable,
        "-m",
        "trainers.grpo",
        "--preset",
        "tiny-minute",
        "--seed",
        "0",
        "--out",
        str(tmp_path / "run"),
    ]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=900, check=True)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert json.loads(ran.stdout.splitlines()[-1]) == result
    assert result["gain"]["interval"][0] > 0, result["gain"]
    assert result["after"]["success"] > result["before"]["success"] + 0.1
