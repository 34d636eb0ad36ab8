"""Student's t against tables, closed forms and scipy."""

import math

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.statistics.student import t_quantile, t_tail
from tests.rows import each_row

# Student's t as printed in statistics textbooks: (p, df) -> quantile.
TABLE = {
    (0.75, 1): 1.000000, (0.95, 1): 6.313752, (0.975, 1): 12.706205, (0.995, 1): 63.656741,
    (0.95, 2): 2.919986, (0.975, 2): 4.302653, (0.975, 3): 3.182446, (0.975, 4): 2.776445,
    (0.9, 5): 1.475884, (0.975, 5): 2.570582, (0.975, 9): 2.262157, (0.995, 10): 3.169273,
    (0.975, 19): 2.093024, (0.975, 29): 2.045230, (0.975, 30): 2.042272, (0.95, 49): 1.676551,
    (0.975, 49): 2.009575, (0.975, 99): 1.984217, (0.9995, 100): 3.390491, (0.975, 120): 1.979930,
}  # fmt: skip


@each_row(("where", "value"), TABLE.items())
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


# scipy 1.17.1, stats.t.sf(t, df).
TAILS = {
    (0.5, 3): 0.3257239824240755, (2.0, 31): 0.027163607683587856, (4.2, 49): 5.6151149896201095e-05,
    (10.0, 400): 1.831773204778367e-21,
}  # fmt: skip


@pytest.mark.parametrize(("where", "tail"), TAILS.items())
def test_t_tail_agrees_with_scipy(where: tuple[float, int], tail: float) -> None:
    assert t_tail(*where) == pytest.approx(tail, rel=1e-9)


@pytest.mark.parametrize(("p", "df"), [(0, 5), (1, 5), (0.5, 0), (0.9, -1), (math.nan, 5), (0.9, math.nan)])
def test_t_quantile_refuses_what_has_none(p: float, df: float) -> None:
    with pytest.raises(UsageError):
        t_quantile(p, df)
