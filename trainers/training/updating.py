"""One gradient step over rows of tokens, whatever the loss: the algorithms bring the formulas."""

from collections.abc import Callable, Sequence
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
    run: Any,
    token_losses: TokenLosses,
    mean: Mean = lambda by_token, trained, tokens, _: token_mean(by_token, trained, tokens),
    *,
    token_budget: int,
    optimiser: Optimiser | None = None,
) -> dict[str, float]:
    """Take one gradient step on rows and return its metrics. Denominators are those of all processes together.

    Args:
        rows: what to train on; without a trained token nothing moves.
        run: the `TrainingRun`: model, optimiser, tokenizer, processes.
        token_losses: the loss of each token of a micro-batch (batch, tokens), and means over its trained ones by name; mixed
            precision around the model is its matter.
        mean: of token losses (batch, tokens), which of them are trained (batch, tokens), and the trained tokens and the rows
            of the whole step: what is differentiated; by default every trained token weighs the same.
        token_budget: tokens of a micro-batch, as `micro_batches` counts them.
        optimiser: of what the losses train; None for the run's model.
    """
    optimiser = optimiser or run.optimiser
    tokens, count = (int(number) for number in run.sums([sum(sum(row.sequence.trained) for row in rows), len(rows)]))
    told = {"learning_rate": optimiser.learning_rate}
    if tokens == 0:
        return told
    totals: dict[str, float] = {"loss": 0.0}
    for micro in micro_batches(rows, token_budget, run.chat.pad_id, laid_out=laid_out(run.model)):
        micro = micro.to(run.device)
        by_token, metrics = token_losses(micro)
        loss = mean(by_token, micro.trained, tokens, count)
        run.accelerator.backward(loss)
        totals["loss"] += float(loss.detach()) * tokens
        add_up(totals, metrics, int(micro.trained.sum()))
    return told | averages(run.sums_by_name(totals), tokens) | {"grad_norm": optimiser.step(run.accelerator)}
