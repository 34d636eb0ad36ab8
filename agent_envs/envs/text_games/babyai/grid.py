"""`BabyWorld` is BabyAI's world as one immutable value; functions give what each action changes and what the agent sees.

The rules are those of minigrid 3: movement, doors, boxes and keys as in its `MiniGridEnv.step`, sight as in `process_vis` with
walls and closed doors that hide what lies behind them. A test runs both side by side.
"""

from dataclasses import dataclass
from functools import lru_cache

from agent_envs.base.serialization import state_type
from agent_envs.envs.text_games.babyai.mission import Instructions

TURN_LEFT, TURN_RIGHT, GO_FORWARD, PICK_UP, DROP, TOGGLE = range(6)
EAST, SOUTH, WEST, NORTH = range(4)
CARRIED, NOWHERE = -1, -2
EMPTY, WALL, UNSEEN = " ", "#", "?"
OFFSET = 64  # the mark of thing number n is chr(OFFSET + n)
VIEW = 7  # side of the square that the agent sees
HALF = VIEW // 2


@state_type
@dataclass(frozen=True, slots=True)
class BabyThing:
    """A key, ball, box or door. Its index in `BabyWorld.things` is its identity, for the whole episode.

    Attributes:
        kind: `key`, `ball`, `box` or `door`.
        color: `red`, `green`, `blue`, `purple`, `yellow` or `grey`.
        place: cell index `y * width + x`; CARRIED by the agent; NOWHERE inside a box, or a box that was opened.
        state: `open`, `closed` or `locked` of a door, else "".
        holds: identity of what is in a box, -1 for nothing.
    """

    kind: str
    color: str
    place: int
    state: str = ""
    holds: int = -1


@state_type
@dataclass(frozen=True, slots=True)
class BabyWorld:
    """One moment of an episode.

    Attributes:
        height: rows of the grid; y grows to the south.
        cells: one character a cell, row by row: EMPTY, WALL, or the mark of the thing that stands there.
        place: cell index of the agent.
        facing: EAST, SOUTH, WEST or NORTH.
        carrying: identity of what the agent carries, -1 for nothing.
        limit: actions that the episode may have.
        instructions: the mission and what is done of it.
    """

    width: int
    height: int
    cells: str
    things: tuple[BabyThing, ...]
    place: int
    facing: int
    carrying: int
    steps: int
    limit: int
    instructions: Instructions


def mark(identity: int) -> str:
    """Return the character of a thing in `BabyWorld.cells` and in views."""
    return chr(OFFSET + identity)


def identity(character: str) -> int:
    """Return the number of the thing behind a character of `BabyWorld.cells` or of a view, -1 for none."""
    return ord(character) - OFFSET if character not in (EMPTY, WALL, UNSEEN) else -1


def in_front(world: BabyWorld) -> int:
    """Return the index of the cell that the agent faces."""
    return world.place + (1, world.width, -1, -world.width)[world.facing]


def moved(world: BabyWorld, action: int) -> BabyWorld:
    """Return the world one step later; an action without effect only counts the step; the mission is not judged."""
    if action == TURN_LEFT:
        return _next(world, facing=(world.facing - 1) % 4)
    if action == TURN_RIGHT:
        return _next(world, facing=(world.facing + 1) % 4)
    front = in_front(world)
    content = world.cells[front]
    if content == EMPTY:
        if action == GO_FORWARD:
            return _next(world, place=front)
        return _drop(world, front) if action == DROP and world.carrying >= 0 else _next(world)
    if content == WALL or action == DROP:
        return _next(world)
    number = ord(content) - OFFSET
    thing = world.things[number]
    if action == GO_FORWARD:
        return _next(world, place=front if thing.state == "open" else world.place)
    if action == PICK_UP:
        return _next(world) if thing.kind == "door" or world.carrying >= 0 else _pick_up(world, number)
    return _toggle(world, number)


def visible(world: BabyWorld) -> str:
    """Return the agent's view, 49 characters: row by row from the farthest to its own, each from its left to its right.

    A character is that of `BabyWorld.cells`, or UNSEEN. The agent stands in the middle of the last row, where the view shows
    what it carries. Beyond the grid there is wall.
    """
    opaque = WALL + "".join([mark(n) for n, thing in enumerate(world.things) if thing.state in ("closed", "locked")])
    view = []
    light = 1 << HALF
    for distance in range(VIEW):
        row, light = _light_row(_row(world, distance), opaque, light)
        view.append(row)
    own = mark(world.carrying) if world.carrying >= 0 else EMPTY
    view[0] = view[0][:HALF] + own + view[0][HALF + 1 :]
    return "".join(reversed(view))


def _row(world: BabyWorld, distance: int) -> str:
    """Return the seven cells that lie `distance` rows before the agent, from its left to its right; wall beyond the grid."""
    y, x = divmod(world.place, world.width)
    facing = world.facing
    if facing == EAST:
        return _line(world, x + distance, y, True)
    if facing == NORTH:
        return _line(world, y - distance, x, False)
    return (_line(world, y + distance, x, False) if facing == SOUTH else _line(world, x - distance, y, True))[::-1]


def _line(world: BabyWorld, at: int, middle: int, column: bool) -> str:
    """Return seven cells of a row (of a column if `column`) around `middle`; wall beyond the grid."""
    across, along = (world.width, world.height) if column else (world.height, world.width)
    if not 0 <= at < across:
        return WALL * VIEW
    low, high = middle - HALF, middle + HALF + 1
    first, last = max(low, 0), min(high, along)
    if column:
        cells = world.cells[first * world.width + at : last * world.width : world.width]
    else:
        cells = world.cells[at * world.width + first : at * world.width + last]
    return WALL * (first - low) + cells + WALL * (high - last)


@lru_cache(maxsize=1 << 13)
def _light_row(row: str, opaque: str, light: int) -> tuple[str, int]:
    """Return a row with its unlit cells UNSEEN, and the lit columns of the next row (bits), from its own lit ones; cached.

    Light runs along the row through what is not opaque, first to the right, then to the left; from each such cell it also
    reaches the next row, straight ahead and ahead on the side where it runs.
    """
    ahead = 0
    for column in range(VIEW - 1):
        if light >> column & 1 and row[column] not in opaque:
            light |= 2 << column
            ahead |= 3 << column
    for column in range(VIEW - 1, 0, -1):
        if light >> column & 1 and row[column] not in opaque:
            light |= 1 << column - 1
            ahead |= 3 << column - 1
    return "".join([content if light >> column & 1 else UNSEEN for column, content in enumerate(row)]), ahead


def _next(
    world: BabyWorld,
    place: int = -1,
    facing: int = -1,
    cells: str = "",
    things: tuple[BabyThing, ...] = (),
    carrying: int | None = None,
) -> BabyWorld:
    """Return the world one step later, with the fields given in place of its own; faster than `replace`."""
    return BabyWorld(
        world.width,
        world.height,
        cells or world.cells,
        things or world.things,
        world.place if place < 0 else place,
        world.facing if facing < 0 else facing,
        world.carrying if carrying is None else carrying,
        world.steps + 1,
        world.limit,
        world.instructions,
    )


def _with_change(things: tuple[BabyThing, ...], number: int, place: int, state: str = "") -> tuple[BabyThing, ...]:
    """Return things with one of them at another place, and in another state if one is given."""
    thing = things[number]
    put = BabyThing(thing.kind, thing.color, place, state or thing.state, thing.holds)
    return (*things[:number], put, *things[number + 1 :])


def _with_cell(cells: str, place: int, content: str) -> str:
    """Return the cells with the content of one replaced."""
    return cells[:place] + content + cells[place + 1 :]


def _pick_up(world: BabyWorld, number: int) -> BabyWorld:
    """Return the world after the agent took a thing."""
    place = world.things[number].place
    things = _with_change(world.things, number, CARRIED)
    return _next(world, cells=_with_cell(world.cells, place, EMPTY), things=things, carrying=number)


def _drop(world: BabyWorld, front: int) -> BabyWorld:
    """Put the carried thing down in the cell in front, and return the next world with empty hands."""
    things = _with_change(world.things, world.carrying, front)
    return _next(world, cells=_with_cell(world.cells, front, mark(world.carrying)), things=things, carrying=-1)


def _toggle(world: BabyWorld, number: int) -> BabyWorld:
    """Return the world after a toggle: a box gives way to what it holds, a door opens or shuts, a locked one with its key."""
    thing = world.things[number]
    if thing.kind == "box":  # what was in it stands in its place
        things = _with_change(world.things, number, NOWHERE)
        if thing.holds >= 0:
            things = _with_change(things, thing.holds, thing.place)
        content = mark(thing.holds) if thing.holds >= 0 else EMPTY
        return _next(world, cells=_with_cell(world.cells, thing.place, content), things=things)
    if thing.kind != "door":
        return _next(world)
    if thing.state == "locked":
        key = world.things[world.carrying] if world.carrying >= 0 else None
        if key is None or (key.kind, key.color) != ("key", thing.color):
            return _next(world)
    state = "closed" if thing.state == "open" else "open"
    return _next(world, things=_with_change(world.things, number, thing.place, state))
