"""Tokens are drawn from logits by one uniform each, through the inverse of the cumulative distribution."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from agent_envs.base.errors import UsageError
from trainers.contracts import Sampling

_KEYS = 2**128


class Drawn(NamedTuple):
    """One token a row, each tensor (rows,).

    Attributes:
        ids: token ids.
        logprobs: of these tokens, under the distribution that was drawn from.
        entropies: of that distribution, in nats.
    """

    ids: torch.Tensor
    logprobs: torch.Tensor
    entropies: torch.Tensor


def check_sampling(sampling: Sampling) -> None:
    """Refuse settings that name no distribution."""
    if not sampling.temperature >= 0:
        raise UsageError(f"temperature={sampling.temperature}: give 0 (the likeliest token) or more")
    if sampling.top_k < 0:
        raise UsageError(f"top_k={sampling.top_k}: give 0 (all tokens) or more")
    if not 0 < sampling.top_p <= 1:
        raise UsageError(f"top_p={sampling.top_p}: give a share in (0, 1]")


def uniforms(seeds: Sequence[int], lengths: Sequence[int]) -> torch.Tensor:
    """The uniforms in [0, 1) of each row's tokens: they depend on the row's seed alone. Float64, 0 after a row's end."""
    table = np.zeros((len(seeds), max(lengths, default=0)))  # (rows, tokens)
    for row, (seed, length) in enumerate(zip(seeds, lengths, strict=True)):
        table[row, :length] = np.random.Generator(np.random.Philox(key=seed % _KEYS)).random(length)
    return torch.from_numpy(table)


def allowed_table(allowed: Sequence[tuple[int, ...] | None], vocabulary: int) -> torch.Tensor | None:
    """Which tokens each row may draw, (rows, vocabulary) of bool; None where every row may draw all."""
    if all(ids is None for ids in allowed):
        return None
    table = torch.zeros(len(allowed), vocabulary, dtype=torch.bool)
    for row, ids in enumerate(allowed):
        if ids is None:
            table[row] = True
        elif ids and 0 <= min(ids) and max(ids) < vocabulary:
            table[row, list(ids)] = True
        else:
            raise UsageError(f"allowed_ids={ids!r:.80}: give at least one, each from 0 to {vocabulary - 1}")
    return table


def draw(logits: torch.Tensor, uniform: torch.Tensor, sampling: Sampling, allowed: torch.Tensor | None = None) -> Drawn:
    """Draw a token from each row of logits.

    The filters come in this order: allowed ids, temperature, top-k, top-p. The cumulative distribution runs over token
    ids as they are numbered, in float64, so a change of rounding in the logits moves a draw only where the row's
    uniform lies at a border. Temperature 0 takes the likeliest token of what the filters leave at temperature 1.

    Args:
        logits: (rows, vocabulary).
        uniform: float64 in [0, 1), (rows,).
        sampling: temperature, top-k and top-p.
        allowed: which tokens may be drawn, (rows, vocabulary); None for all.
    """
    logprobs = log_distribution(logits, sampling, allowed)  # (rows, vocabulary)
    probs = logprobs.exp()
    entropies = -(probs * logprobs).sum(-1)
    if sampling.temperature == 0:
        ids = logprobs.argmax(-1, keepdim=True)
    else:
        cumulative = probs.cumsum(-1, dtype=torch.float64)
        # The largest uniform, 1 - 2**-53, times the total rounds to less than the total: only a NaN needs the clamp.
        target = uniform.unsqueeze(-1) * cumulative[:, -1:]
        ids = torch.searchsorted(cumulative, target, right=True).clamp_(max=logits.shape[-1] - 1)
    return Drawn(ids.squeeze(-1), logprobs.gather(-1, ids).squeeze(-1), entropies)


def log_distribution(logits: torch.Tensor, sampling: Sampling, allowed: torch.Tensor | None = None) -> torch.Tensor:
    """The distribution that tokens are drawn from, as logarithms: hugely negative, yet finite, where it is 0."""
    scores = logits if logits.dtype == torch.float64 else logits.float()
    if allowed is not None:
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    if sampling.temperature not in (0, 1):
        scores = scores / max(sampling.temperature, 1e-6)  # colder would overflow, and changes nothing
    if 0 < sampling.top_k < scores.shape[-1]:
        scores = _only(scores, scores.topk(sampling.top_k, dim=-1).indices)
    if sampling.top_p < 1:
        scores = _nucleus(scores, sampling.top_p)
    return scores.log_softmax(-1).clamp_(min=torch.finfo(scores.dtype).min)


def _only(scores: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    kept = torch.full_like(scores, torch.finfo(scores.dtype).min)
    return kept.scatter_(-1, ids, scores.gather(-1, ids))


def _nucleus(scores: torch.Tensor, top_p: float) -> torch.Tensor:
    ordered, order = scores.sort(dim=-1, descending=True, stable=True)
    probs = ordered.softmax(-1, dtype=torch.float64)
    before = probs.cumsum(-1) - probs  # what the likelier tokens hold
    ordered = ordered.masked_fill(before >= top_p, torch.finfo(scores.dtype).min)
    return torch.empty_like(scores).scatter_(-1, order, ordered)
