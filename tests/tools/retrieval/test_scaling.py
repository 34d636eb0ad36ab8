"""The scaling benchmark runs: a smoke test, without figures."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests import ROOT
from tests.needs import needs


@pytest.mark.heavy
@needs("[tantivy]", "[rank-bm25]")
def test_the_scaling_benchmark_measures_writes_and_resumes(tmp_path: Path) -> None:
    out = tmp_path / "scaling.json"
    command = [sys.executable, "-m", "benchmarks.scaling", "--sizes", "300", "--out", str(out)]
    command += ["--work", str(tmp_path / "work")]

    def run() -> str:
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    assert run().count("300: {") == 3
    record = json.loads(out.read_text())
    assert {engine: list(sizes) for engine, sizes in record["results"].items()} == {
        engine: ["300"] for engine in ("bm25", "tantivy", "rank_bm25")
    }
    assert all(figures["300"]["query_p50_ms"] > 0 for figures in record["results"].values())
    ElementTree.parse(out.with_suffix(".svg"))
    assert "300: {" not in run()
