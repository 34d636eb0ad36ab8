"""Interventions do(a_t' = g) cut episodes of failed groups at a position and force a routing action there.

What was sampled before that position stays, token by token, and no step is taken twice: the environment goes on from the
snapshot at the start of the stretch of language, in which nothing happens, or in text from the fork before the turn.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import torch
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.core.env import core_of
from agent_envs.core.snapshot import fork, restore
from agent_envs.core.trajectory import Trajectory
from agent_envs.envs.expa import ExpandedActionEnv
from agent_envs.rollout.episode_runner import EpisodeResult, Planned, record_turn
from agent_envs.rollout.lockstep import Lane, Lockstep
from agent_envs.rollout.policy import Reply
from trainers.contracts import TokenSequence
from trainers.earl_parts.counterfactual.optimisation import CounterfactualSettings, draw_position, uniform_of
from trainers.earl_parts.counterfactual.positions import free_places, position_logweights, text_logweights
from trainers.earl_parts.expanded.player import ExpandedPlayer
from trainers.earl_parts.expanded.sequences import ExpandedChat, ExpandedTokens, StartState
from trainers.engine_policy import EnginePolicy, ForcedPrefix
from trainers.sampling import Player, sampled_parts
from trainers.tokens import ChatTokenizer
from trainers.training.forward import extra_head

BRANCH = "counterfactual"


class Interventions:
    """Build the beginnings of counterfactual episodes from factual ones.

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
        self, player: ExpandedPlayer, episodes: Mapping[str, tuple[Planned, EpisodeResult]], action: int
    ) -> dict[str, StartState]:
        """Return, by key, the state after the forced routing action; none where it is nowhere legal, all was over, or a fault.

        The environment is a branch of the factual one; play these under keys of their own. Left out are episodes in which
        the action is at no position legal, in which the text before it was already the last action of all, or whose
        environment has an outside fault now.

        Args:
            player: that played them, and has not forgotten them.
            episodes: the episodes of failed groups by key, none of which ended in a fault.
            action: the number of the routing action.
        """
        sequences = {key: player.sequences(key)[0] for key in episodes}
        with self._within():
            scores = position_logweights(
                self._model, list(sequences.values()), action, self._settings.rule, self._temperature
            )
        envs, starts = dict[str, gym.Env[Any, Any]](), dict[str, StartState]()
        words = ExpandedChat(self.chat, extra_head(self._model).rows)
        for (key, (item, result)), positions in zip(episodes.items(), scores, strict=True):
            if not positions.places:
                continue
            number = draw_position(positions.log_weights, self._settings.sampling, uniform_of(key))
            place, (logprob,) = positions.places[number], positions.logprobs[number]
            if item.spec not in envs:
                envs[item.spec] = gym.make(EnvSpec.from_json(item.spec))
            run = next(run for run in reversed(player.text_runs(key)) if run.start <= place)
            restore(envs[item.spec], run.snapshot)
            episode = _Episode(words, fork(envs[item.spec], BRANCH), result.trajectory)
            with suppress(EnvFault):  # of an outside fault nothing is learnt
                if episode.wrote(sequences[key], run.start, place):
                    starts[key] = episode.forced(action, logprob, trained=self._settings.train_forced)
        return starts

    def text(
        self, sequences: Sequence[TokenSequence], keys: Sequence[str], tokens: Sequence[int], tags: Sequence[str] = ()
    ) -> dict[str, tuple[int, ForcedPrefix]]:
        """Return, by key, a drawn turn (from 1) and its forced beginning; none where nothing was sampled outside of calls.

        Left out are episodes in which the policy sampled nothing outside of calls.

        Args:
            sequences: of the episodes of failed groups, one each.
            keys: of the episodes.
            tokens: of the forced text, an opening tag say: for Prompt+CPO.
            tags: names of the tags that open a call, within which nothing is forced.
        """
        places = [free_places(sequence, self.chat.codec.decode, tags) for sequence in sequences] if tags else None
        with self._within():
            scores = text_logweights(self._model, sequences, tokens, self._settings.rule, self._temperature, places)
        prefixes = dict[str, tuple[int, ForcedPrefix]]()
        for sequence, positions, key in zip(sequences, scores, keys, strict=True):
            if not positions.places:
                continue
            number = draw_position(positions.log_weights, self._settings.sampling, uniform_of(key))
            place = positions.places[number]
            turn = sequence.turns[place]
            mine = [at for at in range(place) if sequence.trained[at] and sequence.turns[at] == turn]
            sampled = tuple(sequence.ids[at] for at in mine), tuple(sequence.logprobs[at] for at in mine)
            forced = tuple(tokens), positions.logprobs[number], self._settings.train_forced
            prefixes[key] = turn, ForcedPrefix(*sampled, *forced)
        return prefixes


class _Episode:
    """A branch of an episode, from the start of a stretch of language on."""

    def __init__(self, words: ExpandedChat, env: gym.Env[Any, Any], trajectory: Trajectory) -> None:
        """Take over the turns before the environment's state, and the entropies of the next turn if it was begun."""
        core = core_of(env)
        assert isinstance(core, ExpandedActionEnv)
        self._words, self._env, self._core, self._prompt = words, env, core, trajectory.prompt
        before, turns = len(core.episode.turns), trajectory.turns
        self._turns = list(turns[:before])
        # What was written from here on is the next turn, unless the stretch is empty.
        self._entropies = turns[before].entropies if before < len(turns) else ()
        self._tokens = ExpandedTokens((), 0)

    def wrote(self, sequence: TokenSequence, start: int, place: int) -> bool:
        """Keep the tokens before a place, step the text since the stretch began; return whether the episode goes on."""
        self._tokens = ExpandedTokens.after(sequence.upto(place), place)
        ids = sequence.ids[start:place]
        if ids:
            text = self._words.chat.decode(ids)
            scores = sequence.logprobs[start:place], self._entropies[: len(ids)]
            self._turns.append(record_turn(self._env, self._env.step(text), Reply(text, ids, *scores)))
        return not (ids and (self._turns[-1].terminated or self._turns[-1].truncated))

    def forced(self, action: int, logprob: float, *, trained: bool) -> StartState:
        """Step the routing action, and return the state from which the player goes on."""
        legal, row = self._core.legal_actions(), self._words.rows[action]
        reply = Reply(action, (row.token_id,), (logprob,), (0.0,), sampled=(trained,))
        turn = record_turn(self._env, self._env.step(action), reply)
        appended = self._words.observation_tokens(turn.observation)
        self._tokens.limit += len(appended)
        self._tokens.append_decision(row.token_id, legal, turn.index, appended, logprob=logprob if trained else None)
        return StartState(self._tokens.sequence(), self._env, (*self._turns, turn), self._prompt)


Episodes = Mapping[str, tuple[Planned, EpisodeResult]]
_AGAIN = "/again"


@dataclass(frozen=True, slots=True)
class Replay:
    """An episode that was played again: its result, and its tokens as `EpisodeGroup.sequences`."""

    result: EpisodeResult
    sequences: tuple[TokenSequence, ...]


def routes_of(env: gym.Env[Any, Any]) -> tuple[str, ...]:
    """Return names that a counterfactual can force: environments of an ExpA id, or tags of text tools; UsageError for none.

    Raises:
        UsageError: there is nothing to force.
    """
    core = core_of(env)
    if isinstance(core, ExpandedActionEnv):
        return tuple(environment.name for environment in core.environments)
    closing = tuple(tag for tag in _tags_of(env) if f"</{tag}>" != core.answer_tags[1])
    if not closing:
        raise UsageError(f"{core.env_id}: a counterfactual forces a tag or a routing action, and there is none here")
    return closing


def _tags_of(env: gym.Env[Any, Any]) -> tuple[str, ...]:
    """Return the names of all tags that end a turn of a text face, that of the answer among them."""
    _, info = env.reset(seed=0)
    return tuple(text[2:-1] for text in info["stop"] if text.startswith("</"))


class TextForks:
    """Plays episodes of text, and keeps a fork of each before every turn, from which a counterfactual goes on."""

    def __init__(self, player: EnginePolicy) -> None:
        """Set the player."""
        self.player = player
        self._forks: dict[str, list[Lane]] = {}

    def play(self, plan: Sequence[Planned]) -> dict[str, EpisodeResult]:
        """Play a plan and return its results by key, faults among them; a fork is kept before every turn.

        Raises:
            BudgetSpent: nothing may be paid any more.
        """
        self._forks, results = {}, dict[str, EpisodeResult]()
        with self._lockstep() as lockstep:
            for first in range(0, len(plan), self.player.batch):
                opened = lockstep.begin(plan[first : first + self.player.batch])
                while going := [lane for lane in opened if not lane.over]:
                    for lane in going:
                        forks = self._forks.setdefault(lane.item.key, [])
                        forks.append(lockstep.fork(lane, f"{BRANCH}-{len(forks) + 1}"))
                    lockstep.step(going)
                results |= {lane.item.key: lane.result() for lane in opened}
        return results

    def replay(self, prefixes: Mapping[str, tuple[int, ForcedPrefix]]) -> dict[str, tuple[str, EpisodeResult]]:
        """Play turns with the forced beginnings; return each result and the name of its conversation, by the episode's key.

        Args:
            prefixes: the turn (from 1) and its beginning, by the key of an episode that was played here.
        """
        lanes = {key: self._forks[key][turn - 1] for key, (turn, _) in prefixes.items()}
        for key, (_, prefix) in prefixes.items():
            self.player.force_prefix(lanes[key].origin, prefix)
        with self._lockstep() as lockstep:
            while left := [lane for lane in lanes.values() if not lane.over]:
                lockstep.step(left)
        return {key: (lane.origin, lane.result()) for key, lane in lanes.items()}

    def _lockstep(self) -> Lockstep:
        """Return a new lockstep of this player and its services."""
        return Lockstep(self.player, services=self.player.services)


Forkable = ExpandedPlayer | TextForks


def forkable(player: Player) -> Forkable:
    """Return an ExpandedPlayer as it is, any other player in a TextForks, whose episodes go on from the middle."""
    if isinstance(player, ExpandedPlayer):
        return player
    assert isinstance(player, EnginePolicy)
    return TextForks(player)


def play_again(
    player: Forkable, interventions: Interventions, episodes: Episodes, env: gym.Env[Any, Any], route: str
) -> dict[str, Replay]:
    """Play episodes again, a route forced in each; return by key those that it fitted and no fault ended; {} without any.

    Args:
        player: that played them, and has not forgotten them.
        interventions: of the player's model.
        episodes: the episodes of failed groups by key, none of which ended in a fault.
        env: of their kind.
        route: one of `routes_of(env)`.
    """
    if not episodes:
        return {}
    if isinstance(player, TextForks):
        forced, policy = interventions.chat.codec.encode(f"<{route}>"), player.player
        whole = {key: policy.sequences(key) for key in episodes}
        keys = [key for key, sequences in whole.items() if len(sequences) == 1]  # no context was replaced on the way
        replays = player.replay(interventions.text([whole[key][0] for key in keys], keys, forced, _tags_of(env)))
    else:
        core = core_of(env)
        assert isinstance(core, ExpandedActionEnv)
        policy, starts = player, interventions.starts(player, episodes, core.id_of(route))
        plan = [replace(episodes[key][0], key=key + _AGAIN) for key in starts]
        results = player.play(plan, {key + _AGAIN: start for key, start in starts.items()})
        replays = {key: (key + _AGAIN, results[key + _AGAIN]) for key in starts}
    return {
        key: Replay(result, sampled_parts(policy.sequences(name)))
        for key, (name, result) in replays.items()
        if result.status in ("terminated", "truncated")  # in itself, not by a fault
    }
