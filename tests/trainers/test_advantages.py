"""Advantages: hand-worked tables, the float64 reference, and expected gradients over every episode of a small problem."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from tests.trainers import reference_maths as reference
from trainers import advantages

DTYPES = st.sampled_from([torch.float32, torch.float64])
REWARDS = st.floats(-2, 2, width=32)
TURN_BASELINES = ["leave_one_out", "leave_one_out_reached", "per_index"]


def close(ours, expected):
    np.testing.assert_allclose(ours.double().numpy(), expected, rtol=1e-6, atol=1e-6)


# Hand-worked: two groups of rewards, a = 1, 0, 0, 1 and b = 3, 3.
#   group a: mean 1/2, sum of squares 4 * 1/4 = 1, std (ddof 1) = sqrt(1/3) = 0.5773503
#   all six: mean 8/6 = 4/3; deviations -1/3, -4/3, -4/3, -1/3, 5/3, 5/3; squares (1 + 16 + 16 + 1 + 25 + 25) / 9 = 84/9;
#            std = sqrt(84/45) = sqrt(1.8666667) = 1.3662601
#   leave one out in a: the others' mean is 1/3 for a reward of 1 and 2/3 for a reward of 0: +-2/3
#   group b is constant: 0
TABLE = {
    ("none", "mean"): 1 / 2,
    ("none", "leave_one_out"): 2 / 3,
    ("group_std", "mean"): 0.5 / 0.5773503,  # 0.8660254
    ("group_std", "leave_one_out"): (2 / 3) / 0.5773503,  # 1.1547005
    ("batch_std", "mean"): 0.5 / 1.3662601,  # 0.3659625
    ("batch_std", "leave_one_out"): (2 / 3) / 1.3662601,  # 0.4879500
}


@pytest.mark.parametrize(("scale", "baseline"), TABLE)
def test_hand_worked_groups(scale, baseline):
    rewards = torch.tensor([1.0, 3.0, 0.0, 0.0, 3.0, 1.0], dtype=torch.float64)
    ours = advantages.group_advantages(rewards, ["a", "b", "a", "a", "b", "a"], scale, baseline, eps=0.0)
    size = TABLE[scale, baseline]
    close(ours, [size, 0, -size, -size, 0, size])
    assert ours.dtype == torch.float64 and ours.sum() == 0


def test_eps_stands_beside_the_std():
    # rewards 0 and 2: mean 1, std (ddof 1) = sqrt(2); 1 / (sqrt(2) + 1) = 0.4142136
    ours = advantages.group_advantages(torch.tensor([0.0, 2.0]), eps=1.0)
    close(ours, [-0.4142136, 0.4142136])
    assert ours.abs().max() < 0.5  # without eps it is 0.7071068


@given(st.data(), DTYPES, st.sampled_from(list(TABLE)), st.sampled_from([1e-4, 1e-6, 0.5]))
def test_group_advantages_equal_the_reference(data, dtype, form, eps):
    rewards = torch.tensor(data.draw(st.lists(REWARDS, min_size=1, max_size=9)), dtype=dtype)
    size = len(rewards)
    groups = data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    ours = advantages.group_advantages(rewards, groups, *form, eps=eps)
    assert ours.dtype == dtype
    close(ours, reference.group_advantages(rewards.tolist(), groups, *form, eps))
    assert torch.equal(ours, advantages.group_advantages(rewards, torch.tensor(groups), *form, eps=eps))


@given(REWARDS, st.integers(1, 9), DTYPES, st.sampled_from(list(TABLE)))
def test_groups_without_variance_get_exactly_0(reward, size, dtype, form):
    rewards = torch.tensor([0.1, reward + 0.3, *[reward] * size, 0.7], dtype=dtype)
    groups = [0, 0, *[1] * size, 2]
    ours = advantages.group_advantages(rewards, groups, *form, eps=0.0)
    assert torch.equal(ours[2:], torch.zeros(size + 1, dtype=dtype))
    assert advantages.groups_with_signal(rewards, groups).tolist() == [bool(rewards[0] != rewards[1])] * 2 + [False] * (
        size + 1
    )


# Hand-worked: one group, gamma 1. A searches at a cost of 0.2 and then answers for 1; B answers at once for 0; C searches
# twice and answers for 0.5.
#   turn rewards    A: -0.2, 1           B: 0      C: -0.2, -0.2, 0.5
#   returns-to-go   A:  0.8, 1           B: 0      C:  0.1,  0.3, 0.5
#   leave_one_out   A: 0.8 - (0 + 0.1)/2 = 0.75, 1 - (0 + 0.3)/2 = 0.85      (B ended: it earns 0 from turn 2 on)
#                   B: 0 - (0.8 + 0.1)/2 = -0.45
#                   C: 0.1 - (0.8 + 0)/2 = -0.3, 0.3 - (1 + 0)/2 = -0.2, 0.5 - (0 + 0)/2 = 0.5
#   ..._reached     A: 0.75, 1 - 0.3 = 0.7    B: -0.45    C: -0.3, 0.3 - 1 = -0.7, 0.5 (nobody else got there)
#   per_index       turn 1: mean -2/15; deviations -1/15, 2/15, -1/15; std = sqrt((6/225)/2) = sqrt(3)/15 = 0.1154701
#                           scores -0.5773503, 1.1547005, -0.5773503
#                   turn 2 (A, C): mean 0.4; deviations 0.6, -0.6; std = sqrt(0.72) = 0.8485281; scores +-0.7071068
#                   turn 3: C alone: 0
#                   A: -0.5773503 + 0.7071068 = 0.1297564, 0.7071068   B: 1.1547005   C: -1.2844570, -0.7071068, 0
# B, which answers at once and loses, has the best first turn of all under per_index.
EPISODES = [[-0.2, 1.0], [0.0], [-0.2, -0.2, 0.5]]
TURN_TABLE = {
    "leave_one_out": [[0.75, 0.85, 0], [-0.45, 0, 0], [-0.3, -0.2, 0.5]],
    "leave_one_out_reached": [[0.75, 0.7, 0], [-0.45, 0, 0], [-0.3, -0.7, 0.5]],
    "per_index": [[0.1297564, 0.7071068, 0], [1.1547005, 0, 0], [-1.2844570, -0.7071068, 0]],
}


@pytest.mark.parametrize("baseline", TURN_TABLE)
def test_hand_worked_turns(baseline):
    rewards, reached = advantages.pad_turns(EPISODES)
    assert reached.tolist() == [[True, True, False], [True, False, False], [True, True, True]]
    close(advantages.turn_advantages(rewards, reached, baseline=baseline, eps=0.0), TURN_TABLE[baseline])


@pytest.mark.parametrize("baseline", TURN_TABLE)
def test_what_stands_behind_the_end_of_an_episode_does_not_count(baseline):
    rewards, reached = advantages.pad_turns(EPISODES)
    ours = advantages.turn_advantages(torch.where(reached, rewards, torch.nan), reached, baseline=baseline, eps=0.0)
    close(ours, TURN_TABLE[baseline])
    assert torch.isfinite(ours).all()


def test_hand_worked_returns_to_go():
    # 4, then 2 + 4/2 = 4, then 1 + 4/2 = 3
    assert advantages.returns_to_go(torch.tensor([[1.0, 2.0, 4.0]]), 0.5).tolist() == [[3.0, 4.0, 4.0]]


EPISODE_LISTS = st.lists(st.lists(REWARDS, min_size=1, max_size=4), min_size=1, max_size=7)


@given(st.data(), EPISODE_LISTS, DTYPES, st.sampled_from(TURN_BASELINES), st.sampled_from([1.0, 0.9, 0.0]))
def test_turn_advantages_equal_the_reference(data, episodes, dtype, baseline, gamma):
    groups = data.draw(st.lists(st.sampled_from("ab"), min_size=len(episodes), max_size=len(episodes)))
    rewards, reached = advantages.pad_turns(episodes)
    ours = advantages.turn_advantages(rewards.to(dtype), reached, groups, gamma, baseline)
    assert ours.dtype == dtype
    close(ours, reference.turn_advantages(episodes, groups, gamma, baseline, eps=1e-4))
    assert (ours[~reached] == 0).all()


@given(st.lists(REWARDS, min_size=1, max_size=4), st.integers(1, 5), st.sampled_from(TURN_BASELINES))
def test_equal_episodes_get_exactly_0_at_every_turn(episode, size, baseline):
    rewards, reached = advantages.pad_turns([episode] * size)
    ours = advantages.turn_advantages(rewards, reached, gamma_turn=0.9, baseline=baseline, eps=0.0)
    assert torch.equal(ours, torch.zeros_like(ours))
    assert not advantages.groups_with_signal(rewards).any()


def test_one_turn_episodes_are_the_leave_one_out_of_their_rewards():
    rewards = torch.tensor([[1.0], [0.0], [0.25], [0.5]], dtype=torch.float64)
    ours = advantages.turn_advantages(rewards, torch.ones(4, 1, dtype=torch.bool), [0, 0, 0, 0])
    close(ours[:, 0], advantages.group_advantages(rewards[:, 0], None, "none", "leave_one_out"))


def test_signal_in_turns_counts_where_returns_are_equal():
    rewards = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    assert advantages.groups_with_signal(rewards, [5, 5, 6, 6]).tolist() == [True, True, False, False]
    assert not advantages.groups_with_signal(rewards.sum(dim=1), [5, 5, 6, 6]).any()


def test_unknown_names_and_wrong_lengths_are_refused():
    rewards = torch.tensor([[1.0], [2.0]])
    reached = torch.ones(2, 1, dtype=torch.bool)
    with pytest.raises(UsageError, match="scale='std'"):
        advantages.group_advantages(rewards[:, 0], scale="std")
    with pytest.raises(UsageError, match="baseline='median'"):
        advantages.group_advantages(rewards[:, 0], baseline="median")
    with pytest.raises(UsageError, match="baseline='mean'"):
        advantages.turn_advantages(rewards, reached, baseline="mean")
    with pytest.raises(UsageError, match="groups: 3 for 2 rows"):
        advantages.group_advantages(rewards[:, 0], [0, 0, 1])


# A problem small enough to enumerate. At each of three turns the policy answers, which ends the episode, or searches, with
# probability sigmoid(theta_t); a search costs 0.2, an answer earns more after one search, and at turn 3 the episode is cut.
ROUTES = [
    ([0.1], [False]),
    ([-0.2, 1.0], [True, False]),
    ([-0.2, -0.2, 0.4], [True, True, False]),
    ([-0.2, -0.2, 0.5], [True, True, True]),
]


def route_logprobs(theta):
    """The log-probability of each action of each route (routes, turns); 0 after its end."""
    search, answer = torch.nn.functional.logsigmoid(theta), torch.nn.functional.logsigmoid(-theta)
    rows = [torch.stack([search[t] if act else answer[t] for t, act in enumerate(acts)]) for _, acts in ROUTES]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def exact_gradient(theta, gamma=1.0):
    """Of the expected return, by summing over all routes."""
    returns = torch.tensor(
        [sum(gamma**t * r for t, r in enumerate(rewards)) for rewards, _ in ROUTES], dtype=theta.dtype
    )
    value = (route_logprobs(theta).sum(dim=1).exp() * returns).sum()
    return torch.autograd.grad(value, theta)[0]


def expected_gradient(theta, size, advantages_of, gamma=1.0):
    """Of the estimator: over every group of `size` routes, weighted by its probability."""
    combinations = list(itertools.product(range(len(ROUTES)), repeat=size))
    picks = torch.tensor(combinations).reshape(-1)  # (groups * size,)
    rewards, reached = advantages.pad_turns([ROUTES[pick][0] for pick in picks])
    groups = torch.arange(len(combinations)).repeat_interleave(size)
    weights = advantages_of(rewards.to(theta.dtype), reached, groups)  # (groups * size, turns)
    weights = weights * gamma ** torch.arange(3, dtype=theta.dtype)
    logprobs = route_logprobs(theta)
    probabilities = logprobs.sum(dim=1).detach()[picks].reshape(-1, size).sum(dim=1).exp().repeat_interleave(size)
    surrogate = (probabilities[:, None] * weights * logprobs[picks]).sum() / size
    return torch.autograd.grad(surrogate, theta)[0]


def per_turn(baseline, gamma=1.0):
    return lambda rewards, reached, groups: advantages.turn_advantages(rewards, reached, groups, gamma, baseline)


def per_episode(scale, baseline):
    def of(rewards, reached, groups):
        return advantages.group_advantages(rewards.sum(dim=1), groups, scale, baseline)[:, None] * reached

    return of


def sine(left, right):
    """Of the angle between them: 0 where one is a multiple of the other."""
    return torch.linalg.cross(left, right).norm().item() / (left.norm() * right.norm()).item()


THETAS = [[0.0, 0.0, 0.0], [-1.5, 0.5, 2.0], [1.0, -2.0, 0.3]]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("start", THETAS)
@pytest.mark.parametrize("baseline", ["leave_one_out", "leave_one_out_reached"])
def test_leave_one_out_turns_have_the_policy_gradient(baseline, start, size):
    theta = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(
        expected_gradient(theta, size, per_turn(baseline)), exact_gradient(theta), rtol=0, atol=1e-12
    )
    # with a discount, once turn t is weighted by gamma ** (t - 1)
    torch.testing.assert_close(
        expected_gradient(theta, size, per_turn(baseline, 0.7), 0.7), exact_gradient(theta, 0.7), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("start", THETAS)
def test_per_index_turns_point_against_the_policy_gradient(start, size):
    theta = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    exact = exact_gradient(theta)
    biased = expected_gradient(theta, size, per_turn("per_index"))
    # searching first pays (0.8 against 0.1), and per_index teaches not to: no positive factor mends that
    assert exact[0] > 0.01
    assert biased[0] < -0.01


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("start", THETAS)
def test_whole_episodes_have_the_policy_gradient_up_to_the_declared_factor(start, size):
    theta = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    exact = exact_gradient(theta)
    left_out = expected_gradient(theta, size, per_episode("none", "leave_one_out"))
    torch.testing.assert_close(left_out, exact, rtol=0, atol=1e-12)
    centred = expected_gradient(theta, size, per_episode("none", "mean"))
    torch.testing.assert_close(centred, exact * (size - 1) / size, rtol=0, atol=1e-12)
    # divided by the group's own std it points elsewhere: no factor is right for all three turns
    assert sine(centred, exact) < 1e-12
    assert sine(expected_gradient(theta, size, per_episode("group_std", "mean")), exact) > 5e-3
