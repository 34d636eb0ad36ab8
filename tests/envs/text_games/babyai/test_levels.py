"""The levels: minigrid's own worlds under their names, the five kinds with BALROG's sizes, missions and limits."""

import sys
from collections import Counter

import pytest

from tests.needs import require

require("[babyai]")

from agent_envs.base.errors import MissingExtra, UsageError
from agent_envs.envs.text_games.babyai.grid import CARRIED, NOWHERE, identity
from agent_envs.envs.text_games.babyai.levels import (
    DOOR_COLORS,
    EXCLUDED,
    KINDS,
    _gen_grid,
    _registered_levels,
    local_level,
    named_level,
    world_of,
)
from agent_envs.envs.text_games.babyai.mission import surface
from tests.envs.text_games.babyai.mirror import original

LIMITS = {"goto": 64, "pickup": 64, "open": 128, "putnext": 128, "pick_up_seq_go_to": 128}


def worlds(kind, count, distractors=0):
    level = local_level(kind, distractors)
    return [level.world(seed) for seed in range(count)]


def test_there_are_minigrids_96_levels():
    names = tuple(_registered_levels())
    assert len(names) == len(set(names)) == 96
    assert {"GoToObj", "GoToObjS6", "BossLevel", "PutNextS5N2Carrying", "OneRoomS8"} < set(names)


@pytest.mark.parametrize("name", ["GoToObjS6-v1", "GoToRedBlueBall-v0", "UnblockPickup-v0", "PutNextS6N3Carrying-v0",
                                  "Unlock-v0", "KeyInBox-v0", "SynthSeq-v0", "BossLevel-v0"])  # fmt: skip
def test_a_named_world_is_minigrids_of_that_seed(name):
    for seed in range(4):
        assert named_level(name).world(seed) == world_of(original(f"BabyAI-{name}", seed))


def test_names_may_leave_out_prefix_and_version():
    spellings = ("BabyAI-GoToObjS6-v1", "BabyAI-GoToObjS6", "GoToObjS6-v1", "GoToObjS6")
    assert {named_level(name).name for name in spellings} == {"GoToObjS6"}
    for name in ("GoToObjS6-v0", "goto", "MiniGrid-Empty-5x5-v0", "", "x" * 500):
        with pytest.raises(UsageError, match="is not known; minigrid has GoToRedBallGrey"):
            named_level(name)


def test_rejected_attempts_print_nothing(capfd):
    for name in ("UnblockPickup", "GoToSeq", "GoToRedBlueBall"):
        for seed in range(6):
            named_level(name).world(seed)
    for kind in KINDS:
        local_level(kind, 12).world(0)
    assert capfd.readouterr() == ("", "")
    original("BabyAI-UnblockPickup-v0", 0).reset(seed=0)
    assert "Sampling rejected" in capfd.readouterr().out


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_limits_and_things_of_the_kinds(kind):
    for world in worlds(kind, 60):
        assert (world.width, world.height) == ((15, 8) if kind == "open" else (8, 8))
        assert world.limit == LIMITS[kind]
        assert (world.steps, world.carrying) == (0, -1)
        kinds = Counter(thing.kind for thing in world.things)
        assert sum(kinds.values()) == (1 if kind in ("goto", "pickup") else 2)
        assert kinds == {"door": 1, "key": 1} if kind == "open" else not kinds["door"]
        assert not any(each in surface(world.instructions) for each in EXCLUDED)
    assert local_level(kind).most_turns() == LIMITS[kind]


@pytest.mark.parametrize(("kind", "low", "high"), [("goto", 15, 15), ("pickup", 15, 15), ("open", 5, 5),
                                                   ("putnext", 130, 180), ("pick_up_seq_go_to", 190, 240)])  # fmt: skip
def test_missions_of_the_kinds_are_varied(kind, low, high):
    missions = Counter(surface(world.instructions) for world in worlds(kind, 300))
    assert low <= len(missions) <= high
    first = min(missions)
    prefix = {"goto": "go to the ", "pickup": "pick up the ", "open": "open the ", "putnext": "put the "}.get(kind)
    assert prefix is None or all(mission.startswith(prefix) for mission in missions)
    if kind == "pick_up_seq_go_to":
        assert {"pick", "go"} == {mission.split()[0] for mission in missions}
        assert first.startswith("go to ") and " after you pick up " in first


def test_the_locked_door_of_open():
    found = worlds("open", 80)
    doors = [next(thing for thing in world.things if thing.kind == "door") for world in found]
    keys = [next(thing for thing in world.things if thing.kind == "key") for world in found]
    assert {door.color for door in doors} == set(DOOR_COLORS)
    assert all((door.state, door.color) == ("locked", key.color) for door, key in zip(doors, keys, strict=True))
    columns = [(key.place % 15, world.place % 15) for key, world in zip(keys, found, strict=True)]
    assert {(key < 7, agent < 7) for key, agent in columns} == {(True, True), (False, False)}
    assert {surface(world.instructions) for world in found} == {"open the door"} | {
        f"open the {color} door" for color in DOOR_COLORS
    }


def test_distractors_come_on_top():
    for kind, base in (("goto", 1), ("putnext", 2), ("open", 2)):
        assert {len(world.things) for world in worlds(kind, 8, 5)} == {base + 5}
    many = [surface(world.instructions) for world in worlds("goto", 40, 12)]
    assert any(mission.startswith("go to a ") for mission in many)
    assert not any(each in mission for mission in many for each in EXCLUDED)
    named = [thing for world in worlds("goto", 20, 12) for thing in world.things]
    assert any((thing.color, thing.kind) == ("yellow", "box") for thing in named)


def test_marks_and_places_agree():
    for name in ("BossLevel", "KeyInBox", "PutNextS7N4Carrying"):
        world = named_level(name).world(5)
        for place, character in enumerate(world.cells):
            assert identity(character) < 0 or world.things[identity(character)].place == place
        hidden = [thing for thing in world.things if thing.place < 0]
        assert {thing.place for thing in hidden} == {"BossLevel": set(), "KeyInBox": {NOWHERE}}.get(name, {CARRIED})
    box = next(thing for thing in named_level("KeyInBox").world(5).things if thing.kind == "box")
    assert named_level("KeyInBox").world(5).things[box.holds].kind == "key"


@pytest.mark.parametrize(("name", "most"), [("GoToObj", 64), ("MoveTwoAcrossS8N9", 1024), ("PickupLoc", 64), ("GoToSeq", 2304),
                                            ("Synth", 1152), ("MiniBossLevel", 800), ("BossLevel", 4608)])  # fmt: skip
def test_most_turns_bounds_every_limit(name, most):
    level = named_level(name)
    assert level.most_turns() == most
    assert max(level.world(seed).limit for seed in range(10)) <= most


def test_a_level_that_has_no_mission_says_so():
    class Barren:
        num_rows = num_cols = 1
        room_size = 8

        def gen_mission(self):
            raise RecursionError

        def _rand_int(self, low, high):
            return low

    with pytest.raises(UsageError, match="1000 missions in a row were rejected"):
        _gen_grid(Barren(), 8, 8)


def test_without_minigrid_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "minigrid.envs.babyai", None)
    with pytest.raises(MissingExtra, match=r'BabyAI needs minigrid: pip install "agent-envs\[babyai\]"'):
        local_level("goto")
