"""A policy without a free turn finds the top passages for the question in its prompt, and replays keep them."""

import gymnasium as gym
import pytest

from agent_envs import (
    EnvFault,
    Message,
    Trajectory,
    UsageError,
    fork,
    register_companions,
    replay,
    restore,
    run_episode,
    snapshot,
)
from agent_envs.core.snapshot import Snapshot
from agent_envs.rollout.policy import NullPolicy
from agent_envs.wrappers import ForcedAnswer, Memory, TurnLimit
from tests.toy import ID, Guess

SEARCH = "agent_envs/SearchQA-v0"


def gold(core):
    return core.episode.task.gold[0]


def searching(wrap=lambda env: ForcedAnswer(env, free_turns=0), **arguments):
    env = wrap(gym.make(SEARCH, **arguments))
    observation, info = env.reset(seed=0, options={"task": 3, "split": "test"})
    return env, observation, info


@pytest.mark.parametrize("arguments", [{}, {"observation_format": "skyrl_json", "top_k": 5}, {"retriever": "random"}])
def test_without_a_free_turn_the_top_passages_for_the_question_are_shown_as_a_search_shows_them(arguments):
    env, observation, info = searching(**arguments)
    plain, before, bare = searching(lambda env: env, **arguments)
    question = plain.unwrapped.episode.task.question
    found = plain.step(f"<search>{question}</search>")[0]
    assert info["messages"] == [*bare["messages"], {"role": "user", "content": found}]
    assert observation == f"{before}\n\n{found}"
    assert [message.author for message in env.unwrapped.episode.prompt] == ["environment", "tool"]
    assert (info["turns_left"], info["prefill"], info["tools"], info["turn"]) == (1, "<answer>", [], 0)
    assert env.unwrapped.episode.state.searches == 0 and env.unwrapped.episode.turns == ()
    _, reward, terminated, _, end = env.step(env.unwrapped.episode.task.gold[0])
    assert (reward, terminated, end["success"]) == (1.0, True, True)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: ForcedAnswer(env, free_turns=1),
        lambda env: TurnLimit(env, turns=1),
        lambda env: ForcedAnswer(env, free_turns=50),
    ],
)
def test_with_a_free_turn_nothing_is_looked_up(wrap):
    assert len(searching(wrap)[2]["messages"]) == 1


def test_where_the_environment_has_one_turn_only_the_passages_are_shown_too():
    assert len(searching(lambda env: ForcedAnswer(env, free_turns=3), max_generations=1)[2]["messages"]) == 2


@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: ForcedAnswer(env, 0),
        lambda env: Memory(ForcedAnswer(env, 0)),
        lambda env: ForcedAnswer(Memory(env), 0),
    ],
)
def test_what_was_looked_up_is_recorded_replayed_and_travels_in_snapshots(wrap):
    env = wrap(gym.make(SEARCH))
    result = run_episode(env, NullPolicy(), seed=0, task=3, split="test")
    shown = result.trajectory.prompt
    assert len(shown) == 2 and shown[1].author == "tool" and "<information>" in shown[1].content
    again = Trajectory.from_json(result.trajectory.to_json())
    assert replay(wrap(gym.make(SEARCH)), again).prompt == shown
    env, _, _ = searching(wrap)
    data = snapshot(env).to_bytes()
    twin, fresh = fork(env), wrap(gym.make(SEARCH))
    restore(fresh, Snapshot.from_bytes(data))
    assert fresh.unwrapped.episode.prompt == env.unwrapped.episode.prompt == shown
    assert env.step("x") == twin.step("x") == fresh.step("x")


def test_an_environment_without_a_first_look_shows_the_question_alone():
    env = ForcedAnswer(gym.make(ID), free_turns=0)
    _, info = env.reset(seed=0)
    assert len(info["messages"]) == 2 and len(env.unwrapped.episode.prompt) == 2


class Looking(Guess):
    """Guess with a first look that a service gives, and that may fail."""

    fails = False


def look(env):
    assert isinstance(env, Looking) and env.episode.turns == ()
    if env.fails:
        raise EnvFault("the service is away")
    return (Message("user", f"near {env.episode.task.gold[0]}", "tool"),)


register_companions(Looking, first_look=look)


def test_a_first_look_that_fails_leaves_no_episode_to_go_on_with():
    core = Looking()
    env = ForcedAnswer(core, free_turns=0)
    _, info = env.reset(seed=0)
    assert info["messages"][-1]["content"] == f"near {gold(core)}"
    core.fails = True
    with pytest.raises(EnvFault):
        env.reset(seed=0)
    with pytest.raises(UsageError, match="call reset"):
        env.step("5")
    core.fails = False
    assert len(env.reset(seed=0)[1]["messages"]) == 3 and env.step(gold(core))[2]
