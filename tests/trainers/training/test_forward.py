"""Logprobs, entropies and gradients equal those of a naive full forward; nothing flows where nothing is trained."""

import pytest
import torch

from agent_envs.base.errors import UsageError
from trainers.batching import micro_batches
from trainers.training import forward
from trainers.training.forward import bare_model, token_logprobs
from trainers.training.packing import pack


@pytest.fixture
def model(tiny_model):
    return tiny_model(torch.float64)


@pytest.fixture
def micro(random_rows):
    (batch,) = micro_batches(random_rows(6), 10_000, 0)
    return batch


def naive(model, micro, temperature=1.0):
    logits = model(input_ids=micro.ids, attention_mask=micro.attention).logits[:, :-1] / temperature
    every = torch.log_softmax(logits, dim=-1)
    logprobs = every.gather(-1, micro.ids[:, 1:, None])[..., 0]
    entropies = -(every.exp() * every).sum(-1)
    mask = micro.trained.double()
    first = torch.zeros(len(micro.rows), 1, dtype=torch.float64)
    return torch.cat([first, logprobs], 1) * mask, torch.cat([first, entropies], 1) * mask


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def weighted(micro, logprobs, entropies):
    return (logprobs * micro.advantages).sum() + 0.1 * (entropies * micro.turns).sum()


@pytest.mark.parametrize("at_once", [2**26, 23, 100], ids=["one chunk", "a token a chunk", "four tokens a chunk"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_equals_a_naive_full_forward_and_its_gradients(model, micro, temperature, at_once, monkeypatch):
    monkeypatch.setattr(forward, "LOGITS_AT_ONCE", at_once)
    monkeypatch.setattr(forward, "LOGITS_KEPT", 2**23 if at_once == 2**26 else 0)
    expected = naive(model, micro, temperature)
    ours = token_logprobs(model, micro, temperature, entropy_grad=True)
    for value, wanted in zip(ours, expected, strict=True):
        assert torch.allclose(value, wanted, atol=1e-9, rtol=0)
        assert (value[~micro.trained] == 0).all()
    wanted = gradients(model, weighted(micro, *expected))
    got = gradients(model, weighted(micro, *ours))
    assert got.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert torch.allclose(got[name], gradient, atol=1e-9, rtol=0), name
        assert gradient.abs().max() > 1e-3


def test_chunks_never_hold_more_logits_than_told(model, micro, monkeypatch):
    monkeypatch.setattr(forward, "LOGITS_AT_ONCE", 100)
    monkeypatch.setattr(forward, "LOGITS_KEPT", 0)
    token_logprobs(model, micro)
    sizes = []
    hook = model.lm_head.register_forward_hook(lambda module, inputs, output: sizes.append(output.numel()))
    logprobs, _ = token_logprobs(model, micro)
    forward_sizes = len(sizes)
    with torch.profiler.profile(acc_events=True) as profiler:
        logprobs.sum().backward()
    assert "aten::exp" not in {row.key for row in profiler.key_averages()}, "entropies are not: they carry no gradient"
    hook.remove()
    assert max(sizes) <= 100
    assert sum(sizes[:forward_sizes]) == int(micro.trained[:, 1:].sum()) * 23
    assert len(sizes) == 2 * forward_sizes, "logits are computed again in the backward pass"


def test_no_gradient_reaches_positions_that_predict_untrained_tokens(model, micro):
    token_logprobs(model, micro)  # the first call tries the head
    kept = []
    hook = model.model.norm.register_forward_hook(lambda module, inputs, output: kept.append(output))
    logprobs, entropies = token_logprobs(model, micro, entropy_grad=True)
    hook.remove()
    kept[0].retain_grad()
    (logprobs.sum() + entropies.sum()).backward()
    (states,) = kept
    places = pack(micro.ids, micro.attention, micro.trained).places
    predicts = torch.zeros(states.shape[1], dtype=torch.bool)
    predicts[places[:, :-1][micro.trained[:, 1:]]] = True
    size = states.grad.abs().sum(-1)[0]
    assert (size[~predicts] == 0).all()
    assert (size[predicts] > 0).all()


def test_a_loss_without_trained_tokens_has_gradient_0_and_can_go_backward(model, random_rows):
    (empty,) = micro_batches(random_rows(2, trained=0.0), 1000, 0)
    logprobs, entropies = token_logprobs(model, empty)
    assert not logprobs.any() and not entropies.any()
    assert all(not gradient.any() for gradient in gradients(model, logprobs.sum()).values())


def test_entropies_are_detached_unless_asked_for(model, micro):
    logprobs, entropies = token_logprobs(model, micro)
    assert logprobs.requires_grad and not entropies.requires_grad
    assert token_logprobs(model, micro, entropy_grad=True)[1].requires_grad
    _, skipped = token_logprobs(model, micro, with_entropy=False)
    assert not skipped.any()


def test_padding_changes_nothing(model, random_rows):
    rows = random_rows(5)
    (together,) = micro_batches(rows, 10_000, 0)
    whole, _ = token_logprobs(model, together)
    for alone in micro_batches(rows, 1, 3):
        single, _ = token_logprobs(model, alone)
        place = together.rows.index(alone.rows[0])
        assert torch.allclose(single[0], whole[place, : single.shape[1]], atol=1e-9, rtol=0)


def test_bfloat16_weights_get_a_float32_softmax(tiny_model, micro):
    logprobs, _ = token_logprobs(tiny_model(torch.bfloat16), micro)
    assert logprobs.dtype == torch.float32


def test_lora_and_accelerate_wrappers_change_nothing_and_train_the_adapter(tiny_model, micro):
    from accelerate import Accelerator
    from peft import LoraConfig, get_peft_model

    inner = tiny_model(torch.float64, tie_word_embeddings=False)
    expected, _ = naive(inner, micro)
    adapted = get_peft_model(inner, LoraConfig(r=2, target_modules=["q_proj", "v_proj", "lm_head"]))
    wrapped = Accelerator(cpu=True).prepare_model(adapted)
    logprobs, _ = token_logprobs(wrapped, micro)
    assert torch.allclose(logprobs, expected, atol=1e-9, rtol=0)
    logprobs.sum().backward()
    trained = {name for name, p in wrapped.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
    assert trained and all("lora_B" in name for name in trained)
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    changed, _ = token_logprobs(wrapped, micro)
    assert torch.allclose(changed, naive(wrapped, micro)[0], atol=1e-9, rtol=0)
    assert not torch.allclose(changed, expected, atol=1e-3)


def test_a_data_parallel_or_compiled_model_is_seen_through(model):
    assert bare_model(torch.nn.DataParallel(model)) is model
    assert bare_model(torch.compile(model)) is model


def test_gradient_checkpointing_gives_the_same_gradients(tiny_model, micro):
    model = tiny_model(torch.float64).train()
    plain = gradients(model, token_logprobs(model, micro)[0].sum())
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    again = gradients(model, token_logprobs(model, micro)[0].sum())
    assert all(torch.allclose(plain[name], again[name], atol=1e-12, rtol=0) for name in plain)


SMALL = dict(
    vocab_size=23, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, pad_token_id=0
)


@pytest.mark.parametrize(
    ("kind", "extra"),
    [
        ("Gemma2", dict(num_key_value_heads=1, head_dim=8)),
        ("Granite", dict(num_key_value_heads=1, logits_scaling=8.0)),
        ("Cohere", dict(num_key_value_heads=1)),
    ],
)
def test_heads_that_do_more_than_a_linear_layer_are_refused(kind, extra, micro):
    import transformers

    config = getattr(transformers, f"{kind}Config")(**SMALL, **extra)
    with pytest.raises(UsageError, match="more than a linear layer"):
        token_logprobs(getattr(transformers, f"{kind}ForCausalLM")(config), micro)


@pytest.mark.parametrize(
    ("kind", "extra"),
    [
        ("Llama", dict(num_key_value_heads=1)),
        ("Qwen3", dict(num_key_value_heads=1, head_dim=8)),
        ("Granite", dict(num_key_value_heads=1, logits_scaling=1.0)),
        ("Mistral", dict(num_key_value_heads=1, sliding_window=4)),
        ("GPTNeoX", dict()),
    ],
)
def test_other_families_equal_the_naive_forward(kind, extra, micro):
    import transformers

    config = getattr(transformers, f"{kind}Config")(**SMALL, **extra)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).double().eval()
    assert torch.allclose(token_logprobs(model, micro)[0], naive(model, micro)[0], atol=1e-9, rtol=0)


def test_a_greedy_temperature_is_refused(model, micro):
    with pytest.raises(UsageError, match="temperature"):
        token_logprobs(model, micro, 0.0)
