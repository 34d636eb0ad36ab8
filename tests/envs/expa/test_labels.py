"""Strata of tasks and counts of episodes, as reports tell them."""

import gymnasium as gym
import pytest

from agent_envs.core.trajectory import Task
from agent_envs.envs.expa.labels import labels_of, metrics_of
from agent_envs.envs.expa.sorting.tasks import SortData


def task_of(name, index, **arguments):
    return gym.make(f"agent_envs/{name}-v0", **arguments).unwrapped.source.get("test", index)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Arithmetic", "arithmetic: wording"),
        ("Countdown", "countdown: target"),
        ("Count", "count: wording"),
        ("GSM8KScaled", "word problems: steps"),
    ],
)
def test_calculator_tasks_are_labelled_by_what_makes_them_hard(name, label):
    found = [labels_of(task_of(name, index)) for index in range(60)]
    assert all(list(row) == ["task", label] and row["task"] == task_of(name, 0).data.kind for row in found)
    assert 2 <= len({row[label] for row in found}) <= 5 and all(row[label] for row in found)


def test_sorting_tasks_are_labelled_by_size_direction_and_least_swaps():
    for values, descending, least in (((0, 1, 2), False, "0"), ((0, 1, 2), True, "1"), ((1, 2, 0), False, "2")):
        task = Task("t", "test", "", ("",), "t", SortData("sort", 3, descending, ()), values)
        direction = "descending" if descending else "ascending"
        assert labels_of(task) == {"task": "sort", "size": "3", "direction": direction, "least swaps of 3 items": least}


def counted(name, actions, **arguments):
    env = gym.make(f"agent_envs/{name}-v0", **arguments).unwrapped
    env.reset(seed=0, options={"task": 0, "split": "test"})
    for action in actions:
        env.step(action)
    return metrics_of(env.trajectory)


def test_sorting_counts_are_the_same_on_both_faces():
    text = counted("Sort", ["<compare>A, B</compare>", "<swap>A, C</swap>", "<swap>A, A</swap>", "hm"], size=3)
    expanded = counted("SortExpA", [1, 3, 4, 2, 3, 5, 99, 3], size=3)
    assert {name: text[name] for name in ("comparisons", "swaps", "refused actions")} == {
        "comparisons": 1, "swaps": 1, "refused actions": 2,
    }  # fmt: skip
    assert {**expanded, "response characters": 0} == {**text, "response characters": 0}
    assert text["response characters"] == 23 + 17 + 17 + 2
    assert expanded["response characters"] == len(" compare A and B: \n swap A and C => \n")


def test_calculating_counts_are_the_same_on_both_faces():
    text = counted("Arithmetic", ["<calculator>8/2</calculator>", "<calculator>1/(2-2)</calculator>", "no"])
    env = gym.make("agent_envs/ArithmeticExpA-v0").unwrapped
    keys = {action.name: action.id for action in env.expanded_actions}
    typed = [keys[key] for key in "8/2="], [keys[key] for key in "1/(2-2)="]
    expanded = counted("ArithmeticExpA", [1, *typed[0], 1, *typed[1], -7])
    assert expanded["interactions"] == text["interactions"] == 2
    assert expanded["refused actions"] == text["refused actions"] == 2
    assert expanded["response characters"] == len(" calculate 8/2=\n calculate 1/(2-2)=\n")
    names = ["interactions", "hallucinated operands", "hallucinated operands, strict", "planning phrases (list 1)",
             "refused actions", "response characters"]  # fmt: skip
    assert list(text) == list(expanded) == names
