"""Leads: episodes that say another one's turns again, and go on from within the turn after them."""

from dataclasses import replace

import gymnasium as gym
import pytest
import torch

from agent_envs.core.registry import spec_json
from agent_envs.wrappers import ForcedAnswer, Memory
from tests.trainers.players import SEARCH, player
from trainers.batching import Row, micro_batches
from trainers.engine_policy import Lead
from trainers.sampling import plan_groups
from trainers.tokens import drift
from trainers.training.forward import token_logprobs

ARGUMENTS = {**SEARCH, "max_generations": 4}


def searching(spec=None, **limits):
    """Return a policy and what it played: a few episodes by key, and their plans."""
    policy, model, chat, own = player("SearchQA", ARGUMENTS, **limits)
    plan = plan_groups(spec or own, "train", [0, 1], 3, "k")
    return policy, model, chat, {item.key: item for item in plan}, policy.play(plan)


def longest(played, turns=2):
    """Return the key of an episode of at least so many turns, the last of them of some length."""
    return next(
        key for key, result in played.items()
        if len(result.trajectory.turns) >= turns and len(result.trajectory.turns[turns - 1].token_ids) >= 4
    )  # fmt: skip


def lead_of(chat, result, turn=2, kept=3, forced="<search>", **changes):
    turns = result.trajectory.turns
    said = turns[turn - 1]
    start = len(said.sampled) - sum(said.sampled) if said.sampled else 0
    ids = tuple(chat.codec.encode(forced)) if forced else ()
    part = slice(start, start + kept)
    lead = Lead(
        turns[: turn - 1], said.token_ids[part], said.logprobs[part], ids, tuple(-1.0 - n for n in range(len(ids)))
    )
    return replace(lead, **changes)


def again(policy, item, lead):
    item = replace(item, key=item.key + "/again")
    return policy.play([item], {item.key: lead})[item.key], policy.sequences(item.key)


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("turn", [1, 2])
def test_an_episode_goes_on_from_within_a_turn(trained, turn):
    policy, _, chat, items, played = searching()
    key = longest(played, turn)
    lead = lead_of(chat, played[key], turn, train_forced=trained)
    before, edited = policy.sampled_tokens, policy.edited
    result, (sequence,) = again(policy, items[key], lead)
    turns = result.trajectory.turns
    for ours, theirs in zip(turns, lead.turns, strict=False):
        assert (ours.action, ours.token_ids, ours.logprobs) == (theirs.action, theirs.token_ids, theirs.logprobs)
        assert [m.content for m in ours.observation] == [m.content for m in theirs.observation]
    mine = turns[turn - 1]
    assert mine.token_ids[: len(lead.ids)] == (*lead.kept, *lead.forced) and len(turns) >= turn
    assert mine.action == chat.decode(mine.token_ids) and policy.edited == edited
    marks = mine.sampled or (True,) * len(mine.token_ids)
    assert marks == (True,) * 3 + (trained,) * len(lead.forced) + (True,) * (len(mine.token_ids) - len(lead.ids))
    assert mine.logprobs[:3] == lead.kept_logprobs
    assert mine.logprobs[3 : len(lead.ids)] == (lead.forced_logprobs if trained else (0.0,) * len(lead.forced))
    new = sum(len(each.token_ids) for each in turns[turn - 1 :]) - len(lead.ids)
    assert policy.sampled_tokens - before == new > 0
    (rebuilt,) = policy.rebuilt(result.trajectory)
    assert rebuilt == sequence
    own = [at for at, number in enumerate(sequence.turns) if number == turn]
    kept = tuple(sequence.ids[at] for at in own)
    assert kept == (mine.token_ids if trained else mine.token_ids[:3] + mine.token_ids[len(lead.ids) :])


def test_caches_know_the_kept_and_the_forced_tokens():
    """What is sampled after a lead, in its turn and later, has the logprobs of a fresh pass over all of it."""
    policy, model, chat, items, played = searching()
    key = longest(played)
    _, (sequence,) = again(policy, items[key], lead_of(chat, played[key]))
    (micro,) = micro_batches([Row(sequence, (0.0,) * len(sequence.ids))], 4096, chat.pad_id)
    assert sum(sequence.trained) > 6
    assert torch.allclose(token_logprobs(model, micro)[0], micro.old_logprobs, atol=1e-4)


def test_a_lead_does_not_depend_on_what_else_is_played():
    policy, _, chat, items, played = searching()
    keys = [key for key, result in played.items() if len(result.trajectory.turns) > 1][:3]
    leads = {key: lead_of(chat, played[key]) for key in keys}
    alone = {key: again(policy, items[key], lead)[1] for key, lead in leads.items()}
    policy.forget()
    plan = [replace(items[key], key=f"{key}/again") for key in keys] + [items[keys[0]]]
    policy.play(plan, {f"{key}/again": lead for key, lead in leads.items()})
    for key, (sequence,) in alone.items():
        (together,) = policy.sequences(f"{key}/again")
        assert together.ids == sequence.ids and together.logprobs == pytest.approx(sequence.logprobs, abs=1e-4)
    assert policy.sequences(keys[0])[0].ids  # the episode without a lead is one that begins anew


@pytest.mark.parametrize("kept", [0, 2, 11, 12])
def test_the_limit_of_a_turn_counts_what_was_kept_and_forced(kept):
    policy, _, chat, items, played = searching(max_new_tokens=12)
    key = next(k for k, r in played.items() if len(r.trajectory.turns[0].token_ids) == 12)
    lead = lead_of(chat, played[key], turn=1, kept=kept)
    result, _ = again(policy, items[key], lead)
    first = result.trajectory.turns[0]
    assert len(first.token_ids) <= max(12, len(lead.ids)) and first.token_ids[: len(lead.ids)] == lead.ids
    if kept >= 11:  # no room: the turn is what it was given
        assert first.token_ids == lead.ids and policy.rebuilt(result.trajectory) == policy.sequences(
            items[key].key + "/again"
        )
    assert all(len(turn.token_ids) <= 12 for turn in result.trajectory.turns[1:])


def test_a_stop_text_ends_a_turn_after_a_lead():
    """The model is made to write the closing tag alone, behind a query that was kept."""
    policy, model, chat, items, played = searching()
    ids = tuple(chat.codec.encode("<search> film </search>"))

    def closing(module, inputs, output):
        output.logits[..., ids[-1]] = 1e4
        return output

    hook = model.register_forward_hook(closing)
    result, _ = again(policy, next(iter(items.values())), Lead((), ids[:-1], (0.0,) * (len(ids) - 1)))
    hook.remove()
    assert result.trajectory.turns[0].action == chat.decode(ids) and result.trajectory.turns[0].token_ids == ids


def test_a_prefilled_turn_is_said_again_and_gone_on_with():
    spec = spec_json(ForcedAnswer(gym.make("agent_envs:agent_envs/SearchQA-v0", **ARGUMENTS), free_turns=0))
    policy, _, chat, items, played = searching(spec)
    key, result = next((key, result) for key, result in played.items() if len(result.trajectory.turns[0].token_ids) > 5)
    (said,) = result.trajectory.turns
    lead = lead_of(chat, result, turn=1, kept=2, forced="")
    found, (sequence,) = again(policy, items[key], lead)
    (turn,) = found.trajectory.turns
    given = len(said.sampled) - sum(said.sampled)
    assert turn.token_ids[: given + 2] == said.token_ids[: given + 2] and turn.action.startswith("<answer>")
    assert turn.sampled == (False,) * given + (True,) * (len(turn.token_ids) - given)
    assert [drift(*pair) for pair in zip(policy.rebuilt(found.trajectory), [sequence], strict=True)] == [0]
    whole, (other,) = again(policy, items[key], Lead(result.trajectory.turns))
    assert whole.trajectory.turns[0].token_ids == said.token_ids and other == policy.sequences(key)[0]


def test_a_context_that_is_replaced_after_a_lead_has_sequences_of_its_own():
    spec = spec_json(Memory(gym.make("agent_envs:agent_envs/SearchQA-v0", **ARGUMENTS), turns=1))
    policy, _, chat, items, played = searching(spec)
    key = longest(played)
    result, sequences = again(policy, items[key], lead_of(chat, played[key]))
    assert len(sequences) == len(result.trajectory.turns) > 1 and policy.rebuilt(result.trajectory) == sequences
    assert sequences[0] == policy.sequences(key)[0]


def test_leads_are_forgotten():
    policy, _, chat, items, played = searching()
    key = longest(played)
    again(policy, items[key], lead_of(chat, played[key]))
    policy.forget()
    first = policy.play([replace(items[key], key=key + "/again")])[key + "/again"].trajectory.turns[0]
    assert first.token_ids != played[key].trajectory.turns[0].token_ids
