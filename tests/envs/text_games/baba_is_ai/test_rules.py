import json
import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.serialization import canonical_json, decode_state, encode_state
from agent_envs.envs.text_games.baba_is_ai.rules import (
    DOWN,
    EMPTY,
    IDLE,
    LEFT,
    RIGHT,
    UP,
    moved,
    neighbours,
    outcome,
    rules_in,
)
from tests.envs.text_games.baba_is_ai.boards import after, board, chance_board, yous
from tests.examples import examples

YOU = "BABA IS YOU . ."


def test_rules_read_to_the_right_and_downwards():
    world = board("BABA IS YOU", "IS . IS", "WIN . KEY")
    assert rules_in(world).lines == ("baba is win", "baba is you")
    assert rules_in(board("YOU IS BABA")).lines == ()
    assert rules_in(board("WIN", "IS", "KEY")).lines == ()
    assert rules_in(board("KEY . IS WIN")).lines == ()
    assert rules_in(board("KEY IS", "WIN .")).lines == ()  # not round the edge


def test_a_rule_needs_a_property_and_stands_once():
    assert rules_in(board("KEY IS DOOR")).lines == ()
    assert rules_in(board("IS IS YOU")).lines == ()
    assert rules_in(board("KEY IS WIN", "KEY IS WIN")).lines == ("key is win",)
    assert len(rules_in(board("KEY IS WIN", "KEY IS WIN")).blocks) == 2


def test_a_row_of_blocks_is_pushed_along():
    world = board(YOU, "baba KEY BALL . key")
    assert after(world, RIGHT) == board(YOU, ". baba KEY BALL key")
    assert after(world, RIGHT, RIGHT) == board(YOU, ". . baba KEY key+BALL")
    assert after(world, RIGHT, RIGHT, RIGHT) == after(world, RIGHT, RIGHT)  # the edge holds the row


def test_blocks_are_pushed_in_all_directions():
    world = board(". . . .", ". KEY baba .", "BABA IS YOU .", ". . . .")
    assert after(world, LEFT) == board(". . . .", "KEY baba . .", "BABA IS YOU .", ". . . .")
    assert after(world, UP, LEFT, DOWN) == board(". . . .", ". baba . .", "BABA KEY YOU .", ". IS . .")
    assert outcome(after(world, UP, LEFT, DOWN)) == "lost"
    assert after(board(". .", "KEY .", "baba .", "BABA .", "IS .", "YOU ."), UP).texts == "k....." + "b.i.Y."


def test_things_are_walked_over_and_text_is_pushed_over_them():
    world = board(YOU, "baba ball KEY door .")
    assert after(world, RIGHT, RIGHT) == board(YOU, ". ball baba door+KEY .")


def test_stop_blocks_you_and_text():
    world = board("BABA IS YOU . .", "WALL IS STOP . .", "baba KEY wall . .", ". . . . .")
    assert after(world, RIGHT) == world
    assert after(world, DOWN, RIGHT, RIGHT) == board(
        "BABA IS YOU . .", "WALL IS STOP . .", ". KEY wall . .", ". . baba . ."
    )
    assert after(world, DOWN, RIGHT, RIGHT, UP).places == after(world, DOWN, RIGHT, RIGHT).places


def test_text_on_a_stop_cannot_be_pushed():
    world = board("BABA IS YOU .", "WALL IS STOP .", "baba wall+KEY . .")
    assert after(world, RIGHT) == world


def test_stop_is_broken_and_made():
    world = board("BABA IS YOU . .", ". . baba . .", "WALL IS STOP . .", ". . . . wall", ". . . . .")
    broken = after(world, DOWN)
    assert rules_in(broken).lines == ("baba is you",)
    assert after(broken, RIGHT, RIGHT, DOWN).places[0] == 19  # on the wall
    assert after(world, RIGHT, RIGHT, DOWN, DOWN).places[0] == 14  # before it
    made = after(broken, RIGHT, DOWN, DOWN, LEFT, UP)
    assert rules_in(made).lines == ("baba is you", "wall is stop")


def test_stop_that_is_you_stops_nothing():
    world = board("WALL IS YOU . .", "WALL IS STOP . .", "wall wall . . wall")
    assert rules_in(world).stop == ""
    assert after(world, RIGHT) == board("WALL IS YOU . .", "WALL IS STOP . .", ". wall wall . wall")


def test_several_are_you_and_move_at_once():
    world = board("BABA IS YOU .", "KEY IS YOU .", "baba key . baba", "BALL . . key")
    assert yous(world) == (8, 9, 11, 15)
    assert after(world, RIGHT) == board("BABA IS YOU .", "KEY IS YOU .", ". baba key baba", "BALL . . key")
    assert after(world, DOWN) == board("BABA IS YOU .", "KEY IS YOU .", "baba . . .", "BALL key . baba+key")


def test_blocks_between_two_that_are_you():
    world = board("BABA IS YOU . .", "baba KEY baba BALL .")
    assert after(world, RIGHT) == board("BABA IS YOU . .", ". baba KEY baba BALL")
    # The one in front is held by the edge; the one behind pushes its block onto that cell.
    assert after(world, RIGHT, RIGHT) == board("BABA IS YOU . .", ". . baba baba+KEY BALL")


def test_you_changes_when_a_noun_takes_the_place_of_another():
    world = board("baba . .", "KEY . .", "BABA IS YOU", ". . .", "key . .")
    changed = after(world, DOWN)
    assert rules_in(changed).lines == ("key is you",) and outcome(changed) == ""
    assert yous(changed) == (12,) and yous(after(changed, RIGHT)) == (13,)
    assert rules_in(after(changed, UP)).lines == ("baba is you",)  # the key pushes both nouns up again


def test_losing_you_loses():
    assert outcome(after(board("baba . .", "BABA IS YOU", ". . ."), DOWN)) == "lost"
    assert outcome(board("BALL IS YOU", "baba . .")) == "lost"


def test_win_by_walking_and_by_making_the_rule_under_your_feet():
    assert outcome(after(board(YOU, "KEY IS WIN . .", "baba key . . ."), RIGHT)) == "won"
    world = board("BABA IS YOU . .", ". IS WIN . .", "KEY . . . .", "baba+key . . . .")
    assert outcome(world) == "" and outcome(after(world, UP)) == ""  # the key stays behind
    both = board("BABA IS YOU . .", "BALL IS YOU . .", "KEY . . . .", "baba . . . ball+key", ". IS WIN . .")
    assert outcome(after(both, DOWN)) == ""
    assert outcome(after(board("BABA IS YOU .", ". IS WIN .", "BABA . . .", "baba . . ."), UP)) == "won"  # baba is win


def test_win_does_not_count_for_what_is_not_you():
    assert outcome(board("BABA IS YOU .", "KEY IS WIN .", "baba . ball+key .")) == ""


def test_idle_and_blocked_moves_change_nothing():
    world = board(YOU, "baba . . . .")
    assert moved(world, IDLE) is world
    assert moved(world, LEFT) == world and moved(world, DOWN) == world


def test_neighbours_end_at_the_edge():
    assert neighbours(3, 2)[RIGHT] == (1, 2, -1, 4, 5, -1)
    assert neighbours(3, 2)[UP] == (-1, -1, -1, 0, 1, 2)


@examples(150)
@given(st.integers(0, 10**9), st.integers(3, 7), st.integers(2, 6), st.lists(st.integers(0, 4), max_size=25))
def test_nothing_is_lost_and_nothing_leaps(seed, width, height, actions):
    world = chance_board(random.Random(seed), width, height, seed % 5)
    for action in actions:
        rules, then = rules_in(world), moved(world, action)
        assert then == moved(world, action)
        assert (then.objects, len(then.places), len(then.texts)) == (world.objects, len(world.places), len(world.texts))
        assert Counter(then.texts) == Counter(world.texts)  # blocks never lie on one another
        step = neighbours(width, height)[action]
        for kind, old, new in zip(world.objects, world.places, then.places, strict=True):
            assert new == old or kind in rules.you and new == step[old]
        stops = {place for kind, place in zip(world.objects, world.places, strict=True) if kind in rules.stop}
        entered = {new for old, new in zip(world.places, then.places, strict=True) if new != old}
        pushed = {place for place, letter in enumerate(then.texts) if letter not in (EMPTY, world.texts[place])}
        assert not (entered | pushed) & stops
        assert decode_state(json.loads(canonical_json(encode_state(then)))) == then
        world = then
