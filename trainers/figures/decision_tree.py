"""The decision tree of a sorting policy is read back from its greedy episodes: all that it does with n! permutations.

A node is a call, and two episodes share it as long as all calls before it, and what they told, were the same. A comparison is
implied where its outcome follows from those before it (an item compared with itself, too); without them, a learned policy is
what the paper calls EARL* (arXiv 2510.07581, Algorithm 2). What a policy writes between its calls is not looked at.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import factorial
from pathlib import Path
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.core.trajectory import Task, TaskSource, Trajectory
from agent_envs.envs.expa.sorting.environments import SYMBOLS
from agent_envs.envs.expa.sorting.knowledge import Pair, closure, minimal_swaps, sorted_order
from agent_envs.envs.expa.sorting.tasks import SortData
from agent_envs.rollout.episode_runner import EpisodeResult

Permutation = tuple[int, ...]
Names = tuple[str, str]
SIGNS = "<>="
MOST_CALLS = 120  # of an episode: trees are walked by recursion


@dataclass(frozen=True, slots=True)
class EndNode:
    """A leaf, where episodes end: the permutations (the number of A, of B, ...) that are sorted there, and the others.

    `truncated`: the limit on actions ended them, and not the policy.
    """

    sorted: tuple[Permutation, ...]
    wrong: tuple[Permutation, ...]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class SwapNode:
    """A call that exchanges the places of two items."""

    items: Names
    then: "Node"


@dataclass(frozen=True, slots=True)
class CompareNode:
    """A call that compares two items: a branch for each answer (`<`, `>`, `=`, in this order) that some permutation gives."""

    items: Names
    branches: tuple[tuple[str, "Node"], ...]
    implied: bool = False


Node = EndNode | SwapNode | CompareNode


@dataclass(frozen=True, slots=True)
class TreeCosts:
    """The costs of a tree over all permutations, exactly."""

    permutations: int
    sorted: int
    mean_comparisons: Fraction
    max_comparisons: int
    mean_swaps: Fraction
    max_swaps: int

    @property
    def accuracy(self) -> float:
        """Share of the permutations that are sorted at the end."""
        return self.sorted / self.permutations

    def __str__(self) -> str:
        return (
            f"{self.sorted} of {self.permutations} permutations sorted; comparisons {float(self.mean_comparisons):.4f} "
            f"in the mean, at most {self.max_comparisons}; swaps {float(self.mean_swaps):.4f}, at most {self.max_swaps}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain numbers."""
        counts = {"permutations": self.permutations, "sorted": self.sorted, "accuracy": self.accuracy}
        comparisons = {"comparisons": float(self.mean_comparisons), "max_comparisons": self.max_comparisons}
        return counts | comparisons | {"swaps": float(self.mean_swaps), "max_swaps": self.max_swaps}


@dataclass(frozen=True, slots=True)
class DecisionTree:
    """A policy's decision tree for one number of items and one direction."""

    size: int
    descending: bool
    root: Node

    @property
    def name(self) -> str:
        """Number of items and direction."""
        return f"Sort-{self.size} {'descending' if self.descending else 'ascending'}"

    @property
    def figures(self) -> TreeCosts:
        """Accuracy, comparisons and swaps over all permutations."""
        ends = list(_ends(self.root, 0, 0))
        weighted = [(len(end.sorted) + len(end.wrong), *counts) for end, *counts in ends]
        total = sum(weight for weight, _, _ in weighted)
        return TreeCosts(
            permutations=total,
            sorted=sum(len(end.sorted) for end, _, _ in ends),
            mean_comparisons=Fraction(sum(weight * comparisons for weight, comparisons, _ in weighted), total),
            max_comparisons=max(comparisons for _, comparisons, _ in weighted),
            mean_swaps=Fraction(sum(weight * swaps for weight, _, swaps in weighted), total),
            max_swaps=max(swaps for _, _, swaps in weighted),
        )


@dataclass(frozen=True, slots=True)
class _Play:
    """The calls and values of an episode: calls are (name, items, sign of a comparison)."""

    values: Permutation
    calls: tuple[tuple[str, Names, str], ...]
    truncated: bool

    def following(self, depth: int) -> str:
        """Return the call after `depth` ones in words; "end", or "no call before the limit" where there is none."""
        if depth < len(self.calls):
            name, (one, other), _ = self.calls[depth]
            return f"{name} {one} {other}"
        return "no call before the limit" if self.truncated else "end"


def decision_trees(episodes: Iterable[EpisodeResult | Trajectory]) -> tuple[DecisionTree, ...]:
    """Return a tree by size and direction, small and ascending first; UsageError if plays are missing or disagree.

    Args:
        episodes: of sorting tasks, with their tasks, on either face: every permutation of a size and direction at least
            once. `permutation_tasks` finds such tasks.

    Raises:
        UsageError: permutations are missing, an episode is none of a sorting task or not finished, or two episodes went
            on in different ways after the same calls and answers: they are not those of one deterministic policy.
    """
    groups: dict[tuple[int, bool], list[_Play]] = defaultdict(list)
    for episode in episodes:
        trajectory = episode.trajectory if isinstance(episode, EpisodeResult) else episode
        data = _sorting_task(trajectory)
        groups[data.size, data.descending].append(_read_play(trajectory))
    if not groups:
        raise UsageError("decision tree: there are no episodes")
    trees = []
    for (size, descending), plays in sorted(groups.items()):
        count = len({play.values for play in plays})
        if count < factorial(size):
            raise UsageError(
                f"decision tree: {count} of the {factorial(size)} permutations of {size} items "
                f"({'descending' if descending else 'ascending'}) were played; play them all"
            )
        root = _Grower(descending).node(plays, 0, tuple(range(size)), frozenset())
        trees.append(DecisionTree(size, descending, root))
    return tuple(trees)


def permutation_tasks(source: TaskSource, size: int, descending: bool, split: str = "test") -> tuple[Task, ...]:
    """Return a source's first task of each permutation of `size` items, permutations in order; UsageError if one is missing.

    Raises UsageError: the source has no such tasks.
    """
    tasks: dict[Permutation, Task] = {}
    for index in range(2000 * factorial(size)):
        task = source.get(split, index)
        data = task.data
        if isinstance(data, SortData) and (data.kind, data.size, data.descending) == ("sort", size, descending):
            tasks.setdefault(tuple(task.hidden), task)
        if len(tasks) == factorial(size):
            return tuple(task for _, task in sorted(tasks.items()))
    direction = "descending" if descending else "ascending"
    raise UsageError(f"source {source.name}: {split} holds only {len(tasks)} permutations of {size} items, {direction}")


def prune(tree: DecisionTree, fewest_swaps: bool = False) -> DecisionTree:
    """Return the tree without implied comparisons (EARL*); with `fewest_swaps`, its swaps are also the fewest, at the end.

    Args:
        tree: any policy's.
        fewest_swaps: also arrange the items as the policy does, right or wrong, by the fewest swaps, at the end.
    """
    start = tuple(range(tree.size)) if fewest_swaps else None
    return DecisionTree(tree.size, tree.descending, _prune(tree.root, start))


def chain(node: Node) -> tuple[tuple[Names, ...], EndNode | CompareNode]:
    """Return the swaps that come first, and what follows them."""
    swaps = []
    while isinstance(node, SwapNode):
        swaps.append(node.items)
        node = node.then
    return tuple(swaps), node


def _sorting_task(trajectory: Trajectory) -> SortData:
    """Return the sorting task of an episode; UsageError if it is another task or the episode is not over."""
    data = trajectory.task.data if trajectory.task is not None else None
    if not isinstance(data, SortData) or data.kind != "sort":
        why = "has no task with it" if trajectory.task is None else "is of no sorting task (Sort, SortExpA)"
        raise UsageError(f"decision tree: the episode of {trajectory.header.env_id} {why}")
    if not trajectory.turns or not (trajectory.last.terminated or trajectory.last.truncated):
        raise UsageError(f"decision tree: the episode of task {trajectory.header.task_id} is not finished")
    return data


def _read_play(trajectory: Trajectory) -> _Play:
    """Read an episode's successful comparisons and swaps; UsageError where they are more than `MOST_CALLS`."""
    assert trajectory.task is not None
    calls = []
    for turn in trajectory.turns:
        for result in turn.results:
            if not result.error:
                one, other = result.ids
                calls.append((result.name, (one, other), "" if result.name == "swap" else result.content.split()[1]))
    if len(calls) > MOST_CALLS:
        raise UsageError(f"decision tree: task {trajectory.header.task_id} took {len(calls)} calls, over {MOST_CALLS}")
    return _Play(tuple(trajectory.task.hidden), tuple(calls), trajectory.last.truncated)


@dataclass(frozen=True, slots=True)
class _Grower:
    """The builder of a direction's tree from episodes that agree so far."""

    descending: bool

    def node(self, plays: list[_Play], depth: int, order: Permutation, relations: frozenset[Pair]) -> Node:
        """Build the node after `depth` calls, with items in this order and pairs known; UsageError where episodes disagree."""
        first = plays[0]
        for play in plays:
            if play.following(depth) != first.following(depth):
                raise UsageError(_disagreement(first, play, depth))
        if depth == len(first.calls):
            return self._end(plays, order)
        name, items, _ = first.calls[depth]
        one, other = (SYMBOLS.index(item) for item in items)
        if name == "swap":
            places = {one: other, other: one}
            moved = tuple(places.get(item, item) for item in order)
            return SwapNode(items, self.node(plays, depth + 1, moved, relations))
        branches = []
        for sign in SIGNS:
            sign_plays = [play for play in plays if play.calls[depth][2] == sign]
            new_relations = {"<": {(one, other)}, ">": {(other, one)}, "=": set[Pair]()}[sign]
            if sign_plays:
                branches.append((sign, self.node(sign_plays, depth + 1, order, closure(relations | new_relations))))
        implied = one == other or not relations.isdisjoint({(one, other), (other, one)})
        return CompareNode(items, tuple(branches), implied)

    def _end(self, plays: list[_Play], order: Permutation) -> EndNode:
        """Return a leaf: the values that the order sorts rightly, the others, and whether the limit cut it off."""
        values = sorted({play.values for play in plays})
        right = tuple(value for value in values if sorted_order(value, self.descending) == order)
        return EndNode(right, tuple(value for value in values if value not in right), plays[0].truncated)


def _disagreement(one: _Play, other: _Play, depth: int) -> str:
    """Compose the error message for two episodes that act differently after the same answers."""
    calls = [f"{name} {a} {b}" + (f": {a} {sign} {b}" if sign else "") for name, (a, b), sign in one.calls[:depth]]
    return (
        f"decision tree: after {', '.join(calls) or 'the prompt'} one episode went on with {one.following(depth)} (numbers "
        f"{one.values}) and another with {other.following(depth)} ({other.values}); play one policy, greedily"
    )


def _ends(node: Node, comparisons: int, swaps: int) -> Iterator[tuple[EndNode, int, int]]:
    """Yield every end with the comparisons and swaps on the way to it."""
    if isinstance(node, EndNode):
        yield node, comparisons, swaps
    elif isinstance(node, SwapNode):
        yield from _ends(node.then, comparisons, swaps + 1)
    else:
        for _, child in node.branches:
            yield from _ends(child, comparisons + 1, swaps)


def _prune(node: Node, order: Permutation | None) -> Node:
    """Return a node without implied comparisons; with an `order`, the items' there, the fewest swaps come at the end."""
    if isinstance(node, CompareNode):
        if node.implied:
            return _prune(node.branches[0][1], order)
        return CompareNode(node.items, tuple((sign, _prune(child, order)) for sign, child in node.branches))
    if isinstance(node, SwapNode):
        if order is None:
            return SwapNode(node.items, _prune(node.then, None))
        one, other = (SYMBOLS.index(item) for item in node.items)
        return _prune(node.then, tuple({one: other, other: one}.get(item, item) for item in order))
    rest: Node = node
    for one, other in reversed(minimal_swaps(tuple(range(len(order))), order) if order is not None else []):
        rest = SwapNode((SYMBOLS[one], SYMBOLS[other]), rest)
    return rest


def tree_text(tree: DecisionTree) -> str:
    """Return the tree as indented text, its figures first."""
    return "\n".join([f"{tree.name}: {tree.figures}", *_lines(tree.root, "", "")]) + "\n"


def tree_json(tree: DecisionTree) -> dict[str, Any]:
    """Return the tree and its figures as JSON."""
    figures = tree.figures.to_json()
    return {"size": tree.size, "descending": tree.descending, "figures": figures, "root": _encode(tree.root)}


def write_trees(episodes: Iterable[EpisodeResult | Trajectory], folder: str | Path) -> list[dict[str, Any]]:
    """Write the decision trees of a policy's greedy episodes to a folder, as .txt and .json, and return their figures.

    Each tree is written as it is and, as `-pruned`, without implied comparisons; `benchmarks.tree_drawing` draws them.

    Args:
        episodes: see `decision_trees`.
        folder: is made where it is missing.

    Returns:
        A row a tree: `size`, `direction`, the figures of the `policy`, of the `prune` tree, and of the pruned tree with the
        `fewest_swaps`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for tree in decision_trees(episodes):
        bare, least = prune(tree), prune(tree, fewest_swaps=True)
        stem = tree.name.lower().replace(" ", "-")
        for name, each in ((stem, tree), (f"{stem}-pruned", bare)):
            (folder / f"{name}.txt").write_text(tree_text(each), encoding="utf-8")
            (folder / f"{name}.json").write_text(json.dumps(tree_json(each), indent=1) + "\n", encoding="utf-8")
        figures = {"policy": tree, "pruned": bare, "fewest_swaps": least}
        direction = "descending" if tree.descending else "ascending"
        figure_rows = {name: each.figures.to_json() for name, each in figures.items()}
        rows.append({"size": tree.size, "direction": direction, **figure_rows})
    return rows


def _lines(node: Node, indent: str, head: str) -> Iterator[str]:
    """Yield the tree's nodes as indented text, depth first, with a run of swaps on one line."""
    swaps, rest = chain(node)
    text = indent + head + "".join(f"swap {one} {other}, " for one, other in swaps)
    if isinstance(rest, EndNode):
        total = len(rest.sorted) + len(rest.wrong)
        wrong = f" (not sorted: {len(rest.wrong)} of {total})" if rest.wrong else ""
        yield f"{text}{'cut off' if rest.truncated else 'end'}{wrong}"
        return
    one, other = rest.items
    yield f"{text}compare {one} {other}{' (implied)' if rest.implied else ''}"
    for sign, child in rest.branches:
        yield from _lines(child, indent + "  ", f"{one} {sign} {other}: ")


def _encode(node: Node) -> dict[str, Any]:
    """Convert a node (an end, a swap or a comparison) and all below it to JSON."""
    if isinstance(node, EndNode):
        return {"end": "truncated" if node.truncated else "terminated", "sorted": node.sorted, "wrong": node.wrong}
    if isinstance(node, SwapNode):
        return {"swap": node.items, "then": _encode(node.then)}
    branches = {sign: _encode(child) for sign, child in node.branches}
    return {"compare": node.items, "implied": node.implied, "branches": branches}
