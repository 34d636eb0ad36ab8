"""One gradient step over rows of tokens, whatever the loss: the algorithms bring the formulas."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from trainers.batching import MicroBatch, Row, micro_batches
from trainers.losses import token_mean
from trainers.training.forward import laid_out
from trainers.training.optimise import Optimiser
from trainers.training.pooling import add_up, averages

TokenLosses = Callable[[MicroBatch], tuple[torch.Tensor, dict[str, torch.Tensor]]]
Mean = Callable[[torch.Tensor, torch.Tensor, int, int], torch.Tensor]


def gradient_step(
    rows: Sequence[Row],
    parts: Any,
    token_losses: TokenLosses,
    mean: Mean = lambda by_token, trained, tokens, _: token_mean(by_token, trained, tokens),
    *,
    token_budget: int,
    optimiser: Optimiser | None = None,
) -> dict[str, float]:
    """Take one gradient step on rows and return its metrics. Denominators are those of all processes together.

    Args:
        rows: what to train on; without a trained token nothing moves.
        parts: of the run: model, optimiser, tokenizer, processes.
        token_losses: the loss of each token of a micro-batch (batch, tokens), and means over its trained ones by name; mixed
            precision around the model is its matter.
        mean: of token losses (batch, tokens), which of them are trained (batch, tokens), and the trained tokens and the rows
            of the whole step: what is differentiated; by default every trained token weighs the same.
        token_budget: tokens of a micro-batch, as `micro_batches` counts them.
        optimiser: of what the losses train; None for the run's model.
    """
    optimiser = optimiser or parts.optimiser
    mine = [sum(sum(row.sequence.trained) for row in rows), len(rows)]
    tokens, count = map(int, parts.processes.sums(mine))
    told = {"learning_rate": optimiser.learning_rate}
    if tokens == 0:
        return told
    totals: dict[str, float] = {"loss": 0.0}
    for micro in micro_batches_of(rows, parts, token_budget):
        by_token, metrics = token_losses(micro)
        loss = mean(by_token, micro.trained, tokens, count)
        parts.accelerator.backward(loss)
        totals["loss"] += float(loss.detach()) * tokens
        add_up(totals, metrics, int(micro.trained.sum()))
    whole = averages(parts.processes.sums_by_name(totals), tokens)
    return told | whole | {"grad_norm": optimiser.step(parts.accelerator)}


def micro_batches_of(rows: Sequence[Row], parts: Any, token_budget: int) -> Iterator[MicroBatch]:
    """Yield rows as micro-batches on the device of a run's model, laid out as it takes them."""
    for micro in micro_batches(rows, token_budget, parts.chat.pad_id, laid_out=laid_out(parts.model)):
        yield micro.to(parts.device)
