"""The id: tasks, prompt, actions, rewards, limits, and what travels."""

import json
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.needs import require

require("[babyai]")

from agent_envs import UsageError, fork, snapshot
from agent_envs.base.errors import Unsolvable
from agent_envs.base.serialization import decode_state, encode_state
from agent_envs.core.env import Task
from agent_envs.envs.text_games.babyai.describe import describe
from agent_envs.envs.text_games.babyai.env import ACTIONS, BabyAI, BabyGame
from agent_envs.envs.text_games.babyai.instructions import play_action
from agent_envs.envs.text_games.babyai.levels import KINDS, named_level
from agent_envs.envs.text_games.babyai.mission import surface
from agent_envs.envs.text_games.babyai.planner import plan
from agent_envs.envs.text_games.babyai.tasks import baby_source, labels_of
from agent_envs.envs.text_games.scoring import facts_of, metrics_of
from tests.rows import each_row

LIMITS = {"goto": 64, "pickup": 64, "open": 128, "putnext": 128, "pick_up_seq_go_to": 128}


def shortest(world):
    """The least actions that do a mission in one room."""
    known, queue = set(), deque([(world, ())])
    while queue:
        now, actions = queue.popleft()
        for action in range(5):
            after, status = play_action(now, action)
            if status == "success":
                return (*actions, action)
            key = (after.place, after.facing, after.cells, after.instructions)
            if key not in known:
                known.add(key)
                queue.append((after, (*actions, action)))
    raise AssertionError("no way")


def play(env, actions):
    """Take actions by number; return reward, terminated, truncated and info of the last."""
    result = None
    for action in actions:
        result = env.step(env.say(action))
    return result[1:]


def test_mixed_goes_through_the_kinds_by_turns():
    source = baby_source("mixed")
    tasks = [source.get("test", index) for index in range(10)]
    assert [task.data.level for task in tasks] == [*KINDS, *KINDS]
    assert [task.data.world.limit for task in tasks] == [*LIMITS.values(), *LIMITS.values()]
    assert [task.id for task in tasks[:2]] == ["babyai-mixed-test-0", "babyai-mixed-test-1"]
    assert source.get("test", "babyai-mixed-test-7") == tasks[7]
    assert [labels_of(task) for task in tasks[:5]] == [{"kind": kind} for kind in KINDS]
    assert labels_of(baby_source("mixed", "GoToObj").get("dev", 0)) == {"level": "GoToObj"}
    assert (source.size("train"), source.size("dev"), source.size("test")) == (100_000, 500, 500)


def test_splits_share_no_world():
    source = baby_source("goto")
    worlds = {split: {source.get(split, index).data.world for index in range(60)} for split in source.splits}
    assert not worlds["train"] & worlds["dev"] and not worlds["train"] & worlds["test"]
    assert not worlds["dev"] & worlds["test"]
    assert all(len(found) > 50 for found in worlds.values())


def test_the_digest_of_a_task_pins_its_world():
    task = baby_source("putnext").get("train", 3)
    assert task.question == surface(task.data.world.instructions)
    world = replace(task.data.world, facing=(task.data.world.facing + 1) % 4)
    other = replace(task, data=replace(task.data, world=world))
    assert task.digest != other.digest
    assert baby_source("putnext", distractors=4).get("train", 3).id == "babyai-putnext-4-train-3"


def test_threads_make_the_same_tasks():
    source, other = baby_source("mixed"), baby_source("mixed")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda index: source.get("train", index), range(40)))
    assert found == [other.get("train", index) for index in range(40)]


def test_missions_that_nobody_can_win_are_drawn_again():
    doors = baby_source("mixed", "OpenDoorsOrderN2Debug")
    missions = [doors.get("train", index).question for index in range(12)]
    assert not any(", then " in mission or " after you " in mission for mission in missions)
    lost = []
    for seed in range(15):
        try:
            plan(named_level("GoToImpUnlock").world(seed))
        except Unsolvable:
            lost.append(seed)
    assert lost == [6, 14]
    source = baby_source("mixed", "GoToImpUnlock")
    assert all(plan(source.get("train", index).data.world) for index in range(12))


def test_equal_worlds_are_one_cluster():
    source = baby_source("mixed", "GoToObjS4")
    tasks = [source.get("train", index) for index in range(150)]
    assert len({task.cluster for task in tasks}) == len({task.data.world for task in tasks}) < 150
    assert all(task.cluster for task in tasks)


def test_the_prompt_names_goal_actions_and_form():
    env = BabyAI(kind="pickup")
    text, info = env.reset(options={"task": 0, "split": "dev"})
    instructions, shown = info["messages"]
    assert (instructions["role"], shown["role"]) == ("system", "user")
    world = env.episode.state
    assert f"Your goal is to {surface(world.instructions)}." in instructions["content"]
    for action in ACTIONS:
        assert f"- {action.name}: {action.doc}\n" in instructions["content"]
    assert "ACTION: the name of one action" in instructions["content"]
    assert "{" not in instructions["content"]
    assert shown["content"] == describe(world)
    user = BabyAI(kind="pickup", prompt_role="user").reset(options={"task": 0, "split": "dev"})[1]["messages"]
    assert [message["role"] for message in user] == ["user", "user"]


@pytest.mark.parametrize("kind", ["goto", "pickup", "putnext", "pick_up_seq_go_to"])
def test_a_success_pays_by_the_named_reward(kind):
    for reward in ("binary", "native", "format_penalty"):
        env = BabyAI(kind=kind, reward=reward)
        env.reset(options={"task": 1, "split": "dev"})
        way = shortest(env.episode.state)
        play(env, way[:-1])
        assert sum(turn.reward for turn in env.trajectory.turns) == 0
        paid, terminated, truncated, info = play(env, way[-1:])
        assert (terminated, truncated, info["success"]) == (True, False, True)
        assert paid == (1 - 0.9 * (len(way) / LIMITS[kind]) if reward == "native" else 1.0)
        metrics = metrics_of(env.trajectory)
        assert (metrics["valid_actions"], metrics["progression"]) == (1.0, 1.0)
        assert metrics["native_return"] == pytest.approx(1 - 0.9 * len(way) / LIMITS[kind])


def test_the_limit_truncates():
    for arguments, limit in (({"kind": "goto"}, 64), ({"kind": "open"}, 128), ({"kind": "open", "max_turns": 3}, 3)):
        env = BabyAI(**arguments)
        _, info = env.reset(options={"task": 2, "split": "dev"})
        assert (info["turns_left"], env.max_turns) == (limit, limit)
        for left in range(limit - 1, -1, -1):
            _, reward, terminated, truncated, info = env.step("ACTION: turn left")
            assert (reward, terminated, truncated, info["turns_left"]) == (0.0, False, left == 0, left)
        assert info["success"] is False
    mixed = BabyAI()
    assert mixed.max_turns == 128
    assert mixed.reset(options={"task": 0, "split": "dev"})[1]["turns_left"] == 64


def test_max_turns_is_what_the_native_reward_divides_by():
    env = BabyAI(kind="goto", reward="native", max_turns=200)
    env.reset(options={"task": 1, "split": "dev"})
    way = shortest(env.episode.state)
    assert play(env, way)[0] == 1 - 0.9 * (len(way) / 200)


def test_a_strict_mission_can_fail():
    env = BabyAI(level="PickupDistDebug")
    env.reset(options={"task": 0, "split": "dev"})
    world = env.episode.state
    wrong = [n for n, thing in enumerate(world.things) if n not in world.instructions.thing.matches]
    clause = replace(world.instructions, strict=False, thing=replace(world.instructions.thing, matches=(wrong[0],)))
    _, terminated, truncated, info = play(env, shortest(replace(world, instructions=clause)))
    assert (terminated, truncated, info["success"]) == (True, False, False)
    assert sum(turn.reward for turn in env.trajectory.turns) == 0


@each_row(
    ("text", "number"),
    [
        ("ACTION: go forward", 2),
        ("THINK: left?\nACTION: **Turn Left**.", 0),
        ("ACTION: RIGHT", 1),
        ("action: right", 1),
        ("ACTION: pickup", 3),
        ("ACTION: pick_up", 3),
        ("ACTION: put down", 4),
        ("ACTION: Open", 5),
        ("ACTION: toggle\n", 5),
        ("ACTION: fly", None),
        ("", None),
        ("go forward", None),
        ("ACTION: go forward twice", None),
    ],
)
def test_names_of_actions(text, number):
    assert BabyAI().action_of(text)[0] == number


def test_names_are_unambiguous():
    words = [word for action in ACTIONS for word in (action.name, *action.aliases)]
    assert len(words) == len(set(words))
    assert [action.name for action in ACTIONS] == ["turn left", "turn right", "go forward", "pick up", "drop", "toggle"]
    assert ACTIONS[BabyGame.default].name == "go forward"


def test_an_invalid_turn_goes_forward_and_says_so():
    env, twin = BabyAI(kind="goto"), BabyAI(kind="goto")
    for each in (env, twin):
        each.reset(options={"task": 5, "split": "dev"})
    text, *_, info = env.step("I would like to fly")
    said, *_ = twin.step("ACTION: go forward")
    assert env.episode.state == twin.episode.state
    note, _, rest = text.partition("\nInstead you did: go forward.\n")
    assert note.startswith("Your turn held no action") and "\nACTION: go forward\nYour goal is to " in note
    assert rest == said
    assert len(info["events"]) == 1 and facts_of(env.trajectory.last).invalid
    env.step("ACTION: turn left")
    assert metrics_of(env.trajectory)["valid_actions"] == 0.5


def test_on_invalid_end_ends():
    env = BabyAI(kind="goto", on_invalid="end", reward="format_penalty")
    env.reset(options={"task": 5, "split": "dev"})
    before = env.episode.state
    text, reward, terminated, truncated, info = env.step("ACTION: fly")
    assert (reward, terminated, truncated, info["success"]) == (-0.1, True, False, False)
    assert text.startswith("The episode ends here") and env.episode.state == before


def test_snapshots_travel_and_twins_see_the_same():
    env = BabyAI(kind="pick_up_seq_go_to")
    env.reset(options={"task": 8, "split": "dev"})
    way = shortest(env.episode.state)
    play(env, way[:4])
    twin = fork(env)
    assert decode_state(json.loads(json.dumps(encode_state(env.episode.state)))) == env.episode.state
    assert len(snapshot(env).to_bytes()) < 20_000
    for action in way[4:]:
        assert env.step(env.say(action))[:4] == twin.step(twin.say(action))[:4]
    assert env.episode.success and twin.episode.success


def test_pictures_and_drawings_are_there():
    env = BabyAI(render_mode="svg")
    env.reset(seed=0)
    assert env.render().startswith("<svg")
    assert "#" in env.drawing()


@each_row(
    ("arguments", "said"),
    [({"kind": "fly"}, r"kind='fly'; give one of mixed, goto"),
     ({"kind": 3}, "kind=3"),
     ({"distractors": 13}, "distractors=13; give a whole number from 0 to 12"),
     ({"distractors": True}, "distractors=True"),
     ({"level": "Nowhere"}, "level='Nowhere' is not known; minigrid has"),
     ({"level": None}, "level=None is no name"),
     ({"level": "GoToObj", "kind": "goto"}, "level='GoToObj' with kind='goto', distractors=0; leave these out"),
     ({"level": "GoToObj", "distractors": 1}, "leave these out"),
     ({"max_turns": 0}, "max_turns=0"),
     ({"reward": "dense"}, "reward='dense'"),
     ({"on_invalid": "skip"}, "on_invalid='skip'"),
     ({"prompt_role": "tool"}, "prompt_role='tool'")],
)  # fmt: skip
def test_wrong_arguments_say_what_to_give(arguments, said):
    with pytest.raises(UsageError, match=said):
        BabyAI(**arguments)


def test_a_task_of_another_family_is_refused():
    with pytest.raises(UsageError, match="task 'x' holds no BabyTask"):
        BabyAI().reset(options={"task": Task("x", "dev", "?")})
