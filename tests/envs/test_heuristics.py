"""Every id has a heuristic without gold that is worth more than random play and no more than the solver."""

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.base.protocol import Answer
from agent_envs.core.env import companion
from agent_envs.core.registry import TABLE
from agent_envs.rollout.policy import CompanionPolicy
from agent_envs.wrappers.turns import ForcedAnswer

TASKS = 12
NEW = [row for row in TABLE if row.family in ("expa", "text_games", "tool_reasoning")]


def played(name, agent, tasks=TASKS, **arguments):
    env = gym.make(f"agent_envs/{name}-v0", **arguments)
    for task in range(tasks):
        yield agent_envs.run_episode(env, CompanionPolicy(agent), seed=task, task=task, split="test").trajectory


def worth(name, agent, **arguments):
    """Return successes and the mean return of an agent."""
    rows = list(played(name, agent, **arguments))
    return sum(bool(row.success) for row in rows), sum(row.total_reward for row in rows) / len(rows)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_every_id_has_a_heuristic(row):
    assert companion(gym.make(row.id), "heuristic") is not None


@pytest.mark.parametrize("row", NEW, ids=lambda row: row.name)
def test_a_heuristic_lies_between_random_play_and_the_solver(row):
    floor, heuristic, solver = (worth(row.name, agent) for agent in ("random", "heuristic", "solver"))
    assert floor[0] < heuristic[0] <= solver[0] == TASKS and floor[1] < heuristic[1] <= solver[1]
    # Crafter's default goal is easy.
    assert heuristic[1] < solver[1] or row.name == "Crafter"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ToolReasoning", {"protocol": "json"}),
        ("CalcBenchExpA", {"decimal_point": False}),  # the number of "=" is another
        ("Order", {"compare_percent": 100}),
        ("OrderExpA", {"compare_percent": 100}),
        ("Crafter", {"goal": "place_table"}),
    ],
)
def test_a_heuristic_knows_the_other_forms_of_an_id(name, arguments):
    assert worth(name, "heuristic", **arguments)[0] > 0


@pytest.mark.parametrize("name", ["Arithmetic", "Sort", "ToolReasoning"])
def test_without_a_turn_to_spare_a_heuristic_answers(name):
    env = ForcedAnswer(gym.make(f"agent_envs/{name}-v0"), free_turns=0)
    result = agent_envs.run_episode(env, CompanionPolicy("heuristic"), seed=0, task=0, split="test")
    (turn,) = result.trajectory.turns
    assert isinstance(turn.parsed, Answer)
