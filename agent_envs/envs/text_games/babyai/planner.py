"""Plans that win BabyAI missions are made with full knowledge of the level and played through before they are handed out.

A mission is worked off clause by clause. Each clause is a short procedure over routes: face a thing, pick it up, toggle it,
drop what is carried. What stands in the way is dealt with first: things are carried aside, keys are fetched for locked doors,
out of boxes if need be. The parts of an `and` are tried in either order, and the shorter plan is taken. A plan need not be the
shortest that there is, and where none is found there may be one; in tests that was so in less than one mission in a thousand.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product

from agent_envs.base.errors import Unsolvable
from agent_envs.envs.text_games.babyai.grid import (
    DROP,
    EMPTY,
    GO_FORWARD,
    PICK_UP,
    TOGGLE,
    TURN_LEFT,
    TURN_RIGHT,
    WALL,
    BabyThing,
    BabyWorld,
    identity,
    in_front,
    mark,
)
from agent_envs.envs.text_games.babyai.instructions import CONTINUE, SUCCESS, play_action
from agent_envs.envs.text_games.babyai.mission import BabyClause, Instructions
from agent_envs.envs.text_games.search import cheapest_way

BLOCKER, LOCK = 10, 40  # what a thing in the way and a key to be fetched are reckoned to cost
CROWDED, IN_THE_WAY = 12, 40  # and to put a thing where it narrows a passage, or on the way that is still to go
NONE: frozenset[int] = frozenset()
CLOSED = 2  # price of entering a cell behind a toggle; a free cell costs 1
Goal = Callable[[int], int | None]


class _Over(Exception):
    """The mission is decided, or a clause of it is done: what was being done is over."""


class _Stuck(Exception):
    """This way to go about it leads nowhere."""


@lru_cache(maxsize=512)
def plan(world: BabyWorld) -> tuple[int, ...]:
    """Return the shortest of the plans found for each order of the `and`s, cached; Unsolvable where none wins in time."""
    best: tuple[int, ...] = ()
    for flips in product((False, True), repeat=_count_ands(world.instructions)):
        attempt = _Attempt(world, flips, len(best) or world.limit - world.steps + 1)
        if attempt.wins():
            best = tuple(attempt.actions)
    if not best:
        raise Unsolvable(f"no plan wins within the {world.limit - world.steps} steps that are left")
    return best


def plan_or_none(world: BabyWorld) -> tuple[int, ...]:
    """Return the plan of a world, cached; () where there is none."""
    try:
        return plan(world)
    except Unsolvable:
        return ()


def _count_ands(instructions: Instructions) -> int:
    """Count the `and`s of a mission, each of which may be done in either order."""
    if isinstance(instructions, BabyClause):
        return 0
    return (instructions.order == "and") + _count_ands(instructions.first) + _count_ands(instructions.second)


def _next_clause(instructions: Instructions, flips: Iterator[bool]) -> BabyClause:
    """Return the first clause not done, in order; each `and` takes a flip (True: second part first), reached or not."""
    if isinstance(instructions, BabyClause):
        return instructions
    parts = [(instructions.first, instructions.first_done), (instructions.second, instructions.second_done)]
    swapped = next(flips) if instructions.order == "and" else instructions.order == "after"
    nested = [_next_clause(part, flips) for part, _ in parts]
    order = (1, 0) if swapped else (0, 1)
    return next((nested[n] for n in order if not parts[n][1]), nested[order[1]])


def _done(instructions: Instructions) -> tuple[bool, ...]:
    """Return whether each part of a mission is done, in a fixed order; () for a single clause."""
    if isinstance(instructions, BabyClause):
        return ()
    own = (instructions.first_done, instructions.second_done)
    return own + _done(instructions.first) + _done(instructions.second)


class _Attempt:
    """One way to go about a mission, played through from a world on."""

    def __init__(self, world: BabyWorld, flips: tuple[bool, ...], most: int) -> None:
        """Take a world, the order of each `and`, and the most actions."""
        self.world, self.flips, self.most = world, flips, most
        self.actions: list[int] = []
        self.status = CONTINUE
        self.only_open = False  # a strict clause forbids to open other doors on the way
        self.targets: tuple[int, ...] = ()  # the things that the clause is about

    def wins(self) -> bool:
        """Play through, and return whether it wins in fewer than `most` actions; False where it gets stuck or fails."""
        try:
            while True:
                try:
                    self._pursue(_next_clause(self.world.instructions, iter(self.flips)))
                except _Over:
                    if self.status != CONTINUE:
                        return self.status == SUCCESS and len(self.actions) < self.most
        except _Stuck:
            return False

    def _pursue(self, clause: BabyClause) -> None:
        """Play a clause on by its verb; `_Over` once it or the mission is decided, `_Stuck` where it cannot go on."""
        self.only_open = clause.strict and clause.verb == "open"
        self.targets = clause.thing.matches + (clause.beside.matches if clause.beside else ())
        if clause.verb == "open":
            self._open(clause)
        elif clause.verb == "putnext":
            self._put_next(clause)
        else:
            if self.world.carrying in clause.thing.matches:
                self._put_down()
            cells = dict.fromkeys(self._places(clause.thing.matches), 0)
            if clause.verb == "pickup":
                self._pick_up(cells)
            self._face(cells)
            self._do(DROP)  # which changes nothing before a thing: to face it already does not count before a step

    def _open(self, clause: BabyClause) -> None:
        """Toggle the door that is cheapest to reach (closed before open before locked), unlocking it first where needed."""
        doors = [self.world.things[number] for number in clause.thing.matches]
        costs = {"closed": 0, "open": 1, "locked": LOCK}
        cells = {door.place: 0 if self._unlocks(door) else costs[door.state] for door in doors}
        path = self._way(cells, NONE)
        door = self._thing((path[-1] >> 2) + strides(self.world)[path[-1] & 3])
        if door.state == "locked":
            self._unlock(door, NONE)
        self._face({door.place: 0})
        self._do(TOGGLE)

    def _put_next(self, clause: BabyClause) -> None:
        """Work on a `putnext`: fetch the thing, clear the cell to be faced, or drop the thing beside the other one."""
        fixed = clause.beside.matches if clause.beside else ()
        if self.world.carrying not in clause.thing.matches:
            others = self._places(fixed)
            self._pick_up({place: self._least_distance(place, others) for place in self._places(clause.thing.matches)})
        beside = {
            place + stride: 0 if self.world.cells[place + stride] == EMPTY else BLOCKER
            for place in self._places(fixed)
            for stride in strides(self.world)
            if self._can_hold(place + stride)
        }
        self._face(beside)
        if self.world.cells[in_front(self.world)] != EMPTY:
            self._clear(NONE)
            return
        self._do(DROP)

    def _pick_up(self, cells: Mapping[int, int], barred: frozenset[int] = NONE) -> None:
        """Face the cheapest of the cells, unload if the hands are full, and take what stands there; _Stuck without a way."""
        self._face(cells, barred)
        cell = in_front(self.world)
        if self.world.carrying >= 0:
            self._unload()
            self._face({cell: 0}, barred)
        self._do(PICK_UP)

    def _face(self, cells: Mapping[int, int], barred: frozenset[int] = NONE) -> None:
        """Walk until the agent faces one of the cells, unlocking doors and clearing things in the way; _Stuck without one."""
        while True:
            path = self._way(cells, barred)
            for at, (state, after) in enumerate(pairwise(path), 1):
                content = self.world.cells[after >> 2]
                if state >> 2 != after >> 2 and content != EMPTY and self._is_obstacle(identity(content)):
                    if (thing := self.world.things[identity(content)]).kind == "door":
                        self._unlock(thing, barred | {identity(content)})
                    else:
                        self._clear(frozenset(s >> 2 for s in path[at:]))
                    break
                for action in actions_between(self.world, state, after):
                    self._do(action)
            else:
                return

    def _way(self, cells: Mapping[int, int], barred: frozenset[int]) -> list[int]:
        """Return the cheapest route to face one of the cells, past obstacles only if none is free; _Stuck without any."""
        goal = facing_states(self.world, cells)
        path = route(self.world, goal, RouteCosts(barred=barred, only_open=self.only_open))
        path = path or route(self.world, goal, RouteCosts(BLOCKER, LOCK, barred, self.only_open))
        if path is None:
            raise _Stuck
        return path

    def _clear(self, reserved: frozenset[int]) -> None:
        """Unload what is carried, then take what the agent faces and unload it where it is not in the way."""
        cell = in_front(self.world)
        if self.world.carrying >= 0:
            self._unload(reserved)
            self._face({cell: 0})
        self._do(PICK_UP)
        self._unload(reserved, cell)

    def _unlock(self, door: BabyThing, barred: frozenset[int]) -> None:
        """Fetch the door's key and toggle the door, again and again until it is unlocked; _Stuck without a way."""
        number = identity(self.world.cells[door.place])
        while self.world.things[number].state == "locked":
            if not self._unlocks(door):
                self._fetch_key(door.color, barred | {number})
                continue
            self._face({door.place: 0}, barred)
            if self._unlocks(door):  # the key may have been put down to clear the way
                self._do(TOGGLE)

    def _fetch_key(self, color: str, barred: frozenset[int]) -> None:
        """Take a key of a colour, out of a box if it lies in one; put down a box carried that holds it, and return."""
        things = self.world.things
        keys = [number for number, thing in enumerate(things) if (thing.kind, thing.color) == ("key", color)]
        cells = dict.fromkeys(self._places(keys), 0)
        cells |= {box.place: 1 for box in things if box.holds in keys and box.place >= 0}
        if self.world.carrying >= 0 and things[self.world.carrying].holds in keys:
            self._put_down()
            return
        self._face(cells, barred)
        if self._thing(in_front(self.world)).kind == "box":
            self._do(TOGGLE)
        self._pick_up({in_front(self.world): 0}, barred)

    def _unload(self, reserved: frozenset[int] = NONE, cleared: int = -1) -> None:
        """Drop what is carried in the cheapest free cell, by way and crowding, never in `cleared`; _Stuck without one."""
        badness: dict[int, int | None] = {cleared: None}
        ahead = strides(self.world)
        near = {place + stride for place in self._places(self.targets) for stride in ahead}

        def goal(state: int) -> int | None:
            """Return the cost of dropping the thing in front of a state, cached by cell; None where that cell is not empty."""
            cell = (state >> 2) + ahead[state & 3]
            if cell not in badness:
                badness[cell] = self._drop_cost(cell, reserved, near)
            return badness[cell]

        self._drop(goal)

    def _put_down(self) -> None:
        """Drop what is carried in the nearest empty cell, in the way or not; _Stuck where there is none."""
        cells, ahead = self.world.cells, strides(self.world)
        self._drop(lambda state: 0 if cells[(state >> 2) + ahead[state & 3]] == EMPTY else None)

    def _drop(self, goal: Goal) -> None:
        """Walk to a state that the goal accepts and drop what is carried in front; _Stuck where there is no way."""
        path = route(self.world, goal, RouteCosts(only_open=self.only_open))
        if path is None:
            raise _Stuck
        for state, after in pairwise(path):
            for action in actions_between(self.world, state, after):
                self._do(action)
        self._do(DROP)

    def _drop_cost(self, cell: int, reserved: frozenset[int], near: set[int]) -> int | None:
        """Return the later cost of a thing dropped in a cell, in the way or crowding others; None where it is not empty."""
        if self.world.cells[cell] != EMPTY:
            return None
        return IN_THE_WAY * (cell in reserved) + CROWDED * ((cell in near) + _narrows(self.world, cell))

    def _do(self, action: int) -> None:
        """Play an action; raises _Over where the mission or a clause is decided, _Stuck where too few actions are left."""
        before = _done(self.world.instructions)
        self.world, self.status = play_action(self.world, action)
        self.actions.append(action)
        if self.status != CONTINUE or _done(self.world.instructions) != before:
            raise _Over
        if len(self.actions) + 1 >= self.most:
            raise _Stuck

    def _thing(self, cell: int) -> BabyThing:
        return self.world.things[identity(self.world.cells[cell])]

    def _unlocks(self, door: BabyThing) -> bool:
        """Return whether the agent carries the key of a door's colour."""
        load = self.world.things[self.world.carrying] if self.world.carrying >= 0 else None
        return load is not None and (load.kind, load.color) == ("key", door.color)

    def _is_obstacle(self, number: int) -> bool:
        """Return whether a thing keeps the agent out: any but a door that is not locked, or whose key is carried."""
        thing = self.world.things[number]
        return thing.kind != "door" or (thing.state == "locked" and not self._unlocks(thing))

    def _places(self, numbers: Iterable[int]) -> list[int]:
        """Return the cells of those things that stand in the level; what is carried or in a box has none."""
        places = (self.world.things[number].place for number in numbers)
        return [place for place in places if place >= 0]

    def _can_hold(self, cell: int) -> bool:
        """Return whether a thing may be put in a cell: it is empty, or what lies there can be cleared away."""
        number = identity(self.world.cells[cell])
        return self.world.cells[cell] == EMPTY or (number >= 0 and self.world.things[number].kind != "door")

    def _least_distance(self, place: int, others: list[int]) -> int:
        """Return the steps from a cell to the nearest of others, without regard to walls; 0 without others."""
        y, x = divmod(place, self.world.width)
        spots = [divmod(other, self.world.width) for other in others]
        return min((abs(y - row) + abs(x - column) for row, column in spots), default=0)


def _narrows(world: BabyWorld, cell: int) -> bool:
    """Return whether a thing in a free cell would part the free cells around it, or stand directly beside a door."""
    east, south, west, north = strides(world)
    ring = (north, north + east, east, south + east, south, south + west, west, north + west)
    doors = [mark(n) for n, thing in enumerate(world.things) if thing.kind == "door"]
    around = [world.cells[cell + step] for step in ring]
    if any(content in doors for content in around[::2]):
        return True
    free = [content == EMPTY for content in around]
    parts = sum(free[n] and not (free[n - 1] and free[n - 2]) for n in (0, 2, 4, 6))
    return parts > 1


@dataclass(frozen=True, slots=True)
class RouteCosts:
    """The costs of a route beyond its steps, and the cells that it must not enter.

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
    """Return the change of a cell index by one step to the east, south, west and north."""
    return 1, world.width, -1, -world.width


def facing_states(world: BabyWorld, cells: Mapping[int, int]) -> Goal:
    """Return the goal of facing one of the cells, at that cell's extra cost; None for other states."""
    states: dict[int, int] = {}
    for cell, extra in cells.items():
        for facing, stride in enumerate(strides(world)):
            state = (cell - stride) * 4 + facing
            states[state] = min(extra, states.get(state, extra))
    return states.get


def tolls(world: BabyWorld, prices: RouteCosts) -> dict[str, int]:
    """Return the cost of entering a cell by its content: 0 if it cannot be, blockers and locks at the prices given."""
    load = world.things[world.carrying] if world.carrying >= 0 else None
    table = {EMPTY: 1, WALL: 0}
    for number, thing in enumerate(world.things):
        if thing.kind != "door":
            toll = prices.blocker and 1 + prices.blocker
        elif thing.state == "open":
            toll = 1
        elif prices.only_open or number in prices.barred:
            toll = 0
        elif thing.state == "closed" or (load is not None and (load.kind, load.color) == ("key", thing.color)):
            toll = CLOSED
        else:
            toll = prices.lock and CLOSED + prices.lock
        table[mark(number)] = toll
    return table


def route(world: BabyWorld, goal: Goal, prices: RouteCosts) -> list[int] | None:
    """Return the states (`cell * 4 + facing`) of the cheapest walk to a goal, both ends included; None without a way.

    A turn costs 1, a step what `tolls` says, the end what the goal says. None if there is no way.
    """
    table, cells, ahead = tolls(world, prices), world.cells, strides(world)

    def steps(state: int) -> list[tuple[int, int]]:
        """Return the next states with their price: a turn to either side, and forward by the toll of the cell."""
        facing = state & 3
        turned = [(1, state - facing + (facing + 3 & 3)), (1, state - facing + (facing + 1 & 3))]
        front = (state >> 2) + ahead[facing]
        toll = table[cells[front]]
        return [*turned, (toll, front * 4 + facing)] if toll else turned

    return cheapest_way(world.place * 4 + world.facing, steps, goal)


def actions_between(world: BabyWorld, state: int, after: int) -> tuple[int, ...]:
    """Return the actions from a state to the next of a route: a turn, a step, or toggle and step where a thing is shut."""
    if state >> 2 == after >> 2:
        return (TURN_RIGHT,) if (after - state) % 4 == 1 else (TURN_LEFT,)
    number = identity(world.cells[after >> 2])
    return (GO_FORWARD,) if number < 0 or world.things[number].state == "open" else (TOGGLE, GO_FORWARD)
