"""Maps of BabaIsAI written down by hand, and drawn by chance; and a plain breadth-first search to hold the solver against."""

from agent_envs.envs.text_games.baba_is_ai.rules import EMPTY, NOUNS, WORDS, BabaWorld, moved, outcome, rules_in

LETTERS = {word: letter for letter, word in WORDS.items()}


def board(*rows):
    """Return a map: cells between spaces, `.` nothing, capitals text, small letters things, `+` for more than one."""
    cells = [row.split() for row in rows]
    width = len(cells[0])
    texts, things = [], []
    for place, cell in enumerate(cell for row in cells for cell in row):
        words = [] if cell == "." else cell.split("+")
        texts += [LETTERS[word.lower()] for word in words if word.isupper()] or [EMPTY]
        things += [(LETTERS[word], place) for word in words if word.islower()]
    assert len(texts) == width * len(rows)
    things.sort()
    return BabaWorld(width, len(rows), "".join(texts), "".join(k for k, _ in things), tuple(p for _, p in things))


def after(world, *actions):
    for action in actions:
        world = moved(world, action)
    return world


def chance_board(rng, width, height, extra):
    """Return a small map with `baba is you` somewhere, loose text, and a few things."""
    texts = [EMPTY] * (width * height)
    row, column = rng.randrange(height), rng.randrange(width - 2)
    texts[row * width + column : row * width + column + 3] = "biY"
    free = [place for place, letter in enumerate(texts) if letter == EMPTY]
    rng.shuffle(free)
    for letter in ["k", "i", "W", *(rng.choice([*WORDS]) for _ in range(extra))][: len(free) - 2]:
        texts[free.pop()] = letter
    kinds = ["b", "k", *(rng.choice([*NOUNS]) for _ in range(rng.randrange(3)))]
    things = sorted((kind, rng.choice(free) if rng.random() < 0.8 else rng.randrange(len(texts))) for kind in kinds)
    return BabaWorld(width, height, "".join(texts), "".join(k for k, _ in things), tuple(p for _, p in things))


def searched(world, most):
    """Return the first of the shortest ways to a win, None where there is none, "" where more than `most` maps come up."""
    seen, level = {world}, [(world, ())]
    while level:
        coming = []
        for here, path in level:
            for action in (1, 2, 3, 4):
                there = moved(here, action)
                if there in seen:
                    continue
                seen.add(there)
                if outcome(there) == "won":
                    return (*path, action)
                if not outcome(there):
                    coming.append((there, (*path, action)))
        if len(seen) > most:
            return ""
        level = coming
    return None


def yous(world):
    """Return the cells of what is YOU, sorted, each once."""
    you = rules_in(world).you
    return tuple(sorted({place for kind, place in zip(world.objects, world.places, strict=True) if kind in you}))
