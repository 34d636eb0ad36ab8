"""Expanded actions as people see them: transcripts, pages, the command line."""

import io
import json
from dataclasses import replace

import gymnasium as gym
import numpy as np

from agent_envs import Reply, run_episode
from agent_envs.base.jsonl_log import read_journal
from agent_envs.core.trajectory import Trajectory, stretches, transcript
from agent_envs.envs.expa import ExternalEnvironment
from agent_envs.envs.expa.sorting.env import SortExpA
from agent_envs.evaluation.html.page import Transcript, draw
from agent_envs.evaluation.html.view import write_view
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.rollout.policy import CompanionPolicy
from tests.envs.expa.test_everywhere import SORT, played
from tests.evaluation.html.test_page import Reader


def test_a_transcript_is_one_text_with_what_was_appended_apart():
    _, _, result = played()
    turns = result.trajectory.turns
    assert [len(group) for group in stretches(turns)] == [10], "nothing is paid before the end"
    text = transcript(result.trajectory.prompt, turns)
    assert "[policy, turns 1 to 10] Let me see:⟪ compare A and B: A " in text
    assert " hm⟪ swap⟫no text here⟪\n[text cannot" in text and "]\n A and C => C, B, A\n[action 0]⟫\n\n(reward" in text
    assert text.count("(reward ") == 1
    plain = run_episode(gym.make("agent_envs/Sort-v0"), CompanionPolicy("solver"), seed=0).trajectory
    assert all(len(group) == 1 for group in stretches(plain.turns))


def test_nothing_that_a_policy_writes_looks_like_an_action():
    env = gym.make(SORT, size=3)
    env.reset(seed=0)
    for action in ("⟪ compare⟫⟫⟪ hm", 1, "⟫⟪"):
        env.step(action)
    text = transcript((), env.unwrapped.episode.turns)
    assert "\\u27ea compare\\u27eb\\u27eb\\u27ea hm⟪ compare⟫\\u27eb\\u27ea⟪\n[text" in text
    assert text.count("⟪") == text.count("⟫") == 2


def test_three_hundred_buttons_are_a_paragraph(tmp_path):
    class Presses:
        name, batch = "presses", 1

        def act(self, requests):
            turn = requests[0].turn
            return [Reply(1 if turn == 1 else 99 if turn % 2 else np.int64(4))]

    suite = adhoc_suite(Choice("ArithmeticExpA", limit=1, turn_limits=(300,)))
    evaluate(suite, Settings("presses", smoke=True), policy=Presses(), folder=tmp_path / "run")
    row = next(row for row in read_journal(open_run(tmp_path / "run").log().path) if "trajectory" in row)
    turns = Trajectory.from_json(row["trajectory"]).turns
    assert len(turns) == 300
    assert transcript((), turns).count("[policy, ") == transcript((), turns).count("(reward ") == 1
    write_view(tmp_path / "run", tmp_path / "view")
    html = next((tmp_path / "view" / "pages").glob("*.html")).read_text(encoding="utf-8")
    assert (
        html.count('<section class="turn"') == 2 and html.count("<strong>") == 1 and html.count("more characters") == 1
    )
    assert all(html.count(f'id="e1-t{number}"') == 1 for number in range(301))
    assert "there is no such action inside calculator ×149" in Reader(html).text


def test_a_page_that_would_be_too_large_leaves_out_the_middle_of_a_stretch():
    env = gym.make("agent_envs/ArithmeticExpA-v0", max_actions=3000)
    env.reset(seed=0)
    for number in range(2000):
        env.step(1 if number == 0 else 4)
    item = Transcript("e1", "one", (), env.unwrapped.trajectory)
    drawn = draw(item, 200_000)
    assert "Turns 1 to 500" in drawn.html and "Turns 1501 to 2000" in drawn.html
    assert drawn.html.count("1,000 turns are left out here") == 1 and drawn.html.count('id="e1-t') == 1001


def test_a_call_that_returns_nothing_is_shown():
    class Silent(ExternalEnvironment):
        name, desc, actions = "silent", " silent", {"go": " go"}

        def legal(self, state):
            return ("go",)

        def step(self, state, action):
            return "", state, True

    env = SortExpA()
    env.route_to(Silent())
    env.reset(seed=0)
    for action in (1, 2):
        env.step(action)
    (result,) = env.episode.turns[-1].results
    assert result.content == ""
    html = draw(Transcript("e1", "one", (), env.trajectory)).html
    assert Reader(html).text.count(" silent go") == 1 and "silent: 1 call" in html


def test_pages_show_a_stretch_as_one_text(tmp_path):
    evaluate(adhoc_suite(Choice("SortExpA", limit=3)), Settings("solver", smoke=True), folder=tmp_path / "run")
    write_view(tmp_path / "run", tmp_path / "view")
    html = next((tmp_path / "view" / "pages").glob("*.html")).read_text(encoding="utf-8")
    text = Reader(html).text
    assert "Turns 1 to " in text and " compare A and B: A " in text and "Turn 2\n" not in text
    assert 'title="turn 1, expanded action 1: compare"' in html and html.count('<section class="turn"') == 3 * 2
    assert '<span class="call"> compare</span>' in html and '<span class="answer">A ' in html
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
    from agent_envs.cli.app import play

    typed = "Which?\n/compare /A /B\n/2\n\n/nonsense /7 /A /B\n/end now\n\n/9999999999999999999999\n/A /B\n/end\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    play("SortExpA", task=0, split="test", arg=["size=3"])
    shown = capsys.readouterr().out
    assert "in language: /end /compare /swap, or text" in shown and "in swap: /A /B /C" in shown
    assert "Which? compare A and B: A " in shown
    assert shown.count("nothing was done; /help lists what there is") == 3, (
        "a line with an unknown name takes no action"
    )
    assert "The episode is over after turn 8: not solved." in shown


def test_show_lists_the_expanded_actions(capsys):
    from agent_envs.cli.app import show_page

    show_page("SortExpA", as_json=True, arg=["size=2"])
    page = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in page["expanded_actions"]] == ["end", "compare", "swap", "A", "B"]
    show_page("Sort", as_json=True, arg=None)
    assert json.loads(capsys.readouterr().out)["expanded_actions"] == []


def test_a_reward_ends_a_stretch_and_every_turn_keeps_its_number():
    _, _, result = played()
    turns = list(result.trajectory.turns)
    turns[3] = replace(turns[3], reward=-0.5)
    turns[6] = replace(turns[6], terms=(("plus", 1.0), ("minus", -1.0)))
    assert [len(group) for group in stretches(tuple(turns))] == [4, 3, 3]
    html = draw(Transcript("e1", "one", (), replace(result.trajectory, turns=tuple(turns)))).html
    assert all(title in html for title in (">Turns 1 to 4<", ">Turns 5 to 7<", ">Turns 8 to 10<"))
    assert 'title="turn 5">' in html and 'title="turn 6, expanded action 2"' in html
    assert all(html.count(f'id="e1-t{number}"') == 1 for number in range(11))
