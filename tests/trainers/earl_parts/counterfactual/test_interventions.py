"""Counterfactual episodes: what was sampled stays, the world is that of the moment, and the policy goes on behind the force."""

import random
from dataclasses import replace

import gymnasium as gym
import pytest
import torch
from gymnasium.envs.registration import EnvSpec

from agent_envs.core.env import core_of
from agent_envs.core.trajectory import TrajectoryTree
from agent_envs.rollout.episode_runner import Planned
from tests.examples import part
from tests.trainers.earl_parts.counterfactual.brute_force import brute_force, policy_logprobs_of, spoken
from tests.trainers.earl_parts.expanded.players import player_for
from trainers.batching import micro_batches
from trainers.contracts import Sampling, TokenSequence
from trainers.earl_parts.counterfactual.interventions import Interventions
from trainers.earl_parts.counterfactual.optimisation import (
    CounterfactualSettings,
    counterfactual_advantages,
    failed_groups,
    row_of,
)

PAPER = CounterfactualSettings("paper")
RELEASED = CounterfactualSettings("released")
COMPARE, SWAP = 1, 2


def factual(eager=1.0, size=3, groups=4, members=3, limits=None, **arguments):
    """Play groups of episodes with random weights."""
    limits = {"max_new_tokens": 70} | (limits or {})
    player, model, chat, spec = player_for("SortExpA", eager=eager, size=size, limits=limits, **arguments)
    plan = [
        Planned(f"g{task}/{member}", spec, task, "train", seed=task)
        for task in range(groups)
        for member in range(members)
    ]
    return player, model, chat, plan, player.play(plan)


def chosen(plan, results, rule="paper"):
    """Return the episodes of failed groups."""
    names = [item.key.partition("/")[0] for item in plan]
    lost = failed_groups([results[item.key].trajectory.total_reward for item in plan], names, rule)
    return {item.key: (item, results[item.key]) for item, name in zip(plan, names, strict=True) if name in lost}


def replayed(item, turns):
    """Return an environment in which recorded actions were stepped from a reset."""
    env = gym.make(EnvSpec.from_json(item.spec))
    env.reset(seed=item.seed, options={"task": item.task, "split": item.split, "episode_key": item.key})
    for turn in turns:
        env.step(turn.action)
    return env


@pytest.mark.parametrize("settings", [PAPER, RELEASED, replace(PAPER, train_forced=False)])
@pytest.mark.parametrize("action", part([COMPARE, SWAP], [COMPARE]))
def test_the_environment_by_fork_is_that_by_replay_and_tokens_are_kept(settings, action):
    player, model, chat, plan, results = factual()
    played = chosen(plan, results)
    starts = Interventions(model, chat, settings).starts(player, played, action)
    assert len(starts) > 6
    lengths, moved, later = set(), 0, 0
    for key, start in starts.items():
        item, result = played[key]
        (sequence,) = player.sequences(key)
        env, ours = replayed(item, start.turns), core_of(start.env)
        assert ours.episode.state == core_of(env).episode.state
        assert ours.episode.turns != () and ours.legal_actions() == core_of(env).legal_actions()
        assert ours.history == core_of(env).history
        assert ours.episode.header.branch == "counterfactual" and ours.episode.header.episode_key == key
        forced = start.turns[-1]
        assert forced.action == action and forced.token_ids == (player._words.rows[action].token_id,)
        place = len(start.sequence.ids) - len(player._words.observation_tokens(forced.observation))
        for ours, theirs in zip(parts(start.sequence), parts(sequence), strict=True):
            assert ours[:place] == theirs[:place]
        assert start.sequence.targets[place] == forced.token_ids[0]
        assert start.sequence.legal[place] == sequence.legal[place] and 0 in sequence.legal[place]
        assert start.sequence.trained[place:] == (
            settings.train_forced,
            *[False] * (len(start.sequence.ids) - place - 1),
        )
        kept = start.turns[-2].token_ids if len(start.turns) > 1 and isinstance(start.turns[-2].action, str) else ()
        assert kept == sequence.ids[place - len(kept) : place]
        word = sequence.targets[place] < player._words.vocabulary and sequence.targets[place] != chat.end_ids[0]
        assert forced.index == sequence.turns[place] + (word and bool(kept)) == len(start.turns)
        shared = len(start.turns) - 1 - bool(kept)
        assert start.turns[:shared] == result.trajectory.turns[:shared]
        if kept:
            assert len(start.turns[-2].entropies) == len(start.turns[-2].logprobs) == len(kept)
        later += shared > 0
        expected = float(policy_logprobs_of(model, sequence.ids[:place], sequence.legal[place])[forced.token_ids[0]])
        assert forced.logprobs == pytest.approx((expected,), abs=1e-4)
        told = start.sequence.logprobs[place]
        assert told == (forced.logprobs[0] if settings.train_forced else 0.0)
        lengths.add(len(kept))
        moved += len(start.turns) < len(result.trajectory.turns)
    assert len(lengths) > 2 and moved and later


def parts(sequence):
    return sequence.ids, sequence.trained, sequence.logprobs, sequence.turns, sequence.targets, sequence.legal


@pytest.mark.parametrize("train_forced", [True, False])
def test_the_player_goes_on_and_the_record_rebuilds_the_tokens(train_forced):
    player, model, chat, plan, results = factual()
    played = chosen(plan, results)
    before = {key: player.sequences(key) for key in played}
    starts = Interventions(model, chat, replace(PAPER, train_forced=train_forced)).starts(player, played, COMPARE)
    again = [replace(item, key=f"{key}+") for key, (item, _) in played.items() if key in starts]
    counterfactual = player.play(again, {f"{key}+": start for key, start in starts.items()})
    assert {key: player.sequences(key) for key in played} == before  # what was played stays as it was
    for key in starts:
        result, (sequence,) = counterfactual[f"{key}+"], player.sequences(f"{key}+")
        assert result.trajectory.turns[: len(starts[key].turns)] == starts[key].turns
        assert len(result.trajectory.turns) > len(starts[key].turns)
        assert trimmed_parts(player.rebuild(result.trajectory)[0]) == trimmed_parts(sequence)
        tree = TrajectoryTree(result.trajectory.header, result.trajectory.prompt)
        tree.add(results[key].trajectory)
        alone = len(tree.nodes)
        tree.add(result.trajectory)
        shared = sum(
            turn.node in {old.node for old in results[key].trajectory.turns} for turn in result.trajectory.turns
        )
        assert len(tree.nodes) == alone + len(result.trajectory.turns) - shared
    rewards = [results[item.key].trajectory.total_reward for item in plan]
    numbers = {item.key: number for number, item in enumerate(plan)}
    earned = {numbers[key]: counterfactual[f"{key}+"].trajectory.total_reward for key in starts}
    found = counterfactual_advantages(rewards, [item.task for item in plan], earned, "paper")
    rows = [row_of(player.sequences(f"{plan[number].key}+")[0], gain) for number, gain in found.counterfactual.items()]
    assert sum(len(micro.rows) for micro in micro_batches(rows, 512, chat.pad_id)) == len(starts)


def trimmed_parts(sequence):
    length = max(place for place, kept in enumerate(sequence.trained) if kept) + 1
    return [part[:length] for part in parts(sequence)]


def test_a_start_does_not_depend_on_its_neighbours():
    player, model, chat, plan, results = factual()
    played = chosen(plan, results)
    together = Interventions(model, chat, PAPER).starts(player, played, SWAP)
    for key in list(played)[:4]:
        alone = Interventions(model, chat, PAPER).starts(player, {key: played[key]}, SWAP)
        assert {name: start.sequence.ids for name, start in alone.items()} == {
            name: start.sequence.ids for name, start in together.items() if name == key
        }


def test_episodes_at_their_limit_of_actions():
    """A forced action may be the last one that the environment takes; behind a text that was, there is no room for it."""
    player, model, chat, plan, results = factual(eager=0.0, max_actions=1, groups=6)
    played = chosen(plan, results)
    assert len(played) > 6
    starts = Interventions(model, chat, PAPER).starts(player, played, COMPARE)
    for key, start in starts.items():
        assert [turn.action for turn in start.turns] == [COMPARE] and start.turns[-1].truncated
        assert (
            start.sequence.ids[: len(start.sequence.ids) - 1]
            == player.sequences(key)[0].ids[: len(start.sequence.ids) - 1]
        )
    again = [replace(item, key=f"{key}+") for key, (item, _) in played.items() if key in starts]
    ended = player.play(again, {f"{key}+": start for key, start in starts.items()})
    assert all(result.status == "truncated" for result in ended.values())
    assert len(starts) < len(played)


def test_a_policy_that_never_calls_a_tool_is_made_to():
    """Nothing but language: groups fail, and every counterfactual episode uses the tool."""
    player, model, chat, plan, results = factual(eager=-0.9, limits={"sampling": Sampling(0.3)}, members=2)
    played = chosen(plan, results)
    assert len(played) >= 4
    assert not any(turn.action == COMPARE for _, result in played.values() for turn in result.trajectory.turns)
    starts = Interventions(model, chat, PAPER, temperature=0.3).starts(player, played, COMPARE)
    assert list(starts) == list(played)
    again = [replace(item, key=f"{key}+") for key, (item, _) in played.items()]
    for result in player.play(again, {f"{key}+": start for key, start in starts.items()}).values():
        assert any(turn.action == COMPARE for turn in result.trajectory.turns)


def test_a_text_insertion_keeps_what_was_sampled_in_its_turn(tiny_model):
    model, generator = tiny_model(torch.float64), random.Random("turns")
    sequences = [spoken(generator) for _ in range(30)] + [TokenSequence((1, 2), (False, False), (0.0, 0.0), (0, 0))]
    keys = [f"episode {number}" for number in range(31)]
    inserted = Interventions(model, None, PAPER).text
    found = inserted(sequences, keys, (4, 9))
    assert list(found) == keys[:-1]  # in the last one nothing was sampled
    for sequence, (number, lead) in zip(sequences, found.values(), strict=False):
        mine = [place for place, turn in enumerate(sequence.turns) if turn == number]
        kept = mine[: len(lead.sampled)]
        assert lead.sampled == tuple(sequence.ids[place] for place in kept)
        assert lead.sampled_logprobs == tuple(sequence.logprobs[place] for place in kept)
        place = mine[len(lead.sampled)]
        assert lead.forced == (4, 9) and lead.train_forced
        expected = brute_force(model, sequence.ids[:place], lead.forced)
        assert lead.forced_logprobs == pytest.approx(expected, abs=1e-9)
    assert {number for number, _ in found.values()} == {1, 2, 3}
    again = inserted(sequences[3:5], keys[3:5], (4, 9))
    pairs = ((again[key], found[key]) for key in keys[3:5])
    assert all((one[0], one[1].sampled) == (other[0], other[1].sampled) for one, other in pairs)
