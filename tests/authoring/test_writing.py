"""`agent-envs new` writes environments that work, takes no name that cannot be one, and overwrites nothing."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agent_envs.authoring import write_environment
from agent_envs.base.errors import UsageError
from tests import ROOT
from tests.rows import check_each

PAGE = (ROOT / "docs" / "adding_an_environment.md").read_text(encoding="utf-8")
OWN, INSIDE, EXPANDED = re.findall(r"```console\n(.*?)```", PAGE, flags=re.S)
_, TWO_MACHINES = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
CHECKOUT = ("agent_envs/core/registry.py", "agent_envs/envs/__init__.py")


def in_a_shell(block, folder, root=ROOT):
    """Run a block of the page with this Python, line by line, as far as all goes well."""
    block = block.replace('pip install -e ".[dev]"\n', "")  # it is installed here, and no network is needed
    for command, module in (("python -m ", ""), ("agent-envs ", "agent_envs ")):
        block = block.replace(command, f"{shlex.quote(sys.executable)} -m {module}")
    block = re.sub(r"^make ", f"make -o '{sys.prefix}/.ready' VENV='{sys.prefix}' ", block, flags=re.M)
    around = {"cwd": folder, "env": {**os.environ, "PYTHONPATH": str(root)}}
    ran = subprocess.run(["sh", "-ec", block], **around, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    return ran.stdout


def test_a_package_passes_the_check_and_its_own_tests_at_once(tmp_path):
    printed = in_a_shell(OWN, tmp_path)
    assert not re.search("^(failed|skipped)", printed, flags=re.M) and "passed  hidden gold" in printed
    assert 'cd number-guess-env && pip install -e ".[dev]" && agent-envs check ' in printed
    wanted = tomllib.loads((tmp_path / "number-guess-env" / "pyproject.toml").read_text("utf-8"))["project"]
    assert wanted["optional-dependencies"]["dev"] == ["pytest"]
    assert " passed" in printed.partition("hostile text")[2] and re.search("success [2-8]\\d.\\d %", printed)
    by_hand = "printf 'compare\\n1\\n' | agent-envs play number_guess:number_guess/NumberGuess-v0"
    told = in_a_shell(by_hand, tmp_path / "number-guess-env")
    assert "1 compare   2 answer" in told and "1 is too low." in told  # `written` shows its tools to whoever plays


@pytest.mark.heavy
def test_expanded_actions_and_their_twin_pass_too_and_two_machines_share_one_action_space(tmp_path):
    printed = in_a_shell(EXPANDED, tmp_path)
    assert not re.search("^(failed|skipped)", printed, flags=re.M) and "4 actions; " in printed
    assert " passed" in printed.rpartition("hostile text")[2]
    (tmp_path / "dial-env" / "two_machines.py").write_text(TWO_MACHINES, encoding="utf-8")
    in_a_shell("python -m two_machines", tmp_path / "dial-env")


def checkout(folder):
    for name in CHECKOUT:
        (folder / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, folder / name)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder / "agent_envs" / "envs"


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_family_has_its_row_and_its_line_and_the_style_of_the_house(tmp_path):
    family = checkout(tmp_path) / "finding"
    told = write_environment("FindIt", family=family)
    table, listed = ((tmp_path / name).read_text(encoding="utf-8") for name in CHECKOUT)
    assert (
        f'        "agent_envs.envs.{family.name}.env:FindIt",\n'
        in table.partition("TABLE")[2].partition("def env_ids")[0]
    )
    assert "\n    finding/: FindIt, " in listed
    remaining = [line.removeprefix("now: ") for line in told if line.startswith("now: make")]
    assert remaining == ["make golden ID=FindIt", "make docs", "make lint"]
    ours = 'lint.isort.known-first-party=["agent_envs"]'  # most of it is not in this folder
    for command in (("check", "--config", ours), ("format", "--check")):
        subprocess.run([sys.executable, "-m", "ruff", *command, "-q", "."], cwd=tmp_path, check=True)


@pytest.mark.heavy
def test_a_family_inside_the_project_passes_what_every_id_has_to(tmp_path):
    """What the page says is run in a copy of the project, and then what every id has to pass, and the types."""
    for name in subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    in_a_shell(f"git init -q && git add -A\n{INSIDE}git add -A", tmp_path, tmp_path)
    whole = "tests/core/test_registry.py tests/test_structure.py tests/test_docs.py tests/test_size.py tests/evaluation/suites"
    in_a_shell(f"python -m pytest -q {whole} -m 'not heavy and not data'", tmp_path, tmp_path)
    in_a_shell("python -m pytest -q tests/test_golden.py tests/test_contract.py -k NumberGuess", tmp_path, tmp_path)
    in_a_shell("python -m mypy agent_envs/envs/number_guess", tmp_path, tmp_path)


@pytest.mark.parametrize("family", [False, True])
def test_nothing_is_overwritten(tmp_path, monkeypatch, family):
    monkeypatch.chdir(tmp_path)
    place = {"family": checkout(tmp_path) / "find_it"} if family else {"out": tmp_path / "mine"}
    theirs = tmp_path / "tests" / "envs" / "find_it" / "test_env.py" if family else tmp_path / "mine" / "env.py"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("theirs", encoding="utf-8")
    before = files(tmp_path)
    with pytest.raises(UsageError, match="there already"):
        write_environment("FindIt", **place)
    assert files(tmp_path) == before
    theirs.unlink()
    write_environment("FindIt", **place)
    before = files(tmp_path)
    with pytest.raises(UsageError, match="already"):
        write_environment("FindIt", **place)
    assert files(tmp_path) == before


def test_names_and_places_that_cannot_be_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    envs = checkout(tmp_path)
    before = files(tmp_path)

    def refused(name, place, words):
        with pytest.raises(UsageError, match=words) as error:
            write_environment(name, **place)
        assert "\n" not in str(error.value) and files(tmp_path) == before

    names = ("numberGuess", "X", "Number-Guess", "../Up", "N" * 41, "Zahl\u00e4", "Exception", "None", "A\nB")
    packages = {"Calendar": "'calendar' is there", "Numpy": "'numpy' is there", "AgentEnvs": "'agent_envs' is there"}
    rows = [(name, {}, "CamelCase") for name in names]
    rows += [(name, {}, words) for name, words in packages.items()]
    rows += [(name, {}, "template of") for name in ("Task", "Answer", "TurnEnv", "Template", "PROTOCOL")]
    rows += [(name, {"family": envs / "find"}, "has that id") for name in ("SearchQA", "Crafter", "Searchqa")]
    wrong = (
        envs / "Find",
        envs / "class",
        envs / "find-it",
        tmp_path / "find",
        envs / "a" / "b",
        Path("/"),
        tmp_path / ".." / "find",
    )
    rows += [("FindIt", {"family": place}, "--family") for place in wrong]
    rows += [
        ("FindIt", {"family": envs / "find", "out": tmp_path}, "--out"),
        ("FindIt", {"family": envs / "find", "expanded": True}, "--expanded"),
        ("FindIt", {"out": tmp_path}, "not empty"),
        ("FindIt", {"out": tmp_path / "pyproject.toml" / "find"}, "is there already"),
    ]
    check_each(refused, rows)


def test_a_word_of_the_templates_prose_is_a_name_like_any_other(tmp_path):
    for name in ("Find", "Text", "Dial"):
        assert write_environment(name, out=tmp_path / name)


def test_a_registry_without_a_table_is_told_and_nothing_is_written(tmp_path):
    envs = checkout(tmp_path)
    (tmp_path / CHECKOUT[0]).write_text("ROWS = ()\n", encoding="utf-8")
    before = files(tmp_path)
    with pytest.raises(UsageError, match="registry.py: no place for the new entry"):
        write_environment("FindIt", family=envs / "find")
    assert files(tmp_path) == before
