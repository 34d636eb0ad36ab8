"""Intervals against tables, edges, clustering, coverage; pass^k and pass@k against enumeration."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.errors import UsageError
from agent_envs.evaluation.statistics import Rate, mean_interval, pass_at_k, pass_hat_k, success_rate, t_quantile

# Student's t as printed in statistics textbooks: (p, df) -> quantile.
TABLE = {
    (0.75, 1): 1.000000, (0.95, 1): 6.313752, (0.975, 1): 12.706205, (0.995, 1): 63.656741,
    (0.95, 2): 2.919986, (0.975, 2): 4.302653, (0.975, 3): 3.182446, (0.975, 4): 2.776445,
    (0.9, 5): 1.475884, (0.975, 5): 2.570582, (0.975, 9): 2.262157, (0.995, 10): 3.169273,
    (0.975, 19): 2.093024, (0.975, 29): 2.045230, (0.975, 30): 2.042272, (0.95, 49): 1.676551,
    (0.975, 49): 2.009575, (0.975, 99): 1.984217, (0.9995, 100): 3.390491, (0.975, 120): 1.979930,
}  # fmt: skip


@pytest.mark.parametrize(("where", "value"), TABLE.items())
def test_t_quantile_agrees_with_the_table(where: tuple[float, int], value: float) -> None:
    assert t_quantile(*where) == pytest.approx(value, abs=1e-6)
    assert t_quantile(1 - where[0], where[1]) == pytest.approx(-value, abs=1e-6)


def test_t_quantile_has_closed_forms_at_one_and_two_degrees() -> None:
    for p in (1e-6, 0.01, 0.3, 0.5, 0.500001, 0.8, 0.9999, 1 - 1e-6):
        assert t_quantile(p, 1) == pytest.approx(math.tan(math.pi * (p - 0.5)), rel=1e-6, abs=1e-9)
        assert t_quantile(p, 2) == pytest.approx((2 * p - 1) / math.sqrt(2 * p * (1 - p)), rel=1e-6, abs=1e-9)


def test_t_quantile_reaches_the_normal_without_a_jump() -> None:
    assert t_quantile(0.975, 10**9) == pytest.approx(1.959963985, abs=1e-8)
    assert t_quantile(0.999, 100_000) == pytest.approx(t_quantile(0.999, 100_001), abs=1e-8)


@pytest.mark.parametrize(("p", "df"), [(0, 5), (1, 5), (0.5, 0), (0.9, -1), (math.nan, 5), (0.9, math.nan)])
def test_t_quantile_refuses_what_has_none(p: float, df: float) -> None:
    with pytest.raises(UsageError):
        t_quantile(p, df)


def test_one_trial_a_task_is_wilson_with_t() -> None:
    rate = success_rate([1] * 6 + [0] * 4, [str(task) for task in range(10)])
    n, t = 0.24 / (0.24 * 10 / 9 / 10), 2.262157
    centre = (0.6 + t * t / (2 * n)) / (1 + t * t / n)
    half = t / (1 + t * t / n) * math.sqrt(0.24 / n + t * t / (4 * n * n))
    assert (rate.value, rate.tasks, rate.trials, rate.clusters) == (pytest.approx(0.6), 10, 10, 10)
    assert rate.low == pytest.approx(centre - half, abs=1e-6)
    assert rate.high == pytest.approx(centre + half, abs=1e-6)


def test_the_value_is_a_mean_over_tasks_and_not_over_trials() -> None:
    assert success_rate([1, 0, 0, 0, 0], ["a", "b", "b", "b", "b"]).value == 0.5


@pytest.mark.parametrize("value", [0.0, 1.0, 0.5])
@pytest.mark.parametrize("tasks", [2, 5, 500])
def test_equal_values_never_give_a_point(value: float, tasks: int) -> None:
    rate = success_rate([value] * tasks * 2, [str(n // 2) for n in range(tasks * 2)])
    assert rate.high - rate.low > 0.005
    assert rate.low <= value <= rate.high
    # The effective n of a flat column is the number of tasks, however many trials each has.
    once = success_rate([value] * tasks, [str(n) for n in range(tasks)])
    assert (rate.low, rate.high) == (once.low, once.high)


def test_a_flat_column_with_rounding_noise_is_still_flat() -> None:
    tasks = [str(n // 3) for n in range(30)]
    noisy = success_rate([0.1, 0.2, 0.3] * 10, tasks)
    flat = success_rate([0.2] * 30, tasks)
    assert (noisy.low, noisy.high) == (pytest.approx(flat.low), pytest.approx(flat.high))


def test_one_cluster_says_nothing() -> None:
    rate = success_rate([1, 0, 1, 1], ["a", "b", "c", "d"], ["world"] * 4)
    assert rate == Rate(0.75, 0.0, 1.0, 4, 4, 1)
    assert mean_interval([1.0, 2.0], ["world"] * 2) == (-math.inf, math.inf)


def test_clusters_of_like_tasks_widen_the_interval() -> None:
    values = [float(n // 10 % 2) for n in range(80)]
    tasks = [str(n) for n in range(80)]
    alone, together = success_rate(values, tasks), success_rate(values, tasks, [str(n // 10) for n in range(80)])
    assert alone.value == together.value == 0.5
    assert together.high - together.low > 2 * (alone.high - alone.low)
    assert (together.clusters, alone.clusters) == (8, 80)
    narrow = mean_interval(values, tasks)
    wide = mean_interval(values, [str(n // 10) for n in range(80)])
    assert wide[1] - wide[0] > 2 * (narrow[1] - narrow[0])


def test_trials_of_one_task_count_as_one_cluster() -> None:
    values = [float(n // 4 % 2) for n in range(80)]
    rate = success_rate(values, [str(n // 4) for n in range(80)])
    once = success_rate(values[::4], [str(n) for n in range(20)])
    assert (rate.low, rate.high) == (pytest.approx(once.low), pytest.approx(once.high))


def test_mean_interval_is_the_textbook_t_interval() -> None:
    # Mean 3, standard deviation sqrt(2.5), n = 5: 3 +- 2.776445 * sqrt(0.5).
    low, high = mean_interval([1, 2, 3, 4, 5], list("abcde"))
    assert (low, high) == (pytest.approx(3 - 1.963243, abs=1e-5), pytest.approx(3 + 1.963243, abs=1e-5))


def test_a_higher_level_is_wider() -> None:
    values, tasks = [1, 0, 1, 1, 0, 1], list("abcdef")
    assert success_rate(values, tasks, level=0.99).low < success_rate(values, tasks, level=0.9).low
    assert mean_interval(values, tasks, level=0.99)[0] < mean_interval(values, tasks, level=0.9)[0]


def test_coverage_is_near_nominal() -> None:
    generator = random.Random("coverage of the success rate")
    tasks = [str(n // 4) for n in range(200)]
    hits = 0
    for _ in range(400):
        chances = [generator.betavariate(0.5, 0.5) for _ in range(50)]
        rate = success_rate([float(generator.random() < chances[n // 4]) for n in range(200)], tasks)
        hits += rate.low <= 0.5 <= rate.high
    assert 0.92 <= hits / 400 <= 0.99


def test_text() -> None:
    assert Rate(0.62, 0.5512, 0.6839, 50, 200, 50).text() == "62.0 % [55.1, 68.4] (n=200 in 50 clusters)"


@pytest.mark.parametrize(
    ("values", "tasks", "clusters", "level"),
    [
        ([], [], None, 0.95),
        ([1, 0], ["a"], None, 0.95),
        ([1, 0], ["a", "b"], ["x"], 0.95),
        ([1.5, 0], ["a", "b"], None, 0.95),
        ([-0.1, 0], ["a", "b"], None, 0.95),
        ([math.nan, 0], ["a", "b"], None, 0.95),
        ([1, 0], ["a", "a"], ["x", "y"], 0.95),
        ([1, 0], ["a", "b"], None, 1.0),
    ],
)
def test_success_rate_refuses(values: list[float], tasks: list[str], clusters: list[str] | None, level: float) -> None:
    with pytest.raises(UsageError):
        success_rate(values, tasks, clusters, level)


def test_mean_interval_refuses_nothing_and_other_lengths() -> None:
    for values, clusters in (([], []), ([1.0], ["a", "b"]), ([math.inf, 1.0], ["a", "b"])):
        with pytest.raises(UsageError):
            mean_interval(values, clusters)


@given(
    st.integers(1, 7).flatmap(lambda n: st.tuples(st.lists(st.booleans(), min_size=n, max_size=n), st.integers(1, n)))
)
def test_pass_k_is_the_share_of_subsets(case: tuple[list[bool], int]) -> None:
    outcomes, k = case
    subsets = list(itertools.combinations(outcomes, k))
    assert pass_hat_k(sum(outcomes), len(outcomes), k) == pytest.approx(sum(map(all, subsets)) / len(subsets))
    assert pass_at_k(sum(outcomes), len(outcomes), k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


@pytest.mark.parametrize(("successes", "trials", "k"), [(2, 1, 1), (-1, 4, 1), (1, 4, 5), (1, 4, 0), (0, 0, 1)])
def test_pass_k_refuses(successes: int, trials: int, k: int) -> None:
    for estimate in (pass_hat_k, pass_at_k):
        with pytest.raises(UsageError):
            estimate(successes, trials, k)


ROWS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 6)), min_size=1, max_size=40)


@given(ROWS, st.integers(1, 4), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_the_interval_holds_the_value_and_stays_in_range(
    rows: list[tuple[float, int]], worlds: int, level: float
) -> None:
    values, tasks = [value for value, _ in rows], [str(task) for _, task in rows]
    for clusters in (None, [str(task % worlds) for _, task in rows]):
        rate = success_rate(values, tasks, clusters, level)
        assert 0 <= rate.low <= rate.value <= rate.high <= 1
        assert rate.low < rate.high
        assert rate.clusters <= rate.tasks <= rate.trials


@given(ROWS)
def test_the_order_of_trials_does_not_matter(rows: list[tuple[float, int]]) -> None:
    rates = [success_rate([value for value, _ in part], [str(task) for _, task in part]) for part in (rows, rows[::-1])]
    assert rates[0].low == pytest.approx(rates[1].low, abs=1e-9)
    assert rates[0].high == pytest.approx(rates[1].high, abs=1e-9)
