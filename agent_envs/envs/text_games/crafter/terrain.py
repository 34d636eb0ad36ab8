"""`terrain` makes the map and the creatures that `crafter.worldgen` makes from the same random state, many times as fast.

Crafter asks OpenSimplex noise (K. Spencer, 2014) for one cell after another; here the noise of a whole world is computed at
once, and the draws are taken in crafter's order. A test holds the worlds of both against each other.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Draw = Callable[[], float]

STRETCH, SQUISH, NORM = -1.0 / 6, 1.0 / 3, 103
# The fields of noise: factors of x and y, the third coordinate, the size that x and y are divided by.
_FIELDS = {
    "start": (1, 1, 8, 3),
    "water": (1, 1, 3, 15),
    "ripples": (1, 1, 3, 5),
    "mountain": (1, 1, 0, 15),
    "crags": (1, 1, 0, 5),
    "cave": (1, 1, 6, 7),
    "across": (2, 1 / 5, 7, 3),
    "down": (1 / 5, 2, 7, 3),
    "coal": (1, 1, 1, 8),
    "iron": (1, 1, 2, 6),
    "lava": (1, 1, 6, 5),
    "sand": (1, 1, 4, 9),
    "wood": (1, 1, 5, 7),
}


class Terrain(NamedTuple):
    """A new world: the material of each cell and the creatures (kind, x, y), column by column as crafter counts."""

    materials: list[str]
    creatures: list[tuple[str, int, int]]


def terrain(chance: np.random.RandomState, width: int, height: int, x: int, y: int) -> Terrain:
    """Return the world around a player at (x, y), drawn as crafter draws it from a generator that stands at its start."""
    perm = permutation(chance.randint(0, 2**31 - 1))
    xs, ys = (axis.ravel() for axis in np.meshgrid(np.arange(width), np.arange(height), indexing="ij"))
    base = _fields(perm, xs, ys, ("start", "water", "ripples", "mountain", "crags"))
    away = np.sqrt((xs - x) ** 2 + (ys - y) ** 2)
    start = 4 - away
    start += 2 * base["start"]
    start = 1 / (1 + np.exp(-start))
    water = base["water"] + 0.15 * base["ripples"] + 0.1
    water -= 2 * start
    mountain = (base["mountain"] + 0.3 * base["crags"]) / 1.3
    mountain -= 4 * start + 0.3 * water
    # The other fields are asked for only where they decide.
    near = start > 0.5
    high = ~near & (mountain > 0.15)
    flat = ~near & ~high
    rock = _fields(perm, xs[high], ys[high], ("cave", "across", "down", "coal", "iron", "lava"))
    plain = _fields(perm, xs[flat], ys[flat], ("sand", "wood"))
    rocks = zip(mountain[high].tolist(), *(field.tolist() for field in rock.values()), strict=True)
    plains = zip(water[flat].tolist(), *(field.tolist() for field in plain.values()), strict=True)
    draw = chance.random_sample
    names = [
        "grass" if grass else _rock(draw, *next(rocks)) if steep else _lowland(draw, *next(plains))
        for grass, steep in zip(near.tolist(), high.tolist(), strict=True)
    ]
    tunnels = [name == "tunnel" for name in names]
    materials = ["path" if name == "tunnel" else name for name in names]
    return Terrain(materials, _creatures(draw, materials, tunnels, away.tolist(), height))


def _rock(
    draw: Draw, mountain: float, cave: float, across: float, down: float, coal: float, iron: float, lava: float
) -> str:
    """Return a mountain cell's material by its noise values: path, tunnel, drawn coal, iron or diamond, lava, else stone."""
    if cave > 0.15 and mountain > 0.3:
        return "path"
    if across > 0.4 or down > 0.4:
        return "tunnel"
    if coal > 0 and draw() > 0.85:
        return "coal"
    if iron > 0.4 and draw() > 0.75:
        return "iron"
    if mountain > 0.18 and draw() > 0.994:
        return "diamond"
    return "lava" if mountain > 0.3 and lava > 0.35 else "stone"


def _lowland(draw: Draw, water: float, sand: float, wood: float) -> str:
    """Return the material of a cell outside mountains by its noise: sand, water, a drawn tree, else grass."""
    if 0.25 < water <= 0.35 and sand > -0.2:
        return "sand"
    if 0.3 < water:
        return "water"
    return "tree" if wood > 0 and draw() > 0.8 else "grass"


def _creatures(
    draw: Draw, materials: list[str], tunnels: list[bool], away: list[float], height: int
) -> list[tuple[str, int, int]]:
    """Draw the creatures as (kind, x, y): cows on grass, zombies away from the player, skeletons in tunnels."""
    creatures = []
    for place, (material, tunnel, distance) in enumerate(zip(materials, tunnels, away, strict=True)):
        if material not in ("grass", "path", "sand"):
            continue
        x, y = divmod(place, height)
        if distance > 3 and material == "grass" and draw() > 0.985:
            creatures.append(("Cow", x, y))
        elif distance > 10 and draw() > 0.993:
            creatures.append(("Zombie", x, y))
        elif tunnel and draw() > 0.95:
            creatures.append(("Skeleton", x, y))
    return creatures


def _fields(perm: Integers, xs: Integers, ys: Integers, names: tuple[str, ...]) -> dict[str, Floats]:
    """Return the named fields of noise at cells, in one pass."""
    rows = [_FIELDS[name] for name in names]
    x = np.concatenate([_scale(xs, row[0], row[3]) for row in rows])
    y = np.concatenate([_scale(ys, row[1], row[3]) for row in rows])
    z = np.repeat([float(row[2]) for row in rows], len(xs))
    values = noise(perm, x, y, z)
    return dict(zip(names, np.split(values, len(names)), strict=True))


def _scale(cells: Integers, factor: float, size: int) -> Floats:
    """Return cells in units of the noise's lattice."""
    # A division where crafter divides: a factor would round differently.
    return (cells / 5 if factor < 1 else cells * factor) / size


def permutation(seed: int) -> Integers:
    """Return the numbers 0 to 255 in the order in which OpenSimplex shuffles them for a seed."""
    source = list(range(256))
    shuffled = [0] * 256
    seed = _stir(_stir(_stir(seed)))
    for place in range(255, -1, -1):
        seed = _stir(seed)
        index = (seed + 31) % (place + 1)
        shuffled[place] = source[index]
        source[index] = source[place]
    return np.array(shuffled)


def _stir(seed: int) -> int:
    """Return the next value in 64 bits with sign."""
    return (seed * 6364136223846793005 + 1442695040888963407 + 2**63) % 2**64 - 2**63


def noise(perm: Integers, x: Floats, y: Floats, z: Floats) -> Floats:
    """Return three-dimensional OpenSimplex noise at many points, as `OpenSimplex.noise3` gives it for one.

    A point's neighbours on the lattice that count are looked up by the part of the cell in which the point lies.
    """
    offset = (x + y + z) * STRETCH
    moved = (x + offset, y + offset, z + offset)
    base = [np.floor(axis) for axis in moved]
    code = _part_of_cell(*(axis - low for axis, low in zip(moved, base, strict=True)))
    squish = (base[0] + base[1] + base[2]) * SQUISH
    rests = [axis - (low + squish) for axis, low in zip((x, y, z), base, strict=True)]
    corners = [low.astype(np.int64) for low in base]
    table, (along_x, along_y, along_z), last = _neighbours(), _gradients(), perm % 24
    value = np.zeros_like(x)
    for steps in table.transpose(1, 2, 0):
        at = [axis.take(code) for axis in steps]  # `take` costs half of what an index does
        pull = (at[0] + at[1] + at[2]) * SQUISH
        dx, dy, dz = (rest - step - pull for rest, step in zip(rests, at, strict=True))
        weight = np.maximum(2 - dx * dx - dy * dy - dz * dz, 0)
        weight *= weight
        first = perm.take((corners[0] + at[0]) & 255)
        second = perm.take((first + corners[1] + at[1]) & 255)
        third = last.take((second + corners[2] + at[2]) & 255)
        value += weight * weight * (along_x.take(third) * dx + along_y.take(third) * dy + along_z.take(third) * dz)
    return value / NORM


def _part_of_cell(x: Floats, y: Floats, z: Floats) -> Integers:
    """Return each point's part of its cell, a row of `_neighbours`. Bits 1, 2, 4 of a vertex are its axes."""
    total = x + y + z
    take_a, take_b = (x < y) & (z > x), (x >= y) & (z > y)
    a, b = np.where(take_a, z, x), np.where(take_b, z, y)
    at_a, at_b = np.where(take_a, 4, 1), np.where(take_b, 4, 2)
    rest = 1 - total
    low = np.where((rest > a) | (rest > b), np.where(b > a, at_b, at_a), at_a | at_b)

    take_a, take_b = (x > y) & (z < x), (x <= y) & (z < y)
    a, b = np.where(take_a, z, x), np.where(take_b, z, y)
    at_a, at_b = np.where(take_a, 3, 6), np.where(take_b, 3, 5)
    rest = 3 - total
    high = 8 + np.where((rest < a) | (rest < b), np.where(b < a, at_b, at_a), at_a & at_b)

    sums = (x + y, x + z, y + z)
    a, b, c = (np.abs(pair - 1) for pair in sums)
    at_a, at_b, at_c = (
        np.where(pair > 1, far, near) for pair, far, near in zip(sums, (3, 5, 6), (4, 2, 1), strict=True)
    )
    take_a, take_b = (a <= b) & (a < c), (a > b) & (b < c)
    middle = 16 + 8 * np.where(take_a, at_c, at_a) + np.where(take_b, at_c, at_b)
    return np.where(total <= 1, low, np.where(total >= 2, high, middle)).astype(np.int64)


@lru_cache(maxsize=1)
def _neighbours() -> Integers:
    """Return the lattice steps to the vertices that count, for each part of a cell: (72, 8, 3), unused ones far; cached."""
    table = np.full((72, 8, 3), 9)
    axes = np.eye(3, dtype=np.int64)
    bits = [np.array([code >> axis & 1 for axis in range(3)]) for code in range(8)]
    near, far = (1, 2, 4), (3, 5, 6)

    def fill(row: int, inner: tuple[int, ...], *extra: Any) -> None:
        """Fill a row of the table with the inner vertices by their codes and with extra ones."""
        vertices = [*(bits[code] for code in inner), *extra]
        table[row, : len(vertices)] = vertices

    for code in range(1, 7):
        ones, zeros = bits[code].nonzero()[0], (1 - bits[code]).nonzero()[0]
        if code in near:
            fill(code, (0, *near), *(bits[code] - axes[axis] for axis in zeros))
            fill(8 + code, (*far, 7), bits[code], 2 * bits[code])
        else:
            fill(code, (0, *near), bits[code], bits[code] - axes[zeros[0]])
            fill(8 + code, (*far, 7), *(bits[code] + axes[axis] for axis in ones))
        for other in set(range(1, 7)) - {code, 7 - code}:
            fill(16 + 8 * code + other, (*near, *far), *_outer_vertices(bits, code, other))
    return table


def _outer_vertices(bits: list[Any], a: int, b: int) -> tuple[Any, Any]:
    """Return the two vertices beyond the octahedron that count where a and b are the closest of its own."""
    far = (3, 5, 6)
    if (a in far) == (b in far):
        return (bits[7], 2 * bits[a & b]) if a in far else (bits[0], bits[7] - 2 * bits[7 - (a | b)])
    opposite, same = (a, b) if a in far else (b, a)
    return bits[7] - 2 * bits[7 - opposite], 2 * bits[same]


@lru_cache(maxsize=1)
def _gradients() -> Floats:
    """Return the 24 directions of OpenSimplex, (3, 24), cached."""
    signs = [(-1 if code & 1 == 0 else 1, -1 if code & 2 else 1, -1 if code & 4 else 1) for code in range(8)]
    rows = [[sign * (11 if axis == long else 4) for axis, sign in enumerate(row)] for row in signs for long in range(3)]
    return np.array(rows, dtype=np.float64).T
