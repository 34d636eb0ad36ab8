"""A training run is made of the parts that stand here as one record, and made here from the run's settings.

Environments, model, tokenizer, engine, players, optimiser and processes: what a run does with them is `TrainingRun`'s matter.
"""

import contextlib
import ctypes
import json
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import UsageError
from agent_envs.core.registry import full_id
from agent_envs.core.trajectory import Trajectory
from trainers.contracts import Engine, Sampling, TokenSequence
from trainers.environments import Settings, arenas_of
from trainers.further_actions import further_actions
from trainers.mixture import Arena, members_of, shares
from trainers.sampling import Player
from trainers.settings import WarmStartSettings
from trainers.stacks import stacks_of
from trainers.tokens import ChatTokenizer
from trainers.training.heads import head_of
from trainers.training.models import compute_dtype, load_model, make_accelerator, save_model
from trainers.training.optimise import Optimiser, same_weights
from trainers.training.processes import Processes

TINY = "tiny:"
TOLERANCES = {"float32": 1e-3, "bfloat16": 0.2}  # of an engine's logprobs after a sync
M_ARENA_MAX = -8  # of glibc's malloc.h


@dataclass(frozen=True)
class RunParts:
    """What a run is made of.

    Attributes:
        out: its folder.
        processes: that train together.
        arenas: the environments that are trained on, by their full ids; one, or those of `env.mixture`.
        main: of them that of `env.id`.
        model: that is trained.
        chat: tokens of conversations.
        engine: samples; it shares the model, or has a copy that `TrainingRun.weights_changed` keeps up.
        policy: plays training episodes.
        judged: plays as it is measured: greedily, say.
        optimiser: of the model.
        constant: tokens that are whole texts of prompts; a warm start leaves out those that no demonstration says.
        train_split: of the environments.
        max_context: tokens of a conversation.
        temperature: at which logprobs are computed: that of sampling.
        seed: of the run.
    """

    out: Path
    processes: Processes
    arenas: dict[str, Arena]
    main: Arena
    model: Any
    chat: ChatTokenizer
    engine: Engine
    policy: Player
    judged: Player
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
        """Where the model is."""
        return self.processes.device

    @property
    def bare(self) -> Any:
        """The model without what accelerate may have put around it."""
        return self.accelerator.unwrap_model(self.model)

    @property
    def spec(self) -> str:
        """The environment of `env.id`, as JSON."""
        return self.main.spec

    @property
    def train_size(self) -> int:
        """How many training tasks the environment of `env.id` has."""
        return self.main.size

    def environment(self) -> gym.Env[Any, Any]:
        """Return a new environment of the run's kind."""
        return gym.make(EnvSpec.from_json(self.spec))

    def shared_out(self, count: int) -> list[tuple[gym.Env[Any, Any], int]]:
        """Return the environments without the wrappers of `env.wrappers`, each with its share of so many episodes."""
        weights = [arena.weight for arena in self.arenas.values()]
        parts = zip(self.arenas.values(), shares(weights, count, self.seed, 0), strict=True)
        return [(gym.make(EnvSpec.from_json(arena.bare)), part) for arena, part in parts]

    def encoded(self, episode: Trajectory) -> list[TokenSequence]:
        """Return an episode that somebody played as tokens, as the policy would have had them."""
        arena = self.arenas.get(episode.header.env_id, self.main)
        return self.policy.demonstrated(episode, arena.spec, arena.tools)


def made_parts(settings: Settings, out: Path, updates: int) -> RunParts:
    """Return the parts of a run; `updates` is how many gradient steps the schedule of the learning rate spans.

    Raises:
        UsageError: a setting does not fit; the message names it.
    """
    processes = Processes(make_accelerator(settings.model))
    accelerator = processes.accelerator
    if processes.device.type == "cpu":
        torch.set_num_threads(1)  # two were seven times slower on busy machines
    with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)  # episodes play in many short-lived threads, each with an arena
    arenas = arenas_of(settings)
    main = arenas[full_id(settings.env.id)]
    env = gym.make(EnvSpec.from_json(main.bare))
    model, chat, constant = made_model(settings, accelerator)
    if (further := further_actions(env)) is not None:
        further.give_head(model, chat, env, settings.model.name, settings.model.expanded_start)
    same_weights(model, accelerator)
    bare = accelerator.unwrap_model(model)
    engine = made_engine(settings, bare, chat, accelerator, out)
    policy, judged = made_policies(settings, bare, engine, chat, env, accelerator.autocast)
    return RunParts(
        out=out,
        processes=processes,
        arenas=arenas,
        main=main,
        model=model,
        chat=chat,
        engine=engine,
        policy=policy,
        judged=judged,
        optimiser=Optimiser(model, settings.optim, updates),
        constant=constant,
        train_split=settings.env.train_split,
        max_context=settings.sampling.max_context,
        temperature=settings.sampling.temperature,
        seed=settings.seed,
    )


def made_model(settings: Settings, accelerator: Any) -> tuple[Any, ChatTokenizer, frozenset[int]]:
    """Return the model on its device and the tokenizer of its conversations; `tiny:SIZE` is made here, from nothing.

    The third are the tokens of a tiny model that are whole texts of prompts, which its policy may be kept from saying.

    Raises:
        UsageError: no such model, or a tiny one is to have an adapter.
    """
    name, wanted = settings.model.name, settings.sampling.template
    if not name.startswith(TINY):
        model, tokenizer = load_model(settings.model, accelerator.device, settings.seed)
        return model, ChatTokenizer(tokenizer, wanted), frozenset()
    if settings.model.lora_rank or settings.model.gradient_checkpointing:
        raise UsageError(f"model.name={name!r}: tiny models are trained whole, without LoRA and checkpointing")
    from trainers.tiny import tiny_model

    forces = hasattr(settings, "counterfactual")  # EARL's forces tags, and its baselines share its tokenizer
    start = getattr(settings, "warm_start", WarmStartSettings())
    envs = [(member.name, member.env.arguments) for member in members_of(settings.env)]
    if (first := getattr(settings, "curriculum", None)) is not None and first.steps:
        envs.append((first.id, first.arguments))
    how = (forces, settings.model.numerals, settings.model.tokenizer_plays, start.stacks)
    fitted = _fitted(tuple(envs), *how)
    tokenizer = deepcopy(fitted.tokenizer)
    tied = settings.sampling.engine != "vllm"  # its build for CPUs cannot reload a head that is the embedding
    model = tiny_model(tokenizer, name.removeprefix(TINY), seed=settings.seed, tied=tied)
    chat = ChatTokenizer(tokenizer, "chatml" if wanted == "auto" else wanted)
    return model.to(accelerator.device), chat, fitted.constant if tied and not forces else frozenset()


@lru_cache(maxsize=16)
def _fitted(envs: tuple[tuple[str, str], ...], tags_apart: bool, numerals: str, plays: int, stacks: str) -> Any:
    """Return the tokenizer of environments; a process that trains on them again need not play thousands of episodes again."""
    from trainers.tiny import environment_tokenizer

    (env_id, arguments), *others = [(name, json.loads(text)) for name, text in envs]
    how: dict[str, Any] = {"tags_apart": tags_apart, "numerals": numerals, "plays": plays}
    how["stacks"] = [stack.rows for stack in stacks_of(stacks, "warm_start.stacks")]
    return environment_tokenizer(env_id, **how, others=others, **arguments)


def made_engine(settings: Settings, model: Any, chat: ChatTokenizer, accelerator: Any, out: Path) -> Engine:
    """Return the engine; vLLM's is not synced yet.

    Raises:
        UsageError: vLLM in several processes, or for expanded actions.
    """
    sampling, lora = settings.sampling, settings.model.lora_rank
    own = getattr(model.generation_config, "eos_token_id", None)
    found = own if isinstance(own, list) else [own, chat.tokenizer.eos_token_id]
    ends = sorted({*chat.end_ids, *(number for number in found if number is not None)})
    if sampling.engine == "hf":
        from trainers.engines import HFEngine

        return HFEngine(model, chat.tokenizer, batch=sampling.batch, eos_ids=ends)
    if head_of(model) is not None:
        raise UsageError("sampling.engine=vllm samples text alone; expanded actions are played with hf")
    if accelerator.num_processes > 1:
        raise UsageError("sampling.engine=vllm works in one process here; with several use hf")
    from trainers.engines import VLLMEngine

    folder = out / "engine"
    if lora:
        chat.tokenizer.save_pretrained(folder)
    else:
        save_model(model, chat.tokenizer, folder, template=chat.template)
    dtype = str(compute_dtype(settings.model)).removeprefix("torch.")
    return VLLMEngine(
        settings.model.name if lora else folder,
        tokenizer=folder,
        batch=sampling.batch,
        eos_ids=ends,
        max_length=sampling.max_context,
        lora_rank=lora,
        dtype=dtype,
        tolerance=sampling.sync_tolerance or TOLERANCES[dtype],
        memory_share=sampling.memory_share,
    )


def made_policies(
    settings: Settings, model: Any, engine: Engine, chat: ChatTokenizer, env: gym.Env[Any, Any], within: Any
) -> tuple[Player, Player]:
    """Return the policy that plays training episodes of environments such as `env`, and the one that is measured."""
    wanted = settings.sampling
    training = Sampling(wanted.temperature)
    judged = replace(training, temperature=wanted.eval_temperature, top_k=wanted.eval_top_k, top_p=wanted.eval_top_p)
    longest = getattr(model.config, "max_position_embeddings", wanted.max_context)
    limits: dict[str, Any] = {
        "max_new_tokens": wanted.max_new_tokens,
        "max_context": min(wanted.max_context, longest),
        "batch": wanted.batch,
        "within": within,
    }
    named = (("training", training), ("evaluation", judged))
    if (further := further_actions(env)) is not None:
        players = [further.player(model, chat, drawn, name=name, **limits) for name, drawn in named]
        return players[0], players[1]
    from trainers.engine_policy import EnginePolicy

    limits["max_episode_tokens"] = wanted.max_episode_tokens
    policies = [EnginePolicy(engine, chat, drawn, name=name, **limits) for name, drawn in named]
    return policies[0], policies[1]
