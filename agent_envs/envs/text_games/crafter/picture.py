"""`picture` draws what a Crafter player sees as an SVG, and `drawing` writes it in letters for a terminal."""

import textwrap

from agent_envs.envs.text_games.crafter.describe import CENTER, FULL, KIND_OF, VITALS, carried, faced, listed, phrase
from agent_envs.envs.text_games.crafter.sight import ACROSS, DOWN, NOTHING, OUTSIDE, CrafterSight, daylight
from agent_envs.envs.text_games.svg import INK, Cells, document

SCALE = 3
CELL = 12  # side of a cell, in units of the shapes
LINE = 18  # height of a line of the caption
WIDTH = ACROSS * CELL * SCALE
_CELLS = Cells(ACROSS, CELL)
_LETTER_WIDTH = 7.1  # of the caption, on average; generous
_DUSK = 0.75  # the daylight below which the view grows dark
_STONE, _GRASS = "#8f949c", "#86b861"
_GROUNDS = {
    "grass": _GRASS, "tree": _GRASS, "sand": "#ead9a3", "path": "#c8ad85", "water": "#5a9be0", "stone": _STONE,
    "coal": _STONE, "iron": _STONE, "diamond": _STONE, "lava": "#e4572e", "table": "#c8ad85", "furnace": "#c8ad85",
}  # fmt: skip
_BEING = "m4.2 1h3.6v3.2h-3.6zm-1.4 3.6h6.4v3.4h-6.4zm1.2 3.8h1.7v2.8h-1.7zm2.4 0h1.7v2.8h-1.7z"
_LUMPS = "m2 3h3v2h-3zm5-1h2v2h-2zm-1 4h3v3h-3zm-4 1h2v2h-2z"
_SPROUT = "m5.5 11v-4l-3-2.5l3 .8v-2.3l1 0v3.3l3-1.8l-3 3v3.5z"
_FLIGHTS = {
    "left": "m1 6l4-3v2h6v2h-6v2z", "right": "m11 6l-4 3v-2h-6v-2h6v-2z",
    "up": "m6 1l3 4h-2v6h-2v-6h-2z", "down": "m6 11l-3-4h2v-6h2v6h2z",
}  # fmt: skip
# Of each kind its fills and outlines within a cell, behind the corner's `M x y`.
_SHAPES = {
    "tree": (("#6b4a2b", "m5 8h2v3h-2z"), ("#2f6d3a", "m6 1l4.5 7.5h-9z")),
    "water": (("#a9ccf3", "m2 3.5h3v1h-3zm4 4h4v1h-4z"),),
    "lava": (("#ffd25a", "m2 3h3v1.5h-3zm4 4h4v1.5h-4z"),),
    "coal": ((INK, _LUMPS),),
    "iron": (("#e8a25c", _LUMPS),),
    "diamond": (("#e4fbff", "m6 2l3.5 4l-3.5 4l-3.5-4z"),),
    "table": (("#7a4f27", "m1.5 3h9v2.4h-9zm.6 3h1.6v4.5h-1.6zm6.2 0h1.6v4.5h-1.6z"),),
    "furnace": (("#555a63", "m1.5 1.5h9v9h-9z"), ("#ffb02e", "m3.5 6.5h5v3h-5z")),
    "cow": (("#5b3a22", "m1.5 4h7v4h-7zm0 4.3h1.4v2.3h-1.4zm5.6 0h1.4v2.3h-1.4zm1.8-5.8h2.2v3.2h-2.2z"),),
    "zombie": (("#1f6b3b", _BEING),),
    "skeleton": (("#f4f4f0", _BEING),),
    "young plant": (("#2f6d3a", _SPROUT),),
    "ripe plant": (("#2f6d3a", _SPROUT), ("#d8347c", "m4 1h4v3h-4z")),
    "fence": (("#7a4f27", "m1 4h10v1.5h-10zm0 3h10v1.5h-10zm1-5h1.5v9h-1.5zm6 0h1.5v9h-1.5z"),),
    **{f"arrow flying {name}": ((INK, path),) for name, path in _FLIGHTS.items()},
}
_NOSES = {"left": "m0 6l3-2.5v5z", "right": "m12 6l-3-2.5v5z", "up": "m6 0l2.5 3h-5z", "down": "m6 12l2.5-3h-5z"}


def picture(sight: CrafterSight) -> str:
    """Return the local view as a standalone SVG with vital signs and inventory below; darkness and sleep dim it."""
    wide, high = ACROSS * CELL, DOWN * CELL
    grounds: dict[str, list[int]] = {}
    shapes: dict[tuple[str, str], list[int]] = {}
    for place, (ground, thing) in enumerate(zip(sight.ground, sight.things, strict=True)):
        if ground != OUTSIDE:
            grounds.setdefault(_GROUNDS[KIND_OF[ground]], []).append(place)
        for mark in (ground, thing):
            for shape in _SHAPES.get(KIND_OF.get(mark, ""), ()):
                shapes.setdefault(shape, []).append(place)
    shade = 0.6 if sight.sleeping else 0.75 * max(_DUSK - daylight(sight.steps), 0)
    nose = _NOSES[sight.facing]
    lines = _inventory(sight, int(WIDTH / _LETTER_WIDTH))
    parts = [
        f'<g transform="scale({SCALE})"><rect width="{wide}" height="{high}" fill="#3a3f47"/>',
        *(f'<path fill="{fill}" d="{_CELLS.runs(places)}"/>' for fill, places in grounds.items()),
        _CELLS.stamped(shapes),
        f'<g stroke="#fff" stroke-width=".5"><path fill="#2b4fa3" d="{_CELLS.corner(CENTER)}{_BEING}"/>',
        f'<path fill="#e0357a" d="{_CELLS.corner(CENTER)}{nose}"/></g>',
        f'<rect width="{wide}" height="{high}" fill="#070b26" opacity="{shade:.2f}"/></g>',
    ]
    height = high * SCALE + 32 + LINE * len(lines)
    top = high * SCALE + 24
    return document(WIDTH, height, "".join(parts), lines, top=top, left=6, line=LINE, before=_signs(sight))


def drawing(sight: CrafterSight) -> str:
    """Return the local view in letters, with a legend, the vital signs and the inventory."""
    marks = [ground if thing == NOTHING else thing for ground, thing in zip(sight.ground, sight.things, strict=True)]
    marks[CENTER] = "@"
    rows = [" ".join(marks[start : start + ACROSS]).rstrip() for start in range(0, len(marks), ACROSS)]
    legend = [f"{mark} {KIND_OF[mark]}" for mark in KIND_OF if mark in marks]
    signs = [f"{name} {number}" for name, number in zip(VITALS, sight.items, strict=False)]
    front = faced(sight)
    you = f"@ you (looking {sight.facing}{f', at {phrase(front)}' if front else ''})"
    lines = textwrap.wrap(", ".join([you, *legend]), 78)
    return "\n".join([*rows, *lines, ", ".join(signs), *_inventory(sight, 78)])


def _signs(sight: CrafterSight) -> str:
    """Return the four vital signs as SVG bars, red where low, with names and numbers."""
    top, each = DOWN * CELL * SCALE + 4, WIDTH // len(VITALS)
    parts = []
    for column, (name, number) in enumerate(zip(VITALS, sight.items, strict=False)):
        fill = "#c8352f" if number <= FULL // 3 else "#3d8f4d"
        left = column * each + 6
        parts.append(
            f'<path fill="#dfe3e8" d="M{left} {top}h{each - 12}v4h-{each - 12}z"/>'
            f'<path fill="{fill}" d="M{left} {top}h{(each - 12) * number / FULL:g}v4h-{(each - 12) * number / FULL:g}z"/>'
            f'<text x="{left}" y="{top + 18}">{name} {number}</text>'
        )
    return "".join(parts)


def _inventory(sight: CrafterSight, width: int) -> list[str]:
    """Return the line of what the player carries, wrapped to the width; it begins with sleep where the player sleeps."""
    words = f"{'asleep, ' if sight.sleeping else ''}carries {listed(carried(sight)) or 'nothing'}"
    return textwrap.wrap(words, width)
