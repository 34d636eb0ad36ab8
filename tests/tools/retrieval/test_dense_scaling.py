"""The benchmarks of semantic engines run: smoke tests, without figures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.needs import needs

pytestmark = needs("[legal]")


def ran(module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_the_costs_of_static_vectors_are_measured_and_computed(tmp_path: Path) -> None:
    out = tmp_path / "dense.json"
    ran("dense_scaling", "--models", "static", "--sizes", "300", "--work", str(tmp_path), "--out", str(out))
    record = json.loads(out.read_text())
    cell = record["results"]["static"]["300"]
    assert cell["disk_mb"] == pytest.approx(300 * 256 / 1e6, rel=1e-3)
    assert record["computed for 21015324"]["static"]["disk_gb"] == pytest.approx(21_015_324 * 256 / 1e9, rel=1e-2)
    assert record["encoding"]["static"]["passages_per_cpu_second"] > 0


def test_recall_of_what_must_find_all_and_of_what_finds_nothing(tmp_path: Path) -> None:
    out = tmp_path / "recall.json"
    ran("recall", "--cases", "statutes", "--engines", "oracle", "empty", "static", "--out", str(out))
    rows = json.loads(out.read_text())["results"]["statutes"]
    assert rows["oracle"]["recall@10"] == 1
    assert rows["empty"]["recall@10"] == 0
    assert 0 < rows["static"]["recall@5"] <= rows["static"]["recall@10"] < 1
