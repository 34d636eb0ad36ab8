"""`cheapest_way` finds the cheapest way through states with small whole prices, for planners and hints of games."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

S = TypeVar("S", bound=Hashable)


def cheapest_way(
    start: S, steps: Callable[[S], Iterable[tuple[int, S]]], rest: Callable[[S], int | None]
) -> list[S] | None:
    """Return the states of the cheapest way from a start to a goal, both included, of equals the first met; None without one.

    Of equally cheap ways the one counts whose states were come upon first.

    Args:
        start: where the way begins.
        steps: the states next to a state, each behind the price of going there, which is above 0.
        rest: what is still to be paid at a goal, None for what is no goal.
    """
    came: dict[S, S | None] = {}
    layers: dict[int, list[tuple[S, S | None]]] = {0: [(start, None)]}
    ends: dict[int, S] = {}
    cost = 0
    while layers or ends:
        for state, before in layers.pop(cost, ()):
            if state in came:
                continue
            came[state] = before
            extra = rest(state)
            if extra is not None:
                ends.setdefault(cost + extra, state)
            for price, after in steps(state):
                if after not in came:
                    layers.setdefault(cost + price, []).append((after, state))
        if cost in ends:
            return _trace(came, ends[cost])
        cost += 1
    return None


def _trace(came: dict[S, S | None], state: S | None) -> list[S]:
    """Return the states from the start to `state`, by each state's predecessor in `came`; [] for None."""
    way = []
    while state is not None:
        way.append(state)
        state = came[state]
    return way[::-1]
