"""Scripted feedback of tau2: who follows good hints serves as well as the rules behind them, who follows bad ones does not."""

import re

import gymnasium as gym
import pytest

from tests.examples import part
from tests.hinted import counts, half_able, play

TASKS = range(part(30, 15))


def as_text(moment):
    """Say or call what a hint says; else do what the rules say, and now and then anything."""
    told = re.search(r"\. (Say: |Call )(.+)$", moment.hint)
    if told is None:
        return half_able(moment, 0.6, "heuristic")
    return told[2] if told[1] == "Say: " else told[2].removesuffix(".")


def freely(moment):
    """Follow a hint in other words than its own."""
    action = as_text(moment)
    if not re.search(r"\. Say: ", moment.hint):
        return action
    return "Right. " + action.replace("I would", "I could").replace("I can", "I could").replace(
        "Shall I go ahead (yes/no)", "Is that all right"
    )


@pytest.mark.parametrize(
    "domain, found",
    [
        ("Retail", part([19, 8, 0], [8, 5, 0])),
        ("Airline", part([18, 5, 0], [9, 4, 0])),
        ("Telecom", part([21, 18, 0], [12, 10, 0])),
    ],
)
def test_good_hints_help_and_misleading_ones_hurt(domain, found):
    env = gym.make(f"agent_envs/Tau2{domain}-v0")
    assert list(counts(env, TASKS, as_text).values()) == found


@pytest.mark.parametrize("domain, found", [("Retail", part(8, 4)), ("Airline", part(9, 5)), ("Telecom", part(12, 4))])
def test_good_hints_may_be_followed_in_other_words(domain, found):
    env = gym.make(f"agent_envs/Tau2{domain}-v0")
    assert sum(play(env, task, freely, "good") for task in TASKS[: part(15, 6)]) == found
