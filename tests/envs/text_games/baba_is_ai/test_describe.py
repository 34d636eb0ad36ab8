import random
import re

from hypothesis import given
from hypothesis import strategies as st

from agent_envs.envs.text_games.baba_is_ai.env import describe
from agent_envs.envs.text_games.baba_is_ai.levels import KINDS, BabaSource
from agent_envs.envs.text_games.baba_is_ai.rules import EMPTY, BabaWorld, moved, rules_in
from tests.envs.text_games.baba_is_ai.boards import LETTERS, board, chance_board
from tests.examples import examples

SIZE = re.compile(r"The map has (\d+) columns and (\d+) rows\.(?: You are (\w+), in column (\d+), row (\d+)\.)?")
CELL = re.compile(r"in column (\d+), row (\d+)")
WAY = re.compile(r"(\d+) steps? (to the right|to the left|down|up)")
FORTH = {"to the right": (1, 0), "to the left": (-1, 0), "down": (0, 1), "up": (0, -1)}


def read(text):
    """Return the map that a description tells of: rules, width, texts, and the things with their cells."""
    lines = text.split("\n")
    rules = tuple(line[2:] for line in lines[1 : next(n for n, line in enumerate(lines) if line.startswith("The map"))])
    width, height, name, x, y = SIZE.search(text).groups()
    width, height = int(width), int(height)
    origin = (int(x) - 1, int(y) - 1) if name else None
    things = [(name, (int(y) - 1) * width + int(x) - 1)] if name else []
    texts = [EMPTY] * (width * height)

    def cell(place):
        fixed = CELL.fullmatch(place)
        if fixed:
            return (int(fixed[2]) - 1) * width + int(fixed[1]) - 1
        steps = [(int(count), FORTH[way]) for count, way in WAY.findall(place)]
        assert steps or place == "on your own cell"
        right, down = (sum(count * way[axis] for count, way in steps) for axis in (0, 1))
        return (origin[1] + down) * width + origin[0] + right

    for line in lines:
        found = re.fullmatch(r'(?:- |You are also )(?:"(\w+)"|(\w+)): (.*?)\.?', line)
        if found and found[1]:
            texts[cell(found[3])] = LETTERS[found[1]]
        elif found:
            things.append((found[2], cell(found[3])))
    return rules, width, "".join(texts), sorted((LETTERS[kind], place) for kind, place in things)


def holds(world):
    assert read(describe(world)) == (
        rules_in(world).lines, world.width, world.texts, sorted(zip(world.objects, world.places, strict=True))
    )  # fmt: skip


def test_the_words():
    world = board("BABA IS YOU . .", "KEY IS WIN wall .", ". . baba . .", "key . . . ball")
    assert (
        describe(world)
        == """\
Rules in force:
- baba is you
- key is win
The map has 5 columns and 4 rows. You are baba, in column 3, row 3.
Things on the map:
- wall: 1 step to the right and 1 step up
- key: 2 steps to the left and 1 step down
- ball: 2 steps to the right and 1 step down
Text blocks:
- "baba": 2 steps to the left and 2 steps up
- "is": 1 step to the left and 2 steps up
- "you": 2 steps up
- "key": 2 steps to the left and 1 step up
- "is": 1 step to the left and 1 step up
- "win": 1 step up"""
    )


def test_several_are_you_and_things_lie_on_one_another():
    text = describe(board("BABA IS YOU .", "baba+key . . baba", "WALL . . ."))
    assert "You are baba, in column 1, row 2.\nYou are also baba: 3 steps to the right.\n" in text
    assert "- key: on your own cell" in text


def test_nothing_is_you():
    world = board("BABA IS . YOU", "baba . . .")
    assert "The map has 4 columns and 2 rows. Nothing on it is YOU any more." in describe(world)
    assert '- baba: in column 1, row 2\nText blocks:\n- "baba": in column 1, row 1' in describe(world)
    holds(world)


def test_a_reader_of_the_words_finds_every_map_again():
    worlds = [BabaSource().get("test", index).data.world for index in range(0, len(KINDS), 4)]
    for world in worlds:
        holds(world)
    assert len({describe(world) for world in worlds}) == len(worlds) == 10


@examples(150)
@given(st.integers(0, 10**9), st.integers(3, 9), st.integers(2, 7), st.lists(st.integers(1, 4), max_size=8))
def test_a_reader_of_the_words_finds_chance_maps_again(seed, width, height, actions):
    world = chance_board(random.Random(seed), width, height, seed % 5)
    for action in actions:
        world = moved(world, action)
    holds(world)
    assert describe(BabaWorld(world.width, world.height, world.texts, world.objects, world.places)) == describe(world)
