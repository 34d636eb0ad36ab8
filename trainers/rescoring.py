"""Sampled tokens are scored again: by a frozen reference model, or by the trainer's own, which corrects an engine's."""

import copy
from collections.abc import Sequence
from dataclasses import replace

import torch

from trainers import losses
from trainers.batching import Row
from trainers.run import RunParts, TrainingRun
from trainers.training.checkpoints import load_weights
from trainers.training.forward import token_logprobs
from trainers.training.models import ReferenceModel
from trainers.training.optimise import micro_batches_of


def reference_of(run: TrainingRun) -> ReferenceModel:
    """Return the model that a run began with, after any warm start; with LoRA, its base."""
    bare, start = run.parts.bare, run.start_of_training()
    if run.step == 0 or start is None or hasattr(bare, "disable_adapter"):
        return ReferenceModel(bare)
    first = copy.deepcopy(bare)
    load_weights(first, start)
    return ReferenceModel(first)


def with_reference(
    rows: Sequence[Row], parts: RunParts, reference: ReferenceModel, token_budget: int, *, vocabulary: bool = False
) -> list[Row]:
    """Return rows with their tokens' logprobs under a reference model; with `vocabulary` over the vocabulary alone."""
    found = list(rows)
    for micro in micro_batches_of(rows, parts, token_budget):
        with parts.accelerator.autocast():
            scores = reference.scores(micro, parts.temperature)
            logprobs = scores.vocabulary_logprobs if vocabulary else scores.logprobs
        for place, row in zip(micro.rows, logprobs.tolist(), strict=True):
            found[place] = replace(rows[place], reference_logprobs=tuple(row[: len(rows[place].sequence.ids)]))
    return found


def corrected(
    rows: Sequence[Row], parts: RunParts, correction: losses.Correction, token_budget: int
) -> tuple[list[Row], dict[str, float]]:
    """Return rows whose logprobs are the trainer's own, with weights for how far the sampling engine is from it.

    A weight on a token's loss is a weight on its advantage, and is kept in its place: every policy loss is linear in it.
    Metrics are those of the worst micro-batch.
    """
    found, worst = list(rows), dict[str, float]()
    for micro in micro_batches_of(rows, parts, token_budget):
        with torch.no_grad(), parts.accelerator.autocast():
            logprobs, _ = token_logprobs(parts.model, micro, parts.temperature, with_entropy=False)
        weights, metrics = losses.engine_weights(logprobs, micro.old_logprobs, micro.trained, correction)
        for place, own, weight in zip(micro.rows, logprobs, weights, strict=True):
            length = len(rows[place].sequence.ids)
            sequence = replace(rows[place].sequence, logprobs=tuple(own[:length].tolist()))
            found[place] = replace(rows[place], sequence=sequence, advantages=tuple(weight[:length].tolist()))
        for name, value in metrics.items():
            told = f"{name.removesuffix('/mean').removesuffix('/max')}/max"
            worst[told] = max(worst.get(told, 0.0), float(value))
    return found, worst
