"""Imitation: of solvers, of direct answers, of the model's own successes, of recorded episodes."""

import json
from dataclasses import replace
from types import SimpleNamespace

import gymnasium as gym
import pytest

from agent_envs import UsageError, run_episode
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.rollout.policy import CompanionPolicy
from tests.trainers.players import SEARCH, chat_for
from trainers.command_line import parse
from trainers.imitation.demonstrations import SEARCH_FLAWS, Flaws
from trainers.imitation.imitating import NAMED_FLAWS, direct_answers, flaws_of, recordings, rows_of
from trainers.run import open_run
from trainers.sft import SFTSettings, episodes_of, train
from trainers.training.metrics import read_metrics

SMALL = [
    "--env.id", "Order", "--env.arguments", '{"size": 2, "max_generations": 3}', "--model.name", "tiny:tiny",
    "--model.tokenizer-plays", "64", "--log.no-curves",
    "--sampling.max-new-tokens", "12", "--sampling.batch", "16", "--rows-per-step", "16", "--steps", "12", "--episodes", "32",
    "--optim.learning-rate", "0.003", "--evaluation.every", "0", "--evaluation.test-tasks", "8",
]  # fmt: skip


def run(out, *words):
    settings, folder = parse(SFTSettings, [*SMALL, *words, "--out", str(out)], program="sft")
    with open_run(settings, folder) as opened:
        return train(settings, opened)


def test_a_solver_is_learnt(tmp_path):
    result = run(tmp_path / "solver", "--steps", "40")
    assert result["after"]["success"] >= 0.75 and result["after"]["valid_actions"] > result["before"]["valid_actions"]
    losses = [row["loss"] for row in read_metrics(tmp_path / "solver" / "metrics.jsonl")]
    assert losses[-1] < 0.2 * losses[0]


def test_a_solver_plays_within_stacks_of_wrappers(tmp_path):
    stacks = '[[], [{"VerbalFeedback": {"feedback": "scripted:good"}}]]'
    words = ["--env.id", "SearchQA", "--env.arguments", json.dumps(SEARCH), "--stacks", stacks, "--episodes", "6"]
    settings, folder = parse(SFTSettings, [*SMALL, *words, "--out", str(tmp_path)], program="sft")
    with open_run(settings, folder) as opened:
        advised = ["feedback" in str(episode.to_json()) for episode in episodes_of(settings, opened)]
    assert advised == [False] * 3 + [True] * 3
    with pytest.raises(UsageError, match="stacks='nothing': a JSON list of lists"):
        SFTSettings(stacks="nothing")


def test_the_models_own_successes_are_kept_and_journaled(tmp_path):
    run(tmp_path / "solver", "--steps", "25")
    model = ["--model.name", str(tmp_path / "solver" / "model")]
    words = ["--data", "rejection", "--episodes", "6", "--samples-per-task", "5", "--steps", "2", *model]
    run(tmp_path / "own", *words)
    rows = list(read_journal(tmp_path / "own" / "accepted.jsonl"))
    assert [row["tasks"] for row in rows] == [3, 6] and 0 < sum(len(row["solved"]) for row in rows) <= 30
    assert len(list(recordings(tmp_path / "own" / "accepted.jsonl", None, ""))) == sum(
        len(row["solved"]) for row in rows
    )
    with pytest.raises(UsageError, match="rejection sampling kept none"):
        five = ["--env.arguments", '{"size": 5, "max_generations": 1}']  # and weights at random
        run(tmp_path / "none", *five, "--data", "rejection", "--episodes", "2", "--samples-per-task", "1")


def test_direct_answers_are_right_at_once():
    env = gym.make("agent_envs:agent_envs/SearchQA-v0", **{**SEARCH, "max_generations": 1})
    found = list(direct_answers(env, "train", 5))
    assert len(found) == 5
    for episode in found:
        (turn,) = episode.turns
        assert episode.success and turn.action == f"<answer>{episode.task.gold[0]}</answer>"
    sums = list(direct_answers(gym.make("agent_envs:agent_envs/Arithmetic-v0"), "train", 5))
    assert len(sums) == 5 and all(len(episode.turns) == 1 for episode in sums)
    env.unwrapped.answer_tags = ("", "")
    with pytest.raises(UsageError, match="an answer has no tags"):
        list(direct_answers(env, "train", 1))


def test_recorded_episodes_are_imitated_as_text(tmp_path):
    env = gym.make("agent_envs:agent_envs/SearchQA-v0", **SEARCH)
    played = [
        run_episode(env, CompanionPolicy(kind), seed=n, task=n).trajectory
        for n in range(3)
        for kind in ("solver", "random")
    ]
    journal = Journal(tmp_path / "played.jsonl")
    for episode in played:
        foreign = tuple(replace(turn, token_ids=(1, 2), logprobs=(-1.0, -1.0)) for turn in episode.turns)
        journal.append(replace(episode, turns=foreign).to_json())
    journal.close()
    found = list(recordings(tmp_path / "played.jsonl", env, "train"))
    assert len(found) == 3 == sum(episode.success for episode in played)
    assert not any(turn.token_ids for episode in found for turn in episode.turns)


def test_only_actions_are_trained_unless_all_is_asked_for():
    chat = chat_for("SearchQA", json.dumps(SEARCH, sort_keys=True))
    env = gym.make("agent_envs:agent_envs/SearchQA-v0", **SEARCH)
    episode = run_episode(env, CompanionPolicy("solver"), seed=0, task=0).trajectory
    run = SimpleNamespace(encode=chat.sequences, max_context=512)  # all that rows are made with
    (row,) = rows_of([episode], run)
    written = [token for token, kept in zip(row.sequence.ids, row.sequence.trained, strict=True) if kept]
    wanted = [token for turn in episode.turns for token in (*chat.tokenizer.encode(turn.action), *chat.end_ids)]
    assert chat.decode(written) == "".join(str(turn.action) for turn in episode.turns)
    assert written.count(chat.end_ids[0]) == len(episode.turns) and len(written) == len(wanted)
    run.max_context = 10
    with pytest.raises(UsageError, match="too long"):
        rows_of([episode], run)


def test_published_answers_with_tools_are_imitated_without_their_results(tmp_path):
    """Of an answer in one text, as Tool-Star and ARPO publish them, what the policy would write is trained alone."""
    env = gym.make("agent_envs:agent_envs/SearchQA-v0", **SEARCH)
    actions = ["<search>who</search>", "<answer>Anna</answer>"]
    row = {"instruction": "", "input": "Who?", "output": f"{actions[0]}<result>Anna did.</result>{actions[1]}"}
    (tmp_path / "star.json").write_text(json.dumps([row]), encoding="utf-8")
    chat = chat_for("SearchQA", json.dumps(SEARCH, sort_keys=True))
    made = SimpleNamespace(encode=chat.sequences, max_context=2048)
    (found,) = rows_of(list(recordings(tmp_path / "star.json", env, "train")), made)
    written = [token for token, kept in zip(found.sequence.ids, found.sequence.trained, strict=True) if kept]
    assert chat.decode(written) == "".join(actions) and "Anna did." in chat.decode(found.sequence.ids)


def test_flaws_by_name_and_by_chance():
    assert flaws_of("none") == Flaws() and flaws_of("search") is SEARCH_FLAWS
    assert flaws_of('{"early": 0.5}') == Flaws(early=0.5)
    for text in ("many", '{"lazy": 1}', '{"early": 2}'):
        with pytest.raises(UsageError):
            flaws_of(text)


@pytest.mark.parametrize(
    "data, message", [("magic", "solver, direct, rejection"), ("none.jsonl", "there is no such file")]
)
def test_an_unknown_source_is_named_before_anything_is_made(tmp_path, capsys, data, message):
    with pytest.raises(SystemExit):
        run(tmp_path / "x", "--data", data)
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert NAMED_FLAWS.keys() == {"none", "search", "tools"} and not (tmp_path / "x").exists()
