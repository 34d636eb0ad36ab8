"""Interventions do(a_t' = g) cut episodes of failed groups at a position and force a routing action there.

What was sampled before that position stays, token by token, and no step is taken twice: the environment goes on from the
snapshot at the start of the stretch of language, in which nothing happens, or in text from the fork before the turn.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import gymnasium as gym
import torch
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import EnvFault
from agent_envs.core.env import core_of
from agent_envs.core.snapshot import fork, restore
from agent_envs.core.trajectory import Trajectory
from agent_envs.envs.expa import ExpandedActionEnv
from agent_envs.rollout.episode_runner import EpisodeResult, Planned, record_turn
from agent_envs.rollout.policy import Reply
from trainers.contracts import TokenSequence
from trainers.earl_parts.counterfactual.optimisation import CounterfactualSettings, draw_position, uniform_of
from trainers.earl_parts.counterfactual.positions import free_places, position_logweights, text_logweights
from trainers.earl_parts.expanded.episodes import Start
from trainers.earl_parts.expanded.player import ExpandedPlayer
from trainers.earl_parts.expanded.sequences import ExpandedChat, ExpandedTokens
from trainers.engine_policy import Lead
from trainers.tokens import ChatTokenizer
from trainers.training.heads import head_of

BRANCH = "counterfactual"


class Interventions:
    """Makes the beginnings of counterfactual episodes from factual ones.

    Attributes:
        chat: the tokenizer of conversations.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        chat: ChatTokenizer,
        settings: CounterfactualSettings,
        *,
        temperature: float = 1.0,
        within: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        """Take the policy.

        Args:
            model: that played the factual episodes; it still has the weights that it played them with.
            chat: the tokenizer of conversations.
            settings: whose rule is on.
            temperature: that the policy samples at.
            within: entered around every use of the model: mixed precision.
        """
        self.chat = chat
        self._model, self._settings = model, settings
        self._temperature, self._within = temperature, within

    def starts(
        self, player: ExpandedPlayer, played: Mapping[str, tuple[Planned, EpisodeResult]], action: int
    ) -> dict[str, Start]:
        """Return where each episode goes on after a routing action was forced, by its key.

        The environment is a branch of the factual one; play these under keys of their own. Left out are episodes in which
        the action is at no position legal, in which the text before it was already the last action of all, or whose
        environment has an outside fault now.

        Args:
            player: that played them, and has not forgotten them.
            played: the episodes of failed groups by key, none of which ended in a fault.
            action: the number of the routing action.
        """
        sequences = {key: player.sequences(key)[0] for key in played}
        with self._within():
            scored = position_logweights(
                self._model, list(sequences.values()), action, self._settings.rule, self._temperature
            )
        head, envs = head_of(self._model), dict[str, gym.Env[Any, Any]]()
        assert head is not None
        words, found = ExpandedChat(self.chat, head.rows), dict[str, Start]()
        for (key, (item, result)), positions in zip(played.items(), scored, strict=True):
            if not positions.places:
                continue
            number = draw_position(positions.log_weights, self._settings, uniform_of(key))
            place, (logprob,) = positions.places[number], positions.logprobs[number]
            if item.spec not in envs:
                envs[item.spec] = gym.make(EnvSpec.from_json(item.spec))
            run = next(run for run in reversed(player.moments(key)) if run.start <= place)
            restore(envs[item.spec], run.snapshot)
            episode = _Episode(words, fork(envs[item.spec], BRANCH), result.trajectory)
            with suppress(EnvFault):  # of an outside fault nothing is learnt
                if episode.wrote(sequences[key], run.start, place):
                    found[key] = episode.forced(action, logprob, trained=self._settings.train_forced)
        return found

    def text(
        self, sequences: Sequence[TokenSequence], keys: Sequence[str], tokens: Sequence[int], tags: Sequence[str] = ()
    ) -> dict[str, tuple[int, Lead]]:
        """Return from which turn (from 1) an episode in text is played again, and how that begins: a text is forced in it.

        Left out are episodes in which the policy sampled nothing outside of calls.

        Args:
            sequences: of the episodes of failed groups, one each.
            keys: of the episodes.
            tokens: of the forced text, an opening tag say: for Prompt+CPO.
            tags: names of the tags that open a call, within which nothing is forced.
        """
        places = [free_places(sequence, self.chat.codec.decode, tags) for sequence in sequences] if tags else None
        with self._within():
            scored = text_logweights(self._model, sequences, tokens, self._settings.rule, self._temperature, places)
        found = dict[str, tuple[int, Lead]]()
        for sequence, positions, key in zip(sequences, scored, keys, strict=True):
            if not positions.places:
                continue
            number = draw_position(positions.log_weights, self._settings, uniform_of(key))
            place = positions.places[number]
            turn = sequence.turns[place]
            mine = [at for at in range(place) if sequence.trained[at] and sequence.turns[at] == turn]
            kept = tuple(sequence.ids[at] for at in mine), tuple(sequence.logprobs[at] for at in mine)
            found[key] = turn, Lead(*kept, tuple(tokens), positions.logprobs[number], self._settings.train_forced)
        return found


class _Episode:
    """A branch of an episode, from the start of a stretch of language on."""

    def __init__(self, words: ExpandedChat, env: gym.Env[Any, Any], played: Trajectory) -> None:
        core = core_of(env)
        assert isinstance(core, ExpandedActionEnv)
        self._words, self._env, self._core, self._prompt = words, env, core, played.prompt
        before, recorded = len(core.episode.turns), played.turns
        self._turns = list(recorded[:before])
        # What was written from here on is the next turn, unless the stretch is empty.
        self._entropies = recorded[before].entropies if before < len(recorded) else ()
        self._tokens = ExpandedTokens((), 0)

    def wrote(self, sequence: TokenSequence, start: int, place: int) -> bool:
        """Keep the tokens before a place, step what was written since the stretch began, and return whether it goes on."""
        parts = (sequence.ids, sequence.trained, sequence.logprobs, sequence.turns, sequence.targets, sequence.legal)
        before = TokenSequence(*(part[:place] for part in parts))  # type: ignore[arg-type]
        self._tokens = ExpandedTokens.after(before, place)
        kept = sequence.ids[start:place]
        if kept:
            text = self._words.chat.decode(kept)
            told = sequence.logprobs[start:place], self._entropies[: len(kept)]
            self._turns.append(record_turn(self._env, self._env.step(text), Reply(text, kept, *told)))
        return not (kept and (self._turns[-1].terminated or self._turns[-1].truncated))

    def forced(self, action: int, logprob: float, *, trained: bool) -> Start:
        """Take the routing action, and return what the player goes on from."""
        legal, row = self._core.legal_actions(), self._words.rows[action]
        reply = Reply(action, (row.token_id,), (logprob,), (0.0,), sampled=(trained,))
        turn = record_turn(self._env, self._env.step(action), reply)
        appended = self._words.shown(turn.observation)
        self._tokens.limit += len(appended)
        self._tokens.decided(row.token_id, legal, turn.index, appended, logprob=logprob if trained else None)
        return Start(self._tokens.sequence(), self._env, (*self._turns, turn), self._prompt)
