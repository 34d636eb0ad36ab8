"""Verbal feedback with other wrappers around it or within: memory, limits, forced answers, and somebody else's."""

import gymnasium as gym
import pytest

from agent_envs import EnvFault, UsageError, replay, run_episode
from agent_envs.core.trajectory import Trajectory
from agent_envs.wrappers import ForcedAnswer, Memory, TurnLimit, VerbalFeedback
from tests.wrappers.advised import COMPARE, ID, Spy
from tests.wrappers.test_feedback import OPENING, Says, context

NEWS = "user: no number"
NOTE = "<compare>xx</compare>"


def contexts(wrap, steps=3):
    spy = Spy()
    env = wrap(gym.make(ID), spy)
    _, info = env.reset(seed=0)
    found = [context(info)]
    for _ in range(steps):
        info = env.step(NOTE)[4]
        assert info["context"] == "replace"
        found.append(context(info))
    return found, spy


def test_memory_in_either_order_keeps_feedback_as_long_as_the_observation_that_it_stands_behind():
    within, near = contexts(lambda env, spy: VerbalFeedback(Memory(env, turns=1), feedback=spy))
    around, far = contexts(lambda env, spy: Memory(VerbalFeedback(env, feedback=spy), turns=1))
    said, told = f"assistant: {NOTE}", [f"user: Feedback: Advice {number}." for number in range(1, 5)]
    assert within == around
    assert within[0] == [*OPENING, told[0]]
    assert within[1] == [*OPENING, told[0], said, NEWS, told[1]]
    assert within[2] == [*OPENING, NEWS, told[1], said, NEWS, told[2]]
    assert within[3] == [*OPENING, NEWS, told[2], said, NEWS, told[3]]
    # Outermost, it is asked on the context that the policy has; within, on all that was said.
    last = [spy.asked[-1].messages[-1]["content"] for spy in (near, far)]
    assert last[0].count("Advice") == 1 and last[1].count("Advice") == 3


def test_a_memory_without_past_turns_shows_the_newest_feedback_alone():
    found, _ = contexts(lambda env, spy: VerbalFeedback(Memory(env, turns=0), feedback=spy))
    assert found[2] == [*OPENING, NEWS, "user: Feedback: Advice 3."]


def test_episodes_with_memory_replay_from_their_record():
    wrap = [lambda env: VerbalFeedback(Memory(env, turns=1)), lambda env: Memory(VerbalFeedback(env), turns=1)]
    for one in wrap:
        found = run_episode(one(gym.make(ID, turns=4)), Says(NOTE), seed=2, task=2).trajectory
        authors = [message.author for message in found.turns[1].observation]
        assert authors.count("feedback") == 2
        assert replay(one(gym.make(ID, turns=4)), Trajectory.from_json(found.to_json())).turns == found.turns


@pytest.mark.parametrize("limit", [lambda env: TurnLimit(env, turns=2), lambda env: ForcedAnswer(env, free_turns=1)])
def test_limits_in_either_order_end_without_feedback(limit):
    spies = Spy(), Spy()
    inside = VerbalFeedback(limit(gym.make(ID)), feedback=spies[0])
    outside = limit(VerbalFeedback(gym.make(ID), feedback=spies[1]))
    for env, spy in ((inside, spies[0]), (outside, spies[1])):
        _, info = env.reset(seed=0)
        infos = [info, env.step(NOTE)[4]]
        observation, _, terminated, truncated, info = env.step(NOTE)
        assert (terminated or truncated) and len(spy.asked) == 2 and "Advice" not in observation
        assert [info["prefill"] for info in infos] == ["", "<answer>" if "ForcedAnswer" in str(env) else ""]


def test_a_forced_answer_is_told_to_the_feedback_model_where_it_stands_outside():
    spy = Spy()
    env = VerbalFeedback(ForcedAnswer(gym.make(ID), free_turns=1), feedback=spy)
    env.reset(seed=0)
    env.step(NOTE)
    assert ["begin with" in request.messages[-1]["content"] for request in spy.asked] == [False, True]


def test_no_tools_are_named_before_a_forced_answer():
    """In the turn of a forced answer the policy is offered none."""
    for free in (0, 1):
        spy = Spy()
        env = VerbalFeedback(ForcedAnswer(gym.make(ID, offer_tools=True), free_turns=free), feedback=spy)
        env.reset(seed=0)
        if free:
            env.step(COMPARE)
        named = ["Tools of the assistant" in request.messages[0]["content"] for request in spy.asked]
        assert named == [True] * free + [False]


class Foreign(gym.Wrapper):
    """Somebody else's wrapper, which nothing here can put back."""


def test_a_fault_behind_a_wrapper_of_somebody_elses_ends_the_episode():
    down = []

    def say(request, number):
        if down:
            raise EnvFault("down", retryable=False)
        return f"Advice {number}."

    spy = Spy(say)
    env = VerbalFeedback(Foreign(gym.make(ID)), feedback=spy)
    env.reset(seed=0)
    env.step(COMPARE)
    down.append(True)
    with pytest.raises(EnvFault, match="down"):
        env.step(COMPARE)
    down.clear()
    assert env.usage == {"feedback_calls": 2, "feedback_input": 2000, "feedback_output": 200}
    with pytest.raises(UsageError, match=r"or one that failing feedback ended; call reset\(\) first"):
        env.step(COMPARE)
    env.reset(seed=1)
    env.step(COMPARE)
    assert len(env.unwrapped.episode.turns) == 1
    assert spy.asked[-1].messages[-1]["content"].count('"from":"assistant"') == 1
