"""Prompts describe the tools of the task in the text or ExpA form, and no tools with `env_prompt=False`."""

import gymnasium as gym
import pytest

from agent_envs.core.trajectory import Task
from agent_envs.envs.expa.sorting.tasks import SortData

CALCULATING = ("Arithmetic", "Countdown", "GSM8KScaled")
TAGS = ("<calculator>", "<compare>", "<swap>")
KEYWORDS = ("keyword calculate", "keyword compare", "keyword swap")


def shown(name, task=0, **arguments):
    env = gym.make(f"agent_envs/{name}-v0", **arguments)
    return env.reset(seed=0, options={"task": task, "split": "test"})[0]


@pytest.mark.parametrize("name", CALCULATING)
def test_the_calculator_is_described_as_its_face_has_it(name):
    text, expanded = shown(name), shown(f"{name}ExpA")
    assert "<calculator>" in text and "keyword calculate" not in text
    assert "keyword calculate" in expanded and "<calculator>" not in expanded
    form = "nothing but the expression" if name == "Countdown" else "nothing but the number"
    assert form in text and form in expanded


@pytest.mark.parametrize("name", [*CALCULATING, "Sort", "Order", "Count"])
def test_without_env_prompt_nothing_tells_of_tools(name):
    for face in ("", "ExpA"):
        text = shown(name + face, env_prompt=False)
        assert not any(word in text for word in (*TAGS, *KEYWORDS, "calculator"))
        assert text != shown(name + face, env_prompt=True)


@pytest.mark.parametrize("name", ["Arithmetic", "Count", "Sort", "Order"])
def test_refusals_tell_no_more_than_the_prompt(name):
    for env_prompt in (True, False):
        text = gym.make(f"agent_envs/{name}-v0", env_prompt=env_prompt)
        text.reset(seed=0)
        told = text.step("hm")[0]
        assert any(tag in told for tag in TAGS) == env_prompt
        assert ("####" if name in ("Arithmetic", "Count") else "<answer>") in told
        expanded = gym.make(f"agent_envs/{name}ExpA-v0", env_prompt=env_prompt)
        expanded.reset(seed=0)
        assert ("legal now" in expanded.step(99)[0]) == env_prompt


def test_in_the_mixture_counting_is_not_told_of_the_calculator():
    env = gym.make("agent_envs/CalcBench-v0")
    told = {}
    for task in range(40):
        prompt = env.reset(seed=0, options={"task": task, "split": "test"})[0]
        told.setdefault(env.unwrapped.episode.task.data.kind, set()).add("<calculator>" in prompt)
    assert told == {"arithmetic": {True}, "countdown": {True}, "gsm8k_scaled": {True}, "count": {False}}
    assert "<calculator>" in shown("Count", env_prompt=True) and "<calculator>" not in shown("Count")


@pytest.mark.parametrize("descending", [False, True])
def test_the_wanted_direction_and_the_relations_are_told(descending):
    data = SortData("order", 3, descending, ("A<B", "C>B"))
    task = Task("t", "test", "", ("",), "t", data, (0, 1, 2))
    for face in ("Order", "OrderExpA"):
        prompt = shown(face, task)
        assert (
            ("descending order" in prompt) == descending == ("ascending order" not in prompt.replace("descending", ""))
        )
        assert "A<B, C>B" in prompt and "The items A, B, C stand in this order" in prompt
        assert ("finished </answer>" in prompt) == (face == "Order")


def test_an_order_task_tells_of_the_tool_that_it_has():
    for kind, tool, other in (("order", "swap", "compare"), ("compare", "compare", "swap")):
        task = Task("t", "test", "", ("A < B",), "t", SortData(kind, 2, False, ("A<B",)), (0, 1))
        assert f"<{tool}>" in shown("Order", task) and f"<{other}>" not in shown("Order", task)
        assert f"keyword {tool}" in shown("OrderExpA", task) and f"keyword {other}" not in shown("OrderExpA", task)


def test_only_the_environment_of_an_order_task_may_be_entered():
    env = gym.make("agent_envs/OrderExpA-v0").unwrapped
    for kind, legal in (("order", (0, 2)), ("compare", (0, 1))):
        env.reset(options={"task": Task("t", "test", "", ("A < B",), "t", SortData(kind, 2, False, ()), (1, 0))})
        assert env.legal_actions() == legal


def test_the_decimal_point_is_a_button_where_it_is_asked_for():
    for name, default in (("ArithmeticExpA", True), ("CountdownExpA", False), ("CalcBenchExpA", True)):
        for given, wanted in (({}, default), ({"decimal_point": True}, True), ({"decimal_point": False}, False)):
            actions = gym.make(f"agent_envs/{name}-v0", **given).unwrapped.expanded_actions
            assert ("." in [action.name for action in actions]) == wanted
