"""The built-in domains: sound data, disjoint splits, dialogues that solve their tasks, and no points for doing nothing."""

import json
from pathlib import Path

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.envs.tau2.builtin import builtin_domain
from agent_envs.envs.tau2.dialogue import Line, recording_of
from agent_envs.envs.tau2.evaluation import evaluate
from agent_envs.envs.tau2.task_schema import read_task
from agent_envs.envs.tau2.task_states import expected_arguments, initial_world
from agent_envs.envs.tau2.toolkit import call
from agent_envs.envs.tau2.turn_taking import USER_STOPS, Rules, opened, spoke
from agent_envs.rollout.policy import CompanionPolicy, NullPolicy
from leaderboard.write_suites import CANARY
from tests.envs.tau2 import recorded
from tests.envs.tau2.recorded import SPLITS, BuiltinSource, builtin_rows
from tests.rows import each_row

DOMAINS = ("retail", "airline", "telecom")
ROWS = [(name, split, row) for name in DOMAINS for split in SPLITS for row in builtin_rows(name)[split]]
IDS = [row["id"] for _, _, row in ROWS]


def test_files_of_tasks_carry_the_canary_of_suites_and_no_task_shows_it():
    for name in DOMAINS:
        text = json.loads((Path(recorded.__file__).parent / f"{name}_tasks.json").read_text(encoding="utf-8"))["canary"]
        assert text.endswith(CANARY.rpartition(" ")[2]) and "never train" in text
        assert "canary" not in str(builtin_rows(name))
    assert not [*Path(agent_envs.__file__).parent.rglob("*_tasks.json*")], "a file of tasks ships: give it the canary"


def test_splits_are_disjoint_and_of_four_tasks():
    assert len(set(IDS)) == len(IDS) == 36
    for name in DOMAINS:
        rows = builtin_rows(name)
        assert [len(rows[split]) for split in SPLITS] == [4, 4, 4]
        told = {split: str([row["user_scenario"] for row in rows[split]]) for split in SPLITS}
        assert len({text for text in told.values()}) == 3
        people = [
            {row["user_scenario"]["instructions"]["known_info"].split(",")[0].split(" with")[0] for row in rows[split]}
            for split in SPLITS
        ]
        assert not people[0] & people[1] and not people[1] & people[2] and not people[0] & people[2]


@pytest.mark.parametrize("compat", ["tau2-1.0.1", "fixed"])
@pytest.mark.parametrize(("name", "split", "row"), ROWS, ids=IDS)
def test_a_recorded_dialogue_solves_its_task_without_an_error(name, split, row, compat):
    domain = builtin_domain(name, compat)
    rules, task = Rules(domain), read_task(row, name)
    talk = opened(rules, initial_world(domain, task))
    for line in recording_of(row["recording"]):
        assert talk.turn == line.sender and not talk.ended
        assert not (line.text and line.calls)
        talk = spoke(rules, talk, line.text, line.calls)
    assert talk.ended == "user_stop" and talk.errors == 0
    assert any(stop in talk.lines[-1].text for stop in USER_STOPS)
    score = evaluate(domain, task, talk.lines, talk.ended)
    assert score.reward == 1.0 and score.undecided == ()


@each_row(("name", "split", "row"), ROWS)
def test_doing_nothing_earns_nothing(name, split, row):
    domain, task = builtin_domain(name), read_task(row, name)
    lines = (Line("assistant", "Hello! Goodbye!"), Line("user", "###STOP###"))
    assert evaluate(domain, task, lines, "user_stop").reward == 0.0


@each_row(("name", "split", "row"), ROWS)
def test_expected_actions_succeed_and_each_write_is_needed(name, split, row):
    domain, task = builtin_domain(name), read_task(row, name)
    state = initial_world(domain, task)
    for action in task.criteria.actions:
        outcome, state = call(domain, state, action.requestor, action.name, expected_arguments(action.arguments))
        assert not outcome.error, outcome.content
    assert state != initial_world(domain, task)


@pytest.mark.parametrize("name", DOMAINS)
def test_null_and_solver(name):
    env = gym.make(f"agent_envs/Tau2{name.title()}-v0", tasks="builtin", user="replay")
    for split in SPLITS:
        for task in range(4):
            assert agent_envs.run_episode(env, CompanionPolicy("solver"), task=task, split=split).success
    result = agent_envs.run_episode(env, NullPolicy(), task=0, split="test")
    assert result.trajectory.total_reward == 0.0 and result.trajectory.last.truncated


@pytest.mark.parametrize("name", DOMAINS)
def test_chatter_earns_nothing_although_the_replayed_user_does_its_part(name):
    env = gym.make(f"agent_envs/Tau2{name.title()}-v0", tasks="builtin", user="replay")
    for split in SPLITS:
        for task in range(4):
            env.reset(seed=0, options={"task": task, "split": split})
            over = False
            while not over:
                _, reward, terminated, truncated, _ = env.step("I see. Please go on.")
                over = terminated or truncated
            assert terminated and reward == 0.0


def test_sources_give_tasks_by_index_and_id():
    source = BuiltinSource("telecom")
    assert source.splits == SPLITS
    task = source.get("test", 2)
    assert task.id == "telecom-test-bill" and source.get("test", task.id) == task
    assert "evaluation_criteria" not in task.data and task.hidden["reward_basis"] == ("ENV_ASSERTION", "ACTION")
    with pytest.raises(KeyError):
        source.get("train", task.id)


def test_domains_are_read_once_and_share_databases_between_switches():
    assert builtin_domain("retail") is builtin_domain("retail")
    assert builtin_domain("retail").agent_database is builtin_domain("retail", "fixed").agent_database
    assert builtin_domain("telecom").user_database is builtin_domain("telecom", "fixed").user_database
