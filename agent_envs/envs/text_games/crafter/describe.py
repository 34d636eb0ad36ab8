"""`describe` says how a Crafter player fares, what it carries and faces, and where the nearest of each kind in sight is."""

from operator import itemgetter

from agent_envs.envs.text_games.crafter.sight import (
    ACROSS,
    DIRECTIONS,
    DOWN,
    MATERIALS,
    NOTHING,
    OUTSIDE,
    THINGS,
    CrafterSight,
    daylight,
)
from agent_envs.envs.text_games.crafter.world import rules
from agent_envs.envs.text_games.game import in_steps

VITALS = ("health", "food", "drink", "energy")
FULL = 9  # of every vital sign
DARK = 0.5  # below this daylight crafter's picture turns noisy
CENTER = ACROSS * DOWN // 2
KIND_OF = {mark: name for name, mark in MATERIALS.items()} | {
    THINGS["cow"]: "cow",
    THINGS["zombie"]: "zombie",
    THINGS["skeleton"]: "skeleton",
    THINGS["plant"]: "young plant",
    THINGS["plant-ripe"]: "ripe plant",
    THINGS["fence"]: "fence",
    **{THINGS[f"arrow-{name}"]: f"arrow flying {name}" for name in DIRECTIONS},
}
_RANK = {name: rank for rank, name in enumerate(KIND_OF.values())}
# The cells around the player, the nearest first: (distance, steps down, steps right), and how to take them from a sight.
_STEPS = sorted(
    (abs(x) + abs(y), y, x)
    for y in range(-(DOWN // 2), DOWN // 2 + 1)
    for x in range(-(ACROSS // 2), ACROSS // 2 + 1)
    if x or y
)
_IN_ORDER = itemgetter(*(CENTER + y * ACROSS + x for _, y, x in _STEPS))
_MASSES = frozenset(("water", "grass", "stone", "sand", "lava", "coal", "iron"))


def describe(sight: CrafterSight, tells_unlocked: bool = False) -> str:
    """Return a moment as lines of text: vitals, load, place, the nearest of each kind; `tells_unlocked` adds achievements."""
    fares = [f"{name} {number}" for name, number in zip(VITALS, sight.items, strict=False)]
    lines = [f"You have {listed(fares)}, of {FULL} each.", f"You carry {listed(carried(sight)) or 'nothing'}."]
    if sight.sleeping:
        lines.append("You are asleep until your energy is full, or something hurts you.")
    if daylight(sight.steps) < DARK:
        lines.append("It is dark.")
    ground, before = KIND_OF[sight.ground[CENTER]], faced(sight)
    front = phrase(before) if before else "the edge of the world"
    lines.append(f"You stand on {phrase(ground)} and look {sight.facing}, at {front}.")
    lines.append("In sight, the nearest of each kind:")
    for kind, ((x, y), number) in nearest(sight).items():
        also = f" ({number} in sight)" if number > 1 else ""
        lines.append(f"- {phrase(kind)} {in_steps((x, 'right', 'left'), (y, 'down', 'up'))}{also}")
    if tells_unlocked:
        words = [name.replace("_", " ") for name in sight.unlocked]
        lines.append(f"Achievements, {len(words)} of {len(rules().achievements)}: {listed(words) or 'none'}.")
    return "\n".join(lines)


def carried(sight: CrafterSight) -> list[str]:
    """Return the player's inventory, `2 wood` and so on, in crafter's order."""
    pairs = list(zip(rules().items, sight.items, strict=True))[len(VITALS) :]
    return [f"{number} {name.replace('_', ' ')}" for name, number in pairs if number]


def faced(sight: CrafterSight) -> str:
    """Return the kind of thing, else of ground, before the player; "" for the edge of the world."""
    dx, dy = DIRECTIONS[sight.facing]
    place = CENTER + dy * ACROSS + dx
    mark = sight.things[place] if sight.things[place] != NOTHING else sight.ground[place]
    return "" if mark == OUTSIDE else KIND_OF[mark]


def nearest(sight: CrafterSight) -> dict[str, tuple[tuple[int, int], int]]:
    """Return each kind in sight, nearest first, with its nearest cell (steps right, steps down) and how many there are.

    A thing hides the ground on which it stands. The player's own cell does not count. Of two equally near the upper, then
    the left one is told.
    """
    cells = zip(sight.ground, sight.things, strict=True)
    marks = "".join(_IN_ORDER([ground if thing == NOTHING else thing for ground, thing in cells]))
    rows = []
    for mark in dict.fromkeys(marks.replace(OUTSIDE, "")):
        distance, y, x = _STEPS[marks.index(mark)]
        kind = KIND_OF[mark]
        rows.append((distance, _RANK[kind], kind, (x, y), marks.count(mark)))
    return {kind: (place, number) for _, _, kind, place, number in sorted(rows)}


def unmet(action: str, sight: CrafterSight) -> str:
    """Return why an action (crafter's name) that did nothing failed; place rules are named unchecked; '' if none is known."""
    verb, _, name = action.partition("_")
    tables, items = rules(), dict(zip(rules().items, sight.items, strict=True))
    if action == "do":
        rule = tables.collect.get(faced(sight), {"require": {}})
        lacking = [phrase(tool.replace("_", " ")) for tool, number in rule["require"].items() if items[tool] < number]
        return f"To collect {faced(sight)} you need {listed(lacking)}." if lacking else ""
    if action == "sleep" and items["energy"] == FULL:
        return "You are fully rested and cannot sleep."
    if verb not in ("place", "make"):
        return ""
    rule = (tables.place if verb == "place" else tables.make)[name]
    costs = [f"{number} {item.replace('_', ' ')}" for item, number in rule["uses"].items()]
    what = phrase(name.replace("_", " "))
    if any(items[item] < number for item, number in rule["uses"].items()):
        return f"To {verb} {what} you need {listed(costs)}."
    if verb == "make":
        return f"To make {what} you must stand next to {listed([f'a {place}' for place in rule['nearby']])}."
    return f"You can place {what} only on free {listed(rule['where'], 'or')}."


def phrase(kind: str) -> str:
    """Return a kind with "a" or "an"; one that is a mass, such as water, alone."""
    return kind if kind in _MASSES else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def listed(words: list[str], last: str = "and") -> str:
    """Return words as a list in a sentence."""
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), "".join(words[-1:]))))
