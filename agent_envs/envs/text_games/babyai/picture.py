"""`picture` draws the whole BabyAI level as an SVG, and `drawing` writes it in letters for a terminal.

Both show more than the policy sees; what lies outside its view is dimmed (SVG) or has no floor dots (letters).
"""

import textwrap

from agent_envs.envs.text_games.babyai import grid
from agent_envs.envs.text_games.babyai.describe import noun_phrase
from agent_envs.envs.text_games.babyai.mission import surface
from agent_envs.envs.text_games.svg import INK, LEAST_WIDTH, Cells, document

CELL = 20  # side of a cell, before small levels are scaled up
MOST_SCALE = 2
LINE = 17  # height of a line of the caption
_LETTER_WIDTH = 6.9  # of the caption, on average; generous
_FLOOR, _STONE = "#f3f1ea", "#575d68"
_COLORS = {
    "red": "#d3403f", "green": "#3d9a4c", "blue": "#3a6cd0", "purple": "#8e4ec6", "yellow": "#e3b324", "grey": "#858b95",
}  # fmt: skip
# Outlines within a cell of 20, behind the corner's `M x y`. A key: ring with a hole, shaft, two teeth.
_KEY = (
    "m10 2.5a4 4 0 0 1 1.3 7.8v7.2h-4.8v-2.2h2.2v-1.8h-2.2v-2.1h2.2v-1.1a4 4 0 0 1 1.3-7.8"
    "m0 2.4a1.6 1.6 0 0 0 0 3.2a1.6 1.6 0 0 0 0-3.2z"
)
_BALL = "m3.5 10a6.5 6.5 0 0 1 13 0a6.5 6.5 0 0 1-13 0z"
_BOX = "m3 4h14v12h-14zm2 2v3h10v-3zm0 5v3h10v-3z"
_CLOSED = "m1 1h18v18h-18zm2 2v14h14v-14zm1.5 1.5h11v11h-11zm7.5 4.2a1.5 1.5 0 0 0 0 3a1.5 1.5 0 0 0 0-3z"
_LOCKED = "m1 1h18v18h-18zm9 4.5a2.3 2.3 0 0 0-1.2 4.2l-.8 4.8h4l-.8-4.8a2.3 2.3 0 0 0-1.2-4.2z"
_OPEN = "m1 1h3.5v18h-3.5zm15.5 0h2.5v18h-2.5z"
_SHAPES = {("key", ""): _KEY, ("ball", ""): _BALL, ("box", ""): _BOX}
_SHAPES |= {("door", "closed"): _CLOSED, ("door", "locked"): _LOCKED, ("door", "open"): _OPEN}
_ARROWS = ("m3 3l15 7l-15 7l4-7z", "m17 3l-7 15l-7-15l7 4z", "m17 17l-15-7l15-7l-4 7z", "m3 17l7-15l7 15l-7-4z")
_LETTERS = {"key": "K", "ball": "O", "box": "B", "open": "/", "closed": "+", "locked": "!"}
_INITIALS = {"red": "r", "green": "g", "blue": "b", "purple": "p", "yellow": "y", "grey": "e"}


def picture(world: grid.BabyWorld) -> str:
    """Return the level as a standalone SVG: walls, things in their colors, the agent; what it cannot see is dimmed."""
    wide, high = world.width * CELL, world.height * CELL
    cells, scale = Cells(world.width, CELL), max(1, min(MOST_SCALE, LEAST_WIDTH / wide))
    width, bottom = max(LEAST_WIDTH, wide), round(high * scale)
    lines = _caption(world, int(width / _LETTER_WIDTH))
    visible = _visible_cells(world)
    walls = [at for at, content in enumerate(world.cells) if content == grid.WALL]
    dark = [at for at, content in enumerate(world.cells) if at not in visible and content != grid.WALL]
    parts = [
        f'<g fill-rule="evenodd" transform="translate({(width - wide * scale) / 2:g}) scale({scale:g})">',
        f'<rect width="{wide}" height="{high}" fill="{_FLOOR}"/>',
        f'<path fill="{_STONE}" d="{cells.runs(walls)}"/>',
        *(_color_path(world, cells, color, ink) for color, ink in _COLORS.items()),
        f'<path fill="{INK}" stroke="#fff" d="{cells.corner(world.place)}{_ARROWS[world.facing]}"/>',
        f'<path fill="{_STONE}" opacity=".36" d="{cells.runs(dark)}"/></g>',
    ]
    return document(width, bottom + LINE * len(lines) + 8, "".join(parts), lines, top=bottom, line=LINE)


def drawing(world: grid.BabyWorld) -> str:
    """Return the level in letters, two a cell: a thing's state or kind and its color, with legend and caption."""
    arrow = ">v<^"[world.facing]
    visible, rows = _visible_cells(world), []
    for top in range(0, len(world.cells), world.width):
        row = []
        for at in range(top, top + world.width):
            content = world.cells[at]
            if at == world.place:
                row.append(arrow * 2)
            elif content == grid.WALL:
                row.append("##")
            else:
                row.append(
                    (" ." if at in visible else "  ")
                    if content == grid.EMPTY
                    else _letters(world.things[grid.identity(content)])
                )
        rows.append("".join(row).rstrip())
    there = {
        _letters(thing): noun_phrase(thing.kind, thing.color, thing.state) for thing in world.things if thing.place >= 0
    }
    legend = [f"{letters} {words}" for letters, words in sorted(there.items())]
    notes = textwrap.wrap(", ".join([f"{arrow * 2} you", ". what you see", *legend]), 78)
    return "\n".join([*rows, *notes, *_caption(world, 78)])


def _caption(world: grid.BabyWorld, letters: int) -> list[str]:
    """Return a picture's caption: the mission, wrapped, then what is carried, if anything, and the steps so far."""
    mission = textwrap.wrap(surface(world.instructions), letters) or [""]
    load = world.things[world.carrying] if world.carrying >= 0 else None
    carried = f"carrying {noun_phrase(load.kind, load.color)}, " if load else ""
    return [*mission, f"{carried}step {world.steps} of {world.limit}"]


def _letters(thing: grid.BabyThing) -> str:
    """Return the two letters of a thing in the picture: state or kind, and colour."""
    return _LETTERS[thing.state or thing.kind] + _INITIALS[thing.color]


def _color_path(world: grid.BabyWorld, cells: Cells, color: str, ink: str) -> str:
    """Return all things of a color that stand on the level as one path; "" without any."""
    shapes = [
        cells.corner(thing.place) + _SHAPES[thing.kind, thing.state]
        for thing in world.things
        if thing.color == color and thing.place >= 0
    ]
    return f'<path fill="{ink}" d="{"".join(shapes)}"/>' if shapes else ""


def _visible_cells(world: grid.BabyWorld) -> set[int]:
    """Return the cells that the agent sees, its own included, those beyond the grid left out."""
    y, x = divmod(world.place, world.width)
    ahead = ((1, 0), (0, 1), (-1, 0), (0, -1))[world.facing]
    right = ((1, 0), (0, 1), (-1, 0), (0, -1))[(world.facing + 1) % 4]
    cells = set()
    for number, content in enumerate(grid.visible(world)):
        far, aside = grid.VIEW - 1 - number // grid.VIEW, number % grid.VIEW - grid.HALF
        column, row = x + far * ahead[0] + aside * right[0], y + far * ahead[1] + aside * right[1]
        if content != grid.UNSEEN and 0 <= column < world.width and 0 <= row < world.height:
            cells.add(row * world.width + column)
    return cells
