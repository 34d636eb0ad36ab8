"""Comparisons narrow down a hidden order; the next one to make and the fewest swaps between two orders are computed here.

Symbols are the indices 0..n-1. A known pair (a, b) says that a's value is below b's, wherever the two stand.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import combinations, permutations
from math import factorial

from agent_envs.base.errors import UsageError

Pair = tuple[int, int]
MOST_OPTIMAL = 5  # items up to which the best comparison is found by going through every set of possible orders
_REMEMBERED = 1 << 16


def closure(pairs: Iterable[Pair]) -> frozenset[Pair]:
    """Return the pairs with every pair that follows from them; (a, a) is among them where they contradict each other."""
    below = set(pairs)
    symbols = sorted({symbol for pair in below for symbol in pair})
    for middle in symbols:
        lower = [symbol for symbol in symbols if (symbol, middle) in below]
        upper = [symbol for symbol in symbols if (middle, symbol) in below]
        below.update((one, other) for one in lower for other in upper)
    return frozenset(below)


def consistent(n: int, pairs: Iterable[Pair]) -> list[tuple[int, ...]]:
    """Return all orders of n symbols, lowest value first, in which every pair's first comes before its second; [] if none."""
    pair_list = list(pairs)
    return [
        order
        for order in permutations(range(n))
        if all(order.index(one) < order.index(other) for one, other in pair_list)
    ]


def next_comparison(n: int, less: frozenset[Pair]) -> Pair | None:
    """Return the two symbols to compare next, None when the order is known; UsageError for contradictory or unknown pairs.

    Up to 5 items the choice is optimal: from any knowledge on, no plan needs fewer comparisons in the mean over the orders
    that are possible. For more items it is the pair that splits the possible orders most evenly. Of equally good pairs the
    first in the order (0, 1), (0, 2), ..., (1, 2), ... is taken.

    Raises:
        UsageError: the known pairs contradict each other, or name a symbol that is not there.
    """
    if any(not (0 <= one < n and 0 <= other < n) for one, other in less):
        raise UsageError(f"next_comparison: {sorted(less)} names a symbol that is not in 0..{n - 1}")
    if n > MOST_OPTIMAL:
        return _most_even_pair(n, closure(less))
    possible = (1 << factorial(n)) - 1
    masks = _masks(n)
    for one, other in less:
        if one == other:
            possible = 0
        else:
            possible &= masks[one, other] if one < other else ~masks[other, one]
    if not possible:
        raise UsageError(f"next_comparison: the known pairs {sorted(less)} contradict each other")
    return _plan(n, possible)[1]


def known_order(n: int, less: Iterable[Pair], descending: bool = False) -> tuple[int, ...]:
    """Return the symbols in the order that known pairs fix."""
    smaller = Counter(other for _, other in closure(less))
    return tuple(sorted(range(n), key=smaller.__getitem__, reverse=descending))


def minimal_swaps(order: tuple[int, ...], target: tuple[int, ...]) -> list[Pair]:
    """Return the fewest swaps that turn `order` into `target`, in turn, each as (symbol moved away, symbol put in its place).

    There are as many as the arrangement has symbols, less the cycles of the permutation between the two.
    """
    present, swaps = list(order), []
    for place, target_symbol in enumerate(target):
        symbol = present[place]
        if symbol != target_symbol:
            present[present.index(target_symbol)] = symbol
            present[place] = target_symbol
            swaps.append((symbol, target_symbol))
    return swaps


def sorted_order(values: tuple[int, ...], descending: bool = False) -> tuple[int, ...]:
    """Return the symbols in the order of their values."""
    return tuple(sorted(range(len(values)), key=values.__getitem__, reverse=descending))


def least_swaps(values: tuple[int, ...], descending: bool = False) -> int:
    """Return the fewest swaps that sort the symbols from the arrangement 0..n-1 on."""
    return len(minimal_swaps(tuple(range(len(values))), sorted_order(values, descending)))


# Up to 5 items: a set of possible orders is an integer with a bit for each of the n! orders.


@cache
def _masks(n: int) -> dict[Pair, int]:
    """Return for each pair a number whose bits mark the orders in which its first symbol comes before its second; cached."""
    orders = consistent(n, ())
    return {
        (one, other): sum(1 << bit for bit, order in enumerate(orders) if order.index(one) < order.index(other))
        for one, other in combinations(range(n), 2)
    }


@cache
def _plan(n: int, possible: int) -> tuple[int, Pair | None]:
    """Return the best plan's comparisons, summed over the possible orders, and its first pair (None if one is left); cached."""
    if possible.bit_count() == 1:
        return 0, None
    plans = []
    for pair, mask in _masks(n).items():
        yes, no = possible & mask, possible & ~mask
        if yes and no:
            plans.append((_plan(n, yes)[0] + _plan(n, no)[0], pair))
    rest, pair = min(plans)
    return possible.bit_count() + rest, pair


# More items: orders are counted over sets of symbols, those that come first.


@lru_cache(maxsize=_REMEMBERED)
def _most_even_pair(n: int, pairs: frozenset[Pair]) -> Pair | None:
    """Return the pair that splits the possible orders most evenly, None if the order is known; UsageError if none fits."""
    counts = _precedence(n, pairs)
    choices = [(min(counts[pair], counts[pair[::-1]]), pair) for pair in combinations(range(n), 2)]
    evenness, pair = max(choices, key=lambda choice: choice[0])
    if not any(counts.values()):
        raise UsageError(f"next_comparison: the known pairs {sorted(pairs)} contradict each other")
    return pair if evenness else None


def _precedence(n: int, pairs: frozenset[Pair]) -> dict[Pair, int]:
    """Return for each (a, b), a != b, in how many orders that fit the closed pairs a comes before b; all 0 if none fits."""
    needed = [sum(1 << one for one, other in pairs if other == symbol) for symbol in range(n)]
    everyone = (1 << n) - 1
    starts, ends = [0] * (everyone + 1), [0] * (everyone + 1)
    starts[0] = ends[everyone] = 1

    def addable(first: int) -> list[int]:
        """Return the symbols that may come next behind the set `first`, which holds all that must be before them."""
        return [symbol for symbol in range(n) if not first >> symbol & 1 and not needed[symbol] & ~first]

    for first in range(everyone):
        for symbol in addable(first) if starts[first] else ():
            starts[first | 1 << symbol] += starts[first]
    for first in range(everyone - 1, -1, -1):
        ends[first] = sum(ends[first | 1 << symbol] for symbol in addable(first))
    counts = {(one, other): 0 for one in range(n) for other in range(n) if one != other}
    for first in range(everyone):
        for symbol in addable(first) if starts[first] else ():
            rest = first | 1 << symbol
            for other in range(n):
                if not rest >> other & 1:
                    counts[symbol, other] += starts[first] * ends[rest]
    return counts
