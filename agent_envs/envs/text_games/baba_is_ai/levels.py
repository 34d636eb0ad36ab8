"""Maps of BabaIsAI are made from seeds, for the forty kinds of task that BALROG plays, and proved solvable by search."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from agent_envs.base.errors import Unsolvable
from agent_envs.base.serialization import canonical_json, encode_state, state_type
from agent_envs.envs.text_games.baba_is_ai.bound import Bound
from agent_envs.envs.text_games.baba_is_ai.rules import EMPTY, IS, NOUNS, STOP, WIN, YOU, BabaWorld, outcome, rules_in
from agent_envs.envs.text_games.baba_is_ai.solver import plan
from agent_envs.envs.text_games.seeded import Content, GameSource

MIXED = "mixed"
GOAL = "bring something that is YOU onto something that is WIN"
FEWEST_STEPS, MOST_STEPS = 3, 60  # of the shortest plan of a task
MOST_WORLDS = 1_000  # that the proof looks at: harder draws are left out
SMALL, LARGE = (6, 6), (11, 7)  # the maps of baba-is-ai without their border
DIVIDE = 5  # the column of the wall between two rooms
BABA, WALL, THINGS = "b", "w", "dko"  # THINGS may be WIN, and distract


@dataclass(frozen=True, slots=True)
class Recipe:
    """The recipe of a kind of task.

    Attributes:
        rooms: 1, or 2 with a wall between them.
        stop: `wall is stop` is in force (`on`), lies broken (`off`), is in force out of reach (`fixed`), or is absent ("").
        win: the rule that makes the thing WIN is in force (`on`), or its noun lies apart (`off`) or out of reach (`lost`).
        where: the things stand in the room of YOU (`near`), in the other one (`far`), or in either (`any`).
        thing: a second thing stands there.
        noun: a loose noun block, of the second thing, there or not (`thing`), of a third one (`other`), or none ("").
        decoy: a second rule makes WIN what is not there.
        you: the second thing is to be made YOU: its noun lies near, and `baba is you` can be changed.
    """

    rooms: int = 1
    stop: str = ""
    win: str = "on"
    where: str = "near"
    thing: bool = False
    noun: str = ""
    decoy: bool = False
    you: bool = False


_DISTRACTIONS: dict[str, dict[str, Any]] = {
    "": {},
    "-distr_obj": {"thing": True},
    "-distr_rule": {"noun": "thing"},
    "-distr_obj_rule": {"thing": True, "noun": "thing"},
    "-distr_obj-irrelevant_rule": {"thing": True, "noun": "other"},
}
_BASES = {
    "goto_win": Recipe(),
    "make_win": Recipe(win="off"),
    "two_room-goto_win": Recipe(2, "off"),
    "two_room-make_win": Recipe(2, "off", "off"),
    "two_room-break_stop-goto_win": Recipe(2, "on", where="far"),
    "two_room-break_stop-make_win": Recipe(2, "on", "off", where="far"),
    "two_room-maybe_break_stop-goto_win": Recipe(2, "on", where="any"),
}
RECIPES = {
    **{base + extra: replace(_BASES[base], **_DISTRACTIONS[extra]) for base in _BASES for extra in _DISTRACTIONS},
    "two_room-goto_win-distr_win_rule": Recipe(2, "off", thing=True, noun="thing", decoy=True),
    "two_room-make_win-distr_win_rule": Recipe(2, "off", "off", thing=True, noun="thing", decoy=True),
    "two_room-make_you": Recipe(2, "fixed", where="far", thing=True, noun="thing", you=True),
    "two_room-make_you-make_win": Recipe(2, "fixed", "off", "far", thing=True, noun="thing", you=True),
    "two_room-make_wall_win": Recipe(2, "on", "lost", "far", thing=True, noun="other"),
}
KINDS = tuple(RECIPES)


class Full(Exception):
    """A draft has no room for what it should take."""


class MapDraft:
    """A map in the making; x grows to the right, y downwards."""

    def __init__(self, rng: random.Random, size: tuple[int, int]) -> None:
        self.rng, self.size = rng, size
        self.texts: dict[tuple[int, int], str] = {}
        self.reserved: set[tuple[int, int]] = set()  # stays free of objects
        self.objects: list[tuple[str, tuple[int, int]]] = []

    def cells(self, columns: Iterable[int], rows: Iterable[int]) -> list[tuple[int, int]]:
        """Return the free cells of a rectangle."""
        occupied = {place for _, place in self.objects} | self.texts.keys() | self.reserved
        rows = tuple(rows)
        return [(x, y) for x in columns for y in rows if (x, y) not in occupied]

    def line(self, words: str, starts: list[tuple[int, int, bool]]) -> list[tuple[int, int]]:
        """Write words at a random free start (x, y, downwards) and return their cells; shuffles `starts`; Full if none."""
        self.rng.shuffle(starts)
        for x, y, down in starts:
            cells = [(x, y + n) if down else (x + n, y) for n in range(len(words))]
            if not any(cell in self.texts for cell in cells):
                self.texts.update(zip(cells, words, strict=True))
                return cells
        raise Full

    def text(self, word: str, cells: list[tuple[int, int]]) -> None:
        """Put a word on one of the cells."""
        self.texts[self._one(cells)] = word

    def thing(self, kind: str, cells: list[tuple[int, int]]) -> None:
        """Put an object on one of the cells."""
        self.objects.append((kind, self._one(cells)))

    def shift(self, cell: tuple[int, int], cells: list[tuple[int, int]]) -> None:
        """Move a word to one of the cells."""
        self.texts[self._one(cells)] = self.texts.pop(cell)

    def world(self, turned: bool) -> BabaWorld:
        """Return the map as a world, rows and columns exchanged if `turned`: text reads in both, so both are one puzzle."""
        width, height = self.size[::-1] if turned else self.size
        texts, objects = [EMPTY] * (width * height), []
        for (x, y), word in self.texts.items():
            texts[x * width + y if turned else y * width + x] = word
        for kind, (x, y) in self.objects:
            objects.append((kind, x * width + y if turned else y * width + x))
        objects.sort()
        kinds, places = "".join(kind for kind, _ in objects), tuple(place for _, place in objects)
        return BabaWorld(width, height, "".join(texts), kinds, places)

    def _one(self, cells: list[tuple[int, int]]) -> tuple[int, int]:
        """Draw one of some cells; raises Full where there is none."""
        if not cells:
            raise Full
        return self.rng.choice(cells)


@state_type
@dataclass(frozen=True, slots=True)
class BabaTask:
    """The data of a task: its kind, and the map at the start."""

    kind: str
    world: BabaWorld


class BabaSource(GameSource):
    """Maps of one or more kinds: task number i is of kind i modulo their number."""

    def __init__(self, kind: str = MIXED) -> None:
        """Take a kind, or `mixed` for all of them by turns."""
        super().__init__(f"baba-{kind}", self._content, sound=lambda content: _is_fair(content.data.world))
        self._kinds = KINDS if kind == MIXED else (kind,)

    def _content(self, text: str) -> Content | None:
        """Return the map of a seed text, whose last part but one is the task's index; None if the draw makes no task."""
        kind = self._kinds[int(text.split("/")[-2]) % len(self._kinds)]
        world = drafted(RECIPES[kind], random.Random(text))
        if world is None:
            return None
        return Content(GOAL, canonical_json(encode_state(world)), data=BabaTask(kind, world))


def drafted(recipe: Recipe, rng: random.Random) -> BabaWorld | None:
    """Return a map drawn by a recipe, perhaps unsolvable; None if there is no room, a rule too many or few, or a short cut."""
    draft = MapDraft(rng, SMALL if recipe.rooms == 1 else LARGE)
    first, second, absent = rng.sample(THINGS, 3)
    try:
        _write(draft, recipe, first, second if recipe.noun == "thing" else absent, absent)
        _furnish(draft, recipe, first, second)
    except Full:
        return None
    world = draft.world(turned=rng.random() < 0.5)
    rules = {f"{NOUNS[BABA]} is you"}
    rules |= {f"{NOUNS[WALL]} is stop"} if recipe.stop in ("on", "fixed") else set()
    rules |= {f"{NOUNS[first]} is win"} if recipe.win == "on" else set()
    rules |= {f"{NOUNS[absent]} is win"} if recipe.decoy else set()
    if set(rules_in(world).lines) != rules or outcome(world):
        return None
    return None if _short_cut(world, recipe, first, second) else world


def _short_cut(world: BabaWorld, recipe: Recipe, first: str, second: str) -> bool:
    """Return whether another thing may become YOU, or win, although the recipe wants that out of reach."""
    bound = Bound(world)
    yous = () if recipe.you else {kind for kind in world.objects if kind != BABA}
    wins = {first} if recipe.win == "lost" else {second} if recipe.thing and not recipe.you else ()
    return any(bound.makeable(world.texts, noun, what) for nouns, what in ((yous, YOU), (wins, WIN)) for noun in nouns)


def _is_fair(world: BabaWorld) -> bool:
    """Return whether a map can be won in FEWEST_STEPS to MOST_STEPS steps; False also where the search gives up."""
    try:
        return len(plan(world, MOST_WORLDS, MOST_STEPS)) >= FEWEST_STEPS
    except Unsolvable:
        return False


def _columns(recipe: Recipe) -> tuple[range, range]:
    """Return the columns of the room where YOU starts, and of the other room; where there is one room, twice the same."""
    if recipe.rooms == 1:
        return range(SMALL[0]), range(SMALL[0])
    return range(DIVIDE), range(DIVIDE + 1, LARGE[0])


def _corners(draft: MapDraft, *names: str) -> list[tuple[int, int, bool]]:
    """Return the starts (x, y, downwards) of lines of three along an edge in a corner, of each named group in turn.

    `end` are those whose property is in the corner: they hold without their noun as well. `start` and `down` are those whose
    noun is there. `low` is the one at the bottom: its noun and its `is` fit into no second line.
    """
    right, bottom = draft.size[0] - 1, draft.size[1] - 1
    places = {
        "start": [(0, 0, False), (0, 0, True), (0, bottom - 2, True)],
        "end": [(right - 2, 0, False), (right - 2, bottom, False), (right, bottom - 2, True)],
        "down": [(right, 0, True)],
        "low": [(0, bottom, False)],
    }
    return [place for name in names for place in places[name]]


def _write(draft: MapDraft, recipe: Recipe, first: str, loose: str, absent: str) -> None:
    """Place the text: the rules, the parts of broken rules, a loose noun; reserve WIN's cells. Full where there is no room."""
    (home, away), rows = _columns(recipe), range(draft.size[1])
    inner = rows[1:-1]
    margin = [(0, y, False) for y in inner]
    draft.line(BABA + IS + YOU, margin if recipe.you else _corners(draft, "start"))
    if recipe.stop:
        beside = [(1, y, False) for y in inner] if recipe.win == "lost" else margin
        stop = draft.line(WALL + IS + STOP, _corners(draft, "low") if recipe.stop == "fixed" else beside)
        if recipe.stop == "off":
            draft.shift(draft.rng.choice(stop[1:]), draft.cells(home[1:-1], inner))
    win = draft.line(first + IS + WIN, _corners(draft, "end", *(["down"] if recipe.win == "on" else [])))
    if recipe.decoy:
        draft.line(absent + IS + WIN, [(away[-3], y, False) for y in inner])
    middle, rim = draft.cells(away[1:-1], inner), _rim(draft, away)
    if recipe.win != "on":
        draft.shift(win[0], rim if recipe.win == "lost" else middle)
    if recipe.you:
        draft.text(loose, draft.cells(home[1:-1], inner))
    elif recipe.noun:
        fast = recipe.thing and recipe.noun == "thing"
        draft.text(loose, _rim(draft, away) if fast else draft.cells(away[1:-1], inner))
    draft.reserved = set(win)


def _rim(draft: MapDraft, columns: range) -> list[tuple[int, int]]:
    """Return the free cells of a room along the edge of the map: text cannot be pushed away from it."""
    right, bottom = draft.size[0] - 1, draft.size[1] - 1
    return [(x, y) for x, y in draft.cells(columns, range(bottom + 1)) if x in (0, right) or y in (0, bottom)]


def _furnish(draft: MapDraft, recipe: Recipe, first: str, second: str) -> None:
    """Place the wall between two rooms, Baba at home, and the one or two things where the recipe wants them, or raise Full."""
    (home, away), rows = _columns(recipe), range(draft.size[1])
    if recipe.rooms == 2:
        draft.objects += [(WALL, (DIVIDE, y)) for y in rows]
    where = {"near": [*home], "far": [*away], "any": [*home, *away]}[recipe.where]
    draft.thing(BABA, draft.cells(home, rows))
    for kind in (first, second) if recipe.thing else (first,):
        draft.thing(kind, draft.cells(where, rows))
