"""Crafter's agents: the planner wins from the start and from where others left it, and knows when nobody can."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from agent_envs.base.errors import Unsolvable
from agent_envs.envs.text_games.crafter.env import GOALS, Crafter
from agent_envs.envs.text_games.crafter.sight import SIDE, character
from agent_envs.envs.text_games.crafter.solver import Planner, choose_by_plan, choose_safely, next_action, wins
from agent_envs.envs.text_games.crafter.world import new_game, rules
from agent_envs.envs.text_games.game import random_action
from agent_envs.rollout.episode_runner import solve

PICKAXE = ("make_wood_pickaxe",)


def started(goal, task=0, **arguments):
    env = Crafter(goal=goal, **arguments)
    env.reset(seed=0, options={"task": task, "split": "test"})
    return env


def played(live, wanted, limit, decide=choose_safely):
    """Play on until it is decided; return the turns, and whether all is had."""
    actions = rules().actions
    for turn in range(limit):
        if live.unlocked.issuperset(wanted) or live._player.health <= 0:
            return turn, live.unlocked.issuperset(wanted)
        choice = decide(live, wanted, limit - turn)
        if choice is None:
            return turn, False
        live.act(character(actions.index(choice.action)))
    return limit, live.unlocked.issuperset(wanted)


def wandered(seed, steps):
    """Return a game after so many random steps."""
    live, rng = new_game(seed), random.Random(f"{seed}/{steps}")
    for _ in range(steps):
        live.act(character(rng.randrange(17)))
    return live


@pytest.mark.parametrize("goal", ["collect_wood", "place_table", "make_pickaxe"])
def test_it_wins_fast(goal):
    for task in range(4):
        env = started(goal, task)
        turns = solve(env)
        for action in turns:
            assert not env.episode.over
            env.step(action)
        assert env.episode.success and env.episode.turns[-1].reward == 1.0 and len(turns) <= 40
        with pytest.raises(Unsolvable, match="over"):
            next_action(env)


def test_it_wins_after_what_others_did():
    won = 0
    for seed in range(12):
        live = wandered(seed, 110)
        if live._player.health > 0:
            won += played(live, PICKAXE, 190)[1]
        else:
            won += 1  # nobody could
    assert won == 12


@pytest.mark.parametrize(("seed", "steps"), [(1, 120), (27, 150), (40, 150), (42, 150)])
def test_it_looks_ahead_where_the_plan_alone_dies(seed, steps):
    def bare(live, wanted, left):
        return choose_by_plan(live.chart(), wanted, left)

    left = 300 - steps
    assert played(wandered(seed, steps), PICKAXE, left, bare)[1] is False
    assert played(wandered(seed, steps), PICKAXE, left)[1] is True


def test_it_waits_while_it_sleeps():
    env = started("collect_wood")
    for _ in range(31):
        env.step("ACTION: noop")
    env.step("ACTION: sleep")
    assert env.episode.state.sight.sleeping
    assert next_action(env) == "THINK: I sleep, and can only wait.\nACTION: noop"
    for _ in range(60):
        if not env.episode.over:
            env.step(next_action(env))
    assert env.episode.success


def test_it_says_when_the_turns_do_not_suffice():
    env = started("make_pickaxe", max_turns=4)
    # Three pieces of wood, a table and the pickaxe take five turns.
    with pytest.raises(Unsolvable, match="Crafter.*: what the goal asks for is out of reach"):
        next_action(env)
    env = started("collect_wood", max_turns=1)
    next_action(env)
    live = new_game(3)
    live._world._mat_map[live._world._mat_map == live._world._mat_ids["tree"]] = live._world._mat_ids["grass"]
    assert choose_safely(live, PICKAXE, 300) is None and not wins(live, PICKAXE, 50)


def test_ways_lead_through_trees_and_never_through_lava_or_water():
    live = new_game(3)
    names, world = live._world._mat_ids, live._world
    for thing in list(world.objects)[1:]:
        world.remove(thing)
    world._mat_map[:] = names["lava"]
    world._mat_map[32, 32:40] = names["grass"]
    world._mat_map[32, 35] = names["tree"]
    world._mat_map[32, 39] = names["diamond"]
    planner = Planner(live.chart(), rules())
    way = planner._route(lambda cell: cell == 38 * SIDE + 32)
    assert way == [row * SIDE + 32 for row in range(32, 39)]
    world._mat_map[32, 35] = names["water"]
    planner = Planner(live.chart(), rules())
    assert planner._route(lambda cell: cell == 38 * SIDE + 32) is None
    assert planner.toward("collect_diamond") is None  # it asks for an iron pickaxe, and there is no tree


def test_tools_are_made_beside_what_they_need():
    live = new_game(6)
    live._player.inventory.update(wood=9, stone=9, coal=2, iron=2)
    done = []
    for name in ("make_iron_pickaxe", "make_iron_sword", "place_plant"):
        turns, had = played(live, (name,), 60)
        done.append((turns <= 20, had))
    assert done[:2] == [(True, True)] * 2 and done[2][1]
    assert {"place_table", "place_furnace"} <= live.unlocked


def test_a_whole_game_goes_far():
    live = new_game(2)
    played(live, rules().achievements, 150, lambda game, wanted, left: choose_by_plan(game.chart(), wanted, left))
    assert len(live.unlocked) >= 10


def test_the_native_reward_is_taken_on_the_way():
    totals = {}
    for reward in ("binary", "native"):
        env = started("collect_wood", reward=reward)
        while not env.episode.over:
            env.step(next_action(env))
        assert env.episode.success
        totals[reward] = env.trajectory.total_reward
    assert totals["binary"] == 1.0 and totals["native"] >= 3


def test_random_play_draws_from_all_actions_alike():
    env, rng = started("collect_wood"), random.Random(0)
    counts = Counter(env.action_of(random_action(env, rng))[0] for _ in range(3400))
    assert sorted(counts) == list(range(17)) and all(140 < number < 260 for number in counts.values())


def test_planning_changes_nothing():
    env = started("make_pickaxe")
    before = env.episode
    assert next_action(env) == next_action(env)
    assert env.episode is before
    twin = replace(env.episode.state)
    assert env.game.twin(twin).sight() == before.state.sight


def test_every_goal_has_its_limit():
    assert {name: turns for name, (_, _, turns) in GOALS.items()} == {
        "collect_wood": 100,
        "place_table": 200,
        "make_pickaxe": 300,
        "full": 2000,
    }
