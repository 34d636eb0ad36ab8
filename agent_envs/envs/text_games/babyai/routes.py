"""`route` finds the cheapest walk through a BabyAI level to a state (cell and facing), for an agent that knows all of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent_envs.envs.text_games.babyai.grid import (
    EMPTY,
    GO_FORWARD,
    TOGGLE,
    TURN_LEFT,
    TURN_RIGHT,
    WALL,
    BabyWorld,
    identity,
    mark,
)
from agent_envs.envs.text_games.search import cheapest_way

CLOSED = 2  # price of entering a cell behind a toggle; a free cell costs 1
Goal = Callable[[int], int | None]


@dataclass(frozen=True, slots=True)
class Prices:
    """What a route pays beyond its steps, and where it must not go.

    Attributes:
        blocker: for a thing that must be carried away first; 0 where none may be moved.
        lock: for a locked door whose key is not in hand; 0 where none may be passed.
        barred: identities of doors that no route may pass.
        only_open: whether closed doors, too, may not be passed.
    """

    blocker: int = 0
    lock: int = 0
    barred: frozenset[int] = frozenset()
    only_open: bool = False


def strides(world: BabyWorld) -> tuple[int, int, int, int]:
    """Return what one step to the east, south, west and north adds to a cell index."""
    return 1, world.width, -1, -world.width


def facing_states(world: BabyWorld, cells: Mapping[int, int]) -> Goal:
    """Return the goal of facing one of the cells, each with what it costs beyond the way there."""
    states: dict[int, int] = {}
    for cell, extra in cells.items():
        for facing, stride in enumerate(strides(world)):
            state = (cell - stride) * 4 + facing
            states[state] = min(extra, states.get(state, extra))
    return states.get


def tolls(world: BabyWorld, prices: Prices) -> dict[str, int]:
    """Return what entering a cell costs by its content; 0 where it cannot be entered."""
    held = world.things[world.carrying] if world.carrying >= 0 else None
    table = {EMPTY: 1, WALL: 0}
    for number, thing in enumerate(world.things):
        if thing.kind != "door":
            toll = prices.blocker and 1 + prices.blocker
        elif thing.state == "open":
            toll = 1
        elif prices.only_open or number in prices.barred:
            toll = 0
        elif thing.state == "closed" or (held is not None and (held.kind, held.color) == ("key", thing.color)):
            toll = CLOSED
        else:
            toll = prices.lock and CLOSED + prices.lock
        table[mark(number)] = toll
    return table


def route(world: BabyWorld, goal: Goal, prices: Prices) -> list[int] | None:
    """Return the states (`cell * 4 + facing`) of the cheapest walk from the agent's to a goal, both included.

    A turn costs 1, a step what `tolls` says, the end what the goal says. None if there is no way.
    """
    table, cells, ahead = tolls(world, prices), world.cells, strides(world)

    def steps(state: int) -> list[tuple[int, int]]:
        facing = state & 3
        turned = [(1, state - facing + (facing + 3 & 3)), (1, state - facing + (facing + 1 & 3))]
        front = (state >> 2) + ahead[facing]
        toll = table[cells[front]]
        return [*turned, (toll, front * 4 + facing)] if toll else turned

    return cheapest_way(world.place * 4 + world.facing, steps, goal)


def actions_between(world: BabyWorld, state: int, after: int) -> tuple[int, ...]:
    """Return the actions from a state to the next of a route, through what can be entered at once or behind a toggle."""
    if state >> 2 == after >> 2:
        return (TURN_RIGHT,) if (after - state) % 4 == 1 else (TURN_LEFT,)
    number = identity(world.cells[after >> 2])
    return (GO_FORWARD,) if number < 0 or world.things[number].state == "open" else (TOGGLE, GO_FORWARD)
