"""Intervals against tables, edges, clustering, coverage; pass^k and pass@k against enumeration."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.statistics.rates import (
    Rate,
    mean_interval,
    pass_at_k,
    pass_hat_k,
    pass_rate,
    rerun_interval,
    success_rate,
    weighted_rate,
)
from benchmarks.coverage import cover
from benchmarks.coverage_cases import CoverageCase, cases
from tests.rows import each_row


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


@pytest.mark.parametrize("case", [case for case in cases("quick") if case.gated], ids=lambda case: case.name)
def test_coverage_of_the_benchmarks_rates(case: CoverageCase) -> None:
    ours = cover(case, 400, "quick")["ours"]["coverage"]
    assert 0.917 <= ours <= 0.995  # three standard errors of 400 simulations below 95 %


def test_coverage_with_clusters_of_tasks_where_pooling_fails() -> None:
    case = next(case for case in cases("quick") if case.name == "20 clusters of 5, x 4")
    row = cover(case, 400, "quick")
    assert 0.917 <= row["ours"]["coverage"] <= 0.995
    assert row["naive"]["coverage"] < 0.65


def test_text() -> None:
    assert Rate(0.62, 0.5512, 0.6839, 50, 200, 50).text() == "62.0 % [55.1, 68.4] (n=200 in 50 clusters)"


@each_row(
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


RATES = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 0.5), st.floats(0.001, 0.5)).map(
        lambda row: Rate(row[0], max(0.0, row[0] - row[1]), min(1.0, row[0] + row[2]), 10, 40, 10)
    ),
    min_size=1,
    max_size=6,
)


@given(RATES, st.data())
def test_a_weighted_rate_holds_its_value_and_scales_its_weights(rates: list[Rate], data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.floats(0.01, 100), min_size=len(rates), max_size=len(rates)))
    rate, scaled = weighted_rate(rates, weights), weighted_rate(rates, [7 * weight for weight in weights])
    assert 0 <= rate.low <= rate.value <= rate.high <= 1
    assert rate.value == pytest.approx(sum(r.value * w for r, w in zip(rates, weights, strict=True)) / sum(weights))
    assert (scaled.value, scaled.low, scaled.high) == pytest.approx((rate.value, rate.low, rate.high))
    assert (rate.tasks, rate.trials, rate.clusters) == (10 * len(rates), 40 * len(rates), 10 * len(rates))


def test_a_weighted_rate_is_movers() -> None:
    # By hand: 2/3 and 1/3; low .6 - sqrt((2/3 * .1)^2 + (1/3 * .1)^2), high .6 + sqrt((2/3 * .2)^2 + (1/3 * .3)^2).
    rate = weighted_rate([Rate(0.7, 0.6, 0.9, 5, 20, 4), Rate(0.4, 0.3, 0.7, 3, 3, 3)], [2, 1])
    assert (rate.value, rate.low, rate.high) == pytest.approx((0.6, 0.525464, 0.766667), abs=1e-6)
    assert (rate.tasks, rate.trials, rate.clusters) == (8, 23, 7)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_suite_of_nothing_but_zeros_or_ones_is_no_point(value: float) -> None:
    part = success_rate([value] * 40, [str(n // 4) for n in range(40)])
    rate = weighted_rate([part] * 4, [1] * 4)
    assert rate.value == value
    assert 0.05 < rate.high - rate.low < part.high - part.low


@pytest.mark.parametrize(("count", "weights"), [(0, []), (2, [1]), (2, [1, -1]), (2, [0, 0]), (1, [math.inf])])
def test_weighted_rate_refuses(count: int, weights: list[float]) -> None:
    with pytest.raises(UsageError):
        weighted_rate([Rate(0.5, 0.4, 0.6, 1, 1, 1)] * count, weights)


def test_pass_rates_average_the_unbiased_estimates() -> None:
    values, tasks = [1, 1, 1, 0, 0, 1, 0, 0], list("aaaabbbb")
    hat, at = pass_rate(pass_hat_k, values, tasks, 2), pass_rate(pass_at_k, values, tasks, 2)
    assert (hat.value, at.value) == (pytest.approx(0.25), pytest.approx(0.75))  # (3/6 + 0/6) / 2, (6/6 + 3/6) / 2
    assert (hat.tasks, hat.trials, hat.clusters) == (2, 8, 2)
    assert (
        pass_rate(pass_hat_k, values, tasks, 1) == pass_rate(pass_at_k, values, tasks, 1) == success_rate(values, tasks)
    )
    assert pass_rate(pass_hat_k, values, tasks, 2, ["w"] * 8).clusters == 1


def test_like_tasks_do_not_make_pass_rates_surer_than_disjoint_groups_of_trials_could() -> None:
    # Ten tasks of 4 trials hold 20 disjoint pairs; the spread of these estimates alone would claim 224.
    values = [1.0, 1.0, 1.0, 0.0] * 9 + [1.0, 1.0, 0.0, 0.0]
    rate = pass_rate(pass_hat_k, values, [str(n // 4) for n in range(40)], 2)
    value, spread = (9 * 3 / 6 + 1 / 6) / 10, 2.262157**2 / 20
    half = math.sqrt(value * (1 - value) * spread + spread**2 / 4) / (1 + spread)
    assert (rate.value, rate.high - rate.low) == pytest.approx((value, 2 * half), abs=1e-6)


@given(st.lists(st.lists(st.booleans(), min_size=2, max_size=5), min_size=1, max_size=12), st.integers(1, 2))
def test_pass_rates_hold_their_values_and_never_give_a_point(table: list[list[bool]], k: int) -> None:
    rows = [(float(value), str(task)) for task, trials in enumerate(table) for value in trials]
    values, tasks = [value for value, _ in rows], [task for _, task in rows]
    hat, at = pass_rate(pass_hat_k, values, tasks, k), pass_rate(pass_at_k, values, tasks, k)
    assert hat.value <= success_rate(values, tasks).value + 1e-12 <= at.value + 2e-12
    for rate in (hat, at):
        assert 0 <= rate.low <= rate.value <= rate.high <= 1
        assert rate.low < rate.high


@pytest.mark.parametrize(("values", "k"), [([1, 0, 1], 2), ([1, 0, 1], 0), ([0.5, 1, 1], 1)])
def test_pass_rates_refuse_k_above_the_fewest_trials_and_other_values(values: list[float], k: int) -> None:
    for estimate in (pass_hat_k, pass_at_k):
        with pytest.raises(UsageError):
            pass_rate(estimate, values, ["a", "a", "b"], k)


def test_the_rerun_interval_knows_trial_noise_alone() -> None:
    # Half of the tasks always succeed, half never: other tasks would differ, these would not.
    tasks = [str(n // 4) for n in range(80)]
    split = [float(n // 4 % 2) for n in range(80)]
    assert rerun_interval(split, tasks) == pytest.approx((0.5 - 0.036754, 0.5 + 0.036754), abs=1e-6)  # 1 - .05^(1/80)
    # All noise between trials: s^2 = 1/3 a task, so se^2 = 20 * (1/3) / (4 * 20^2) and n = .25 / se^2 = 60, 60 df.
    low, high = rerun_interval([float(n % 2) for n in range(80)], tasks)
    half = 2.000298 / math.sqrt(60) * 0.5 / math.sqrt(1 + 2.000298**2 / 60)
    assert (low, high) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-6)


@given(st.lists(st.lists(st.floats(0, 1), min_size=2, max_size=5), min_size=1, max_size=12))
def test_the_rerun_interval_holds_the_value_and_is_no_point(table: list[list[float]]) -> None:
    rows = [(value, str(task)) for task, trials in enumerate(table) for value in trials]
    values, tasks = [value for value, _ in rows], [task for _, task in rows]
    low, high = rerun_interval(values, tasks)
    assert 0 <= low <= success_rate(values, tasks).value <= high <= 1
    assert low < high
    assert rerun_interval(values[::-1], tasks[::-1]) == pytest.approx((low, high), abs=1e-9)


def test_the_rerun_interval_needs_two_trials_of_every_task() -> None:
    with pytest.raises(UsageError, match="2 trials"):
        rerun_interval([1, 0, 1], ["a", "a", "b"])
