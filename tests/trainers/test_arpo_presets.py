"""Presets of ARPO and its peers: the paper's numbers, environments that take their arguments, cells that are understood."""

import json

import gymnasium as gym
import pytest
import torch

from agent_envs.core.env import core_of
from agent_envs.core.registry import full_id
from agent_envs.envs.tool_reasoning.env import ToolReasoning
from benchmarks.sweeps import read_sweep, sweep_names
from trainers.advantages import turn_advantages
from trainers.arpo import ARPOSettings
from trainers.command_line import load_preset, parse, preset_names
from trainers.grpo import GRPOSettings

PAPER = ("arpo-qwen2.5-3b", "arpo-qwen2.5-7b", "arpo-llama3.1-8b")
DEEP = ("arpo-qwen3-8b-deepsearch", "arpo-qwen3-14b-deepsearch")
PEERS = ("toolreasoning-qwen2.5-7b", "clip-higher-qwen2.5-7b", "reinforce-pp-qwen2.5-7b")
TINY = ("tiny-searchqa", "tiny-minute", "tiny-toolreasoning")
SMALL = ("smollm2-toolreasoning", "smollm2-searchqa")


def test_the_presets_that_were_asked_for_are_there():
    assert set(preset_names("arpo")) == {*PAPER, *DEEP, *TINY, *SMALL}
    assert {*PEERS, "tiny-searchqa-clip-higher", "tiny-searchqa-reinforce-pp"} <= set(preset_names("grpo"))
    assert set(sweep_names("arpo")) == {"entropy", "roots", "budget", "credit", "window", "browser"}


@pytest.mark.parametrize("name", [*PAPER, *DEEP])
def test_the_papers_presets_have_its_numbers(name):
    settings = load_preset(ARPOSettings, "arpo", name)
    arguments, deep = json.loads(settings.env.arguments), name in DEEP
    assert (settings.group_size, settings.branching.roots, settings.branching.beam) == (16, 8, 2)
    assert (settings.branching.chance, settings.branching.weight, settings.branching.tokens) == (0.5, 0.2, 20)
    assert (settings.tasks_per_step, settings.tasks_per_step // settings.minibatches) == (128, 16)
    assert (settings.beta, settings.dual_clip, settings.entropy, settings.eps_high) == (0.0, 3.0, 0.0, 0.2)
    assert (settings.sampling.eval_temperature, settings.sampling.eval_top_p) == (0.6, 0.95)
    assert settings.sampling.max_episode_tokens == (10_000 if deep else 4_096)
    assert settings.sampling.max_context == (12_000 if deep else 1_536 + 4_096)
    assert arguments["max_generations"] - 1 == (6 if deep else 3) and arguments["reward"] == "hierarchical"
    assert settings.optim.learning_rate == 1e-6 and settings.branching.rule == "released"
    assert set(arguments) <= set(ToolReasoning().arguments) and settings.model.gradient_checkpointing
    assert ("browse" in arguments["tools"]) == deep


@pytest.mark.parametrize("name", PEERS)
def test_peers_differ_from_arpo_in_their_own_settings_alone(name):
    peer, ours = load_preset(GRPOSettings, "grpo", name), load_preset(ARPOSettings, "arpo", "arpo-qwen2.5-7b")
    assert (peer.env, peer.model, peer.sampling, peer.optim) == (ours.env, ours.model, ours.sampling, ours.optim)
    assert peer.group_size == ours.group_size and peer.steps == ours.steps


@pytest.mark.parametrize("name", TINY)
def test_tiny_presets_name_environments_that_take_their_arguments(name):
    settings = load_preset(ARPOSettings, "arpo", name)
    core = core_of(gym.make(full_id(settings.env.id), **json.loads(settings.env.arguments)))
    assert core.source.size("train") > 0 and settings.branching.roots * 2 == settings.group_size


@pytest.mark.parametrize("name", ["entropy", "roots", "budget", "credit", "window", "browser"])
def test_every_cell_of_a_sweep_is_understood(name, tmp_path):
    common, cells = read_sweep("arpo", name)
    assert len(cells) >= 2
    for number, cell in enumerate(cells):
        words = [*common, *cell.options, "--out", str(tmp_path / str(number))]
        settings, _ = parse(ARPOSettings, words, program="arpo")
        assert set(json.loads(settings.env.arguments)) <= set(core_of(gym.make(full_id(settings.env.id))).arguments)


def test_reinforce_plus_plus_standardises_returns_over_the_batch():
    """Returns 1, 0.5, 0, 0 (one row has one turn): mean 0.375, and groups are not asked."""
    rewards = torch.tensor([[0.5, 0.5], [0.0, 9.0], [0.0, 0.0]], dtype=torch.float64)
    reached = torch.tensor([[True, True], [True, False], [True, False]])
    found = turn_advantages(rewards, reached, [0, 1, 2], baseline="batch", eps=0.0)
    returns = torch.tensor([1.0, 0.5, 0.0, 0.0], dtype=torch.float64)
    wanted = (returns - returns.mean()) / returns.std()
    assert torch.allclose(found[reached], wanted) and found[1, 1] == 0 and found[2, 1] == 0
    flat = turn_advantages(torch.ones(3, 2, dtype=torch.float64) * 0, reached, baseline="batch")
    assert not flat.any()
