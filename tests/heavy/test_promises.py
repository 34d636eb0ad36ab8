"""What evaluation promises, whole: the kill test and the fault matrix, as their commands run them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def command(*arguments):
    return subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.heavy
def test_fifty_kills():
    ran = command("benchmarks.kills", "--kills", "50")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["kills"] >= 50 and found["wrong"] == []


@pytest.mark.heavy
def test_the_fault_matrix(tmp_path):
    ran = command("benchmarks.faults", "--out", str(tmp_path / "faults.json"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads((tmp_path / "faults.json").read_text())
    assert found["episodes"] == 5 * 14 * 3 * 2 and found["wrong"] == 0
