"""Rows that begin alike give the logprobs, entropies and gradients that each gives alone; odd models take the plain path."""

import random

import pytest
import torch
import transformers

from tests.examples import part
from tests.trainers.conftest import VOCABULARY, with_exact_norms
from trainers.batching import TrainRow, micro_batches
from trainers.contracts import TokenSequence
from trainers.engines.kv_cache import last_mlp
from trainers.training import forward
from trainers.training.forward import token_logprobs
from trainers.training.packing import pack, packable

SIZES = dict(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=2)
LLAMA = SIZES | dict(intermediate_size=32, num_key_value_heads=1, initializer_range=0.3, pad_token_id=0)
CONFIGS = {
    "Qwen2": LLAMA,
    "Llama": LLAMA,
    "GPT2": SIZES | dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=0.3),
    "GPTNeoX": SIZES | dict(intermediate_size=32, initializer_range=0.3),
    "Mistral": LLAMA | dict(sliding_window=4),
    "Qwen3Moe": LLAMA | dict(head_dim=8, moe_intermediate_size=8, num_experts=4, num_experts_per_tok=2),
}


def make(kind, **more):
    torch.manual_seed(1)
    config = getattr(transformers, f"{kind}Config")(**CONFIGS[kind] | more)
    name = "GPT2LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM"
    return with_exact_norms(getattr(transformers, name)(config).double()).train()


def group(generator, prompt, count, trained):
    """Rows of one prompt and of different lengths; some share more than the prompt, one ends with it."""
    start = [generator.randrange(VOCABULARY) for _ in range(prompt)]
    more = [generator.randrange(VOCABULARY) for _ in range(3)]
    rows = []
    for number in range(count):
        rest = (more if number % 2 else []) + [generator.randrange(VOCABULARY) for _ in range(generator.randint(1, 9))]
        mask = [False] * prompt + [generator.random() < trained for _ in rest]
        mask[prompt] = True
        ids, size = (*start, *rest), prompt + len(rest)
        sequence = TokenSequence(ids, tuple(mask), (0.0,) * size, tuple(map(int, mask)))
        rows.append(TrainRow(sequence, tuple(generator.gauss(0, 1) if kept else 0.0 for kept in mask)))
    return rows


def some_rows(trained=0.7):
    generator = random.Random(f"groups {trained}")
    return [row for prompt in (1, 3, 12) for row in group(generator, prompt, 4, trained)]


def backward(model, budget):
    """Return the losses and the gradients of every parameter."""
    model.zero_grad()
    total = 0.0
    for micro in micro_batches(some_rows(), budget, 0):
        logprobs, entropies = token_logprobs(model, micro, 0.9, entropy_grad=True)
        loss = (logprobs * micro.advantages).sum() + 0.1 * entropies.sum()
        loss.backward()
        total += float(loss.detach())
    return total, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def bare_and_decoder(model):
    bare = forward.bare_model(model)
    return bare, bare.get_decoder()


@pytest.mark.parametrize("budget", part([10_000, 70, 1], [70]))
@pytest.mark.parametrize("lora", [False, True], ids=["whole", "lora"])
@pytest.mark.parametrize("kind", ["Qwen2", "Llama", "GPT2", "GPTNeoX"])
def test_shared_beginnings_change_neither_losses_nor_gradients(kind, lora, budget, monkeypatch):
    model = make(kind)
    if lora:
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False))
    assert packable(*bare_and_decoder(model))
    found = backward(model, budget)
    monkeypatch.setattr(forward, "packable", lambda *models: False)
    expected = backward(model, budget)
    assert found[0] == pytest.approx(expected[0], abs=1e-9)
    assert found[1].keys() == expected[1].keys()
    for name, gradient in expected[1].items():
        assert torch.allclose(found[1][name], gradient, atol=1e-9, rtol=0), name
    assert max(gradient.abs().max() for gradient in expected[1].values()) > 1e-2


@pytest.mark.parametrize("trained", [0.0, 0.3, 1.0])
def test_every_distinct_beginning_is_computed_once(trained):
    (micro,) = micro_batches(some_rows(trained), 10_000, 0)
    found = pack(micro.ids, micro.attention, micro.trained)
    rows = [row[:length] for row, length in zip(micro.ids.tolist(), micro.attention.sum(1).tolist(), strict=True)]
    beginnings = {tuple(row[: stop + 1]) for row in rows for stop in range(len(row))}
    assert found.ids.shape == (1, len(beginnings))
    assert len(beginnings) < 0.8 * sum(map(len, rows))
    for row, ids in enumerate(rows):
        places = found.places[row, : len(ids)]
        assert found.ids[0, places].tolist() == ids
        assert found.positions[0, places].tolist() == list(range(len(ids)))
    predicts = found.places[:, :-1][micro.trained[:, 1:]]
    assert sorted(found.read.tolist()) == sorted(set(predicts.tolist()))


def test_the_model_gets_the_distinct_tokens_alone_and_is_left_as_it_was():
    model = make("Qwen2")
    (micro,) = micro_batches(some_rows(0.0), 10_000, 0)
    token_logprobs(model, micro)  # the first call tries the model
    seen, last = [], []
    model.model.embed_tokens.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].shape))
    model.model.layers[-1].mlp.up_proj.register_forward_hook(lambda module, inputs, output: last.append(output.shape))
    token_logprobs(model, micro)
    found = pack(micro.ids, micro.attention, micro.trained)
    assert found.queries is not None, "with so few trained tokens the last layer attends from them alone"
    assert seen == [found.ids.shape]
    assert last == [(1, len(found.read), 32)]
    assert model.config._attn_implementation == "sdpa"
    assert not model.model.layers[-1].mlp._forward_hooks


@pytest.mark.parametrize(
    ("kind", "more"),
    [("Mistral", {}), ("Qwen2", dict(attn_implementation="eager")), ("Qwen2", dict(use_sliding_window=True))],
)
def test_odd_caches_and_other_attention_take_the_plain_path(kind, more):
    if "use_sliding_window" in more:
        more = more | dict(sliding_window=4, max_window_layers=1)
    model = make(kind, **more)
    assert not packable(*bare_and_decoder(model))
    (micro,) = micro_batches(some_rows(), 10_000, 0)
    token_logprobs(model, micro)[0].sum().backward()


def test_a_model_whose_packed_states_differ_takes_the_plain_path():
    class Shifted(transformers.Qwen2Model):
        """Mixes each token with the one before it, outside of attention."""

        def forward(self, *args, **kwargs):
            output = super().forward(*args, **kwargs)
            output.last_hidden_state = output.last_hidden_state + output.last_hidden_state.roll(1, dims=1)
            return output

    model = make("Qwen2")
    assert packable(*bare_and_decoder(model))
    other = make("Qwen2")
    other.model.__class__ = Shifted
    assert not packable(*bare_and_decoder(other))


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("kind", ["Qwen2", "GPT2", "GPTNeoX"])
def test_checkpointed_layers_run_again_as_they_ran(kind, reentrant, monkeypatch):
    model = make(kind)
    expected = backward(model, 10_000)
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)({"use_reentrant": reentrant})
    model.enable_input_require_grads()
    layers = [module for module in model.modules() if getattr(module, "gradient_checkpointing", False)]
    functions = [layer._gradient_checkpointing_func for layer in layers]
    assert packable(*bare_and_decoder(model)) and layers
    last, widths = last_mlp(model.get_decoder(), 2), []
    last.register_forward_pre_hook(lambda module, inputs: widths.append(inputs[0].shape[1]))
    found = backward(model, 10_000)
    assert found[0] == pytest.approx(expected[0], abs=1e-9)
    for name, gradient in expected[1].items():
        assert torch.allclose(found[1][name], gradient, atol=1e-9, rtol=0), name
    assert len(widths) == 2, "once forward, once again in the backward pass"
    assert [layer._gradient_checkpointing_func for layer in layers] == functions
    assert model.config._attn_implementation == "sdpa"


def test_the_padded_path_says_once_why(capfd):
    model = make("Qwen2", attn_implementation="eager")
    assert [packable(*bare_and_decoder(model)) for _ in range(3)] == [False] * 3
    told = capfd.readouterr().err
    assert told.count("note: Qwen2ForCausalLM") == 1 and 'needs attn_implementation="sdpa", not "eager"' in told
    assert packable(*bare_and_decoder(make("Qwen2"))) and capfd.readouterr().err == ""


def test_experts_are_exact():
    model = make("Qwen3Moe").float()  # transformers' experts know no float64
    (micro,) = micro_batches(some_rows(), 10_000, 0)
    assert packable(*bare_and_decoder(model))
    found = token_logprobs(model, micro)[0]
    logits = model(input_ids=micro.ids).logits[:, :-1].log_softmax(-1)
    wanted = logits.gather(-1, micro.ids[:, 1:, None])[..., 0] * micro.trained[:, 1:]
    assert torch.allclose(found[:, 1:], wanted, atol=1e-4, rtol=0)


def test_rows_that_are_mostly_anothers_attend_from_their_own_tokens(monkeypatch):
    """On a CPU; a mask that would grow too large, or rows that own much, leave them whole. Nothing else tells of it."""
    (micro,) = micro_batches(
        group(random.Random("own"), 12, 6, 0.7) + group(random.Random("all"), 1, 2, 0.7), 10_000, 0
    )
    found = pack(micro.ids, micro.attention, micro.trained)
    width = micro.ids.shape[1]
    assert (len(found.partly), len(found.whole)) == (6, 2) and 2 * found.own.shape[1] < width
    assert len(set(found.attention_places.tolist())) == found.ids.shape[1]
    assert int(found.attention_places.max()) < len(found.whole) * width + found.own.numel()
    model = make("Llama")
    ours = token_logprobs(model, micro)[0]
    monkeypatch.setattr("trainers.training.packing._MASK_ENTRIES", 0)
    plain = pack(micro.ids, micro.attention, micro.trained)
    assert len(plain.partly) == 0 and len(plain.whole) == 8
    assert torch.allclose(ours, token_logprobs(model, micro)[0], atol=1e-12) and packable(model, model.model)


def test_a_row_that_another_holds_whole_attends_from_nothing():
    generator = random.Random("held")
    rows = group(generator, 12, 3, 0.7)
    short = rows[0].sequence
    part = TokenSequence(*(column[:13] for column in (short.ids, short.trained, short.logprobs, short.turns)))
    rows += [rows[0], TrainRow(part, tuple(map(float, part.trained)))]
    (micro,) = micro_batches(rows, 10_000, 0)
    found = pack(micro.ids, micro.attention, micro.trained)
    assert len(found.whole) + len(found.partly) == 4  # of five
    model = make("Llama")
    logprobs = token_logprobs(model, micro)[0]
    for place, number in enumerate(micro.rows):
        (alone,) = micro_batches([rows[number]], 10_000, 0)
        length = alone.ids.shape[1]
        assert torch.allclose(logprobs[place, :length], token_logprobs(model, alone)[0][0], atol=1e-10)
