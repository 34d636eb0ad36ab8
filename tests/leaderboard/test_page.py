"""The page's commands run in their order, its tables say what the code does, and its figures are the log's."""

import json
import re
import shlex
import sys

import pytest

from agent_envs.cli import app as cli
from agent_envs.evaluation.suites.suite import load_suite, suite_names
from agent_envs.evaluation.verification.badges import BADGES
from leaderboard.standings import CLASSES
from tests import ROOT

PAGE = (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8")


def test_the_submitters_commands_run(tmp_path, monkeypatch, capsys):
    """With two cheap environments of demo: the others are what the suite's own tests play."""
    import agent_envs.evaluation.suites.plan as plan

    def part(suite):
        names = ("Count-v0", "BabaIsAI-v0")
        return suite.part(tuple(item for item in suite.entries if item.label in names)), []

    monkeypatch.setattr(plan, "playable_part", part)
    monkeypatch.chdir(tmp_path)
    play, check = re.findall(r"```console\n(.*?)```", PAGE, flags=re.S)[0].splitlines()
    monkeypatch.setattr(sys, "argv", shlex.split(play))
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 0
    capsys.readouterr()
    assert cli.app([*shlex.split(check)[1:], "--jobs", "1"], standalone_mode=False) == 0
    told = capsys.readouterr().out
    assert "accepted: submission" in told and "not stated yet: agent.scaffold" in told


def test_every_command_of_the_page_is_understood(capsys):
    commands = [line for block in re.findall(r"```console\n(.*?)```", PAGE, flags=re.S) for line in block.splitlines()]
    assert len(commands) == 22
    from leaderboard.command_line import _parser

    for line in commands:
        words = shlex.split(line)
        if words[0] == "python":
            assert _parser().parse_args(words[3:]).verb in PAGE


def test_tables_of_the_page_are_true():
    badges = PAGE.partition("## Badges")[2].partition("## Suites")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in badges.splitlines() if line.startswith("| ")][
        1:
    ]
    assert {row[0]: row[3] == "yes" for row in rows} == {name: badge.ranked for name, badge in BADGES.items()}
    classes = PAGE.partition("Rows are compared within")[2].partition("Two rows differ")[0]
    assert re.findall(r"^\| ([a-z -]+?) \|", classes, flags=re.M)[1:] == list(CLASSES)
    suites = dict(re.findall(r"^\| `([a-z0-9-]+)@(1)`", PAGE, flags=re.M))
    assert sorted(suites) == suite_names() and all(load_suite(f"{name}@1") for name in suites)


def test_the_log_of_the_campaign_is_what_the_page_says():
    log = json.loads((ROOT / "benchmarks" / "results" / "mutations.json").read_text(encoding="utf-8"))
    assert log["mutations"] == 10_000 and log["accepted_wrongly"] == [] and log["differing"] == []
    assert log["verified_in_full_too"] == 200 and log["episodes"] == 46
    assert min(sum(counts.values()) for counts in log["fields"].values()) >= 20
    kept = {
        name for name, counts in log["fields"].items() if "unchanged" in counts and not name.startswith("submission.")
    }
    assert kept == {"attempt.cause", "episode.agent_seconds", "episode.seconds", "episode.usage", "episode.turns.*.action",
                    "external.response", "manifest.replayed"}  # fmt: skip
