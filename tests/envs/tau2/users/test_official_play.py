"""A gold agent gets the official tasks done with the scripted user: each reason why not is listed."""

import os
import subprocess
import sys

import pytest

from agent_envs.envs.tau2.builtin import builtin_domain
from agent_envs.envs.tau2.user_script import Fact, UserScript, Want
from agent_envs.envs.tau2.users.scripted import ScriptedUser
from tests import ROOT
from tests.envs.tau2.official_play import Play, best_play, played_tasks
from tests.envs.tau2.play_needs import Known
from tests.envs.tau2.recorded import BuiltinSource

SIZES = {"retail": 114, "airline": 50, "telecom": 114}
# What a scenario never tells: task 29's customer wants to change a trip, and the expected actions cancel it and book another.
LISTED = {"retail": {}, "airline": {"29": "never asks for it (cancel_reservation"}, "telecom": {}}


@pytest.mark.data
@pytest.mark.parametrize("name", SIZES)
def test_official_tasks_are_playable(name):
    plays = list(played_tasks(name))
    assert len(plays) == SIZES[name]
    failed = {play.task: "; ".join(play.reasons) for play in plays if not play.passed}
    assert failed.keys() <= LISTED[name].keys(), failed
    assert all(LISTED[name][task] in reasons for task, reasons in failed.items()), failed


@pytest.mark.parametrize("name", SIZES)
def test_builtin_tasks_are_playable(name):
    source, domain = BuiltinSource(name), builtin_domain(name)
    for split in source.splits:
        for place in range(source.size(split)):
            play = best_play(domain, source.get(split, place))
            assert play.passed, (play.task, play.reasons)


def silent(task):
    return UserScript((), (Want("I want to cancel an order, please."),))


def nameless(task):
    return UserScript((Fact("zip", "My zip code is 10115.", "10115"),), (Want("I want something."),))


def wishless(task):
    identity = (Fact("name", "My name is Mira Holm.", "Mira Holm"), Fact("zip", "My zip code is 10115.", "10115"))
    return UserScript(identity, (Want("I am not sure what I want."),))


@pytest.mark.parametrize(
    ("fallback", "reason"),
    [(silent, "never tells who it is"), (nameless, "never tells who it is"), (wishless, "never asks for it")],
)
def test_a_user_that_does_not_tell_is_listed(fallback, reason):
    task = BuiltinSource("retail").get("train", "retail-train-cancel")
    play = Play(builtin_domain("retail"), task, user=ScriptedUser("plain", fallback)).run()
    assert not play.passed and any(reason in text for text in play.reasons), play.reasons


@pytest.mark.parametrize(
    ("said", "shown", "value", "known"),
    [
        ("I fly on May 24.", "", "2024-05-24", True),
        ("I fly on May 2.", "", "2024-05-24", False),
        ("The next day, please.", '"date": "2024-05-23"', "2024-05-24", True),
        ("Another day, please.", '"date": "2024-05-23"', "2024-05-24", False),
        ("In basic economy.", "", "basic_economy", True),
        ("My number is 123456.", "", "12345", False),
        ("", '{"item_id": "12345"}', "12345", True),
    ],
)
def test_what_an_agent_knows(said, shown, value, known):
    assert Known(builtin_domain("airline"), said, shown).has(value) is known


def test_without_the_data_it_says_so_in_one_line(tmp_path):
    nowhere = {**os.environ, "AGENT_ENVS_DATA": str(tmp_path), "AGENT_ENVS_CACHE": str(tmp_path)}
    command = [sys.executable, "-m", "tests.envs.tau2.official_play"]
    ran = subprocess.run(command, cwd=ROOT, env=nowhere, capture_output=True, text=True, check=False)
    assert ran.returncode == 1 and ran.stdout == "" and ran.stderr.count("\n") == 1
    assert ran.stderr.startswith("official_play: the official tau2 data is not on this machine")
