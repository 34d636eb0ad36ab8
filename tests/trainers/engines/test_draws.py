"""Draws: their distribution, what the filters leave, and the logprobs and entropies they come with."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from tests.examples import examples
from trainers.contracts import Sampling
from trainers.engines.decode import allowed_table, check_sampling, draw, log_distribution, uniforms

DRAWS = 20_000
PROBS = torch.tensor([0.05, 0.3, 0.0, 0.15, 0.25, 0.02, 0.13, 0.1])
# The 1 - 1e-6 quantile of chi-square with 6 degrees of freedom (7 tokens of positive probability).
CHI_SQUARE_LIMIT = 38.3


def many(sampling, allowed=None, seed=7):
    """Draw DRAWS times from PROBS, each time with the next uniform of one stream."""
    uniform = uniforms([seed], [DRAWS])[0]
    logits = PROBS.log().expand(DRAWS, -1)
    table = allowed_table([allowed] * DRAWS, len(PROBS)) if allowed else None
    return draw(logits, uniform, sampling, table)


def reference(logits, sampling, allowed=None):
    """The distribution in float64, one row and one token at a time."""
    scores = [float(x) if allowed is None or i in allowed else -np.inf for i, x in enumerate(logits)]
    scores = np.array(scores) / (sampling.temperature or 1.0)
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    if sampling.top_k:
        order = order[: sampling.top_k]
    weights = {i: np.exp(scores[i] - scores[order[0]]) for i in order}
    total = sum(weights.values())
    kept, held = [], 0.0
    for i in order:
        if held >= sampling.top_p and sampling.top_p < 1:
            break
        kept.append(i)
        held += weights[i] / total
    total = sum(weights[i] for i in kept)
    return {i: weights[i] / total for i in kept if weights[i] > 0}


def test_frequencies_are_those_of_the_distribution():
    counts = torch.bincount(many(Sampling()).ids, minlength=len(PROBS)).double()
    expected = PROBS.double() * DRAWS
    assert counts[2] == 0
    some = expected > 0
    assert ((counts - expected)[some] ** 2 / expected[some]).sum() < CHI_SQUARE_LIMIT


def test_frequencies_at_a_temperature():
    counts = torch.bincount(many(Sampling(temperature=2.0)).ids, minlength=len(PROBS)).double()
    expected = PROBS.double().sqrt() / PROBS.double().sqrt().sum() * DRAWS
    some = expected > 0
    assert ((counts - expected)[some] ** 2 / expected[some]).sum() < CHI_SQUARE_LIMIT


@pytest.mark.parametrize(
    "sampling, allowed, support",
    [
        (Sampling(top_k=3), None, {1, 4, 3}),
        (Sampling(top_p=0.5), None, {1, 4}),
        (Sampling(top_p=0.56), None, {1, 4, 3}),
        (Sampling(top_p=1e-9), None, {1}),
        (Sampling(top_k=3, top_p=0.7), None, {1, 4}),
        (Sampling(), (0, 5, 7), {0, 5, 7}),
        (Sampling(top_k=2), (0, 5, 7), {0, 7}),
        (Sampling(top_k=6), (0, 5), {0, 5}),
        (Sampling(top_p=0.7, temperature=0.5), (0, 5, 7), {7}),
    ],
)
def test_filters_leave_these_tokens_and_all_of_them(sampling, allowed, support):
    drawn = many(sampling, allowed)
    assert set(drawn.ids.tolist()) == support
    assert support == set(reference(PROBS.log(), sampling, allowed))


def test_top_k_keeps_so_many_even_among_equals():
    distribution = log_distribution(torch.zeros(2, 9), Sampling(top_k=4)).exp()
    assert (distribution > 0).sum(-1).tolist() == [4, 4]


def test_zero_takes_the_likeliest_allowed_token_with_its_logprob_at_temperature_one():
    drawn = draw(PROBS.log()[None], torch.zeros(1).double(), Sampling(temperature=0.0), allowed_table([(0, 3, 6)], 8))
    assert drawn.ids.tolist() == [3]
    assert drawn.logprobs.item() == pytest.approx(np.log(0.15 / 0.33), abs=1e-6)


@given(
    logits=st.lists(st.floats(-12, 12, width=32), min_size=6, max_size=6, unique=True),
    temperature=st.sampled_from([0.3, 1.0, 1.7]),
    top_k=st.integers(0, 6),
    top_p=st.sampled_from([0.2, 0.7, 0.95, 1.0]),
    allowed=st.sampled_from([None, (0, 2, 3), (5,)]),
    uniform=st.floats(0, 1, exclude_max=True),
)
@examples(150)
def test_logprobs_and_entropies_are_those_of_float64(logits, temperature, top_k, top_p, allowed, uniform):
    sampling = Sampling(temperature, top_k, top_p)
    expected = reference(np.array(logits, dtype=np.float32), sampling, allowed)
    table = allowed_table([allowed], 6)
    drawn = draw(torch.tensor([logits]), torch.tensor([uniform], dtype=torch.float64), sampling, table)
    held, before = 0.0, set()
    for token in sorted(expected):
        held += expected[token]
        before.add(token)
        if held > uniform:
            break
    # Where the uniform lies at a border, rounding may choose either side.
    assert drawn.ids.item() == token or abs(held - expected[token] - uniform) < 1e-5 or abs(held - uniform) < 1e-5
    if drawn.ids.item() in expected:
        assert drawn.logprobs.item() == pytest.approx(np.log(expected[drawn.ids.item()]), abs=1e-5)
    entropy = -sum(p * np.log(p) for p in expected.values())
    assert drawn.entropies.item() == pytest.approx(entropy, abs=1e-5)


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-53])
def test_the_ends_of_the_interval_draw_possible_tokens(uniform):
    logits = torch.log(torch.tensor([[0.0, 0.1, 0.3, 0.6, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0]]))
    drawn = draw(logits, torch.full((2,), uniform, dtype=torch.float64), Sampling())
    assert drawn.ids.tolist() == ([1, 2] if uniform == 0 else [3, 2])
    assert torch.isfinite(drawn.entropies).all()


def test_uniforms_depend_on_the_seed_alone():
    table = uniforms([3, -4, 3, 2**200], [5, 2, 3, 1])
    assert table.shape == (4, 5)
    assert torch.equal(table[0, :3], table[2, :3])
    assert table[2, 3:].tolist() == [0, 0]
    assert torch.equal(uniforms([-4], [2])[0], table[1, :2])
    assert table[0, 0] != table[1, 0]


def test_neighbouring_seeds_are_independent():
    firsts = uniforms(range(4000), [2] * 4000)
    assert abs(firsts.mean().item() - 0.5) < 0.02
    assert abs(torch.corrcoef(torch.stack([firsts[:-1, 0], firsts[1:, 0]]))[0, 1].item()) < 0.08
    assert abs(torch.corrcoef(firsts.T)[0, 1].item()) < 0.08


def test_half_precision_logits_are_drawn_from_in_float32():
    drawn = draw(torch.randn(3, 50).bfloat16(), torch.rand(3).double(), Sampling())
    assert drawn.logprobs.dtype == torch.float32


@pytest.mark.parametrize(
    "sampling", [Sampling(temperature=-1), Sampling(top_k=-1), Sampling(top_p=0), Sampling(top_p=2)]
)
def test_settings_that_name_no_distribution_are_refused(sampling):
    with pytest.raises(UsageError):
        check_sampling(sampling)


@pytest.mark.parametrize("ids", [(), (8,), (-1, 2)])
def test_allowed_ids_are_checked(ids):
    with pytest.raises(UsageError, match="allowed_ids"):
        allowed_table([ids], 8)
