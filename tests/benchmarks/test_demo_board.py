"""The board of built-in agents: its commands in their order, and nothing done twice."""

import json
import tomllib

import gymnasium as gym

from benchmarks import agents, demo_board
from benchmarks.agents import Heuristics
from leaderboard.board import BoardSettings
from leaderboard.decisions import decide


def test_a_second_call_goes_on_where_the_first_ended(tmp_path, monkeypatch):
    steps, failing = [], {"pack"}

    def step(module, *words):
        """Do what a step leaves behind, and nothing else."""
        steps.append(" ".join([module.rpartition(".")[2], *(str(word) for word in words[:1])]))
        if words[0] == "eval" and "--out" in words:
            words[words.index("--out") + 1].mkdir(parents=True)
        if words[0] == "pack":
            if failing:
                return 3
            words[2].mkdir(parents=True)
            (words[2] / "manifest.json").write_text(json.dumps(str(words[2])))
        if words[0] == "add":
            decide(tmp_path / "board", demo_board.sha256_file(words[1] / "manifest.json"), "accepted", "", "me")
        return 0

    monkeypatch.setattr(demo_board, "_step", step)
    arguments = ["--out", str(tmp_path), "--agent", "null", "--agent", "random"]
    assert demo_board.main(arguments) == 3 and steps == ["agent_envs eval", "agent_envs pack"]
    failing.clear()
    steps.clear()
    assert demo_board.main(arguments) == 0
    assert steps == [*["agent_envs eval", "agent_envs pack", "leaderboard add"] * 2, "leaderboard build"]
    steps.clear()
    assert demo_board.main(arguments) == 0 and steps == ["leaderboard build"]
    settings = (tmp_path / "board" / "boards" / "demo.toml").read_text()

    assert BoardSettings.model_validate(tomllib.loads(settings)).suite == "demo@1"


def test_an_agent_may_have_options(tmp_path):
    command = next(demo_board.commands(tmp_path, (demo_board.REAL,)))
    assert command[:6] == ("agent_envs", "eval", "--suite", "demo@1", "--agent", "hf:smollm2-135m")
    assert command[6:8] == ("--agent-arg", "max_new_tokens=24") and command[-1] == tmp_path / "runs" / "0"
    command = next(demo_board.commands(tmp_path, ("'trained:a run'",)))
    assert command[5] == "trained:a run"


def test_the_heuristics_play_at_random_where_a_third_party_has_none(monkeypatch):
    env = gym.make("agent_envs/SearchQA-v0")
    assert Heuristics().begin(env).name == "heuristic"
    monkeypatch.setattr(agents, "companion", lambda env, kind: None)
    assert Heuristics().begin(env).name == "random"
