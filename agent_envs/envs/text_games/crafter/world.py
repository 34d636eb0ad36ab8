"""`CrafterLive` runs Crafter's world by PyPI's `crafter` without its pictures, and can be stepped and copied.

Rules, creatures and chance are those of `crafter.Env` at its default size, draw for draw: where it is dark, crafter spends
random numbers on the noise of each picture, and so do we. One thing differs. Crafter keeps the creatures of a chunk in a set,
so which of them goes depends on memory addresses; here they stand in the order in which they came.
"""

import io
import warnings
from collections import defaultdict
from contextlib import redirect_stderr
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from agent_envs.base.errors import MissingExtra
from agent_envs.base.serialization import canonical_json, sha256_text
from agent_envs.envs.text_games.crafter.sight import (
    ACROSS,
    DIRECTIONS,
    DOWN,
    MATERIALS,
    NOTHING,
    OUTSIDE,
    SIDE,
    THINGS,
    Chart,
    CrafterSight,
    CrafterStep,
    daylight,
    mark_of,
)
from agent_envs.envs.text_games.crafter.terrain import terrain
from agent_envs.envs.text_games.muted_stdout import muted_stdout

_NEAR = 18  # only creatures nearer than this are moved: twice the side of crafter's view, which it takes as 9 by 9
_NOISE = 63 * 49  # pixels of the local view in crafter's default picture, one draw each
_CHUNK = (12, 12)


class CrafterRules(NamedTuple):
    """Crafter's own tables (`data.yaml`): names in its order, and what each action asks for and gives."""

    actions: tuple[str, ...]
    items: tuple[str, ...]
    achievements: tuple[str, ...]
    collect: dict[str, dict[str, Any]]
    place: dict[str, dict[str, Any]]
    make: dict[str, dict[str, Any]]
    digest: str


class CrafterLive:
    """One running game; it changes with each action."""

    def __init__(self, seed: int) -> None:
        """Make the world of a seed, which is the one that `crafter.Env` makes where its own world is given that seed."""
        kit = _kit()
        self._kit, self.steps, self.unlocked = kit, 0, frozenset[str]()
        self._world = world = kit.world((SIDE, SIDE), kit.materials, _CHUNK)
        world.reset(seed=seed % (2**31 - 1))
        world.daylight = daylight(0)
        self._player = player = kit.player(world, (SIDE // 2, SIDE // 2))
        world.add(player)
        new = terrain(world.random, SIDE, SIDE, *player.pos.tolist())
        world._mat_map[:] = np.array([world._mat_ids[name] for name in new.materials], np.uint8).reshape(SIDE, SIDE)
        for kind, x, y in new.creatures:
            world.add(kit.creatures[kind](world, (x, y), *((player,) if kind != "Cow" else ())))
        self._health = player.health

    def act(self, action: str) -> CrafterStep:
        """Take one action by its character, crafter's `Env.step` without the picture; return reward, counts and sight."""
        world, player = self._world, self._player
        before = dict(player.achievements)
        self.steps += 1
        world.daylight = daylight(self.steps)
        player.action = self._kit.rules.actions[ord(action) - ord("a")]
        for thing in self._movers():
            (x, y), (left, top) = player.pos.tolist(), thing.pos.tolist()
            if abs(x - left) + abs(y - top) < _NEAR:
                thing.update()
        if self.steps % 10 == 0:
            for chunk, things in world.chunks.items():
                self._kit.env._balance_chunk(self, chunk, things)
        if world.daylight < 0.5:
            world.random.random_sample(_NOISE)
        reward = (player.health - self._health) / 10
        self._health = player.health
        counted = tuple(name for name, count in player.achievements.items() if count > before[name])
        if not self.unlocked.issuperset(counted):
            self.unlocked = self.unlocked.union(counted)
            reward += 1.0
        return CrafterStep(reward, counted, self.sight())

    def copy(self) -> "CrafterLive":
        """Return an independent copy of the game: its world, creatures, chunks and generator."""
        twin: CrafterLive = _twin(self)
        world = twin._world = _twin(self._world)
        world.random = np.random.RandomState(0)
        world.random.set_state(self._world.random.get_state())
        world._mat_map, world._obj_map = self._world._mat_map.copy(), self._world._obj_map.copy()
        twins = {id(thing): _twin(thing) for thing in self._world._objects if thing}
        twin._player = twins[id(self._player)]
        for thing in twins.values():
            thing.world, thing.random, thing.inventory = world, world.random, dict(thing.inventory)
            if "player" in vars(thing):
                thing.player = twin._player
        twin._player.achievements = dict(self._player.achievements)
        world._objects = [thing and twins[id(thing)] for thing in self._world._objects]
        world._chunks = defaultdict(_Roll)
        for chunk, things in self._world._chunks.items():
            world._chunks[chunk] = _Roll.fromkeys(twins[id(thing)] for thing in things)
        return twin

    def sight(self) -> CrafterSight:
        """Return the player's sight: ground and things of the window, facing, inventory, sleep, steps and achievements."""
        world, player = self._world, self._player
        x, y = player.pos.tolist()
        left, top = x - ACROSS // 2, y - DOWN // 2
        window = (slice(max(left, 0), left + ACROSS), slice(max(top, 0), top + DOWN))
        ground = _frame(world._mat_map[window].T.tobytes().translate(self._kit.marks).decode(), left, top)
        things = [NOTHING] * (ACROSS * DOWN)
        columns, rows = world._obj_map[window].nonzero()
        for column, row in zip((columns + max(-left, 0)).tolist(), (rows + max(-top, 0)).tolist(), strict=True):
            thing = world._objects[world._obj_map[left + column, top + row]]
            if thing is not player:
                things[row * ACROSS + column] = THINGS[thing.texture]
        unlocked = tuple(name for name in self._kit.rules.achievements if name in self.unlocked)
        items = tuple(player.inventory.values())
        facing = _direction(player)
        return CrafterSight(ground, "".join(things), facing, items, player.sleeping, self.steps, unlocked)

    def mark(self) -> str:
        """Return `mark_of` what the player sees."""
        return mark_of(self.sight())

    def chart(self) -> Chart:
        """Return the whole world, the player and the achievements as plain values."""
        world, player = self._world, self._player
        ground = world._mat_map.T.tobytes().translate(self._kit.marks).decode()
        things = {
            int(thing.pos[1]) * SIDE + int(thing.pos[0]): THINGS[thing.texture]
            for thing in world._objects
            if thing and thing is not player
        }
        place = int(player.pos[1]) * SIDE + int(player.pos[0])
        unlocked = tuple(sorted(self.unlocked))
        facing = DIRECTIONS[_direction(player)]
        return Chart(ground, things, place, facing, dict(player.inventory), player.sleeping, unlocked)

    def _movers(self) -> list[Any]:
        """Return the objects near enough to move this turn, in crafter's order, the player first."""
        world = self._world
        x, y = self._player.pos.tolist()
        window = world._obj_map[max(x - _NEAR, 0) : x + _NEAR + 1, max(y - _NEAR, 0) : y + _NEAR + 1]
        return [world._objects[number] for number in np.sort(window[window > 0]).tolist()]

    def _balance_object(self, *rule: Any) -> None:
        """Balance the creatures of a chunk by crafter's own rule."""
        self._kit.env._balance_object(self, *rule)


def rules() -> CrafterRules:
    """Return crafter's tables; raises MissingExtra where `crafter` is not installed."""
    return _kit().rules  # type: ignore[no-any-return]


def world_text(live: CrafterLive) -> str:
    """Return a new world as one text: SIDE rows of marks, then the player's place and what stands where."""
    chart = live.chart()
    rows = [chart.ground[start : start + SIDE] for start in range(0, SIDE * SIDE, SIDE)]
    things = " ".join(f"{mark}{place}" for place, mark in sorted(chart.things.items()))
    return "\n".join([*rows, f"@{chart.place} {things}"])


def world_digest(text: str) -> str:
    """Return the digest of a new world and of the rules that it is played by."""
    return sha256_text(f"{rules().digest}\n{text}")


_pristine = lru_cache(maxsize=64)(CrafterLive)


def new_game(seed: int) -> CrafterLive:
    """Return the game of a seed at its start. The last worlds are kept, because tasks and episodes ask for the same."""
    return _pristine(seed).copy()


def _frame(cells: str, left: int, top: int) -> str:
    """Return a window's cells, with OUTSIDE for those beyond the world's edge; unchanged where none is."""
    before, after = max(-left, 0), max(left + ACROSS - SIDE, 0)
    above, below = max(-top, 0), max(top + DOWN - SIDE, 0)
    if not (before or after or above or below):
        return cells
    wide = ACROSS - before - after
    rows = [cells[start : start + wide] for start in range(0, len(cells), wide)]
    middle = "".join(OUTSIDE * before + row + OUTSIDE * after for row in rows)
    return OUTSIDE * (ACROSS * above) + middle + OUTSIDE * (ACROSS * below)


def _twin(thing: Any) -> Any:
    """Return a shallow copy of an object, made without its constructor."""
    twin = object.__new__(type(thing))
    vars(twin).update(vars(thing))
    return twin


def _direction(player: Any) -> str:
    """Return the direction in which the player faces as a word."""
    x, y = player.facing
    return "left" if x < 0 else "right" if x > 0 else "up" if y < 0 else "down"


class _Roll(dict[Any, None]):
    """The creatures of a chunk in the order in which they came, in the place of crafter's set."""

    def add(self, thing: Any) -> None:
        """Add a creature at the end; one that is there already stays at its place."""
        self[thing] = None

    def remove(self, thing: Any) -> None:
        """Remove a creature."""
        del self[thing]


@lru_cache(maxsize=1)
def _kit() -> SimpleNamespace:
    """Import crafter, quietly, and return those of its parts that are used, cached; MissingExtra where it is not installed."""
    with muted_stdout(), redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from crafter import constants, engine, env, objects
        except ImportError:
            raise MissingExtra("crafter", "crafter", "Crafter") from None

    class World(engine.World):  # type: ignore[misc]
        def reset(self, seed: int | None = None) -> None:
            """Reset crafter's world, with chunks that keep the order of their creatures."""
            super().reset(seed)
            self._chunks: Any = defaultdict(_Roll)

    tables = (constants.collect, constants.place, constants.make)
    lists = (constants.actions, constants.items, constants.achievements, constants.materials, constants.walkable)
    names = [tuple(part) for part in lists[:3]]
    marks = bytearray(256)
    marks[0] = ord(OUTSIDE)
    for number, name in enumerate(constants.materials, start=1):
        marks[number] = ord(MATERIALS[name])
    return SimpleNamespace(
        world=World,
        player=objects.Player,
        creatures={kind: getattr(objects, kind) for kind in ("Cow", "Zombie", "Skeleton")},
        env=env.Env,
        materials=constants.materials,
        marks=bytes(marks),
        rules=CrafterRules(
            names[0], names[1], names[2], *tables, digest=sha256_text(canonical_json([*lists, *tables]))
        ),
    )
