"""The paired comparison against scipy, its edges, its properties, and simulations of its test and of what it could detect."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.statistics.paired import compare_paired, holm, minimum_detectable, p_text
from benchmarks.coverage import Duel, reject
from benchmarks.coverage_cases import Design

Trials = dict[str, list[float]]

FIRST = {f"t{i:02d}": [float((i * 7 + j * 5) % 11 < 4) for j in range(4)] for i in range(32)}
SECOND = {f"t{i:02d}": [float((i * 3 + j * 4) % 10 < 5) for j in range(4)] for i in range(32)}


def some(count: int) -> tuple[Trials, Trials]:
    names = sorted(FIRST)[:count]
    return {name: FIRST[name] for name in names}, {name: SECOND[name] for name in names}


def constant(count: int, value: float) -> Trials:
    return {str(task): [value] * 4 for task in range(count)}


def test_many_tasks_are_scipys_ttest_rel() -> None:
    # scipy 1.17.1, stats.ttest_rel(second's task means, first's) and its confidence_interval().
    found = compare_paired(FIRST, SECOND)
    assert found.difference == 0.140625
    assert found.p_value == pytest.approx(0.001500290138352561, rel=1e-9)
    assert (found.low, found.high) == pytest.approx((0.05827740408015268, 0.2229725959198473), abs=1e-9)
    assert (found.method, found.tasks, found.clusters) == ("paired t over 32 tasks", 32, 32)
    # t_.975 and t_.8 with 31 df; the standard error is the difference over scipy's statistic.
    assert found.detectable == pytest.approx((2.039513 + 0.853370) * 0.140625 / 3.4828773711700927, abs=1e-6)


@pytest.mark.parametrize(("count", "p"), [(12, 0.1171875), (20, 0.060546875)])
def test_few_tasks_are_scipys_permutation_test(count: int, p: float) -> None:
    # scipy 1.17.1, stats.permutation_test((differences,), mean, permutation_type="samples"), all 2^count flips. Of the 20
    # differences 14 or fewer are not 0, and flips of 0 change nothing: ours is exact there too.
    found = compare_paired(*some(count))
    assert found.p_value == pytest.approx(p, abs=1e-12)
    assert found.method == f"sign flips, exact, over {count} tasks"


def test_drawn_flips_come_near_to_all_of_them() -> None:
    # 16 differences of 1/4 to 4/4 with 4 negative ones; scipy's exact p over 2^16 flips, 1.17.1: 0.02874755859375.
    sizes = [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, -1, -2, -3, -1]
    first = {str(n): [float(-size > j) for j in range(4)] for n, size in enumerate(sizes)}
    second = {str(n): [float(size > j) for j in range(4)] for n, size in enumerate(sizes)}
    found = compare_paired(first, second)
    assert found.method == "sign flips, 20,000 drawn, over 16 tasks"
    assert found.p_value == pytest.approx(0.02874755859375, abs=0.0036)
    assert found == compare_paired(dict(reversed(first.items())), second)


@pytest.mark.parametrize("count", [1, 2, 5, 20, 50, 300])
@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_equal_runs_are_no_evidence_and_no_point(count: int, value: float) -> None:
    found = compare_paired(constant(count, value), constant(count, value))
    reach = 1 - 0.05 ** (1 / count)  # the rule of three
    assert (found.difference, found.p_value) == (0.0, 1.0)
    assert (found.low, found.high) == ((-1, 1) if count == 1 else pytest.approx((-reach, reach)))
    assert min(reach, 0.999) < found.detectable <= 1.0


@pytest.mark.parametrize("count", [20, 60, 500])
def test_one_agent_that_always_wins_is_better_but_not_to_a_point(count: int) -> None:
    found = compare_paired(constant(count, 0.0), constant(count, 1.0))
    assert found.p_value == pytest.approx(1 / 20_001)
    assert 0.5 < found.low < 1.0 == found.high


def test_five_tasks_or_five_discordant_ones_never_prove_anything() -> None:
    found = compare_paired(constant(5, 0.0), constant(5, 1.0))
    assert found.p_value == 2 / 2**5
    assert found.detectable == 1.0
    second = constant(50, 0.0) | constant(5, 1.0)
    few = compare_paired(constant(50, 0.0), second)
    assert few.p_value == 2 / 2**5  # where a t test on 50 differences says 0.02
    assert few.detectable > few.difference
    assert compare_paired(constant(50, 0.0), constant(50, 0.0) | constant(6, 1.0)).p_value < 0.05


def test_one_cluster_says_nothing() -> None:
    found = compare_paired(FIRST, SECOND, dict.fromkeys(FIRST, "world"))
    assert (found.low, found.high, found.p_value, found.detectable, found.clusters) == (-1.0, 1.0, 1.0, 1.0, 1)


def test_clusters_of_like_differences_widen_the_interval_and_weaken_the_test() -> None:
    names = [str(n) for n in range(120)]
    first = {name: [0.0, 1.0] for name in names}
    second = {name: [1.0, 1.0] if n // 4 % 3 else [0.0, 0.0] for n, name in enumerate(names)}
    alone = compare_paired(first, second)
    together = compare_paired(first, second, {name: str(n // 4) for n, name in enumerate(names)})
    assert alone.difference == together.difference
    assert together.high - together.low > 1.9 * (alone.high - alone.low)
    assert together.p_value > 10 * alone.p_value
    assert together.detectable > 1.9 * alone.detectable
    assert together.method == "paired t over 30 clusters of tasks"


@pytest.mark.parametrize(
    ("first", "second", "clusters", "words"),
    [
        ({}, {}, None, "no tasks"),
        ({"a": [1]}, {"b": [1]}, None, "'a', 'b'"),
        ({str(n): [1] for n in range(9)}, {"0": [1]}, None, "'1', '2', '3' and 5 more"),
        ({"a": []}, {"a": [1]}, None, "'a'"),
        ({"a": [1]}, {"a": [1.5]}, None, "'a'"),
        ({"a": [1]}, {"a": [float("nan")]}, None, "'a'"),
        ({"a": [1]}, {"a": [1]}, {"b": "x"}, "no cluster for 'a'"),
    ],
)
def test_compare_paired_refuses(first: Any, second: Any, clusters: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        compare_paired(first, second, clusters)


def test_levels_have_bounds() -> None:
    for level in (0.0, 1.0, float("nan")):
        with pytest.raises(UsageError):
            compare_paired(FIRST, SECOND, level=level)
    with pytest.raises(UsageError):
        holm([0.5, 1.5])


TABLES = st.lists(
    st.tuples(
        st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=4),
        st.lists(st.floats(0, 1), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=36,
)


@given(TABLES, st.integers(1, 40))
def test_compare_paired_is_antisymmetric_and_in_bounds(
    rows: list[tuple[list[float], list[float]]], worlds: int
) -> None:
    first = {str(n): one for n, (one, _) in enumerate(rows)}
    second = {str(n): other for n, (_, other) in enumerate(rows)}
    clusters = {str(n): str(n % worlds) for n in range(len(rows))}
    found, back = compare_paired(first, second, clusters), compare_paired(second, first, clusters)
    assert -1 <= found.low <= found.difference <= found.high <= 1
    assert found.low < found.high
    assert 0 < found.p_value <= 1
    assert 0 < found.detectable <= 1
    assert (-found.difference, found.p_value, found.method) == (back.difference, back.p_value, back.method)
    assert (-found.high, -found.low, found.detectable) == pytest.approx((back.low, back.high, back.detectable))
    turned = {name: first[name][::-1] for name in reversed(first)}
    assert compare_paired(turned, second, clusters) == found


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_is_monotone_and_never_below_the_p_value(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(before <= after <= 1 for before, after in zip(p_values, adjusted, strict=True))
    pairs = sorted(zip(p_values, adjusted, strict=True))
    assert [after for _, after in pairs] == sorted(adjusted)


def test_holm_by_hand() -> None:
    # Sorted .01 .02 .03 .04 times 4 3 2 1 is .04 .06 .06 .04, made monotone: .04 .06 .06 .06.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([]) == []


def test_a_p_value_is_never_shown_as_nothing() -> None:
    assert [p_text(p) for p in (1.0, 0.05, 0.0001, 0.00005, 0.000049, 5e-324)] == [
        "1.0000", "0.0500", "0.0001", "0.0001", "< 0.0001", "< 0.0001",
    ]  # fmt: skip


def test_a_plan_doubles_the_variance() -> None:
    tasks = [f"t{n // 4:02d}" for n in range(128)]
    values = [value for name in sorted(FIRST) for value in FIRST[name]]
    plain = minimum_detectable(values, tasks)
    # (t_.975 + t_.8 with 31 df) * sqrt(2 s^2 / 32), s the standard deviation of the task means.
    means = [sum(FIRST[name]) / 4 for name in sorted(FIRST)]
    spread = sum((mean - sum(means) / 32) ** 2 for mean in means) / 31
    assert plain == pytest.approx((2.039513 + 0.853370) * (2 * spread / 32) ** 0.5, rel=1e-3)
    assert minimum_detectable(values, tasks, [str(int(task[1:]) % 4) for task in tasks]) == 1.0


def test_a_plan_from_a_run_of_zeros_is_not_zero() -> None:
    # scipy 1.17.1, stats.binom.sf(5, 50, 0.1535) = 0.79988: six of 50 tasks won outright, with 80 % power.
    assert minimum_detectable([0.0] * 200, [str(n // 4) for n in range(200)]) == pytest.approx(0.1535, abs=1e-3)


@pytest.mark.parametrize("duel", [
    Duel("t", Design(40, 4, 0.8, 0.8), 0.3), Duel("flips", Design(16, 4, 0.8, 0.8)),
    Duel("clusters", Design(120, 2, 0.8, 0.8, cluster_size=3), 0.5),
], ids=lambda duel: duel.name)  # fmt: skip
def test_the_test_keeps_its_level_and_finds_what_it_calls_detectable(duel: Duel) -> None:
    same = reject(duel, 0.0, 300, "quick")
    assert 0.003 <= same["rejected"]["ours"] <= 0.09
    assert same["interval_coverage"] >= 0.91
    smallest = reject(duel, same["detectable_median"], 300, "quick")
    assert 0.66 <= smallest["rejected"]["ours"] <= 0.93
    assert smallest["interval_coverage"] >= 0.91


def test_trials_of_unlike_number_count_a_task_once() -> None:
    generator = random.Random("unlike")
    first = {str(n): [float(generator.random() < 0.5)] * (1 + n % 3) for n in range(40)}
    once = {name: trials[:1] for name, trials in first.items()}
    assert compare_paired(first, constant(40, 0.5)) == compare_paired(once, constant(40, 0.5))
