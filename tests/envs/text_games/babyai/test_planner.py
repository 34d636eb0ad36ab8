"""The planner wins what can be won, from any state."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from agent_envs.base.errors import Unsolvable
from agent_envs.envs.text_games.babyai.grid import DROP, GO_FORWARD, NOWHERE, PICK_UP, TOGGLE, TURN_LEFT, TURN_RIGHT
from agent_envs.envs.text_games.babyai.instructions import FAILURE, SUCCESS, play_action
from agent_envs.envs.text_games.babyai.planner import plan
from tests.envs.text_games.babyai.rooms import both, clause, drawn
from tests.needs import needs

LEFT, RIGHT, GO = TURN_LEFT, TURN_RIGHT, GO_FORWARD


def won(world):
    """The plan, after it was played to its end."""
    actions = plan(world)
    for number, action in enumerate(actions, 1):
        world, status = play_action(world, action)
        assert (status == SUCCESS) == (number == len(actions)), status
    return actions


def shortest(world):
    """How many actions the mission needs at least, by trying all of them."""
    start = replace(world, steps=0)
    layer, seen, count = [start], {start}, 0
    while layer:
        count += 1
        following = []
        for state in layer:
            for action in range(6):
                after, status = play_action(state, action)
                if status == SUCCESS:
                    return count
                after = replace(after, steps=0)
                if status != FAILURE and after not in seen:
                    seen.add(after)
                    following.append(after)
        layer = following
    raise AssertionError("no way")


def test_it_goes_the_short_way():
    world = drawn(["#######", "#>    #", "#    a#", "#######"], {"a": "red ball"}, clause("goto", "red ball"))
    assert won(world) == (GO, GO, GO, GO, RIGHT)


def test_facing_it_already_takes_one_action_that_changes_nothing():
    world = drawn(["#####", "#>a #", "#####"], {"a": "red ball"}, clause("goto", "red ball"))
    assert won(world) == (DROP,)


def test_it_takes_the_nearest_that_fits():
    rows = ["########", "#a >  b#", "########"]
    world = drawn(rows, {"a": "red key", "b": "blue key"}, clause("pickup", "key"))
    assert won(world) == (GO, GO, PICK_UP)


def test_full_hands_are_freed_first():
    rows = ["#####", "#   #", "#>a #", "#   #", "#####"]
    world = drawn(rows, {"a": "red ball", "k": "blue key"}, clause("pickup", "red ball"), carrying="k")
    assert won(world)[-1] == PICK_UP and DROP in won(world)


def test_what_is_in_hand_already_is_put_down_and_taken_again():
    world = drawn(["######", "#>   #", "######"], {"a": "red ball"}, clause("pickup", "red ball"), carrying="a")
    assert won(world) == (DROP, PICK_UP)


def test_a_door_is_opened_and_an_open_one_closed_first():
    closed = drawn(["#####", "#>d #", "#####"], {"d": "closed red door"}, clause("open", "door"))
    opened = drawn(["#####", "#>d #", "#####"], {"d": "open red door"}, clause("open", "door"))
    assert won(closed) == (TOGGLE,)
    assert won(opened) == (TOGGLE, TOGGLE)


def test_the_door_in_whose_frame_the_agent_stands_can_be_the_goal():
    world = drawn(["######", "#  d>#", "######"], {"d": "open red door"}, clause("open", "door"))
    assert won(replace(world, place=world.place - 1))[-2:] == (TOGGLE, TOGGLE)


def test_a_key_is_fetched_even_out_of_a_box_and_past_what_blocks_the_door():
    rows = ["########", "#>  cd #", "# b ## #", "#   ##a#", "########"]
    legend = {"a": "red ball", "b": "grey box", "c": "green ball", "d": "locked blue door", "k": "blue key"}
    actions = won(drawn(rows, legend, clause("pickup", "red ball"), inside={"b": "k"}))
    assert actions.count(PICK_UP) >= 3 and actions.count(TOGGLE) == 2


def test_a_box_with_the_key_in_hand_is_put_down_and_opened():
    rows = ["#######", "#>  d #", "#######"]
    legend = {"b": "grey box", "d": "locked blue door", "k": "blue key"}
    world = drawn(rows, legend, clause("open", "door"), carrying="b", inside={"b": "k"})
    assert won(world)[:3] == (DROP, TOGGLE, PICK_UP)


def test_keys_behind_doors_behind_keys():
    rows = ["############", "#a >d b e c#", "############"]
    legend = {"a": "red key", "b": "blue key", "c": "grey ball", "d": "locked red door", "e": "locked blue door"}
    assert won(drawn(rows, legend, clause("pickup", "ball"))).count(TOGGLE) == 2


def test_a_passage_is_cleared():
    rows = ["#######", "#  #  #", "#>bc a#", "#  #  #", "#######"]
    world = drawn(rows, {"a": "red ball", "b": "blue box", "c": "grey key"}, clause("goto", "red ball"))
    assert won(world).count(PICK_UP) == 2


def test_a_pocket_is_left():
    rows = ["#####", "#>b #", "#c#a#", "#   #", "#####"]
    world = drawn(rows, {"a": "red ball", "b": "blue box", "c": "grey key"}, clause("goto", "red ball"))
    assert won(world)


def test_putting_next_to_a_thing_that_is_shut_in_or_in_hand():
    rows = ["#######", "#>   a#", "#   e #", "#  bcd#", "#   f #", "#######"]
    legend = {"a": "red ball", "c": "blue key"} | dict.fromkeys("bdef", "grey box")
    assert won(drawn(rows, legend, clause("putnext", "red ball", "blue key")))[-1] == DROP
    held = drawn(["#####", "#>  #", "# a #", "#####"], {"a": "red ball", "c": "blue key"}, carrying="c")
    mission = clause("putnext", "red ball", "blue key")(held.things)
    assert won(replace(held, instructions=mission))[-1] == DROP


@pytest.mark.parametrize("order", ["before", "after", "and"])
def test_sequences(order):
    rows = ["#########", "#b  >  a#", "#########"]
    mission = both(order, clause("goto", "red ball"), clause("pickup", "blue key"))
    actions = won(drawn(rows, {"a": "red ball", "b": "blue key"}, mission))
    assert actions[0] == {"before": GO, "after": LEFT, "and": GO}[order]


def test_both_orders_of_an_and_are_weighed():
    rows = ["##########", "#b   >  a#", "##########"]
    mission = both("and", clause("goto", "blue key"), clause("goto", "red ball"))
    assert won(drawn(rows, {"a": "red ball", "b": "blue key"}, mission)) == (GO, GO, LEFT, LEFT, *[GO] * 5)


def test_a_strict_clause_opens_no_other_door():
    rows = ["#########", "#> c   d#", "# ##### #", "#       #", "#########"]
    legend = {"c": "closed red door", "d": "closed blue door"}
    assert won(drawn(rows, legend, clause("open", "blue door", strict=True))).count(TOGGLE) == 1


def test_what_cannot_be_won_is_said():
    shut = drawn(
        ["######", "#> d #", "#  #k#", "######"], {"d": "locked red door", "k": "red key"}, clause("open", "door")
    )
    with pytest.raises(Unsolvable, match="within the 200 steps"):
        plan(shut)
    world = drawn(["#####", "#> a#", "#####"], {"a": "red box"}, clause("goto", "red box"))
    gone = replace(world, things=(replace(world.things[0], place=NOWHERE),), cells=world.cells.replace("@", " "))
    with pytest.raises(Unsolvable):
        plan(gone)
    assert len(plan(replace(world, limit=1))) == 1
    far = drawn(["######", "#>  a#", "######"], {"a": "red box"}, clause("goto", "red box"))
    with pytest.raises(Unsolvable):
        plan(replace(far, limit=1))
    with pytest.raises(Unsolvable):
        plan(replace(world, limit=5, steps=5))


@needs("[babyai]")
def test_plans_of_one_clause_are_as_short_as_can_be():
    from agent_envs.envs.text_games.babyai.levels import local_level

    for kind in ("goto", "pickup"):
        for seed in range(15):
            world = local_level(kind).world(seed)
            assert len(won(world)) == shortest(world)


@pytest.mark.parametrize("kind", ["goto", "pickup", "open", "putnext", "pick_up_seq_go_to"])
@needs("[babyai]")
def test_the_kinds_are_won_with_and_without_distractors(kind):
    from agent_envs.envs.text_games.babyai.levels import local_level

    for distractors in (0, 12):
        for seed in range(20):
            assert won(local_level(kind, distractors).world(seed))


@pytest.mark.parametrize(
    "name",
    [
        "BossLevel", "MiniBossLevel", "SynthS5R2", "SynthSeq", "GoToSeq", "KeyCorridorS3R3", "KeyInBox", "UnblockPickup",
        "BlockedUnlockPickup", "UnlockToUnlock", "MoveTwoAcrossS8N9", "PutNextS7N4Carrying", "PickupDistDebug",
        "OpenDoorDebug",
    ],
)  # fmt: skip
@needs("[babyai]")
def test_levels_of_minigrid_are_won(name):
    from agent_envs.envs.text_games.babyai.levels import named_level

    for seed in range(8):
        assert won(named_level(name).world(seed))


@needs("[babyai]")
def test_it_wins_after_anything_that_leaves_a_way():
    from agent_envs.envs.text_games.babyai.levels import named_level

    outcomes = Counter()
    for seed in range(40):
        rng = random.Random(seed)
        world = replace(named_level("MiniBossLevel").world(seed), limit=2_000)
        for _ in range(80):
            after, status = play_action(world, rng.choice((LEFT, RIGHT, GO, GO, PICK_UP, DROP, TOGGLE)))
            if status == FAILURE or status == SUCCESS:
                break
            world = after
        # A box that was opened is gone, and perhaps the mission with it.
        opened = any(thing.kind == "box" and thing.place == NOWHERE for thing in world.things)
        if opened:
            outcomes["opened"] += 1
        else:
            won(world)
            outcomes["won"] += 1
    assert outcomes["won"] >= 25
