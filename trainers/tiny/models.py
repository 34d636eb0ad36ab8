"""Models of 0.1 to 10 million weights are made from nothing: Qwen2's equations, in a folder of Llama's kind.

Beside a model of Qwen's kind `AutoTokenizer` takes any tokenizer for Qwen's; beside one of Llama's kind it reads what is there.
"""

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from agent_envs.base.errors import UsageError
from trainers.tiny.tokenizers import CONTEXT

# hidden size, layers, heads, width of the MLP; the embeddings of a vocabulary come on top.
SIZES = {"tiny": (64, 2, 2, 128), "1m": (192, 3, 6, 512), "3m": (256, 4, 8, 768), "10m": (384, 6, 6, 1024)}


def tiny_model(
    tokenizer: PreTrainedTokenizerFast,
    size: str = "tiny",
    *,
    seed: int = 0,
    tied: bool = False,
    theta: float = 10_000.0,
) -> LlamaForCausalLM:
    """Return a model with random weights, the same ones for the same arguments; the global generator stays as it is.

    The weights start where names are easy to copy: every head looks for tokens like its own and passes on what it finds
    (queries and keys start equal, outputs as transposed orthogonal values; after the mimetic initialisation of arXiv
    2305.09828), and the head reads tokens as the embeddings write them. Copying is then learnt several times sooner.

    Args:
        tokenizer: gives the size of the vocabulary and the special tokens.
        size: a name of `SIZES`.
        seed: of the weights.
        tied: one matrix for reading and writing tokens; vLLM's build for CPUs cannot reload such models.
        theta: the base of the rotary embedding.

    Raises:
        UsageError: there is no such size.
    """
    if size not in SIZES:
        raise UsageError(f"tiny_model: size={size!r}; the sizes are {', '.join(SIZES)}")
    hidden, layers, heads, width = SIZES[size]
    shape: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "max_position_embeddings": CONTEXT,
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
        "initializer_range": hidden**-0.5 / 2,
        "tie_word_embeddings": tied,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    return _drawn(shape, seed)


def _drawn(shape: dict[str, Any], seed: int) -> LlamaForCausalLM:
    """Return Qwen2's model of a seed under Llama's name."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        drawn = Qwen2ForCausalLM(Qwen2Config(**shape))
        _start_as_copier(drawn)
        model = LlamaForCausalLM(LlamaConfig(**shape, attention_bias=True))
    model.load_state_dict(drawn.state_dict(), strict=False)
    for layer in model.model.layers:
        layer.self_attn.o_proj.bias.requires_grad_(False)  # Qwen2 has none, Llama all four or no bias: it stays 0
    return model


@torch.no_grad()
def _start_as_copier(model: Qwen2ForCausalLM) -> None:
    for layer in model.model.layers:
        attention = layer.self_attn
        attention.k_proj.weight.copy_(attention.q_proj.weight)  # (hidden, hidden)
        torch.nn.init.orthogonal_(attention.v_proj.weight)
        attention.o_proj.weight.copy_(attention.v_proj.weight.T)
    model.lm_head.weight.copy_(model.model.embed_tokens.weight)  # (vocabulary, hidden)
