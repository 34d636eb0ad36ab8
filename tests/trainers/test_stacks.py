"""Wrappers around environments, as settings name them: in training, in measuring, in demonstrations."""

import json

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import UsageError
from agent_envs.base.jsonl_log import read_journal
from agent_envs.core.env import TurnWrapper
from agent_envs.wrappers import Memory, TurnLimit
from tests.trainers.players import SEARCH
from tests.trainers.test_training_run import SMALL, run
from trainers.command_line import parse
from trainers.environments import EnvStack, environment_spec, stacks_of, wrap, wrapper_rows
from trainers.grpo import GRPOSettings
from trainers.imitation.imitating import warm_start_episodes
from trainers.run import open_run
from trainers.tiny.fitting import environment_tokenizer


class Shouting(TurnWrapper):
    """Stands for somebody's own wrapper."""


def test_rows_are_put_around_from_the_inside_out():
    rows = wrapper_rows('[{"Memory": {"turns": 1}}, {"TurnLimit": {"turns": 2}}]', "env.wrappers")
    env = wrap(gym.make("agent_envs:agent_envs/SearchQA-v0", **SEARCH), rows)
    assert type(env) is TurnLimit and type(env.env) is Memory and env.turns == 2 and env.env.turns == 1
    own = wrap(env, [("tests.trainers.test_stacks:Shouting", {})])
    assert type(own).__name__ == "Shouting" and own.env is env
    again = gym.make(EnvSpec.from_json(environment_spec("SearchQA", SEARCH, rows)))
    assert type(again) is TurnLimit and type(again.env) is Memory


@pytest.mark.parametrize("text", ["", "{}x", '{"TurnLimit": {}}', '["TurnLimit"]', '[{"TurnLimit": 4}]', "3", "null"])
def test_what_is_no_list_of_wrappers_is_one_line(text):
    with pytest.raises(UsageError, match="env.wrappers=.*a JSON list of wrappers is needed"):
        wrapper_rows(text, "env.wrappers")


@pytest.mark.parametrize("row", [("Limit", {}), ("TurnLimit", {"turn": 1}), ("nowhere:Class", {}), ("json:Class", {})])
def test_a_wrapper_that_is_not_there_names_those_that_are(row):
    with pytest.raises(UsageError, match="no wrapper .*ForcedAnswer.*TurnLimit"):
        wrap(gym.make("agent_envs:agent_envs/SearchQA-v0"), [row])


def test_stacks_are_lists_of_rows():
    limit = [("TurnLimit", {"turns": 4})]
    assert stacks_of('[[], [{"TurnLimit": {"turns": 4}}]]', "s") == [EnvStack([]), EnvStack(limit)]
    own = '[{"wrappers": [{"TurnLimit": {"turns": 4}}], "flaws": {"early": 0.5}}, {"wrappers": [], "flaws": "tools"}]'
    assert stacks_of(own, "s") == [EnvStack(limit, '{"early": 0.5}'), EnvStack([], "tools")]
    for text in ("[]", "x", "3", '[{"TurnLimit": {"turns": 4}}]', '[{"flaws": {}}]', '[{"wrappers": [], "flaw": {}}]'):
        with pytest.raises(UsageError, match="s=.*a JSON list of lists is needed"):
            stacks_of(text, "s")
    with pytest.raises(UsageError, match="a JSON list of wrappers is needed"):
        stacks_of('[["TurnLimit"]]', "s")


def test_a_tokenizer_knows_the_words_of_all_stacks():
    said = "Feedback:"
    stacks = ((), (("VerbalFeedback", {"feedback": "scripted:weak", "epsilon": 0.5}),))
    bare = environment_tokenizer("SearchQA", plays=12, **SEARCH).tokenizer
    both = environment_tokenizer("SearchQA", plays=12, stacks=stacks, **SEARCH).tokenizer
    assert len(both.encode(f"{said} Think about")) < len(bare.encode(f"{said} Think about"))


def test_a_run_is_trained_and_measured_within_its_wrappers_and_measured_bare(tmp_path):
    limit = json.dumps([{"TurnLimit": {"turns": 1}}])
    tests = json.dumps({"one": {}, "all": {"wrappers": []}})
    words = ["--env.wrappers", limit, "--env.tests", tests, "--log.episodes"]
    result = run(tmp_path / "run", *words, steps=2)
    rows = read_journal(tmp_path / "run" / "episodes-0.jsonl")
    turns = [len(row["trajectory"]["turns"]) for row in rows if "trajectory" in row]
    assert len(turns) == 32 and set(turns) == {1} and result["env_steps"] == 32
    assert result["before"]["turns"] == result["after"]["turns"] == 1
    assert result["bare"]["after"]["turns"] > 1 and result["bare"]["gain"]["interval"][0] <= 1
    told = {name: {key: value for key, value in row.items() if key != "split"} for name, row in result["tests"].items()}
    assert told == {"one": result["after"], "all": result["bare"]["after"]}  # not played again
    metrics = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert "eval/success" in metrics and "eval_bare/success" in metrics


def test_demonstrations_are_shared_out_among_stacks(tmp_path):
    """The second half of 40 demonstrations is played with feedback; no two are of one number."""
    stacks = '[{"wrappers": [], "flaws": {"early": 1.0}}, [{"VerbalFeedback": {"feedback": "scripted:weak"}}]]'
    words = [*SMALL, "--warm-start.stacks", stacks, "--out", str(tmp_path / "run")]
    settings, out = parse(GRPOSettings, words, program="grpo")
    with open_run(settings, out) as opened:
        shown = list(warm_start_episodes(settings.warm_start, opened, 0))
    assert [one.header.seed for one in shown] == list(range(40))
    assert [one.prompt[-1].author == "feedback" for one in shown] == [False] * 20 + [True] * 20
    assert not any(one.success for one in shown[:20]) and all(one.success for one in shown[20:])


def test_a_run_ends_with_its_turns(tmp_path):
    result = run(tmp_path / "run", "--most-env-steps", "20", steps=4)
    assert result["env_steps"] >= 20 and result["steps"] < result["planned_steps"] == 4
