"""Fresh processes: forked or started, they answer alike, see what their caller sees, and fail in words."""

import io
import json
import os
import sys
from dataclasses import asdict

import pytest

from agent_envs import Message
from agent_envs.checker.env_under_test import CheckFailed, CheckSkipped, EnvUnderTest, Script, play
from agent_envs.checker.processes import COMMAND, run_child, run_fresh
from tests.toy import ID, Guess

SCRIPT = Script(0, 0, "test", ("<compare>50</compare>", "<answer>7</answer>"))
JOB = {"play": [SCRIPT], "agents": [["solver", "test", 1]]}


class Tells(Guess):
    """It tells, and prints, where it is."""

    def _begin(self, task, key):
        state, messages = super()._begin(task, key)
        print('{"play": "a line of its own"}')
        place = f"{os.getcwd()} {os.environ.get('TELLS')} {os.environ['PYTHONHASHSEED']} {sys.stdin.read()}"
        return state, (*messages, Message("user", place, "environment"))


class Dies(Guess):
    """It takes its process with it."""

    def _begin(self, task, key):
        os._exit(3)


def subject(made):
    return EnvUnderTest.of(made, {}, tasks=1, hostile=0, split=None)


def test_a_fork_answers_what_a_process_of_its_own_answers():
    toy = subject(f"tests.toy:{ID}")
    around = {"recipe": toy.recipe, "path": sys.path, "folder": os.getcwd(), "variables": dict(os.environ)}
    alone = json.loads(run_fresh(json.dumps(around | JOB, default=asdict), "5"))
    assert run_child(toy, JOB, "5") == alone
    assert alone["play"] == [play(toy.make(), SCRIPT)] and len(alone["agents"]) == 1


def test_it_sees_the_folder_and_the_variables_of_the_call_and_nothing_of_the_jobs(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONHASHSEED", "5")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    for folder, told in ((tmp_path, "one"), (tmp_path.parent, "two")):
        monkeypatch.chdir(folder)
        monkeypatch.setenv("TELLS", told)
        assert run_child(subject(Tells()), {"play": [SCRIPT]}, "5")["play"] == [play(Tells(), SCRIPT)]


def test_a_process_that_dies_is_a_finding_and_the_next_one_answers():
    with pytest.raises(CheckFailed, match="a fresh process fails: exit code 3"):
        run_child(subject(Dies()), JOB, "5")
    assert run_child(subject(Guess()), {"play": [SCRIPT]}, "5")["play"] == [play(Guess(), SCRIPT)]


def test_an_error_is_told_in_one_line():
    with pytest.raises(CheckFailed, match="a fresh process fails: UsageError: .*'nowhere'"):
        run_child(subject(Guess()), {"play": [Script(0, 0, "nowhere", ())]}, "5")


def test_what_no_other_process_can_import_is_skipped():
    alone = subject(Guess())
    alone.importable = False
    with pytest.raises(CheckSkipped, match="__main__"):
        run_child(alone, JOB, "5")
    assert COMMAND[0] == sys.executable
