"""The episode machine: history, active environment, masks, illegal actions, and a third environment in a few lines."""

import random

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agent_envs
from agent_envs.base.errors import UsageError
from agent_envs.envs.expa import ExternalEnvironment, Latent
from agent_envs.envs.expa.sorting.env import Sort, SortExpA
from tests.examples import examples
from tests.rows import each_row

CALC = "agent_envs/ArithmeticExpA-v0"
SORT = "agent_envs/SortExpA-v0"


def make(env_id=SORT, task=0, **arguments):
    env = gym.make(env_id, **arguments).unwrapped
    env.reset(seed=0, options={"task": task, "split": "test"})
    return env


def number(env, name):
    return next(action.id for action in env.expanded_actions if action.name == name)


def names(env, info):
    return [action.name for action in env.expanded_actions if info["action_mask"][action.id]]


def test_a_calculation_reads_as_one_text():
    env = make(CALC)
    shown = [env.step("I need twelve by six:")[0]]
    for name in ("calculator", "1", "2", "/", "6", "="):
        observation, reward, terminated, truncated, info = env.step(number(env, name))
        shown.append(observation)
        assert (reward, terminated, truncated) == (0.0, False, False)
    assert shown == ["", " calculate ", "1", "2", "/", "6", "=2\n"]
    assert env.history == "I need twelve by six: calculate 12/6=2\n"
    assert info["active"] == "language"
    (result,) = env.episode.turns[-1].results
    assert (result.name, result.content, result.ids, result.error) == ("calculator", "2", ("12/6",), False)
    assert all(message["role"] == "assistant" for message in info["messages"])
    assert [message.author for message in env.episode.turns[-1].observation] == ["tool"]


def test_masks_in_language_and_inside():
    env = make(size=3)
    _, info = env.reset(seed=0, options={"task": 0})
    assert info["active"] == "language" and names(env, info) == ["end", "compare", "swap"]
    assert info["action_mask"].dtype == bool and info["action_mask"].shape == (len(env.expanded_actions),)
    info = env.step(number(env, "swap"))[4]
    assert info["active"] == "swap" and names(env, info) == ["A", "B", "C"]
    info = env.step(number(env, "B"))[4]
    assert names(env, info) == ["A", "C"], "no item swaps with itself"
    info = env.step(number(env, "C"))[4]
    assert info["active"] == "language"
    info = env.step(0)[4]
    assert not info["action_mask"].any(), "nothing is legal after the end"


def test_a_task_with_fewer_items_masks_the_rest():
    env = make(task=next(t for t in range(50) if make(task=t).episode.task.data.size == 4))
    assert len(env.expanded_actions) == 3 + 5
    info = env.step(number(env, "compare"))[4]
    assert names(env, info) == ["A", "B", "C", "D"]


@pytest.mark.parametrize("action", [-1, 3, 999, 10**5000, -(10**30), np.int64(-5), np.int32(4)], ids=list("abcdefg"))
def test_an_illegal_integer_is_explained_counted_and_changes_nothing(action):
    env = make(size=2)
    before = env.episode.state
    observation, reward, terminated, truncated, info = env.step(action)
    assert "legal now: text, end compare swap" in observation and not terminated and not truncated
    assert env.episode.state == before and reward == 0 and info["turn"] == 1
    assert len(info["events"]) == 1 and info["events"][0].startswith("illegal action")
    assert isinstance(env.episode.turns[-1].action, int)


def test_text_inside_an_environment_is_illegal_and_no_part_of_the_history():
    env = make(size=2)
    env.step("Let me see:")
    env.step(number(env, "compare"))
    before = env.episode.state
    observation, *_, info = env.step("<answer>A < B</answer>")
    assert "text cannot be written inside compare" in observation and env.episode.state == before
    assert info["events"] and "<answer>" not in env.history
    env.step(number(env, "A"))
    assert env.step(number(env, "B"))[4]["active"] == "language", "the call goes on where it was"


def test_the_language_of_an_episode_is_bounded():
    env = make(CALC)
    for _ in range(3):
        assert not env.step("x" * 300_000)[4]["events"]
    assert env.step("y" * 150_000)[4]["events"] == ["action cut to 100000 of 150000 characters"]
    assert env.step("z")[4]["events"] == ["action cut to 0 of 1 characters"] and len(env.history) == 1_000_000
    assert env.step(1)[4]["active"] == "calculator", "actions go on"
    env.step("w" * 1_000_000)
    assert len(env.episode.turns[-1].action) == 1000, "what is refused is not kept whole"
    recorded = type(env.trajectory).from_json(env.trajectory.to_json())
    assert agent_envs.replay(make(CALC), recorded).turns == recorded.turns


def test_end_is_not_legal_inside_an_environment():
    env = make(size=2)
    env.step(number(env, "compare"))
    assert not env.step(0)[2] and env.episode.state.active == "compare"


def test_text_never_ends_the_episode_and_actions_are_limited():
    env = make(size=2, max_actions=4)
    for text in ("end", "<answer>finished</answer>", ""):
        assert env.step(text)[2:4] == (False, False)
    _, _, terminated, truncated, info = env.step("still here")
    assert (terminated, truncated, info["turns_left"]) == (False, True, 0)


def test_the_limit_judges_the_arrangement_as_it_stands():
    env = make(size=2, directions="ascending", task=next(
        t for t in range(20) if make(size=2, directions="ascending", task=t).episode.task.hidden == (0, 1)
    ), max_actions=1)  # fmt: skip
    _, reward, terminated, truncated, info = env.step("it is sorted already")
    assert truncated and not terminated and info["success"] and reward > 0.5


def test_the_space_and_its_samples_and_bare_actions_are_one():
    env = make()
    assert isinstance(env.action_space, gym.spaces.OneOf)
    for _ in range(50):
        assert env.action_space.contains(env.action_space.sample())
    env.step((0, "text"))
    env.step((np.int64(1), np.int64(1)))
    assert [turn.action for turn in env.episode.turns] == ["text", 1]
    assert type(env.episode.turns[1].action) is int


@each_row("action", [None, 1.0, True, np.True_, b"x", (0, 1), (1, "x"), (2, 1), ("a", "b"), [1]])
def test_other_types_are_a_programmers_mistake(action):
    env = make()
    with pytest.raises(UsageError, match=r"SortExpA-v0: step\(\) got .*; an action is a str or the id"):
        env.step(action)
    assert not env.episode.turns


@examples(60)
@given(
    st.lists(st.integers(0, 19) | st.sampled_from(["so", "#### 5", "<answer>"]), max_size=60),
    st.sampled_from([CALC, SORT]),
)
def test_legal_actions_are_never_refused_and_illegal_ones_change_nothing(actions, env_id):
    env = make(env_id)
    for action in actions:
        if env.episode.over:
            break
        state, legal = env.episode.state, env.legal_actions()
        allowed = state.active == "language" if isinstance(action, str) else action in legal
        info = env.step(action)[4]
        refused = any(event.startswith("illegal action") for event in info["events"])
        assert refused != allowed
        if refused:
            assert env.episode.state == state


def test_a_fork_in_the_middle_of_a_call_goes_its_own_way():
    env = make(size=3)
    env.step(number(env, "compare"))
    env.step(number(env, "A"))
    twin = agent_envs.fork(env, branch="b")
    assert twin.step(number(env, "B"))[4]["active"] == "language"
    assert env.episode.state.active == "compare" and len(env.episode.turns) == 2
    assert env.step(number(env, "C"))[0].startswith(" C: A ")


def test_a_counterfactual_is_a_fork_a_prefix_and_a_routing_action():
    env = make(CALC)
    start = agent_envs.snapshot(env)
    env.step("It is about four. #### 4")
    agent_envs.restore(env, start)
    env.step("It is about")
    env.step(1)
    assert env.history == "It is about calculate " and env.episode.state.active == "calculator"


class Check(ExternalEnvironment):
    """A third environment: is the number of an item negative, positive, even or odd?"""

    name, desc = "check", " check if"
    tests = {
        "negative": lambda n: n < 0, "positive": lambda n: n > 0, "even": lambda n: n % 2 == 0, "odd": lambda n: n % 2 == 1
    }  # fmt: skip

    def __init__(self, items):
        self.actions = {item: f" {item}" for item in items} | {test: f" {test}" for test in self.tests}

    def legal(self, state):
        return list(self.tests) if state.keyed else state.world.order

    def step(self, state, action):
        if not state.keyed:
            return " is", state.press(action), False
        right = self.tests[action](state.world.value(state.keyed[0]))
        return f": {'yes' if right else 'no'}\n", Latent(state.world), True


class SortWithCheck(SortExpA):
    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.route_to(*self.environments, Check("ABCDE"))


def test_a_third_environment_joins_the_same_machine():
    env = SortWithCheck()
    env.reset(seed=0, options={"task": 0, "split": "test"})
    assert [action.name for action in env.expanded_actions] == [
        "end", "compare", "swap", "check", *"ABCDE", "negative", "positive", "even", "odd",
    ]  # fmt: skip
    assert env.expanded_actions[4].environments == ("compare", "swap", "check"), "items are one shared set, as released"
    smallest = "ABCDE"[env.episode.task.hidden.index(0)]
    for name in ("check", smallest, "even"):
        observation = env.step(number(env, name))[0]
    assert observation == " even: yes\n" and env.history == f" check if {smallest} is even: yes\n"
    assert env.episode.turns[-1].results[0].ids == (smallest, "even")
    for action in agent_envs.solve(env):
        env.step(action)
    assert env.episode.success


def test_a_third_environment_passes_the_contract():
    report = agent_envs.check_turn_env(SortWithCheck(), episodes=3, hostile=300)
    assert report.ok, report.text()


class SortWithCheckAsText(Sort):
    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.route_to(*self.problem.environments, Check("ABCDE"))


def test_the_same_class_serves_the_text_face():
    env = SortWithCheckAsText()
    env.reset(seed=0, options={"task": 0, "split": "test"})
    smallest = "ABCDE"[env.episode.task.hidden.index(0)]
    assert env.step(f"<check>{smallest} even</check>")[0] == "<result> yes </result>"
    assert "</check>" in env.stop and env.episode.turns[-1].results[0].ids == (smallest, "even")
    assert env.step("<check>even</check>")[0].startswith("<result> Error: 'even' cannot stand there")
    report = agent_envs.check_turn_env(SortWithCheckAsText(), episodes=3, hostile=300)
    assert report.ok, report.text()


@pytest.mark.parametrize("name", ["Arithmetic", "Countdown", "Count", "GSM8KScaled", "Sort", "Order"])
def test_the_solver_goes_on_from_anywhere(name):
    env = gym.make(f"agent_envs/{name}ExpA-v0").unwrapped
    for task in range(25):
        env.reset(seed=task, options={"task": task, "split": "test"})
        rng = random.Random(f"anywhere:{task}")
        for _ in range(rng.randint(1, 20)):
            env.step(rng.choice([number for number in env.legal_actions() if number]))
        for action in agent_envs.solve(env):
            assert isinstance(action, str) or action in env.legal_actions()
            env.step(action)
        assert env.episode.success, task
