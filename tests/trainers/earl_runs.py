"""Tiny runs of EARL on both faces of a task: what the tests of it have in common."""

from pathlib import Path
from types import SimpleNamespace

import torch
from accelerate import Accelerator

from tests.trainers.earl_parts.expanded.players import player_for
from tests.trainers.players import player
from trainers.command_line import parse
from trainers.earl import EARLSettings, train
from trainers.earl_parts.counterfactual.optimisation import CounterfactualSettings
from trainers.run import open_run
from trainers.settings import OptimSettings
from trainers.training.metrics import read_metrics
from trainers.training.optimise import Optimiser, Processes

UNTIMED = ("step_time", "cpu_seconds")
FEW = [
    "--model.name", "tiny:tiny", "--model.tokenizer-plays", "64", "--sampling.batch", "16", "--tasks-per-step", "4",
    "--group-size", "3", "--log.no-curves",
    "--optim.learning-rate", "0.001", "--evaluation.every", "0", "--evaluation.tasks", "4", "--evaluation.test-tasks", "4",
    "--log.checkpoint-every", "1", "--dual-clip", "0",
]  # fmt: skip
WARM = [
    "--warm-start.demonstrations", "20", "--warm-start.steps", "4", "--warm-start.rows-per-step", "10",
    "--warm-start.optim.learning-rate", "0.003",
]  # fmt: skip
CPO = ["--counterfactual.rule", "paper"]
SORT = [
    "--env.id", "SortExpA", "--env.arguments", '{"size": 2, "directions": "ascending", "max_actions": 12}',
    "--sampling.max-new-tokens", "40", "--sampling.max-context", "200",
]  # fmt: skip
COUNTDOWN = [
    "--env.id", "CountdownExpA", "--env.arguments", '{"numbers": 2, "digits": 1, "max_actions": 16, "env_prompt": false}',
    "--sampling.max-new-tokens", "24", "--sampling.max-context", "160",
]  # fmt: skip
ARITHMETIC = [
    "--env.id", "ArithmeticExpA", "--sampling.max-new-tokens", "24", "--sampling.max-context", "400",
    "--env.arguments", '{"digits": 1, "train_operations": 1, "test_operations": 1, "max_actions": 16}',
]  # fmt: skip
TEXT_SORT = [
    "--env.id", "Sort", "--env.arguments", '{"size": 2, "max_generations": 3}',
    "--sampling.max-new-tokens", "10", "--sampling.max-context", "300",
]  # fmt: skip
TEXT_COUNTDOWN = [
    "--env.id", "Countdown", "--env.arguments", '{"numbers": 2, "digits": 1, "max_generations": 2}',
    "--sampling.max-new-tokens", "10", "--sampling.max-context", "400",
]  # fmt: skip


def settings_of(out, *words, steps=2):
    """Return settings from words of the command line, and the folder."""
    return parse(EARLSettings, [*FEW, "--steps", str(steps), *words, "--out", str(out)], program="earl")


def run(out, *words, steps=2):
    """Train in this process and return the result."""
    settings, folder = settings_of(out, *words, steps=steps)
    with open_run(settings, folder) as opened:
        return train(settings, opened)


def curve(out):
    """Return the rows of a run's metrics that no clock has made."""
    rows = read_metrics(Path(out) / "metrics.jsonl")
    return [{name: value for name, value in row.items() if not name.startswith(UNTIMED)} for row in rows]


def without_clocks(result):
    """Return a result but for its time."""
    return {**result, "cpu_seconds": 0}


def bare_run(policy, model, chat, spec, **optim):
    """Return what a step of EARL needs of a run."""
    import gymnasium as gym
    from gymnasium.envs.registration import EnvSpec

    accelerator = Accelerator(cpu=True)
    parts = SimpleNamespace(
        model=model, chat=chat, policy=policy, spec=spec, device=torch.device("cpu"), temperature=1.0,
        accelerator=accelerator, processes=Processes(accelerator), environment=lambda: gym.make(EnvSpec.from_json(spec)),
        optimiser=Optimiser(model, OptimSettings(learning_rate=1e-3, max_grad_norm=0.0, **optim), 1),
    )  # fmt: skip
    return SimpleNamespace(parts=parts, step=0, memory={})


def expanded_run(env_id="CountdownExpA", limits=None, **arguments):
    """Return a bare run over an ExpA id, of random weights that choose expanded actions now and then."""
    given = player_for(env_id, "words", limits=limits, eager=1.0, ending=1.0, **arguments)
    return bare_run(*given)


def text_run(env_id="Countdown", arguments=None, **limits):
    """Return a bare run over a text face."""
    return bare_run(*player(env_id, arguments or {}, **limits))


def paper_settings(**changes):
    """Return settings with CPO."""
    counterfactual = CounterfactualSettings(**({"rule": "paper"} | changes.pop("counterfactual", {})))
    return EARLSettings(counterfactual=counterfactual, **({"token_budget": 2000, "dual_clip": 0.0} | changes))
