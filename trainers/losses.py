"""Losses are built from log-probabilities and advantages: ratios, clips, KL, entropy, sums over tokens, engine correction.

Pure functions on tensors (batch, tokens); `trained` is True where the policy sampled the token. A loss is built in three steps:
a ratio, a loss per token, one of the three sums; terms are added, and multiplied by engine weights, per token before the sum:

    log_ratio = log_ratios(logprobs, old_logprobs, trained)
    losses = ppo_clip(log_ratio.exp(), advantages, 0.2, 0.28)
    losses = weights * losses + beta * kl_loss(logprobs, reference_logprobs, trained)
    loss = token_mean(losses, trained, tokens_of_the_whole_batch)

Tokens that are not trained get a gradient of exactly 0, whatever finite advantage or broken log-probability stands there.
docs/formulas.md has every formula, its source, and what other libraries do.
"""

from typing import Literal

import torch

from agent_envs.base.errors import UsageError

Estimator = Literal["k1", "k2", "k3"]
Correction = Literal["token_truncate", "sequence_mask", "off"]
LOG_RATIO_LIMIT = 20.0  # exp(20) = 4.9e8: far beyond every clip, far below float32's overflow


def log_ratios(logprobs: torch.Tensor, old_logprobs: torch.Tensor, trained: torch.Tensor) -> torch.Tensor:
    """Return log(pi / pi_old) of each token, clamped to +-20; 0 where not trained (batch, tokens).

    The clamp keeps exp finite; where it acts, the gradient is 0.
    """
    difference = torch.where(trained, logprobs - old_logprobs, 0.0)
    return difference.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def sequence_log_ratios(log_ratio: torch.Tensor, trained: torch.Tensor) -> torch.Tensor:
    """Return GSPO's log ratio of each row, the mean over its trained tokens (arXiv 2507.18071, section 4.1), at each token.

    This is the GSPO-token form (section 4.3): the value at every trained token is the row's, the gradient flows through that
    token alone. Under one advantage a row its loss and gradient are plain GSPO's; advantages may also differ by turn.

    Args:
        log_ratio: from `log_ratios` (batch, tokens).
        trained: which tokens carry a gradient (batch, tokens).

    Returns:
        Log ratios, 0 where not trained (batch, tokens).
    """
    row_mean = log_ratio.detach().sum(dim=1, keepdim=True) / trained.sum(dim=1, keepdim=True).clamp(min=1)  # (batch, 1)
    return torch.where(trained, row_mean + log_ratio - log_ratio.detach(), 0.0)


def ppo_clip(
    ratios: torch.Tensor,
    advantages: torch.Tensor,
    eps_low: float = 0.2,
    eps_high: float = 0.2,
    dual_clip: float | None = None,
) -> torch.Tensor:
    """Return PPO's clipped loss, -min(r A, clip(r, 1 - eps_low, 1 + eps_high) A) (arXiv 1707.06347, equation 7).

    eps_high > eps_low is DAPO's clip-higher (arXiv 2503.14476, section 3.1: 0.28 over 0.2). With sequence ratios it is GSPO.

    Args:
        ratios: pi / pi_old (batch, tokens).
        advantages: (batch, tokens).
        eps_low: how far below 1 the ratio may push.
        eps_high: how far above 1 the ratio may push.
        dual_clip: c > 1: where A < 0 the loss is at most -c A (arXiv 1912.09729, the section on dual-clip PPO).

    Returns:
        A loss a token (batch, tokens).
    """
    losses = torch.maximum(-ratios * advantages, -ratios.clamp(1 - eps_low, 1 + eps_high) * advantages)
    if dual_clip is None:
        return losses
    if dual_clip <= 1:
        raise UsageError(f"dual_clip={dual_clip}: must be above 1")
    return torch.where(advantages < 0, torch.minimum(losses, -dual_clip * advantages), losses)


def cispo(
    logprobs: torch.Tensor, ratios: torch.Tensor, advantages: torch.Tensor, eps_low: float = 1.0, eps_high: float = 0.2
) -> torch.Tensor:
    """Return CISPO's loss, -sg(clip(r, 1 - eps_low, 1 + eps_high)) A log pi (arXiv 2506.13585, section 3.1).

    The clip bounds the weight of a token, it never takes the token's gradient away. eps_low = 1 is no lower bound, as there.

    Args:
        logprobs: log pi (batch, tokens).
        ratios: pi / pi_old (batch, tokens).
        advantages: (batch, tokens).
        eps_low: how far below 1 a weight may be.
        eps_high: how far above 1 a weight may be.

    Returns:
        A loss a token (batch, tokens).
    """
    return -ratios.detach().clamp(1 - eps_low, 1 + eps_high) * advantages * logprobs


def reinforce(logprobs: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
    """Return -A log pi of each token: the policy gradient of tokens that pi itself has just sampled (batch, tokens)."""
    return -advantages * logprobs


def kl_estimate(
    logprobs: torch.Tensor, reference_logprobs: torch.Tensor, trained: torch.Tensor, estimator: Estimator = "k3"
) -> torch.Tensor:
    """Estimate KL(pi || reference) at each sampled token by k1, k2 or k3 (Schulman, 2020); 0 where not trained.

    With d = log(reference / pi): k1 = -d has the right mean and a high variance, k2 = d^2 / 2 is biased, k3 = exp(d) - 1 - d
    has the right mean and is never negative. d is clamped to +-20. Estimates are 0 where not trained (batch, tokens).
    """
    log_ratio = log_ratios(reference_logprobs, logprobs, trained)
    if estimator == "k1":
        return -log_ratio
    if estimator == "k2":
        return log_ratio**2 / 2
    if estimator == "k3":
        return torch.expm1(log_ratio) - log_ratio
    raise UsageError(f"estimator={estimator!r}: k1, k2 or k3")


def kl_loss(
    logprobs: torch.Tensor,
    reference_logprobs: torch.Tensor,
    trained: torch.Tensor,
    estimator: Estimator = "k3",
    ratios: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return a KL term to add, times its coefficient, to the loss of each token.

    A right value does not make a right gradient. Differentiated as they stand, over tokens sampled from pi:
    k1 gives grad log pi, zero on average (it regularises nothing); k2 gives log(pi / reference) grad log pi, on average the
    gradient of KL(pi || reference); k3 gives (1 - reference / pi) grad log pi, on average that of KL(reference || pi).
    k3 without ratios is GRPO's term (arXiv 2402.03300, equation 4). With `ratios` = pi / pi_old, which carry a gradient
    themselves, k1 and k3 have the gradient of KL(pi || reference) on average, also off-policy; k2 has it only without.

    Args:
        logprobs: log pi (batch, tokens).
        reference_logprobs: of the same tokens under the reference model (batch, tokens).
        trained: which tokens carry a gradient (batch, tokens).
        estimator: k1, k2 or k3.
        ratios: pi / pi_old, not detached (batch, tokens).

    Returns:
        A loss a token (batch, tokens).
    """
    estimates = kl_estimate(logprobs, reference_logprobs, trained, estimator)
    return estimates if ratios is None else ratios * estimates


def kl_penalty(
    logprobs: torch.Tensor,
    reference_logprobs: torch.Tensor,
    trained: torch.Tensor,
    coefficient: float,
    estimator: Estimator = "k1",
) -> torch.Tensor:
    """Return the KL penalty on each token's reward, -coefficient * KL estimate, without a gradient (batch, tokens).

    In a reward k1 is the right one: weighted by grad log pi it gives the gradient of KL(pi || reference); k3 gives that of
    KL(pi || reference) - KL(reference || pi). Add its sum over a turn or an episode to the reward, before advantages.
    """
    return -coefficient * kl_estimate(logprobs.detach(), reference_logprobs.detach(), trained, estimator)


def entropy_bonus(entropies: torch.Tensor, coefficient: float) -> torch.Tensor:
    """Return -coefficient * entropy of each token's distribution: added to the loss, it rewards spread (batch, tokens)."""
    return -coefficient * entropies


def token_mean(losses: torch.Tensor, trained: torch.Tensor, tokens: int) -> torch.Tensor:
    """Sum over trained tokens, divided by `tokens`: every token weighs the same (DAPO, arXiv 2503.14476, section 3.3).

    Here and below the denominator is that of the whole batch over all processes: then the losses of micro-batches, and their
    gradients, add up to the whole batch's under any split into rows. (Where gradients are averaged over processes, multiply
    by their number.)

    Args:
        losses: of this micro-batch (batch, tokens).
        trained: which tokens count (batch, tokens).
        tokens: how many tokens are trained in the whole batch.
    """
    return _divided_by_count(tokens, torch.where(trained, losses, 0.0).sum())


def sequence_mean(losses: torch.Tensor, trained: torch.Tensor, rows: int) -> torch.Tensor:
    """Average over each row's trained tokens, summed over rows, divided by `rows` (GRPO, arXiv 2402.03300, equation 3).

    A token weighs less in a long row. A row without trained tokens adds 0.

    Args:
        losses: of this micro-batch (batch, tokens).
        trained: which tokens count (batch, tokens).
        rows: how many rows the whole batch has.
    """
    row_sums = torch.where(trained, losses, 0.0).sum(dim=1)  # (batch,)
    return _divided_by_count(rows, (row_sums / trained.sum(dim=1).clamp(min=1)).sum())


def dr_grpo(losses: torch.Tensor, trained: torch.Tensor, rows: int, length: int) -> torch.Tensor:
    """Sum over trained tokens, divided by rows times a constant length (Dr. GRPO, arXiv 2503.20783, section 3).

    No row's weight depends on its own length: with group advantages of scale `none` the gradient is the policy's, up to a
    constant.

    Args:
        losses: of this micro-batch (batch, tokens).
        trained: which tokens count (batch, tokens).
        rows: how many rows the whole batch has.
        length: a constant of the run, such as the most tokens an episode may sample.
    """
    return _divided_by_count(rows * length, torch.where(trained, losses, 0.0).sum())


@torch.no_grad()
def engine_weights(
    logprobs: torch.Tensor,
    engine_logprobs: torch.Tensor,
    trained: torch.Tensor,
    correction: Correction = "sequence_mask",
    cap: float | None = None,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return trainer-over-engine weights by `correction`, 0 if not trained, and metrics; UsageError for an unknown one.

    `token_truncate`: min(pi_trainer / pi_engine, cap) of each token (truncated importance sampling; cap 2).
    `sequence_mask`: the ratio of the whole row, and 0 for the row where it is above the cap (TRL 1.16's default; cap 3).
    `off`: 1, with the same metrics.

    Args:
        logprobs: of the trainer's model at the weights that sampled (batch, tokens).
        engine_logprobs: as the engine gave them (batch, tokens).
        trained: which tokens were sampled (batch, tokens).
        correction: how to weigh.
        cap: None for the one named above.

    Returns:
        Weights without a gradient, 0 where not trained (batch, tokens), and metrics over trained tokens: mean and largest
        |difference|, k3 of KL(engine || trainer), mean and largest weight.
    """
    log_ratio = log_ratios(logprobs, engine_logprobs, trained)
    if correction == "token_truncate":
        weights = log_ratio.exp().clamp(max=2.0 if cap is None else cap)
    elif correction == "sequence_mask":
        row_ratio = log_ratio.sum(dim=1, keepdim=True).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()  # (batch, 1)
        weights = torch.where(row_ratio > (3.0 if cap is None else cap), 0.0, row_ratio).expand_as(log_ratio)
    elif correction == "off":
        weights = torch.ones_like(log_ratio)
    else:
        raise UsageError(f"correction={correction!r}: token_truncate, sequence_mask or off")
    weights = torch.where(trained, weights, 0.0)
    difference = torch.where(trained, logprobs - engine_logprobs, 0.0).abs()
    return weights, {
        "sampling/sampling_logp_difference/mean": _mean(difference, trained),
        "sampling/sampling_logp_difference/max": difference.max(),
        "sampling/kl": _mean(torch.expm1(log_ratio) - log_ratio, trained),
        "sampling/importance_sampling_ratio/mean": _mean(weights, trained),
        "sampling/importance_sampling_ratio/max": weights.max(),
    }


@torch.no_grad()
def ratio_metrics(
    log_ratio: torch.Tensor,
    ratios: torch.Tensor,
    advantages: torch.Tensor,
    trained: torch.Tensor,
    eps_low: float = 0.2,
    eps_high: float = 0.2,
) -> dict[str, torch.Tensor]:
    """Return the shares of trained tokens, and of rows' the extreme, whose gradient the clip took; k3 of KL(pi_old || pi).

    `log_ratio` is of tokens, from `log_ratios`; `ratios` is what the loss clipped, of tokens or of sequences.
    """
    low = (ratios < 1 - eps_low) & (advantages < 0)
    high = (ratios > 1 + eps_high) & (advantages > 0)
    by_row = [(side & trained).sum(dim=1) / trained.sum(dim=1) for side in (low, high)]  # (batch,), NaN without tokens
    return {
        "clip_ratio/low_mean": _mean(low.to(ratios.dtype), trained),
        "clip_ratio/high_mean": _mean(high.to(ratios.dtype), trained),
        "clip_ratio/low_min": by_row[0].nan_to_num(1.0).min(),
        "clip_ratio/high_max": by_row[1].nan_to_num(0.0).max(),
        "clip_ratio/region_mean": _mean((low | high).to(ratios.dtype), trained),
        "approx_kl": _mean(torch.expm1(log_ratio) - log_ratio, trained),
    }


def _mean(values: torch.Tensor, trained: torch.Tensor) -> torch.Tensor:
    """Return the mean over trained tokens; 0 without any."""
    return torch.where(trained, values, 0.0).sum() / trained.sum().clamp(min=1)


def _divided_by_count(count: int, total: torch.Tensor) -> torch.Tensor:
    """Divide a total by a count; UsageError for a count below 1."""
    if count < 1:
        raise UsageError(f"a loss divided by {count}: nothing is trained in the whole batch")
    return total / count
