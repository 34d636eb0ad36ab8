"""Splits into micro-batches and processes change nothing; schedules, clipping, resuming."""

import pytest
import torch

from agent_envs.base.errors import AgentEnvsError
from tests.trainers.forked import two_ranks
from tests.trainers.training.two_processes import train
from trainers.batching import micro_batches
from trainers.settings import ModelSettings, OptimSettings
from trainers.training.forward import token_logprobs
from trainers.training.models import make_accelerator
from trainers.training.optimise import Optimiser, rate_factor, sum_gradients


def backward(model, rows, budget, denominator):
    total = 0.0
    for micro in micro_batches(rows, budget, 0):
        logprobs, entropies = token_logprobs(model, micro, entropy_grad=True)
        loss = -(logprobs * micro.advantages + 0.01 * entropies).sum() / denominator
        loss.backward()
        total += loss.item()
    return total


@pytest.mark.parametrize("budget", [1, 30, 77])
def test_gradients_do_not_depend_on_the_split_into_micro_batches(tiny_model, random_rows, budget):
    rows = random_rows(8)
    whole, split = tiny_model(torch.float64), tiny_model(torch.float64)
    expected = backward(whole, rows, 10_000, 50.0)
    assert backward(split, rows, budget, 50.0) == pytest.approx(expected, abs=1e-9)
    for one, other in zip(whole.parameters(), split.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, atol=1e-9, rtol=0)
        assert one.grad.abs().max() > 1e-4


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        ("constant", [0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ("linear", [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]),
        ("cosine", [0.5, 1.0, 1.0, 0.853553, 0.5, 0.146447, 0.0]),
    ],
)
def test_schedules_by_hand(schedule, factors):
    settings = OptimSettings(schedule=schedule, warmup_steps=2)
    assert [rate_factor(settings, step, 6) for step in range(7)] == pytest.approx(factors, abs=1e-6)
    assert rate_factor(settings, 100, 6) == factors[-1]


def test_a_step_is_adamw_at_the_rate_of_the_schedule(tiny_model, random_rows):
    ours, theirs = tiny_model(), tiny_model()
    settings = OptimSettings(learning_rate=1e-2, warmup_steps=2, weight_decay=0.1, max_grad_norm=0.0)
    optimiser = Optimiser(ours, settings, total_steps=5)
    matrices = [p for p in theirs.parameters() if p.ndim >= 2]
    vectors = [p for p in theirs.parameters() if p.ndim < 2]
    reference = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}])
    for rate in (0.005, 0.01, 0.01):
        assert optimiser.learning_rate == rate
        for group in reference.param_groups:
            group["lr"] = rate
        for model in (ours, theirs):
            backward(model, random_rows(3), 1000, 10.0)
        optimiser.step()
        reference.step()
        reference.zero_grad()
    assert optimiser.steps == 3
    assert all(torch.equal(one, other) for one, other in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_gradients_are_clipped_to_the_norm_and_the_norm_before_is_told(tiny_model, random_rows):
    model = tiny_model()
    optimiser = Optimiser(model, OptimSettings(learning_rate=0.0, max_grad_norm=0.5), 1)
    backward(model, random_rows(3), 1000, 1.0)
    norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm().item()
    seen = []
    optimiser.adamw.register_step_pre_hook(
        lambda *_: seen.append(torch.cat([p.grad.flatten() for p in model.parameters()]).norm().item())
    )
    assert optimiser.step() == pytest.approx(norm, rel=1e-5)
    assert norm > 0.5 and seen == [pytest.approx(0.5, rel=1e-4)]
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_gradient_that_is_not_finite_stops_training_before_the_weights_are_touched(tiny_model):
    model = tiny_model()
    before = [parameter.clone() for parameter in model.parameters()]
    optimiser = Optimiser(model, OptimSettings(), 1)
    (next(model.parameters()).sum() * float("nan")).backward()
    with pytest.raises(AgentEnvsError, match="diverged"):
        optimiser.step()
    assert all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))


def test_frozen_parameters_stay(tiny_model, random_rows):
    model = tiny_model()
    frozen = model.model.layers[0].mlp.up_proj.weight.requires_grad_(False)
    before = frozen.clone()
    optimiser = Optimiser(model, OptimSettings(learning_rate=1e-2, weight_decay=0.1), 1)
    backward(model, random_rows(3), 1000, 1.0)
    optimiser.step()
    assert torch.equal(frozen, before)
    assert len(optimiser.parameters) == len(list(model.parameters())) - 1


def test_one_process_needs_no_accelerator(tiny_model, random_rows):
    model = tiny_model()
    backward(model, random_rows(2), 1000, 1.0)
    before = [parameter.grad.clone() for parameter in model.parameters()]
    sum_gradients(model)
    assert all(torch.equal(one, p.grad) for one, p in zip(before, model.parameters(), strict=True))


@pytest.fixture(scope="module")
def of_two_processes(tmp_path_factory):
    """What two processes computed together."""
    out = tmp_path_factory.mktemp("two") / "found.pt"
    assert two_ranks("tests.trainers.training.two_processes", out, CUDA_VISIBLE_DEVICES="") == [0, 0]
    return torch.load(out, weights_only=True)


@pytest.mark.parametrize("kind", ["all weights", "lora"])
def test_two_processes_equal_one(of_two_processes, kind):
    two = of_two_processes[kind]
    one = train(make_accelerator(ModelSettings(dtype="float32")), kind == "lora")
    assert (one["processes"], two["processes"]) == (1, 2)
    assert two["shares"] == [[0, 1, 2, 3, 4, 5], [6]], "the processes had different numbers of micro-batches"
    assert two["losses"] == pytest.approx(one["losses"], abs=1e-6)
    assert two["norms"] == pytest.approx(one["norms"], abs=1e-6)
    assert one["weights"].keys() == two["weights"].keys() and one["weights"]
    for name, weight in one["weights"].items():
        assert torch.allclose(two["weights"][name], weight, atol=1e-6, rtol=0), name
        assert not torch.equal(weight, one["initial"][name]), f"{name} was trained"
