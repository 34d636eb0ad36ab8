"""A test gets what it asked for and nothing else, on any machine; what is missing skips it, or fails it where promised."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.examples import part
from tests.needs import EXTRAS

NEEDS = """
import os, shutil, subprocess, sys
from importlib.util import find_spec
import pytest
from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.tools.retrieval.build import make_retriever
from agent_envs.tools.sandbox import SandboxSpec, open_sandbox
from tests.needs import needs

BWRAP = "{bwrap}"

def search():
    return make_retriever("tantivy", MemoryCorpus([Passage("p", "", "red fox")])).search("fox", 1)

def test_a_look_at_a_package_is_no_use_of_it():
    assert find_spec("tantivy") and find_spec("torch")

def test_unasked_package():
    import torch

def test_unasked_package_behind_our_own_code():
    search()

def test_unasked_package_in_a_thread():
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(1) as pool:
        pool.submit(search).result()

@needs("[tantivy]")
def test_asked_package():
    assert search()

def test_unasked_package_that_a_test_before_had():
    import tantivy

def test_unasked_package_behind_our_own_module_that_a_test_before_had():
    search()

def game(name):
    import gymnasium
    return gymnasium.make(name).reset(seed=5)

@needs("[babyai]", "[crafter]")
def test_asked_games():
    assert game("agent_envs/BabyAI-v0") and game("agent_envs/Crafter-v0")
    from minigrid.core.grid import Grid
    from tests.envs.text_games.babyai import mirror

@pytest.mark.parametrize("name", ["BabyAI", "Crafter"], ids=["first", "second"])
def test_unasked_game_that_a_test_before_played(name):
    game(f"agent_envs/{name}-v0")

def test_unasked_submodule():
    from minigrid.core.grid import Grid

def test_unasked_attribute():
    from tests.envs.text_games.babyai import mirror

def in_a_process(program):
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr

def test_unasked_package_in_a_process():
    in_a_process("import tantivy")

@needs("[tantivy]")
def test_asked_package_in_a_process():
    in_a_process("import tantivy")

def test_a_process_without_packages():
    in_a_process("import agent_envs, tempfile; agent_envs.env_ids()")

def test_unasked_sandbox():
    open_sandbox(SandboxSpec(backend="bwrap"))

def test_unasked_program_by_its_path():
    subprocess.run([BWRAP, "--version"])

@needs("bwrap")
def test_asked_program_by_its_path():
    subprocess.run([BWRAP, "--version"], check=True)

BOTH = [pytest.param(name, marks=needs(name)) for name in ("bwrap", "chromium")]

@pytest.mark.parametrize("program", BOTH)
def test_asked_program(program):
    assert shutil.which(program) and not shutil.which({"bwrap": "chromium", "chromium": "bwrap"}[program])

def test_nothing_asked():
    assert not shutil.which("bwrap") and not shutil.which("chromium") and shutil.which("beside")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "" and not {"AGENT_ENVS_DATA", "https_proxy"} & set(os.environ)

@needs("gpu", "data", "network")
def test_asked_for_the_rest():
    names = ("AGENT_ENVS_DATA", "CUDA_VISIBLE_DEVICES", "https_proxy")
    assert [os.environ[name] for name in names] == ["junk", "7", "p"]

@needs("bwrap", "[crafter]")
def test_asked_again():
    import crafter
"""
WHOLE_MODULE = """
from tests.needs import require
require("[rank-bm25]")
import rank_bm25
def test_the_module_asked():
    assert rank_bm25
"""
UNASKED_MODULE = "import {package}\ndef test_it():\n    assert {package}\n"
MODULES_PLAYED = {
    "silent": NEEDS, "whole": WHOLE_MODULE, "whole_again": WHOLE_MODULE, "unasked": UNASKED_MODULE.format(package="faiss"),
    "x_unasked_that_one_before_had": UNASKED_MODULE.format(package="rank_bm25"),
}  # fmt: skip
FAIL = {
    "package", "package_behind_our_own_code", "package_in_a_thread", "package_that_a_test_before_had",
    "package_behind_our_own_module_that_a_test_before_had", "package_in_a_process", "sandbox", "program_by_its_path",
    "game_that_a_test_before_played[first]", "game_that_a_test_before_played[second]", "submodule", "attribute",
}  # fmt: skip


def play(folder: Path, programs: tuple[str, ...], *words: str, **variables: str) -> str:
    """Play five modules in a session of their own, on a machine that has some programs, and return what it prints."""
    for name, text in MODULES_PLAYED.items():
        text = text.replace("{bwrap}", str(folder / "bin" / "bwrap"))
        (folder / f"test_{name}.py").write_text(text, encoding="utf-8")
    (folder / "bin").mkdir()
    for program in (*programs, "beside"):
        (folder / "bin" / program).write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
        (folder / "bin" / program).chmod(0o755)
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])  # which hides those of this machine from us
    environment = {**os.environ, "PATH": path, "HOME": str(folder), "PYTHONPATH": str(ROOT), **variables}
    options = ["-q", "--tb=line", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    more = ["--skipped-to", str(folder / "list"), "--continue-on-collection-errors", *words, str(folder)]
    command = [sys.executable, "-m", "pytest", *options, *more]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


def test_what_was_not_asked_for_is_hidden_or_fails_where_it_is_installed(tmp_path):
    printed = play(
        tmp_path, ("bwrap", "chromium", "nvidia-smi"), AGENT_ENVS_DATA="junk", CUDA_VISIBLE_DEVICES="7", https_proxy="p"
    )
    assert set(re.findall(r"FAILED .*::test_unasked_([\w\[\]]+)", printed)) == FAIL, printed
    assert set(re.findall(r"ERROR .*/test_(\w+)\.py", printed)) == {"unasked", "x_unasked_that_one_before_had"}, printed
    assert "torch is imported by test_silent, and this test did not ask for it: needs('[dense] or [train]')" in printed
    assert f"{len(FAIL)} failed, 13 passed, 2 errors" in printed, printed
    assert (tmp_path / "list").read_text(encoding="utf-8") == ""


@pytest.mark.parametrize("words", part([(), ("-n", "2")], [("-n", "2")]), ids=str)
def test_what_is_missing_skips_in_a_line_a_need_and_fails_where_it_is_promised(words, tmp_path):
    printed = play(
        tmp_path,
        (),
        *words,
        AGENT_ENVS_TESTS_HIDE="[tantivy] [crafter] [rank-bm25]",
        AGENT_ENVS_TESTS_PROMISED="chromium",
        NO_NETWORK="1",
    )
    lines = re.findall(r"^skipped (\d+): needs (\S+): (.*)$", printed, flags=re.M)
    assert {(need, count) for count, need, _ in lines} == {
        ("[tantivy]", "2"), ("[crafter]", "2"), ("[rank-bm25]", "2"), ("bwrap", "2"), ("data", "1"),
    }, printed  # fmt: skip
    assert 'pip install -e ".[tantivy]"' in printed and "apt-get install bubblewrap" in printed
    assert (
        "test_asked_program[chromium]" in printed and "PROMISED has chromium, and chromium is not installed" in printed
    )
    again = (tmp_path / "list").read_text(encoding="utf-8").splitlines()
    assert sorted(name.rpartition("/")[2] for name in again) == sorted(
        ["test_silent.py::test_asked_package", "test_silent.py::test_asked_program[bwrap]", "test_silent.py::test_asked_again",
         "test_silent.py::test_asked_for_the_rest", "test_silent.py::test_asked_games",
         "test_silent.py::test_asked_package_in_a_process",
         "test_silent.py::test_asked_program_by_its_path", "test_whole.py", "test_whole_again.py"]
    )  # fmt: skip


MODULES = {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in (ROOT / "tests").rglob("*.py")}
PLATFORM = r"sys\.platform|not hasattr\(os|not Path\(\"/dev/full|\"inspect_ai\" not in NAMES"
OWN_WAYS = rf"importorskip\(\"(?!fcntl|readline)|skipif\((?!{PLATFORM})|pytest\.skip\("
IMPORTS = r"^\s*(?:import|from) ({})\b"


def asked_in(name: str) -> set[str]:
    """Return all that a module and the folders around it ask for."""
    texts = [MODULES[name], *(MODULES.get(f"{folder}/__init__.py", "") for folder in map(str, Path(name).parents))]
    calls = [call for text in texts for call in re.findall(r"\b(?:needs|require)\(([^)]*)\)", text)]
    return {need for call in calls for need in re.findall(r'"([^"]+)"', call)}


@pytest.mark.parametrize("extra", sorted({package for packages in EXTRAS.values() for package in packages}))
def test_a_module_that_imports_a_package_asks_for_an_extra_that_has_it(extra):
    ways = {need for need, packages in EXTRAS.items() if extra in packages}
    importing = [
        name
        for name, text in MODULES.items()
        if "/test_" in name and re.search(IMPORTS.format(extra), text, flags=re.M)
    ]
    assert [name for name in importing if not ways & asked_in(name) and name != "tests/test_needs.py"] == []


def test_nothing_skips_in_a_way_of_its_own():
    others = {
        name: re.findall(OWN_WAYS, text)
        for name, text in MODULES.items()
        if name not in ("tests/needs.py", "tests/test_needs.py")
    }
    assert {name: ways for name, ways in others.items() if ways} == {}
