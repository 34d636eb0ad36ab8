"""The solver earns what the tools are worth: both are needed."""

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.envs.tool_reasoning.solver import next_action

ID = "agent_envs/ToolReasoning-v0"


def solved(count=50, **arguments):
    """Return how many of the first tasks of each need the solver gets right, with its mean return."""
    env = gym.make(ID, **arguments)
    right = {"python": 0, "search": 0, "both": 0}
    total = 0.0
    for index in range(count):
        env.reset(options={"task": index, "split": "test"})
        over = False
        while not over:
            _, reward, terminated, truncated, info = env.step(next_action(env))
            total, over = total + reward, terminated or truncated
        right[env.unwrapped.episode.task.data.needs] += info["success"]
    return right, total / count


@pytest.mark.parametrize("protocol", ["tags", "json"])
def test_both_tools_solve_everything(protocol):
    right, mean = solved(protocol=protocol)
    assert right == {"python": 20, "search": 10, "both": 20}
    assert mean == pytest.approx(1.0 + 0.1 * 0.4)


def test_one_tool_solves_what_needs_it_alone():
    assert solved(tools=["search", "browse"])[0] == {"python": 0, "search": 10, "both": 0}
    assert solved(tools=["python"])[0] == {"python": 20, "search": 0, "both": 0}
    assert solved(tools=[])[0] == {"python": 0, "search": 0, "both": 0}


def test_a_search_that_does_not_find_is_worth_nothing():
    assert solved(retriever="empty")[0] == {"python": 20, "search": 0, "both": 0}


def test_too_few_turns_or_calls_leave_the_answer_unknown():
    env = gym.make(ID, needs=["both"], max_searches=0)
    env.reset(options={"task": 0, "split": "test"})
    assert next_action(env) == "<think>Nothing more can be found out.</think>\n<answer>\\boxed{unknown}</answer>"
    with pytest.raises(agent_envs.Unsolvable):
        agent_envs.solve(env)
    env = gym.make(ID, needs=["python"], max_generations=1)
    env.reset(options={"task": 0, "split": "test"})
    assert "unknown" in next_action(env)


def test_it_goes_on_from_where_an_episode_stands():
    env = gym.make(ID, needs=["both"], levels=[2])
    env.reset(options={"task": 0, "split": "test"})
    first, *rest = agent_envs.solve(env)
    env.step("hm")
    env.step(first)
    assert agent_envs.solve(env) == rest
