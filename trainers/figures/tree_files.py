"""The decision trees of a sorting policy's episodes are written as text and as JSON."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agent_envs.core.trajectory import Trajectory
from agent_envs.rollout.episode_runner import EpisodeResult
from trainers.figures.decision_tree import End, Node, Swap, Tree, chain, decision_trees, pruned


def tree_text(tree: Tree) -> str:
    """Return the tree as indented text, its figures first."""
    return "\n".join([f"{tree.name}: {tree.figures}", *_lines(tree.root, "", "")]) + "\n"


def tree_json(tree: Tree) -> dict[str, Any]:
    """Return the tree and its figures as JSON."""
    figures = tree.figures.to_json()
    return {"size": tree.size, "descending": tree.descending, "figures": figures, "root": _encoded(tree.root)}


def extracted(episodes: Iterable[EpisodeResult | Trajectory], folder: str | Path) -> list[dict[str, Any]]:
    """Write the decision trees of a policy's greedy episodes to a folder, as .txt and .json, and return their figures.

    Each tree is written as it is and, as `-pruned`, without implied comparisons; `benchmarks.tree_drawing` draws them.

    Args:
        episodes: see `decision_trees`.
        folder: is made where it is missing.

    Returns:
        A row a tree: `size`, `direction`, the figures of the `policy`, of the `pruned` tree, and of the pruned tree with the
        `fewest_swaps`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for tree in decision_trees(episodes):
        bare, least = pruned(tree), pruned(tree, fewest_swaps=True)
        stem = tree.name.lower().replace(" ", "-")
        for name, each in ((stem, tree), (f"{stem}-pruned", bare)):
            (folder / f"{name}.txt").write_text(tree_text(each), encoding="utf-8")
            (folder / f"{name}.json").write_text(json.dumps(tree_json(each), indent=1) + "\n", encoding="utf-8")
        figures = {"policy": tree, "pruned": bare, "fewest_swaps": least}
        direction = "descending" if tree.descending else "ascending"
        found = {name: each.figures.to_json() for name, each in figures.items()}
        rows.append({"size": tree.size, "direction": direction, **found})
    return rows


def _lines(node: Node, indent: str, head: str) -> Iterator[str]:
    swaps, rest = chain(node)
    text = indent + head + "".join(f"swap {one} {other}, " for one, other in swaps)
    if isinstance(rest, End):
        total = len(rest.sorted) + len(rest.wrong)
        wrong = f" (not sorted: {len(rest.wrong)} of {total})" if rest.wrong else ""
        yield f"{text}{'cut off' if rest.truncated else 'end'}{wrong}"
        return
    one, other = rest.items
    yield f"{text}compare {one} {other}{' (implied)' if rest.implied else ''}"
    for sign, child in rest.branches:
        yield from _lines(child, indent + "  ", f"{one} {sign} {other}: ")


def _encoded(node: Node) -> dict[str, Any]:
    if isinstance(node, End):
        return {"end": "truncated" if node.truncated else "terminated", "sorted": node.sorted, "wrong": node.wrong}
    if isinstance(node, Swap):
        return {"swap": node.items, "then": _encoded(node.then)}
    branches = {sign: _encoded(child) for sign, child in node.branches}
    return {"compare": node.items, "implied": node.implied, "branches": branches}
