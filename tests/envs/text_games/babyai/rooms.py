"""BabyAI worlds from drawings, and random ones, without minigrid."""

import random

from agent_envs.envs.text_games.babyai.grid import CARRIED, EMPTY, NOWHERE, BabyThing, BabyWorld, mark
from agent_envs.envs.text_games.babyai.mission import BabyClause, BabyDesc, BabySequence

ARROWS = ">v<^"
KINDS = ("key", "ball", "box", "door")
COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
STATES = ("open", "closed", "locked")


def thing(words, place, holds=-1):
    """`red key`, `locked red door`."""
    *state, color, kind = words.split()
    return BabyThing(kind, color, place, "".join(state), holds)


def drawn(rows, legend, mission=None, carrying="", inside=None, limit=200):
    """The world of drawn rows: `>v<^` is the agent, letters are things by the legend; `inside` maps a box to its content."""
    text = "".join(rows)
    letters, inside = list(legend), inside or {}
    arrow = next(character for character in text if character in ARROWS)
    places = {letter: text.find(letter) for letter in letters}
    things = tuple(
        thing(
            legend[letter],
            CARRIED if letter == carrying else places[letter] if places[letter] >= 0 else NOWHERE,
            letters.index(inside[letter]) if letter in inside else -1,
        )
        for letter in letters
    )
    cells = "".join(mark(letters.index(c)) if c in legend else EMPTY if c in ARROWS else c for c in text)
    held = letters.index(carrying) if carrying else -1
    mission = (mission or clause("goto", "red ball"))(things) if callable(mission) or mission is None else mission
    return BabyWorld(
        len(rows[0]), len(rows), cells, things, text.index(arrow), ARROWS.index(arrow), held, 0, limit, mission
    )


def desc(words, things):
    """What `red key`, `key` or `` means among things that stand in the level."""
    parts = words.split()
    kind = next((part for part in parts if part in KINDS), "")
    color = next((part for part in parts if part in COLORS), "")
    fits = [
        n
        for n, thing in enumerate(things)
        if thing.place != NOWHERE and kind in ("", thing.kind) and color in ("", thing.color)
    ]
    return BabyDesc(kind, color, "", len(fits) > 1, tuple(fits))


def clause(verb, words, beside="", strict=False):
    """What makes a clause of a level's things."""

    def made(things):
        thing, fixed = desc(words, things), desc(beside, things) if beside else None
        known = {"goto": thing, "putnext": fixed}.get(verb)
        places = tuple(things[n].place for n in known.matches if things[n].place >= 0) if known else ()
        return BabyClause(verb, thing, fixed, strict, places)

    return made


def both(order, first, second):
    """What makes a sequence of two clauses, or of clauses and sequences."""
    return lambda things: BabySequence(order, first(things), second(things))


def random_world(seed):
    """A world of walls and things anywhere, with an agent anywhere, perhaps in an open door, perhaps carrying something."""
    rng = random.Random(f"random world {seed}")
    width, height = rng.randint(4, 12), rng.randint(4, 12)
    border = [y in (0, height - 1) or x in (0, width - 1) for y in range(height) for x in range(width)]
    inner = [place for place, wall in enumerate(border) if not wall]
    cells = ["#" if wall or rng.random() < 0.1 else EMPTY for wall in border]
    things = []
    for place in rng.sample(inner, min(len(inner), rng.randint(0, 12))):
        kind = rng.choice(KINDS)
        cells[place] = mark(len(things))
        things.append(BabyThing(kind, rng.choice(COLORS), place, rng.choice(STATES) if kind == "door" else ""))
    open_doors = [thing.place for thing in things if thing.state == "open"]
    free = [place for place in inner if cells[place] == EMPTY] + open_doors
    agent = rng.choice(free or inner)
    carrying = -1
    if rng.random() < 0.5:
        carrying = len(things)
        things.append(BabyThing(rng.choice(KINDS[:3]), rng.choice(COLORS), CARRIED))
    mission = clause("goto", "ball")(tuple(things))
    return BabyWorld(
        width, height, "".join(cells), tuple(things), agent, rng.randrange(4), carrying, rng.randrange(9), 64, mission
    )
