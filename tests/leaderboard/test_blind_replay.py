"""The reference that never looks: it plays back what random play found, and marks the entries where it comes far."""

import json
from dataclasses import replace

import gymnasium as gym
import pytest

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.runs.run_folder import Settings
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import Request
from leaderboard.blind_replay import BlindReplay, blind_entries
from leaderboard.board import Board, BoardSettings
from leaderboard.pages import page_of, to_json
from leaderboard.standings import standings
from tests.leaderboard.boards import made_up, many_tasks
from tests.needs import needs


@needs("[babyai]")
def test_it_plays_the_same_whatever_it_is_shown_and_what_it_recorded_once():
    env = gym.make("agent_envs/BabyAI-v0")
    agent = BlindReplay(plays=4)
    first = run_episode(env, agent, seed=0, task=3, split="test")
    again = run_episode(
        gym.make("agent_envs/BabyAI-v0"), BlindReplay(plays=4), seed=9, task=3, split="test", episode_key="k"
    )
    assert [turn.action for turn in first.trajectory.turns] == [turn.action for turn in again.trajectory.turns]
    playback = agent.begin(env)
    other, same = (playback.act([Request("k", 1, [{"role": "user", "content": text}])]) for text in ("north", "south"))
    assert other == same and playback.act([Request("k", 9_999, [])])[0].action == ""


def test_more_plays_of_a_task_never_do_worse_and_random_play_does():
    won = {
        plays: sum(
            run_episode(gym.make("agent_envs/Order-v0"), BlindReplay(plays), seed=0, task=task, split="test").success
            for task in range(12)
        )
        for plays in (1, 32)
    }
    assert won[1] < won[32] and won[32] >= 6
    with pytest.raises(UsageError, match="plays=0"):
        BlindReplay(0)


def test_its_run_is_packed_as_a_references(tmp_path):
    suite = adhoc_suite(Choice("Count", limit=2)).model_copy(update={"id": "few", "scored": True})
    evaluate(suite, Settings("leaderboard.blind_replay:BlindReplay", {"plays": 2}), folder=tmp_path / "run")
    pack_run(tmp_path / "run", tmp_path / "packed")
    told = json.loads((tmp_path / "packed" / "submission.json").read_bytes())["agent"]
    assert (told["kind"], told["name"]) == ("reference", "leaderboard.blind_replay:BlindReplay")


@pytest.mark.parametrize(
    ("blind", "agent", "marked"),
    [(0.6, 0.8, True), (0.3, 0.95, False), (0.1, None, False), (0.4, None, True)],
)
def test_an_entry_is_marked_where_it_wins_a_fifth_and_half_of_the_best(blind, agent, marked):
    suite = many_tasks(200)
    reference = made_up(suite, "b", blind, 1)
    told = reference.submission.model_copy(
        update={"agent": reference.submission.agent.model_copy(update={"kind": "reference", "name": "blind_replay-8"})}
    )
    entrants = [replace(reference, submission=told), *([made_up(suite, "a", agent, 2)] if agent else [])]
    table = standings(suite, entrants)
    assert set(blind_entries(table.rows)) == ({"e"} if marked else set())
    board = Board("b", BoardSettings(title="B", suite="many@1.0"), table, (), ())
    assert ("can be played blind: " in str(page_of(board).tables)) is marked
    assert list(to_json(board)["can_be_played_blind"]) == (["e"] if marked else [])


def test_an_agent_that_takes_the_name_marks_nothing():
    suite = many_tasks(50)
    assert blind_entries(standings(suite, [made_up(suite, "blind_replay-8", 0.9, 1)]).rows) == {}
