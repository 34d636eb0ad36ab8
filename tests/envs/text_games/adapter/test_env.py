"""Any Gymnasium environment as text: the examples of the docs pass every check, and bad manners get clear errors."""

import copy
import importlib
import random
import re
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from agent_envs import Snapshot, check_turn_env, restore, snapshot
from agent_envs.base.errors import EnvFault, Unsolvable, UsageError
from agent_envs.envs.text_games.adapter import TextAdapter, look_ahead, random_action
from agent_envs.envs.text_games.game import Action
from agent_envs.envs.text_games.scoring import facts_of, metrics_of
from agent_envs.rollout.episode_runner import solve
from tests import ROOT
from tests.envs.text_games.adapter.stairs import NAMES, Climb, Locked, LockedClimb, Stairs, adapted, dry, told
from tests.examples import part
from tests.needs import needs
from tests.rows import each_row

PAGE = (ROOT / "docs" / "text_games.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)


@pytest.fixture
def example(tmp_path, monkeypatch):
    """A function that imports a block of the page as a module, which a fresh process can import too."""

    def imported(block, name):
        assert len(BLOCKS[block].strip().splitlines()) < 30
        (tmp_path / f"{name}.py").write_text(BLOCKS[block], encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return imported


def all_pass(env, **options):
    report = check_turn_env(env, **options)
    assert {check.name for check in report.checks if check.status != "passed"} == set(), report.text()


def test_the_page_has_the_examples_and_a_memory():
    assert len(BLOCKS) == 3
    exec(compile(BLOCKS[2], "text_games.md", "exec"), {})


@pytest.mark.parametrize("slippery", [True, False])
def test_frozen_lake_passes_every_check(example, slippery):
    all_pass(example(0, "text_game_lake").Lake(slippery=slippery), episodes=2, hostile=part(300, 50))


@needs("[babyai]")
def test_a_level_of_minigrid_passes_every_check(example):
    all_pass(example(1, "text_game_door").DoorKey(), episodes=part(2, 1), hostile=part(100, 20))


@pytest.mark.parametrize(
    "made", [Climb, LockedClimb, lambda: LockedClimb(copies=False, reward="native")], ids=["deep", "refused", "never"]
)
def test_stairs_pass_every_check_with_copies_and_without(made):
    all_pass(made(), episodes=2, hostile=part(100, 30))


def test_an_id_with_an_argument_passes_every_check():
    gym.register(id="stairs/Climb-v0", entry_point="tests.envs.text_games.adapter.stairs:Climb")
    try:
        all_pass(gym.make("stairs/Climb-v0", top=2), episodes=part(2, 1), hostile=part(100, 30))
    finally:
        gym.registry.pop("stairs/Climb-v0")


def test_what_a_policy_reads():
    env = adapted(goal="reach the top", prompt="You climb. Your goal is to {goal}.")
    observation, info = env.reset(seed=0, options={"task": 3})
    system, user = info["messages"]
    assert system["role"] == "system" and user == {"role": "user", "content": "stair 0"}
    assert system["content"].startswith("You climb. Your goal is to reach the top.\n\nThe actions are:\n- down")
    assert "ACTION: the name of one action" in system["content"] and observation.endswith("\n\nstair 0")
    assert info["turns_left"] == 8 and env.episode.task.id == "Stairs-train-3" and env.episode.task.hidden == 3


def test_a_prompt_with_slots_stands_as_it_is():
    for prompt in ("Go.\n{actions}", "Go.\n{format}"):
        system = adapted(prompt=prompt).reset(seed=0)[1]["messages"][0]["content"]
        assert system.startswith("Go.\n") and "The actions are" not in system


def test_actions_reach_the_environment_and_success_pays():
    env = adapted()
    dry(env)
    assert env.step("ACTION: up")[0] == "stair 1" and env.step("ACTION: stay")[0] == "stair 1"
    assert env.step("ACTION: down")[0] == "stair 0" and env.step("ACTION: down")[0] == "stair 0"
    rewards = [env.step("ACTION: up")[1:] for _ in range(3)]
    assert [row[0] for row in rewards] == [0.0, 0.0, 1.0]
    assert rewards[2][1:3] == (True, False) and rewards[2][3]["success"] is True
    facts = facts_of(env.episode.turns[-1])
    assert (facts.action, facts.reward, facts.progress) == ("up", 1.0, 1.0) and type(facts.reward) is float
    assert metrics_of(env.trajectory) == {"valid_actions": 1.0, "progression": 1.0, "native_return": 1.0}


def test_an_invalid_turn_takes_the_default():
    env = adapted(default="up")
    dry(env)
    assert env.step("no idea")[0].endswith("Instead you did: up.\nstair 1")
    assert adapted().game.default == 0


def test_the_limit_ends_the_episode():
    env = adapted(max_turns=2)
    env.reset(seed=0)
    assert env.step("ACTION: stay")[3] is False and env.step("ACTION: stay")[3] is True
    assert env.episode.success is False


def test_success_is_asked_at_the_end_alone():
    asked = []

    def stood(env, reward, terminated, info):
        asked.append(terminated)
        return env.unwrapped.height == 0

    env = adapted(max_turns=3, success=stood)
    env.reset(seed=0)
    rewards = [env.step("ACTION: stay")[1] for _ in range(3)]
    assert rewards == [0.0, 0.0, 1.0] and asked == [False] and env.episode.success


def test_progress_is_the_callers():
    env = adapted(progress=lambda env, info: np.float64(env.unwrapped.height / 3))
    dry(env)
    env.step("ACTION: up")
    assert facts_of(env.episode.turns[-1]).progress == pytest.approx(1 / 3)
    env = adapted(progress=lambda env, info: 2)
    env.reset(seed=0)
    with pytest.raises(UsageError, match=r"Stairs: progress\(...\) gave 2.0"):
        env.step("ACTION: up")


def test_the_goal_may_depend_on_the_seed():
    env = adapted(prompt="{goal}", goal=lambda env, observation, info: f"{{actions}} and {info['slippery']}")
    seen = {env.reset(seed=0, options={"task": task})[1]["messages"][0]["content"].split("\n")[0] for task in range(9)}
    assert seen == {"{actions} and True", "{actions} and False"}
    assert env.source.get("train", 0).question in seen
    with pytest.raises(UsageError, match=r"goal\(...\) returned a NoneType"):
        adapted(prompt="{goal}", goal=lambda *_: None).reset(seed=0)


def test_names_are_understood_as_people_write_them():
    env = adapted(actions=["GO_DOWN", Action("Stay", "do nothing", ("wait",)), "up 1"])
    for number, names in enumerate((("GO_DOWN", "go down", "Go Down."), ("stay", "wait"), ("UP 1", "up_1"))):
        assert [env.action_of(f"ACTION: {name}")[0] for name in names] == [number] * len(names)
    assert "- Stay: do nothing" in env.reset(seed=0)[1]["messages"][0]["content"]


def test_a_mapping_names_some_actions_of_any_space():
    env = adapted(actions={"up": 2, "wait": np.int64(1)})
    dry(env)
    assert env.step("ACTION: up")[0] == "stair 1" and env.step("ACTION: down")[4]["events"]
    made = lambda: Stairs(space=Box(-1.0, 3.0, (), np.float32))  # noqa: E731
    env = adapted(made, actions={"up": np.array(2.0, np.float32)})
    dry(env)
    assert env.step("ACTION: up")[0] == "stair 1"


def test_numbers_that_do_not_begin_at_zero():
    env = adapted(lambda: Stairs(space=Discrete(3, start=5)))
    dry(env)
    assert env.step("ACTION: up")[0] == "stair 1"


REFUSED = [
    ({"actions": ["up"]}, "1 names for 3 actions"),
    ({"actions": "abc"}, "actions='abc'"),
    ({"actions": []}, "give 1 to 1000 names"),
    ({"actions": [1, 2, 3]}, "1 names no action"),
    ({"actions": ["up", "Up", "down"]}, "'up' names two actions"),
    ({"actions": ["up", "down", "..."]}, "'...' reads like another, or like none"),
    ({"actions": ["up", "down", "a\nb"]}, "or like none"),
    ({"actions": ["up", "down", "x" * 300]}, "or like none"),
    ({"actions": {"up": 3}}, r"'up' is 3, which is not in Discrete\(3\)"),
    ({"env": lambda: Stairs(space=Box(0, 1, (2,)))}, "not Discrete; give actions as a mapping"),
    ({"default": "jump"}, "default='jump' is no action; name one of down, stay, up"),
    ({"max_turns": None}, "its spec has no max_episode_steps; give max_turns"),
    ({"max_turns": 0}, "max_turns=0; give a whole number"),
    ({"prompt": "{goal}"}, "give goal="),
    ({"reward": "native"}, r"native=\(low, high\)"),
    ({"reward": "gold"}, "reward='gold'; give one of"),
    ({"on_invalid": "stop"}, "on_invalid='stop'"),
    ({"seeds": {"train": []}}, r"seeds\['train'\] is \[\]"),
    ({"seeds": {"train": [-1]}}, "give whole numbers from 0"),
    ({"seeds": {"train": ["a"]}}, "give whole numbers from 0"),
    ({"env": "NoSuchLake-v7"}, "NoSuchLake-v7: it cannot be made: NameNotFound"),
    ({"env": dict}, "dict is no gymnasium.Env; wrap it as one"),
    ({"env": Stairs, "env_arguments": {"bottom": 1}}, "Stairs: it cannot be made: TypeError"),
    ({"env": Stairs(), "env_arguments": {"top": 1}}, "env_arguments go with an id or a callable"),
    ({"env": Locked()}, "Locked: it cannot be made: TypeError"),
]


@each_row(("arguments", "why"), REFUSED)
def test_arguments_that_do_not_fit_are_refused(arguments, why):
    with pytest.raises(UsageError, match=why):
        adapted(**arguments)


def test_the_limit_of_an_id_is_its_specs():
    env = TextAdapter("FrozenLake-v1", lambda env, place, info: str(place), list("ldru"), "Go.")
    assert env.max_turns == 100 and env.source.name == "FrozenLake-v1"
    with pytest.raises(UsageError, match="max_turns=200, but it ends after 100 steps by itself"):
        TextAdapter("FrozenLake-v1", told, list("ldru"), "Go.", max_turns=200)
    longer = {"max_turns": 200, "env_arguments": {"max_episode_steps": 200}}
    assert TextAdapter("FrozenLake-v1", told, list("ldru"), "Go.", **longer).max_turns == 200


def test_a_snapshot_is_the_seed_and_the_actions():
    env = Climb()
    dry(env)
    for name in ("up", "stay"):
        env.step(f"ACTION: {name}")
    data = snapshot(env).to_bytes()
    state = env.episode.state
    assert state.actions == "21" and len(state.mark) == 8
    other = Climb()
    restore(other, Snapshot.from_bytes(data))
    assert other.episode.state == state
    assert other.step("ACTION: up") == env.step("ACTION: up") and other.episode.state.actions == "212"


def test_another_version_of_the_environment_is_found_out(monkeypatch):
    env = Climb()
    dry(env)
    env.step("ACTION: up")
    data = snapshot(env).to_bytes()
    monkeypatch.setattr(Stairs, "seen", lambda self: {"height": np.array([self.height + 1])})
    other = Climb()
    restore(other, Snapshot.from_bytes(data))
    with pytest.raises(EnvFault, match="is another version"):
        other.step("ACTION: up")


def test_subclasses_that_say_other_things_have_other_digests():
    digests = {
        adapted(**more).spec_digest
        for more in ({}, {"prompt": "Fall."}, {"actions": ["a", "b", "c"]}, {"env_arguments": {"top": 5}})
    }
    assert len(digests) == 4


def test_tasks_are_seeds():
    env = adapted(seeds={"mine": [7, 8], "yours": range(100, 103)})
    source = env.source
    assert source.splits == ("mine", "yours") and source.size("yours") == 3
    task = source.get("yours", 1)
    assert (task.id, task.hidden, task) == ("Stairs-yours-1", 101, source.get("yours", "Stairs-yours-1"))
    for key in (3, -1, True, "Stairs-yours-3", "Stairs-yours-01", "Stairs-mine-0", "x", "Stairs-yours-" + "9" * 400):
        with pytest.raises(KeyError):
            source.get("yours", key)
    assert env.reset(seed=0, options={"split": "mine", "task": 1})[1]["task_id"] == "Stairs-mine-1"


def test_a_task_of_elsewhere_is_refused():
    env = adapted()
    task = copy.replace(env.source.get("train", 0), hidden="x") if hasattr(copy, "replace") else None
    if task is None:
        from dataclasses import replace

        task = replace(env.source.get("train", 0), hidden="x")
    with pytest.raises(UsageError, match="has no seed"):
        env.reset(options={"task": task})


def drawn(env):
    return "#" * (env.unwrapped.height + 1)


def test_pictures_are_the_callers():
    env = adapted(picture=lambda env: f"<svg>{drawn(env)}</svg>", drawing=drawn, render_mode="svg")
    dry(env)
    env.step("ACTION: up")
    assert env.render() == "<svg>##</svg>" and env.drawing() == "##"
    assert env.metadata["render_modes"] == ["ansi", "svg"]
    plain = adapted(render_mode="svg")
    plain.reset(seed=0)
    assert plain.drawing() == "" and plain.metadata["render_modes"] == ["ansi"]
    with pytest.raises(UsageError, match="no picture"):
        plain.render()
    with pytest.raises(UsageError, match=r"drawing\(...\) returned a NoneType"):
        odd = adapted(drawing=lambda env: None)
        odd.reset(seed=0)
        odd.drawing()


def test_looking_ahead_finds_the_shortest_way_and_goes_on_from_anywhere():
    env = Climb()
    dry(env)
    assert solve(env) == [
        f"THINK: This is the first of {left} actions that reach the goal.\nACTION: up" for left in (3, 2, 1)
    ]
    env.step("ACTION: up")
    env.step("ACTION: down")
    assert len(solve(env)) == 3


def test_looking_ahead_says_where_nothing_can_be_won():
    env = adapted(max_turns=2)
    dry(env)
    with pytest.raises(Unsolvable, match="Stairs: success cannot be reached any more"):
        look_ahead()(env)
    env = adapted()
    dry(env)
    with pytest.raises(Unsolvable, match="the copies that a search may make"):
        look_ahead(most=3)(env)
    for _ in range(8):
        env.step("ACTION: down")
    with pytest.raises(Unsolvable, match="the episode is over"):
        look_ahead()(env)
    env = adapted(Locked)
    dry(env)
    with pytest.raises(UsageError, match="Locked: look_ahead needs copies of it"):
        look_ahead()(env)


def test_equal_worlds_are_looked_at_once():
    counted = []

    def same(env):
        counted.append(env.unwrapped.height)
        return env.unwrapped.height

    env = adapted()
    dry(env)
    look_ahead(same)(env)
    assert sorted(set(counted)) == [0, 1, 2] and len(counted) <= 12


def test_the_random_player_draws_from_all_actions():
    env = adapted(max_turns=60)
    env.reset(seed=0)
    rng = random.Random(1)
    assert {random_action(env, rng) for _ in range(60)} == {f"ACTION: {name}" for name in NAMES}


def test_a_deep_copy_plays_on():
    env = adapted()
    dry(env)
    env.step("ACTION: up")
    twin = copy.deepcopy(env)
    assert twin.step("ACTION: up")[0] == "stair 2" and env.step("ACTION: up")[0] == "stair 2"
