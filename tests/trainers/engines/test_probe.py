"""The probe finds an engine that samples from other weights than the trainer's."""

import copy

import pytest
import torch

from agent_envs.base.errors import UsageError
from trainers.engines.vllm import StaleWeights, VLLMEngine, check_sync, probe_logprobs, weights_in

PROBE = [[1, 2, 3, 4, 5], [7, 3], range(10)]


def test_logprobs_of_the_probe_are_those_of_its_tokens(tiny_model):
    model = tiny_model()
    found = probe_logprobs(model, PROBE)
    assert [len(row) for row in found] == [4, 1, 9]
    logits = model(torch.tensor([[1, 2, 3]])).logits.detach()[0, -1].double()
    assert found[0][2] == pytest.approx((logits[4] - logits.logsumexp(-1)).item(), abs=1e-5)


def test_equal_weights_pass_and_the_difference_is_returned(tiny_model):
    model = tiny_model()
    expected = probe_logprobs(model, PROBE)
    found = probe_logprobs(copy.deepcopy(model), PROBE)
    assert check_sync(found, expected, 1e-3) < 1e-5
    found[0][1] += 5e-4
    assert check_sync(found, expected, 1e-3) == pytest.approx(5e-4, abs=1e-5)


def test_a_model_of_which_only_the_head_is_stale_is_found(tiny_model):
    trained = tiny_model(tie_word_embeddings=False)
    engine = copy.deepcopy(trained)
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    fresh = {name: tensor for name, tensor in trained.state_dict().items() if name != "lm_head.weight"}
    engine.load_state_dict(fresh, strict=False)
    expected = probe_logprobs(trained, PROBE)
    with pytest.raises(StaleWeights, match="tie_word_embeddings=false, or train with LoRA"):
        check_sync(probe_logprobs(engine, PROBE), expected, 1e-3)
    engine.lm_head.load_state_dict(trained.lm_head.state_dict())
    assert check_sync(probe_logprobs(engine, PROBE), expected, 1e-3) < 1e-5


def test_numbers_that_are_none_are_stale():
    with pytest.raises(StaleWeights, match="nan"):
        check_sync([[float("nan"), -1.0]], [[-1.0, -1.0]], 1e-3)


def test_another_probe_is_refused():
    with pytest.raises(UsageError, match="not of the same probe"):
        check_sync([[-1.0]], [[-1.0, -2.0]], 1e-3)


@pytest.mark.parametrize("probe", [[], [[1, 2], [3]]])
def test_a_probe_that_proves_nothing_is_refused_at_once(tmp_path, probe):
    with pytest.raises(UsageError, match="rows of two tokens or more"):
        VLLMEngine(tmp_path, probe=probe)


def test_training_mode_is_what_it_was(tiny_model):
    model = tiny_model().train()
    probe_logprobs(model, PROBE)
    assert model.training


@pytest.mark.parametrize("tied", [True, False])
def test_a_sync_writes_the_engines_type(tiny_model, tmp_path, tied):
    model = tiny_model(tie_word_embeddings=tied)
    model.save_pretrained(tmp_path / "float32")
    model.save_pretrained(tmp_path / "bfloat16", state_dict=weights_in(model, torch.bfloat16))
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("float32", "bfloat16")]
    assert sizes[1] < 0.6 * sizes[0]
    again = type(model).from_pretrained(tmp_path / "bfloat16", dtype=torch.bfloat16)
    assert all(torch.equal(again.get_parameter(name), weight.bfloat16()) for name, weight in model.named_parameters())
