"""`Belief` holds what a player who remembers knows of a BabyAI level, by the words of its observations alone.

Places are complex numbers on a grid whose origin is the first cell: x grows to the east of the first facing, y to its south.
The first facing counts as north.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from agent_envs.envs.text_games.babyai.grid import HALF, VIEW
from agent_envs.envs.text_games.hint_turns import Played

_NORTH = -1j
_LINE = re.compile(
    r"an? (?:(open|closed|locked) )?(?:(\w{3,6}) )?(wall|door|key|ball|box)"
    r"(?: (\d) steps? (left|right))?(?: and)?(?: (\d) steps? forward)?"
)
_CARRIED = re.compile(r"You carry an? (\w+) (key|ball|box)")
_REACH = 14  # cells from the origin that a route may go
State = tuple[complex, complex]  # cell and facing


@dataclass(frozen=True, slots=True)
class Thing:
    """A thing as it was last seen; `state` is that of a door."""

    kind: str
    color: str
    state: str = ""


@dataclass
class Belief:
    """What is known now.

    Attributes:
        place, facing: of the player.
        things: what was seen where.
        met: cells that are wall.
        walls: these, and those that are taken to be: a wall that was met runs on to both sides, as in a room.
        seen: cells that were looked at.
        carried: what is carried.
        held: all that was ever carried, in order.
        faced: what stood right before the player, at each observation after the first.
    """

    place: complex = 0j
    facing: complex = _NORTH
    things: dict[complex, Thing] = field(default_factory=dict)
    met: set[complex] = field(default_factory=set)
    walls: set[complex] = field(default_factory=set)
    seen: set[complex] = field(default_factory=set)
    carried: Thing | None = None
    held: list[Thing] = field(default_factory=list)
    faced: list[Thing] = field(default_factory=list)

    @classmethod
    def of(cls, turns: Sequence[Played]) -> "Belief":
        """Return what is known after observations."""
        belief = cls()
        for turn in turns:
            belief._act(turn.action)
            belief._look(turn.text, first=not turn.action)
        return belief

    @property
    def front(self) -> complex:
        """The cell before the player."""
        return self.place + self.facing

    def blocked(self, cell: complex, carried: Thing | None = None) -> bool:
        """Return whether a cell cannot be entered; a door can, if it is not locked or the key to it is carried."""
        thing = self.things.get(cell)
        if thing is None or thing.kind != "door":
            return thing is not None or cell in self.walls
        return thing.state == "locked" and (carried is None or (carried.kind, carried.color) != ("key", thing.color))

    def _act(self, action: str) -> None:
        if action == "turn left":
            self.facing *= -1j
        elif action == "turn right":
            self.facing *= 1j
        elif action == "go forward":
            thing = self.things.get(self.front)
            if self.front not in self.walls and (thing is None or thing.state == "open"):
                self.place = self.front

    def _look(self, text: str, *, first: bool) -> None:
        found = _CARRIED.search(text)
        carried = Thing(found[2], found[1]) if found else None
        if carried and carried != self.carried:
            self.things.pop(self.front, None)
            self.held.append(carried)
        self.carried = carried
        for state, color, kind, aside, side, ahead in _LINE.findall(text[:4_000]):
            right = int(aside or 0) * (1 if side == "right" else -1)
            cell = self.place + self.facing * (int(ahead or 0) + 1j * right)
            if kind == "wall":
                self._extend(cell, self.facing * (1 if ahead else 1j if right > 0 else -1j))
            else:
                self.things[cell] = Thing(kind, color, state)
        self.seen.update(self._view((self.place, self.facing)))
        thing = self.things.get(self.front)
        if thing and not first:
            self.faced.append(thing)

    def _extend(self, cell: complex, way: complex) -> None:
        """Note a wall that was met going one way, and the line that it is part of."""
        self.met.add(cell)
        self.walls.update(cell + way * 1j * step for step in range(-VIEW, VIEW + 1))

    def route(self, goal: Callable[[State], bool], carried: Thing | None = None) -> list[State] | None:
        """Return the shortest walk to a state that the goal accepts, both ends included; None where there is none."""
        start = (self.place, self.facing)
        came: dict[State, State | None] = {start: None}
        queue = deque([start])
        while queue:
            state = queue.popleft()
            if goal(state):
                return list(_traced(came, state))[::-1]
            cell, facing = state
            ahead = cell + facing
            steps = [(cell, facing * -1j), (cell, facing * 1j)]
            if not self.blocked(ahead, carried) and max(abs(ahead.real), abs(ahead.imag)) <= _REACH:
                steps.insert(0, (ahead, facing))
            for step in steps:
                if step not in came:
                    came[step] = state
                    queue.append(step)
        return None

    def unseen(self, state: State) -> bool:
        """Return whether a look from a state shows a cell that was not seen."""
        return any(cell not in self.seen for cell in self._view(state))

    def _view(self, state: State) -> Iterator[complex]:
        """Yield the cells that are seen from a state, as far as walls and doors are known to hide others."""
        cell, facing = state
        for ahead in range(VIEW):
            row = cell + facing * ahead
            yield row
            if ahead and self._hides(row):
                return
            for way in (1j, -1j):
                for aside in range(1, HALF + 1):
                    yield row + facing * way * aside
                    if self._hides(row + facing * way * aside):
                        break

    def _hides(self, cell: complex) -> bool:
        thing = self.things.get(cell)
        return cell in self.walls if thing is None else thing.state in ("closed", "locked")


def _traced(came: dict[State, State | None], state: State) -> Iterator[State]:
    last: State | None = state
    while last is not None:
        yield last
        last = came[last]
