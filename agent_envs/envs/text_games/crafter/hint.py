"""`next_step` gives the next action towards a goal of Crafter, by what a player who remembers can know.

`Land` is that knowledge, from the words of the observations alone. Cells are (x, y) from where the first observation was made;
x grows to the right, y downwards. Of each kind only the nearest is told, so that much of what is in sight stays unknown; it is
taken for free ground until something else is seen there.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_envs.base.messages import Message
from agent_envs.envs.text_games.crafter.describe import KIND_OF
from agent_envs.envs.text_games.crafter.env import ACTIONS, GOALS, NOOP
from agent_envs.envs.text_games.crafter.sight import ACROSS, DIRECTIONS, DOWN, MATERIALS, SIDE, Chart
from agent_envs.envs.text_games.crafter.solver import NextAction, choose_by_plan
from agent_envs.envs.text_games.crafter.world import rules
from agent_envs.envs.text_games.feedback import Observed, read_observations
from agent_envs.envs.text_games.search import cheapest_way
from agent_envs.wrappers.scripted_feedback import Hint

Cell = tuple[int, int]
Nearest = dict[str, tuple[Cell, str]]  # by kind: where the nearest is, from the player, and how many are in sight
_MARKS = {name: mark for mark, name in KIND_OF.items()}
_FREE = frozenset(("grass", "sand", "path"))
_VITALS = re.compile(r"(health|food|drink|energy) (\d)")
_CARRIED = re.compile(r"^You carry (.{1,400})\.$", re.MULTILINE)
_ITEM = re.compile(r"(\d) ([a-z ]+?)(?:, | and |$)")
_FACING = re.compile(r"You stand on (?:an? )?([a-z -]{1,20}) and look (left|right|up|down), at ([a-z ]{1,30})\.")
_LISTED = re.compile(
    r"^- (?:an? )?([a-z ]{2,20}?) (?=\d step)(?:(\d) steps? (left|right))?(?: and )?(?:(\d) steps? (up|down))?"
    r"(?: \((\d{1,2}) in sight\))?",
    re.MULTILINE,
)
_NEW = re.compile(r"New achievement: (.{1,300})\.")
_REACH = 24  # cells around the player that an exploring walk may cross


@dataclass
class Land:
    """A player's knowledge of the land.

    Attributes:
        place: of the player.
        facing, front: where it looks, and the kind that is there.
        ground: kinds of cells that were told.
        near: creatures and plants that are in sight.
        items: what is carried, vital signs included.
        unlocked: achievements that were told.
        explored: cells that were in sight.
    """

    place: Cell = (0, 0)
    facing: str = "down"
    front: str = "grass"
    ground: dict[Cell, str] = field(default_factory=dict)
    near: dict[Cell, str] = field(default_factory=dict)
    items: dict[str, int] = field(default_factory=dict)
    asleep: bool = False
    unlocked: set[str] = field(default_factory=set)
    explored: set[Cell] = field(default_factory=set)

    @classmethod
    def of(cls, turns: Sequence[Observed]) -> "Land":
        """Build the knowledge of the land from observations, in order."""
        land = cls()
        listed: Nearest = {}
        for turn in turns:
            listed = land._learn(turn, listed)
        return land

    def chart(self, names: Sequence[str]) -> Chart:
        """Return the known land for a planner, the player in the middle; unknown ground and items are "." and 0.

        Args:
            names: of all items.
        """
        cells = ["."] * (SIDE * SIDE)
        for cell, kind in self.ground.items():
            place = self._index(cell)
            if place >= 0:
                cells[place] = MATERIALS[kind]
        things = {place: _MARKS[kind] for cell, kind in self.near.items() if (place := self._index(cell)) >= 0}
        items = {name: self.items.get(name, 0) for name in names}
        middle = self._index(self.place)
        return Chart(
            "".join(cells), things, middle, DIRECTIONS[self.facing], items, self.asleep, tuple(sorted(self.unlocked))
        )

    def outward(self) -> str:
        """Return the way of the first step to the nearest cell never in sight; the way faced where none can be reached."""
        ways = sorted(DIRECTIONS, key=lambda way: way != self.facing)

        def steps(cell: Cell) -> list[tuple[int, Cell]]:
            """Return the open cells beside a cell within reach of the player, each at price 1."""
            cells = (_neighbour(cell, way) for way in ways)
            return [(1, step) for step in cells if self._open(step) and max(map(abs, self._from_here(step))) <= _REACH]

        path = cheapest_way(self.place, steps, lambda cell: None if cell in self.explored else 0)
        return next((way for way in ways if path and _neighbour(self.place, way) in path[1:2]), self.facing)

    def _open(self, cell: Cell) -> bool:
        """Return whether the player can walk into a cell: its ground, grass if unknown, is free, and nothing stands there."""
        return self.ground.get(cell, "grass") in _FREE and cell not in self.near

    def _from_here(self, cell: Cell) -> Cell:
        """Return a cell's offset from the player."""
        return cell[0] - self.place[0], cell[1] - self.place[1]

    def _index(self, cell: Cell) -> int:
        """Return a cell's index in a chart around the player, -1 beyond it."""
        x, y = self._from_here(cell)
        x, y = x + SIDE // 2, y + SIDE // 2
        return y * SIDE + x if 0 <= x < SIDE and 0 <= y < SIDE else -1

    def _learn(self, turn: Observed, before: Nearest) -> Nearest:
        """Take in an observation, place, land, items and achievements, and return where it told each kind to be."""
        text = turn.text[:6_000]
        listed = {
            kind: ((int(right or 0) * (1 if side == "right" else -1), int(down or 0) * (1 if way == "down" else -1)), count)
            for kind, right, side, down, way, count in _LISTED.findall(text) if kind in _MARKS
        }  # fmt: skip
        looked = _FACING.search(text)
        ground, facing, front = looked.groups() if looked else ("grass", self.facing, "grass")
        front = front.removeprefix("an ").removeprefix("a ")
        if turn.action.startswith("move ") and not self.asleep and self._went(turn.action[5:], front, before, listed):
            self.place = _neighbour(self.place, turn.action[5:])
        self.facing, self.front, self.asleep = facing, front, "You are asleep" in text
        self._see(ground, listed)
        self.items = {name: int(number) for name, number in _VITALS.findall(text)}
        carried = _CARRIED.search(text)
        for number, name in _ITEM.findall(carried[1]) if carried else ():
            self.items[name.replace(" ", "_")] = int(number)
        for names in _NEW.findall(text):
            self.unlocked.update(name.replace(" ", "_") for name in re.split(r", | and ", names))
        return listed

    def _went(self, way: str, front: str, before: Nearest, listed: Nearest) -> bool:
        """Return whether a move led to another cell: by what was in front, or else by the shift of things in sight."""
        if way == self.facing:
            return self.front in _FREE
        dx, dy = DIRECTIONS[way]
        if not self._open(_neighbour(self.place, way)) or front in _FREE:
            return self._open(_neighbour(self.place, way))
        rows = [
            (before[kind], listed[kind]) for kind in before if kind in listed and kind in MATERIALS and kind != "grass"
        ]
        same = sum(old == new for old, new in rows)
        return same < sum(old[0] == (x + dx, y + dy) or old[1] != count for old, ((x, y), count) in rows)

    def _see(self, ground: str, listed: Nearest) -> None:
        """Take in the nearest of each kind; remembered ground in sight that would be nearer than it is forgotten."""
        x, y = self.place
        window = {(x + dx, y + dy) for dx in _span(ACROSS) for dy in _span(DOWN)}
        for cell in [cell for cell in self.ground if cell in window]:
            nearest = listed.get(self.ground[cell])
            if nearest is None or sum(map(abs, nearest[0])) > sum(map(abs, self._from_here(cell))):
                del self.ground[cell]
        self.near = {}
        for kind, ((dx, dy), _) in listed.items():
            (self.ground if kind in MATERIALS else self.near)[x + dx, y + dy] = kind
        self.ground[self.place] = ground if ground in MATERIALS else "grass"
        ahead = _neighbour(self.place, self.facing)
        if self.front in MATERIALS:
            self.ground[ahead] = self.front
        elif self.front in _MARKS:
            self.near[ahead] = self.front
        self.explored |= window


def _span(size: int) -> range:
    """Return the offsets of a span of cells around its middle."""
    return range(-(size // 2), size // 2 + 1)


def _neighbour(cell: Cell, way: str) -> Cell:
    """Return the cell beside a cell in a direction."""
    dx, dy = DIRECTIONS[way]
    return cell[0] + dx, cell[1] + dy


_TARGET = re.compile(r"\b(?:to|of) (the [a-z ]+)")
_MANY = 10_000  # turns that are taken to be left


def next_step(messages: Sequence[Message]) -> Hint:
    """Return the next action and its aim, "look" (outward) where no plan is known; LookupError without a goal."""
    land = Land.of(read_observations(messages, ACTIONS, NOOP))
    prompt = messages[0].content
    goal = next(name for name, (phrase, _, _) in GOALS.items() if f"Your goal is to {phrase}." in prompt)
    achievement = GOALS[goal][1]
    achievements = (achievement,) if achievement else rules().achievements
    choice: NextAction | None = choose_by_plan(land.chart(rules().items), achievements, _MANY)
    if choice is None or (choice.action == "noop" and not land.asleep):
        return "look", {"action": f"move {land.outward()}", "thing": "what the goal asks for"}
    match = _TARGET.search(choice.thought)
    return "towards", {"action": choice.action.replace("_", " "), "thing": match[1] if match else "the goal"}
