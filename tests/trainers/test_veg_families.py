"""VEG on every family: episodes with scripted feedback are played, rewarded and learnt from, and feedback has no gradient."""

import copy

import pytest
import torch

from agent_envs.core.registry import TABLE, row_of
from tests.examples import sample
from tests.trainers.earl_parts.expanded.players import player_for
from tests.trainers.players import ONE_A_FAMILY, SEARCH, player
from tests.trainers.test_grpo import rewarded, rows_for, run_of
from trainers import grpo
from trainers.environments import environment_spec
from trainers.grpo import GRPOSettings
from trainers.sampling import plan_groups, play_groups

QUICK = (*ONE_A_FAMILY, "SortExpA", "CountdownExpA")  # each kind of action, too
OTHERS = [row.name for row in TABLE if row.name not in QUICK]
FEEDBACK = [("VerbalFeedback", {"feedback": "scripted:good", "epsilon": 0.5})]


def played(name, arguments):
    """Return groups with rewards, their model and its tokens."""
    if name.endswith("ExpA"):
        policy, model, chat, _ = player_for(name)
    else:
        policy, model, chat, _ = player(name, arguments, max_context=2048, max_new_tokens=4)
    spec = environment_spec(name, arguments, FEEDBACK)
    groups = play_groups(plan_groups(spec, "train", [0, 1], 2, "k"), policy)
    return rewarded(groups, (1.0, 0.0, 0.0, 1.0)), model, chat


def check(name, arguments):
    groups, model, chat = played(name, arguments)
    before = copy.deepcopy(model.state_dict())
    rows, signal = rows_for(groups, GRPOSettings())
    stats = grpo.update(rows, run_of(model, chat), GRPOSettings())
    assert signal == 1.0 and sum(group.drift for group in groups) == 0
    assert 0 < stats["grad_norm"] < float("inf") and stats["approx_kl"] < 1e-6
    assert any(not torch.equal(before[key], value) for key, value in model.state_dict().items())
    for group in groups:
        for result, sequences in zip(group.results, group.sequences, strict=True):
            trajectory = result.trajectory
            assert [message.author for message in trajectory.prompt].count("feedback") == 1
            sampled = sum(sum(turn.sampled) if turn.sampled else len(turn.token_ids) for turn in trajectory.turns)
            trained = sum(sum(sequence.trained) for sequence in sequences)
            assert trained == sampled > 0  # and so no token of feedback


def test_no_family_is_left_out():
    assert {row_of(name).family for name in QUICK} == {row.family for row in TABLE}
    assert sorted((*QUICK, *OTHERS)) == sorted(row.name for row in TABLE)


@pytest.mark.parametrize("name", sample(QUICK, 4))
def test_veg_updates_on_a_family(name):
    check(name, SEARCH if name == "SearchQA" else {})


@pytest.mark.heavy
@pytest.mark.parametrize("name", OTHERS)
def test_veg_updates_on_every_other_environment(name):
    check(name, {})


def test_feedback_differs_within_a_group_and_between_steps():
    """Chance and scripts are keyed by the rollout: of eight rollouts of one task not all are told the same."""
    spec = environment_spec("SearchQA", SEARCH, FEEDBACK)
    policy, _, _, _ = player("SearchQA", SEARCH)
    (group,) = play_groups(plan_groups(spec, "train", [3], 8, "k"), policy)
    (other,) = play_groups(plan_groups(spec, "train", [3], 8, "l"), policy)
    told = [[result.trajectory.prompt[-1].content for result in found.results] for found in (group, other)]
    assert len(set(told[0])) > 1 and told[0] != told[1]
    (again,) = play_groups(plan_groups(spec, "train", [3], 8, "k"), policy)
    assert [result.trajectory for result in again.results] == [result.trajectory for result in group.results]
