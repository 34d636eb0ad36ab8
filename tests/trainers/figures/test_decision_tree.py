"""A policy's tree, read back from its episodes, costs what the policy's algorithm is known to cost."""

import json
from fractions import Fraction
from itertools import combinations

import gymnasium as gym
import pytest

from agent_envs import UsageError, run_episode
from agent_envs.core.env import core_of
from agent_envs.envs.expa.sorting import algorithms
from agent_envs.envs.expa.sorting.algorithms import ALGORITHMS, able_sizes
from agent_envs.rollout.policy import Reply
from baselines.sorting import SortingAgent
from benchmarks.sorting_plays import exact
from benchmarks.tree_drawing import drawing
from trainers.figures.decision_tree import (
    CompareNode,
    DecisionTree,
    EndNode,
    SwapNode,
    chain,
    decision_trees,
    permutation_tasks,
    prune,
    tree_json,
    tree_text,
)


def made(size, face="SortExpA", **arguments):
    return gym.make(f"agent_envs:agent_envs/{face}-v0", size=size, **arguments)


def played(agent, size, descending=False, face="SortExpA", **arguments):
    env = made(size, face, **arguments)
    tasks = permutation_tasks(core_of(env).source, size, descending)
    return [run_episode(env, agent, seed=0, task=task) for task in tasks]


def tree_of(name, size=4, descending=False, **arguments):
    (tree,) = decision_trees(played(SortingAgent(name), size, descending, **arguments))
    return tree


class Scripted:
    """Takes these actions, whatever it is told."""

    name = "scripted"
    batch = 1

    def __init__(self, *actions):
        self.actions = actions

    def act(self, requests):
        return [Reply(self.actions[request.turn - 1]) for request in requests]


COMPARE, SWAP, A, B, C = 1, 2, 3, 4, 5


def always_six(n):
    """Compare all pairs in the order of EARL*, whatever is known, then swap as little as possible."""
    known = set()
    for one, other in combinations(range(n), 2):
        yield from algorithms._learn(one, other, known)
    yield from algorithms._arrange(n, known)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_figures_are_those_of_the_algorithm(name, descending):
    for size in {3, 4} & set(able_sizes(name)):
        figures, wanted = tree_of(name, size, descending).figures, exact(name, size, descending)
        assert figures.permutations == figures.sorted == wanted.permutations
        assert (figures.mean_comparisons, figures.max_comparisons) == (wanted.mean_compares, wanted.max_compares)
        assert (figures.mean_swaps, figures.max_swaps) == (wanted.mean_swaps, wanted.max_swaps)


def test_both_faces_and_directions_in_one_go():
    episodes = [
        episode
        for size, descending, face in ((3, True, "Sort"), (2, False, "SortExpA"), (3, False, "Sort"))
        for episode in played(SortingAgent("merge"), size, descending, face)
    ]
    trees = decision_trees(episodes)
    assert [(tree.size, tree.descending) for tree in trees] == [(2, False), (3, False), (3, True)]
    assert trees[1] == tree_of("merge", 3)
    assert trees[1] != DecisionTree(3, False, trees[2].root)
    assert decision_trees(episode.trajectory for episode in episodes) == trees


def test_pruning_makes_earl_star_of_six_comparisons(monkeypatch):
    monkeypatch.setitem(ALGORITHMS, "always-six", always_six)
    six, star = tree_of("always-six"), tree_of("earl-star")
    assert six.figures.mean_comparisons == 6
    assert prune(six) == prune(six, fewest_swaps=True) == star
    assert star.figures.mean_comparisons == Fraction(29, 6)
    assert star.figures.mean_swaps == Fraction(23, 12)


def test_pruning_the_printed_algorithm_finds_what_it_leaves_in():
    printed = tree_of("earl-star-as-printed")
    assert (printed.figures.mean_comparisons, prune(printed).figures.mean_comparisons) == (5, Fraction(29, 6))
    assert "compare C D (implied)" in tree_text(printed)
    assert "implied" not in tree_text(prune(printed))


@pytest.mark.parametrize("size", [2, 3, 4])
def test_pruning_leaves_the_optimal_tree_as_it_is(size):
    tree = tree_of("optimal", size)
    assert prune(tree) == prune(tree, fewest_swaps=True) == tree
    assert prune(prune(tree_of("bubble", size))) == prune(tree_of("bubble", size))


def test_five_items():
    tree = tree_of("optimal", 5)
    assert (tree.figures.mean_comparisons, tree.figures.mean_swaps) == (Fraction(832, 120), Fraction(326, 120))
    assert prune(tree) == tree


def test_fewest_swaps_leave_the_order_as_the_policy_does():
    tree = tree_of("insertion")
    least = prune(tree, fewest_swaps=True)
    assert prune(tree) == tree
    assert least.figures.mean_comparisons == tree.figures.mean_comparisons
    assert (tree.figures.mean_swaps, least.figures.mean_swaps) == (3, Fraction(23, 12))
    (lazy,) = decision_trees(played(Scripted(SWAP, A, B, SWAP, B, C, SWAP, A, B, SWAP, B, C, 0), 3))
    assert prune(lazy, fewest_swaps=True).figures.max_swaps == 2
    assert prune(lazy, fewest_swaps=True).figures.sorted == lazy.figures.sorted == 1


def test_a_wrong_policy_is_told_as_such():
    actions = (COMPARE, A, B, COMPARE, B, A, COMPARE, A, A, SWAP, A, C, 0)
    (tree,) = decision_trees(played(Scripted(*actions), 3))
    figures = tree.figures
    assert (figures.sorted, figures.permutations, figures.accuracy) == (1, 6, 1 / 6)
    assert prune(tree).figures.mean_comparisons == 1
    assert tree_text(tree).splitlines()[1:] == [
        "compare A B",
        "  A < B: compare B A (implied)",
        "    B > A: compare A A (implied)",
        "      A = A: swap A C, end (not sorted: 3 of 3)",
        "  A > B: compare B A (implied)",
        "    B < A: compare A A (implied)",
        "      A = A: swap A C, end (not sorted: 2 of 3)",
    ]
    (swap,) = {swap for _, branch in prune(tree).root.branches for swap in chain(branch)[0]}
    assert swap == ("A", "C")


def test_an_end_that_the_limit_makes():
    (tree,) = decision_trees(played(Scripted(SWAP, A, B, SWAP), 2, max_actions=4))
    assert tree.root == SwapNode(("A", "B"), EndNode(((1, 0),), ((0, 1),), truncated=True))
    assert tree_text(tree).splitlines()[1] == "swap A B, cut off (not sorted: 1 of 2)"
    assert tree_json(tree)["root"]["then"] == {"end": "truncated", "sorted": ((1, 0),), "wrong": ((0, 1),)}


def test_what_is_written_between_calls_does_not_matter():
    one, two = played(Scripted(0), 2)[0], played(Scripted(" so be it", 0), 2)[1]
    (tree,) = decision_trees([one, two])
    assert tree.root == EndNode(((0, 1),), ((1, 0),))


def test_calls_that_were_refused_are_no_part_of_it():
    (tree,) = decision_trees(
        played(Scripted("<compare>A, Z</compare>", "<swap>A, B</swap>", "<answer>so</answer>"), 2, face="Sort")
    )
    assert tree.root == SwapNode(("A", "B"), EndNode(((1, 0),), ((0, 1),)))


def test_episodes_that_disagree():
    first = played(Scripted(COMPARE, A, B, COMPARE, A, C, 0), 3)
    with pytest.raises(UsageError, match=r"after compare A B: A < B one episode went on with compare A C .*with end"):
        decision_trees([*first, *played(Scripted(COMPARE, A, B, 0), 3)])
    with pytest.raises(UsageError, match=r"after the prompt one episode went on with compare A B .*with swap A B"):
        decision_trees([*first, *played(Scripted(SWAP, A, B, 0), 3)])


def test_episodes_that_make_no_tree():
    six = played(Scripted(0), 3)
    with pytest.raises(UsageError, match=r"5 of the 6 permutations of 3 items \(ascending\) were played"):
        decision_trees([*six[:5], six[0]])
    with pytest.raises(UsageError, match="no episodes"):
        decision_trees([])
    other = run_episode(made(3, "OrderExpA"), Scripted(0), seed=0, task=0)
    with pytest.raises(UsageError, match="OrderExpA-v0 is of no sorting task"):
        decision_trees([other])
    env = made(3)
    env.reset(seed=0)
    env.step(COMPARE)
    with pytest.raises(UsageError, match="not finished"):
        decision_trees([core_of(env).trajectory])
    with pytest.raises(UsageError, match="has no task with it"):
        decision_trees([type(six[0].trajectory).from_json(six[0].trajectory.to_json())])
    forever = [SWAP, A, B] * 121
    with pytest.raises(UsageError, match="took 121 calls, over 120"):
        decision_trees(played(Scripted(*forever), 2, max_actions=len(forever)))


def test_the_longest_tree_is_walked():
    forever = [COMPARE, A, B, SWAP, A, B] * 59
    (tree,) = decision_trees(played(Scripted(*forever), 2, max_actions=len(forever)))
    assert tree.figures.max_swaps == tree.figures.max_comparisons == 59
    assert prune(tree, fewest_swaps=True).figures.max_swaps == prune(tree).figures.max_comparisons == 1
    assert tree == decision_trees(played(Scripted(*forever), 2, max_actions=len(forever)))[0]
    assert json.dumps(tree_json(tree))
    assert "cut off" in drawing(tree)


def test_tasks_hold_every_permutation_once():
    source = core_of(gym.make("agent_envs:agent_envs/SortExpA-v0")).source
    for descending in (False, True):
        tasks = permutation_tasks(source, 3, descending, "train")
        assert [task.hidden for task in tasks] == sorted({task.hidden for task in tasks})
        assert len(tasks) == 6
        assert {task.data.descending for task in tasks} == {descending}
    with pytest.raises(UsageError, match="test holds only 0 permutations of 3 items, ascending"):
        permutation_tasks(source, 3, False)


def test_json_tells_the_whole_tree():
    tree = tree_of("optimal", 3)
    row = tree_json(tree)
    assert row["figures"]["comparisons"] == pytest.approx(8 / 3)
    assert row["figures"]["max_swaps"] == 2

    def read(node):
        if "end" in node:
            return EndNode(node["sorted"], node["wrong"], node["end"] == "truncated")
        if "swap" in node:
            return SwapNode(node["swap"], read(node["then"]))
        branches = tuple((sign, read(child)) for sign, child in node["branches"].items())
        return CompareNode(node["compare"], branches, node["implied"])

    assert DecisionTree(row["size"], row["descending"], read(row["root"])) == tree
