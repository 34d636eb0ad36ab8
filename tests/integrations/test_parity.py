"""Parity: each family through each adapter says, pays and ends as the environment itself; mutated adapters are caught.

On the stubs of upstream/ here; `make test-integrations` runs the same on the real packages, with AGENT_ENVS_HOSTS naming the
hosts whose package is installed.
"""

import os

from tests.needs import require

# The host of OpenEnv's real package is played by Starlette's client.
require("[envs]", *(["[serve]"] if "openenv" in os.environ.get("AGENT_ENVS_HOSTS", "") else []))

import pytest

from agent_envs import UsageError, task_rows
from agent_envs.integrations import Session
from tests.examples import part
from tests.integrations import hosts, toys
from tests.integrations.episodes import FAMILIES, KINDS, Script, itself, script
from tests.toy import ID

REAL = os.environ.get("AGENT_ENVS_HOSTS", "")
NAMES = REAL.split(",") if REAL else list(hosts.HOSTS)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_says_what_the_environment_says(name, family):
    """In make test two of the five scripts, which others are for each adapter and each family."""
    place = list(hosts.HOSTS).index(name) + list(FAMILIES).index(family)
    for kind in part(KINDS, (KINDS[place % 5], KINDS[(place + 2) % 5])):
        played = script(family, kind)
        assert hosts.HOSTS[name](played) == hosts.expected(name, played), kind


def test_the_scripts_cover_both_ends_success_and_failure():
    ends = {
        (record.end, record.success)
        for family in FAMILIES
        for record in [itself(script(family, kind)) for kind in KINDS]
    }
    assert ends == {("terminated", True), ("terminated", False), ("truncated", False)}


@pytest.mark.skipif("inspect_ai" not in NAMES, reason="Inspect is not installed here")
def test_a_limit_of_inspects_scores_the_turns_that_were_taken(monkeypatch):
    """By messages between two turns, and by time in the middle of one, whose thread nobody waits for."""
    (row,) = task_rows(f"tests.toy:{ID}", 1)
    turns = ("<compare>50</compare>",) * 3
    done, told = hosts.inspected(Script(row, turns), message_limit=5)
    assert done.limit.type == "message"
    assert told == {"rewards": [-0.0625] * 2, "end": "", "success": False}
    monkeypatch.setattr(toys.Stuck, "seconds", 2.5 if REAL else 0.6)
    done, told = hosts.inspected(Script(row | {"env_id": "toy/Stuck-v0"}, turns), time_limit=1 if REAL else 0.2)
    assert done.limit.type == "time"
    assert told == {"rewards": [], "end": "", "success": False}


def dropped_last_reward(monkeypatch):
    took = Session._record_step

    def mutated(self, action, step):
        messages = took(self, action, step)
        if self.end:
            self.rewards[-1] = 0.0
        return messages

    monkeypatch.setattr(Session, "_record_step", mutated)


def reused_state(monkeypatch):
    """A pool that hands an environment out again as the last episode left it."""
    reset, kept = Session._reset, {}

    def mutated(self, made, row):
        key = (row.get("env_id") or self.env_id, row["seed"], row["task"])
        if key not in kept:
            kept[key] = reset(self, None, row)
        return kept[key]

    monkeypatch.setattr(Session, "_reset", mutated)


def swapped_ends(monkeypatch):
    took = Session._record_step

    def mutated(self, action, step):
        observation, reward, terminated, truncated, info = step
        return took(self, action, (observation, reward, truncated, terminated, info))

    monkeypatch.setattr(Session, "_record_step", mutated)


def lost_message(monkeypatch):
    told = Session._record_messages

    def mutated(self, info):
        return told(self, info | {"messages": info["messages"][:-1]} if self.rewards and not self.end else info)

    monkeypatch.setattr(Session, "_record_messages", mutated)


MUTANTS = (dropped_last_reward, reused_state, swapped_ends, lost_message)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_a_mutated_adapter_is_caught(name, mutant, monkeypatch):
    mutant(monkeypatch)
    caught = 0
    for kind in ("solver", "limit"):
        played = script("search_qa", kind)
        try:
            seen = hosts.HOSTS[name](played)
            seen = hosts.HOSTS[name](played) if mutant is reused_state else seen
            caught += seen != hosts.expected(name, played)
        except (AssertionError, UsageError):
            caught += 1
    assert caught
