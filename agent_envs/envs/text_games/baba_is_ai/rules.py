"""`BabaWorld` is BabaIsAI's world as an immutable value: objects and text blocks on a grid; functions give its rules and moves.

A rule is a noun block, the block `is` and a property block, one behind the other in a row or column. Who is YOU moves, all at
once, and pushes text; what is STOP lets nobody in; YOU on WIN wins. Rules are read anew after every move.
"""

from dataclasses import dataclass
from functools import lru_cache

from agent_envs.base.serialization import state_type

NOUNS = {"b": "baba", "d": "door", "k": "key", "o": "ball", "w": "wall"}
IS = "i"
YOU, WIN, STOP = "Y", "W", "S"
PROPERTIES = {YOU: "you", WIN: "win", STOP: "stop"}
WORDS = {**NOUNS, IS: "is", **PROPERTIES}
EMPTY = "."  # a cell without text
IDLE, UP, RIGHT, DOWN, LEFT = range(5)
OFF = -1  # beyond the edge of the map


@state_type
@dataclass(frozen=True, slots=True)
class BabaWorld:
    """One moment of the map. Cells are numbered `y * width + x`; y grows downwards.

    Attributes:
        texts: one character a cell: the letter of the word that lies there (see WORDS), or EMPTY.
        objects: one letter an object (see NOUNS); the index is the object's identity.
        places: the cell of each object. Objects may share a cell, with text too.
    """

    width: int
    height: int
    texts: str
    objects: str
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TextRules:
    """The rules in the text on a map.

    Attributes:
        lines: the rules as words, each once, sorted.
        you: letters of the objects that are YOU.
        win: of those that are WIN.
        stop: of those that are STOP and not YOU: what is YOU stops nothing, because it moves itself.
        blocks: each rule as it lies there: noun, property, and the cells of its three blocks.
    """

    lines: tuple[str, ...]
    you: str
    win: str
    stop: str
    blocks: tuple[tuple[str, str, tuple[int, int, int]], ...]


@lru_cache(maxsize=64)
def neighbours(width: int, height: int) -> tuple[tuple[int, ...], ...]:
    """Return, for each action (IDLE first) and cell, the next cell in that direction, or OFF; cached."""
    cells = [(x, y) for y in range(height) for x in range(width)]
    steps = ((0, 0), (0, -1), (1, 0), (0, 1), (-1, 0))
    return tuple(
        tuple((y + b) * width + x + a if 0 <= x + a < width and 0 <= y + b < height else OFF for x, y in cells)
        for a, b in steps
    )


@lru_cache(maxsize=4096)
def rules_of(width: int, texts: str) -> TextRules:
    """Return the rules that a map's text makes, read rightwards and downwards, cached; a kind that is YOU is not STOP."""
    blocks = []
    for middle, letter in enumerate(texts):
        if letter != IS:
            continue
        column = middle % width
        for step, inside in ((1, 0 < column < width - 1), (width, width <= middle < len(texts) - width)):
            if inside and texts[middle - step] in NOUNS and texts[middle + step] in PROPERTIES:
                cells = (middle - step, middle, middle + step)
                blocks.append((texts[middle - step], texts[middle + step], cells))
    pairs = sorted({(noun, what) for noun, what, _ in blocks})
    you, win, stop = ("".join(noun for noun, what in pairs if what == word) for word in (YOU, WIN, STOP))
    lines = tuple(sorted(f"{NOUNS[noun]} is {PROPERTIES[what]}" for noun, what in pairs))
    return TextRules(lines, you, win, "".join(noun for noun in stop if noun not in you), tuple(blocks))


def rules_in(world: BabaWorld) -> TextRules:
    """Return the rules of a map."""
    return rules_of(world.width, world.texts)


def moved(world: BabaWorld, action: int) -> BabaWorld:
    """Return the map after an action: all that is YOU moves a cell, pushing text, unless blocked; IDLE changes nothing.

    Text in the way is pushed, with the text behind it in a row. The edge of the map and STOP block whoever comes, and text.
    """
    if action == IDLE:
        return world
    rules, following = rules_in(world), neighbours(world.width, world.height)[action]
    objects, places, texts = world.objects, world.places, world.texts
    stops = [place for kind, place in zip(objects, places, strict=True) if kind in rules.stop]
    ways: dict[int, int] = {}
    pushed: set[int] = set()
    for kind, place in zip(objects, places, strict=True):
        if kind in rules.you and place not in ways:
            cell = following[place]
            chain = []
            while cell != OFF and cell not in stops and texts[cell] != EMPTY:
                chain.append(cell)
                cell = following[cell]
            free = cell != OFF and cell not in stops
            ways[place] = following[place] if free else place
            if free:
                pushed.update(chain)
    if pushed:
        texts = _push_texts(texts, pushed, following)
    places = tuple(
        [ways.get(place, place) if kind in rules.you else place for kind, place in zip(objects, places, strict=True)]
    )
    return BabaWorld(world.width, world.height, texts, objects, places)


def outcome(world: BabaWorld) -> str:
    """Return "won" when YOU stands on WIN, "lost" when nothing is YOU any more, else ""."""
    rules = rules_in(world)
    mine = [place for kind, place in zip(world.objects, world.places, strict=True) if kind in rules.you]
    if not mine:
        return "lost"
    if rules.win and any(
        kind in rules.win and place in mine for kind, place in zip(world.objects, world.places, strict=True)
    ):
        return "won"
    return ""


def _push_texts(texts: str, pushed: set[int], following: tuple[int, ...]) -> str:
    """Return the texts of a map after the pushed blocks moved to their next cells."""
    cells = list(texts)
    for cell in pushed:
        cells[cell] = EMPTY
    for cell in pushed:
        cells[following[cell]] = texts[cell]
    return "".join(cells)
