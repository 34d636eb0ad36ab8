"""`describe` writes BabyAI's observation: what the agent carries and sees, a line each, by steps from where it stands.

The structure is that of BALROG (arXiv 2411.13543) and Verlog; the order is ours:

1. `You carry a red key`, if the agent carries something.
2. The nearest wall straight ahead, to the left and to the right, in this order, where nothing stands before it and it is in
   view: `a wall 2 steps forward`.
3. Things in view, the nearest first (steps ahead and steps aside, added), among equally near ones from left to right:
   `a blue ball 1 step left and 3 steps forward`. Doors show their state: `a locked red door`, `an open red door`.

Where there is nothing to say it reads `nothing in sight`. The open door in whose frame the agent stands is not said.
"""

from functools import lru_cache

from agent_envs.envs.text_games.babyai.grid import EMPTY, HALF, OFFSET, UNSEEN, VIEW, WALL, BabyWorld, visible
from agent_envs.envs.text_games.game import in_steps

NOTHING = "nothing in sight"
_OWN = VIEW * VIEW - HALF - 1  # the agent's cell in a view


_CELLS = sorted((abs(aside) + ahead, aside, ahead) for aside in range(-HALF, HALF + 1) for ahead in range(VIEW))[1:]
_ORDER = [
    ((VIEW - 1 - ahead) * VIEW + HALF + aside, f" {in_steps((aside, 'right', 'left'), (ahead, 'forward', ''))}")
    for _, aside, ahead in _CELLS
]
_LINES = (
    (slice(_OWN - VIEW, None, -VIEW), [f"a wall {in_steps((k, 'forward', ''))}" for k in range(1, VIEW)]),
    (slice(_OWN - 1, _OWN - HALF - 1, -1), [f"a wall {in_steps((k, 'left', ''))}" for k in range(1, HALF + 1)]),
    (slice(_OWN + 1, _OWN + HALF + 1), [f"a wall {in_steps((k, 'right', ''))}" for k in range(1, HALF + 1)]),
)
_PLAIN = EMPTY + WALL + UNSEEN


def describe(world: BabyWorld) -> str:
    """Return the agent's view in words: what it carries, walls, things with their places; NOTHING where there is nothing."""
    view = visible(world)
    lines = []
    if world.carrying >= 0:
        thing = world.things[world.carrying]
        lines.append(f"You carry {noun_phrase(thing.kind, thing.color)}")
    for cells, phrases in _LINES:
        line = view[cells].lstrip(EMPTY)
        if line and line[0] == WALL:
            lines.append(phrases[-len(line)])
    for at, where in _ORDER:
        content = view[at]
        if content not in _PLAIN:
            thing = world.things[ord(content) - OFFSET]
            lines.append(noun_phrase(thing.kind, thing.color, thing.state) + where)
    return "\n".join(lines) or NOTHING


@lru_cache(maxsize=256)
def noun_phrase(kind: str, color: str, state: str = "") -> str:
    """Return a thing with its article (`a red key`, `an open red door`), cached."""
    return " ".join(filter(None, ("an" if state == "open" else "a", state, color, kind)))
