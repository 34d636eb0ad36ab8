"""Prompts with worked turns: chat messages before the task, which no reward, turn or memory takes for the policy's own."""

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.core.worked_turns import FIRST
from agent_envs.wrappers.memory import Memory
from tests.needs import needs

IDS = agent_envs.env_ids()


def opened(env_id, **arguments):
    env = gym.make(env_id, **arguments)
    return env, env.reset(seed=4)[1]["messages"]


@pytest.mark.parametrize("env_id", IDS)
def test_worked_turns_stand_between_the_instructions_and_the_task(env_id):
    plain, own = opened(env_id)
    _, same = opened(env_id, examples=0)
    assert same == own
    for count in (1, 2):
        env, messages = opened(env_id, examples=count)
        instructions = [message for message in own if message["role"] == "system"]
        rest = own[len(instructions) :]
        assert messages[: len(instructions)] == instructions
        boundary = len(messages) - len(rest) - 1
        assert messages[boundary]["content"].startswith("The example ends here, and your task begins.")
        assert messages[boundary + 1 : -1] == rest[:-1]
        assert messages[-1]["content"].startswith(rest[-1]["content"])
        worked = messages[len(instructions) : boundary]
        assert len({message["content"] for message in worked if message["role"] == "assistant"}) == count, "all differ"
        assert all(message.author != "policy" for message in env.unwrapped.episode.prompt)
        assert env.unwrapped.episode.turns == () and env.unwrapped.trajectory.turns == ()
        assert env.unwrapped.spec_digest != plain.unwrapped.spec_digest
        if "Sort" not in env_id and "Order" not in env_id:  # whose questions are all the same: the numbers are hidden
            assert rest[-1]["content"] not in [message["content"] for message in worked], "the task is no example"
        source = plain.unwrapped.source
        assert all(source.size(split) < FIRST for split in source.splits), "the examples are in no split"


@pytest.mark.parametrize("env_id", IDS)
def test_an_episode_goes_as_without_examples(env_id):
    plain, _ = opened(env_id)
    env, _ = opened(env_id, examples=1)
    for action in agent_envs.solve(plain)[:6]:
        (*one, info), (*other, other_info) = plain.step(action), env.step(action)
        assert one == other and info["reward_terms"] == other_info["reward_terms"]
    twin = agent_envs.fork(env)
    assert twin.unwrapped.episode == env.unwrapped.episode


@pytest.mark.parametrize(("name", "count", "most"), [("Crafter", 1, 0), ("Crafter", 2, 0), ("Order", 2, 4)])
def test_a_copy_of_the_first_is_seldom_right(name, count, most):
    env, messages = opened(f"agent_envs/{name}-v0", examples=count)
    first = next(message["content"] for message in messages if message["role"] == "assistant")
    tasks = [{"task": task, "split": "dev"} for task in range(12)]
    assert sum(agent_envs.solve(env)[0] == first for task in tasks if env.reset(options=task)) <= most


@pytest.mark.parametrize("name", ["Arithmetic", "Countdown", "GSM8KScaled", "Sort", "ToolReasoning"])
def test_no_words_stand_before_their_tags(name):
    _, messages = opened(f"agent_envs/{name}-v0", examples=2)
    assert all(message["content"][0] in "<#" for message in messages if message["role"] == "assistant")


@needs("[sandbox]")
@pytest.mark.parametrize("count", [1, 2])
def test_a_worked_program_is_no_longer_than_small_replies(count):
    _, messages = opened("agent_envs/ToolReasoning-v0", examples=count)
    program, *answers = [message["content"] for message in messages if message["role"] == "assistant"]
    # 46 tokens of SmolLM2's tokenizer; with 51 its copies were cut at 48.
    assert "<python>" in program and len(program) < 107 and all("\\boxed" in answer for answer in answers)


@pytest.mark.parametrize("env_id", ["agent_envs/BabyAI-v0", "agent_envs/SearchQA-v0"])
def test_memory_keeps_them(env_id):
    env = Memory(gym.make(env_id, examples=2), turns=0)
    messages = env.reset(seed=4)[1]["messages"]
    boundary = next(place for place, message in enumerate(messages) if "example ends here" in message["content"])
    for action in agent_envs.solve(env)[:2]:
        *_, terminated, truncated, info = env.step(action)
        assert info["messages"][: boundary + 1] == messages[: boundary + 1]
        if "BabyAI" in env_id:
            assert len(info["messages"]) == boundary + 2, "the first observation is forgotten like any other"


def test_examples_are_none_one_or_two():
    with pytest.raises(agent_envs.UsageError, match="examples=3"):
        gym.make("agent_envs/Sort-v0", examples=3)
