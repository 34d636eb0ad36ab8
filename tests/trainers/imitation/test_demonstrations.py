import random
from collections import Counter

import gymnasium as gym
import pytest

from agent_envs.base.errors import UsageError
from agent_envs.rollout.episode_runner import replay
from agent_envs.rollout.policy import Request
from tests.trainers.players import WORLD
from trainers.imitation.demonstrations import (
    KINDS,
    SEARCH_FLAWS,
    TOOL_FLAWS,
    Flaws,
    demonstrations,
    flawed_policy,
    shared_words,
    without_tags,
)


def made(name):
    arguments = {"top_k": 1, "max_generations": 4, "world": {**WORLD, "distractors": 0.0}} if name == "SearchQA" else {}
    return gym.make(f"agent_envs:agent_envs/{name}-v0", **arguments)


def shares(count=150, **chances):
    played = list(demonstrations(made("SearchQA"), count, Flaws(keep_plan=True, **chances)))
    return sum(item.success for item in played) / count, played


@pytest.mark.parametrize("name", ["SearchQA", "Sort", "Order", "CalcBench"])
def test_without_flaws_the_solver_solves(name):
    played = list(demonstrations(made(name), 24))
    assert all(item.success for item in played)
    assert len({item.header.task_id for item in played}) > 12


@pytest.mark.parametrize(
    ("name", "flaws"), [("SearchQA", SEARCH_FLAWS), ("Sort", TOOL_FLAWS), ("CalcBench", TOOL_FLAWS)]
)
def test_the_same_seed_gives_the_same_demonstrations(name, flaws):
    one, two, other = (list(demonstrations(made(name), 40, flaws, seed=seed)) for seed in (3, 3, 4))
    assert one == two
    assert one != other
    assert {item.header.task_id for item in one} == {item.header.task_id for item in other}


def test_demonstrations_are_records_that_replay():
    env = made("SearchQA")
    for item in list(demonstrations(env, 20, SEARCH_FLAWS)):
        assert replay(env, item).turns == item.turns


def test_flaws_leave_about_half_of_the_searches_right():
    success, played = shares(300, **{kind: getattr(SEARCH_FLAWS, kind) for kind in KINDS})
    assert 0.45 < success < 0.7
    assert 0.04 < sum(bool(turn.events) for item in played for turn in item.turns) / len(played) < 0.3


def test_a_flaw_does_not_depend_on_the_question():
    one, two = (
        [len(item.turns) for item in demonstrations(made("SearchQA"), 200, Flaws(early=0.5), seed=seed)]
        for seed in (0, 1)
    )
    both = Counter((first == 1, second == 1) for first, second in zip(one, two, strict=True))
    assert 30 < both[True, True] < 70 and 30 < both[False, False] < 70


def test_early_answers_end_the_episode_wrongly():
    success, played = shares(early=1.0)
    assert success < 0.05
    assert all(len(item.turns) == 1 and "<answer>" in item.turns[0].action for item in played)


def test_hasty_answers_stop_one_hop_before_the_end():
    _, played = shares(hasty=1.0)
    hasty = [item for item in played if not item.success]
    assert 0.3 < len(hasty) / len(played) < 0.7
    for item in hasty:
        answer = item.last.action.partition("<answer>")[2].partition("</answer>")[0]
        assert answer and f" {answer}" in item.turns[-2].observation[0].content
        assert item.task.data[0] == "bridge-2"


def test_detours_are_made_up_for_while_turns_last():
    success, played = shares(astray=0.25)
    assert 0.4 < success < 0.9
    recovered = [item for item in played if item.success and len(item.turns) == 4]
    assert recovered
    none_left = [item for item in played if not item.success]
    assert none_left and all(len(item.turns) == 4 or "<answer>" in item.last.action for item in none_left)


def test_repeated_and_malformed_turns():
    _, played = shares(repeated=0.3)
    assert any(
        one.action == two.action for item in played for one, two in zip(item.turns, item.turns[1:], strict=False)
    )
    _, played = shares(malformed=0.3)
    bad = [turn for item in played for turn in item.turns if turn.events]
    assert bad and all("<search>" not in turn.action and "<answer>" not in turn.action for turn in bad)


def test_random_actions_come_from_the_sampler():
    played = list(demonstrations(made("Sort"), 30, Flaws(sampled=1.0)))
    assert sum(item.success for item in played) < 15


def test_a_silent_episode_is_a_guess_that_uses_no_tool():
    played = list(demonstrations(made("Countdown"), 60, Flaws(silent=0.5)))
    silent = [item for item in played if not any(turn.results for turn in item.turns)]
    assert 15 < len(silent) < 45
    assert all(item.success for item in played if item not in silent)
    assert all(len(item.turns) == 1 and item.turns[0].action.startswith("#### ") for item in silent)
    assert sum(item.success for item in silent) < len(silent) / 2


def test_chances_are_checked():
    with pytest.raises(UsageError, match="at most 1"):
        Flaws(early=0.7, hasty=0.4)
    with pytest.raises(UsageError, match=">= 0"):
        Flaws(astray=-0.1)
    with pytest.raises(UsageError, match="silent"):
        Flaws(silent=1.5)


def test_flaws_are_drawn_at_their_rates():
    rng = random.Random("rates")
    drawn = Counter(Flaws(early=0.2, malformed=0.5).draw(rng) for _ in range(4000))
    assert set(drawn) == {"early", "malformed", ""}
    assert abs(drawn["early"] / 4000 - 0.2) < 0.03 and abs(drawn["malformed"] / 4000 - 0.5) < 0.03


def test_a_flawed_policy_needs_an_episode():
    with pytest.raises(UsageError, match="begin"):
        flawed_policy(Flaws(), []).act([Request("", 1, ())])


@pytest.mark.parametrize(
    ("action", "bare"),
    [
        ("<think>x</think>\n<search>a b</search>", "<think>x</think>\na b"),
        ("<swap>A, B</swap>", "A, B"),
        ("known.\n#### 5 + 4", "known.\n 5 + 4"),
        ("nothing", "nothing"),
    ],
)
def test_tags_are_taken_off(action, bare):
    assert without_tags(action) == bare


def test_shared_words_are_the_longest_run():
    assert (
        shared_words("<search>Givena Ashton worked for</search>", "was written by Givena Ashton. It was")
        == "Givena Ashton"
    )
    assert shared_words("nothing here", "of the kind") == ""
    assert shared_words("art", "party") == ""
