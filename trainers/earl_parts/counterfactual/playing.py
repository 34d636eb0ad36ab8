"""Episodes of failed groups are played again with a routing action, or the opening tag of a tool, forced."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import UsageError
from agent_envs.core.wrapper_stack import core_of
from agent_envs.envs.expa import ExpandedActionEnv
from agent_envs.rollout.episode_runner import EpisodeResult
from agent_envs.rollout.run_log import Planned
from trainers.contracts import TokenSequence
from trainers.earl_parts.counterfactual.interventions import Interventions, TextInsertion
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


def played_again(
    player: Player, interventions: Interventions, played: Played, env: gym.Env[Any, Any], route: str
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
    if isinstance(player, ExpandedPlayer):
        core = core_of(env)
        assert isinstance(core, ExpandedActionEnv)
        found = interventions.starts(player, played, core.id_of(route))
        plan = [replace(played[key][0], key=key + _AGAIN) for key in found]
        results = player.play(plan, {key + _AGAIN: start for key, start in found.items()})
    else:
        assert isinstance(player, EnginePolicy)
        leads = _leads(player, interventions, played, interventions.chat.codec.encode(f"<{route}>"), _tags_of(env))
        plan = [replace(played[key][0], key=key + _AGAIN) for key in leads]
        results = player.play(plan, {key + _AGAIN: lead for key, lead in leads.items()})
    sound = {key: result for key, result in results.items() if result.status in ("terminated", "truncated")}
    return {key.removesuffix(_AGAIN): Again(result, _trained(player, key)) for key, result in sound.items()}


def _trained(player: Player, key: str) -> tuple[TokenSequence, ...]:
    sequences = [trimmed(sequence) for sequence in player.sequences(key)]
    return tuple(sequence for sequence in sequences if any(sequence.trained))


def _leads(
    player: EnginePolicy, interventions: Interventions, played: Played, forced: tuple[int, ...], tags: tuple[str, ...]
) -> dict[str, Lead]:
    """Return how the episodes of a text face begin again; those whose context was replaced on the way are left out."""
    whole = {key: player.sequences(key) for key in played}
    keys = [key for key, sequences in whole.items() if len(sequences) == 1]
    insertions = interventions.text([whole[key][0] for key in keys], keys, forced, tags)
    return {
        key: _lead(played[key][1], insertion, train=interventions.trains)
        for key, insertion in zip(keys, insertions, strict=True)
        if insertion is not None
    }


def _lead(result: EpisodeResult, insertion: TextInsertion, *, train: bool) -> Lead:
    turns = result.trajectory.turns[: insertion.turn - 1]
    kept = insertion.kept, insertion.kept_logprobs
    return Lead(turns, *kept, insertion.forced, insertion.forced_logprobs, train)
