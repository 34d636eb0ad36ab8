"""Leads: forks of episodes that go on from within a turn, and pay nothing of what came before it again."""

from dataclasses import replace

import gymnasium as gym
import pytest
import torch
from gymnasium.envs.registration import EnvSpec

from agent_envs.core.env import spec_json
from agent_envs.core.trajectory import CONTEXT_FULL
from agent_envs.evaluation.runs.measures import tool_calls
from agent_envs.rollout.episode_runner import EpisodeWalk
from agent_envs.wrappers import ForcedAnswer, Memory
from tests.trainers.players import SEARCH, player
from trainers.batching import TrainRow, micro_batches
from trainers.earl_parts.counterfactual.interventions import TextForks
from trainers.engine_policy import ForcedPrefix
from trainers.sampling import plan_groups
from trainers.tokens import drift
from trainers.training.forward import token_logprobs

ARGUMENTS = {**SEARCH, "max_generations": 4}


def searching(spec=None, **limits):
    """Return who keeps forks, and what was played: a few episodes by key."""
    policy, model, chat, own = player("SearchQA", ARGUMENTS, **limits)
    forks = TextForks(policy)
    return forks, model, chat, forks.play(plan_groups(spec or own, "train", [0, 1], 3, "k"))


def longest(played, turns=2):
    """Return the key of an episode of at least so many turns, the last of them of some length."""
    return next(
        key for key, result in played.items()
        if len(result.trajectory.turns) >= turns and len(result.trajectory.turns[turns - 1].token_ids) >= 4
    )  # fmt: skip


def lead_of(chat, result, turn=2, kept=3, forced="<search>", **changes):
    said = result.trajectory.turns[turn - 1]
    start = len(said.sampled) - sum(said.sampled) if said.sampled else 0
    ids = tuple(chat.codec.encode(forced)) if forced else ()
    part = slice(start, start + kept)
    lead = ForcedPrefix(said.token_ids[part], said.logprobs[part], ids, tuple(-1.0 - n for n in range(len(ids))))
    return replace(lead, **changes)


def again(forks, key, turn, lead):
    """Return what came of a fork before a turn that begins so, and its tokens."""
    ((origin, result),) = forks.replay({key: (turn, lead)}).values()
    return result, forks.player.sequences(origin)


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("turn", [1, 2])
def test_an_episode_goes_on_from_within_a_turn(trained, turn):
    forks, _, chat, played = searching()
    policy, key = forks.player, longest(played, turn)
    lead = lead_of(chat, played[key], turn, train_forced=trained)
    before, edited = policy.sampled_tokens, policy.edited
    result, (sequence,) = again(forks, key, turn, lead)
    turns, trunk = result.trajectory.turns, played[key].trajectory.turns
    assert turns[: turn - 1] == trunk[: turn - 1] and turns[turn - 1].node not in {each.node for each in trunk}
    mine = turns[turn - 1]
    assert mine.token_ids[: len(lead.ids)] == (*lead.sampled, *lead.forced) and len(turns) >= turn
    assert mine.action == chat.decode(mine.token_ids) and policy.edited == edited
    marks = mine.sampled or (True,) * len(mine.token_ids)
    assert marks == (True,) * 3 + (trained,) * len(lead.forced) + (True,) * (len(mine.token_ids) - len(lead.ids))
    assert mine.logprobs[:3] == lead.sampled_logprobs
    assert mine.logprobs[3 : len(lead.ids)] == (lead.forced_logprobs if trained else (0.0,) * len(lead.forced))
    new = sum(len(each.token_ids) for each in turns[turn - 1 :]) - len(lead.ids)
    assert policy.sampled_tokens - before == new > 0
    (rebuilt,) = policy.rebuild(result.trajectory)
    assert rebuilt == sequence
    own = [at for at, number in enumerate(sequence.turns) if number == turn]
    kept = tuple(sequence.ids[at] for at in own)
    assert kept == (mine.token_ids if trained else mine.token_ids[:3] + mine.token_ids[len(lead.ids) :])


def test_earlier_turns_are_paid_once(monkeypatch):
    """The environment is not stepped, and no token sampled, for what came before the fork."""
    forks, _, chat, played = searching()
    key = longest(played)
    env = type(forks._forks[key][1].env.unwrapped)
    stepped, step = [], env.step
    monkeypatch.setattr(env, "step", lambda self, action: stepped.append(action) or step(self, action))
    turns = again(forks, key, 2, lead_of(chat, played[key]))[0].trajectory.turns
    assert stepped == [turn.action for turn in turns[1:]]
    assert tool_calls(turns).total() >= tool_calls(turns[1:]).total()


def test_a_fork_samples_otherwise_than_its_trunk_and_the_same_fork_the_same():
    """Nothing is kept and nothing forced: only the seed tells them apart."""
    forks, _, _, played = searching()
    key = max(played, key=lambda key: len(played[key].trajectory.turns[0].token_ids))
    first = again(forks, key, 1, ForcedPrefix())[0].trajectory.turns[0]
    assert first.token_ids != played[key].trajectory.turns[0].token_ids
    twin, _, _, _ = searching()
    assert again(twin, key, 1, ForcedPrefix())[0].trajectory.turns[0] == first


def test_caches_know_the_kept_and_the_forced_tokens():
    """What is sampled after a lead, in its turn and later, has the logprobs of a fresh pass over all of it."""
    forks, model, chat, played = searching()
    key = longest(played)
    before = forks.player._engine.prefilled_tokens
    lead = lead_of(chat, played[key])
    result, (sequence,) = again(forks, key, 2, lead)
    (micro,) = micro_batches([TrainRow(sequence, (0.0,) * len(sequence.ids))], 4096, chat.pad_id)
    assert sum(sequence.trained) > 6
    assert torch.allclose(token_logprobs(model, micro)[0], micro.old_logprobs, atol=1e-4)
    shown = len(sequence.ids) - sum(len(turn.token_ids) for turn in result.trajectory.turns)
    assert forks.player._engine.prefilled_tokens - before < shown + len(lead.ids)  # and not the prompt


def test_a_lead_does_not_depend_on_what_else_is_played():
    forks, _, chat, played = searching()
    keys = [key for key, result in played.items() if len(result.trajectory.turns) > 1][:3]
    leads = {key: (2, lead_of(chat, played[key])) for key in keys}
    alone = {key: again(forks, key, *lead)[1] for key, lead in leads.items()}
    twins, _, _, _ = searching()
    for key, (origin, _) in twins.replay(leads).items():
        (together,), (sequence,) = twins.player.sequences(origin), alone[key]
        assert together.ids == sequence.ids and together.logprobs == pytest.approx(sequence.logprobs, abs=1e-4)


@pytest.mark.parametrize("kept", [0, 2, 11, 12])
def test_the_limit_of_a_turn_counts_what_was_kept_and_forced(kept):
    forks, _, chat, played = searching(max_new_tokens=12)
    key = next(k for k, r in played.items() if len(r.trajectory.turns[0].token_ids) == 12)
    lead = lead_of(chat, played[key], turn=1, kept=kept)
    result, sequences = again(forks, key, 1, lead)
    first = result.trajectory.turns[0]
    assert len(first.token_ids) <= max(12, len(lead.ids)) and first.token_ids[: len(lead.ids)] == lead.ids
    if kept >= 11:  # no room: the turn is what it was given
        assert first.token_ids == lead.ids and forks.player.rebuild(result.trajectory) == sequences
    assert all(len(turn.token_ids) <= 12 for turn in result.trajectory.turns[1:])


def first_turn_closed(forks, model, played, ids):
    """Return the first turn of an episode whose model can write the last of these ids alone, behind the others."""

    def closing(module, inputs, output):
        output.logits[..., ids[-1]] = 1e4
        return output

    hook = model.register_forward_hook(closing)
    result, _ = again(forks, next(iter(played)), 1, ForcedPrefix(ids[:-1], (0.0,) * (len(ids) - 1)))
    hook.remove()
    return result.trajectory.turns[0]


def test_a_stop_text_ends_a_turn_after_a_lead():
    """The model is made to write the closing tag alone, behind a query that was kept."""
    forks, model, chat, played = searching()
    ids = tuple(chat.codec.encode("<search> film </search>"))
    turn = first_turn_closed(forks, model, played, ids)
    assert turn.action == chat.decode(ids) and turn.token_ids == ids


@pytest.mark.parametrize("thoughts", ["skip", "count"])
def test_a_stop_text_inside_a_thought_ends_a_turn_only_where_thoughts_count(thoughts):
    forks, model, chat, played = searching(
        spec_json(gym.make("agent_envs:agent_envs/SearchQA-v0", **ARGUMENTS, thoughts=thoughts))
    )
    ids = tuple(chat.codec.encode("<think> <search> film </search>"))
    turn = first_turn_closed(forks, model, played, ids)
    assert turn.action.startswith("<think>") and (turn.action.count("</search>") == 1) == (thoughts == "count")


def test_a_prefilled_turn_is_gone_on_with():
    spec = spec_json(ForcedAnswer(gym.make("agent_envs:agent_envs/SearchQA-v0", **ARGUMENTS), free_turns=0))
    forks, _, chat, played = searching(spec)
    key, result = next((key, result) for key, result in played.items() if len(result.trajectory.turns[0].token_ids) > 5)
    (said,) = result.trajectory.turns
    found, (sequence,) = again(forks, key, 1, lead_of(chat, result, turn=1, kept=2, forced=""))
    (turn,) = found.trajectory.turns
    given = len(said.sampled) - sum(said.sampled)
    assert turn.token_ids[: given + 2] == said.token_ids[: given + 2] and turn.action.startswith("<answer>")
    assert turn.sampled == (False,) * given + (True,) * (len(turn.token_ids) - given)
    assert [drift(*pair) for pair in zip(forks.player.rebuild(found.trajectory), [sequence], strict=True)] == [0]


def test_a_context_that_is_replaced_after_a_lead_has_sequences_of_its_own():
    spec = spec_json(Memory(gym.make("agent_envs:agent_envs/SearchQA-v0", **ARGUMENTS), turns=1))
    forks, _, chat, played = searching(spec)
    key = longest(played)
    result, sequences = again(forks, key, 2, lead_of(chat, played[key]))
    assert len(sequences) == len(result.trajectory.turns) > 1 and forks.player.rebuild(result.trajectory) == sequences
    assert sequences[0] == forks.player.sequences(key)[0]


def test_lanes_play_what_run_many_plays():
    forks, _, _, played = searching()
    policy, _, _, own = player("SearchQA", ARGUMENTS)
    for key, result in policy.play(plan_groups(own, "train", [0, 1], 3, "k")).items():
        ours = played[key].trajectory
        assert [turn.token_ids for turn in ours.turns] == [turn.token_ids for turn in result.trajectory.turns]
        assert (ours.header, ours.total_reward) == (result.trajectory.header, result.trajectory.total_reward)


@pytest.mark.parametrize("gives_reasons", [True, False])
def test_a_full_context_ends_the_episode_of_an_agent_and_no_training_episode(gives_reasons):
    policy, _, chat, spec = player("SearchQA", ARGUMENTS, max_new_tokens=8)
    policy.gives_reasons = gives_reasons
    first = len(chat.open(EpisodeWalk(gym.make(EnvSpec.from_json(spec)), task=0, seed=0).request().messages).ids)
    policy._max_context = first + 6
    (result,) = policy.play(plan_groups(spec, "train", [0], 1, "k")).values()
    turns = result.trajectory.turns
    reasons = [turn.finish_reason for turn in turns]
    if gives_reasons:
        assert len(turns) == 2 and reasons[0] == "length" and turns[-1].truncated and not turns[-1].token_ids
        assert reasons[1].startswith(CONTEXT_FULL) and reasons[1].endswith(f"/{first + 6}")
    else:
        assert len(turns) == 4 and reasons == [""] * 4
