"""The description says what is in view and nothing else, and what it says can be read back."""

import random
import re
from collections import defaultdict
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.serialization import canonical_json, decode_state, encode_state
from agent_envs.envs.text_games.babyai.describe import NOTHING, describe
from agent_envs.envs.text_games.babyai.grid import HALF, VIEW, WALL, identity, mark, visible
from tests.envs.text_games.babyai.rooms import drawn, random_world
from tests.examples import examples
from tests.needs import needs

SEEDS = st.integers(0, 1_000_000)
THING = re.compile(r"an? (?:(open|closed|locked) )?(\w+) (key|ball|box|door) (.+)")
PART = re.compile(r"(\d+) (steps?) (left|right|forward)")


def offsets(text):
    """`2 steps left and 1 step forward` as (-2, 1)."""
    aside = ahead = 0
    for part in text.split(" and "):
        count, unit, direction = PART.fullmatch(part).groups()
        assert (unit == "step") == (count == "1")
        if direction == "forward":
            ahead = int(count)
        else:
            aside = int(count) * (-1 if direction == "left" else 1)
    return aside, ahead


def read(text):
    """What a description says: what is carried, walls as (aside, ahead), things as (state, color, kind, aside, ahead)."""
    carried, walls, things = None, set(), set()
    for line in text.split("\n"):
        if line.startswith("You carry a "):
            carried = tuple(line.removeprefix("You carry a ").split())
        elif line.startswith("a wall "):
            walls.add(offsets(line.removeprefix("a wall ")))
        elif line != NOTHING:
            state, color, kind, where = THING.fullmatch(line).groups()
            things.add((state or "", color, kind, *offsets(where)))
    return carried, walls, things


def shown(world):
    """What `visible` shows, in the form of `read`."""
    view = visible(world)
    content = {(n % VIEW - HALF, VIEW - 1 - n // VIEW): c for n, c in enumerate(view)}
    held = world.things[world.carrying] if world.carrying >= 0 else None
    things = set()
    for (aside, ahead), character in content.items():
        if identity(character) >= 0 and (aside, ahead) != (0, 0):
            thing = world.things[identity(character)]
            things.add((thing.state, thing.color, thing.kind, aside, ahead))
    walls = set()
    for aside, ahead in ((0, 1), (-1, 0), (1, 0)):
        for k in range(1, VIEW):
            there = content.get((aside * k, ahead * k), "?")
            if there == WALL:
                walls.add((aside * k, ahead * k))
            if there != " ":
                break
    return (held.color, held.kind) if held else None, walls, things


def test_all_that_there_is_to_say():
    world = drawn(
        [
            "#########",
            "#   a   #",
            "#     b #",
            "#       #",
            "#       #",
            "# d ^ c #",
            "#########",
        ],
        {"a": "open red door", "b": "yellow box", "c": "grey ball", "d": "blue key", "k": "purple key"},
        carrying="k",
    )
    assert describe(world).split("\n") == [
        "You carry a purple key",
        "a blue key 2 steps left",
        "a grey ball 2 steps right",
        "an open red door 4 steps forward",
        "a yellow box 2 steps right and 3 steps forward",
    ]
    assert describe(replace(world, facing=0)).split("\n") == [
        "You carry a purple key",
        "a wall 1 step right",
        "a grey ball 2 steps forward",
        "a yellow box 3 steps left and 2 steps forward",
    ]


def test_walls_count_their_steps_and_doors_tell_their_state():
    world = drawn(
        ["######", "#    #", "d >  e", "#    #", "######"],
        {"d": "locked green door", "e": "closed grey door"},
    )
    assert describe(world).split("\n") == [
        "a wall 2 steps left",
        "a wall 2 steps right",
        "a closed grey door 3 steps forward",
    ]
    assert describe(replace(world, facing=2)).split("\n")[2:] == ["a locked green door 2 steps forward"]


def test_the_nearest_comes_first_and_of_equals_the_leftmost():
    world = drawn(
        ["#######", "# a b #", "#  c  #", "# d^e #", "#     #", "#######"],
        {"a": "red key", "b": "red ball", "c": "red box", "d": "blue key", "e": "blue ball"},
    )
    assert [line.split(" ")[1:3] for line in describe(world).split("\n")] == [
        ["blue", "key"],
        ["red", "box"],
        ["blue", "ball"],
        ["red", "key"],
        ["red", "ball"],
    ]


def test_what_walls_and_shut_doors_hide_is_not_said():
    rows = ["#########", "#>  d  b#", "#########"]
    things = {"d": "closed red door", "b": "green ball"}
    assert describe(drawn(rows, things)) == "a wall 1 step left\na wall 1 step right\na closed red door 3 steps forward"
    opened = describe(drawn(rows, things | {"d": "open red door"}))
    assert opened.endswith("an open red door 3 steps forward\na green ball 6 steps forward")
    assert "ball" not in describe(drawn(["#########", "#>  #  b#", "#########"], things))


def test_the_door_under_the_agent_is_not_said():
    world = drawn(["######", "#  d>#", "######"], {"d": "open red door"})
    assert "door" not in describe(replace(world, place=world.place - 1))


def test_an_empty_hall_has_nothing_to_say():
    rows = ["#" * 20] + ["#" + " " * 18 + "#"] * 18 + ["#" * 20]
    rows[10] = "#" + " " * 9 + "^" + " " * 8 + "#"
    assert describe(drawn(rows, {})) == NOTHING


@given(SEEDS)
@examples(200)
def test_the_description_can_be_read_back(seed):
    world = random_world(seed)
    assert read(describe(world)) == shown(world)
    lines = describe(world).split("\n")
    assert len(set(lines)) == len(lines)


@given(SEEDS)
@examples(50)
def test_a_world_that_was_stored_reads_the_same(seed):
    world = random_world(seed)
    again = decode_state(encode_state(world))
    assert again == world
    assert describe(again) == describe(world)
    assert canonical_json(encode_state(again)) == canonical_json(encode_state(world))


@given(SEEDS, st.integers(0, 99))
@examples(50)
def test_who_is_who_does_not_show(seed, shuffle):
    world = random_world(seed)
    order = list(range(len(world.things)))
    random.Random(shuffle).shuffle(order)
    new = {old: at for at, old in enumerate(order)}
    cells = "".join(mark(new[identity(c)]) if identity(c) >= 0 else c for c in world.cells)
    things = tuple(world.things[old] for old in order)
    other = replace(world, cells=cells, things=things, carrying=new.get(world.carrying, -1))
    assert describe(other) == describe(world)


def test_worlds_that_read_the_same_show_the_same():
    groups = defaultdict(list)
    for seed in range(3_000):
        world = random_world(seed)
        groups[describe(world)].append(shown(world))
    assert sum(len(group) > 1 for group in groups.values()) > 20
    assert all(each == group[0] for group in groups.values() for each in group)


@needs("[babyai]")
def test_a_restored_episode_reads_the_same():
    from agent_envs import Snapshot, restore, snapshot
    from agent_envs.envs.text_games.babyai.env import BabyAI
    from agent_envs.envs.text_games.game import random_action

    env, other, rng = BabyAI(kind="open"), BabyAI(kind="open"), random.Random(4)
    env.reset(seed=4)
    for _ in range(8):
        env.step(random_action(env, rng))
    restore(other, Snapshot.from_bytes(snapshot(env).to_bytes()))
    assert other.episode.state == env.episode.state
    assert describe(other.episode.state) == env.episode.turns[-1].observation[-1].content
