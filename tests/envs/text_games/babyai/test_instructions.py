"""The missions: exact small cases, and every verdict equal to that of minigrid's verifier."""

import random
from collections import Counter

import pytest

from tests.needs import require

require("[babyai]")

from minigrid.envs.babyai.core.levelgen import LevelGen
from minigrid.utils.baby_ai_bot import BabyAIBot

from agent_envs.envs.text_games.babyai.instructions import located
from agent_envs.envs.text_games.babyai.levels import local_level, named_level
from agent_envs.envs.text_games.babyai.mission import BabyClause, BabyDesc, BabySequence, surface
from tests.envs.text_games.babyai.mirror import begun, reset, restless, run, step

BALL = BabyDesc("ball", "red", "", False, (0,))
BOX = BabyDesc("box", "", "left", True, (1, 2))
ANY = BabyDesc("", "grey", "behind", True, (3, 4))
DOOR = BabyDesc("door", "", "front", False, (5,))


class Strict(LevelGen):
    """Small levels whose missions are strict wherever a coin says so."""

    def gen_mission(self):
        super().gen_mission()
        for instr in (self.instrs, *(vars(self.instrs).get(name) for name in ("instr_a", "instr_b"))):
            if hasattr(instr, "strict"):
                instr.strict = bool(self._rand_bool())


def small(level_class, seed, **arguments):
    size = {"room_size": 5, "num_rows": 1, "num_cols": 2, "num_dists": 3, "locked_room_prob": 0.3}
    return reset(level_class(**size, **arguments), seed)


def test_surface():
    go, take = BabyClause("goto", BALL), BabyClause("pickup", BOX)
    put, door = BabyClause("putnext", BALL, ANY), BabyClause("open", DOOR)
    assert surface(go) == "go to the red ball"
    assert surface(take) == "pick up a box on your left"
    assert surface(put) == "put the red ball next to a grey object behind you"
    assert surface(door) == "open the door in front of you"
    both = BabySequence("and", go, take)
    assert surface(both) == "go to the red ball and pick up a box on your left"
    assert surface(BabySequence("before", door, both)) == f"open the door in front of you, then {surface(both)}"
    assert surface(BabySequence("after", door, go)) == "open the door in front of you after you go to the red ball"


def judged(level_class, kinds, seeds, steps, **arguments):
    """Play restlessly until each mission's end and return how often each class of mission ended how."""
    ends = Counter()
    for seed in seeds:
        level = small(level_class, seed, instr_kinds=kinds, **arguments)
        world, rng = begun(level), random.Random(seed)
        for _ in range(steps):
            world, status = step(world, level, restless(world, rng))
            if status != "continue":
                ends[type(level.instrs).__name__, status] += 1
                break
    return ends


def test_single_clauses_end_as_in_minigrid():
    ends = judged(LevelGen, ["action"], range(15), 200)
    assert {"GoToInstr", "OpenInstr", "PickupInstr"} <= {name for name, status in ends if status == "success"}
    puts = judged(LevelGen, ["action"], range(15), 150, action_kinds=["putnext"])
    assert puts["PutNextInstr", "success"] > 0


def test_sequences_end_as_in_minigrid():
    ends = judged(LevelGen, ["and", "seq"], range(20), 250, action_kinds=["goto", "pickup", "open"])
    assert {name for name, status in ends if status == "success"} == {"AndInstr", "AfterInstr", "BeforeInstr"}


def test_strict_missions_fail_as_in_minigrid():
    ends = judged(Strict, ["action", "seq"], range(30), 120)
    failed = {name for name, status in ends if status == "failure"}
    assert {"AfterInstr", "BeforeInstr"} < failed
    assert len(failed) > 2


@pytest.mark.parametrize(
    "name",
    ["GoToSeqS5R2", "PickupLoc", "OpenDoorLoc", "PutNextLocal", "PutNextS5N2", "MoveTwoAcrossS5N2",
     "OpenRedBlueDoorsDebug", "UnlockToUnlock", "MiniBossLevel", "SynthSeq", "BossLevel"],
)  # fmt: skip
def test_minigrids_own_bot_wins_here_too(name):
    level = reset(named_level(name).make(), 11)
    world, bot, status, action = begun(level), BabyAIBot(level), "continue", None
    while status == "continue":
        action = int(bot.replan(action))
        world, status = step(world, level, action)
    assert status == "success"


def test_after_a_success_and_over_it_the_verdicts_stay_equal():
    for kind in ("goto", "putnext", "pick_up_seq_go_to"):
        for seed in range(4):
            _, statuses = run(reset(local_level(kind).make(), seed), random.Random(f"over {kind} {seed}"), 150)
            assert len(statuses) == 150


def test_what_is_carried_stands_nowhere():
    level = reset(local_level("pickup").make(), 3)
    world, bot, action = begun(level), BabyAIBot(level), None
    desc = world.instructions.thing
    assert located(desc, world) == (world.things[desc.matches[0]].place,)
    status = "continue"
    while status == "continue":
        action = int(bot.replan(action))
        world, status = step(world, level, action)
    assert (status, world.carrying, located(desc, world)) == ("success", desc.matches[0], ())
