"""Expanded actions outside their family: requests, runs, wrappers, forks, pages, the command line, the checker."""

import io
import json

import gymnasium as gym
import numpy as np
import pytest

import agent_envs
from agent_envs import Reply, UsageError, check_turn_env, fork, run_episode
from agent_envs.evaluation.agents import make_agent
from agent_envs.evaluation.evaluate import evaluate, resume
from agent_envs.evaluation.plan import Choice, adhoc_suite
from agent_envs.evaluation.run_folder import Settings, open_run
from agent_envs.evaluation.view import write_view
from agent_envs.expa.sort_env import SortExpA
from agent_envs.model_policy import ChatPolicy
from agent_envs.policies import CompanionPolicy, checked_replies
from agent_envs.trajectory import Trajectory, stretches, transcript
from agent_envs.wrappers import ForcedAnswer, Memory, TurnLimit
from tests.evaluation.test_page import Reader

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
    assert whole.summaries[0].metrics["comparisons"].played.episodes == 6


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


@pytest.mark.parametrize("action", [None, True, np.True_, 1.0, b"x", ["a"]])
def test_replies_hold_a_text_or_an_id(action):
    with pytest.raises(UsageError, match="agent mine: an action is a text or the id"):
        checked_replies("mine", [Reply(action)], 1)
    assert checked_replies("mine", [Reply(np.int64(3)), Reply("x"), Reply(2)], 3)


def test_memory_keeps_what_actions_append():
    env = Memory(gym.make(SORT, size=3), turns=2)
    env.reset(seed=0, options={"task": 0, "split": "test"})
    shown = [[(m["role"], m["content"]) for m in env.step(action)[4]["messages"]][2:] for action in ("So", 1, 3)]
    assert shown[0] == [("assistant", "So")]
    assert shown[1] == [("assistant", "So"), ("assistant", " compare")]
    assert shown[2] == [("assistant", " compare"), ("assistant", " A and")], "two turns back, and no further"
    env.step(4)
    assert env.env.unwrapped.episode.state.active == "language"


def test_turn_limits_count_actions_and_no_answer_can_be_forced():
    env = TurnLimit(gym.make(SORT, size=3), turns=2)
    env.reset(seed=0)
    assert env.step(1)[2:4] == (False, False) and env.step(3)[2:4] == (False, True)
    with pytest.raises(UsageError, match="SortExpA-v0 has no answer tag to force; use TurnLimit"):
        ForcedAnswer(gym.make(SORT), turns=3)


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


def test_a_transcript_is_one_text_with_what_was_appended_apart():
    _, _, result = played()
    turns = result.trajectory.turns
    assert [len(group) for group in stretches(turns)] == [7, 3], "an illegal action ends a stretch, and so does the end"
    text = transcript(result.trajectory.prompt, turns)
    assert "[policy, turns 1 to 7] Let me see:⟪ compare A and B: A " in text
    assert " hm⟪ swap⟫no text here⟪\n[text cannot" in text and "⟪ A and C => C, B, A\n[action 0]⟫" in text
    assert text.count("(reward ") == 2
    plain = run_episode(gym.make("agent_envs/Sort-v0"), CompanionPolicy("solver"), seed=0).trajectory
    assert all(len(group) == 1 for group in stretches(plain.turns))


def test_pages_show_a_stretch_as_one_text(tmp_path):
    evaluate(adhoc_suite(Choice("SortExpA", limit=3)), Settings("solver", smoke=True), folder=tmp_path / "run")
    write_view(tmp_path / "run", tmp_path / "view")
    html = next((tmp_path / "view" / "pages").glob("*.html")).read_text(encoding="utf-8")
    text = Reader(html).text
    assert "Turns 1 to " in text and " compare A and B: A " in text and "Turn 2\n" not in text
    assert 'title="turn 1, expanded action 1"' in html and html.count('<section class="turn"') == 3 * 2
    assert "Success by least swaps" in Reader((tmp_path / "view" / "index.html").read_text(encoding="utf-8")).text


def test_hostile_text_on_a_page_stays_text(tmp_path):
    class Evil:
        name, batch = "evil", 1

        def act(self, requests):
            turn = requests[0].turn
            return [Reply((1, 3, "<script>alert(1)</script>", 4, "<img src=x onerror=1>", 0)[turn - 1])]

    suite = adhoc_suite(Choice("SortExpA", limit=1))
    evaluate(suite, Settings("evil", smoke=True), policy=Evil(), folder=tmp_path / "run")
    write_view(tmp_path / "run", tmp_path / "view")
    html = next((tmp_path / "view" / "pages").glob("*.html")).read_text(encoding="utf-8")
    assert "<script" not in html and "<img" not in html and "&lt;script&gt;alert(1)" in html


def test_play_takes_names_ids_and_text(monkeypatch, capsys):
    from agent_envs.cli import play

    typed = "Which?\n\n/compare /A /B\n\n/2\n\n/nonsense /7 /A /B\n\n/end now\n\n/end\n\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    play("SortExpA", task=0, split="test", arg=["size=3"])
    shown = capsys.readouterr().out
    assert "in language: /end /compare /swap, or text" in shown and "in swap: /A /B /C" in shown
    assert "there is no such action inside swap" in shown and "Which? compare A and B: A " in shown
    assert "/end now" in shown, "a line that is not all names is text"
    assert "The episode is over: " in shown


def test_show_lists_the_expanded_actions(capsys):
    from agent_envs.cli import show_page

    show_page("SortExpA", as_json=True, arg=["size=2"])
    page = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in page["expanded_actions"]] == ["end", "compare", "swap", "A", "B"]
    show_page("Sort", as_json=True, arg=None)
    assert json.loads(capsys.readouterr().out)["expanded_actions"] == []


class MasksTooMuch(SortExpA):
    """Its mask forbids what is legal."""

    def _extras(self, episode):
        extras = super()._extras(episode)
        extras["action_mask"][3:] = False
        return extras


class MasksNothing(SortExpA):
    """Its mask allows what is refused."""

    def _extras(self, episode):
        extras = super()._extras(episode)
        extras["action_mask"][:] = True
        return extras


class MovesOnIllegal(SortExpA):
    """An illegal action enters an environment."""

    def _refused(self, state, why):
        from dataclasses import replace

        return replace(super()._refused(state, why), state=replace(state, active="compare"))


class KeepsQuiet(SortExpA):
    """An illegal action is not explained."""

    def _refused(self, state, why):
        from dataclasses import replace

        return replace(super()._refused(state, why), events=())


class EndsLast(SortExpA):
    """Its ids are in another order than they must be."""

    def route_to(self, *environments):
        super().route_to(*environments)
        self.expanded_actions = self.expanded_actions[::-1]


class RaisesOnIds(SortExpA):
    """An id beyond the table raises."""

    def _read(self, action):
        if isinstance(action, int) and not 0 <= action < 8:
            raise IndexError(action)
        return super()._read(action)


@pytest.mark.parametrize("cls", [MasksTooMuch, MasksNothing, MovesOnIllegal, KeepsQuiet, EndsLast, RaisesOnIds])
def test_the_checker_finds_each_broken_promise(cls):
    report = check_turn_env(cls(), episodes=2, hostile=50)
    failed = {check.name for check in report.checks if check.status == "failed"}
    assert "expanded actions" in failed, report.text()
