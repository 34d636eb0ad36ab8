"""Pages cite a benchmark that went as "measured at COMMIT by MODULE"; git has the module there, and its results have a row.

That whatever is named otherwise is here is held by tests/test_structure.py.
"""

import re
import subprocess

import pytest

from tests import ROOT
from tests.needs import needs
from tests.test_structure import CITATION, named_in_vain

INDEX = ROOT / "benchmarks" / "README.md"
PAGES = [ROOT / "README.md", INDEX, *(ROOT / "docs").rglob("*.md")]


def path_of(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def citations() -> set[tuple[str, str]]:
    """Return (commit, module) of every citation."""
    return {citation for page in PAGES for citation in CITATION.findall(page.read_text(encoding="utf-8"))}


def git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_citation_is_no_name_in_vain(tmp_path):
    gone = ".".join(("benchmarks", "gone"))
    page = tmp_path / "page.md"
    page.write_text(f"[figures](gone.json), measured at d3bab669 by `{gone} RUN --batches 12`", encoding="utf-8")
    assert CITATION.findall(page.read_text(encoding="utf-8")) == [("d3bab669", gone)]
    assert named_in_vain(page) == set()
    page.write_text(f"measured by `{gone}`, or at d3bab669 by {gone}", encoding="utf-8")
    assert named_in_vain(page) == {gone}


def test_what_is_cited_went():
    assert citations()
    assert not [module for _, module in citations() if (ROOT / path_of(module)).exists()]


@needs("history")
def test_the_commit_of_a_citation_has_the_module():
    for commit, module in citations():
        assert git("cat-file", "-e", f"{commit}:{path_of(module)}").returncode == 0, f"{commit} has no {module}"
        assert git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0, f"{commit} is not behind HEAD"


@pytest.mark.parametrize("path", sorted(ROOT.glob("benchmarks/results/*.json")), ids=lambda path: path.name)
def test_kept_results_are_of_a_benchmark_here_or_of_a_cited_one(path):
    rows = [row for row in INDEX.read_text(encoding="utf-8").splitlines() if f"](results/{path.name})" in row]
    for module in set(re.findall(r"-m (benchmarks\.\w+)", path.read_text(encoding="utf-8"))):
        cited = any(module == former for row in rows for _, former in CITATION.findall(row))
        assert cited or (ROOT / path_of(module)).exists(), (
            f"benchmarks/README.md has no row for {path.name} of {module}"
        )
