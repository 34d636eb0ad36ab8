from collections import Counter

import pytest

from agent_envs.base.serialization import digest, encode_state
from agent_envs.core.trajectory import Task
from agent_envs.datasets.seeded import SPLITS
from agent_envs.envs.text_games.baba_is_ai.bound import Bound
from agent_envs.envs.text_games.baba_is_ai.env import labels_of
from agent_envs.envs.text_games.baba_is_ai.levels import (
    DIVIDE,
    FEWEST_STEPS,
    GOAL,
    KINDS,
    LARGE,
    MOST_STEPS,
    RECIPES,
    SMALL,
    BabaSource,
    BabaTask,
)  # fmt: skip
from agent_envs.envs.text_games.baba_is_ai.rules import NOUNS, WIN, YOU, BabaWorld, outcome, rules_in
from agent_envs.envs.text_games.baba_is_ai.solver import plan
from tests.envs.text_games.baba_is_ai.boards import after, yous
from tests.fresh_process import printed

TASKS = 2  # of a kind


@pytest.fixture(scope="module")
def worlds():
    return {kind: [BabaSource(kind).get("test", index).data.world for index in range(TASKS)] for kind in KINDS}


def straight(world):
    """Return a world whose rooms lie side by side: rows and columns exchanged back where they are exchanged."""
    if world.width >= world.height and (world.width > world.height or "biY" in world.texts):
        return world
    w, h = world.width, world.height
    texts = "".join(world.texts[x * w + y] for y in range(w) for x in range(h))
    return BabaWorld(h, w, texts, world.objects, tuple(place % w * h + place // w for place in world.places))


def column(world, kind):
    return world.places[world.objects.index(kind)] % world.width


def test_the_forty_names():
    assert len(KINDS) == 40
    shapes = Counter(kind.replace("two_room-", "").split("-")[0] for kind in KINDS)
    assert shapes == {
        "goto_win": 11, "make_win": 11, "break_stop": 10, "maybe_break_stop": 5, "make_you": 2, "make_wall_win": 1,
    }  # fmt: skip
    for name in (
        "goto_win", "make_win-distr_obj-irrelevant_rule", "two_room-goto_win-distr_win_rule", "two_room-make_you-make_win",
        "two_room-break_stop-make_win-distr_obj_rule", "two_room-maybe_break_stop-goto_win-distr_rule",
    ):  # fmt: skip
        assert name in KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_won_and_not_at_once(worlds, kind):
    for world in worlds[kind]:
        steps = plan(world)
        assert FEWEST_STEPS <= len(steps) <= MOST_STEPS
        assert outcome(world) == "" and outcome(after(world, *steps)) == "won"
        assert not any(outcome(after(world, *steps[:done])) for done in range(len(steps)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_holds_what_its_name_says(worlds, kind):
    recipe = RECIPES[kind]
    for world in worlds[kind]:
        size = SMALL if recipe.rooms == 1 else LARGE
        assert (world.width, world.height) in (size, size[::-1])
        lines = rules_in(world).lines
        assert "baba is you" in lines and len(yous(world)) == 1
        assert ("wall is stop" in lines) == ("break_stop" in kind or "make_you" in kind or "make_wall_win" in kind)
        wins = [line for line in lines if line.endswith("win")]
        assert len(wins) == ("goto_win" in kind or kind == "two_room-make_you") + ("distr_win_rule" in kind)
        things = sorted(set(world.objects) - {"b", "w"})
        assert len(things) == len(world.objects.replace("w", "").replace("b", ""))
        second = any(part in kind for part in ("distr_obj", "distr_win", "make_you", "make_wall"))
        assert len(things) == 1 + second
        assert world.objects.count("w") == (recipe.rooms == 2) * LARGE[1]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "break_stop" in kind or "make_you" in kind])
def test_things_lie_behind_the_wall(worlds, kind):
    sides = set()
    for world in map(straight, worlds[kind]):
        assert column(world, "w") == DIVIDE and column(world, "b") < DIVIDE
        sides |= {column(world, thing) > DIVIDE for thing in set(world.objects) & set("dko")}
    assert True in sides and (False not in sides or "maybe" in kind)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_meant_to_be_out_of_reach_is(worlds, kind):
    recipe = RECIPES[kind]
    for world in worlds[kind]:
        bound, things = Bound(world), set(world.objects) - {"b", "w"}
        winners = {noun for noun in things if bound.makeable(world.texts, noun, WIN)}
        assert len(winners) == (0 if recipe.win == "lost" else 2 if recipe.you and len(winners) == 2 else 1)
        if not recipe.you:
            assert not any(bound.makeable(world.texts, noun, YOU) for noun in things)


def test_rules_are_broken_and_made_where_the_name_says_so(worlds):
    def seen(kind):
        for world in worlds[kind]:
            steps = plan(world)
            yield world, [set(rules_in(after(world, *steps[:done])).lines) for done in range(len(steps) + 1)]

    for kind in ("two_room-break_stop-goto_win", "two_room-make_wall_win"):
        assert all(any("wall is stop" not in lines for lines in said) for _, said in seen(kind))
    assert all("wall is win" in said[-1] for _, said in seen("two_room-make_wall_win"))
    for world, said in seen("two_room-make_you"):
        assert said[-1] & {f"{NOUNS[kind]} is you" for kind in set(world.objects) - {"b", "w"}}


def test_mixed_goes_through_the_kinds_by_turns():
    source = BabaSource()
    tasks = [source.get("dev", index) for index in range(5)]
    assert [labels_of(task) for task in tasks] == [{"kind": kind} for kind in KINDS[:5]]
    assert labels_of(source.get("dev", 42)) == {"kind": KINDS[2]}
    assert tasks[0].id == "baba-mixed-dev-0" and tasks[0].question == GOAL
    assert isinstance(tasks[0].data, BabaTask) and tasks[0].hidden == () and tasks[0].gold == ()


def test_splits_share_no_map():
    source = BabaSource("goto_win")
    found = {split: {source.get(split, index).data.world for index in range(120)} for split in SPLITS}
    assert all(len(found[split]) > 100 for split in SPLITS)
    assert not found["train"] & found["test"] and not found["train"] & found["dev"] and not found["dev"] & found["test"]


def test_half_of_the_maps_are_turned():
    turned = Counter(
        BabaSource("two_room-goto_win").get("train", index).data.world.width == LARGE[1] for index in range(60)
    )
    assert min(turned.values()) > 15


def test_tasks_are_the_same_in_every_process():
    code = (
        "from agent_envs.envs.text_games.baba_is_ai.levels import BabaSource\n"
        "from agent_envs.base.serialization import digest, encode_state\n"
        "print(digest([encode_state(BabaSource().get('test', n)) for n in (0, 7, 16, 37, 40)]))"
    )
    here = digest([encode_state(BabaSource().get("test", n)) for n in (0, 7, 16, 37, 40)])
    assert printed(code).strip() == here


def test_a_task_is_pinned_by_its_map():
    one, other = (BabaSource("goto_win").get("test", index) for index in range(2))
    assert one.digest != other.digest
    assert Task(one.id, one.split, one.question, (), one.cluster, one.data).digest == one.digest
