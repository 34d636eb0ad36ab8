"""`agent-envs check`: sound environments pass, and each broken promise is found under its name."""

import re

import pytest

from tests import ROOT
from tests.cli.conftest import strict
from tests.examples import part


def test_check_passes_ours_and_a_strangers(run):
    code, out, _ = run("check", "SearchQA", "-n", "2", "--hostile", "50")
    assert code == 0 and "failed" not in out and "hidden gold" in out
    code, out, _ = run("check", "tests.toy:Guess", "-n", "2", "--hostile", "50", "--json", "--arg", "turns=4")
    (report,) = strict(out)["reports"]
    assert code == 0 and report["ok"] and report["env_id"] == "tests.toy:Guess"
    assert {check["status"] for check in report["checks"]} == {"passed"}


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("ReadsObservations", "planted answers"),
        ("ReadsResults", "planted answers"),
        ("ReadsItsOwnWords", "planted answers"),
        ("ReadsTextInText", "everything told"),
        ("LeaksGold", "hidden gold"),
        ("LeaksNumber", "hidden gold"),
        ("LeaksOnTheWay", "hidden gold"),
        ("LosesTasksById", "tasks and replay"),
        ("LeaksScenarioLate", "hidden gold"),
        ("SharesState", "forks"),
        ("PicklesItsStart", "pickle"),
        ("DrawsGlobally", "global state"),
        ("CountsHashes", "fresh processes"),
        ("ActsByHash", "fresh processes"),
        ("RaisesOnOddText", "hostile text"),
        ("AddsInfo", "info"),
        ("LiesAboutBounds", "rewards"),
        ("CannotBeSolved", "solver"),
        ("PaysSilence", "solver"),
    ],
)
def test_check_catches_what_is_broken(run, name, check):
    code, out, _ = run("check", f"tests.broken:{name}", "-n", "2", "--hostile", part("250", "100"), "--json")
    (report,) = strict(out)["reports"]
    failed = {row["name"]: row["detail"] for row in report["checks"] if row["status"] == "failed"}
    assert code == 1 and not report["ok"]
    assert failed.get(check)


def test_check_tells_in_words(run):
    code, out, err = run("check", "tests.broken:LeaksGold", "-n", "1", "--hostile", "5")
    assert code == 1
    assert any(line.startswith("failed") and "hidden gold" in line for line in out.splitlines())
    assert "hidden gold ..." in err


def test_anyones_environment_is_told_by_parts_and_how_many_could_not_be_asked(run):
    code, out, err = run("check", "gym:CartPole-v1", "-n", "2")
    assert code == 0 and "seeds ..." in err and out.splitlines()[-1] == "6 passed, 3 cannot be asked"
    assert any(line.startswith("cannot be asked null agent") for line in out.splitlines())
    code, out, _ = run(
        "check", "gym:CartPole-v1", "-n", "2", "--solved", "20", "--json", "--arg", "max_episode_steps=30"
    )
    (report,) = strict(out)["reports"]
    assert code == 1 and report["counts"] == {"passed": 4, "cannot be asked": 3, "failed": 2}
    assert {row["name"] for row in report["checks"] if row["status"] == "failed"} == {"random agents", "blind replay"}


def test_help_has_an_example_of_each_scheme(run):
    code, out, _ = run("check", "--help")
    assert code == 0 and all(f"agent-envs check {scheme}:" in out for scheme in ("gym", "openenv", "verifiers"))


def test_what_the_page_shows_is_what_is_printed(run):
    page = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    command, shown = re.search(r"```text\n\$ agent-envs (check [^\n]+)\n(.*?)```", page, re.S).groups()
    code, out, _ = run(*command.split())
    assert code == 0
    assert [line[:46] for line in out.splitlines()] == [line[:46] for line in shown.splitlines()]  # not the figures
