"""The critic: values at the moments before tokens, heads that begin at 0, copies that share what does not train."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator

from agent_envs import UsageError
from tests.rows import each_row
from trainers.batching import micro_batches
from trainers.contracts import TokenSequence
from trainers.fixed_turns import state_before
from trainers.settings import OptimSettings
from trainers.training.critic import (
    Critic,
    CriticSettings,
    WarmupSettings,
    critic_step,
    fit,
    value_loss,
    values_of,
)
from trainers.training.optimise import Optimiser, Processes
from trainers.verlog_parts import has_settled

FAST = OptimSettings(learning_rate=1e-2)


def parts_of(model):
    accelerator = Accelerator(cpu=True)
    return SimpleNamespace(
        model=model, chat=SimpleNamespace(pad_id=0), device=torch.device("cpu"), accelerator=accelerator,
        processes=Processes(accelerator),
    )  # fmt: skip


def with_targets(rows, values, target):
    """Return rows that are to have this return at each trained token."""
    found = []
    for row, own in zip(rows, values, strict=True):
        left, kept = iter(own), row.sequence.trained
        table = tuple(next(left) if here else 0.0 for here in kept)
        first = tuple(float(here and not any(kept[:place])) for place, here in enumerate(kept))
        returns = tuple(target if here else 0.0 for here in kept)
        found.append(replace(row, more={"returns": returns, "values": table, "first": first}))
    return found


@pytest.mark.parametrize("kind", ["copy", "head"])
def test_a_new_critic_says_nothing_and_learns_returns_without_moving_the_policy(kind, tiny_model, random_rows):
    model, rows = tiny_model(), random_rows(6)
    parts, settings = parts_of(model), CriticSettings(kind=kind, clip=0.0, first_weight=1.0)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    critic = Critic(model, settings)
    optimiser = Optimiser(critic, FAST, 0)
    sequences = [row.sequence for row in rows]
    values = values_of(critic, sequences, parts, 64)
    assert [len(own) for own in values] == [sum(one.trained) for one in sequences] and not any(map(any, values))
    first = critic_step(with_targets(rows, values, 0.7), critic, optimiser, parts, settings, 64)
    for _ in range(25 if kind == "copy" else 60):
        last = critic_step(with_targets(rows, values, 0.7), critic, optimiser, parts, settings, 64)
    assert (
        first["critic/loss"] == pytest.approx(0.5 * 0.7**2, rel=1e-5)
        and last["critic/loss"] < first["critic/loss"] / 10
    )
    assert first["critic/first_loss"] == pytest.approx(first["critic/others_loss"], rel=1e-5)
    assert all(torch.equal(before[name], weight) and weight.grad is None for name, weight in model.named_parameters())


def test_a_value_is_of_the_moment_before_its_token(tiny_model):
    """The first value of a turn is that of its state, whatever is said; a state that nobody acted in has the same."""
    model = tiny_model()
    critic = Critic(model, CriticSettings())
    torch.nn.init.normal_(critic.head.weight)
    prompt = (3, 5, 7, 9)
    said = [
        TokenSequence((*prompt, *reply), (False,) * 4 + (True,) * 2, (0.0,) * 6, (0,) * 4 + (1,) * 2)
        for reply in ((1, 2), (2, 2))
    ]
    one, other, bare = values_of(critic, [*said, state_before(prompt, 11)], parts_of(model), 64)
    assert one[0] == pytest.approx(other[0], abs=1e-6) == bare[0] and one[0] != 0
    assert one[1] != pytest.approx(other[1], abs=1e-4) and len(bare) == 1


def test_a_copy_shares_what_does_not_train(tiny_model):
    model = tiny_model(tie_word_embeddings=False)
    model.model.layers[0].requires_grad_(False)
    critic = Critic(model, CriticSettings())
    pairs = {name: (weight, dict(critic.decoder.named_parameters())[name]) for name, weight in model.named_parameters()}
    shared = {name for name, (own, theirs) in pairs.items() if own.data_ptr() == theirs.data_ptr()}
    assert shared == {name for name, (own, _) in pairs.items() if not own.requires_grad} | {"lm_head.weight"}
    trained = {name for name, weight in critic.named_parameters() if weight.requires_grad}
    assert (
        "decoder.lm_head.weight" not in trained
        and "head.weight" in trained
        and pairs["lm_head.weight"][0].requires_grad
    )


def test_under_lora_it_has_an_adapter_of_its_own(tiny_model, random_rows):
    import peft

    model = peft.get_peft_model(tiny_model(), peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    critic, parts = Critic(model, CriticSettings(clip=0.0)), parts_of(model)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    rows = random_rows(3)
    optimiser = Optimiser(critic, FAST, 0)
    for _ in range(3):  # the head leaves 0 first, then gradients reach the adapter
        values = values_of(critic, [row.sequence for row in rows], parts, 64)
        critic_step(with_targets(rows, values, 1.0), critic, optimiser, parts, CriticSettings(clip=0.0), 64)
    trained = [name for name, weight in critic.named_parameters() if weight.requires_grad]
    assert sorted(trained)[-2:] == ["head.bias", "head.weight"] and all(
        "lora_" in name for name in sorted(trained)[:-2]
    )
    moved = dict(critic.decoder.named_parameters())
    assert any("lora_B" in name and moved[name].any() for name in moved)
    assert all(torch.equal(before[name], weight) for name, weight in model.named_parameters())
    frozen = [name for name in before if "lora_" not in name]
    assert frozen and all(moved[name].data_ptr() == dict(model.named_parameters())[name].data_ptr() for name in frozen)


def test_the_value_loss_of_a_hand_worked_table():
    """v .9, old .2, clip .5: the near value is .7; against a return of 1 it is further off, against 0 the value itself is."""
    values, old = torch.tensor([[0.9, 0.9, 0.3]]), torch.full((1, 3), 0.2)
    found = value_loss(values, old, torch.tensor([[1.0, 0.0, 1.0]]), 0.5)
    assert found.tolist()[0] == pytest.approx([0.5 * 0.3**2, 0.5 * 0.9**2, 0.5 * 0.7**2], abs=1e-6)
    free = value_loss(values, old, torch.tensor([[1.0, 0.0, 1.0]]), 0.0)
    assert free.tolist()[0] == pytest.approx([0.5 * 0.1**2, 0.5 * 0.9**2, 0.5 * 0.7**2], abs=1e-6)


def test_the_first_token_weighs_more(tiny_model, random_rows):
    model, rows = tiny_model(), random_rows(4)
    settings, parts = CriticSettings(first_weight=3.0), parts_of(model)
    critic = Critic(model, settings)
    given = with_targets(rows, [[0.0] * sum(row.sequence.trained) for row in rows], 0.4)
    count, firsts = sum(sum(row.sequence.trained) for row in rows), sum(any(row.sequence.trained) for row in rows)
    found = critic_step(given, critic, Optimiser(critic, FAST, 0), parts, settings, 64)
    assert found["critic/loss"] == pytest.approx(0.5 * 0.4**2 * (count + 2 * firsts) / count, rel=1e-5)


def test_explained_variance_counts_a_constant_error():
    processes = parts_of(None).processes
    assert fit([(0.0, 0.0), (1.0, 1.0), (0.5, 0.5)], processes) == (pytest.approx(1.0), pytest.approx(1.0), 3)
    assert fit([(0.5, 0.0), (0.5, 1.0)], processes) == (pytest.approx(0.0), 0.0, 2)
    assert fit([(1.0, 0.0), (0.0, 1.0)], processes) == (pytest.approx(-3.0), pytest.approx(-1.0), 2)
    assert fit([(1.0, 0.3), (0.0, 0.3)], processes) == (0.0, 0.0, 2) and fit([], processes) == (0.0, 0.0, 0)
    assert fit([(0.0, 0.0), (1.0, 0.0)], processes) == (0.0, 0.0, 2)  # values differ, and nothing was ever earned
    off = [(value + 5, value + 0.05 * (-1) ** place) for place, value in enumerate([0.0, 0.4, 0.9, 0.1])]
    assert fit(off, processes)[0] < -100 and fit(off, processes)[1] > 0.98


# Value losses over rounds: still, burst, falling by half in six rounds, rising, falling slowly, scattered by a tenth, few,
# still after a fall, a single round (without the check).
HISTORIES = [
    ([1.0] * 25, True),
    ([0.01] * 24 + [10.0], False),
    ([0.9**number for number in range(25)], False),
    ([1.05**number for number in range(25)], False),
    ([0.97**number for number in range(25)], True),
    ([1.0, 1.1, 0.95, 1.1, 1.0, 0.9] * 4 + [1.05], True),
    ([9.0, 3.0, 1.0, 1.0, 0.9, 0.91], True),
    ([9.0, 3.0, 1.0, 1.0, 0.8, 0.8], False),
    ([1.0] * 24 + [float("nan")], False),
    ([0.9**number for number in range(28)] + [0.9**28] * 13, True),
    ([1.0, 0.9], True),
    ([1.0, 0.5], False),
]


@each_row("losses, steady", HISTORIES)
def test_a_value_loss_has_settled_where_it_moves_neither_way(losses, steady):
    assert has_settled(losses)[0] == steady


def test_settings_out_of_range_are_named():
    with pytest.raises(UsageError, match="critic.clip=-1"):
        CriticSettings(clip=-1)
    with pytest.raises(UsageError, match="warmup.rounds=2: two rounds are held against two"):
        WarmupSettings(rounds=2)
    assert WarmupSettings(rounds=1, check=False).rounds == WarmupSettings(batches=0, rounds=1).rounds == 1


def test_columns_travel_with_their_rows(random_rows):
    rows = with_targets(random_rows(3), [[0.1] * sum(row.sequence.trained) for row in random_rows(3)], 0.4)
    for micro in micro_batches(rows, 200, 0):
        assert torch.equal(micro.more["returns"] != 0, micro.trained) and (micro.more["first"].sum(dim=1) <= 1).all()
