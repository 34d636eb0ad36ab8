"""Presets of a small pretrained model: their demonstrations hold valid turns, and succeed often enough and not always."""

import json

import gymnasium as gym
import pytest

from agent_envs.core.registry import full_id
from agent_envs.evaluation.runs.measures import valid_turn
from tests.needs import needs
from trainers.arpo import ARPOSettings
from trainers.command_line import load_preset
from trainers.earl import EARLSettings
from trainers.grpo import GRPOSettings
from trainers.imitation.imitating import solutions
from trainers.veg import VEGSettings
from trainers.verlog import VerlogSettings

PRESETS = [("grpo", GRPOSettings, "smollm2-searchqa"), ("veg", VEGSettings, "smollm2-veg"),
           ("arpo", ARPOSettings, "smollm2-toolreasoning"), ("arpo", ARPOSettings, "smollm2-searchqa"),
           ("earl", EARLSettings, "smollm2-arithmetic"),
           pytest.param("verlog", VerlogSettings, "smollm2-babyai", marks=needs("[babyai]"))]  # fmt: skip


@pytest.mark.parametrize(("program", "kind", "name"), PRESETS)
def test_what_a_warm_start_shows_is_valid_and_leaves_something_to_learn(program, kind, name):
    settings = load_preset(kind, program, name)
    env = gym.make(full_id(settings.env.id), **json.loads(settings.env.arguments))
    episodes = list(solutions(env, 100, settings.warm_start.flaws, settings.env.train_split, 0))
    turns = [valid_turn(turn) for episode in episodes for turn in episode.turns]
    assert sum(turns) / len(turns) >= 0.92
    assert 0.15 <= sum(episode.success for episode in episodes) / len(episodes) <= 0.75
    start = settings.warm_start
    assert settings.model.name == "smollm2-135m" and not settings.model.lora_rank and start.demonstrations >= 400
    assert start.steps >= 60 and start.optim.learning_rate == 5e-5 and not start.settling.every
