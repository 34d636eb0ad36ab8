"""Expanded actions outside their family: requests, runs, wrappers, forks, pages, the command line, the checker."""

import copy
import json
import pickle
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import PassiveEnvChecker

import agent_envs
from agent_envs import Reply, UsageError, fork, run_episode
from agent_envs.core.trajectory import Trajectory
from agent_envs.envs.expa.sorting.env import SortExpA
from agent_envs.evaluation.runs.evaluate import evaluate, make_agent, resume
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.rollout.chat_policy import ChatPolicy
from agent_envs.rollout.policy import check_replies
from agent_envs.wrappers import ForcedAnswer, Memory, TurnLimit

SORT = "agent_envs/SortExpA-v0"
ACTIONS = ["Let me see:", 1, 3, 4, " hm", 2, "no text here", 3, 5, 0]
HISTORY = (
    "Let me see: compare A and B: A {} B\n hm swap\n[text cannot be written inside swap; legal now: A B C]\n"
    " A and C => C, B, A\n"
)


class Scripted:
    name, batch = "scripted", 1

    def __init__(self):
        self.seen = []

    def act(self, requests):
        self.seen.append([dict(message) for message in requests[0].messages])
        return [Reply(ACTIONS[len(self.seen) - 1])]


def played():
    env, policy = gym.make(SORT, size=3), Scripted()
    return env, policy, run_episode(env, policy, seed=0, task=0, split="test", episode_key="k")


def test_a_request_reads_as_one_growing_text_of_the_assistant():
    env, policy, result = played()
    roles = [[message["role"] for message in seen] for seen in policy.seen]
    assert roles == [["system", "user"]] + [["system", "user", "assistant"]] * 9
    texts = [seen[-1]["content"] for seen in policy.seen[1:]]
    assert all(after.startswith(before) for before, after in zip(texts, texts[1:], strict=False))
    assert texts[-1] == env.unwrapped.history == HISTORY.format(texts[-1].split()[8])
    assert result.status == "terminated" and len(result.trajectory.turns) == len(ACTIONS)


def test_episodes_with_ids_travel_as_json_and_replay():
    _, _, result = played()
    row = json.loads(json.dumps(result.trajectory.to_json()))
    again = Trajectory.from_json(row)
    assert [turn.action for turn in again.turns] == ACTIONS
    assert all(type(turn.action) is type(action) for turn, action in zip(again.turns, ACTIONS, strict=True))
    assert agent_envs.replay(gym.make(SORT, size=3), again).turns == result.trajectory.turns


@pytest.mark.parametrize("agent", ["solver", "random"])
def test_runs_go_on_after_a_cut_journal(tmp_path, agent):
    suite = adhoc_suite(Choice("SortExpA", limit=6))
    whole = evaluate(suite, Settings(agent, smoke=True), folder=tmp_path / "whole")
    evaluate(suite, Settings(agent, smoke=True), folder=tmp_path / "cut")
    path = open_run(tmp_path / "cut").log().path
    rows = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(rows[:-3]) + rows[-3][:50])
    again = resume(tmp_path / "cut")
    for one, two in zip(whole.summaries, again.summaries, strict=True):
        assert (one.success, one.mean_return, one.strata, one.metrics) == (
            two.success,
            two.mean_return,
            two.strata,
            two.metrics,
        )
    assert whole.summaries[0].metrics["comparisons"].overall.episodes == 6


def test_agents_that_only_write_are_refused_before_anything_is_made(tmp_path):
    told = r"SortExpA-v0 takes expanded actions, which agent openai.* the same tasks as text are agent_envs/Sort-v0$"
    with pytest.raises(UsageError, match=told):
        evaluate(
            adhoc_suite(Choice("SortExpA", limit=1)), Settings("openai:x@http://127.0.0.1:9/v1", smoke=True),
            folder=tmp_path / "run",
        )  # fmt: skip
    assert not (tmp_path / "run").exists()
    agent = make_agent("openai:x@http://127.0.0.1:9/v1")
    assert isinstance(agent, ChatPolicy) and agent.text_only
    with pytest.raises(UsageError, match="cannot choose"):
        run_episode(gym.make(SORT), agent, seed=0)


@pytest.mark.parametrize("batch", [1, 4])
def test_run_many_refuses_them_too(batch):
    class Writer:
        name, text_only, asked = "writer", True, 0

        def act(self, requests):
            self.asked += 1
            return [Reply("x") for _ in requests]

    writer = Writer()
    writer.batch = batch
    plan = [agent_envs.Planned("k", agent_envs.spec_json(gym.make(SORT)), "sort-test-0", "test", 0)]
    with pytest.raises(UsageError, match="SortExpA-v0 takes expanded actions, which agent writer cannot choose"):
        list(agent_envs.run_many(plan, writer, concurrency=1))
    assert not writer.asked


@pytest.mark.parametrize("action", [None, True, np.True_, 1.0, b"x", ["a"]])
def test_replies_hold_a_text_or_an_id(action):
    with pytest.raises(UsageError, match="agent mine: an action is a text or the id"):
        check_replies("mine", [Reply(action)], 1)
    kept = check_replies("mine", [Reply(np.int64(3)), Reply("x"), Reply(2)], 3)
    assert [reply.action for reply in kept] == [3, "x", 2] and type(kept[0].action) is int


def test_memory_keeps_what_actions_append():
    env = Memory(gym.make(SORT, size=3), turns=2)
    env.reset(seed=0, options={"task": 0, "split": "test"})
    shown = [[(m["role"], m["content"]) for m in env.step(action)[4]["messages"]][2:] for action in ("So", 1, 3)]
    assert shown[0] == [("assistant", "So")]
    assert shown[1] == [("assistant", "So"), ("assistant", " compare")]
    assert shown[2] == [("assistant", " compare"), ("assistant", " A and")], "two turns back, and no further"
    shown = env.step("refused, as it is no action of compare")[4]["messages"][2:]
    assert shown[-1]["content"].startswith("\n[text cannot") and not any("refused" in m["content"] for m in shown)
    env.step(4)
    assert env.env.unwrapped.episode.state.active == "language"


def test_a_request_joins_what_a_memory_leaves():
    policy = Scripted()
    run_episode(Memory(gym.make(SORT, size=3), turns=3), policy, seed=0, task=0, split="test")
    roles = [[message["role"] for message in seen] for seen in policy.seen]
    assert roles == [["system", "user"]] + [["system", "user", "assistant"]] * 9
    assert policy.seen[3][-1]["content"] == "Let me see: compare A and"
    content = policy.seen[5][-1]["content"]
    assert content.startswith(" compare A and B: A ") and content.endswith(" hm"), "of `Let me see:` nothing is left"


def test_a_text_agent_is_told_of_no_twin_where_there_is_none():
    gym.register("agent_envs/LonelyExpA-v0", entry_point=SortExpA)
    try:
        with pytest.raises(UsageError, match="LonelyExpA-v0 takes expanded actions, which agent mute cannot choose$"):
            policy = Scripted()
            policy.name, policy.text_only = "mute", True
            run_episode(gym.make("agent_envs/LonelyExpA-v0"), policy, seed=0)
    finally:
        gym.registry.pop("agent_envs/LonelyExpA-v0")
    assert not policy.seen


def test_turn_limits_count_actions_and_no_answer_can_be_forced():
    env = TurnLimit(gym.make(SORT, size=3), turns=2)
    env.reset(seed=0)
    assert env.step(1)[2:4] == (False, False) and env.step(3)[2:4] == (False, True)
    with pytest.raises(UsageError, match="SortExpA-v0 has no answer tag to force; use TurnLimit"):
        ForcedAnswer(gym.make(SORT), free_turns=2)


def test_a_fork_has_spaces_of_its_own():
    env = gym.make(SORT).unwrapped
    env.reset(seed=0)
    twin = fork(env)
    twin.action_space.seed(1)
    drawn = [twin.action_space.sample() for _ in range(20)]
    assert all(part._np_random is None for part in env.action_space.spaces)
    env.action_space.seed(1)
    again = fork(env)
    assert [again.action_space.sample() for _ in range(20)] == drawn
    assert [env.action_space.sample() for _ in range(20)] == drawn, "sampling in the fork moved nothing here"


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_vectors_take_ids_samples_and_text(mode):
    envs = agent_envs.make_vec(SORT, 3, mode, size=3)
    try:
        envs.reset(seed=3)
        assert envs.step(("one", 1, np.int64(2)))[0] == ("", " compare", " swap")
        observations, _, _, _, info = envs.step(((1, np.int64(1)), (0, "x"), -1))
        assert observations[0] == " compare" and "text cannot be written" in observations[1]
        assert "no such action" in observations[2] and list(info["active"]) == ["compare", "compare", "swap"]
        assert info["action_mask"].shape == (3, 6) and info["action_mask"].dtype == bool
        assert len(envs.step(envs.action_space.sample())[0]) == 3
    finally:
        envs.close()


def test_spaces_copy_pickle_and_pass_gymnasiums_checks():
    space = gym.make(SORT).action_space
    for twin in (copy.deepcopy(space), pickle.loads(pickle.dumps(space))):
        assert twin == space
        twin.seed(3), space.seed(3)
        samples = [twin.sample() for _ in range(5)]
        assert samples == [space.sample() for _ in range(5)] and all(space.contains(sample) for sample in samples)
    env = PassiveEnvChecker(SortExpA(size=3))
    env.reset(seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(SortExpA(size=3), skip_render_check=True)
        for action in ("x", 1, np.int64(3), (1, np.int64(4)), -1):
            assert env.step(action)[2:4] == (False, False)
