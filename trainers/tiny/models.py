"""Models of 0.1 to 10 million weights, and tokenizers of words and of bytes, are made from nothing.

Texts come back exactly, but for two marks of the word-level tokenizers. Models have Qwen2's equations in a folder of Llama's.

Beside a model of Qwen's kind `AutoTokenizer` takes any tokenizer for Qwen's; beside one of Llama's kind it reads what is there.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from agent_envs.base.errors import UsageError

SPACE, JOINED = "\u2581", "\u2040"
PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
ROLES = ("system\n", "user\n", "assistant\n", "tool\n")
CONTEXT = 4096


def word_tokenizer(
    texts: Iterable[str], *, phrases: Iterable[str] = (), digits: bool = False, roles: Sequence[str] = ROLES
) -> PreTrainedTokenizerFast:
    """Return a word-level tokenizer that knows every word, tag and punctuation mark of `texts`, or of a list of words.

    Args:
        texts: what the vocabulary is drawn from.
        phrases: texts that become one token each wherever they stand; a longer one goes first.
        digits: spell numbers digit by digit, instead of a token for every number that was seen.
        roles: the first lines of a chat template's messages, one token each as well.
    """
    word = r"[^\W\d_]" if digits else r"[^\W_]"
    normalizer = _normalizer(word)
    bodies = {normalizer.normalize_str(phrase).removeprefix(JOINED) for phrase in (*phrases, *roles) if phrase}
    ordered = sorted(bodies, key=lambda body: (-len(body), body))
    splitter = pre_tokenizers.Split(Regex(_pattern(ordered, word)), "isolated")
    pieces = {
        piece.strip(JOINED) for text in texts for piece, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))
    }
    vocabulary = [PAD, START, END, *(f"<0x{byte:02X}>" for byte in range(256)), SPACE, JOINED, "\n"]
    whole = re.compile(rf"{SPACE}{word}+")
    for piece in [*ordered, *sorted((pieces | set("0123456789" if digits else "")) - bodies - {"", SPACE})]:
        # A word is always after a space or after a joining mark; whatever else may carry that mark.
        forms = [piece] if whole.fullmatch(piece) else [piece, piece + JOINED]
        if piece in bodies and piece.startswith(SPACE):
            forms += [JOINED + form for form in forms]
        vocabulary += forms
    ids = {piece: place for place, piece in enumerate(dict.fromkeys(vocabulary))}
    backend = Tokenizer(models.BPE(vocab=ids, merges=[], byte_fallback=True, ignore_merges=True))
    backend.normalizer = normalizer
    backend.pre_tokenizer = splitter
    joints = [decoders.Replace(JOINED + SPACE, ""), decoders.Replace(JOINED, ""), decoders.Replace(SPACE, " ")]
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), *joints])
    return _fast_tokenizer(backend)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer whose tokens are the 256 bytes and the three special ones: for open vocabularies."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids = {piece: place for place, piece in enumerate([PAD, START, END, *alphabet])}
    backend = Tokenizer(models.BPE(vocab=ids, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return _fast_tokenizer(backend)


def pieces_of(tokenizer: PreTrainedTokenizerFast, text: str) -> list[str]:
    """Return a text cut into what is a token each, where the vocabulary has it."""
    backend = tokenizer.backend_tokenizer
    return [piece for piece, _ in backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str(text))]


def ids_of(tokenizer: PreTrainedTokenizerFast, phrases: Iterable[str]) -> frozenset[int]:
    """Return the tokens that are one of some phrases, whatever marks they carry."""
    normalize = tokenizer.backend_tokenizer.normalizer.normalize_str
    bodies = {normalize(phrase).strip(JOINED) for phrase in phrases}
    return frozenset(number for piece, number in tokenizer.get_vocab().items() if piece.strip(JOINED) in bodies)


def _normalizer(word: str) -> normalizers.Sequence:
    """Return the normaliser: spaces become marks; a word without one gets it, after a sign that it is not there. Tags stay."""
    tag = rf"(?:(?<=<){word}+>|(?<=</){word}+>)"
    joint = Regex(rf"(?<![{SPACE}{word}])(?={word})(?!{tag})")
    return normalizers.Sequence([normalizers.Replace(" ", SPACE), normalizers.Replace(joint, JOINED + SPACE)])


def _pattern(bodies: Sequence[str], word: str) -> str:
    """Return the pattern of a piece: a phrase, a tag, a word, line breaks, or one character of anything else."""
    # A phrase that ends in a word must not end within a longer one.
    phrases = [
        f"{JOINED}?{re.escape(body)}{JOINED}?" + (f"(?!{word})" if body[-1].isalnum() else "") for body in bodies
    ]
    return "|".join([*phrases, f"</?{word}+>{JOINED}?", f"{SPACE}?{word}+", f"\\n+{JOINED}?", f"[\\s\\S]{JOINED}?"])


def _fast_tokenizer(backend: Tokenizer) -> PreTrainedTokenizerFast:
    """Wrap a tokenizers backend as a transformers tokenizer with the padding, start and end tokens."""
    backend.add_special_tokens([PAD, START, END])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[START],
        clean_up_tokenization_spaces=False,
        model_max_length=CONTEXT,
    )


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
    """Return a model of a size with a seed's random weights, the global generator untouched; UsageError for another size.

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
    return _random_model(shape, seed)


def _random_model(shape: dict[str, Any], seed: int) -> LlamaForCausalLM:
    """Return a Llama model with a seed's Qwen2 weights, made ready to copy; the global generator stays as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        qwen = Qwen2ForCausalLM(Qwen2Config(**shape))
        _start_as_copier(qwen)
        model = LlamaForCausalLM(LlamaConfig(**shape, attention_bias=True))
    model.load_state_dict(qwen.state_dict(), strict=False)
    for layer in model.model.layers:
        layer.self_attn.o_proj.bias.requires_grad_(False)  # Qwen2 has none, Llama all four or no bias: it stays 0
    return model


@torch.no_grad()
def _start_as_copier(model: Qwen2ForCausalLM) -> None:
    """Initialise the weights so that attention finds equal tokens and the head predicts the token it copied."""
    for layer in model.model.layers:
        attention = layer.self_attn
        attention.k_proj.weight.copy_(attention.q_proj.weight)  # (hidden, hidden)
        torch.nn.init.orthogonal_(attention.v_proj.weight)
        attention.o_proj.weight.copy_(attention.v_proj.weight.T)
    model.lm_head.weight.copy_(model.model.embed_tokens.weight)  # (vocabulary, hidden)
