"""Engines turn token prefixes into samples: `HFEngine` shares the trainer's model, `VLLMEngine` has a copy.

Modules, in reading order:
    hf: HFEngine: generation by a transformers model, plain or with LoRA; sessions that are kept from turn to turn.
    prefill: the pass over the prefixes of a batch.
    slots: the decoding loop: rows in slots, which go to rows that wait once theirs have ended, or are dropped.
    graphs: its passes as CUDA graphs, one for each size.
    decode: tokens drawn from logits (temperature, top-k, top-p, seeds, logprobs, entropies), stop texts and end tokens.
    kv_cache: the KV cache: keys and values in one tensor; a model's evaluation mode.
    vllm: VLLMEngine, its sync of weights and the probe that checks it; vLLM's environment variables and side effects.
"""
