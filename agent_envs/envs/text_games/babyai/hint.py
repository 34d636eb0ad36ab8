"""`next_step` gives the next action towards a BabyAI mission, by what a player who remembers can know.

`Belief` is that knowledge, from the words of the observations alone. Places are complex numbers on a grid whose origin is the
first cell: x grows to the east of the first facing, y to its south. The first facing counts as north.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from agent_envs.base.messages import Message
from agent_envs.envs.text_games.babyai.env import ACTIONS
from agent_envs.envs.text_games.babyai.grid import GO_FORWARD, HALF, VIEW
from agent_envs.envs.text_games.feedback import Observed, read_observations
from agent_envs.envs.text_games.search import cheapest_way
from agent_envs.wrappers.scripted_feedback import Hint

_NORTH = -1j
LINE = re.compile(
    r"an? (?:(open|closed|locked) )?(?:(\w{3,6}) )?(wall|door|key|ball|box)"
    r"(?: (\d) steps? (left|right))?(?: and)?(?: (\d) steps? forward)?"
)
CARRIED = re.compile(r"You carry an? (\w+) (key|ball|box)")
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
    """A player's knowledge of the level.

    Attributes:
        place, facing: of the player.
        things: what was seen where.
        met: cells that are wall.
        walls: these, and those that are taken to be: a wall that was met runs on to both sides, as in a room.
        explored: cells that were looked at.
        carried_before: all that was ever carried, in order.
        faced: what stood right before the player, at each observation after the first.
    """

    place: complex = 0j
    facing: complex = _NORTH
    things: dict[complex, Thing] = field(default_factory=dict)
    met: set[complex] = field(default_factory=set)
    walls: set[complex] = field(default_factory=set)
    explored: set[complex] = field(default_factory=set)
    carried: Thing | None = None
    carried_before: list[Thing] = field(default_factory=list)
    faced: list[Thing] = field(default_factory=list)

    @classmethod
    def of(cls, turns: Sequence[Observed]) -> "Belief":
        """Build the belief from observations, in order; the first one's action is empty."""
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
        """Return whether a wall or thing keeps the player out; a door does only if locked without its key carried."""
        thing = self.things.get(cell)
        if thing is None or thing.kind != "door":
            return thing is not None or cell in self.walls
        return thing.state == "locked" and (carried is None or (carried.kind, carried.color) != ("key", thing.color))

    def _act(self, action: str) -> None:
        """Follow a turn or a step of the player in place; a wall or thing known to be ahead keeps it; others do nothing."""
        if action == "turn left":
            self.facing *= -1j
        elif action == "turn right":
            self.facing *= 1j
        elif action == "go forward":
            thing = self.things.get(self.front)
            if self.front not in self.walls and (thing is None or thing.state == "open"):
                self.place = self.front

    def _look(self, text: str, *, first: bool) -> None:
        """Take in a description: load, things and walls in view, cells seen; note what is faced unless `first`."""
        holding = CARRIED.search(text)
        carried = Thing(holding[2], holding[1]) if holding else None
        if carried and carried != self.carried:
            self.things.pop(self.front, None)
            self.carried_before.append(carried)
        self.carried = carried
        for state, color, kind, aside, side, ahead in LINE.findall(text[:4_000]):
            right = int(aside or 0) * (1 if side == "right" else -1)
            cell = self.place + self.facing * (int(ahead or 0) + 1j * right)
            if kind == "wall":  # it is part of a line
                way = self.facing * (1 if ahead else 1j if right > 0 else -1j)
                self.met.add(cell)
                self.walls.update(cell + way * 1j * step for step in range(-VIEW, VIEW + 1))
            else:
                self.things[cell] = Thing(kind, color, state)
        self.explored.update(self._view((self.place, self.facing)))
        thing = self.things.get(self.front)
        if thing and not first:
            self.faced.append(thing)

    def route(self, goal: Callable[[State], bool], carried: Thing | None = None) -> list[State] | None:
        """Return the shortest walk to a state that the goal accepts, both ends included; None without one in reach."""

        def steps(state: State) -> list[tuple[int, State]]:
            """Return the next states with their price: forward where the cell is free, and a turn to either side."""
            cell, facing = state
            ahead = cell + facing
            is_free = not self.blocked(ahead, carried) and max(abs(ahead.real), abs(ahead.imag)) <= _REACH
            forward = [(1, (ahead, facing))] if is_free else []
            return [*forward, (1, (cell, facing * -1j)), (1, (cell, facing * 1j))]

        return cheapest_way((self.place, self.facing), steps, lambda state: 0 if goal(state) else None)

    def unseen(self, state: State) -> bool:
        """Return whether a look from a state shows a cell that was not seen."""
        return any(cell not in self.explored for cell in self._view(state))

    def _view(self, state: State) -> Iterator[complex]:
        """Yield the cells seen from a state, up to the first wall or shut door ahead, and aside in each row."""
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
        """Return whether a cell blocks the view: a wall, or a door that is not open."""
        thing = self.things.get(cell)
        return cell in self.walls if thing is None else thing.state in ("closed", "locked")


_MISSION = re.compile(r"Your goal is to (.{3,600}?)\.\n")
_OBJECT = (
    r"(?:the|a)(?: (red|green|blue|purple|yellow|grey))? (key|ball|box|door|object)"
    r"(?: in front of you| behind you| on your \w+)?"
)
_CLAUSE = re.compile(rf"(go to|pick up|open|put) {_OBJECT}(?: next to {_OBJECT})?")
Clause = tuple[str, Thing, Thing]


def next_step(messages: Sequence[Message]) -> Hint:
    """Return the action, what it is for, and as situation if that was seen ("towards", else "look"); IndexError: no mission."""
    belief = Belief.of(read_observations(messages, ACTIONS, GO_FORWARD))
    todo = _open(clauses(messages[0].content), belief)
    action, thing, in_sight = _Way(belief).take(todo)
    name = " ".join(filter(None, ("the", thing.color, thing.kind)))
    return ("towards" if in_sight else "look"), {"action": action, "thing": name}


def clauses(prompt: str) -> list[Clause]:
    """Parse a prompt's mission into clauses in the order in which they are to be done; [] without a mission."""
    mission = _MISSION.search(prompt)
    listed = []
    for part in reversed(mission[1].split(" after you ") if mission else []):
        for verb, color, kind, beside_color, beside_kind in _CLAUSE.findall(part):
            listed.append((verb, Thing(kind, color), Thing(beside_kind, beside_color)))
    return listed


def _open(clauses: Sequence[Clause], belief: Belief) -> Clause:
    """Return the first clause not known to be done, the last one where all seem to be; IndexError for none."""
    for verb, thing, beside in clauses[:-1]:
        done = {
            "go to": any(fits(candidate, thing) for candidate in belief.faced),
            "pick up": any(fits(carried, thing) for carried in belief.carried_before),
            "open": any(fits(candidate, thing) and candidate.state == "open" for candidate in belief.faced),
        }
        if not done.get(verb, False):
            return verb, thing, beside
    return clauses[-1]


def fits(thing: Thing, goal: Thing) -> bool:
    """Return whether a thing has the kind and the color of a goal; `object` is any kind but a door."""
    is_kind = goal.kind == thing.kind or (goal.kind == "object" and thing.kind != "door")
    return is_kind and goal.color in ("", thing.color)


class _Way:
    """The way to do a clause: each method returns an action, what it is for, and whether that is known to be there."""

    def __init__(self, belief: Belief) -> None:
        self.belief = belief

    def take(self, clause: Clause) -> tuple[str, Thing, bool]:
        """Return a clause's next action by its verb: put, go to or open, else fetching the thing."""
        verb, thing, beside = clause
        if verb == "put":
            return self._put(thing, beside)
        if verb == "go to":
            return self._reach(thing, "drop")
        return self._open(thing) if verb == "open" else self._fetch(thing)

    def _reach(self, thing: Thing, then: str) -> tuple[str, Thing, bool]:
        """Return the action `then` at a thing, the next step to it, or a look for it where it was not seen."""
        cells = {cell for cell, candidate in self.belief.things.items() if fits(candidate, thing)}
        return self._face(cells, thing, then)

    def _face(self, cells: set[complex], thing: Thing, then: str) -> tuple[str, Thing, bool]:
        """Return `then` where the player faces one of the cells, else the next step towards one, or (no way) a look."""
        if self.belief.front in cells:
            return then, thing, True
        step = self._step(lambda state: state[0] + state[1] in cells) if cells else ""
        return (step, thing, True) if step else self._look(thing)

    def _fetch(self, thing: Thing) -> tuple[str, Thing, bool]:
        """Return the next action towards carrying a thing; another one carried is dropped first, if the thing was seen."""
        if self.belief.carried is not None and any(fits(candidate, thing) for candidate in self.belief.things.values()):
            free = not self.belief.blocked(self.belief.front) and self.belief.front not in self.belief.things
            return ("drop" if free else "turn left"), thing, True
        return self._reach(thing, "pick up")

    def _open(self, thing: Thing) -> tuple[str, Thing, bool]:
        """Return the next action towards toggling a door, or towards its key where it is known to be locked without it."""
        doors = [candidate for candidate in self.belief.things.values() if fits(candidate, thing)]
        carried = self.belief.carried
        if doors and doors[0].state == "locked" and (carried is None or carried.color != doors[0].color):
            return self._fetch(Thing("key", doors[0].color))
        return self._reach(thing, "toggle")

    def _put(self, thing: Thing, beside: Thing) -> tuple[str, Thing, bool]:
        """Return the next action towards the thing, or, once it is carried, to drop it in a free cell beside the other."""
        belief = self.belief
        if belief.carried is None or not fits(belief.carried, thing):
            return self._fetch(thing)
        near = {
            cell + way for cell, candidate in belief.things.items() if fits(candidate, beside) for way in (1, -1, 1j, -1j)
            if not belief.blocked(cell + way) and cell + way not in belief.things
        }  # fmt: skip
        return self._face(near, beside, "drop")

    def _look(self, thing: Thing) -> tuple[str, Thing, bool]:
        """Return a step to what was not seen, then to a locked door's key, else a turn to the left; never known to be there."""
        step = self._step(self.belief.unseen)
        locks = [candidate for candidate in self.belief.things.values() if candidate.state == "locked"]
        if not step and locks and self.belief.carried is None and thing.kind != "key":
            return self._reach(Thing("key", locks[0].color), "pick up")
        return (step or "turn left"), thing, False

    def _step(self, goal: Callable[[State], bool]) -> str:
        """Return the first action on the way to a state, "" without one; known walls are thinned to those seen, if need be."""
        belief = self.belief
        way = belief.route(goal, belief.carried)
        if way is None and goal != belief.unseen:
            belief.walls = belief.met  # the others may have gaps
            way = belief.route(goal, belief.carried)
        if way is None or len(way) < 2:
            return ""
        (cell, facing), (after, turned) = way[:2]
        if cell == after:
            return "turn right" if turned == facing * 1j else "turn left"
        door = belief.things.get(after)
        return "toggle" if door is not None and door.state in ("closed", "locked") else "go forward"
