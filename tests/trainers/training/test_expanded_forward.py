"""Rows with expanded actions through micro-batches and the forward pass: any split, packed or padded, is one softmax."""

import random

import pytest
import torch

from agent_envs.envs.expa import VocabularyRow
from tests.examples import part
from tests.trainers.conftest import VOCABULARY, make_model
from trainers.batching import TrainRow, micro_batches
from trainers.contracts import TokenSequence
from trainers.earl_parts.expa_head import attach_head, load_head
from trainers.settings import ModelSettings
from trainers.tiny.models import word_tokenizer
from trainers.training import forward
from trainers.training.forward import head_of, token_scores
from trainers.training.models import load_model, save_model

END = 1
ROWS = (
    VocabularyRow("end", END, END, (END,)),
    *(VocabularyRow(f"action {k}", VOCABULARY + k - 1, 3 + k, (3 + k, 4 + k)) for k in (1, 2, 3, 4)),
)
LANGUAGE, INSIDE, LITTLE = (0, 1, 2), (3, 4), (0,)


def model_of(dtype=torch.float64, seed=0):
    model = make_model(dtype, seed=seed)
    rows = [VocabularyRow(number, row.token_id, row.start, row.description) for number, row in enumerate(ROWS)]
    attach_head(model, rows)
    with torch.no_grad():
        head_of(model).weight += 0.3 * torch.randn(
            head_of(model).weight.shape, generator=torch.Generator().manual_seed(1)
        )
    return model


def expanded_rows(count, seed=0, prompt=6):
    """Return rows of groups of three that share a prompt; decisions in language, inside environments, and none."""
    generator = random.Random(f"expanded {seed}")
    rows = []
    for number in range(count):
        words = random.Random(f"prompt {number // 3}")
        ids = [words.randrange(VOCABULARY) for _ in range(prompt)]
        trained, legal, targets = [False] * prompt, [()] * prompt, list(ids)
        for _ in range(generator.randint(2, 14)):
            found = generator.choice([LANGUAGE, LANGUAGE, INSIDE, LITTLE, ()])
            ids.append(generator.randrange(VOCABULARY))
            action = (
                generator.choice([each for each in found if each] or [0])
                if generator.random() < 0.5 or found == INSIDE
                else 0
            )
            targets.append(VOCABULARY + action - 1 if action else ids[-1])
            trained.append(bool(found))
            legal.append(found)
        logprobs = tuple(-generator.random() if kept else 0.0 for kept in trained)
        turns = tuple(int(kept) for kept in trained)
        sequence = TokenSequence(tuple(ids), tuple(trained), logprobs, turns, tuple(targets), tuple(legal))
        rows.append(TrainRow(sequence, tuple(generator.gauss(0, 1) if kept else 0.0 for kept in trained)))
    return rows


def brute_force(model, row, temperature):
    """Return logprobs, entropies and vocabulary logprobs of the trained tokens, from the logits of one row alone."""
    ids = torch.tensor([row.sequence.ids])
    states = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state[0]
    words, actions = model.lm_head(states) / temperature, head_of(model).expanded_logits(states) / temperature
    found = []
    for place, kept in enumerate(row.sequence.trained):
        if not kept:
            continue
        numbers, target = row.sequence.legal[place], row.sequence.targets[place]
        logits = [words[place - 1]] if 0 in numbers else []
        names = list(range(VOCABULARY)) if 0 in numbers else []
        picked = [number for number in numbers if number]
        logits.append(actions[place - 1][[number - 1 for number in picked]])
        names += [VOCABULARY + number - 1 for number in picked]
        logprobs = torch.cat(logits).log_softmax(-1)
        spoken = words[place - 1].log_softmax(-1)[target] if target < VOCABULARY else logprobs.new_zeros(())
        found.append(torch.stack([logprobs[names.index(target)], -(logprobs.exp() * logprobs).sum(), spoken]))
    return torch.stack(found)


def objective(scores, weights):
    return sum((each * weight).sum() for each, weight in zip(scores, (weights, 0.3, 0.1), strict=True))


def gradients(model):
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found


@pytest.mark.parametrize("temperature", part([1.0, 0.7], [0.7]))
@pytest.mark.parametrize("budget", part([1, 40, 10_000], [40, 10_000]))
@pytest.mark.parametrize("way", ["packed", "padded", "in chunks"])
def test_any_split_and_layout_gives_the_brute_force_gradients(way, budget, temperature, monkeypatch):
    if way == "padded":
        monkeypatch.setattr(forward, "packable", lambda *things: False)
    if way == "in chunks":
        monkeypatch.setattr(forward, "LOGITS_KEPT", 1)
        monkeypatch.setattr(forward, "LOGITS_AT_ONCE", 3 * VOCABULARY)
    model, rows = model_of(), expanded_rows(7)
    wanted = [brute_force(model, row, temperature) for row in rows]
    for row, each in zip(rows, wanted, strict=True):
        weights = torch.tensor(
            [share for share, kept in zip(row.advantages, row.sequence.trained, strict=True) if kept]
        )
        objective(each.unbind(1), weights).backward()
    brute = gradients(model)
    for micro in micro_batches(rows, budget, 0):
        scores = token_scores(model, micro, temperature, entropy_grad=True)
        for place, number in enumerate(micro.rows):
            for ours, theirs in zip(scores, wanted[number].unbind(1), strict=True):
                assert torch.allclose(ours[place][micro.trained[place]].double(), theirs, atol=1e-6)
                assert not ours[place][~micro.trained[place]].any()
        objective(scores, micro.advantages.double()).backward()
    ours = gradients(model)
    assert ours.keys() == brute.keys() and "expanded_head.weight" in ours
    for name, theirs in brute.items():
        assert torch.allclose(ours[name], theirs, rtol=1e-5, atol=1e-6), name


def test_a_batch_knows_as_many_actions_as_its_rows():
    """Rows in which the last actions never were legal have narrower tables, and the same scores."""
    model, rows = model_of(), expanded_rows(9)
    narrow = [row for row in rows if INSIDE not in row.sequence.legal]
    assert narrow
    (micro,) = micro_batches(narrow, 10_000, 0)
    assert micro.legal.shape[-1] == 3
    alone = {number: token_scores(model, micro).logprobs[place] for place, number in enumerate(micro.rows)}
    (whole,) = micro_batches([*narrow, *rows], 100_000, 0)
    assert whole.legal.shape[-1] == 5
    scores = token_scores(model, whole).logprobs
    for place, number in enumerate(whole.rows):
        if number < len(narrow):
            length = alone[number].shape[0]
            assert torch.allclose(scores[place][:length], alone[number][: scores.shape[1]], atol=1e-6)


def test_a_frozen_base_trains_the_head_alone():
    model = make_model()
    model.requires_grad_(False)
    attach_head(model, [VocabularyRow(n, row.token_id, row.start, row.description) for n, row in enumerate(ROWS)])
    for micro in micro_batches(expanded_rows(4), 10_000, 0):
        (token_scores(model, micro).logprobs * micro.advantages).sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is not None] == ["expanded_head.weight"]
    assert head_of(model).weight.grad.abs().sum() > 0


def test_a_merged_model_keeps_its_head(tmp_path):
    import peft

    model = peft.get_peft_model(make_model(), peft.LoraConfig(r=2, target_modules=["q_proj"]))
    attach_head(model, [VocabularyRow(n, row.token_id, row.start, row.description) for n, row in enumerate(ROWS)])
    save_model(model, word_tokenizer(["one two"]), tmp_path / "merged", merge=True)
    again, _ = load_model(ModelSettings(name=str(tmp_path / "merged"), dtype="float32"))
    assert torch.equal(load_head(again, tmp_path / "merged").weight, head_of(model).weight)
