"""Rollouts of a task grow as a tree: a path forks before a turn where a rule says so, and what came before it is shared.

M leaves grow from N roots; where no path of a task runs any more and leaves are missing, fresh roots make up for them. What
is decided follows from the run's seed, the task and the node alone, and is logged.
"""

import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_envs.core.trajectory import Turn
from agent_envs.evaluation.runs.measures import tool_calls
from agent_envs.rollout.episode_runner import EpisodeResult, Planned
from agent_envs.rollout.lockstep import Lane, Lockstep
from trainers.arpo_parts.branching import AFTERWARDS, BranchingSettings, Node, chance_of, numbers_of, tool_before


@dataclass(eq=False)
class Path:
    """A rollout: a root, or a fork that took its first own turn at `since`. `forks` leave it, by the turn they vary."""

    lane: Lane
    since: int = 1
    number: int = 0
    waiting: list[Lane] = field(default_factory=list)
    forks: dict[int, list["Path"]] = field(default_factory=dict)

    def weights(self, weight: float = 1.0) -> Iterator[tuple["Path", float]]:
        """Yield all leaves below with their weights: at each node its paths have equal parts. They sum to 1 a root."""
        for turn in sorted(self.forks):
            weight /= 1 + len(self.forks[turn])
            for fork in self.forks[turn]:
                yield from fork.weights(weight)
        yield self, weight


_Candidate = tuple[Node, Path, list[Lane]]


class Tree:
    """All rollouts of a task, as they grow.

    Attributes:
        paths: in the order in which they began.
        roots: of them, those that share nothing.
        decisions: a row a node: its numbers, the chance, the draw, and how many forks there were.
        probe_calls: tool calls of the rollouts that only `value` looked at.
    """

    def __init__(self, items: Sequence[Planned], settings: BranchingSettings, vocabulary: int) -> None:
        """Take the planned episodes: as many as the tree may have leaves."""
        self._items, self._settings, self._vocabulary = list(items), settings, vocabulary
        self._nodes: list[_Candidate] = []
        self._afterwards = settings.rule in AFTERWARDS
        self._first = len(items) if settings.rule == "off" else min(settings.roots, len(items))
        self.paths: list[Path] = []
        self.roots: list[Path] = []
        self.decisions: list[dict[str, Any]] = []
        self.probe_calls = 0

    @property
    def left(self) -> int:
        """How many leaves may still be added."""
        return len(self._items) - len(self.paths)

    @property
    def turns(self) -> list[Turn]:
        """The turns that were taken, shared ones once, those of rollouts that a fault ended too."""
        walks = [path.lane.walk for path in self.paths if path.lane.walk is not None]
        return list({turn.node: turn for walk in walks for turn in walk.turns}.values())

    def leaves(self) -> list[tuple[EpisodeResult, float]]:
        """Return the rollouts that no fault ended, in order, with their weights."""
        weights = {id(path): weight for root in self.roots for path, weight in root.weights()}
        whole = [path for path in self.paths if path.lane.walk is not None and not path.lane.fault]
        return [(path.lane.walk.result(), weights[id(path)]) for path in whole if path.lane.walk is not None]

    def wanted(self) -> list[Planned]:
        """Return the roots that are to begin: the first ones, and fresh ones where no path runs any more."""
        if any(not path.lane.over for path in self.paths):
            return []
        count = self.left if self.paths else self._first
        return self._items[len(self.roots) : len(self.roots) + count]

    def begun(self, lanes: Sequence[Lane]) -> None:
        """Take the lanes of roots."""
        new = [Path(lane) for lane in lanes]
        self.roots += new
        self.paths += new

    def prepare(self, lockstep: Lockstep) -> list[Lane]:
        """Keep forks of every path that is at a node, and return the lanes that are to take a turn."""
        going = [path for path in self.paths if not path.lane.over]
        for path in going:
            path.waiting = []
            walk = path.lane.walk
            assert walk is not None
            turn = len(walk.turns) + 1
            if self.left and turn > path.since and tool_before(walk.turns[-1], self._settings.after) is not None:
                names = [f"t{turn}b{number}" for number in range(1, self._settings.beam)]
                path.waiting = [lockstep.fork(path.lane, name) for name in names[: self.left]]
        return [path.lane for path in going]

    def decide(self, lockstep: Lockstep) -> None:
        """Let the rule decide on every path that was at a node, in the order of their names."""
        for path in sorted((path for path in self.paths if path.waiting), key=lambda path: path.lane.origin):
            waiting, path.waiting = path.waiting, []
            node = None if path.lane.fault else self._node(path)
            if node is not None and self._afterwards:
                path.number = node.number
                self._nodes.append((node, path, waiting))
                continue
            count = 0
            if node is not None:
                path.number = node.number
                chance = chance_of(node, self._settings)
                drawn = random.Random(f"branch:{node.origin}:{node.turn}").random()
                count = min(len(waiting), self.left) if drawn < chance else 0
                self._told(node, count, chance=chance, drawn=drawn)
                self._fork(node, path, waiting[:count])
            lockstep.drop(waiting[count:])

    def choose(self, lockstep: Lockstep) -> None:
        """Fork where a rule chooses among the nodes of whole rollouts, once all of them have ended."""
        nodes, self._nodes = self._nodes, []
        scores = self._scores(nodes, lockstep)
        chosen = self._chosen(nodes, scores)
        for number in [*chosen, *(number for number in range(len(nodes)) if number not in chosen)]:
            node, path, waiting = nodes[number]
            count = min(len(waiting), self.left) if number in chosen else 0
            self._told(node, count, score=scores[number])
            self._fork(node, path, waiting[:count])
            lockstep.drop(waiting[count:])

    def _scores(self, nodes: Sequence[_Candidate], lockstep: Lockstep) -> list[float]:
        if self._settings.rule == "value":
            return [self._spread(waiting[0], lockstep) for _, _, waiting in nodes]
        return [node.delta for node, _, _ in nodes]

    def _chosen(self, nodes: Sequence[_Candidate], scores: Sequence[float]) -> list[int]:
        if self._settings.rule == "late":
            return sorted({id(path): number for number, (_, path, _) in enumerate(nodes)}.values())
        ranked = sorted(range(len(nodes)), key=lambda number: (-scores[number], number))
        return ranked[: (len(nodes) + 1) // 2] if self._settings.rule == "top" else ranked

    def _spread(self, waiting: Lane, lockstep: Lockstep) -> float:
        """Return the std of the reward of extra rollouts from a node."""
        walk = waiting.walk
        assert walk is not None
        probes = [lockstep.fork(waiting, f"p{n}") for n in range(self._settings.probes)]
        while any(not lane.over for lane in probes):
            lockstep.step([lane for lane in probes if not lane.over])
        ended = [lane.walk for lane in probes if lane.walk is not None and not lane.fault]
        own = [turn for one in ended for turn in one.turns[len(walk.turns) :]]
        self.probe_calls += tool_calls(own).total()
        lockstep.drop(probes)
        return statistics.pstdev([one.result().trajectory.total_reward for one in ended]) if ended else 0.0

    def _fork(self, node: Node, path: Path, lanes: Sequence[Lane]) -> None:
        if lanes:
            path.forks[node.turn] = [Path(lane, node.turn, path.number) for lane in lanes]
            self.paths += path.forks[node.turn]

    def _node(self, path: Path) -> Node | None:
        walk = path.lane.walk
        assert walk is not None
        numbers = numbers_of(walk.turns, self._settings, self._vocabulary)
        return numbers and Node(path.lane.origin, len(walk.turns), path.number + 1, *numbers, self.left)

    def _told(self, node: Node, forks: int, **more: float) -> None:
        shape = {"node": f"{node.origin}:{node.turn}", "number": node.number, "tool": node.tool, "left": self.left}
        numbers = {"entropy": node.entropy, "baseline": node.baseline, "delta": node.delta, **more}
        self.decisions.append(shape | {name: round(value, 6) for name, value in numbers.items()} | {"forks": forks})


def grow(plan: Sequence[Planned], lockstep: Lockstep, settings: BranchingSettings, vocabulary: int) -> list[Tree]:
    """Play the tasks of a plan, each as a tree with as many leaves as it has planned episodes.

    Args:
        plan: groups of episodes, keyed as `sampling.plan_groups` does.
        lockstep: of the policy that plays.
        settings: where they branch.
        vocabulary: tokens that the policy draws among (V).

    Raises:
        BudgetSpent: nothing may be paid any more.
    """
    groups: dict[str, list[Planned]] = {}
    for item in plan:
        groups.setdefault(item.key.rpartition("/")[0], []).append(item)
    trees = [Tree(items, settings, vocabulary) for items in groups.values()]
    while True:
        resting = [tree for tree in trees if all(path.lane.over for path in tree.paths)]
        for tree in resting:
            tree.choose(lockstep)
        wanted = [tree.wanted() for tree in trees]
        opened = iter(lockstep.begin([item for items in wanted for item in items]))
        for tree, items in zip(trees, wanted, strict=True):
            tree.begun([next(opened) for _ in items])
        going = [lane for tree in trees for lane in tree.prepare(lockstep)]
        if not going:
            if not any(tree.left for tree in trees):
                return trees
            continue
        lockstep.step(going)
        for tree in trees:
            tree.decide(lockstep)
