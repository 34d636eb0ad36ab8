"""Losses of tokens: hand-worked tables, the float64 reference, and the gradients of KL terms over all tokens."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from tests.trainers import reference_maths as reference
from tests.trainers.batches import batches, close, double, table, tensors
from trainers import losses

# ---- ratios


def test_hand_worked_log_ratios():
    # -1 - (-1.5) = 0.5; -1 - (-51) = 50, clamped to 20; -51 - (-1) = -50, clamped to -20; the last is not trained
    trained = torch.tensor([[True, True, True, False]])
    ours = losses.log_ratios(table([-1, -1, -51, -1]), table([-1.5, -51, -1, -9]), trained)
    assert ours.tolist() == [[0.5, 20.0, -20.0, 0.0]]


def test_hand_worked_sequence_log_ratios():
    # row 1: (0.5 - 0.1) / 2 = 0.2 at both trained tokens; row 2 has one trained token; row 3 none
    trained = torch.tensor([[True, False, True], [False, True, False], [False, False, False]])
    log_ratio = table([0.5, 0, -0.1], [0, 0.3, 0], [0, 0, 0])
    close(losses.sequence_log_ratios(log_ratio, trained), [[0.2, 0, 0.2], [0, 0.3, 0], [0, 0, 0]])


@given(batches())
def test_ratios_equal_the_reference(batch):
    logprobs, old, _, trained = batch
    ours = losses.log_ratios(*tensors(logprobs, old, trained))
    expected = reference.log_ratios(*double(logprobs, old), trained)
    close(ours, expected)
    ours = losses.sequence_log_ratios(ours, torch.from_numpy(trained))
    close(ours, reference.sequence_log_ratios(expected, trained))


def test_gspo_has_the_gradient_of_the_ratio_of_whole_rows():
    generator = torch.Generator().manual_seed(5)
    logprobs = (-torch.rand(3, 4, generator=generator, dtype=torch.float64)).requires_grad_()
    old = -torch.rand(3, 4, generator=generator, dtype=torch.float64)
    trained = torch.tensor([[True, True, False, True], [True, True, True, True], [False, False, True, False]])
    advantages = table([2.0], [-1.0], [0.5])
    # the paper's form: one ratio a row, one loss a row
    means = (torch.where(trained, logprobs - old, 0.0).sum(dim=1) / trained.sum(dim=1))[:, None]
    plain = losses.ppo_clip(means.exp(), advantages, 0.5, 0.5).sum() / 3
    ratios = losses.sequence_log_ratios(losses.log_ratios(logprobs, old, trained), trained).exp()
    ours = losses.sequence_mean(losses.ppo_clip(ratios, advantages.expand(3, 4), 0.5, 0.5), trained, 3)
    close(ours, plain.item())
    close(torch.autograd.grad(ours, logprobs)[0], torch.autograd.grad(plain, logprobs)[0].numpy())


# ---- losses of tokens

# Hand-worked, clip 0.2 below and 0.3 above, dual clip 3:
#   r 0.5, A  1: min(0.5, 0.8 * 1) = 0.5      -> loss -0.5   (A > 0 below the clip: still pulled back up)
#   r 0.5, A -1: min(-0.5, -0.8) = -0.8       -> loss  0.8   (clipped: no gradient)
#   r 1.5, A  2: min(3, 1.3 * 2) = 2.6        -> loss -2.6   (clipped)
#   r 1.5, A -2: min(-3, -2.6) = -3           -> loss  3
#   r 4,   A -2: min(-8, -2.6) = -8           -> loss  8; dual: max(-8, 3 * -2) = -6 -> loss 6
#   r 1.1, A  1: 1.1                          -> loss -1.1
RATIOS, ADVANTAGES = [0.5, 0.5, 1.5, 1.5, 4.0, 1.1], [1.0, -1.0, 2.0, -2.0, -2.0, 1.0]


def test_hand_worked_ppo_clip():
    ratios, advantages = table(RATIOS), table(ADVANTAGES)
    close(losses.ppo_clip(ratios, advantages, 0.2, 0.3), [[-0.5, 0.8, -2.6, 3, 8, -1.1]])
    close(losses.ppo_clip(ratios, advantages, 0.2, 0.3, dual_clip=3), [[-0.5, 0.8, -2.6, 3, 6, -1.1]])
    with pytest.raises(UsageError, match="dual_clip=1.0"):
        losses.ppo_clip(ratios, advantages, dual_clip=1.0)


def test_clipped_tokens_have_no_gradient():
    ratios = table(RATIOS).requires_grad_()
    losses.ppo_clip(ratios, table(ADVANTAGES), 0.2, 0.3, dual_clip=3).sum().backward()
    assert ratios.grad.tolist() == [[-1.0, 0.0, 0.0, 2.0, 0.0, -1.0]]


def test_hand_worked_cispo_and_reinforce():
    # weights: 0.5 (no lower bound), clip(1.5) = 1.3, clip(4) = 1.3; times -A log pi
    logprobs = table([-1.0, -2.0, -0.5]).requires_grad_()
    ours = losses.cispo(logprobs, table([0.5, 1.5, 4.0]), table([1.0, 2.0, -2.0]), eps_high=0.3)
    close(ours, [[0.5, 5.2, -1.3]])
    ours.sum().backward()
    close(logprobs.grad, [[-0.5, -2.6, 2.6]])  # a clipped token keeps its gradient
    old = logprobs.detach() - table([0.5, 1.5, 4.0]).log()
    ratios = losses.log_ratios(logprobs, old, torch.ones(1, 3, dtype=torch.bool)).exp()
    again = losses.cispo(logprobs, ratios, table([1.0, 2.0, -2.0]), eps_high=0.3)
    close(torch.autograd.grad(again.sum(), logprobs)[0], [[-0.5, -2.6, 2.6]])  # a weight carries none
    close(losses.cispo(logprobs, table([0.5, 1.5, 4.0]), table([1.0, 2.0, -2.0]), 0.2, 0.3), [[0.8, 5.2, -1.3]])
    close(losses.reinforce(logprobs, table([1.0, 2.0, -2.0])), [[1.0, 4.0, -1.0]])


@given(
    batches(), st.sampled_from([0.1, 0.2, 1.0]), st.sampled_from([0.2, 0.28, 5.0]), st.sampled_from([None, 1.5, 3.0])
)
def test_token_losses_equal_the_reference(batch, eps_low, eps_high, dual_clip):
    logprobs, old, advantages, trained = batch
    log_ratio = losses.log_ratios(*tensors(logprobs, old, trained))
    ratios, mask = log_ratio.exp(), torch.from_numpy(trained)
    logprobs64, old64, advantages64 = double(logprobs, old, advantages)
    ratios64 = np.exp(reference.log_ratios(logprobs64, old64, trained))
    new, advantage = tensors(logprobs, advantages)
    ours = losses.ppo_clip(ratios, advantage, eps_low, eps_high, dual_clip)
    assert ours.dtype == new.dtype
    close(ours * mask, reference.ppo_clip(ratios64, advantages64, trained, eps_low, eps_high, dual_clip))
    ours = losses.cispo(new, ratios, advantage, eps_low, eps_high)
    close(ours * mask, reference.cispo(logprobs64, ratios64, advantages64, trained, eps_low, eps_high))
    ours = losses.reinforce(new, advantage)
    close(ours * mask, reference.reinforce(logprobs64, advantages64, trained))
    metrics = losses.ratio_metrics(log_ratio, ratios, advantage, mask, eps_low, eps_high)
    log_ratio64 = reference.log_ratios(logprobs64, old64, trained)
    expected = reference.ratio_metrics(log_ratio64, ratios64, advantages64, trained, eps_low, eps_high)
    assert metrics.keys() == expected.keys()
    for name, value in expected.items():
        close(metrics[name], value)


def test_hand_worked_ratio_metrics():
    # of the six trained tokens of the table: 0.5 under A -1 is clipped low, 1.5 under A 2 high, the other four are not
    # k3 of exp(d) = r: r - 1 - log r, with d = log 2, 0, 0, 0, 0, 0: (2 - 1 - 0.6931472) / 6 = 0.0511421
    trained = torch.tensor([[True] * 6 + [False]])
    log_ratio = table([math.log(2), 0, 0, 0, 0, 0, 9])
    ours = losses.ratio_metrics(log_ratio, table([*RATIOS, 9]), table([*ADVANTAGES, 1]), trained, 0.2, 0.3)
    expected = {"low_mean": 1 / 6, "high_mean": 1 / 6, "region_mean": 2 / 6}
    for name, value in expected.items():
        close(ours[f"clip_ratio/{name}"], value)
    close(ours["approx_kl"], 0.0511421)


def test_hand_worked_extremes_of_rows():
    # of four rows one has no trained token; shares clipped low 1/2, 0, 1, and high 0, 1/2, 0: a mean over tokens hides both
    trained = torch.tensor([[True, True], [True, True], [False, False], [True, False]])
    ratios, signs = torch.tensor([[0.5, 1], [1, 2], [0.5, 9], [0.5, 9]]), torch.tensor([[-1.0, 1.0]] * 4)
    ours = losses.ratio_metrics(ratios.log(), ratios, signs, trained)
    assert (float(ours["clip_ratio/low_min"]), float(ours["clip_ratio/high_max"])) == (0.0, 0.5)
    first = losses.ratio_metrics(ratios[:1].log(), ratios[:1], signs[:1], trained[:1])
    assert (float(first["clip_ratio/low_min"]), float(first["clip_ratio/high_max"])) == (0.5, 0.0)
    none = losses.ratio_metrics(ratios.log(), ratios, signs, torch.zeros_like(trained))
    assert (float(none["clip_ratio/low_min"]), float(none["clip_ratio/high_max"])) == (1.0, 0.0)  # change no extreme


# ---- KL


def test_hand_worked_kl():
    # d = log(reference / pi) = log 2 = 0.6931472 and log(1/2): k1 = -d; k2 = d^2 / 2 = 0.4804530 / 2;
    # k3 = exp(d) - 1 - d = 2 - 1 - 0.6931472 and 1/2 - 1 + 0.6931472
    logprobs = table([-1.0, -1.0])
    reference_logprobs = logprobs + table([math.log(2), -math.log(2)])
    trained = torch.tensor([[True, True]])
    for estimator, expected in {
        "k1": [[-0.6931472, 0.6931472]],
        "k2": [[0.2402265, 0.2402265]],
        "k3": [[0.3068528, 0.1931472]],
    }.items():
        close(losses.kl_estimate(logprobs, reference_logprobs, trained, estimator), expected)
        penalty = losses.kl_penalty(logprobs.requires_grad_(), reference_logprobs, trained, 0.1, estimator)
        close(penalty, -0.1 * np.array(expected))
        assert not penalty.requires_grad
    with pytest.raises(UsageError, match="estimator='k4'"):
        losses.kl_estimate(logprobs, reference_logprobs, trained, "k4")


@given(batches(), st.sampled_from(["k1", "k2", "k3"]))
def test_kl_equals_the_reference(batch, estimator):
    logprobs, reference_logprobs, _, trained = batch
    ours = losses.kl_loss(*tensors(logprobs, reference_logprobs, trained), estimator)
    expected = reference.kl_estimate(*double(logprobs, reference_logprobs), trained, estimator)
    close(ours, expected)
    ratios = torch.full_like(ours, 1.5)
    close(losses.kl_loss(*tensors(logprobs, reference_logprobs, trained), estimator, ratios), 1.5 * expected)
    assert (ours[~torch.from_numpy(trained)] == 0).all()


LOGITS = torch.tensor([0.3, -1.2, 0.8, 0.1], dtype=torch.float64)
REFERENCE = torch.tensor([-0.5, 0.4, 0.2, 1.0], dtype=torch.float64).log_softmax(dim=0)
EVERY = torch.ones(1, 4, dtype=torch.bool)


def gradient_of(value, logits):
    return torch.autograd.grad(value, logits)[0]


def kl(left, right):
    return (left.exp() * (left - right)).sum()


def expected_kl_gradient(estimator, behaviour=None):
    """Over every token that could be sampled, from pi itself or, with ratios, from another behaviour policy."""
    logits = LOGITS.clone().requires_grad_()
    logprobs = logits.log_softmax(dim=0)
    sampled = logprobs.detach() if behaviour is None else behaviour
    ratios = None if behaviour is None else losses.log_ratios(logprobs[None], behaviour[None], EVERY).exp()
    terms = losses.kl_loss(logprobs[None], REFERENCE[None], EVERY, estimator, ratios)
    return gradient_of((sampled.exp() * terms[0]).sum(), logits)


def exact_kl_gradients():
    logits = LOGITS.clone().requires_grad_()
    reverse = gradient_of(kl(logits.log_softmax(dim=0), REFERENCE), logits)
    forward = gradient_of(kl(REFERENCE, logits.log_softmax(dim=0)), logits)
    return reverse, forward


def test_gradients_of_kl_terms_on_policy():
    reverse, forward = exact_kl_gradients()
    close(expected_kl_gradient("k1"), np.zeros(4))
    close(expected_kl_gradient("k2"), reverse.numpy())
    close(expected_kl_gradient("k3"), forward.numpy())
    assert (reverse - forward).abs().max() > 0.01


@pytest.mark.parametrize("behaviour", [LOGITS, torch.tensor([1.0, 0.0, -1.0, 0.5], dtype=torch.float64)])
@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_gradients_of_kl_terms_with_ratios(estimator, behaviour):
    close(expected_kl_gradient(estimator, behaviour.log_softmax(dim=0)), exact_kl_gradients()[0].numpy())


def test_gradients_of_kl_penalties_in_the_reward():
    reverse, forward = exact_kl_gradients()
    for estimator, expected in {"k1": reverse, "k3": reverse - forward}.items():
        logits = LOGITS.clone().requires_grad_()
        logprobs = logits.log_softmax(dim=0)
        rewards = losses.kl_penalty(logprobs[None], REFERENCE[None], EVERY, 1.0, estimator)
        policy_loss = losses.reinforce(logprobs[None], rewards)[0]
        close(gradient_of((logprobs.detach().exp() * policy_loss).sum(), logits), expected.numpy())


def test_entropy_bonus():
    assert losses.entropy_bonus(table([2.0, 0.0]), 0.5).tolist() == [[-1.0, 0.0]]
