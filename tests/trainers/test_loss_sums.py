"""Losses of batches: sums under any split into micro-batches, gradients by finite differences, engine weights."""

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

CORRECTIONS = st.sampled_from([("token_truncate", 2.0), ("sequence_mask", 3.0), ("off", 1.0)])


# ---- sums


def test_hand_worked_sums():
    # trained losses: row 1: 1, 2, 6; row 2: 5; row 3: none
    values = table([1, 2, 6], [9, 5, 9], [9, 9, 9])
    trained = torch.tensor([[True, True, True], [False, True, False], [False, False, False]])
    assert losses.token_mean(values, trained, 4).item() == 14 / 4
    assert losses.sequence_mean(values, trained, 3).item() == pytest.approx((3 + 5 + 0) / 3)
    assert losses.dr_grpo(values, trained, 3, 10).item() == pytest.approx(14 / 30)
    with pytest.raises(UsageError, match="divided by 0"):
        losses.token_mean(values, trained, 0)


@given(batches(), st.data())
def test_sums_equal_the_reference_and_do_not_depend_on_the_split(batch, data):
    values, _, _, mask = batch
    count = len(values)
    cuts = sorted(data.draw(st.sets(st.integers(1, count - 1), max_size=3))) if count > 1 else []
    order = data.draw(st.permutations(range(count)))
    parts = [list(part) for part in np.split(np.array(order), cuts)]
    tokens = max(int(mask.sum()), 1)
    sums = {"token_mean": (tokens,), "sequence_mean": (count,), "dr_grpo": (count, 7)}
    for name, denominators in sums.items():
        whole = torch.from_numpy(values).requires_grad_()
        split = torch.from_numpy(values).requires_grad_()
        trained = torch.from_numpy(mask)
        total = getattr(losses, name)(whole, trained, *denominators)
        close(total, getattr(reference, name)(*double(values), mask, *denominators))
        total.backward()
        added = 0.0
        for part in parts:
            loss = getattr(losses, name)(split[part], trained[part], *denominators)
            loss.backward()
            added += loss.item()
        assert added == pytest.approx(total.item(), rel=1e-6, abs=1e-6)
        torch.testing.assert_close(split.grad, whole.grad, rtol=0, atol=0)


def test_split_and_padding_leave_the_gradient_of_a_whole_loss_alone():
    generator = torch.Generator().manual_seed(7)
    shape = (6, 8)
    start, old, ref, advantages = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(4))
    trained = torch.rand(shape, generator=generator) < 0.6
    tokens = int(trained.sum())

    def loss_of(logprobs, rows, padding):
        def cut(values):
            return torch.nn.functional.pad(values[rows], (0, padding))

        new, mask = cut(logprobs), cut(trained)
        log_ratio = losses.log_ratios(new, cut(old), mask)
        sequence = losses.sequence_log_ratios(log_ratio, mask)
        terms = losses.ppo_clip(log_ratio.exp(), cut(advantages), 0.2, 0.28, 3.0)
        terms = terms + losses.ppo_clip(sequence.exp(), cut(advantages)) + losses.kl_loss(new, cut(ref), mask, "k3")
        weights, _ = losses.engine_weights(cut(old), cut(ref), mask, "sequence_mask")
        return losses.token_mean(terms * weights, mask, tokens)

    gradients = []
    for parts, padding in [([range(6)], 0), ([[4, 1], [0], [5, 2, 3]], 5)]:
        logprobs = start.clone().requires_grad_()
        for part in parts:
            loss_of(logprobs, list(part), padding).backward()
        gradients.append(logprobs.grad)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-15)
    assert gradients[0].abs().sum() > 0


# ---- gradients


def test_gradients_by_finite_differences():
    generator = torch.Generator().manual_seed(3)
    shape = (3, 4)
    logprobs = (-2 * torch.rand(shape, generator=generator, dtype=torch.float64)).requires_grad_()
    old = -2 * torch.rand(shape, generator=generator, dtype=torch.float64)
    advantages = torch.randn(shape, generator=generator, dtype=torch.float64)
    trained = torch.rand(shape, generator=generator) < 0.7
    weights, _ = losses.engine_weights(old, old + 0.1, trained, "token_truncate")

    def ratios(new):
        return losses.log_ratios(new, old, trained).exp()

    functions = [
        lambda new: losses.ppo_clip(ratios(new), advantages, 0.2, 0.28),
        lambda new: losses.ppo_clip(ratios(new), advantages, 0.2, 0.28, dual_clip=1.5) * weights,
        lambda new: losses.reinforce(new, advantages),
        lambda new: losses.kl_loss(new, old, trained, "k1"),
        lambda new: losses.kl_loss(new, old, trained, "k2"),
        lambda new: losses.kl_loss(new, old, trained, "k3"),
        lambda new: losses.kl_loss(new, old, trained, "k3", ratios(new)),
        lambda new: losses.entropy_bonus(new.exp(), 0.01),
    ]
    for function in functions:
        for add in (
            lambda values: losses.token_mean(values, trained, 5),
            lambda values: losses.sequence_mean(values, trained, 3),
            lambda values: losses.dr_grpo(values, trained, 3, 4),
        ):
            assert torch.autograd.gradcheck(lambda new, f=function, add=add: add(f(new)), (logprobs,))


def test_broken_logprobs_of_untrained_tokens_do_no_harm():
    trained = torch.tensor([[True, False, False, True]])
    logprobs = table([-1.0, math.nan, -math.inf, -2.0]).requires_grad_()
    other = table([-1.5, -math.inf, math.nan, -1.0])
    advantages = table([1.0, 2.0, 3.0, -1.0])
    log_ratio = losses.log_ratios(logprobs, other, trained)
    terms = losses.ppo_clip(log_ratio.exp(), advantages) + losses.reinforce(logprobs, advantages)
    terms = terms + losses.cispo(logprobs, log_ratio.exp(), advantages) + losses.kl_loss(logprobs, other, trained)
    terms = terms + losses.ppo_clip(losses.sequence_log_ratios(log_ratio, trained).exp(), advantages)
    weights, metrics = losses.engine_weights(logprobs, other, trained)
    loss = losses.sequence_mean(terms * weights, trained, 1)
    loss.backward()
    assert math.isfinite(loss.item())
    assert all(math.isfinite(value.item()) for value in metrics.values())
    assert logprobs.grad[~trained].tolist() == [0.0, 0.0]
    assert (logprobs.grad[trained] != 0).all()


# ---- engine and trainer


def test_hand_worked_engine_weights():
    # differences (trainer - engine): row 1: log 3, log 1/2; row 2: log 4; row 3: log 2.5
    #   tokens: 3 -> 2 (cap), 1/2; 4 -> 2; 2.5 -> 2.      rows: 3 * 1/2 = 1.5; 4 is above 3: 0; 2.5
    trained = torch.tensor([[True, True], [True, False], [False, True]])
    engine = table([-3.0, -3.0], [-3.0, 0], [0, -3.0])
    trainer = engine + table([math.log(3), -math.log(2)], [math.log(4), 5], [5, math.log(2.5)])
    expected = {
        "token_truncate": [[2, 0.5], [2, 0], [0, 2]],
        "sequence_mask": [[1.5, 1.5], [0, 0], [0, 2.5]],
        "off": [[1, 1], [1, 0], [0, 1]],
    }
    for correction, weights in expected.items():
        ours, metrics = losses.engine_weights(trainer.requires_grad_(), engine, trained, correction)
        close(ours, weights)
        assert not ours.requires_grad
        # |differences| 1.0986123, 0.6931472, 1.3862944, 0.9162907: sum 4.0943446 / 4, largest 1.3862944
        close(metrics["sampling/sampling_logp_difference/mean"], 1.0235861)
        close(metrics["sampling/sampling_logp_difference/max"], 1.3862944)
        # k3 = r - 1 - log r: 3 - 1 - 1.0986123 = 0.9013877; 0.5 - 1 + 0.6931472 = 0.1931472; 4 - 1 - 1.3862944 = 1.6137056;
        #      2.5 - 1 - 0.9162907 = 0.5837093; mean 3.2919498 / 4
        close(metrics["sampling/kl"], 0.8229874)
        close(metrics["sampling/importance_sampling_ratio/mean"], np.sum(weights) / 4)
        close(metrics["sampling/importance_sampling_ratio/max"], np.max(weights))
    close(losses.engine_weights(trainer, engine, trained, "sequence_mask", cap=5)[0], [[1.5, 1.5], [4, 0], [0, 2.5]])
    with pytest.raises(UsageError, match="correction='mask'"):
        losses.engine_weights(trainer, engine, trained, "mask")


@given(batches(low=-1.0), CORRECTIONS)
def test_engine_weights_equal_the_reference(batch, correction):
    trainer, engine, _, trained = batch
    ours, metrics = losses.engine_weights(*tensors(trainer, engine, trained), correction[0])
    trainer, engine = double(trainer, engine)
    expected = reference.engine_weights(trainer, engine, trained, *correction)
    close(ours, expected)
    for name, value in reference.engine_metrics(trainer, engine, expected, trained).items():
        close(metrics[name], value)
    assert len(metrics) == 5
