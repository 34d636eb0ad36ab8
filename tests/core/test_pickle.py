"""Environments, their wrappers and dual control are pickled, and go on elsewhere: in a process with another hash seed."""

import json
import os
import pickle
import random
import subprocess
import sys

import gymnasium as gym
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics

import agent_envs
from agent_envs import UsageError
from agent_envs.base.serialization import digest
from agent_envs.checker.env_under_test import EnvUnderTest, step_digest
from agent_envs.core.registry import companion
from agent_envs.envs.expa import DiscreteActions
from agent_envs.tau2 import dual_control
from agent_envs.wrappers import ForcedAnswer, Memory, TurnLimit, VerbalFeedback
from tests import ROOT
from tests.needs import needs
from tests.toy import ID

ELSEWHERE = "from tests.core.test_pickle import unpickle_and_go_on; unpickle_and_go_on()"
PROGRAMS = ["<python>kept = 41</python>", "<python>print(kept + 1)</python>"]


def wrapped(env):
    """Put every wrapper that fits around an environment."""
    if env.unwrapped.answer_tags[0]:
        env = ForcedAnswer(env, free_turns=6)
    env = RecordEpisodeStatistics(Memory(TurnLimit(env, turns=6), turns=2))
    return VerbalFeedback(env, epsilon=0.5) if companion(env, "feedback") else env


def going_on(env, actions):
    """Return the digest of every step."""
    digests = []
    for action in actions:
        if isinstance(env, gym.Env):
            result = env.step(action)
            result[-1].pop("episode", None)  # gymnasium's statistics hold the time that was taken
            if not isinstance(result[0], str):
                result = (result[0].tolist(), *result[1:])
            digests.append(step_digest(result))
        else:
            env.step(action)
            digests.append(digest([env.last(), env.agent_selection, env.infos]))
    return digests


def unpickle_and_go_on():
    """Read (pickle, actions) rows from standard input, and write what comes of each."""
    rows = pickle.load(sys.stdin.buffer)
    print(json.dumps([going_on(pickle.loads(data), actions) for data, actions in rows]))


def elsewhere(rows):
    ran = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], input=pickle.dumps(rows), capture_output=True, cwd=ROOT, check=False,
        env={**os.environ, "PYTHONHASHSEED": "4242"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr.decode()
    return json.loads(ran.stdout)


def recorded(env_id):
    """Return a wrapped environment before its first reset, and the actions of an episode of up to six turns."""
    subject = EnvUnderTest.of(env_id, {}, tasks=1, hostile=1, split=None)
    env, rng, actions = gym.make(env_id), random.Random("pickle"), []
    env.reset(seed=1)
    while len(actions) < 6:
        env, action, (_, _, terminated, truncated, _) = subject.lasting_step(env, rng)
        actions.append(action)
        if terminated or truncated:
            break
    return wrapped(gym.make(env_id, max_episode_steps=20)), actions


@needs("[envs]")
def test_every_id_goes_on_under_its_wrappers_in_another_process():
    rows, futures = [], []
    for env_id in agent_envs.env_ids():
        env, actions = recorded(env_id)
        env = pickle.loads(pickle.dumps(env))  # before its first reset
        env.reset(seed=1)
        middle = min(3, len(actions) - 1)
        going_on(env, actions[:middle])
        rows.append((pickle.dumps(env), actions[middle:]))
        futures.append(going_on(env, actions[middle:]))
        if not env.unwrapped.answer_tags[0]:
            with pytest.raises(UsageError, match="the episode is over"):
                pickle.loads(pickle.dumps(env)).step(actions[0])
    assert elsewhere(rows) == futures


@needs("[envs]")
def test_a_tool_session_a_numeric_view_and_dual_control_go_on():
    tools = gym.make("agent_envs/ToolReasoning-v0")
    tools.reset(seed=0)
    tools.step(PROGRAMS[0])
    numbers = DiscreteActions(gym.make("agent_envs/SortExpA-v0"))
    numbers.reset(seed=0)
    legal = [int(action) for action in numbers.action_masks().nonzero()[0][1:3]]
    envs = [(tools, PROGRAMS[1:]), (numbers, legal)]
    for name in ("retail", "airline", "telecom"):
        fresh = dual_control(name, render_mode="ansi")
        env = pickle.loads(pickle.dumps(fresh))
        env.reset(seed=0)
        for _ in range(3):
            env.step("Hello, I would like some help.")
        envs.append((env, ["Well.", "Well?"]))
    rows = [(pickle.dumps(env), actions) for env, actions in envs]
    assert elsewhere(rows) == [going_on(env, actions) for env, actions in envs]
    assert "42" in tools.unwrapped.episode.turns[-1].observation[0].content
    assert pickle.loads(rows[2][0]).render() in envs[2][0].render()


def test_a_pickle_is_small_and_holds_no_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")
    env = VerbalFeedback(gym.make("agent_envs/SearchQA-v0"), feedback="openai:tiny@http://127.0.0.1:1")
    data = pickle.dumps(env)
    assert len(data) < 10_000 and b"sk-of-nobody" not in data
    assert pickle.loads(data).label == env.label


def test_data_that_differs_is_told():
    env = gym.make(ID)
    env.reset(seed=0)
    env.unwrapped._digest = "of other data"
    data = pickle.dumps(env)
    with pytest.raises(UsageError, match=f"{ID}: its data here is not what it was pickled with"):
        pickle.loads(data)
