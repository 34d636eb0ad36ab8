"""Student's t distribution is computed here without scipy: quantiles and tails."""

import math
from functools import lru_cache
from statistics import NormalDist

from agent_envs.base.errors import UsageError

LARGE_DF = 100_000


@lru_cache(maxsize=256)
def t_quantile(p: float, df: float) -> float:
    """Return the p-quantile of Student's t with `df` degrees of freedom; UsageError for p outside (0, 1)."""
    if not 0 < p < 1 or not df > 0:
        raise UsageError(f"t_quantile: p in (0, 1) and df > 0, not p={p}, df={df}")
    if p == 0.5:
        return 0.0
    if df > LARGE_DF:
        z = NormalDist().inv_cdf(p)
        return z + (z**3 + z) / (4 * df)  # Fisher and Cornish's first term; the second is below 1e-9 here
    tail = min(p, 1 - p)
    low, high = 0.0, 1.0
    while t_tail(high, df) > tail:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if t_tail(middle, df) > tail:
            low = middle
        else:
            high = middle
    return math.copysign((low + high) / 2, p - 0.5)


def t_tail(t: float, df: float) -> float:
    """Return P(T > t) for t >= 0: half the regularised incomplete beta function at df / (df + t^2)."""
    a, b, x, mirrored = df / 2, 0.5, df / (df + t * t), False
    y = t * t / (df + t * t)
    if x > (a + 1) / (a + b + 2):
        a, b, x, y, mirrored = b, a, y, x, True
    if x == 0:
        return 0.5 if mirrored else 0.0
    front = math.exp(a * math.log(x) + b * math.log(y) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)) / a
    beta = front * _beta_fraction(a, b, x)
    return 0.5 * (1 - beta if mirrored else beta)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function (DLMF 8.17.22), by Steed's forward recurrence."""
    total = term = d = 1.0
    for m in range(1, 20_000):
        half, odd = divmod(m - 1, 2)
        if odd:
            k = half + 1
            ratio = k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k))
        else:
            ratio = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        d = 1 / (1 + ratio * d)
        term *= d - 1
        total += term
        if abs(term) < 1e-16 * abs(total):
            break
    return total
