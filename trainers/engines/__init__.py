"""Engines turn token prefixes into samples: `HFEngine` shares the trainer's model, `VLLMEngine` has a copy.

Modules, in reading order:
    hf: HFEngine: generation by a transformers model, plain or with LoRA; keeps conversations' caches from turn to turn.
    prefill: the pass over the prefixes of a batch.
    slots: the decoding loop: rows in slots, which go to rows that wait once theirs have ended, or are dropped.
    decode: tokens drawn from logits (temperature, top-k, top-p, seeds, logprobs, entropies), stop texts and end tokens.
    kv_cache: the KV cache: keys and values in one tensor, sessions that are kept between calls; a model's evaluation mode.
    vllm: VLLMEngine, its sync of weights and the probe that checks it; vLLM's environment variables and side effects.
"""
