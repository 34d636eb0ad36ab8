"""Crafter as an environment: prompt, actions, notes, goals, rewards, tasks, snapshots, pictures."""

import re
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from agent_envs import Snapshot, check_turn_env, fork, restore, snapshot
from agent_envs.base.errors import UsageError
from agent_envs.envs.text_games.crafter.env import ACTIONS, GOALS, Crafter, labels_of
from agent_envs.envs.text_games.crafter.picture import drawing, picture
from agent_envs.envs.text_games.crafter.sight import ACROSS, DOWN, MATERIALS, OUTSIDE, THINGS
from agent_envs.envs.text_games.crafter.solver import next_action
from agent_envs.envs.text_games.crafter.world import rules
from agent_envs.envs.text_games.scoring import facts_of, metrics_of


def started(task=0, split="test", **arguments):
    env = Crafter(**arguments)
    observation, info = env.reset(seed=0, options={"task": task, "split": split})
    return env, observation, info


def doing(env, *actions):
    """Take actions by their names, and return the last observation."""
    for action in actions:
        observation = env.step(f"ACTION: {action}")[0]
    return observation


def acted(env, count, seed):
    words = ["move left", "move up", "do", "move down", "sleep", "place table", "move right", "what?", "noop"]
    return [env.step(f"ACTION: {words[(seed * 7 + n * n + n // 3) % len(words)]}") for n in range(count)]


def test_the_prompt_names_goal_and_actions():
    env, observation, info = started(goal="place_table")
    system, user = info["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert "Your goal is to collect wood and place a table." in system["content"]
    assert "- make iron sword: from 1 wood, 1 coal and 1 iron, next to a table and a furnace" in system["content"]
    assert "{" not in system["content"] and "counts as `noop`" in system["content"]
    assert user["content"].startswith("You have health 9, food 9, drink 9 and energy 9, of 9 each.\nYou carry nothing.")
    assert info["turns_left"] == 200 and "Achievements," not in user["content"]
    env, observation, info = started(goal="full", prompt_role="user")
    assert observation.endswith("\nAchievements, 0 of 22: none.") and info["turns_left"] == 2000


def test_actions_are_crafters_in_its_order():
    assert tuple(action.name.replace(" ", "_") for action in ACTIONS) == rules().actions
    env, _, _ = started()
    heard = ["Move_Left", "west", "`do`.", "INTERACT", "make wooden pickaxe", "Place Table", "go to sleep", "wait"]
    assert [env.action_of(f"ACTION: {text}")[0] for text in heard] == [1, 1, 5, 5, 11, 8, 6, 0]
    assert env.action_of("ACTION: fly")[0] is None


def test_an_invalid_turn_does_nothing_and_says_so():
    env, _, _ = started()
    observation = doing(env, "fly")
    assert observation.startswith("Your turn held no action: 'fly' is no action; name one of noop, move left,")
    assert ".\nInstead you did: noop.\nYou have health" in observation
    assert facts_of(env.episode.turns[-1]).action == "noop"
    env, _, _ = started(on_invalid="end")
    assert env.step("ACTION: fly")[2] is True and not env.episode.success


def test_notes_tell_what_was_lacking_and_what_is_new():
    env, _, _ = started(goal="make_pickaxe")
    assert doing(env, "place table").startswith("To place a table you need 2 wood.\nYou have")
    assert doing(env, "make iron sword").startswith("To make an iron sword you need 1 wood, 1 coal and 1 iron.\n")
    assert doing(env, "sleep").startswith("You are fully rested and cannot sleep.\n")
    told = []
    while not env.episode.over:
        told += re.findall(r"New achievement: (.*)\.", env.step(next_action(env))[0])
    assert told == ["collect wood", "place table", "make wood pickaxe"] and env.episode.success
    assert [facts_of(turn).reward for turn in env.episode.turns].count(1.0) == 3


def test_asleep_the_chosen_action_is_ignored_until_rested():
    env, _, _ = started(task=1, goal="full")
    doing(env, *["noop"] * 31)
    assert doing(env, "sleep").startswith("You fall asleep.\n")
    observation = doing(env, "move left")
    assert observation.startswith("You are asleep: what you chose was not done.\nYou have health")
    assert "\nYou are asleep until your energy is full, or something hurts you.\n" in observation
    facing = env.episode.state.sight.facing
    assert doing(env, "noop").startswith("You have health")
    for _ in range(20):
        observation = doing(env, "move up")
        if not env.episode.state.sight.sleeping:
            break
        assert env.episode.state.sight.facing == facing
    # Fully rested, crafter wakes the player and carries the action out.
    assert observation.startswith("You wake up.\nNew achievement: wake up.\nYou have health")
    assert env.episode.state.sight.facing == "up" and "energy 9" in observation


def test_death_ends_the_episode():
    env, _, _ = started(goal="full", reward="native")
    total = 0.0
    for _ in range(1500):
        observation, reward, terminated, truncated, info = env.step("ACTION: sleep")
        total += reward
        if terminated or truncated:
            break
    assert terminated and not truncated and info["success"] is False
    assert "You are dead.\nYou have health 0," in observation
    low, high = env.reward_spec.episode
    assert low <= total <= high and total == pytest.approx(-0.9 + len(env.episode.state.sight.unlocked))
    metrics = metrics_of(env.trajectory)
    assert metrics["progression"] == len(env.episode.state.sight.unlocked) / 22 and metrics["valid_actions"] == 1.0


def test_limits():
    env, _, info = started(max_turns=3)
    assert info["turns_left"] == 3
    assert [env.step("ACTION: noop")[3] for _ in range(3)] == [False, False, True]
    for wrong in ({"max_turns": 10_001}, {"max_turns": 0}, {"goal": "wealth"}, {"reward": "gold"}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            Crafter(**wrong)


def test_tasks_share_worlds_between_goals_and_none_between_splits():
    sources = {goal: Crafter(goal=goal).source for goal in ("collect_wood", "full")}
    one, two = (source.get("dev", 1) for source in sources.values())
    assert one.data.seed == two.data.seed and one.hidden == two.hidden and one.digest != two.digest
    assert (one.question, two.question) == ("collect wood", "survive and unlock all 22 achievements")
    worlds = {
        split: {sources["full"].get(split, n).data.digest for n in range(3)} for split in ("train", "dev", "test")
    }
    assert len(set.union(*worlds.values())) == 9
    assert labels_of(one) == {"goal": "collect wood"} and labels_of(two) == {"goal": "full"}


def test_a_world_that_this_crafter_does_not_make_is_refused():
    env, _, _ = started()
    task = env.episode.task
    for data, what in (
        (replace(task.data, digest="0" * 64), "another world"),
        (replace(task.data, goal="full"), "goal='full'"),
        ((), "names no world"),
    ):
        with pytest.raises(UsageError, match=what):
            env.reset(options={"task": replace(task, data=data)})


def test_a_fork_in_mid_episode_is_a_replay():
    env, _, _ = started(task=2, goal="full")
    acted(env, 45, 1)
    twin, restored = fork(env), Crafter(goal="full")
    data = snapshot(env).to_bytes()
    restore(restored, Snapshot.from_bytes(data))
    future = acted(twin, 50, 2)
    assert snapshot(env).to_bytes() == data
    assert acted(restored, 50, 2) == future == acted(env, 50, 2)
    again, _, _ = started(task=2, goal="full")
    assert acted(again, 45, 1) and acted(again, 50, 2) == future
    assert snapshot(again).to_bytes() == snapshot(twin).to_bytes()


def test_forks_in_threads_do_not_disturb_each_other():
    env, _, _ = started(task=1, goal="full")
    acted(env, 20, 3)
    twins = [fork(env) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda n: acted(twins[n], 40, n % 3), range(6)))
    assert found[:3] == found[3:]
    assert found[0] == acted(env, 40, 0)


def test_pictures_show_the_view():
    env, _, _ = started(task=0, goal="full", render_mode="svg")
    sizes = []
    for action in range(30):
        svg = env.render()
        root = ElementTree.fromstring(svg)
        assert root.tag == "{http://www.w3.org/2000/svg}svg" and root.get("viewBox").startswith("0 0 324 ")
        assert svg == picture(replace(env.episode.state.sight))
        sizes.append(len(svg.encode()))
        env.step(next_action(env) if action % 4 else "ACTION: move left")
    assert max(sizes) < 6_000 and "<script" not in svg and "href" not in svg
    assert "carries nothing" not in svg and ">carries 1 " in svg


def test_the_fullest_picture_stays_small_and_dark_ones_are_dimmed():
    env, _, _ = started()
    sight = env.episode.state.sight
    marks = "".join(MATERIALS.values())
    busy = replace(
        sight,
        ground=(marks * 6)[: ACROSS * DOWN],
        things=("".join(THINGS.values()) * 7)[: ACROSS * DOWN],
        items=(9,) * 16,
    )
    assert len(picture(busy).encode()) < 9_000
    shades = [float(re.findall(r'opacity="([\d.]+)"', picture(replace(sight, steps=step)))[-1]) for step in (60, 210)]
    assert shades[0] == 0.0 and shades[1] > 0.5
    assert "asleep" in picture(replace(sight, sleeping=True)) and "asleep" not in picture(sight)


def test_the_drawing_is_the_view_in_letters():
    env, _, _ = started()
    sight = replace(
        env.episode.state.sight,
        ground=OUTSIDE * 9 + "." * 11 + "T" + "." * 42,
        things=" " * 40 + "Z" + " " * 22,
        facing="up",
    )
    lines = drawing(sight).split("\n")
    assert lines[:5] == ["", ". . . . . . . . .", ". . T . . . . . .", ". . . . @ . . . .", ". . . . Z . . . ."]
    assert lines[7] == "@ you (looking up, at grass), . grass, T tree, Z zombie"
    assert lines[8:] == ["health 9, food 9, drink 9, energy 9", "carries nothing"]


def test_all_goals_are_achievements_of_crafter():
    known = set(rules().achievements)
    assert {achievement for _, achievement, _ in GOALS.values()} - {""} <= known and len(known) == 22


@pytest.mark.heavy
@pytest.mark.parametrize("goal", ["place_table", "make_pickaxe"])
def test_the_other_goals_keep_the_contract(goal):
    report = check_turn_env("agent_envs/Crafter-v0", episodes=1, hostile=50, goal=goal)
    assert report.ok, report.text()
