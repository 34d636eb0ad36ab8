"""A run is made of these parts: model, tokenizer, engine, players and optimiser, built from its settings."""

import contextlib
import ctypes
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import UsageError
from agent_envs.core.registry import full_id
from agent_envs.core.trajectory import Trajectory
from trainers.contracts import Engine, TokenSequence
from trainers.environments import TrainEnvironment, train_environments
from trainers.expanded_actions import expanded_parts
from trainers.sampling import Player, shares
from trainers.settings import RunSettings
from trainers.tokens import ChatTokenizer
from trainers.training.models import build_model, make_accelerator
from trainers.training.optimise import Optimiser, Processes, same_weights

M_ARENA_MAX = -8  # of glibc's malloc.h


@dataclass(frozen=True)
class RunParts:
    """The parts of a run.

    Attributes:
        out: its folder.
        processes: that train together.
        environments: the environments that are trained on, by their full ids; one, or those of `env.mixture`.
        main: of them that of `env.id`.
        model: that is trained.
        chat: tokens of conversations.
        engine: samples; it shares the model, or has a copy that `TrainingRun.weights_changed` keeps up.
        policy: plays training episodes.
        eval_policy: plays as it is measured: greedily, say.
        optimiser: of the model.
        constant: tokens that are whole texts of prompts; a warm start leaves out those that no demonstration says.
        train_split: of the environments.
        max_context: tokens of a conversation.
        temperature: at which logprobs are computed: that of sampling.
        seed: of the run.
    """

    out: Path
    processes: Processes
    environments: dict[str, TrainEnvironment]
    main: TrainEnvironment
    model: Any
    chat: ChatTokenizer
    engine: Engine
    policy: Player
    eval_policy: Player
    optimiser: Optimiser
    constant: frozenset[int]
    train_split: str
    max_context: int
    temperature: float
    seed: int

    @property
    def accelerator(self) -> Any:
        """Accelerate's: device, mixed precision, processes."""
        return self.processes.accelerator

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.processes.device

    @property
    def bare(self) -> Any:
        """The model without accelerate's wrappers."""
        return self.accelerator.unwrap_model(self.model)

    @property
    def spec(self) -> str:
        """The environment of `env.id`, as JSON."""
        return self.main.spec

    @property
    def train_size(self) -> int:
        """The number of training tasks of the environment of `env.id`."""
        return self.main.size

    def environment(self) -> gym.Env[Any, Any]:
        """Return a new environment of `env.id`, in the run's wrappers."""
        return gym.make(EnvSpec.from_json(self.spec))

    def share_episodes(self, count: int) -> list[tuple[gym.Env[Any, Any], int]]:
        """Make each environment without `env.wrappers`; return each with its share of `count` by the mixture's weights."""
        weights = [environment.weight for environment in self.environments.values()]
        parts = zip(self.environments.values(), shares(weights, count, self.seed, 0), strict=True)
        return [(gym.make(EnvSpec.from_json(environment.bare)), part) for environment, part in parts]

    def encode(self, episode: Trajectory) -> list[TokenSequence]:
        """Encode another agent's episode as the tokens that the policy would have seen."""
        environment = self.environments.get(episode.header.env_id, self.main)
        return self.policy.demonstration_tokens(episode, environment.spec, environment.tools)


def build_parts(settings: RunSettings, out: Path) -> RunParts:
    """Build a run's parts from its settings, with one torch thread on a CPU; UsageError for a setting that does not fit.

    Raises:
        UsageError: a setting does not fit; the message names it.
    """
    from trainers.engine_policy import build_engine, build_policies  # who only reads an algorithm meets no player

    _check_graphs(settings, settings.env.id)
    processes = Processes(make_accelerator(settings.model))
    accelerator = processes.accelerator
    if accelerator.is_main_process:  # the first line of a run: what follows takes long where a tokenizer is fitted
        print(f"{out}: environments, model and engine are set up on {processes.device}", file=sys.stderr, flush=True)
    if processes.device.type == "cpu":
        torch.set_num_threads(1)  # two were seven times slower on busy machines
    with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)  # environments step in many short-lived threads, each with an arena
    environments = train_environments(settings)
    main = environments[full_id(settings.env.id)]
    env = gym.make(EnvSpec.from_json(main.bare))
    _check_graphs(settings, env)  # an id of one's own may not say that actions are expanded
    model, chat, constant = build_model(settings, accelerator)
    if (expanded := expanded_parts(env)) is not None:
        expanded.give_head(model, chat, env, settings.model.name)
    same_weights(model, accelerator)
    bare = accelerator.unwrap_model(model)
    engine = build_engine(settings, bare, chat, accelerator, out)
    policy, eval_policy = build_policies(settings, bare, engine, chat, env, accelerator.autocast)
    return RunParts(
        out=out,
        processes=processes,
        environments=environments,
        main=main,
        model=model,
        chat=chat,
        engine=engine,
        policy=policy,
        eval_policy=eval_policy,
        optimiser=Optimiser(model, settings.optim, settings.updates),
        constant=constant,
        train_split=settings.env.train_split,
        max_context=settings.sampling.max_context,
        temperature=settings.sampling.temperature,
        seed=settings.seed,
    )


def _check_graphs(settings: RunSettings, env: gym.Env[Any, Any] | str) -> None:
    """Raise UsageError for `sampling.graphs` without a GPU, or where an environment, or its id, has expanded actions."""
    if settings.sampling.graphs and expanded_parts(env) is not None:
        raise UsageError("sampling.graphs: expanded actions are played without CUDA graphs; leave it out")
    if settings.sampling.graphs and not torch.cuda.is_available():
        raise UsageError("sampling.graphs: CUDA graphs need a GPU, and there is none; leave it out")
