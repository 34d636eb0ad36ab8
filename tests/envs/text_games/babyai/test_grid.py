"""The world's rules and sight: exact small cases, and every step equal to minigrid's."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples, part, sample
from tests.needs import require

require("[babyai]")

from agent_envs.base.serialization import canonical_json, decode_state, encode_state
from agent_envs.envs.text_games.babyai.grid import (
    CARRIED,
    DROP,
    EAST,
    GO_FORWARD,
    NORTH,
    NOWHERE,
    PICK_UP,
    SOUTH,
    TOGGLE,
    TURN_LEFT,
    TURN_RIGHT,
    WEST,
    BabyThing,
    BabyWorld,
    identity,
    in_front,
    mark,
    moved,
    visible,
)
from agent_envs.envs.text_games.babyai.levels import KINDS, _registered_levels, local_level, named_level
from agent_envs.envs.text_games.babyai.mission import BabyClause, BabyDesc
from tests.envs.text_games.babyai.mirror import begun, reset, run, step

MISSION = BabyClause("goto", BabyDesc("ball", "", "", False, ()))


def world(rows, things=(), facing=EAST, carrying=-1):
    """A world of drawn rows: `>` is the agent, `0`, `1`, ... are things by their identity."""
    text = "".join(rows)
    at = {character: place for place, character in enumerate(text)}
    cells = "".join(mark(int(c)) if c.isdigit() else " " if c == ">" else c for c in text)
    placed = tuple(replace(thing, place=at.get(str(n), thing.place)) for n, thing in enumerate(things))
    return BabyWorld(len(rows[0]), len(rows), cells, placed, at[">"], facing, carrying, 0, 64, MISSION)


def thing(kind, color="red", place=NOWHERE, state="", holds=-1):
    return BabyThing(kind, color, place, state, holds)


def rows(w):
    """The grid as drawn rows, without the agent."""
    text = "".join(c if identity(c) < 0 else str(identity(c)) for c in w.cells)
    return [text[start : start + w.width] for start in range(0, len(text), w.width)]


def test_turns_go_round():
    w = world(["####", "#> #", "####"])
    facings = []
    for _ in range(4):
        w = moved(w, TURN_RIGHT)
        facings.append(w.facing)
    assert facings == [SOUTH, WEST, NORTH, EAST]
    assert moved(w, TURN_LEFT).facing == NORTH
    assert w.steps == 4
    assert [in_front(replace(w, facing=facing)) - w.place for facing in range(4)] == [1, 4, -1, -4]


def test_walls_and_things_stop_the_agent():
    w = world(["#####", "#> 0#", "#####"], [thing("ball")])
    w = moved(w, GO_FORWARD)
    assert w.place == 7
    assert moved(w, GO_FORWARD).place == 7
    assert moved(replace(w, facing=NORTH), GO_FORWARD) == replace(w, facing=NORTH, steps=2)


def test_pick_up_and_drop():
    w = moved(world(["#####", "#>0 #", "#####"], [thing("key")]), PICK_UP)
    assert rows(w)[1] == "#   #"
    assert (w.carrying, w.things[0].place) == (0, CARRIED)
    w = moved(moved(w, GO_FORWARD), DROP)
    assert rows(w)[1] == "#  0#"
    assert (w.carrying, w.things[0].place, w.place) == (-1, 8, 7)


def test_full_hands_pick_up_nothing_and_empty_ones_drop_nothing():
    w = world(["#####", "#>0 #", "#####"], [thing("key"), thing("ball", place=CARRIED)], carrying=1)
    assert moved(w, PICK_UP) == replace(w, steps=1)
    assert moved(w, DROP) == replace(w, steps=1)
    empty = world(["#####", "#> 0#", "#####"], [thing("key")])
    assert moved(empty, DROP) == replace(empty, steps=1)


def test_doors_open_close_and_let_through():
    w = world(["####", "#>0 ", "####"], [thing("door", state="closed")])
    assert moved(w, GO_FORWARD).place == w.place
    assert moved(w, PICK_UP) == replace(w, steps=1)
    opened = moved(w, TOGGLE)
    assert opened.things[0].state == "open"
    assert moved(opened, GO_FORWARD).place == w.place + 1
    assert moved(opened, DROP) == replace(opened, steps=2)
    assert moved(opened, TOGGLE).things[0].state == "closed"


@pytest.mark.parametrize(
    ("held", "state"),
    [
        (thing("key", "red"), "open"),
        (thing("key", "blue"), "locked"),
        (thing("ball", "red"), "locked"),
        (None, "locked"),
    ],
)
def test_a_locked_door_asks_for_the_key_of_its_color(held, state):
    things = [thing("door", state="locked")] + ([] if held is None else [replace(held, place=CARRIED)])
    w = moved(world(["####", "#>0 ", "####"], things, carrying=-1 if held is None else 1), TOGGLE)
    assert w.things[0].state == state
    assert len(w.things) == len(things)


def test_an_opened_box_gives_way_to_what_it_holds():
    things = [thing("box", "blue", holds=1), thing("key", "green"), thing("box", "grey")]
    w = moved(world(["####", "#>0#", "#  #", "#2 #", "####"], things), TOGGLE)
    assert rows(w)[1] == "# 1#"
    assert [each.place for each in w.things] == [NOWHERE, 6, 13]
    empty = moved(world(["####", "#>2#", "####"], things), TOGGLE)
    assert rows(empty)[1] == "#  #"
    assert empty.things[2].place == NOWHERE
    assert moved(w, TOGGLE) == replace(w, steps=2)


def test_sight_ends_at_walls_closed_doors_and_the_grid():
    walls = ["#########", "#   #   #", "# > 0   #", "#   #   #", "#########"]
    door = thing("door", state="closed")
    closed = visible(world(walls, [door], facing=EAST)).replace(mark(0), "0")
    assert [closed[start : start + 7] for start in range(0, 49, 7)] == [
        "???????", "???????", "???????", "???????", "?##0##?", "?#   #?", "?#   #?",
    ]  # fmt: skip
    opened = visible(world(walls, [replace(door, state="open")], facing=EAST)).replace(mark(0), "0")
    assert [opened[start : start + 7] for start in range(0, 49, 7)] == [
        "?#####?", "?#   #?", "?#   #?", "?#   #?", "?##0##?", "?#   #?", "?#   #?",
    ]  # fmt: skip


def test_the_view_turns_with_the_agent_and_shows_what_it_carries():
    w = world(["#####", "#0  #", "# > #", "#   #", "#####"], [thing("ball"), thing("key", place=CARRIED)], carrying=1)
    last = {facing: visible(replace(w, facing=facing)) for facing in range(4)}
    assert all(view[45] == mark(1) for view in last.values())
    assert [view.index(mark(0)) for view in (last[NORTH], last[WEST])] == [37, 39]
    assert all(mark(0) not in last[facing] for facing in (EAST, SOUTH))


@examples(40)
@given(st.sampled_from(KINDS), st.integers(0, 10_000), st.lists(st.integers(0, 5), max_size=40), st.integers(0, 3))
def test_any_actions_do_what_they_do_in_minigrid(kind, seed, actions, distractors):
    level = reset(local_level(kind, distractors).make(), seed)
    now = begun(level)
    for action in actions:
        now, _ = step(now, level, action)
    assert now.steps == len(actions) == level.step_count


@pytest.mark.parametrize("kind", KINDS)
def test_long_episodes_of_the_kinds_equal_minigrid(kind):
    for seed in range(part(6, 2)):
        last, _ = run(reset(local_level(kind, seed).make(), seed), random.Random(f"{kind} {seed}"), 130)
        assert last.steps == 130


@pytest.mark.parametrize("name", sample(tuple(_registered_levels()), 30))
def test_every_level_equals_minigrid(name):
    last, _ = run(reset(named_level(name).make(), 7), random.Random(name), 90)
    assert decode_state(encode_state(last)) == last
    assert len(canonical_json(encode_state(last))) < 8_000


def test_boxes_with_keys_equal_minigrid():
    picked = 0
    for seed in range(12):
        last, _ = run(reset(named_level("KeyInBox").make(), seed), random.Random(seed), 150)
        picked += any(each.kind == "box" and each.place == NOWHERE for each in last.things)
    assert picked > 0
