"""Engines: what turns token prefixes into samples. `HFEngine` shares the trainer's model; `VLLMEngine` has a copy."""

from typing import TYPE_CHECKING, Any

from trainers.engines.hf import HFEngine
from trainers.engines.probe import Probe, StaleWeights, check_sync, probe_logprobs

if TYPE_CHECKING:
    from trainers.engines.vllm import VLLMEngine

__all__ = ["HFEngine", "Probe", "StaleWeights", "VLLMEngine", "check_sync", "probe_logprobs"]


def __getattr__(name: str) -> Any:
    """Import the vLLM engine when it is asked for."""
    if name == "VLLMEngine":
        from trainers.engines.vllm import VLLMEngine

        return VLLMEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
