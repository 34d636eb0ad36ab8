"""A bounded memory: what stands in the context after each turn."""

import gymnasium as gym
import pytest

from agent_envs import UsageError, replay, run_episode
from agent_envs.policies import Reply
from agent_envs.trajectory import Trajectory, segments
from agent_envs.wrappers import Memory
from tests.toy import ID

OPENING = ["system: Guess the number.", "user: I think of a whole number from 1 to 100. Which?"]


def context(info):
    return [f"{row['role']}: {row['content']}" for row in info["messages"]]


def contexts(turns, steps=4):
    env = Memory(gym.make(ID), turns=turns)
    _, info = env.reset(seed=0)
    shown = [context(info)]
    for step in range(1, steps + 1):
        observation, *_, info = env.step(f"thought {step} <compare>{step}xx</compare>")
        assert observation == "no number" and info["context"] == "replace"
        shown.append(context(info))
    return shown


def said(*steps):
    return [f"assistant: thought {step} <compare>{step}xx</compare>" for step in steps]


NEWS = "user: no number"


def test_without_past_turns_only_the_news_is_added():
    assert contexts(0) == [OPENING] + [[*OPENING, NEWS]] * 4


def test_one_past_turn():
    expected = [OPENING, [*OPENING, *said(1), NEWS]]
    expected += [[*OPENING, NEWS, *said(step), NEWS] for step in (2, 3, 4)]
    assert contexts(1) == expected


def test_two_past_turns():
    expected = [OPENING, [*OPENING, *said(1), NEWS], [*OPENING, *said(1), NEWS, *said(2), NEWS]]
    expected += [[*OPENING, NEWS, *said(step - 1), NEWS, *said(step), NEWS] for step in (3, 4)]
    assert contexts(2) == expected


def test_a_memory_longer_than_the_episode_is_the_whole_conversation():
    shown = contexts(99)[-1]
    assert shown == [*OPENING, *said(1), NEWS, *said(2), NEWS, *said(3), NEWS, *said(4), NEWS]


def test_the_turn_as_parsed_is_remembered():
    env = Memory(gym.make(ID), turns=1)
    env.reset(seed=0)
    *_, info = env.step("\ud800")
    assert context(info)[2] == "assistant: ?"


def test_a_reset_forgets():
    env = Memory(gym.make(ID), turns=3)
    env.reset(seed=0)
    env.step("first")
    _, info = env.reset(seed=0)
    assert context(info) == OPENING and info["context"] == "replace"
    assert context(env.step("second")[4])[2] == "assistant: second"


def test_messages_may_be_spoiled_by_their_reader():
    env = Memory(gym.make(ID), turns=1)
    _, info = env.reset(seed=0)
    info["messages"][0]["content"] = "spoiled"
    *_, info = env.step("x")
    assert context(info)[:2] == OPENING


@pytest.mark.parametrize("turns", [-1, True, 1.0, "1", None])
def test_other_lengths_are_refused(turns):
    with pytest.raises(UsageError, match="Memory: turns="):
        Memory(gym.make(ID), turns=turns)


class Chatty:
    """Thinks, compares twice, answers."""

    name, batch = "chatty", 1

    def __init__(self):
        self.seen = []

    def act(self, requests):
        self.seen.append([f"{row['role']}: {row['content']}" for row in requests[0].messages])
        turn = requests[0].turn
        return [Reply("<answer>1</answer>" if turn == 3 else f"thought {turn} <compare>{turn}xx</compare>")]


def test_a_policy_sees_the_replaced_context_and_the_record_replays():
    policy = Chatty()
    env = Memory(gym.make(ID), turns=1)
    result = run_episode(env, policy, seed=0)
    assert policy.seen == contexts(1)[:3]
    assert [turn.context for turn in result.trajectory.turns] == ["replace"] * 3
    authors = [message.author for message in result.trajectory.turns[1].observation]
    assert authors[3] == "policy" and authors[4] == "tool"
    stored = Trajectory.from_json(result.trajectory.to_json())
    assert replay(Memory(gym.make(ID), turns=1), stored).turns == stored.turns
    assert len(list(segments(stored))) == 3


def test_older_tool_text_keeps_its_author_in_the_record():
    result = run_episode(Memory(gym.make(ID), turns=2), Chatty(), seed=0)
    shown = result.trajectory.turns[1].observation
    assert [(message.role, message.author) for message in shown if message.author == "tool"] == [("user", "tool")] * 2
