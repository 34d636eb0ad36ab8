"""Models come in and go out whole, with LoRA, merged; the reference stays what it was."""

import json

import pytest
import torch

from agent_envs.base.errors import UsageError
from trainers.batching import micro_batches
from trainers.settings import ModelSettings, OptimSettings
from trainers.tiny.models import END, PAD, START, byte_tokenizer, word_tokenizer
from trainers.tiny.models import tiny_model as made_from_nothing
from trainers.training.forward import token_logprobs
from trainers.training.models import ReferenceModel, check_room, compute_dtype, load_model, make_accelerator, save_model
from trainers.training.optimise import Optimiser

TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"


@pytest.fixture
def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({f"w{index}": index for index in range(23)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", eos_token="w1")


@pytest.fixture
def folder(tiny_model, tokenizer, tmp_path):
    save_model(tiny_model(), tokenizer, tmp_path / "model", template=TEMPLATE)
    return tmp_path / "model"


@pytest.fixture
def micro(random_rows):
    (batch,) = micro_batches(random_rows(4), 10_000, 0)
    return batch


def update(model, micro):
    optimiser = Optimiser(model, OptimSettings(learning_rate=1e-2), 3)
    for _ in range(3):
        logprobs, _ = token_logprobs(model, micro)
        (-logprobs.mean()).backward()
        optimiser.step()


@pytest.mark.parametrize("own", [word_tokenizer(["Who wrote the book 12?"], phrases=["the book"]), byte_tokenizer()])
def test_a_saved_folder_is_what_transformers_loads(own, micro, tmp_path):
    """By the classes that everyone uses: vLLM's server and other trainers are told nothing of our tokenizer's class."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = trained_on_all_but_a_bias(made_from_nothing(own, seed=3))
    save_model(model, own, tmp_path / "model", template=TEMPLATE)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert torch.equal(token_logprobs(loaded, micro)[0], token_logprobs(model, micro)[0])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    for text in ("Who wrote the book", f"{START}user\nWho 12?{END}\n", "bookish é 日本 \x00 \n\n", "", PAD):
        ids = own.encode(text)
        assert tokenizer.encode(text) == ids, text
        for skipped in (False, True):
            assert tokenizer.decode(ids, skip_special_tokens=skipped) == own.decode(ids, skip_special_tokens=skipped)
    assert len(tokenizer) == len(own) and set(tokenizer.all_special_ids) == {0, 1, 2}
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (own.eos_token_id, own.pad_token_id)
    said = [{"role": "user", "content": "Who wrote"}]
    assert tokenizer.apply_chat_template(said, tokenize=False) == "Who wrote"
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"} <= names
    # What transformers 4 has a name for.
    written = json.loads((tmp_path / "model" / "tokenizer_config.json").read_text())
    assert written["tokenizer_class"] == "PreTrainedTokenizerFast" and "extra_special_tokens" not in written


def trained_on_all_but_a_bias(model):
    """Move every weight that trains, so that what is loaded cannot be what another class would start with."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    return model


def test_saving_replaces_the_folder_and_leaves_nothing_beside_it(folder, tiny_model, tokenizer):
    (folder / "stale.txt").write_text("old")
    save_model(tiny_model(seed=5), tokenizer, folder)
    assert not (folder / "stale.txt").exists()
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_all_weights_train_in_float32(folder):
    model, tokenizer = load_model(ModelSettings(name=str(folder), dtype="bfloat16"))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert model.training and tokenizer.chat_template == TEMPLATE


def test_lora_trains_the_adapter_alone_and_the_seed_decides_its_weights(folder, micro):
    settings = ModelSettings(name=str(folder), lora_rank=2, dtype="bfloat16")
    models = [load_model(settings, seed=seed)[0] for seed in (0, 0, 1)]
    trained = [{name: p for name, p in model.named_parameters() if p.requires_grad} for model in models]
    assert all("lora_" in name and p.dtype == torch.float32 for name, p in trained[0].items())
    assert {p.dtype for p in models[0].parameters() if not p.requires_grad} == {torch.bfloat16}
    assert not any("lm_head" in name for name in trained[0])
    first = next(name for name in trained[0] if "lora_A" in name)
    assert torch.equal(trained[0][first], trained[1][first])
    assert not torch.equal(trained[0][first], trained[2][first])


@pytest.mark.parametrize("rank", [0, 2], ids=["all weights", "lora"])
def test_the_reference_stays_what_the_model_was(folder, micro, rank):
    model, _ = load_model(ModelSettings(name=str(folder), lora_rank=rank))
    reference = ReferenceModel(model)
    before = token_logprobs(model, micro)[0].detach()
    assert torch.equal(reference.scores(micro).logprobs, before)
    update(model, micro)
    after = token_logprobs(model, micro)[0]
    assert not torch.allclose(after, before, atol=1e-2)
    assert torch.equal(reference.scores(micro).logprobs, before)
    assert not reference.scores(micro).logprobs.requires_grad
    assert torch.equal(token_logprobs(model, micro)[0], after), "asking the reference leaves the policy as it is"
    assert model.training


def test_a_gpu_that_is_too_small_is_refused_before_anything_is_put_on_it(folder):
    whole, adapter = (load_model(ModelSettings(str(folder), lora_rank=rank))[0] for rank in (0, 2))
    needs = 16 * sum(weight.numel() for weight in whole.parameters())
    check_room(whole, needs)
    check_room(adapter, needs - 1)
    with pytest.raises(UsageError, match="before any activation, and the GPU has"):
        check_room(whole, needs - 1)


def test_the_reference_has_the_type_that_is_computed_in(folder, micro):
    model, _ = load_model(ModelSettings(name=str(folder)))
    with torch.autocast("cpu", torch.bfloat16):
        exact, reference = (ReferenceModel(model, dtype) for dtype in (None, torch.bfloat16))
        difference = (exact.scores(micro).logprobs - reference.scores(micro).logprobs).abs().max()
    weights, buffers = reference._copy.parameters(), reference._copy.named_buffers()
    assert {weight.dtype for weight in weights} == {torch.bfloat16} and difference < 0.1
    assert {buffer.dtype for name, buffer in buffers if "inv_freq" in name} == {torch.float32}
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


def test_an_adapter_is_saved_alone_or_merged_and_both_load_as_the_policy(folder, micro, tmp_path):
    model, tokenizer = load_model(ModelSettings(name=str(folder), lora_rank=2))
    update(model, micro)
    wanted = token_logprobs(model, micro)[0].detach()
    save_model(model, tokenizer, tmp_path / "adapter")
    save_model(model, tokenizer, tmp_path / "merged", merge=True)
    assert (tmp_path / "adapter" / "adapter_model.safetensors").exists()
    assert not (tmp_path / "adapter" / "model.safetensors").exists()
    assert torch.equal(token_logprobs(model, micro)[0], wanted), "saving leaves the model as it is"
    for name in ("adapter", "merged"):
        again, _ = load_model(ModelSettings(name=str(tmp_path / name)))
        assert torch.allclose(token_logprobs(again, micro)[0], wanted, atol=1e-5), name
    fresh, _ = load_model(ModelSettings(name=str(tmp_path / "adapter"), lora_rank=2))
    assert torch.allclose(ReferenceModel(fresh).scores(micro).logprobs, wanted, atol=1e-5), (
        "a new adapter starts from there"
    )


@pytest.mark.parametrize("rank", [0, 2])
def test_gradient_checkpointing_changes_memory_and_not_gradients(folder, micro, rank):
    gradients = []
    for flag in (False, True):
        model, _ = load_model(ModelSettings(name=str(folder), lora_rank=rank, gradient_checkpointing=flag))
        token_logprobs(model, micro)[0].sum().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    plain, again = gradients
    assert plain.keys() == again.keys() and plain
    assert all(torch.allclose(plain[name], again[name], atol=1e-5) for name in plain)


def test_what_is_not_there_is_told_in_a_line(tmp_path, folder, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UsageError, match="no folder with a model"):
        load_model(ModelSettings(name=str(tmp_path / "nothing")))
    with pytest.raises(UsageError, match="no model is named: .* --preset tiny-searchqa"):
        load_model(ModelSettings(name=""))
    with pytest.raises(UsageError, match="lora_targets"):
        load_model(ModelSettings(name=str(folder), lora_rank=2, lora_targets=("no_such_module",)))
    with pytest.raises(UsageError, match="dtype"):
        load_model(ModelSettings(name=str(folder), dtype="float8"))


def test_types_and_mixed_precision_follow_the_settings():
    assert compute_dtype(ModelSettings(dtype="bfloat16")) == torch.bfloat16
    assert compute_dtype(ModelSettings()) == torch.float32
    assert make_accelerator(ModelSettings()).mixed_precision == "no"


@pytest.mark.parametrize("name", ["FSDP", "DEEPSPEED"])
def test_a_launch_that_would_shard_is_refused_in_one_line(monkeypatch, name):
    monkeypatch.setenv(f"ACCELERATE_USE_{name}", "true")
    with pytest.raises(UsageError, match="not sharded here .*: launch without FSDP and DeepSpeed$"):
        make_accelerator(ModelSettings())


def test_mixed_precision_computes_in_bfloat16_and_keeps_float32_weights(folder, micro):

    model, _ = load_model(ModelSettings(name=str(folder)))
    plain = token_logprobs(model, micro)[0]
    seen = []
    hook = model.lm_head.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = token_logprobs(model, micro)[0]
        mixed.sum().backward()
    hook.remove()
    assert seen == [torch.bfloat16] and mixed.dtype == torch.float32
    assert not torch.equal(mixed, plain) and torch.allclose(mixed, plain, atol=0.2)
    assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters())
