"""A page names benchmarks that are here, or cites a former one as "measured at COMMIT by `benchmarks.NAME`"."""

import json
import re
import subprocess

import pytest

from tests import ROOT

CITATION = re.compile(r"[Mm]easured at ([0-9a-f]{8,40}) by `(benchmarks\.\w+)[^`]*`")
NAME = re.compile(r"\bbenchmarks[./](\w+)(?=[`:, .)]|$)", flags=re.M)
FOLDERS = {"README", "peers", "results"}
RESULTS = ROOT / "benchmarks" / "results"
INDEX = ROOT / "benchmarks" / "README.md"
PAGES = sorted([ROOT / "README.md", INDEX, *(ROOT / "docs").rglob("*.md"), *(ROOT / "agent_envs").rglob("*.md")])


def is_here(module: str) -> bool:
    return (ROOT / f"{module.replace('.', '/')}.py").exists()


def unexplained(text: str) -> list[str]:
    """Return the benchmarks that a text names as if they were here."""
    return [
        name
        for name in NAME.findall(CITATION.sub("", text))
        if name not in FOLDERS and not is_here(f"benchmarks.{name}")
    ]


def citations() -> dict[str, set[str]]:
    """Return the commits by module."""
    commits: dict[str, set[str]] = {}
    for page in PAGES:
        for commit, module in CITATION.findall(page.read_text(encoding="utf-8")):
            commits.setdefault(module, set()).add(commit)
    return commits


def git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_name_of_nothing_is_seen_and_a_citation_is_none():
    assert (
        unexplained("run `python -m benchmarks.gone --out FILE` or benchmarks/gone.py; benchmarks.goals")
        == ["gone"] * 2
    )
    assert (
        unexplained("measured at d3bab669 by `benchmarks.gone RUN`, [figures](../benchmarks/results/gone.json)") == []
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_name_benchmarks_that_are_here(page):
    assert unexplained(page.read_text(encoding="utf-8")) == []


def test_what_is_cited_as_former_is_not_here():
    assert citations() and not [module for module in citations() if is_here(module)]


def test_the_commit_of_a_citation_has_the_module():
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("no history of git here")
    for module, commits in citations().items():
        for commit in commits:
            assert git("cat-file", "-e", f"{commit}:{module.replace('.', '/')}.py").returncode == 0, (
                f"{commit} has no {module}"
            )
            assert git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0, f"{commit} is not behind HEAD"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.name)
def test_kept_results_are_of_a_benchmark_here_or_of_a_cited_one(path):
    text = json.dumps(json.loads(path.read_text(encoding="utf-8")))
    index = INDEX.read_text(encoding="utf-8")
    for name in set(re.findall(r"-m benchmarks\.(\w+)", text)):
        if not is_here(f"benchmarks.{name}"):
            rows = [row for row in index.splitlines() if f"](results/{path.name})" in row]
            assert any(f"`benchmarks.{name}`" in row for row in rows), (
                f"{INDEX.name} has no row for {path.name} of {name}"
            )
