"""First turns by a model: judged by strict and tolerant readers where they stand, copies apart, and resumed from a journal."""

import json
import sys

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.core.registry import TABLE
from agent_envs.rollout.policy import Reply
from benchmarks import first_turns
from benchmarks.first_turns import IDS, report, shares
from tests.needs import needs


class Scripted:
    """A stand-in for the model: it plays the same turns of each episode, and notes who went on from whose prompt."""

    more = {"token_ids": (1,), "usage": {"input": 9, "output": 1}}

    def __init__(self, *turns):
        self.turns, self.forks, self.batches = turns, [], []

    def fork(self, origin, new):
        self.forks.append((origin, new))

    def forget(self):
        self.forks.append("forgotten")

    def act(self, requests):
        self.batches.append([request.episode_key for request in requests])
        return [Reply(self.turns[request.turn - 1], **self.more) for request in requests]


@pytest.fixture
def benchmark(tmp_path, monkeypatch, capsys):
    def run(agent, *words):
        monkeypatch.setattr(first_turns, "make_agent", lambda name, **options: agent)
        out = ["--journal", str(tmp_path / "j.jsonl"), "--out", str(tmp_path / "out.json")]
        monkeypatch.setattr(sys, "argv", ["first_turns", *words, *out])
        first_turns.main()
        capsys.readouterr()
        return json.loads((tmp_path / "out.json").read_text())

    return run


def test_every_id_in_text_is_played():
    assert sorted(IDS) == sorted(row.name for row in TABLE if not row.name.endswith("ExpA"))


@needs("[babyai]")
def test_a_dialect_is_valid_for_tolerant_readers_alone(benchmark):
    agent = Scripted("ACTION: turn left now.", "ACTION: turn left")
    (line,) = benchmark(agent, "--ids", "BabyAI", "--examples", "0", "--tasks", "3", "--batch", "2")["rows"]
    assert (line["turns"], line["strict"], line["tolerant"], line["own"]) == (6, 0.5, 1.0, 1.0)
    assert agent.batches[::2] == [["BabyAI 0 0"], ["BabyAI 0 1", "BabyAI 0 2"]]
    assert agent.forks == ["forgotten", ("BabyAI 0 0", "BabyAI 0 1"), ("BabyAI 0 0", "BabyAI 0 2")]


def test_a_copy_of_an_example_is_no_turn_of_its_own(benchmark):
    worked = first_turns.worked_turns(
        first_turns.core_of(first_turns.gym.make(first_turns.full_id("Sort"), examples=1)), 1
    )
    (example,) = [message.content for message in worked if message.role == "assistant"]
    result = benchmark(Scripted(f" {example}\n", "no action"), "--ids", "Sort", "--tasks", "2", "--examples", "0", "1")
    without, line = result["rows"]
    assert (line["tolerant"], line["copies"], line["own"]) == (0.5, 1.0, 0.0)
    assert (without["tolerant"], without["copies"], without["own"]) == (0.5, 0.0, 0.5)
    assert result["replies"]["Sort"] == [json.dumps(f" {example}\n"), '"no action"', json.dumps(f" {example}\n")]


def test_an_action_that_was_cut_is_valid_for_no_reader(benchmark):
    agent = Scripted("<answer>Lond", "<answer>Lond")
    agent.more = {**agent.more, "outcome": "cut"}
    (line,) = benchmark(agent, "--ids", "SearchQA", "--tasks", "1", "--examples", "0", "--first", "3")["rows"]
    assert (line["strict"], line["tolerant"]) == (0, 0) and agent.batches[0] == ["SearchQA 0 3"]


def test_a_journal_is_gone_on_from(benchmark, tmp_path, monkeypatch):
    words = ("--ids", "Order", "--examples", "0", "--batch", "2")
    first = benchmark(Scripted("?", "?"), *words, "--tasks", "2")["rows"][0]
    agent = Scripted("?", "?")
    (line,) = benchmark(agent, *words, "--tasks", "3")["rows"]
    assert (first["turns"], line["turns"]) == (4, 6) and agent.batches == [["Order 0 2"]] * 2
    agent = Scripted()
    assert benchmark(agent, *words, "--tasks", "3")["rows"] == [line] and agent.batches == []
    with pytest.raises(UsageError, match="name another file"):
        benchmark(agent, *words, "--tokens", "7")


def test_shares_of_nothing_are_none():
    assert shares([])["own"] == 0 and report([]) == ([], {})
