"""Folders of runs are searched for users' faults: their episodes are stepped again, a recorded model's too."""

import json

import gymnasium as gym
import pytest

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.runs.run_folder import Settings
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import CompanionPolicy
from benchmarks.user_faults.__main__ import main
from benchmarks.user_faults.runs import episode_faults, findings
from tests.services.chat.faulty import FaultyServer
from tests.services.chat.wire import OpenAIWire, Said

RETAIL = "agent_envs/Tau2Retail-v0"


def run(folder, choice, agent="null"):
    evaluate(adhoc_suite(choice), Settings(agent), folder=folder)
    return folder


def eager(body):
    """Say yes to whatever an agent said last."""
    asked = any(message["role"] == "user" and "Hello" not in str(message["content"]) for message in body["messages"])
    return Said("Yes, please go ahead. ###STOP###" if asked else "Hello, my zip code is 99887.")


def test_scripted_users_of_a_run_are_without_faults(tmp_path, capsys):
    folder = run(tmp_path / "run", Choice(RETAIL, limit=2), agent="solver")
    (found,) = findings(folder)
    assert [(one.passed, one.faults) for one in found.judged] == [(True, ()), (True, ())] and not found.unread
    assert (found.domain, found.agent, found.user) == ("retail", "solver", "scripted")
    assert main([str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)[0]
    assert (told["simulations"], told["failures"], told["kinds"]["agreed_to_unwanted"]) == (2, 0, [0, 0])


@pytest.mark.parametrize("task", ["hard-test-14", "medium-test-40"])
def test_a_scripted_yes_to_what_stands_on_the_shelf_is_none_to_something_unwanted(task):
    """What an option is called, the customer reads off the shelf, so the rules do, too."""
    env = gym.make(RETAIL)
    played = run_episode(env, CompanionPolicy("heuristic"), seed=0, split="test", task=task)
    assert any("go ahead" in message.content for turn in played.trajectory.turns for message in turn.observation)
    assert episode_faults(env.unwrapped) == ()


def test_a_models_faults_are_found_in_the_runs_recording(tmp_path, capsys):
    with FaultyServer(OpenAIWire(eager)) as server:
        user = f"openai:m@{server.url}"
        folder = run(tmp_path / "run", Choice(RETAIL, arguments={"user": user, "max_agent_turns": 3}, limit=2))
        asked = server.count
        (found,) = findings(folder)
        assert server.count == asked > 0  # nobody is asked live
    assert len(found.judged) == 2 and all(one.passed is False for one in found.judged)
    assert all("invented" in {fault.kind for fault in one.faults} for one in found.judged)
    (folder / "externals.jsonl").unlink()
    (bare,) = findings(folder)
    assert not bare.judged and len(bare.unread) == 2 and all(len(reason) <= 300 for reason in bare.unread)
    assert main([str(folder)]) == 3 and "2 unread" in capsys.readouterr().out


def test_each_entry_is_told_apart_and_what_has_no_simulated_user_is_refused(tmp_path):
    both = Choice(RETAIL, limit=1, sweep=("persona", ("plain", "terse")))
    assert [len(found.judged) for found in findings(run(tmp_path / "both", both))] == [1, 1]
    for choice in (Choice(RETAIL, arguments={"side": "user"}, limit=1), Choice("agent_envs/Count-v0", limit=1)):
        with pytest.raises(UsageError, match="no episode of the run has a simulated user"):
            findings(run(tmp_path / choice.env_id.rpartition("/")[2], choice))


def test_a_broken_run_is_refused_in_one_line(tmp_path, capsys):
    folder = run(tmp_path / "run", Choice(RETAIL, limit=1))
    (folder / "config.json").write_text("[]")
    assert main([str(folder)]) == 2 and len(capsys.readouterr().err.strip().splitlines()) == 1
