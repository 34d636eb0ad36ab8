"""The full kill test and the full fault matrix of evaluation find no wrong results."""

import json
import subprocess
import sys

import pytest

from tests import ROOT


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
    ran = command("tests.heavy.fault_matrix", "--out", str(tmp_path / "faults.json"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads((tmp_path / "faults.json").read_text())
    assert found["episodes"] == 6 * 14 * 3 * 2 and found["wrong"] == 0
