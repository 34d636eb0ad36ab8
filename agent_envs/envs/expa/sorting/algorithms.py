"""Reference algorithms sort by comparisons and swaps; `benchmarks.sorting_plays` computes their exact means.

An algorithm is a generator of moves for n symbols that stand in the order 0..n-1: `("compare", a, b)` is answered with
whether a comes before b in the wanted order, so that the direction is the caller's matter; `("swap", a, b)` exchanges the
places of two symbols. Insertion, selection, bubble and the network swap as they go, on places; the others learn the order
first, by comparisons alone, and then swap as few times as possible.
"""

from collections.abc import Callable, Generator, Mapping
from itertools import combinations

from agent_envs.base.errors import UsageError
from agent_envs.envs.expa.sorting import knowledge

Move = tuple[str, int, int]
Moves = Generator[Move, bool | None, None]
Algorithm = Callable[[int], Moves]
MOST = 8  # items of a task
NETWORK_4 = ((0, 2), (1, 3), (0, 1), (2, 3), (1, 2))


def _comes_before(one: int, other: int) -> Generator[Move, bool | None, bool]:
    """Yield a comparison, and return whether `one` comes before `other`."""
    return bool((yield "compare", one, other))


def _exchange(order: list[int], one: int, other: int) -> Moves:
    """Yield the swap of the symbols at two places, and swap them in the order."""
    yield "swap", order[one], order[other]
    order[one], order[other] = order[other], order[one]


def _learn(one: int, other: int, pairs: set[knowledge.Pair]) -> Moves:
    """Yield a comparison of two symbols, and add (smaller, larger) to `pairs` by the answer."""
    first = yield from _comes_before(one, other)
    pairs.add((one, other) if first else (other, one))


def _arrange(n: int, pairs: set[knowledge.Pair]) -> Moves:
    """Swap into the order that the known pairs fix, as few times as possible."""
    yield from _arrange_as(knowledge.known_order(n, pairs))


def _arrange_as(target: tuple[int, ...]) -> Moves:
    """Yield the fewest swaps that bring the symbols into the target order."""
    for one, other in knowledge.minimal_swaps(tuple(range(len(target))), target):
        yield "swap", one, other


def optimal(n: int) -> Moves:
    """Compare by the plan of fewest comparisons in the mean (n <= 5; beyond, the most even splits), then swap least."""
    pairs: set[knowledge.Pair] = set()
    while (pair := knowledge.next_comparison(n, frozenset(pairs))) is not None:
        yield from _learn(*pair, pairs)
    yield from _arrange(n, pairs)


def insertion(n: int) -> Moves:
    """Sort by insertion: move each item down past its larger neighbours, comparing and swapping one at a time."""
    order = list(range(n))
    for place in range(1, n):
        while place and (yield from _comes_before(order[place], order[place - 1])):
            yield from _exchange(order, place, place - 1)
            place -= 1


def binary_insertion(n: int) -> Moves:
    """Sort by binary insertion: find each item's place before it by halving, then swap it there past its neighbours."""
    order = list(range(n))
    for place in range(1, n):
        low, high = 0, place
        while low < high:
            middle = (low + high) // 2
            if (yield from _comes_before(order[place], order[middle])):
                high = middle
            else:
                low = middle + 1
        for step in range(place, low, -1):
            yield from _exchange(order, step, step - 1)


def merge(n: int) -> Moves:
    """Merge sort from the top, the smaller half first; it learns the order and swaps as little as possible at the end."""
    target = yield from _merge_sort(list(range(n)))
    yield from _arrange_as(tuple(target))


def _merge_sort(items: list[int]) -> Generator[Move, bool | None, list[int]]:
    """Sort items by merging, yielding each comparison; return them in order, as a new list unless fewer than two."""
    if len(items) < 2:
        return items
    left = yield from _merge_sort(items[: len(items) // 2])
    right = yield from _merge_sort(items[len(items) // 2 :])
    merged: list[int] = []
    while left and right:
        first = left if (yield from _comes_before(left[0], right[0])) else right
        merged.append(first.pop(0))
    return merged + left + right


def selection(n: int) -> Moves:
    """Find the first of the items from each place on, by comparing all, and swap it to that place unless it is there."""
    order = list(range(n))
    for start in range(n - 1):
        best = start
        for place in range(start + 1, n):
            if (yield from _comes_before(order[place], order[best])):
                best = place
        if best != start:
            yield from _exchange(order, start, best)


def bubble(n: int) -> Moves:
    """Sort by bubbles: swap neighbours that stand wrong, pass by pass, each one shorter; stop after one without a swap."""
    order = list(range(n))
    for end in range(n - 1, 0, -1):
        moved = False
        for place in range(end):
            if (yield from _comes_before(order[place + 1], order[place])):
                yield from _exchange(order, place, place + 1)
                moved = True
        if not moved:
            return


def network_4(n: int) -> Moves:
    """Run the five comparators that the paper's Table 2 calls GCC (n = 4): a sorting network, and not what GCC's sort does."""
    order = list(range(n))
    for one, other in NETWORK_4:
        if (yield from _comes_before(order[other], order[one])):
            yield from _exchange(order, one, other)


def earl_star(n: int) -> Moves:
    """Run EARL*: compare AB, AC, ..., BC, BD, ... but for what already follows, then swap as little as possible."""
    pairs: set[knowledge.Pair] = set()
    for one, other in combinations(range(n), 2):
        if not {(one, other), (other, one)} & knowledge.closure(pairs):
            yield from _learn(one, other, pairs)
    yield from _arrange(n, pairs)


def earl_star_as_printed(n: int) -> Moves:
    """Run Algorithm 2 as printed (n = 4): a pair of B, C, D is compared only if both are before or both behind A; then swap."""
    pairs: set[knowledge.Pair] = set()
    for other in range(1, n):
        yield from _learn(0, other, pairs)
    for one, other in combinations(range(1, n), 2):
        if ((0, one) in pairs) == ((0, other) in pairs):
            yield from _learn(one, other, pairs)
    yield from _arrange(n, pairs)


ALGORITHMS: Mapping[str, Algorithm] = {
    "optimal": optimal,
    "insertion": insertion,
    "binary-insertion": binary_insertion,
    "merge": merge,
    "selection": selection,
    "bubble": bubble,
    "network-4": network_4,
    "earl-star": earl_star,
    "earl-star-as-printed": earl_star_as_printed,
}
_SIZES: Mapping[str, tuple[int, int]] = {
    "optimal": (2, knowledge.MOST_OPTIMAL),
    "network-4": (4, 4),
    "earl-star-as-printed": (4, 4),
}


def able_sizes(name: str) -> range:
    """Return the range of numbers of items that an algorithm is for; UsageError for an unknown one."""
    if name not in ALGORITHMS:
        raise UsageError(f"sorting: algorithm {name!r} is unknown; the algorithms are {', '.join(ALGORITHMS)}")
    low, high = _SIZES.get(name, (2, MOST))
    return range(low, high + 1)
