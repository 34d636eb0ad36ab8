"""Conversations with simulated users through the Gym ids: outcomes, forks, chance, faults, models."""

from dataclasses import replace

import gymnasium as gym
import pytest

import agent_envs
from agent_envs import EnvFault, UsageError, fork, restore, snapshot
from agent_envs.base.jsonl_log import read_journal
from agent_envs.core.env import core_of
from agent_envs.core.snapshot import Snapshot
from agent_envs.envs.tau2.scoring import MARK, metrics
from agent_envs.envs.tau2.users.chat import ChatPartner
from agent_envs.rollout.policy import CompanionPolicy, NullPolicy
from agent_envs.services.chat import ScriptedChat
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services
from benchmarks.tau2_user_checks import episode_faults
from tests.envs.tau2.recorded import SPLITS
from tests.examples import part

IDS = {name: f"agent_envs/Tau2{name.title()}-v0" for name in ("retail", "airline", "telecom")}


def played(env, kind="solver", task=0, split="test"):
    policy = NullPolicy() if kind == "null" else CompanionPolicy(kind)
    return agent_envs.run_episode(env, policy, seed=0, task=task, split=split)


@pytest.mark.parametrize("name", IDS)
def test_recorded_agents_have_the_same_outcome_with_scripted_users(name):
    env = gym.make(IDS[name], tasks="builtin")
    for split in SPLITS:
        for task in range(4):
            assert played(env, task=task, split=split).success, (split, task)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("side", ["agent", "user"])
def test_the_solver_succeeds_on_generated_tasks_and_nobody_does(name, side):
    env = gym.make(IDS[name], side=side)
    for task in range(part(30, 8)):
        assert played(env, task=task).success, task
    assert not any(played(env, "null", task).success for task in range(part(9, 3)))


def test_the_solver_succeeds_alone():
    env = gym.make(IDS["telecom"], side="solo")
    for task in range(part(30, 3)):
        assert played(env, task=task).success, task


@pytest.mark.parametrize("name", IDS)
def test_the_heuristic_stands_between_the_solver_and_nobody(name):
    env = gym.make(IDS[name])
    tasks = part(60, 20)
    solved = sum(bool(played(env, "heuristic", task).success) for task in range(tasks))
    assert 0.2 * tasks <= solved <= 0.9 * tasks


@pytest.mark.data
@pytest.mark.parametrize("name", IDS)
def test_official_gold_has_the_same_outcome_with_scripted_users(name):
    env = gym.make(IDS[name], tasks="official", reward="without_nl", max_errors=20)
    for task in range(env.unwrapped.source.size("base")):
        result = played(env, task=task, split="base")
        assert result.success and not episode_faults(env.unwrapped), task


@pytest.mark.parametrize("name", IDS)
def test_a_fork_in_mid_dialogue_forks_the_user_too(name):
    env = gym.make(IDS[name], persona="forgetful")
    for task in range(4):
        env.reset(seed=0, options={"task": task, "split": "test"})
        words = [
            "Who are you, please?",
            "What exactly can I do for you?",
            "Shall I go ahead?",
            "Is there anything else?",
        ]
        env.step(words[0])
        twin, stored = fork(env), Snapshot.from_bytes(snapshot(env).to_bytes())
        first = [env.step(word)[:4] for word in words[1:]]
        assert [twin.step(word)[:4] for word in words[1:]] == first
        other = gym.make(IDS[name], persona="forgetful")
        other.reset(seed=1)
        restore(other, stored)
        assert [other.step(word)[:4] for word in words[1:]] == first


def test_equal_starts_have_equal_words_and_other_seeds_others():
    env = gym.make(IDS["retail"])
    openings = {}
    for seed in (0, 1, 2, 3, 4):
        for key in ("one", "two", "three"):
            _, info = env.reset(seed=seed, options={"task": 0, "split": "test", "episode_key": key})
            openings.setdefault(seed, set()).add(info["messages"][-1]["content"])
    assert all(len(words) == 1 for words in openings.values()) and len(set.union(*openings.values())) > 1


def test_what_follows_depends_on_the_episodes_key():
    env = gym.make(IDS["retail"])
    answers = {}
    for key in ("one", "one", "two", "three", "four", "five", "six"):
        env.reset(seed=0, options={"task": 0, "split": "test", "episode_key": key})
        words = tuple(env.step(text)[0] for text in ("Who are you?", "Shall I go ahead?", "Hm."))
        assert answers.setdefault(key, words) == words
    assert len(set(answers.values())) > 1


def test_a_persona_changes_the_words_and_not_the_task():
    openings = set()
    for persona in ("plain", "terse", "talkative", {"like": "terse", "patience": 1}):
        env = gym.make(IDS["telecom"], persona=persona)
        openings.add(
            env.reset(seed=0, options={"task": 1, "split": "test", "episode_key": "k"})[1]["messages"][-1]["content"]
        )
        assert played(env, task=1).success
    assert len(openings) >= 3
    with pytest.raises(UsageError, match="patience"):
        gym.make(IDS["telecom"], persona={"patience": -1})


def test_a_model_that_leaves_too_early_fails_the_episode_and_is_told_apart():
    lines = ["Hello, I have a question about my order.", "###STOP###"]
    env = gym.make(IDS["retail"], user=ScriptedChat(lines))
    env.reset(seed=0, options={"task": 0, "split": "test"})
    _, reward, terminated, _, info = env.step("Certainly. May I have your e-mail address, please?")
    assert terminated and reward == 0.0 and info["success"] is False
    assert [kind for kind, _, _ in episode_faults(env.unwrapped)] == ["stopped_early"]


def test_a_failure_of_the_agent_alone_is_not_put_on_the_user():
    env = gym.make(IDS["retail"])
    env.reset(seed=0, options={"task": 0, "split": "test"})
    over = False
    while not over:
        *_, terminated, truncated, info = env.step("I see. All is done. Is there anything else?")
        over = terminated or truncated
    assert info["success"] is False and episode_faults(env.unwrapped) == []


def test_a_model_that_says_nothing_is_a_fault_and_the_turn_may_be_taken_again():
    def script(request):
        asked = [message["content"] for message in request.messages if message["role"] == "user"]
        return "" if "Who are you?" in asked else "Hello, I want to return a lamp."

    env = gym.make(IDS["retail"], user=ScriptedChat(script))
    env.reset(seed=0, options={"task": 0, "split": "test"})
    with pytest.raises(EnvFault, match="no readable message"):
        env.step("Who are you?")
    assert not env.unwrapped.episode.turns
    assert "I want to return a lamp." in env.step("What is it about?")[0]


def test_a_customer_who_leaves_before_the_first_turn_is_asked_again_when_a_run_goes_on(tmp_path):
    for mode, words in (("record", "###STOP###"), ("replay", ""), ("record", "Hello, a lamp."), ("replay", "")):
        env = gym.make(IDS["retail"], user=ScriptedChat(lambda request, words=words: words))
        with Recording(tmp_path / "r.jsonl", mode) as recording:
            core_of(env).services = Services(recording)
            if words == "Hello, a lamp." or len(list(read_journal(tmp_path / "r.jsonl"))) > 2:
                assert "a lamp" in env.reset(seed=0, options={"task": 0, "split": "test"})[0]
                continue
            with pytest.raises(EnvFault, match="over before the first turn") as caught:
                env.reset(seed=0, options={"task": 0, "split": "test"})
        assert caught.value.retryable is (mode == "record")


def test_the_solver_asks_no_live_user(monkeypatch):
    monkeypatch.setitem(ChatPartner.__init__.__kwdefaults__, "wait", lambda seconds: None)  # between attempts
    env = gym.make(IDS["retail"], user="openai:some-model@http://127.0.0.1:9/v1")
    assert env.unwrapped.live_service.startswith("openai:")
    with pytest.raises(EnvFault):
        env.reset(seed=0)


def test_scripted_users_on_official_tasks_are_another_benchmark():
    def played_on(source, **arguments):
        env = gym.make(IDS["retail"], max_agent_turns=1, **arguments)
        task = env.unwrapped.source.get("test", 0)
        env.reset(seed=0, options={"task": replace(task, data={**task.data, "source": source})})
        env.step("Goodbye.")
        return env.unwrapped.trajectory

    marked = played_on("official-retail")
    assert MARK == "scripted user on official tasks: another benchmark"
    assert metrics(marked)[MARK] == 1.0 and MARK in marked.last.results[-1].content
    bare = (played_on("generated-retail"), played_on("official-retail", user=ScriptedChat(["Hello.", "Hello."])))
    for trajectory in bare:
        assert MARK not in metrics(trajectory) and MARK not in trajectory.last.results[-1].content
