"""Code blocks, commands, links and generated pages in the README and the docs run and match the code."""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from functools import cache
from pathlib import Path

import pytest

from agent_envs import __version__
from agent_envs.cli import app as cli
from agent_envs.core.env import INFO_KEYS
from agent_envs.core.registry import TABLE
from tests import ROOT
from tests.needs import needs

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, flags=re.S)
PYTHON = [text for language, text in BLOCKS if language == "python"]
EVALUATION = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
GUIDE = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "guide.md").read_text(encoding="utf-8"), flags=re.S)
PAGE = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
RETRIEVAL = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "retrieval.md").read_text(encoding="utf-8"), flags=re.S)
ADDING = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs" / "adding_an_environment.md").read_text(encoding="utf-8"), flags=re.S
)
QUICK = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8"), flags=re.S)
INTEGRATIONS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
COMMANDS = [line for language, text in BLOCKS if language == "console" for line in text.splitlines() if line.strip()]
DENSE = [needs("[dense]"), pytest.mark.heavy]  # to import what it needs takes longer than all other blocks
HEADINGS = ("Description", "Task sources", "Action", "Observation", "Tools", "Reward", "Episode end", "Info", "Arguments",
            "Version history")  # fmt: skip


def test_every_block_is_of_a_kind_that_is_checked():
    assert {language for language, _ in BLOCKS} == {"python", "console", ""}
    assert (len(PYTHON), len(GUIDE), len(INTEGRATIONS), len(RETRIEVAL), len(QUICK)) == (2, 9, 8, 1, 10)
    assert len(COMMANDS) == 14


@cache
def run_block(block):
    """Run a block as a program of its own, once for all tests that ask what it does."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "block.py").write_text(block, encoding="utf-8")
        return subprocess.run(
            [sys.executable, "-W", "error", "block.py"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},  # one uses a module of the checkout
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


@pytest.mark.parametrize(
    "block",
    [
        *PYTHON,
        ADDING[0],
        pytest.param("\n".join(QUICK), marks=needs("[envs]")),
        *GUIDE,
        *INTEGRATIONS,
        *(pytest.param(block, marks=DENSE) for block in RETRIEVAL),
    ],
    ids=lambda block: block.strip().splitlines()[0][:40],
)
def test_python_blocks_run(block):
    ran = run_block(block)
    assert ran.returncode == 0, ran.stderr
    assert "failed" not in ran.stdout


def test_the_readmes_claims_come_true(tmp_path):
    (tmp_path / "echo.py").write_text(PYTHON[1], encoding="utf-8")
    assert run_block(PYTHON[0]).stdout.startswith("1.0 True")
    assert "passed  solver" in run_block(ADDING[0]).stdout
    command = ["-m", "agent_envs", "eval", "SearchQA", "--agent", "echo:Echo", "-n", "3", "--json"]
    ran = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=True)
    summary = json.loads(ran.stdout)
    assert summary["success"] == 0.0 and summary["mean_turns"] == 2.0 and summary["faults"] == 0


@pytest.mark.parametrize("page", [README, EVALUATION], ids=["README", "evaluation"])
@needs("[envs]")
def test_commands_run_in_their_order(page, tmp_path, monkeypatch, capsys):
    """In this process: tests/cli has what is to be seen of processes of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    blocks = re.findall(r"```console\n(.*?)```", page, flags=re.S)
    commands = [line for block in blocks for line in block.splitlines() if line.startswith("agent-envs")]
    assert len(commands) >= 5
    for command in commands:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        printed = capsys.readouterr()
        assert code == 0, f"{command}: {printed.err}"
        assert printed.out.strip(), command


def test_the_abilities_are_those_of_the_trials():
    """The table's cells, read back from README, beside the file of results."""
    table = README.partition("<!-- abilities:")[2].partition("<!-- end -->")[0].strip().splitlines()[1:]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    result = json.loads((ROOT / "benchmarks" / "results" / "peers_abilities.json").read_text(encoding="utf-8"))
    assert [name.split()[0] for name in head[1:]] == list(result["peers"]) and len(result["peers"]) == 6
    assert [words for words, *_ in rows] == list(result["abilities"].values())
    for (_, *cells), ability in zip(rows, result["abilities"], strict=True):
        for cell, row in zip(cells, result["peers"].values(), strict=True):
            assert re.sub(r"\[(.*)\]\(.*\)", r"\1", cell) == row[ability]["cell"]
            assert ("address" in row[ability]) == (cell.startswith("[")) and (
                row[ability]["cell"] != "no" or "](https" in cell
            )
    assert len(README.splitlines()) <= 180


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {row.split()[1] for row in COMMANDS if row.startswith("make ")} | set(re.findall(r"`make (\w+)`", README))
    assert named >= {"demo", "test", "golden"}
    for target in named:
        assert re.search(rf"^{target}:", makefile, flags=re.M), target


def test_links_and_the_annotated_tree_are_true():
    for page in (
        ROOT / "README.md",
        *(ROOT / "docs").glob("*.md"),
        ROOT / "benchmarks" / "README.md",
        *ROOT.glob(".github/*.md"),
    ):
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
    blocks = re.findall(r"```\n(.*?)```", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), flags=re.S)
    tree = next(text for text in blocks if text.startswith("agent_envs/"))
    shown, above = set(), []
    for line in tree.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        above = [*above[:depth], line.split()[0].rstrip("/")]
        shown.add("/".join(above))
    real = {
        str(path.parent.relative_to(ROOT))
        for top in ("agent_envs", "trainers", "baselines", "leaderboard")
        for path in (ROOT / top).rglob("__init__.py")
    }
    assert real | {"tests", "docs", "examples", "benchmarks"} == shown


TRAINING = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
EARL = (ROOT / "docs" / "earl.md").read_text(encoding="utf-8")
TRAIN_LINES = [line.partition("  #")[0].split(" --out ")[0].strip() for line in (README + TRAINING + EARL).splitlines()
               if line.startswith(("python -m trainers.", "python -m benchmarks.sweeps "))]  # fmt: skip


@needs("[train]")
def test_the_training_commands_are_understood(tmp_path):
    """Each is read as it stands; tests/trainers runs the small ones to their end."""
    from benchmarks.sweeps import sweep_names
    from trainers.arpo import ARPOSettings
    from trainers.command_line import parse
    from trainers.earl import EARLSettings
    from trainers.grpo import GRPOSettings
    from trainers.sft import SFTSettings
    from trainers.veg import VEGSettings

    kinds = {"grpo": GRPOSettings, "sft": SFTSettings, "earl": EARLSettings, "veg": VEGSettings, "arpo": ARPOSettings}
    read = 0
    for number, line in enumerate(TRAIN_LINES):
        _, _, module, *words = shlex.split(line)
        program = module.removeprefix("trainers.")
        if module == "benchmarks.sweeps":
            assert words[1] in sweep_names(words[0])
        elif words[0] not in ("--help", "--resume"):
            parse(kinds[program], [*words, "--out", str(tmp_path / str(number))], program=program)
            read += 1
    assert read >= 4


def test_every_preset_is_in_the_page():
    from_files = {path.stem for path in (ROOT / "trainers" / "presets").glob("*/*.toml")}
    table = TRAINING.partition("## Presets")[2].partition("\n## ")[0]
    assert from_files == set(re.findall(r"`([\w.-]+)`", table.partition("|---")[2]))


@needs("[envs]")
def test_generated_pages_are_current():
    ran = subprocess.run(
        [sys.executable, "-m", "docs.generate", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, f"run make docs: {ran.stdout}"


def page_of(name):
    """Return the page of an id."""
    path = ROOT / "docs" / "environments" / f"{name}.md"
    assert path.exists(), f"{name} has no page: make docs writes it"
    return path.read_text(encoding="utf-8")


def test_an_id_without_a_page_is_told_the_command():
    with pytest.raises(AssertionError, match="NoSuchThing has no page: make docs writes it"):
        page_of("NoSuchThing")


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_pages_have_the_ten_headings(row):
    page = page_of(row.name)
    found = re.findall(r"^## (.+)$", page, flags=re.M)
    assert tuple(found[: len(HEADINGS)]) == HEADINGS
    arguments = page.partition("## Arguments")[2].partition("## ")[0]
    import gymnasium as gym

    named = set(re.findall(r"^- `(\w+)`", arguments, flags=re.M))
    assert named == set(gym.make(row.id).unwrapped.arguments)


def test_info_keys_are_documented():
    assert all(key.doc and key.when in ("always", "reset", "step", "end", "some") for key in INFO_KEYS.values())


def test_the_packages_that_were_asked_for_are_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for lines in project["optional-dependencies"].values() for line in lines)]
    declared = {re.split(r"[<>=!\[; ]", line)[0].lower() for line in lines}
    wanted = {"gymnasium", "pettingzoo", "torch", "transformers", "vllm", "anthropic", "rank-bm25", "sentence-transformers",
              "faiss-cpu", "numpy", "pytest", "hypothesis"}  # fmt: skip
    assert wanted <= declared


def test_each_dependency_says_why_it_is_there():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = text.partition("dependencies = [")[2].partition("]")[0]
    for line in section.strip().splitlines():
        assert "#" in line, line
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "### Scores" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
