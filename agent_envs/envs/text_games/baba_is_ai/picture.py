"""`picture` draws BabaIsAI's map as an SVG of word tiles and shapes, and `drawing` writes it as words for a terminal."""

import textwrap

from agent_envs.envs.text_games.baba_is_ai.rules import EMPTY, NOUNS, PROPERTIES, WORDS, BabaWorld, TextRules, rules_in
from agent_envs.envs.text_games.svg import INK, LEAST_WIDTH, Cells, document

CELL = 36  # side of a cell
LINE = 18  # height of a line of the caption
_LETTER_WIDTH = 6.5  # of the caption, on average; generous
_LEGEND = "White frame: YOU. Gold: WIN. Bright words: a rule."
_FLOOR, _GRID, _PALE, _GOLD = "#20232e", "#2c3040", "#8b90a0", "#ffcf3f"
_PAPER = "#f6f3ea"
# Of each kind its fills and outlines within a cell of 36, behind the corner's `M x y`. A key: ring, shaft, teeth.
_BRICKS = "m2 3h14v8h-14zm16 0h16v8h-16zm-16 10h8v9h-8zm10 0h14v9h-14zm16 0h6v9h-6zm-26 11h14v9h-14zm16 0h16v9h-16z"
_SHAPES = {
    "baba": (
        ("#f4f1ea", "m8 15l2-8l5 5h7l4-5l2 8c4 6 2 13-4 13h-12c-6 0-8-7-4-13z"),
        ("#20232e", "m13 17h3v4h-3zm8 0h3v4h-3zm-4 6h4l-2 2z"),
    ),
    "key": (("#f2b632", "m11 10a8 8 0 1 1 1 11l0 0zm4 1a3 3 0 1 0 6 0a3 3 0 1 0-6 0zm1 8h4v13h-7v-4h3v-2h-3v-3h3z"),),
    "ball": (("#4f9be8", "m7 18a11 11 0 0 1 22 0a11 11 0 0 1-22 0z"), ("#a9d2fb", "m12 13a5 4 0 0 1 6-2a5 4 0 0 1-6 2z")),
    "door": (("#a8643a", "m9 5h18v26h-18z"), ("#7d4526", "m12 8h12v9h-12zm0 12h12v8h-12z"), ("#f2b632", "m22 16h3v4h-3z")),
    "wall": (("#6f7687", _BRICKS),),
}  # fmt: skip


def picture(world: BabaWorld) -> str:
    """Return the map as a standalone SVG: who is YOU in a frame, what is WIN in gold, the words of rules in force bright."""
    rules = rules_in(world)
    wide, high = world.width * CELL, world.height * CELL
    width = max(LEAST_WIDTH, wide)
    lines = textwrap.wrap(", ".join(rules.lines) or "no rule", int(width / _LETTER_WIDTH)) + [_LEGEND]
    cells = Cells(world.width, CELL)
    spots: dict[tuple[str, str], list[int]] = {}
    for kind, place in sorted(zip(world.objects, world.places, strict=True), key=lambda thing: thing[0] in rules.you):
        for shape in _SHAPES[NOUNS[kind]]:
            spots.setdefault(shape, []).append(place)
    parts = [
        f'<g transform="translate({(width - wide) // 2} 0)"><rect width="{wide}" height="{high}" fill="{_FLOOR}"/>',
        f'<path stroke="{_GRID}" d="{_grid(world)}"/><g fill-rule="evenodd">',
        cells.stamped(spots),
        "</g>",
        *_frames(world, rules, cells),
        '<g font-family="ui-monospace,monospace" font-size="11" font-weight="700" text-anchor="middle">',
        *_tiles(world, rules),
        "</g></g>",
    ]
    return document(width, high + LINE * len(lines) + 8, "".join(parts), lines, top=high, line=LINE, size=12)


def drawing(world: BabaWorld) -> str:
    """Return the map as words, five characters a cell (text in capitals, `+`: more lies beneath), and the rules in force."""
    rules = rules_in(world)
    edge = "+" + "-" * (5 * world.width) + "+"
    rows = [edge]
    for top in range(0, len(world.texts), world.width):
        cells = (_words(world, rules, place) for place in range(top, top + world.width))
        rows.append("|" + "".join(f"{words[0]:4}{'+' if len(words) > 1 else ' '}" for words in cells) + "|")
    return "\n".join([*rows, edge, "rules: " + (", ".join(rules.lines) or "none")])


def _words(world: BabaWorld, rules: TextRules, place: int) -> list[str]:
    """Return the words of a cell, the top first: who is YOU, then text, then other things; a dot alone for nothing."""
    here = sorted(kind for kind, at in zip(world.objects, world.places, strict=True) if at == place)
    letter = world.texts[place]
    text = [WORDS[letter].upper()] if letter != EMPTY else []
    mine = [NOUNS[kind] for kind in here if kind in rules.you]
    return [*mine, *text, *(NOUNS[kind] for kind in here if kind not in rules.you)] or ["  ."]


def _grid(world: BabaWorld) -> str:
    """Return the lines between the cells."""
    upright = (f"M{x * CELL} 0v{world.height * CELL}" for x in range(1, world.width))
    return "".join([*upright, *(f"M0 {y * CELL}h{world.width * CELL}" for y in range(1, world.height))])


def _frames(world: BabaWorld, rules: TextRules, cells: Cells) -> list[str]:
    """Return a gold frame around what is WIN and a white one around who is YOU, "" for either where there is none."""
    frames = []
    for kinds, color, side in ((rules.win, _GOLD, CELL - 3), (rules.you, "#fff", CELL - 7)):
        places = sorted({place for kind, place in zip(world.objects, world.places, strict=True) if kind in kinds})
        offset = (CELL - side) / 2
        path = "".join(f"{cells.corner(place)}m{offset:g} {offset:g}h{side}v{side}h-{side}z" for place in places)
        frames.append(f'<path fill="none" stroke="{color}" stroke-width="2" d="{path}"/>' if path else "")
    return frames


def _tiles(world: BabaWorld, rules: TextRules) -> list[str]:
    """Return the text blocks as SVG: filled where they take part in a rule, outlined where they do not."""
    rule_cells = {cell for _, _, cells in rules.blocks for cell in cells}
    tiles = []
    for place, letter in enumerate(world.texts):
        if letter == EMPTY:
            continue
        x, y = place % world.width * CELL, place // world.width * CELL
        paint = (
            f'fill="{_GOLD if letter in PROPERTIES else _PAPER}"'
            if place in rule_cells
            else f'fill="{_FLOOR}" stroke="{_PALE}"'
        )
        ink = INK if place in rule_cells else _PALE
        tiles.append(f'<rect x="{x + 2}" y="{y + 9}" width="{CELL - 4}" height="18" rx="3" {paint}/>')
        tiles.append(f'<text x="{x + CELL // 2}" y="{y + 22}" fill="{ink}">{WORDS[letter].upper()}</text>')
    return tiles
