"""Episodes of failed groups are played again with a routing action, or the opening tag of a tool, forced."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import UsageError
from agent_envs.core.env import core_of
from agent_envs.envs.expa import ExpandedActionEnv
from agent_envs.rollout.episode_runner import EpisodeResult, Planned
from agent_envs.rollout.lockstep import Lane, Lockstep
from trainers.contracts import TokenSequence
from trainers.earl_parts.counterfactual.interventions import BRANCH, Interventions
from trainers.earl_parts.expanded.player import ExpandedPlayer
from trainers.engine_policy import EnginePolicy, Lead
from trainers.sampling import Player, trimmed

Played = Mapping[str, tuple[Planned, EpisodeResult]]
_AGAIN = "/again"


@dataclass(frozen=True, slots=True)
class Again:
    """An episode that was played again: how it ended, and its tokens up to the last trained one, as `Group.sequences`."""

    result: EpisodeResult
    sequences: tuple[TokenSequence, ...]


def routes_of(env: gym.Env[Any, Any]) -> tuple[str, ...]:
    """Return what a counterfactual can force: the external environments of an ExpA id, or the tags of a text face's tools.

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
        """Take who plays."""
        self.player = player
        self._forks: dict[str, list[Lane]] = {}

    def play(self, plan: Sequence[Planned]) -> dict[str, EpisodeResult]:
        """Return the results of a plan by key: all of them, faults among them.

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

    def again(self, leads: Mapping[str, tuple[int, Lead]]) -> dict[str, tuple[str, EpisodeResult]]:
        """Return what came of turns that began otherwise, and the name of its conversation, by the episode's key.

        Args:
            leads: the turn (from 1) and its beginning, by the key of an episode that was played here.
        """
        lanes = {key: self._forks[key][turn - 1] for key, (turn, _) in leads.items()}
        for key, (_, lead) in leads.items():
            self.player.lead(lanes[key].origin, lead)
        with self._lockstep() as lockstep:
            while left := [lane for lane in lanes.values() if not lane.over]:
                lockstep.step(left)
        return {key: (lane.origin, lane.result()) for key, lane in lanes.items()}

    def _lockstep(self) -> Lockstep:
        return Lockstep(self.player, services=self.player.services)


Forkable = ExpandedPlayer | TextForks


def forkable(player: Player) -> Forkable:
    """Return a player whose episodes can be gone on with from their middle, over the one that a run has."""
    if isinstance(player, ExpandedPlayer):
        return player
    assert isinstance(player, EnginePolicy)
    return TextForks(player)


def played_again(
    player: Forkable, interventions: Interventions, played: Played, env: gym.Env[Any, Any], route: str
) -> dict[str, Again]:
    """Play episodes again, each from a position of its own with a route forced there; return those that have one, by key.

    Args:
        player: that played them, and has not forgotten them.
        interventions: of the player's model.
        played: the episodes of failed groups by key, none of which ended in a fault.
        env: of their kind.
        route: one of `routes_of(env)`.
    """
    if not played:
        return {}
    if isinstance(player, TextForks):
        forced, policy = interventions.chat.codec.encode(f"<{route}>"), player.player
        whole = {key: policy.sequences(key) for key in played}
        keys = [key for key, sequences in whole.items() if len(sequences) == 1]  # no context was replaced on the way
        found = player.again(interventions.text([whole[key][0] for key in keys], keys, forced, _tags_of(env)))
        return {
            key: Again(result, _trained(policy, origin)) for key, (origin, result) in found.items() if _sound(result)
        }
    core = core_of(env)
    assert isinstance(core, ExpandedActionEnv)
    starts = interventions.starts(player, played, core.id_of(route))
    plan = [replace(played[key][0], key=key + _AGAIN) for key in starts]
    results = player.play(plan, {key + _AGAIN: start for key, start in starts.items()})
    return {
        key: Again(results[key + _AGAIN], _trained(player, key + _AGAIN))
        for key in starts
        if _sound(results[key + _AGAIN])
    }


def _sound(result: EpisodeResult) -> bool:
    return result.status in ("terminated", "truncated")


def _trained(player: Player, origin: str) -> tuple[TokenSequence, ...]:
    sequences = [trimmed(sequence) for sequence in player.sequences(origin)]
    return tuple(sequence for sequence in sequences if any(sequence.trained))
