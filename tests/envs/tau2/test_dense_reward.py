"""The fraction of a task's state changes that stand, and the reward that pays for it turn by turn."""

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.envs.tau2.builtin import builtin_domain
from agent_envs.envs.tau2.dialogue import Dialogue
from agent_envs.envs.tau2.scoring import reached, state_changes
from agent_envs.envs.tau2.task_schema import read_task
from agent_envs.envs.tau2.task_states import expected_arguments, initial_world, solved_world
from agent_envs.envs.tau2.toolkit import call
from agent_envs.rollout.episode_runner import run_episode
from tests.envs.tau2.recorded import SPLITS, builtin_rows
from tests.rows import each_row

DOMAINS = ("retail", "airline", "telecom")
ROWS = [(name, row) for name in DOMAINS for split in SPLITS for row in builtin_rows(name)[split]]


def env_of(name, **arguments):
    return gym.make(f"agent_envs/Tau2{name.title()}-v0", tasks="builtin", user="replay", reward="dense", **arguments)


@each_row(("name", "row"), ROWS)
def test_it_is_0_at_the_start_and_1_where_the_expected_actions_lead(name, row):
    domain, task = builtin_domain(name), read_task(row, name)
    start, solved = initial_world(domain, task), solved_world(domain, task)
    assert state_changes(domain, task)
    assert reached(domain, task, Dialogue(world=start)) == 0.0
    assert reached(domain, task, Dialogue(world=solved)) == 1.0
    state, shares = start, []
    for action in task.criteria.actions:
        _, state = call(domain, state, action.requestor, action.name, expected_arguments(action.arguments))
        shares.append(reached(domain, task, Dialogue(world=state)))
    assert shares[-1] == 1.0 and all(0.0 <= share <= 1.0 for share in shares)


def test_each_changed_member_is_one_state_change():
    domain = builtin_domain("retail")
    row = next(row for row in builtin_rows("retail")["test"] if row["id"] == "retail-test-cancel")
    changes = state_changes(domain, read_task(row, "retail"))
    assert {(change.side, change.table) for change in changes} == {("agent", "orders")}
    assert [(change.path, change.new) for change in changes][0] == (("status",), "cancelled") and len(changes) > 1


@pytest.mark.parametrize("name", DOMAINS)
def test_the_turns_of_an_episode_earn_what_it_reached_in_the_end(name):
    env = env_of(name)
    for task in range(4):
        result = run_episode(env, agent_envs.rollout.policy.CompanionPolicy("solver"), task=task, split="test")
        earned = [turn.reward for turn in result.trajectory.turns]
        assert result.success and sum(earned) == pytest.approx(1.0)
        assert sum(share > 0 for share in earned) >= 1 and earned[-1] <= 1.0
        assert [dict(turn.terms).keys() for turn in result.trajectory.turns] == [{"progress"}] * len(earned)


def test_what_is_taken_back_is_paid_back():
    env = env_of("telecom", side="solo")
    env.reset(seed=0, options={"task": "telecom-test-airplane", "split": "test"})
    rewards = [env.step("toggle_airplane_mode()")[1] for _ in range(3)]
    assert rewards[0] > 0 and rewards[1] == -rewards[0] and rewards[2] == rewards[0]


def test_success_stays_official():
    env = env_of("telecom", side="solo")
    env.reset(seed=0, options={"task": "telecom-test-airplane", "split": "test"})
    env.step("toggle_airplane_mode()")
    _, reward, terminated, _, info = env.step("I am through.")
    assert terminated and reward == 0.0 and info["success"] is False
