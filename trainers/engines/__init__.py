"""Engines turn token prefixes into samples: `HFEngine` shares the trainer's model, `VLLMEngine` has a copy.

Modules, in reading order:
    hf: HFEngine: generation by a transformers model, plain or with LoRA; keeps conversations' caches from turn to turn.
    prefill: the pass over the prefixes of a batch.
    decode: its decoding loop: tokens drawn from logits (temperature, top-k, top-p, seeds, logprobs, entropies), stop texts and
        end tokens, and the places of rows, of which those that ended go.
    kv_cache: the KV cache: keys and values in one tensor, sessions that are kept between calls; a model's evaluation mode.
    vllm, vllm_process: VLLMEngine, its sync of weights; vLLM's environment variables and side effects.
    probe: the check after a sync that an engine has the trainer's weights.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainers.engines.hf import HFEngine
    from trainers.engines.probe import Probe, StaleWeights, check_sync, probe_logprobs
    from trainers.engines.vllm import VLLMEngine

__all__ = ["HFEngine", "Probe", "StaleWeights", "VLLMEngine", "check_sync", "probe_logprobs"]
_HOMES = {"HFEngine": "hf", "VLLMEngine": "vllm"}


def __getattr__(name: str) -> Any:
    """Import an engine when it is asked for: a run has one of them."""
    if name in __all__:
        return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'probe')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
