"""The rewards of the sorting tasks are functions of counts: the release's, and one whose maximum is optimal play."""

from math import factorial


def released(kind: str, n: int, *, correct: bool, compares: int, swaps: int, least_swaps: int) -> float:
    """Return the released reward of EARL: 0 if wrong, else 0.5 and up to 0.5 for efficiency.

    Sorting: one half of the efficiency falls from ceil(log2 n!) comparisons to n * ceil(log2 n), the other half from the
    fewest swaps to n * (n - 1) / 2. With fewer comparisons than ceil(log2 n!) there is no efficiency at all, swaps included:
    that is the most that the best plan needs, not what it needs in the mean, so that the best plan is punished.

    Args:
        kind: sort, order (only swaps count) or compare (efficient is exactly one call).
        n: number of items.
        correct: whether the task was solved.
        compares: comparisons that were made.
        swaps: swaps that were made.
        least_swaps: the fewest swaps that solve the task.
    """
    if not correct:
        return 0.0
    if kind == "compare":
        return 1.0 if compares + swaps == 1 else 0.5
    least, most = (factorial(n) - 1).bit_length(), n * (n - 1).bit_length()
    swaps_saved = 1 - _share(swaps, least_swaps, n * (n - 1) // 2)
    if kind == "order":
        return (1 + swaps_saved) / 2
    if compares < least:
        return 0.5
    return (1 + (1 - _share(compares, least, most)) / 2 + swaps_saved / 2) / 2


def _share(count: int, least: int, most: int) -> float:
    """Return how far a count is on the way from the least, 0, to the most, 1."""
    return min(1.0, max(0.0, (count - least) / (max(most, least + 1) - least)))


def fixed(kind: str, n: int, *, correct: bool, compares: int, swaps: int, least_swaps: int) -> float:
    """Return 0 if wrong, else 0.5 and up to 0.5 that falls strictly with every comparison and every swap.

    Sorting: a quarter each for comparisons and for swaps, order: a half for swaps. The fall is linear up to n * (n - 1) / 2,
    more than sensible play needs, so that the mean reward of plans that sort is a matter of their mean counts, and the
    plan with the fewest of both has the highest; beyond, it goes on towards 0. Half the reward for being right outweighs
    the comparisons that a guess would save. Compare: exactly one comparison is best, so that luck is not paid in full.

    The arguments are those of `released`; `least_swaps` is not used, as the reward is one function of the counts.
    """
    if not correct:
        return 0.0
    scale = n * (n - 1) // 2
    if kind == "compare":
        return 0.5 + _saved(abs(compares - 1), 1) / 2
    if kind == "order":
        return 0.5 + _saved(swaps, scale) / 2
    return 0.5 + _saved(compares, scale) / 4 + _saved(swaps, scale) / 4


def _saved(count: int, scale: int) -> float:
    """Return 1 for a count of 0, falling in a line to 1/2 at the scale and then, without a corner, as 1 / count."""
    return 1 - count / (2 * scale) if count <= scale else scale / (2 * count)
