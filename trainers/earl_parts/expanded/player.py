"""`ExpandedPlayer` samples episodes with expanded actions token by token: environments in lock-step over one KV cache.

`run_many` asks a policy for turns; here the policy chooses tokens, and which of them are turns shows when they are there. So
the player steps environments itself, and makes of each planned episode the result that `run_many` would have made.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import takewhile
from typing import Any

import gymnasium as gym
import torch
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import UsageError
from agent_envs.core.env import core_of
from agent_envs.core.trajectory import Trajectory
from agent_envs.rollout.episode_runner import EpisodeResult, Planned
from agent_envs.services.run_services import Services
from trainers.contracts import Sampling, TokenSequence
from trainers.earl_parts.expa_head import language_model
from trainers.earl_parts.expanded.episodes import Run, Start, WalkingEpisode
from trainers.earl_parts.expanded.rollout import LockStep
from trainers.earl_parts.expanded.sequences import ExpandedChat
from trainers.engines.decode import check_sampling
from trainers.engines.kv_cache import check_cacheable, evaluating
from trainers.tokens import ChatTokenizer
from trainers.training.heads import head_of

__all__ = ["ExpandedPlayer", "Run", "Start"]


class ExpandedPlayer:
    """Plays episodes with expanded actions by a model with an expanded head, and keeps them as tokens.

    Attributes:
        name: of the policy.
        batch: how many episodes are played at a time.
        sampled_tokens: decisions drawn so far, over all episodes: tokens and expanded actions.
        edited: texts that an environment recorded otherwise than they were sampled.
        services: what stands before the outside services of its environments.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        chat: ChatTokenizer,
        sampling: Sampling,
        *,
        name: str = "expanded",
        max_new_tokens: int = 1024,
        max_context: int = 4096,
        batch: int = 64,
        within: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        """Take a model, and refuse one whose cache could not be kept exactly.

        Args:
            model: with an expanded head (`attach_head`), on its device; nothing is kept of it between calls of `play`.
            chat: the tokenizer of conversations; the token that ends its turns is `end`.
            sampling: how tokens and actions are drawn.
            name: of the policy.
            max_new_tokens: after the prompt, whoever wrote them: sampled, descriptions, observations.
            max_context: with the prompt.
            batch: episodes at a time.
            within: entered around every use of the model: mixed precision.
        """
        head = head_of(model)
        if head is None:
            raise UsageError(f"{type(model).__name__} has no expanded head: attach_head() gives it one")
        if batch < 1:
            raise UsageError(f"batch={batch}: give at least 1")
        check_sampling(sampling)
        config = language_model(model).config.get_text_config(decoder=True)
        check_cacheable(config)
        self.name, self.batch = name, batch
        self.sampled_tokens = self.edited = 0
        self.services = Services()
        self._model, self._head, self._sampling, self._within = model, head, sampling, within
        self._words = ExpandedChat(chat, head.rows)
        self._new = max_new_tokens
        self._context = min(max_context, getattr(config, "max_position_embeddings", None) or max_context)
        self._envs: dict[str, list[gym.Env[Any, Any]]] = {}
        self._digests: dict[str, str] = {}
        self._played: dict[str, WalkingEpisode] = {}

    def play(self, plan: Sequence[Planned], starts: Mapping[str, Start] | None = None) -> dict[str, EpisodeResult]:
        """Play a plan and return its results by key, in its order.

        Results do not depend on what else is in the plan, or on `batch`, up to the rounding of floats.

        Args:
            plan: what is played, each key once. Episodes have the headers that `run_many` gives them.
            starts: where the episodes of some keys begin, in place of a reset.

        Raises:
            UsageError: keys repeat, or an environment's expanded actions are not those of the model's head.
            BudgetSpent: nothing may be paid any more.
        """
        if len({item.key for item in plan}) != len(plan):
            raise UsageError("play: episode keys repeat in the plan")
        results = {}
        for first in range(0, len(plan), self.batch):
            began = time.perf_counter()
            episodes = self._opened(plan[first : first + self.batch], starts or {})
            going = [episode for episode in episodes.values() if not episode.over]
            if going:
                with torch.inference_mode(), evaluating(self._model), self._within():
                    LockStep(self._model, self._head, going, self._sampling).run()
            for key, episode in episodes.items():
                results[key] = episode.result(time.perf_counter() - began)
                self.sampled_tokens += episode.decisions
                self.edited += episode.edited
            self._played |= episodes
        return results

    def sequences(self, key: str) -> list[TokenSequence]:
        """Return the tokens of an episode as they were sampled: one sequence; none where it never began."""
        episode = self._played[key]
        return [episode.tokens.sequence()] if episode.ids else []

    def rebuilt(self, trajectory: Trajectory) -> list[TokenSequence]:
        """Return the same tokens made from the record alone, whose environment one of the played plans has named."""
        if not trajectory.prompt:
            return []
        spec = self._digests.get(trajectory.header.spec_digest)
        if spec is None:
            raise UsageError(f"{trajectory.header.env_id}: the player has not played this environment")
        spoken = tuple(takewhile(lambda turn: turn.token_ids, trajectory.turns))
        played = replace(trajectory, turns=spoken)
        room = self._limit(len(self._words.opened(trajectory.prompt)))
        return [self._words.sequence(self._envs[spec][0], played, limit=room)]

    def demonstrated(
        self, trajectory: Trajectory, spec: str, tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[TokenSequence]:
        """Return the tokens of an episode that somebody else played; the prompt tells what there is, and not `tools`."""
        return [self._words.sequence(self._env(spec, 0), trajectory)]

    def moments(self, key: str) -> list[Run]:
        """Return the stretches of language of an episode, with the environment at the beginning of each.

        Those before the `Start` of an episode are not among them.
        """
        return list(self._played[key].runs)

    def forget(self) -> None:
        """Drop all episodes."""
        self._played.clear()

    def _limit(self, prompt: int) -> int:
        """How many tokens may follow a prompt of so many."""
        return max(0, min(self._new, self._context - prompt))

    def _opened(self, plan: Sequence[Planned], starts: Mapping[str, Start]) -> dict[str, WalkingEpisode]:
        taken: dict[str, int] = {}
        episodes = {}
        for item in plan:
            place = taken.get(item.spec, 0)
            env = self._env(item.spec, place)
            core = core_of(env)
            core.services = self.services
            taken[item.spec] = place + (item.key not in starts)
            start = starts.get(item.key)
            episode = episodes[item.key] = WalkingEpisode(self._words, start.env if start else env, item)
            episode.begin(start, self._limit)
        return episodes

    def _env(self, spec: str, place: int) -> gym.Env[Any, Any]:
        """Return an environment of the pool; each is made once and checked."""
        pool = self._envs.setdefault(spec, [])
        if place == len(pool):
            env = gym.make(EnvSpec.from_json(spec))
            self._digests[self._words.check(env).spec_digest] = spec
            pool.append(env)
        return pool[place]
