"""A training run is made of the environment, model, engine and players that its settings name."""

import contextlib
import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import UsageError
from agent_envs.core.registry import full_id
from agent_envs.core.trajectory import Trajectory
from agent_envs.core.wrapper_stack import core_of
from agent_envs.envs.expa import ExpandedActionEnv
from agent_envs.rollout.run_log import Planned
from trainers.assembling import Settings, environment_specs, made_engine, made_model, made_policies, with_further_head
from trainers.contracts import TokenSequence
from trainers.mixture import Arena, members_of, shares
from trainers.sampling import Group, play_groups
from trainers.training.models import make_accelerator
from trainers.training.optimise import Optimiser, same_weights
from trainers.training.processes import Processes, one_budget

M_ARENA_MAX = -8  # of glibc's malloc.h


class RunParts(Processes):
    """The parts of a run.

    Attributes:
        out: its folder.
        model: that is trained.
        chat: tokens of conversations.
        engine: samples; it shares the model, or has a copy that `weights_changed` keeps up.
        policy: plays training episodes.
        judged: plays as it is measured: greedily, say.
        optimiser: of the model.
        arenas: the environments that are trained on, by their full ids; one, or those of `env.mixture`.
        train_split: of the environments.
        max_context: tokens of a conversation.
        temperature: at which logprobs are computed: that of sampling.
    """

    def __init__(self, settings: Settings, out: Path, updates: int) -> None:
        """Make them; `updates` is how many gradient steps the schedule of the learning rate spans.

        Raises:
            UsageError: a setting does not fit; the message names it.
        """
        self.out, self._settings = out, settings
        self.train_split = settings.env.train_split
        self.accelerator = make_accelerator(settings.model)
        self.device = self.accelerator.device
        if self.device.type == "cpu":
            torch.set_num_threads(1)  # two were seven times slower on busy machines
        with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)  # episodes play in many short-lived threads, each with an arena
        self.arenas = self._arenas()
        self._main = self.arenas[full_id(settings.env.id)]
        env = self.environment(bare=True)
        self.model, self.chat = made_model(settings, self.accelerator)
        with_further_head(settings, self.model, self.chat, env)
        same_weights(self.model, self.accelerator)
        self.temperature = settings.sampling.temperature
        self.max_context = settings.sampling.max_context
        self.engine = made_engine(settings, self.bare, self.chat, self.accelerator, out)
        players = settings, self.bare, self.engine, self.chat, env, self.accelerator.autocast
        self.policy, self.judged = made_policies(*players)
        self.optimiser = Optimiser(self.model, settings.optim, updates)

    @property
    def bare(self) -> Any:
        """The model without what accelerate may have put around it."""
        return self.accelerator.unwrap_model(self.model)

    def _arenas(self) -> dict[str, Arena]:
        """Return what is trained on; several only where the trainer takes groups of all of them."""
        members, parts = members_of(self._settings.env), dict[str, Arena]()
        trained, bare = (environment_specs(self._settings, bare=bare)[0] for bare in (False, True))
        if len(members) > 1 and not getattr(self._settings, "MIXES", False):
            raise UsageError("env.mixture: trainers.grpo and trainers.veg alone train on several environments")
        for member, (_, spec), (_, bare_spec) in zip(members, trained, bare, strict=True):
            env = gym.make(EnvSpec.from_json(bare_spec))
            if len(members) > 1 and isinstance(core_of(env), ExpandedActionEnv):
                raise UsageError(f"env.mixture: {member.name}: expanded actions are of one environment alone")
            _, info = env.reset(seed=0, options={"split": self.train_split, "task": 0})
            size, tools = core_of(env).source.size(self.train_split), tuple(info["tools"])
            parts[full_id(member.name)] = Arena(member.weight, spec, bare_spec, size, tools)
        return parts

    @property
    def spec(self) -> str:
        """The environment of `env.id`, as JSON."""
        return self._main.spec

    @property
    def train_size(self) -> int:
        """How many training tasks the environment of `env.id` has."""
        return self._main.size

    def encoded(self, episode: Trajectory) -> list[TokenSequence]:
        """Return an episode that somebody played as tokens, as the policy would have had them."""
        arena = self.arenas.get(episode.header.env_id, self._main)
        return self.policy.demonstrated(episode, arena.spec, arena.tools)

    def environment(self, *, bare: bool = False) -> gym.Env[Any, Any]:
        """Return a new environment of the run's kind; `bare`: without the wrappers of `env.wrappers`."""
        return gym.make(EnvSpec.from_json(self._main.bare if bare else self._main.spec))

    def shared_out(self, count: int) -> list[tuple[gym.Env[Any, Any], int]]:
        """Return the bare environments, each with its share by weight of so many episodes."""
        weights = [arena.weight for arena in self.arenas.values()]
        parts = zip(self.arenas.values(), shares(weights, count, self._settings.seed, 0), strict=True)
        return [(gym.make(EnvSpec.from_json(arena.bare)), part) for arena, part in parts]

    def played(self, plan: Sequence[Planned], together: int) -> list[Group]:
        """Play this process's share of a step's groups, each of so many episodes.

        Raises:
            BudgetSpent: an episode is missing because nothing may be paid any more, here or in another process.
            AgentEnvsError: every episode ended in a fault.
        """
        with one_budget():
            return play_groups(self.share(plan, together=together), self.policy)

    def weights_changed(self) -> None:
        """Tell the engine: caches are dropped; a copy of the weights is brought up to date, and checked."""
        if hasattr(self.engine, "sync"):
            with self.accelerator.autocast():
                self._gap = self.engine.sync(self.bare)
        self.engine.forget()
