"""The positive control of CPO: a caller that knows how, and whose routing logit a constant holds down."""

import pytest
import torch

from agent_envs.base.errors import UsageError
from tests.trainers.earl_runs import ARITHMETIC, TEXT_COUNTDOWN, WARM, expanded_run, run
from trainers.command_line import load_preset, read_settings
from trainers.earl import EARLSettings, suppress_routes, train
from trainers.earl_parts.expa_head import load_head
from trainers.run import open_run
from trainers.settings import ModelSettings
from trainers.training.forward import head_of


def test_a_constant_makes_routes_rarer_by_its_exponential_and_nothing_else_moves(tmp_path):
    opened = expanded_run("ArithmeticExpA")
    opened.weights_changed = lambda: None
    head, states = head_of(opened.parts.model), torch.randn(5, 64)
    before = head.expanded_logits(states).detach()
    suppress_routes(-6.0, opened)
    moved = head.expanded_logits(states).detach() - before
    route = next(row.action for row in head.rows[1:] if row.action == 1)
    assert moved[:, route - 1] == pytest.approx(-6.0) and int((moved.abs() > 1e-5).sum()) == len(states)
    assert not head.bias.requires_grad and [name for name, _ in head.named_parameters()] == ["weight"]
    head_of(opened.parts.model).save(tmp_path)
    assert torch.equal(load_head(opened.parts.model, tmp_path).bias, head.bias)


def test_it_is_over_kills_and_belongs_to_routes(tmp_path):
    words = [*ARITHMETIC, *WARM, "--model.routing-bias", "-6"]
    run(tmp_path, *words, steps=1)
    settings = read_settings(EARLSettings, tmp_path)
    with open_run(settings, tmp_path) as again:
        train(settings, again)
        assert not again.fresh and head_of(again.parts.model).bias.tolist().count(-6.0) == 1
    assert load_head(again.parts.bare, tmp_path / "model").bias.tolist().count(-6.0) == 1
    with pytest.raises(UsageError, match="no routing actions"):
        run(tmp_path / "text", *TEXT_COUNTDOWN, "--model.routing-bias", "-6", steps=1)
    with pytest.raises(UsageError, match="routing_bias=1"):
        ModelSettings(routing_bias=1.0)


def test_the_preset_is_tiny_arithmetic_with_a_caller_that_is_held_down():
    held, base = (load_preset(EARLSettings, "earl", name) for name in ("tiny-held-down", "tiny-arithmetic"))
    assert held.model.routing_bias == -6.0 and base.model.routing_bias == 0.0 and held.env == base.env
    assert held.counterfactual.rule == "paper"
