import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import Unsolvable
from agent_envs.envs.text_games.baba_is_ai.bound import Bound
from agent_envs.envs.text_games.baba_is_ai.ground import AWAY, Ground, stuck
from agent_envs.envs.text_games.baba_is_ai.levels import KINDS, BabaSource
from agent_envs.envs.text_games.baba_is_ai.rules import DOWN, LEFT, RIGHT, UP, moved, outcome
from agent_envs.envs.text_games.baba_is_ai.solver import plan
from tests.envs.text_games.baba_is_ai.boards import after, board, chance_board, searched
from tests.examples import examples
from tests.rows import each_row

MOST = 1_500  # maps of a plain search


def planned(world):
    try:
        return plan(world, 100_000)
    except Unsolvable:
        return None


@examples(60)
@given(st.integers(0, 10**9), st.integers(3, 5), st.integers(3, 5))
def test_a_plan_is_what_a_plain_breadth_first_search_finds_first(seed, width, height):
    world = chance_board(random.Random(seed), width, height, seed % 3)
    wanted = searched(world, MOST) if not outcome(world) else ""
    if wanted != "":
        assert planned(world) == wanted


# What bounds have to get right: a row pushed from afar, blocks pushed by blocks, a key beneath a slot, two that are YOU.
@each_row(
    "rows",
    [
        ("BABA IS YOU . .", "baba . . . .", ". KEY . . .", ". IS WIN . key"),
        ("BABA IS YOU . .", "baba . KEY IS .", ". . . . WIN", ". . . . key"),
        ("BABA IS YOU .", ". . IS .", "baba BALL WIN ball", ". . . ."),
        ("BABA IS YOU . .", "baba . . KEY key", ". . . . IS", ". . . . WIN"),
        ("BABA IS YOU .", "baba KEY baba .", ". IS . .", "key WIN . ."),
        ("baba . . .", "KEY . . .", "BABA IS YOU .", ". . . .", "key BALL IS WIN", "ball . . ."),
        (
            "BABA IS YOU . wall .",
            "baba . . . wall key",
            "WALL IS STOP . wall .",
            ". . . . wall .",
            "KEY IS WIN . wall .",
        ),
        ("BABA IS YOU .", ". . IS .", ". WIN baba .", ". . . ."),  # baba itself can be WIN
    ],
)
def test_small_maps_with_a_twist(rows):
    world = board(*rows)
    wanted = searched(world, 400_000)
    assert wanted != "" and planned(world) == wanted


def test_no_bound_is_above_the_truth_on_the_way_of_a_plan():
    for kind in KINDS[::3]:
        world = BabaSource(kind).get("dev", 0).data.world
        bound, steps = Bound(world), plan(world)
        for done, action in enumerate(steps):
            assert bound(world) <= len(steps) - done
            world = moved(world, action)


def test_the_rest_of_a_plan_is_the_plan_of_where_it_led():
    for kind in ("make_win-distr_obj_rule", "two_room-break_stop-make_win", "two_room-make_you"):
        world = BabaSource(kind).get("dev", 1).data.world
        steps = plan(world)
        for done in range(len(steps) + 1):
            assert plan(after(world, *steps[:done])) == steps[done:]
        assert outcome(after(world, *steps)) == "won"


@pytest.mark.parametrize(
    "rows",
    [
        ("BABA IS YOU", ". . .", "baba . ."),  # nothing can be WIN
        ("BABA IS YOU .", "baba . . KEY", ". . IS WIN", "key . . ."),  # the noun would have to leave the edge
        ("BABA IS YOU .", "baba . . .", "KEY . IS WIN", ". . . ."),  # held at the left edge
        # Behind a wall that stays: its rule lies between others in a corner.
        ("BABA IS YOU . .", "WALL IS STOP wall wall", "baba . . wall key", "KEY IS WIN wall wall"),
        ("BALL IS YOU", "baba . .", "KEY IS WIN"),  # nobody is YOU
    ],
)
def test_what_cannot_be_won_is_refused(rows):
    world = board(*rows)
    assert searched(world, 100_000) is None
    with pytest.raises(Unsolvable):
        plan(world)


def test_limits_of_a_search():
    world = board("BABA IS YOU . .", "KEY IS WIN . .", "baba . . . key")
    assert plan(world) == (RIGHT,) * 4
    assert plan(world, most_steps=4) == (RIGHT,) * 4
    with pytest.raises(Unsolvable, match="within 3 steps"):
        plan(world, most_steps=3)
    with pytest.raises(Unsolvable, match="among 2 maps"):
        plan(world, most_worlds=2)
    assert plan(after(world, *plan(world))) == ()


def test_blocks_that_can_never_move():
    texts = board("KEY IS . .", "IS . DOOR .", ". . . BALL").texts
    assert stuck(4, 3, texts) == {0, 1, 4, 11}
    assert stuck(4, 3, texts, frozenset({0})) == {0, 11}  # something that is YOU may push from the corner
    assert stuck(4, 1, board(". KEY IS .").texts) == set()  # each is pushed through the other
    assert stuck(3, 1, board("KEY . IS").texts) == {0, 2}


def test_distances_on_the_ground():
    ground = Ground(5, 3, frozenset({2, 7}))  # a wall with a gap at the bottom
    assert ground.walk(0)[4] == 8 and ground.walk(0)[2] == 2
    assert Ground(5, 3, frozenset({2, 7, 12})).walk(0)[4] == AWAY
    assert ground.reach(6) == {6: 0, 1: 1, 11: 1, 10: 2, 12: 2, 13: 3, 14: 4}  # along the bottom
    assert ground.rooms[0] == ground.rooms[14] == 0 and ground.rooms[2] == -1


def test_pushes_and_turns():
    ground = Ground(6, 6, frozenset())
    assert ground.reach(14)[28] == 4  # from column 2, row 2 to column 4, row 4
    by_way = dict(zip((UP, RIGHT, DOWN, LEFT), ground.turns(28)[14], strict=True))
    assert by_way[RIGHT] == by_way[DOWN] == 2 + 2 + 2  # one turn
    assert by_way[UP] == 1 + 2 + 2 + 2 + 3  # up, right twice, down three times
    assert ground.reach(1)[4] == 3 and 7 not in ground.reach(1)  # along the edge, and not away from it
    assert ground.turns(7)[1] == (AWAY,) * 4
    assert ground.beside(14, 28) == 3
