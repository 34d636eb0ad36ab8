"""A map of BabaIsAI in words: the rules in force, and where things and text blocks lie as seen from who is YOU."""

from agent_envs.envs.text_games.baba_is_ai.rules import EMPTY, NOUNS, WORDS, BabaWorld, rules_in


def describe(world: BabaWorld) -> str:
    """Return the whole map in words. Places are steps from YOU, from the first one where several are YOU."""
    rules = rules_in(world)
    mine: list[tuple[int, str]] = []
    things: list[tuple[int, str]] = []
    for place, kind in sorted(zip(world.places, world.objects, strict=True)):
        (mine if kind in rules.you else things).append((place, NOUNS[kind]))
    blocks = [(place, f'"{WORDS[letter]}"') for place, letter in enumerate(world.texts) if letter != EMPTY]
    origin = mine[0][0] if mine else None
    lines = ["Rules in force:", *(f"- {line}" for line in rules.lines)]
    lines += [_yourself(world, mine)]
    lines += [f"You are also {name}: {_seen(world, origin, place)}." for place, name in mine[1:]]
    for title, found in (("Things on the map:", things), ("Text blocks:", blocks)):
        lines += [title, *(f"- {name}: {_seen(world, origin, place)}" for place, name in found)]
    return "\n".join(lines)


def _yourself(world: BabaWorld, mine: list[tuple[int, str]]) -> str:
    size = f"The map has {world.width} columns and {world.height} rows"
    if not mine:
        return f"{size}. Nothing on it is YOU any more."
    return f"{size}. You are {mine[0][1]}, in {_cell(world, mine[0][0])}."


def _seen(world: BabaWorld, origin: int | None, place: int) -> str:
    """Return a place as steps from an origin, or as its cell where there is none."""
    if origin is None:
        return f"in {_cell(world, place)}"
    right = place % world.width - origin % world.width
    down = place // world.width - origin // world.width
    ways = ((right, "to the right", "to the left"), (down, "down", "up"))
    parts = [f"{_steps(abs(count))} {forth if count > 0 else back}" for count, forth, back in ways if count]
    return " and ".join(parts) or "on your own cell"


def _cell(world: BabaWorld, place: int) -> str:
    """Return a cell; columns count from the left, rows from the top, both from 1."""
    return f"column {place % world.width + 1}, row {place // world.width + 1}"


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"
