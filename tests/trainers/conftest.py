"""Small things that the tests of the trainers share: one torch thread, a tiny model, rows of tokens."""

import random

import pytest
import torch

torch.set_num_threads(1)

VOCABULARY = 23


def make_model(dtype=torch.float32, seed=0, **overrides):
    """Return a Qwen2 of two layers with random weights."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = dict(vocab_size=VOCABULARY, hidden_size=16, intermediate_size=32, max_position_embeddings=128)
    heads = dict(num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True)
    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(Qwen2Config(**{**sizes, **heads, "initializer_range": 0.3, **overrides})).to(dtype)
    return with_exact_norms(model) if dtype == torch.float64 else model


def with_exact_norms(model):
    """Give a float64 model norms that compute in float64: those of transformers compute in float32, whatever comes in."""
    for parent in list(model.modules()):
        for name, norm in list(parent.named_children()):
            if type(norm).__name__.endswith("RMSNorm") and not isinstance(norm, torch.nn.RMSNorm):
                exact = torch.nn.RMSNorm(norm.weight.shape[0], norm.variance_epsilon, dtype=torch.float64)
                exact.weight = norm.weight
                setattr(parent, name, exact)
    return model


def make_rows(count, seed=0, longest=24, trained=0.5):
    """Return rows of random length with random tokens, masks, advantages and logprobs."""
    from trainers.batching import TrainRow
    from trainers.contracts import TokenSequence

    generator = random.Random(f"rows {seed}")
    rows = []
    for _ in range(count):
        length = generator.randint(2, longest)
        mask = [False] + [generator.random() < trained for _ in range(length - 1)]
        sequence = TokenSequence(
            ids=tuple(generator.randrange(VOCABULARY) for _ in range(length)),
            trained=tuple(mask),
            logprobs=tuple(-generator.random() if kept else 0.0 for kept in mask),
            turns=tuple(int(kept) for kept in mask),
        )
        rows.append(TrainRow(sequence, tuple(generator.gauss(0, 1) if kept else 0.0 for kept in mask)))
    return rows


@pytest.fixture
def tiny_model():
    return make_model


@pytest.fixture
def random_rows():
    return make_rows
