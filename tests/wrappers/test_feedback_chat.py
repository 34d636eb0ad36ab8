"""Chat models that give feedback: what becomes of their words, faults, limits, costs, recordings."""

import inspect
import json
import re

import gymnasium as gym
import pytest

from agent_envs import BudgetSpent, EnvFault, UsageError, fork, restore, run_episode, snapshot
from agent_envs.services.chat import ChatReply
from agent_envs.services.chat.prices import Price, cost_of, load_prices
from agent_envs.services.recording import Recording, read_answers
from agent_envs.services.run_services import Services
from agent_envs.wrappers import Memory, VerbalFeedback
from agent_envs.wrappers.feedback_models import MOST_CHARACTERS, REMEMBERED, feedback_usage, readable
from agent_envs.wrappers.feedback_prompts import MOST_CONVERSATION
from tests import ROOT
from tests.rows import each_row
from tests.wrappers.advised import COMPARE, ID, Spy
from tests.wrappers.test_feedback import Says

RULES = "Guess the number."
PAGE = (ROOT / "docs" / "veg.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)


def advised(spy, epsilon=0.5, **arguments):
    return VerbalFeedback(gym.make(ID, **arguments.pop("env", {})), feedback=spy, epsilon=epsilon, **arguments)


@each_row(
    ("said", "text"),
    [
        ("  Look  closer.\n\n- At it. ", "Look closer. - At it."),
        ("<think>Secret plan.</think>Do it.", "Do it."),
        ("Say <answer>Riga</answer> now", "Say Riga now"),
        ("<<b>answer>Riga</<i>answer>", "Riga"),
        ("<tool_call>{}</tool_call> <|im_end|>Go", "{} Go"),
        ("If x < 3 and y > 2, stop.", "If x < 3 and y > 2, stop."),
        ("lone \ud800 and \u202e mark\x00", "lone ? and mark"),
        ("Word. " * 400, ("Word. " * 200).strip()),
        ("w" * 3000, "w" * (MOST_CHARACTERS - 4) + " ..."),
        ("", ""),
        ("<answer></answer>", ""),
    ],
)
def test_words_become_one_plain_paragraph(said, text):
    assert readable(said) == text


def test_feedback_that_answers_is_no_answer():
    env = advised(Spy(lambda request, number: "Just say <answer>1</answer> and <luck>x</luck>."))
    observation, info = env.reset(seed=0)
    assert "Just say 1 and x." in observation and "<answer>1" not in observation
    _, reward, terminated, _, info = env.step("nothing")
    assert (reward, terminated, info["reward_terms"]["correct"]) == (0.0, False, 0.0)
    assert env.unwrapped.episode.turns[0].parsed.reason  # the policy said nothing that acts


def test_an_empty_reply_is_asked_for_once_more_and_then_a_fault():
    spy = Spy(lambda request, number: "" if number == 1 else "At last.")
    env = advised(spy)
    observation, _ = env.reset(seed=0)
    assert observation.endswith("Feedback: At last.") and len(spy.asked) == 2
    assert "empty" in spy.asked[1].messages[-1]["content"] and env.usage["feedback_calls"] == 2
    with pytest.raises(EnvFault, match="spy: no feedback in two replies"):
        advised(Spy(lambda request, number: " ")).reset(seed=0)


def test_a_fault_leaves_the_environment_where_it_was_and_the_turn_can_be_taken_again():
    down = []

    def say(request, number):
        if down:
            raise EnvFault("down", retryable=False)
        return f"Advice {number}."

    env = VerbalFeedback(Memory(gym.make(ID), turns=2), feedback=Spy(say))
    env.reset(seed=0)
    before = snapshot(env)
    down.append(True)
    with pytest.raises(EnvFault, match="down"):
        env.step(COMPARE)
    assert snapshot(env) == before
    down.clear()
    assert "Advice 3" in env.step(COMPARE)[0] and len(env.unwrapped.episode.turns) == 1


def test_a_reset_that_failed_began_no_episode():
    env = advised(Spy(lambda request, number: 1 / 0 if number == 1 else "Go on."))
    with pytest.raises(ZeroDivisionError):
        env.reset(seed=0)
    with pytest.raises(UsageError, match=r"toy/Advised-v0: no episode, .* call reset\(\) first"):
        env.step(COMPARE)
    env.reset(seed=0)
    assert "Go on." in env.step(COMPARE)[0]


def test_numbers_are_no_place_for_feedback():
    env = VerbalFeedback(gym.make("agent_envs/OrderDiscrete-v0"), feedback=Spy())
    with pytest.raises(UsageError, match="the observation is a ndarray; feedback joins texts alone"):
        env.reset(seed=0)


def test_a_live_answer_is_remembered_so_that_forks_and_second_attempts_agree():
    spy = Spy()
    env = advised(spy)
    env.reset(seed=0)
    moment = snapshot(env)
    told = env.step(COMPARE)[0]
    restore(env, moment)
    assert env.step(COMPARE)[0] == told and fork(env).step(COMPARE)[0] == env.step(COMPARE)[0]
    assert len(spy.asked) == 3
    assert fork(env, branch="b").step(COMPARE)[0] != env.step(COMPARE)[0]
    env.reset(seed=0)
    assert len(spy.asked) == 5 and env.usage["feedback_calls"] == 1  # found again, and still what the episode took


def test_a_limit_on_calls_is_of_an_environment_and_its_forks():
    spies = Spy(name="few"), Spy(name="few")
    one, other = (advised(spy, max_calls=3) for spy in spies)
    for env in (one, other):
        env.reset(seed=0)
        env.step(COMPARE)
    fork(one, branch="b").step(COMPARE)
    before = snapshot(one)
    with pytest.raises(BudgetSpent, match="few: all 3 calls of max_calls are made"):
        one.step(COMPARE)
    assert snapshot(one) == before and one.model.budget.counts["few"]["calls"] == 3
    other.step(COMPARE)
    assert [len(spy.asked) for spy in spies] == [3, 3]


def test_in_a_run_environments_with_the_same_limit_count_together_and_others_apart():
    services = Services()
    envs = [advised(Spy(name="few"), max_calls=most) for most in (5, 5, 6)]
    for env in envs:
        env.unwrapped.services = services
        env.reset(seed=0)
        env.step(COMPARE)
    one, other, third = envs
    one.step(COMPARE)
    with pytest.raises(BudgetSpent, match="few: all 5 calls"):
        other.step(COMPARE)
    third.step(COMPARE)


def prices(tmp_path, **models):
    path = tmp_path / "prices.json"
    table = {name: {"input": each, "output": 10 * each} for name, each in models.items()}
    path.write_text(
        json.dumps({"schema": "agent-envs/prices@1", "date": "2026-01-01", "source": "a test", "models": table})
    )
    return str(path)


def test_a_limit_in_dollars(tmp_path):
    """1,000 tokens in at 10 and 100 out at 100 dollars a million: 2 cents a call."""
    env = advised(Spy(name="dear"), max_cost=0.05, prices=prices(tmp_path, dear=10.0))
    env.reset(seed=0)
    env.step(COMPARE)
    env.step(COMPARE)
    with pytest.raises(BudgetSpent, match=r"dear: 0\.0600 of 0\.0500 USD are spent"):
        env.step(COMPARE)
    with pytest.raises(UsageError, match="no price is known for 'cheap'"):
        advised(Spy(name="cheap"), max_cost=0.05, prices=prices(tmp_path, dear=10.0))
    silent = Spy(lambda request, number: ChatReply("Go."), name="dear")
    with pytest.raises(UsageError, match=r"dear: a reply counts no tokens, .* so that no limit in US dollars can hold"):
        advised(silent, max_cost=0.05, prices=prices(tmp_path, dear=10.0)).reset(seed=0)


def test_what_a_failed_call_was_billed_counts(tmp_path):
    def say(request, number):
        fault = EnvFault("cut off", retryable=False)
        fault.usage = {"input": 4000, "output": 200}
        raise fault

    env = advised(Spy(say, name="dear"), max_cost=0.05, prices=prices(tmp_path, dear=10.0))
    with pytest.raises(EnvFault, match="cut off"):
        env.reset(seed=0)
    assert env.model.budget.counts == {"dear": {"calls": 1, "input": 4000, "output": 200}}
    with pytest.raises(BudgetSpent, match=r"0\.0600 of 0\.0500 USD are spent"):
        env.reset(seed=0)


def test_limits_are_no_part_of_the_label_and_the_rest_is():
    label = advised(Spy()).label
    assert advised(Spy(), max_calls=3).label == label
    assert advised(Spy(name="other")).label != label and advised(Spy(), 0.4).label != label


def test_an_episode_tells_what_its_feedback_took():
    found = run_episode(advised(Spy(), env={"turns": 3}), Says(), seed=0)
    assert found.usage == {"feedback_calls": 3, "feedback_input": 3000, "feedback_output": 300}
    assert feedback_usage({"input": 7, **found.usage}) == {"calls": 3, "input": 3000, "output": 300}


def test_costs_as_the_paper_computes_them():
    """Section 3.3: about 1,550 tokens in and 150 out an episode, 350 steps x 512 prompts x 5 samples."""
    sonnet = load_prices().price("anthropic:claude-sonnet-4-20250514")
    episode = cost_of(sonnet, {"input": 1550, "output": 150, "calls": 2})
    assert episode == pytest.approx(0.0069) and episode * 350 * 512 * 5 == pytest.approx(6182.4)
    cached = cost_of(Price(input=3.0, output=15.0, cached=0.3), {"input": 4000, "output": 400, "cached": 2000})
    assert cached == pytest.approx(0.0126)


def test_a_recording_is_replayed_without_asking(tmp_path):
    spec_env = advised(Spy(), env={"turns": 3})
    with Recording(tmp_path / "r.jsonl", "record") as recording:
        spec_env.unwrapped.services = Services(recording)
        found = run_episode(spec_env, Says(), seed=0).trajectory
    assert {row["port"] for row in read_answers(tmp_path / "r.jsonl")} == {"feedback/spy"}
    mute = Spy(lambda request, number: 1 / 0)
    env = advised(mute, env={"turns": 3})
    env.unwrapped.services = Services(Recording(tmp_path / "r.jsonl", "replay"))
    assert run_episode(env, Says(), seed=0).trajectory == found and not mute.asked
    with pytest.raises(EnvFault, match="no recording"):
        run_episode(env, Says(), seed=1)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[-1][:40])
def test_the_blocks_of_the_page_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "veg.md", "exec"), {})


def test_the_page_names_what_there_is():
    assert len(BLOCKS) == 4
    for name in inspect.signature(VerbalFeedback).parameters.keys() - {"env"}:
        assert f"`{name}`" in PAGE
    for word in ("24,000", "1,200", "4,096"):
        assert word in PAGE
    assert (MOST_CONVERSATION, MOST_CHARACTERS, REMEMBERED) == (24_000, 1_200, 4_096)
