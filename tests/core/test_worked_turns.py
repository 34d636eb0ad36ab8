"""Prompts with worked turns: chat messages before the task, which no reward, turn or memory takes for the policy's own."""

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.core.registry import TABLE
from agent_envs.wrappers.memory import Memory
from tests.needs import needs_of_row

ROWS = [pytest.param(row, id=row.name, marks=needs_of_row(row)) for row in TABLE]


def opened(row, **arguments):
    env = gym.make(row.id, **arguments)
    return env, env.reset(seed=4)[1]["messages"]


@pytest.mark.parametrize("row", ROWS)
def test_worked_turns_stand_between_the_instructions_and_the_task(row):
    plain, own = opened(row)
    _, same = opened(row, examples=0)
    assert same == own
    for count in (1, 2):
        env, messages = opened(row, examples=count)
        instructions = [message for message in own if message["role"] == "system"]
        rest = own[len(instructions) :]
        assert messages[: len(instructions)] == instructions
        boundary = len(messages) - len(rest) - 1
        assert messages[boundary]["content"].startswith("The example ends here, and your task begins.")
        assert messages[boundary + 1 : -1] == rest[:-1]
        assert messages[-1]["content"].startswith(rest[-1]["content"])
        worked = messages[len(instructions) : boundary]
        assert sum(message["role"] == "assistant" for message in worked) == count
        assert all(message.author != "policy" for message in env.unwrapped.episode.prompt)
        assert env.unwrapped.episode.turns == () and env.unwrapped.trajectory.turns == ()
        assert env.unwrapped.spec_digest != plain.unwrapped.spec_digest
        question = env.unwrapped.episode.task.question
        assert not question or not any(question in message["content"] for message in worked)


@pytest.mark.parametrize("row", ROWS)
def test_an_episode_goes_as_without_examples(row):
    plain, _ = opened(row)
    env, _ = opened(row, examples=1)
    for action in agent_envs.solve(plain)[:6]:
        (*one, info), (*other, other_info) = plain.step(action), env.step(action)
        assert one == other and info["reward_terms"] == other_info["reward_terms"]
    twin = agent_envs.fork(env)
    assert twin.unwrapped.episode == env.unwrapped.episode


@pytest.mark.parametrize("name", ["BabyAI", "SearchQA"])
def test_memory_keeps_them(name):
    row = next(row for row in TABLE if row.name == name)
    env = Memory(gym.make(row.id, examples=2), turns=0)
    messages = env.reset(seed=4)[1]["messages"]
    boundary = next(place for place, message in enumerate(messages) if "example ends here" in message["content"])
    for action in agent_envs.solve(env)[:2]:
        *_, terminated, truncated, info = env.step(action)
        assert info["messages"][: boundary + 1] == messages[: boundary + 1]
        if name == "BabyAI":
            assert len(info["messages"]) == boundary + 2, "the first observation is forgotten like any other"


def test_examples_are_none_one_or_two():
    with pytest.raises(agent_envs.UsageError, match="examples=3"):
        gym.make("agent_envs/Sort-v0", examples=3)
