"""Log-probabilities of inserting an action or a text are equal in one pass and in separate passes per position."""

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.envs.expa import VocabularyRow
from tests.trainers.conftest import VOCABULARY
from tests.trainers.earl_parts.counterfactual.brute_force import brute_force, policy_logprobs_of, spoken
from trainers.contracts import TokenSequence
from trainers.earl_parts.counterfactual import positions
from trainers.earl_parts.counterfactual.positions import (
    Positions,
    language_places,
    position_logweights,
    text_logweights,
)
from trainers.earl_parts.expa_head import attach_head
from trainers.training import forward

TIGHT = 1e-6  # eager attention takes its softmax in float32, whatever the model is


@pytest.mark.parametrize("tag", [(4,), (4, 9), (4, 9, 4, 2)])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_text_is_scored_at_every_sampled_token_as_by_passes_of_its_own(tiny_model, tag, attention):
    model = tiny_model(torch.float64, attn_implementation=attention)
    generator = random.Random("text")
    sequences = [spoken(generator, turns) for turns in (3, 1, 2)]
    for rule in ("paper", "released"):
        for sequence, found in zip(
            sequences, text_logweights(model, sequences, tag, rule, temperature=1.3), strict=True
        ):
            assert found.places == tuple(place for place, kept in enumerate(sequence.trained) if kept)
            for place, weight, logprobs in zip(found.places, found.log_weights, found.logprobs, strict=True):
                expected = brute_force(model, sequence.ids[:place], tag, 1.3)
                assert logprobs == pytest.approx(expected, abs=TIGHT)
                assert weight == pytest.approx(sum(expected) if rule == "paper" else expected[0], abs=TIGHT)


EOS, END, ROUTE, OTHER, INSIDE = 2, 0, 1, 2, 3
DESCRIPTIONS = {1: [(4,), (7,)], 3: [(4, 9, 4), (7, 3)]}


def rows_of(length):
    """Return the rows of `end`, two routing actions with descriptions of so many tokens, and an action inside."""
    texts = [(EOS,), *DESCRIPTIONS[length], (5,)]
    ids = [EOS, *range(VOCABULARY, VOCABULARY + 3)]
    return [VocabularyRow(place, ids[place], text[0], text) for place, text in enumerate(texts)]


def expanded(generator, decisions=8):
    """Return a random episode with expanded actions, and which of its positions are in language mode."""
    shown = generator.randint(1, 4)
    row = [(generator.randrange(VOCABULARY), False, (), None) for _ in range(shown)]  # id, trained, legal, target
    spoken = []
    for _ in range(generator.randint(1, decisions)):
        legal = generator.choice([(END, ROUTE, OTHER), (END, OTHER), (END, ROUTE), (INSIDE,)])
        target = generator.choice([*legal[1:], generator.randrange(3, VOCABULARY) - VOCABULARY])
        if legal == (INSIDE,):
            target = INSIDE
        else:
            spoken.append(len(row))
        token = target + VOCABULARY if target < 0 else generator.randrange(VOCABULARY)
        row.append((token, True, legal, token if target < 0 else VOCABULARY + target - 1))
        row += [(generator.randrange(VOCABULARY), False, (), None) for _ in range(generator.randint(0, 3))]
    ids, trained, legal, targets = zip(*row, strict=True)
    targets = tuple(ids[place] if target is None else target for place, target in enumerate(targets))
    numbers = tuple(map(int, trained))
    return TokenSequence(ids, trained, tuple(-1.0 * mine for mine in trained), numbers, targets, legal), spoken


@given(st.randoms())
def test_positions_are_the_ones_in_language_mode(generator):
    sequence, spoken = expanded(generator)
    open_to_it = [place for place in spoken if ROUTE in sequence.legal[place]]
    assert language_places(sequence, ROUTE, "paper", VOCABULARY) == tuple(open_to_it)
    before_words = tuple(place for place in open_to_it if sequence.targets[place] < VOCABULARY)
    released = language_places(sequence, ROUTE, "released", VOCABULARY)
    if before_words:
        assert released == before_words
    else:
        first = sequence.trained.index(True)
        assert released == ((first,) if first in open_to_it else ())


def test_without_a_word_the_released_rule_falls_back_on_the_first_decision():
    legal = ((), (END, ROUTE), (INSIDE,), (END, ROUTE))
    acts = TokenSequence((1, 4, 5, 4), (False, True, True, True), (0.0,) * 4, (0, 1, 2, 3), (1, 23, 25, 23), legal)
    assert language_places(acts, ROUTE, "paper", VOCABULARY) == (1, 3)
    assert language_places(acts, ROUTE, "released", VOCABULARY) == (1,)
    assert language_places(acts, OTHER, "released", VOCABULARY) == ()


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_routing_action_is_scored_as_by_passes_of_its_own(tiny_model, length, attention):
    model = tiny_model(torch.float64, attn_implementation=attention)
    head = attach_head(model, rows_of(length))
    with torch.no_grad():
        head.weight.add_(torch.linspace(-1, 1, head.weight.numel(), dtype=torch.float64).view_as(head.weight))
    generator = random.Random("expanded")
    sequences = [expanded(generator)[0] for _ in range(12)]
    seen = 0
    for rule in ("paper", "released"):
        for sequence, found in zip(sequences, position_logweights(model, sequences, ROUTE, rule), strict=True):
            assert found.places == language_places(sequence, ROUTE, rule, VOCABULARY)
            for place, weight, (logprob,) in zip(found.places, found.log_weights, found.logprobs, strict=True):
                policy = policy_logprobs_of(model, sequence.ids[:place], sequence.legal[place])
                assert logprob == pytest.approx(float(policy[VOCABULARY]), abs=TIGHT)
                alone = sum(brute_force(model, sequence.ids[:place], head.rows[ROUTE].description))
                either = float(max(policy[VOCABULARY], policy[head.rows[ROUTE].start]))
                assert weight == pytest.approx(alone if rule == "paper" else either, abs=TIGHT)
                seen += 1
    assert seen > 20


def test_a_fresh_head_of_one_token_says_what_the_language_model_says(tiny_model):
    """D.1: pi(g) is pi(desc(g)), so at the start all weights of both rules are one, but for their softmax."""
    model = tiny_model(torch.float64)
    attach_head(model, rows_of(1))
    sequence = expanded(random.Random("fresh"), 12)[0]
    legal = [numbers if 0 not in numbers else (END, ROUTE) for numbers in sequence.legal]
    sequence = TokenSequence(
        sequence.ids, sequence.trained, sequence.logprobs, sequence.turns, sequence.targets, tuple(legal)
    )
    (paper,), (released,) = (position_logweights(model, [sequence], ROUTE, rule) for rule in ("paper", "released"))
    for place, weight in zip(released.places, released.log_weights, strict=True):
        alone = paper.log_weights[paper.places.index(place)]
        # One more logit, equal to one that is there: p / (1 + p).
        expected = alone - torch.log1p(torch.tensor(alone).exp())
        assert weight == pytest.approx(float(expected), abs=1e-6)


@pytest.mark.parametrize("length", [1, 3])
def test_neighbours_padding_and_passes_do_not_matter(tiny_model, monkeypatch, length):
    model = tiny_model(torch.float64)
    attach_head(model, rows_of(length))
    generator = random.Random("batch")
    sequences = [expanded(generator, 2 + number)[0] for number in range(8)]
    together = position_logweights(model, sequences, OTHER, "paper")
    assert any(not found.places for found in together) or len({len(found.places) for found in together}) > 1
    alone = [position_logweights(model, [sequence], OTHER, "paper")[0] for sequence in sequences]
    backwards = position_logweights(model, sequences[::-1], OTHER, "paper")[::-1]
    monkeypatch.setattr(positions, "TOKENS_A_PASS", 40)
    monkeypatch.setattr(forward, "LOGITS_AT_ONCE", 5 * VOCABULARY)
    in_parts = position_logweights(model, sequences, OTHER, "paper")
    for found, *others in zip(together, alone, backwards, in_parts, strict=True):
        for other in others:
            assert other.places == found.places
            assert other.log_weights == pytest.approx(found.log_weights, abs=1e-9)
            for one, two in zip(found.logprobs, other.logprobs, strict=True):
                assert one == pytest.approx(two, abs=1e-9)


def test_scoring_leaves_the_model_as_it_was(tiny_model):
    model = tiny_model(attention_dropout=0.5).train()
    attach_head(model, rows_of(3))
    sequences = [expanded(random.Random("mode"))[0]]
    assert position_logweights(model, sequences, OTHER) == position_logweights(model, sequences, OTHER)
    assert model.training and all(parameter.grad is None for parameter in model.parameters())


def test_what_cannot_be_scored_is_refused(tiny_model):
    model = tiny_model()
    sequence = expanded(random.Random("refused"))[0]
    with pytest.raises(UsageError, match="no expanded head"):
        position_logweights(model, [sequence], ROUTE)
    with pytest.raises(UsageError, match="no token"):
        text_logweights(model, [sequence], ())
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(UsageError, match="take a mask"):
        text_logweights(model, [sequence], (4, 9))
    nothing = TokenSequence((1, 2), (False, False), (0.0, 0.0), (0, 0))
    assert text_logweights(model, [nothing], (4,)) == [Positions()]
    assert text_logweights(model, [], (4,)) == []
