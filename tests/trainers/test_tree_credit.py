"""Credit in trees: weights of leaves, shared tokens trained once or by each leaf, gradients of segments."""

import itertools
from dataclasses import replace

import pytest
import torch

from agent_envs.base.messages import ToolResult
from agent_envs.core.trajectory import Header, Trajectory, Turn
from benchmarks.arpo_bound import ScriptedLockstep, plan_of
from tests.trainers.conftest import make_model
from trainers import grpo
from trainers.advantages import group_advantages
from trainers.arpo import distinct_share, shared_once
from trainers.arpo_parts import BranchingSettings, grow
from trainers.batching import TrainRow, micro_batches
from trainers.contracts import TokenSequence
from trainers.training.forward import token_logprobs

SHARED, OWN = (3, 4), ((5, 6), (7, 8, 9), (10,))
ADVANTAGES = (1.5, -0.5, -0.4)


def forks_at_good_calls(node):
    """Known before the turn that is varied: how the call before it went."""
    return float(node.tool == "good" or node.number == 2)


def forks_where_the_trunk_fails(node):
    """Known from the trunk's own turn alone."""
    return float(node.delta > 0 or node.number == 2)


def value_of(script_of, rule, bits, roots, leaves):
    """Return the expected weighted and plain means of the leaves' rewards over all outcomes of bits with these chances."""
    means = [0.0, 0.0]
    for outcome in itertools.product((False, True), repeat=len(bits)):
        weight = 1.0
        for bit, chance in zip(outcome, bits.values(), strict=True):
            weight *= chance if bit else 1 - chance
        script = script_of(dict(zip(bits, outcome, strict=True)))
        settings = BranchingSettings(f"callable:{__name__}:{rule}", roots=roots, tokens=1)
        (tree,) = grow(plan_of(1, leaves), ScriptedLockstep(script), settings, 10)
        found = [(row.trajectory.total_reward, share) for row, share in tree.leaves()]
        assert len(tree.roots) == roots and len(found) == leaves
        means[0] += weight * sum(reward * share for reward, share in found) / roots
        means[1] += weight * sum(reward for reward, _ in found) / leaves
    return means


def turn_of(tool="", reward=0.0, entropy=0.0):
    results = (ToolResult("1", tool, ""),) if tool else ()
    return Turn(0, "", "", None, (), results, reward, terminated=not tool, entropies=(entropy,))


def test_weights_give_the_policys_own_mean_where_plain_ones_do_not():
    """Two roots, one fork: a good call forks at once, and is right in 8 of 10 cases; a bad one in 2. The value is 0.5."""
    bits = {f"good {root}": 0.5 for root in (0, 1)}
    bits |= {f"right {origin} {kind}": chance for origin in ("s/0/0", "s/0/1", "fork") for kind, chance in
             (("good", 0.8), ("bad", 0.2))}  # fmt: skip

    def script_of(outcome):
        def script(origin, number):
            kind = "good" if outcome[f"good {origin[4]}"] else "bad"
            if number == 1:
                return turn_of(kind)
            if kind == "bad" and number == 2:
                return turn_of("again")
            who = "fork" if origin.count("/") == 3 else origin
            return turn_of(reward=float(outcome[f"right {who} {kind}"]))

        return script

    weighted, plain = value_of(script_of, "forks_at_good_calls", bits, roots=2, leaves=3)
    assert weighted == pytest.approx(0.5, abs=1e-12) and plain > 0.52


def test_a_rule_that_reads_the_trunks_own_turn_bends_the_mean_whatever_the_weights():
    """A trunk that is about to fail has a high entropy there, and gets a second chance: 0.625 for a value of 0.5."""

    def script_of(outcome):
        def script(origin, number):
            if number == 1:
                return turn_of("search", entropy=0.5)
            won = outcome["fork"] if "t2b1" in origin else outcome["trunk"]
            return turn_of("search", entropy=0.1 if won else 1.0) if number == 2 else turn_of(reward=float(won))

        return script

    bits = {"trunk": 0.5, "fork": 0.5}
    weighted, _ = value_of(script_of, "forks_where_the_trunk_fails", bits, roots=1, leaves=2)
    assert weighted == pytest.approx(0.625)


def test_with_equal_weights_the_advantages_are_those_of_grpo():
    rewards = torch.tensor([1.0, 0.0, 0.5, 1.0, 1.0, 0.0, 0.0])
    names = [0, 0, 0, 1, 1, 2, 2]
    for scale in ("group_std", "batch_std", "none"):
        found = group_advantages(rewards, names, scale, weights=[0.25] * 7)
        assert torch.allclose(found, group_advantages(rewards, names, scale), atol=1e-6)


def test_weighted_advantages_of_a_hand_worked_tree():
    """Rewards 1, 0, 0 with weights 1/2, 1/4, 1/4: mean 1/2, and centred on it they sum to 0."""
    found = group_advantages(torch.tensor([1.0, 0.0, 0.0]), [0, 0, 0], "none", weights=[0.5, 0.25, 0.25])
    assert found.tolist() == pytest.approx([0.75, -0.375, -0.375])
    std = group_advantages(torch.tensor([1.0, 0.0, 0.0]), [0, 0, 0], eps=0.0, weights=[0.5, 0.25, 0.25])
    assert std.tolist() == pytest.approx([value / (0.375**0.5) for value in (0.75, -0.375, -0.375)], rel=1e-6)


def tree_rows(gap=0.0, turns=(1, 2)):
    """Return the rows of a trunk that two forks left behind its first turn, and their episodes."""
    model = make_model(torch.float64)
    rows, episodes = [], []
    for number, own in enumerate(OWN):
        ids = (1, 2, *SHARED, 11, *own)
        marks = (0, 0, 1, 1, 0, *(2,) * len(own))
        trained = tuple(mark in turns for mark in marks)
        kept = tuple(mark if mine else 0 for mark, mine in zip(marks, trained, strict=True))
        bare = TokenSequence(ids, trained, (0.0,) * len(ids), kept)
        (micro,) = micro_batches([TrainRow(bare, (0.0,) * len(ids))], 100, 0)
        with torch.no_grad():
            logprobs = (token_logprobs(model, micro)[0][0] - gap).tolist()
        logprobs = tuple(value if mine else 0.0 for value, mine in zip(logprobs, trained, strict=True))
        rows.append(TrainRow(replace(bare, logprobs=logprobs), tuple(ADVANTAGES[number] * mine for mine in trained)))
        branch = f"t2b{number}" if number else ""
        first, second = Turn(1, "k/", "", None, ()), Turn(2, f"k/{branch}", "", None, ())
        episodes.append(Trajectory(Header("e", "", "t", "train", "", 0, "k", branch), (), (first, second)))
    return model, rows, episodes


def gradient(model, rows, settings=None):
    settings = settings or grpo.GRPOSettings()
    model.zero_grad()
    for micro in micro_batches(rows, 1000, 0):
        by_token, _ = grpo.token_losses(*token_logprobs(model, micro), micro, settings)
        (by_token * micro.trained).sum().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def test_the_soft_gradient_of_a_shared_token_is_as_many_times_the_hard_one_as_leaves_lie_below():
    model, rows, episodes = tree_rows(turns=(1,))
    hard = shared_once(rows, episodes)
    assert len(hard) == 1 and sum(hard[0].sequence.trained) == len(SHARED)
    assert hard[0].advantages[2] == pytest.approx(sum(ADVANTAGES) / 3)
    soft, once = gradient(model, rows), gradient(model, hard)
    assert torch.allclose(soft, 3 * once, atol=1e-5) and soft.abs().max() > 1e-3
    # Where the ratio is over the clip, what is good is cut off and what is bad is not: no factor brings them together.
    model, rows, episodes = tree_rows(gap=0.5, turns=(1,))  # ratios of 1.65
    soft, once = gradient(model, rows), gradient(model, shared_once(rows, episodes))
    assert once.abs().max() == 0 and soft.abs().max() > 1e-3  # the mean is above 0, and cut off as a whole


def test_hard_credit_trains_every_token_once_and_leaves_own_tokens_as_they_are():
    _, rows, episodes = tree_rows()
    hard = shared_once(rows, episodes)
    assert [sum(row.sequence.trained) for row in rows] == [4, 5, 3]  # the mean over tokens divides by 12, or by 8
    assert [sum(row.sequence.trained) for row in hard] == [4, 3, 1]
    for row, old, own, advantage in zip(hard, rows, OWN, ADVANTAGES, strict=True):
        assert row.advantages[-len(own) :] == (advantage,) * len(own) and row.sequence.ids == old.sequence.ids
        kept = zip(row.sequence.trained, row.sequence.logprobs, row.sequence.turns, strict=True)
        assert all(mine or (logprob == 0.0 and turn == 0) for mine, logprob, turn in kept)
    assert distinct_share(rows) == pytest.approx((7 + 3 + 1) / 21)


def test_the_gradient_of_macro_actions_is_that_of_their_tokens():
    """Equation 9: a segment between tool calls as one action, given all before it; observations are in no segment."""
    model, rows, _ = tree_rows()
    settings = grpo.GRPOSettings(policy_loss="reinforce")
    tokens = gradient(model, rows, settings)
    segments = []
    for row, own, advantage in zip(rows, OWN, ADVANTAGES, strict=True):
        for start, stop in ((2, 4), (5, 5 + len(own))):
            ids = torch.tensor([row.sequence.ids[:stop]])
            logits = model(ids).logits[0, start - 1 : stop - 1].log_softmax(-1)
            segments.append(-advantage * logits.gather(1, ids[0, start:stop, None]).sum())
    model.zero_grad()
    sum(segments).backward()
    macro = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    assert torch.allclose(tokens, macro, atol=1e-5) and tokens.abs().max() > 1e-2
