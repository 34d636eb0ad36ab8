"""Moments of Crafter are plain values here: what the player sees and has, and the whole map for planners."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from agent_envs.base.serialization import state_type

SIDE = 64  # of the square world, in cells
ACROSS, DOWN = 9, 7  # of what the player sees, in cells; the player stands in the middle
MOST_STEPS = 10_000  # crafter's own limit
MATERIALS = {
    "water": "~", "grass": ".", "stone": "#", "path": "_", "sand": ":", "tree": "T", "lava": "!", "coal": "c", "iron": "i",
    "diamond": "d", "table": "t", "furnace": "f",
}  # fmt: skip
OUTSIDE, NOTHING = " ", " "
THINGS = {
    "cow": "C", "zombie": "Z", "skeleton": "S", "plant": "p", "plant-ripe": "P", "arrow-left": "<", "arrow-right": ">",
    "arrow-up": "^", "arrow-down": "v", "fence": "=",
}  # fmt: skip
DIRECTIONS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}


@state_type
@dataclass(frozen=True, slots=True)
class CrafterSight:
    """The player's knowledge at a moment. Maps are DOWN rows of ACROSS characters, the upper left cell first.

    Attributes:
        ground: of each cell its mark of MATERIALS, or OUTSIDE.
        things: of each cell the mark of THINGS that stands there, or NOTHING; the player's own cell holds NOTHING.
        facing: `left`, `right`, `up` or `down`.
        items: how many of each item, vital signs included, in the order of `rules().items`.
        unlocked: achievements so far, in crafter's order.
    """

    ground: str
    things: str
    facing: str
    items: tuple[int, ...]
    sleeping: bool
    steps: int
    unlocked: tuple[str, ...]


class CrafterStep(NamedTuple):
    """The result of one action: crafter's reward, the achievements that it counted, and the sight after it."""

    reward: float
    counted: tuple[str, ...]
    sight: CrafterSight


class Chart(NamedTuple):
    """All of a world, for planning: cell (x, y) stands at index `y * SIDE + x`.

    Attributes:
        ground: one mark of MATERIALS a cell.
        things: index -> mark of THINGS.
        place: index of the player.
        facing: its direction, (dx, dy).
        items: name -> number.
    """

    ground: str
    things: dict[int, str]
    place: int
    facing: tuple[int, int]
    items: dict[str, int]
    sleeping: bool
    unlocked: tuple[str, ...]


def character(action: int) -> str:
    """Return the character of an action's number."""
    return chr(ord("a") + action)


def daylight(step: int) -> float:
    """Return the daylight, from 0 to 1: a day has 300 steps, and from about step 150 to 270 of each it is dark."""
    return 1 - abs(math.cos(math.pi * (step / 300 % 1 + 0.3))) ** 3


def mark_of(sight: CrafterSight) -> str:
    """Return a text that equal moments of an episode have in common, and different ones hardly ever."""
    return f"{sight.ground}|{sight.things}|{sight.items}|{sight.facing}|{sight.sleeping}"
