"""A model that is paid for is asked once for a turn, whatever fails around it and however often the run begins again."""

import json
import subprocess
import sys
from collections import Counter

import gymnasium as gym
import pytest

from agent_envs.core.env import spec_json
from agent_envs.rollout.chat_policy import ChatPolicy
from agent_envs.rollout.episode_runner import Planned
from agent_envs.rollout.run_many import RunLog, run_many
from agent_envs.services import recording
from agent_envs.services.chat.model import ChatReply, ScriptedChat
from agent_envs.services.recording import Recording
from tests.servers import FaultServer
from tests.services.chat.local import LocalServer

LAW = [
    "<keyword>fee</keyword>",
    "<keyword>licence</keyword>",
    "<keyword>term</keyword>",
    "<answer>12 [sources: x]</answer>",
]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(recording, "FIRST_PAUSE_SECONDS", 0.0)


class Agent:
    """A chat model with a script that counts its calls by the turn."""

    def __init__(self, lines):
        self.calls, self._lines = Counter(), lines

    def policy(self):
        def speak(request):
            turn = sum(message["role"] == "assistant" for message in request.messages)
            self.calls[turn] += 1
            return ChatReply(self._lines[min(turn, len(self._lines) - 1)], usage={"calls": 1, "input": 9, "output": 1})

        return ChatPolicy(ScriptedChat(speak))


def failing(times, say="YES"):
    """A service that answers 500 so many times, then this."""
    server, left = LocalServer(say), iter(range(times))
    return lambda *request: (500, {}, b"{}") if next(left, None) is not None else server(*request)


def play(tmp_path, agent, env_id, **arguments):
    """Play one planned episode as a run does, with journal and recording, and return its result."""
    plan = [Planned("k", spec_json(gym.make(env_id, **arguments)), 0, "test", 0)]
    with Recording(tmp_path / "externals.jsonl", "record") as services:
        log = RunLog(tmp_path / "journal.jsonl", recording=services)
        [(_, result)] = run_many(plan, agent.policy(), journal=log, pause_seconds=0.0)
    return result


@pytest.mark.parametrize("fails", [0, 5, 10])
def test_a_judge_that_fails_costs_the_agent_no_call(tmp_path, fails):
    agent = Agent(LAW)
    with FaultServer(failing(fails)) as judge:
        result = play(tmp_path, agent, "agent_envs/LegalSearch-v0", judge=f"openai:m@{judge.url}")
    assert (result.status, len(result.attempts)) == ("terminated", fails // 5)
    assert agent.calls == {0: 1, 1: 1, 2: 1, 3: 1} and result.usage["calls"] == 4 and result.usage["input"] == 36
    assert [turn.action for turn in result.trajectory.turns] == LAW
    assert not (tmp_path / "journal-replies.jsonl").exists()


def test_a_run_goes_on_at_the_turn_whose_judge_failed_for_good(tmp_path):
    agent = Agent(LAW)
    with FaultServer(failing(30)) as judge:
        place = {"judge": f"openai:m@{judge.url}"}
        first, second = (play(tmp_path, agent, "agent_envs/LegalSearch-v0", **place) for _ in range(2))
        assert (first.status, second.status) == ("fault", "fault") and agent.calls.total() == 4
        assert first.usage["calls"] == 4 and not second.usage.get("calls")  # the journal counts each of them once
        third = play(tmp_path, agent, "agent_envs/LegalSearch-v0", **place)
    assert third.status == "terminated" and agent.calls.total() == 4 and len(judge.requests) == 31


def test_a_simulated_user_that_fails_costs_neither_side_an_earlier_call(tmp_path):
    agent, lines = Agent(["Hello, what can I do?", "I see.", "And then?", "Good bye."]), iter(range(9))
    user = LocalServer()
    user.say = lambda body: f"Line {next(lines)}"
    calls = iter(range(99))
    with FaultServer(lambda *request: (500, {}, b"{}") if next(calls) in range(3, 8) else user(*request)) as server:
        result = play(tmp_path, agent, "agent_envs/Tau2Retail-v0", user=f"openai:m@{server.url}", max_agent_turns=4)
    assert result.status == "truncated" and len(result.attempts) == 1
    assert max(agent.calls.values()) == 1 and agent.calls.total() == len(result.trajectory.turns) == 4
    spoken = [
        message.content for turn in result.trajectory.turns for message in turn.observation if message.role == "user"
    ]
    assert spoken[:3] == ["Line 1", "Line 2", "Line 3"]


def test_a_call_that_fails_is_the_only_one_that_is_made_again(tmp_path):
    bodies = []

    def handler(path, headers, body):
        bodies.append(len(json.loads(body)["messages"]))
        if len(bodies) in range(3, 8):
            return 500, {}, b"{}"
        return LocalServer("<search>who</search>" if len(bodies) < 9 else "<answer>x</answer>")(path, headers, body)

    from agent_envs.services.chat.openai import OpenAIChat

    with FaultServer(handler) as server:
        plan = [Planned("k", spec_json(gym.make("agent_envs/SearchQA-v0")), 0, "test", 0)]
        [(_, result)] = run_many(plan, ChatPolicy(OpenAIChat("m", server.url)), pause_seconds=0.0)
    assert (result.status, len(result.attempts)) == ("terminated", 1)
    assert len(set(bodies)) == len(result.trajectory.turns) and bodies == sorted(bodies)


KILLED = """
import os, sys
from pathlib import Path
from tests.rollout.test_reply_log import LAW, Agent, play

class Dying(Agent):
    def policy(self):
        policy = super().policy()
        act = policy.act
        def last(requests):
            if requests[0].turn == 3:
                os._exit(9)
            return act(requests)
        policy.act = last
        return policy

play(Path(sys.argv[1]), Dying(LAW), "agent_envs/LegalSearch-v0")
"""


def test_what_was_paid_before_a_kill_is_not_paid_again(tmp_path):
    assert subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False).returncode == 9
    agent = Agent(LAW)
    result = play(tmp_path, agent, "agent_envs/LegalSearch-v0")
    assert agent.calls == {2: 1, 3: 1} and result.usage["calls"] == 4  # those of the killed part among them
    assert [turn.action for turn in result.trajectory.turns] == LAW


def test_another_context_is_asked_about_anew(tmp_path):
    """A world that is not what it was, here another task under the key: no reply is given to what it was not given to."""
    agent = Agent(LAW)
    with FaultServer(failing(99)) as judge:
        play(tmp_path, agent, "agent_envs/LegalSearch-v0", judge=f"openai:m@{judge.url}")
    (tmp_path / "journal.jsonl").unlink()
    plan = [Planned("k", spec_json(gym.make("agent_envs/LegalSearch-v0")), 1, "test", 0)]
    list(run_many(plan, agent.policy(), journal=tmp_path / "journal.jsonl"))
    assert agent.calls == {0: 2, 1: 2, 2: 2, 3: 2}
