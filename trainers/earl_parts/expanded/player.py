"""`ExpandedPlayer` samples episodes with expanded actions token by token: environments in lock-step over one KV cache.

`run_many` asks a policy for turns; here the policy chooses tokens, and which of them are turns shows when they are there. So
the player steps environments itself, and makes of each planned episode the result that `run_many` would have made. Every row
feeds a token in every pass: what it just chose, or the next token of what its last action appended, in which case it chooses
nothing. Heads are computed for rows that choose: the language head for those in language mode alone.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import UsageError
from agent_envs.core.env import core_of
from agent_envs.core.trajectory import Trajectory
from agent_envs.rollout.episode_runner import EpisodeResult, Planned
from agent_envs.services.run_services import Services
from trainers.contracts import Prefix, Sampling, TokenSequence
from trainers.earl_parts.expa_head import ExpandedHead, attach_head, load_head
from trainers.earl_parts.expanded.sequences import ExpandedChat, StartState, TextRun, WalkingEpisode, vocabulary_rows
from trainers.engines.decode import check_sampling, draw, uniforms
from trainers.engines.kv_cache import check_cacheable, evaluating, run_cached
from trainers.engines.prefill import DecodeRow, prefill
from trainers.engines.slots import ROOM, Slots
from trainers.tokens import ChatTokenizer
from trainers.training.forward import bare_model, extra_head, head_is_in


def give_head(model: Any, chat: ChatTokenizer, env: gym.Env[Any, Any], folder: str) -> None:
    """Give a model the output rows of expanded actions: those saved in a folder, where it has some, else new ones."""
    if head_is_in(Path(folder)):
        load_head(model, Path(folder))
        return
    width = bare_model(model).get_output_embeddings().weight.shape[0]
    attach_head(model, vocabulary_rows(env, chat, width))


class ExpandedPlayer:
    """Plays episodes with expanded actions by a model with an expanded head, and keeps them as tokens.

    Attributes:
        name: of the policy.
        batch: how many episodes are played at a time.
        sampled_tokens: decisions drawn so far, over all episodes: tokens and expanded actions.
        edited: texts that an environment recorded otherwise than they were sampled.
        services: what stands before the outside services of its environments.
        report: called with "episodes" and the share of a plan that is played.
    """

    def __init__(
        self, model: torch.nn.Module, chat: ChatTokenizer, sampling: Sampling, *, name: str = "expanded",
        max_new_tokens: int = 1024, max_context: int = 4096, batch: int = 64,
        within: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:  # fmt: skip
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
        head = extra_head(model)
        if batch < 1:
            raise UsageError(f"batch={batch}: give at least 1")
        check_sampling(sampling)
        config = bare_model(model).config.get_text_config(decoder=True)
        check_cacheable(config)
        self.name, self.batch = name, batch
        self.sampled_tokens = self.edited = 0
        self.services = Services()
        self.report: Callable[[str, float], None] = lambda stage, share: None
        self._model, self._head, self._sampling, self._within = model, head, sampling, within
        self._words = ExpandedChat(chat, head.rows)
        self._new = max_new_tokens
        self._context = min(max_context, getattr(config, "max_position_embeddings", None) or max_context)
        self._envs: dict[str, list[gym.Env[Any, Any]]] = {}
        self._digests: dict[str, str] = {}
        self._episodes: dict[str, WalkingEpisode] = {}

    def play(self, plan: Sequence[Planned], starts: Mapping[str, StartState] | None = None) -> dict[str, EpisodeResult]:
        """Play a plan and return its results by key, in its order; UsageError for keys twice or actions that the head lacks.

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
            episodes = self._open_episodes(plan[first : first + self.batch], starts or {})
            running = [episode for episode in episodes.values() if not episode.over]
            if running:
                with torch.inference_mode(), evaluating(self._model), self._within():
                    LockStep(self._model, self._head, running, self._sampling).run()
            for key, episode in episodes.items():
                results[key] = episode.result(time.perf_counter() - began)
                self.sampled_tokens += episode.decisions
                self.edited += episode.edited
            self._episodes |= episodes
            self.report("episodes", len(results) / len(plan))
        return results

    def sequences(self, key: str) -> list[TokenSequence]:
        """Return the tokens of an episode as they were sampled: one sequence; none where it never began."""
        episode = self._episodes[key]
        return [episode.tokens.sequence()] if episode.ids else []

    def rebuild(self, trajectory: Trajectory) -> list[TokenSequence]:
        """Return the tokens made anew from the record alone; [] without a prompt, UsageError for an environment not played."""
        if not trajectory.prompt:
            return []
        spec = self._digests.get(trajectory.header.spec_digest)
        if spec is None:
            raise UsageError(f"{trajectory.header.env_id}: the player has not played this environment")
        turns = tuple(takewhile(lambda turn: turn.token_ids, trajectory.turns))
        record = replace(trajectory, turns=turns)
        room = self._limit(len(self._words.prompt_ids(trajectory.prompt)))
        return [self._words.sequence(self._envs[spec][0], record, limit=room)]

    def demonstration_tokens(
        self, trajectory: Trajectory, spec: str, tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[TokenSequence]:
        """Encode another agent's episode as tokens; the prompt lists the actions, so that `tools` is not read."""
        return [self._words.sequence(self._env(spec, 0), trajectory)]

    def text_runs(self, key: str) -> list[TextRun]:
        """Return the stretches of language of an episode, with the environment at the beginning of each.

        Those before the `StartState` of an episode are not among them.
        """
        return list(self._episodes[key].runs)

    def forget(self) -> None:
        """Drop all episodes."""
        self._episodes.clear()

    def _limit(self, prompt: int) -> int:
        """Return the number of tokens that may follow a prompt of this length."""
        return max(0, min(self._new, self._context - prompt))

    def _open_episodes(self, plan: Sequence[Planned], starts: Mapping[str, StartState]) -> dict[str, WalkingEpisode]:
        """Begin each planned episode on its own environment, or on a given start state; return them by episode key."""
        env_counts: dict[str, int] = {}
        episodes = {}
        for item in plan:
            place = env_counts.get(item.spec, 0)
            env = self._env(item.spec, place)
            core = core_of(env)
            core.services = self.services
            env_counts[item.spec] = place + (item.key not in starts)
            start = starts.get(item.key)
            episode = episodes[item.key] = WalkingEpisode(self._words, start.env if start else env, item)
            episode.begin(start, self._limit)
        return episodes

    def _env(self, spec: str, place: int) -> gym.Env[Any, Any]:
        """Return environment number `place` of a spec's pool; a new one is made, and checked (UsageError), once."""
        pool = self._envs.setdefault(spec, [])
        if place == len(pool):
            env = gym.make(EnvSpec.from_json(spec))
            self._digests[self._words.check(env).spec_digest] = spec
            pool.append(env)
        return pool[place]


class LockStep:
    """A batch of episodes that step together, each in a slot.

    Attributes:
        passes: of the model after the prefixes, so far.
    """

    def __init__(
        self, model: torch.nn.Module, head: ExpandedHead, walkers: Sequence[WalkingEpisode], sampling: Sampling
    ) -> None:
        """Run the rows' tokens through the model.

        Args:
            model: in evaluation mode.
            head: of the model.
            walkers: rows of which none is over.
            sampling: how tokens and actions are drawn.
        """
        bare = bare_model(model)
        self._head, self._language, self._sampling = head, bare.get_output_embeddings(), sampling
        self._read = partial(_last_states, bare.get_decoder())
        rooms = [walker.limit - len(walker.ids) for walker in walkers]
        chances = uniforms([walker.seed for walker in walkers], rooms).tolist()
        slots = [_Slot(walker, own, len(walker.ids)) for walker, own in zip(walkers, chances, strict=True)]
        rows = [DecodeRow(Prefix(tuple(walker.ids), 1), 1, None) for walker in walkers]
        room = min(ROOM, max(rooms))
        filled = prefill(bare, rows, bare.config.get_text_config(decoder=True).num_hidden_layers, room, self._read)
        by_row = {id(row): slot for row, slot in zip(rows, slots, strict=True)}
        self._rows = [by_row[id(row)] for row in filled.rows]
        self._states, self._device = filled.logits, filled.logits.device  # states of the last tokens, (slots, width)
        self._slots = Slots(filled.cache, len(rows), max(walker.limit for walker in walkers))
        self._tables: dict[tuple[int, ...], torch.Tensor] = {}
        self.passes = 0

    def run(self) -> None:
        """Play until every row is over; slots of rows that are over are given up on the way."""
        while True:
            self._choose()
            running = [place for place, row in enumerate(self._rows) if not row.walker.over]
            if not running:
                return
            longest = max(self._rows[place].fed for place in running)
            if (order := self._slots.drop(running, longest)) is not None:
                self._rows = [self._rows[place] for place in order]
            self._forward()

    def _choose(self) -> None:
        """Let the rows that have fed all their tokens draw, those in language mode and those inside environments apart."""
        waiting = [place for place, row in enumerate(self._rows) if row.chooses]
        in_language = [place for place in waiting if 0 in self._rows[place].walker.legal]
        inside = [place for place in waiting if 0 not in self._rows[place].walker.legal]
        if in_language:
            states, legal = self._choice_inputs(in_language)
            logits = self._head.logits(states, self._language(states))  # (rows, V + actions - 1)
            actions = logits[:, self._head.vocabulary :]
            actions.masked_fill_(~legal[:, 1:], torch.finfo(logits.dtype).min)
            self._draw(in_language, logits, None, 0)
        if inside:
            states, legal = self._choice_inputs(inside)
            self._draw(inside, self._head.expanded_logits(states), legal[:, 1:], self._head.vocabulary)

    def _choice_inputs(self, places: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return last hidden states of slots (rows, width), and which actions they may take (rows, actions)."""
        masks = []
        for place in places:
            legal = self._rows[place].walker.legal
            if legal not in self._tables:
                self._tables[legal] = self._head.table([legal])[0]
            masks.append(self._tables[legal])
        every = len(places) == len(self._rows)
        states = self._states if every else self._states[torch.tensor(places, device=self._device)]
        return states, torch.stack(masks)

    def _draw(self, places: list[int], logits: torch.Tensor, allowed: torch.Tensor | None, first: int) -> None:
        """Sample the next decision of each row from column `first` on; FloatingPointError for logits that are not finite."""
        chances = [self._rows[place].uniform() for place in places]
        uniform = torch.tensor(chances, dtype=torch.float64, device=self._device)
        samples = draw(logits, uniform, self._sampling, allowed)
        if not bool(torch.isfinite(samples.logprobs).all()):
            raise FloatingPointError("the model's logits are not finite: its weights diverged, or its dtype overflows")
        lists = (samples.ids.tolist(), samples.logprobs.tolist(), samples.entropies.tolist())
        for place, token, logprob, entropy in zip(places, *lists, strict=True):
            self._rows[place].walker.take(first + token, logprob, entropy)

    def _forward(self) -> None:
        """Feed every slot its next token, and keep the last hidden states."""
        tokens, positions = zip(*(row.feed() for row in self._rows), strict=True)
        inputs, places = (torch.tensor(numbers, device=self._device).unsqueeze(1) for numbers in (tokens, positions))
        stop = self._slots.reach(max(positions) + 1)
        self._states = self._read(**self._slots.inputs(inputs, places, stop))
        self.passes += 1


@dataclass(slots=True)
class _Slot:
    """A row in the batch, its uniforms, and how many of its tokens were fed."""

    walker: WalkingEpisode
    uniforms: list[float]
    fed: int
    decisions: int = 0

    @property
    def chooses(self) -> bool:
        """Whether the row draws next: the model has read all of its tokens."""
        return not self.walker.over and self.fed == len(self.walker.ids)

    def uniform(self) -> float:
        """Return the uniform number that draws the next decision."""
        self.decisions += 1
        return self.uniforms[self.decisions - 1]

    def feed(self) -> tuple[int, int]:
        """Return the next token and its position; a row that is over feeds anything, within the model's positions."""
        if self.walker.over:
            return self.walker.ids[-1], len(self.walker.ids) - 1
        self.fed += 1
        return self.walker.ids[self.fed - 1], self.fed - 1


def _last_states(decoder: Any, **inputs: Any) -> torch.Tensor:
    """Run a model without its language head and return the states of the last tokens, (rows, width)."""
    states: torch.Tensor = run_cached(decoder, **inputs).last_hidden_state
    return states[:, -1]
