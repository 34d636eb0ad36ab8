"""The small Calc-Bench of the tiny preset."""

import json
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import trainers
from agent_envs.base.errors import UsageError
from agent_envs.core.env import core_of
from agent_envs.core.registry import full_id
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import CompanionPolicy

PRESET = Path(trainers.__file__).parent / "presets" / "grpo" / "tiny-calcbench.toml"


@pytest.fixture
def env() -> gym.Env[Any, Any]:
    settings = tomllib.loads(PRESET.read_text(encoding="utf-8"))["env"]
    return gym.make(full_id(settings["id"]), **json.loads(json.dumps(settings["arguments"])))


def test_the_first_tasks_of_every_split_hold_the_four_kinds_in_equal_parts(env: gym.Env[Any, Any]) -> None:
    source = core_of(env).source
    for split in source.splits:
        kinds = Counter(source.get(split, index).data.kind for index in range(200))
        assert set(kinds) == {"arithmetic", "countdown", "gsm8k_scaled", "count"}
        assert all(45 <= number <= 55 for number in kinds.values())


def test_the_arguments_make_every_kind_smaller(env: gym.Env[Any, Any]) -> None:
    source = core_of(env).source
    for task in (source.get("test", index) for index in range(200)):
        data = task.data
        given = {"arithmetic": 3, "countdown": 2, "count": 2}
        assert len(data.given) == given.get(data.kind, len(data.given))
        longest = {"arithmetic": 1, "countdown": 1, "gsm8k_scaled": 2, "count": 5}
        assert max(len(number) for number in data.given) <= longest[data.kind]


def test_the_solver_solves_each_task_within_the_turns(env: gym.Env[Any, Any]) -> None:
    for task in range(40):
        assert run_episode(env, CompanionPolicy("solver"), seed=task, split="test", task=task).success


def test_an_argument_out_of_range_is_refused() -> None:
    with pytest.raises(UsageError, match="digits"):
        gym.make(
            "trainers.tiny.small_calc_bench:trainers/SmallCalcBench-v0", arithmetic={"digits": 0}
        ).unwrapped.reset()
