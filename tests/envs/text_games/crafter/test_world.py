"""Crafter's world against crafter itself: terrain, steps, chance; copies, replays, threads, other processes."""

import random
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import opensimplex
import pytest

from agent_envs.base.errors import MissingExtra
from agent_envs.envs.text_games.adapter.replay_copies import Replayed
from agent_envs.envs.text_games.crafter import world as crafter_world
from agent_envs.envs.text_games.crafter.env import Crafter
from agent_envs.envs.text_games.crafter.sight import (
    ACROSS,
    DOWN,
    MATERIALS,
    NOTHING,
    OUTSIDE,
    SIDE,
    THINGS,
    character,
    daylight,
    mark_of,
)
from agent_envs.envs.text_games.crafter.terrain import noise, permutation, terrain
from agent_envs.envs.text_games.crafter.world import CrafterLive, new_game, rules, world_digest, world_text
from tests.examples import sample
from tests.fresh_process import printed
from tests.rows import each_row

MOVES = "bcdefff"  # moves and `do`


def reference(seed):
    """Return crafter's own Env at the start of a world; its creatures stand in order, which is the one thing we change."""
    import crafter

    env = crafter.Env()
    env._world.__class__ = crafter_world._kit().world
    env._world.reset(seed=seed)
    env._episode, env._step, env._unlocked = 1, 0, set()
    env._update_time()
    env._player = crafter.objects.Player(env._world, (SIDE // 2, SIDE // 2))
    env._last_health = env._player.health
    env._world.add(env._player)
    crafter.worldgen.generate_world(env._world, env._player)
    env._obs()
    return env


def same_world(env, live):
    ours = live._world
    assert (env._world._mat_map == ours._mat_map).all() and (env._world._obj_map == ours._obj_map).all()
    theirs = [thing and {**vars(thing)} for thing in env._world._objects]
    for one, two in zip(theirs, ours._objects, strict=True):
        assert (one is None) == (two is None)
        if two is not None:
            for name, value in vars(two).items():
                if name not in ("world", "random", "player"):
                    assert np.array_equal(one[name], value), name
    one, two = env._world.random.get_state(), ours.random.get_state()
    assert one[2] == two[2] and (one[1] == two[1]).all()


@pytest.mark.parametrize("seed", sample([3, 2**31 + 11], 1))
def test_a_day_is_crafters_own_draw_for_draw(seed):
    env, live = reference(seed % (2**31 - 1)), CrafterLive(seed)
    same_world(env, live)
    rng = random.Random(seed)
    tried = set()
    for step in range(330):
        action = rng.choice([*MOVES, "a", *map(character, range(6, 17))])
        for player in (env._player, live._player):  # kept alive and rich, so that the night and every action are seen
            player.health = 9
            player.inventory.update(dict.fromkeys(["sapling", "wood", "stone", "coal", "iron", "food", "drink"], 5))
        env._last_health = live._health = 9
        _, reward, _, info = env.step(ord(action) - ord("a"))
        ours = live.act(action)
        assert ours.reward == reward and tuple(info["inventory"].values()) == ours.sight.items
        assert set(ours.sight.unlocked) == env._unlocked
        assert daylight(step + 1) == pytest.approx(env._world.daylight, abs=1e-12)
        tried.add(action)
        if step % 10 == 9:
            same_world(env, live)
    assert len(tried) == 17 and len(live.unlocked) >= 5


def test_noise_is_opensimplex_to_the_last_bit():
    rng = np.random.default_rng(0)
    apart, on_lines = rng.uniform(-30, 90, (2, 1500)), rng.integers(-9, 60, (2, 1500)) / 3
    x, y = np.concatenate([apart, on_lines], axis=1)
    z = rng.integers(0, 9, 3000).astype(float)
    simplex = opensimplex.OpenSimplex(seed=77)
    wanted = [simplex.noise3(*point) for point in zip(x.tolist(), y.tolist(), z.tolist(), strict=True)]
    assert noise(permutation(77), x, y, z).tolist() == wanted


def test_terrain_is_crafters_for_other_sizes_too():
    import crafter

    world = crafter_world._kit().world((40, 24), crafter.constants.materials, (12, 12))
    world.reset(seed=8)
    player = crafter.objects.Player(world, (5, 20))
    world.add(player)
    crafter.worldgen.generate_world(world, player)
    chance = np.random.RandomState(8)
    found = terrain(chance, 40, 24, 5, 20)
    assert found.materials == [world._mat_names[number] for number in world._mat_map.ravel().tolist()]
    assert found.creatures == [(type(one).__name__, *one.pos.tolist()) for one in world.objects[1:]]
    assert chance.random_sample() == world.random.random_sample()


def test_costs_are_those_that_the_prompt_tells():
    tables = rules()
    assert tables.collect["tree"] == {"require": {}, "receive": {"wood": 1}, "leaves": "grass"}
    assert {name: rule["uses"] for name, rule in tables.place.items()} == {
        "stone": {"stone": 1},
        "table": {"wood": 2},
        "furnace": {"stone": 4},
        "plant": {"sapling": 1},
    }
    needs = {"wood": {"wood": 1}, "stone": {"wood": 1, "stone": 1}, "iron": {"wood": 1, "coal": 1, "iron": 1}}
    places = {"wood": ["table"], "stone": ["table"], "iron": ["table", "furnace"]}
    for tool, rule in tables.make.items():
        kind = tool.partition("_")[0]
        assert (rule["uses"], rule["nearby"]) == (needs[kind], places[kind])
    tools = {kind: tables.collect[kind]["require"] for kind in ("stone", "coal", "iron", "diamond")}
    wood, stone, iron = {"wood_pickaxe": 1}, {"stone_pickaxe": 1}, {"iron_pickaxe": 1}
    assert tools == {"stone": wood, "coal": wood, "iron": stone, "diamond": iron}
    assert (len(tables.actions), len(tables.achievements)) == (17, 22)


def wandered(live, seed, steps):
    rng = random.Random(seed)
    taken = "".join(rng.choice("abcdefffg") for _ in range(steps))
    return taken, [live.act(action) for action in taken]


def test_a_copy_goes_its_own_way_and_the_same_way():
    live = new_game(21)
    wandered(live, "before", 60)
    before = world_text(live), live.sight(), live._world.random.get_state()[1].tolist()
    twins = [live.copy(), live.copy().copy()]
    futures = [wandered(twin, "after", 80)[1] for twin in twins]
    wandered(live.copy(), "another", 80)
    assert (world_text(live), live.sight(), live._world.random.get_state()[1].tolist()) == before
    assert futures[0] == futures[1] == wandered(live, "after", 80)[1]
    assert world_text(twins[0]) == world_text(twins[1]) == world_text(live) != before[0]


def test_a_replay_from_the_seed_is_the_copy():
    live = new_game(5)
    first, _ = wandered(live, "first", 50)
    twin = live.copy()
    second, steps = wandered(twin, "second", 50)
    replayed = new_game(5)
    assert [replayed.act(action) for action in first + second][-50:] == steps
    assert world_text(replayed) == world_text(twin)


def test_the_pristine_world_is_never_played():
    text = world_text(new_game(33))
    wandered(new_game(33), "x", 40)
    assert world_text(new_game(33)) == world_text(CrafterLive(33)) == text


def test_threads_share_a_store():
    worlds = Replayed(
        name="Crafter", start=new_game, act=CrafterLive.act, copy=CrafterLive.copy, live=3, checkpoints=4, every=8
    )

    def line(number):
        rng, taken, seen = random.Random(number), "", []
        for _ in range(40):
            action = rng.choice(MOVES)
            seen.append(worlds.step(number % 2, taken, action).sight)
            taken += action
        return taken, seen

    with ThreadPoolExecutor(6) as pool:
        lines = list(pool.map(line, range(6)))
    for number, (taken, seen) in enumerate(lines):
        live = new_game(number % 2)
        assert [live.act(action).sight for action in taken] == seen


def test_other_processes_with_other_hashes_and_addresses_see_the_same():
    code = (
        "import random, sys; junk = [object() for _ in range(int(sys.argv[1]))]\n"
        "from agent_envs.envs.text_games.crafter.world import CrafterLive, world_digest, world_text\n"
        "live, rng = CrafterLive(12), random.Random(4)\n"
        "for _ in range(400):\n"
        "    live.act(rng.choice('bcdefffa')); live._player.health = 9; live._player.inventory.update(food=9, drink=9)\n"
        "print(world_digest(world_text(live)), live._world.random.random_sample())\n"
    )
    told = [printed(code, junk, hash_seed=seed) for junk, seed in (("0", "1"), ("54321", "2"))]
    assert told[0] == told[1] and len(told[0].split()) == 2


def naive_sight(live):
    """Return ground and things of the view, cell by cell."""
    x, y = live._player.pos.tolist()
    ground, things = "", ""
    for row in range(y - DOWN // 2, y + DOWN // 2 + 1):
        for column in range(x - ACROSS // 2, x + ACROSS // 2 + 1):
            material, thing = live._world[(column, row)]
            ground += MATERIALS[material] if material else OUTSIDE
            things += THINGS[thing.texture] if thing and thing is not live._player else NOTHING
    return ground, things


@each_row("place", [(0, 0), (63, 63), (0, 40), (63, 2), (30, 0), (61, 62), (2, 3), (32, 32)])
def test_sight_at_the_edges_and_within(place):
    live = new_game(2)
    if live._world[place][1] is None:
        live._world.move(live._player, place)
    sight = live.sight()
    assert (sight.ground, sight.things) == naive_sight(live) and len(sight.ground) == ACROSS * DOWN
    assert sight.ground[ACROSS * DOWN // 2] != OUTSIDE
    chart = live.chart()
    assert chart.place == place[1] * SIDE + place[0]
    assert sum(mark != NOTHING for mark in sight.things) == sum(
        abs(cell % SIDE - place[0]) <= ACROSS // 2 and abs(cell // SIDE - place[1]) <= DOWN // 2
        for cell in chart.things
    )


def test_marks_of_moments_tell_them_apart():
    live = new_game(9)
    _, steps = wandered(live, "marks", 60)
    marks = {mark_of(step.sight) for step in steps}
    sights = {(s.sight.ground, s.sight.things, s.sight.items, s.sight.facing, s.sight.sleeping) for s in steps}
    assert len(marks) == len(sights) > 20


def test_digests_tell_worlds_and_rules_apart(monkeypatch):
    text = world_text(new_game(1))
    digest = world_digest(text)
    assert digest != world_digest(world_text(new_game(2))) and len(digest) == 64
    monkeypatch.setattr(crafter_world._kit(), "rules", rules()._replace(digest="of other rules"))
    assert world_digest(text) != digest


def test_nothing_is_said_and_no_global_chance_is_used(capfd):
    np.random.seed(1)
    random.seed(1)
    states = np.random.get_state()[1].tolist(), random.getstate()
    wandered(CrafterLive(77), "silent", 30)
    assert (np.random.get_state()[1].tolist(), random.getstate()) == states
    assert capfd.readouterr() == ("", "")


def test_without_crafter_the_extra_is_named(monkeypatch):
    crafter_world._kit.cache_clear()
    monkeypatch.setitem(sys.modules, "crafter", None)
    with pytest.raises(MissingExtra, match=r"agent-envs\[crafter\]"):
        Crafter()
    monkeypatch.undo()
    assert len(rules().actions) == 17
