"""Rollouts of a task grow as a tree: a path forks before a turn where a rule says so, and what came before it is shared.

A rule goes by the entropy after a tool's result (ARPO), by chance, or by hindsight. ARPO (arXiv 2507.19849, section 3.1) forks
after a tool's result. A result ends a turn here, so that is the beginning of the next one: a path plays that turn to its end,
the first k of its entropies decide, and forks start from what was before it. docs/arpo.md compares the rules of the paper and
of the released code.

M leaves grow from N roots; where no path of a task runs any more and leaves are missing, fresh roots make up for them. What
is decided follows from the run's seed, the task and the node alone, and is logged.

Credit is soft (section 3.2) or hard. Soft: each leaf is a row of GRPO, so a token below which d leaves lie is trained d times.
Hard: such a token is trained once, with the mean of their advantages. While every ratio is 1 the soft gradient of it is d times
the hard one; once the clip acts it is another one, because the minimum in PPO's loss is not linear in the sign of A. Leaves are
no equal sample of the policy: what forked counts once for each leaf. Weights that share out 1 a root give the policy's own mean
if what decides on a fork is known before the turn that is varied, and no fresh roots make up for missing leaves; with entropies
of the trunk's own turn, or fresh roots, they come near it.
"""

import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from typing import Any, Literal

from agent_envs.base.errors import UsageError
from agent_envs.core.trajectory import Turn
from agent_envs.evaluation.runs.measures import tool_calls
from agent_envs.rollout.episode_runner import EpisodeResult, Planned
from agent_envs.rollout.lockstep import Lane, Lockstep
from trainers.sampling import own_tokens

ONLINE, AFTERWARDS = ("off", "random", "paper", "released", "early"), ("late", "top", "likelihood", "value")


@dataclass(frozen=True)
class BranchingSettings:
    """The rule by which rollouts branch.

    Attributes:
        rule: `released` forks with chance clip(chance + weight * dH, 0, 1), `paper` where alpha + beta * dH > tau. Controls:
            `off` (whole rollouts: GRPO), `random` (the chance whatever the entropy), `early` and `late` (at the first, at the
            last result of a path), `top` (the half of a task's nodes with the highest dH), `likelihood` (after APPO: the half
            with the highest entropy times change of the path's likelihood, `likelihood_change`), `value` (where extra rollouts
            differ most in reward: nobody who chooses places could do better), or `callable:MODULE:F`, a chance from a
            `BranchNode`.
        roots: whole rollouts that a task begins with (N).
        beam: paths that leave a node at most (Z), the one that came to it among them.
        chance: p0 of `released`, and of `random`.
        weight: w of `released`.
        alpha: of `paper`.
        beta: of `paper`.
        tau: of `paper`; None measures the median of dH over 64 episodes of the start, and writes it into settings.json.
        tokens: k, the first sampled tokens of a turn, whose entropies count.
        window: the turn after the result, or (as released) the one that ended in the call.
        after: nodes are turns after a tool's result, or after any observation, for environments without tools.
        probes: rollouts from each node that `value` looks at; they are no data, and their calls are counted apart.
    """

    rule: str = "released"
    roots: int = 8
    beam: int = 2
    chance: float = 0.5
    weight: float = 0.2
    alpha: float = 0.0
    beta: float = 1.0
    tau: float | None = None
    tokens: int = 20
    window: Literal["post_tool", "pre_tool"] = "post_tool"
    after: Literal["tool", "turn"] = "tool"
    probes: int = 8

    def __post_init__(self) -> None:
        """Refuse what no rule can decide by, with a UsageError."""
        if self.rule not in (*ONLINE, *AFTERWARDS) and not self.rule.startswith("callable:"):
            names = ", ".join((*ONLINE, *AFTERWARDS, "callable:MODULE:F"))
            raise UsageError(f"branching.rule={self.rule!r}: one of {names}")
        if min(self.roots, self.tokens, self.beam - 1, self.probes - 1) < 1:
            raise UsageError("branching.roots and tokens are >= 1, beam and probes >= 2")
        numbers = (self.weight, self.alpha, self.beta, self.tau or 0.0)
        if not 0 <= self.chance <= 1 or not all(map(math.isfinite, numbers)):
            raise UsageError("branching.chance is from 0 to 1; weight, alpha, beta and tau are finite numbers")
        if self.rule.startswith("callable:"):
            _import_rule(self.rule)

    def summary(self, turn: Turn, vocabulary: int) -> float | None:
        """Return the entropy of a turn's first k sampled tokens: their mean (`paper`) or sum over ln V; None without any."""
        values = own_tokens(turn, turn.entropies)[: self.tokens]
        if not values:
            return None
        return (statistics.fmean if self.rule == "paper" else math.fsum)(values) / math.log(vocabulary)


@dataclass(frozen=True)
class BranchNode:
    """A point at which a path may fork: before the turn `turn` of the conversation `origin`.

    Attributes:
        number: which of its path's nodes it is, from 1.
        tool: whose result came before it.
        entropy, baseline: normalised, of the turn that decides and of the root's first turn.
        left: leaves that the task may still have.
    """

    origin: str
    turn: int
    number: int
    tool: str
    entropy: float
    baseline: float
    left: int

    @property
    def delta(self) -> float:
        """The change of the entropy since the root's first tokens: below 0 the policy is surer."""
        return self.entropy - self.baseline


def tool_before(turn: Turn, after: str) -> str | None:
    """Return the tool of a turn's last result, "" if any turn makes a node; None if the next turn is no node."""
    names = [row.name for row in turn.results if row.call_id]
    return names[-1] if names else "" if after == "turn" else None


def numbers_of(turns: Sequence[Turn], settings: BranchingSettings, vocabulary: int) -> tuple[str, float, float] | None:
    """Return tool, entropy and baseline where the last of a path's turns is a node; None too where the context had no room."""
    tool, decides = tool_before(turns[-2], settings.after), turns[-1 if settings.window == "post_tool" else -2]
    entropy, baseline = (settings.summary(turn, vocabulary) for turn in (decides, turns[0]))
    return None if tool is None or entropy is None or baseline is None else (tool, entropy, baseline)


def deltas(turns: Sequence[Turn], settings: BranchingSettings, vocabulary: int) -> list[float]:
    """Return dH at every node of a whole rollout."""
    node_numbers = (numbers_of(turns[:count], settings, vocabulary) for count in range(2, len(turns) + 1))
    return [numbers[1] - numbers[2] for numbers in node_numbers if numbers is not None]


def likelihood_change(turns: Sequence[Turn], first: int) -> float:
    """Return the change, above 0, of the mean logprob of a path's sampled tokens: from turn `first` on, less before it."""
    rows = [own_tokens(turn, turn.logprobs) for turn in turns]
    before, after = (list(chain.from_iterable(part)) for part in (rows[: first - 1], rows[first - 1 :]))
    return abs(statistics.fmean(after or [0.0]) - statistics.fmean(before or [0.0]))


def chance_of(node: BranchNode, settings: BranchingSettings) -> float:
    """Return the chance of a fork; 0 for `off` and rules that choose afterwards; UsageError outside [0, 1] or without tau."""
    if settings.rule == "random":
        return settings.chance
    if settings.rule == "early":
        return float(node.number == 1)
    if settings.rule == "released":
        return min(1.0, max(0.0, settings.chance + settings.weight * node.delta))
    if settings.rule == "paper":
        if settings.tau is None:
            raise UsageError("branching.tau: rule='paper' compares with a number; the paper gives none")
        return float(settings.alpha + settings.beta * node.delta > settings.tau)
    if settings.rule.startswith("callable:"):
        chance = float(_import_rule(settings.rule)(node))
        if not 0 <= chance <= 1:
            raise UsageError(f"{settings.rule}: a chance is from 0 to 1, not {chance}")
        return chance
    return 0.0


def _import_rule(rule: str) -> Callable[[BranchNode], float]:
    """Import the branching rule that `callable:MODULE:FUNCTION` names; UsageError where it cannot be imported."""
    _, module, name = f"{rule}::".split(":")[:3]
    try:
        function: Callable[[BranchNode], float] = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"branching.rule={rule!r}: give callable:MODULE:FUNCTION ({error})") from None
    return function


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


_Candidate = tuple[BranchNode, Path, list[Lane]]


class TaskTree:
    """All rollouts of a task, as they grow.

    Attributes:
        paths: in the order in which they began; `roots` are those of them that share nothing.
        decisions: a row a node: its numbers, the chance, the draw, and how many forks there were.
        probe_calls: tool calls of the rollouts that only `value` looked at.
    """

    def __init__(self, items: Sequence[Planned], settings: BranchingSettings, vocabulary: int) -> None:
        """Set the planned episodes, whose number is that of the tree's leaves at most."""
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
        """The number of leaves that may still be added."""
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

    def next_roots(self) -> list[Planned]:
        """Return the roots to begin: none while a path runs; first the settings' number, later as many as leaves are left."""
        if any(not path.lane.over for path in self.paths):
            return []
        count = self.left if self.paths else self._first
        return self._items[len(self.roots) : len(self.roots) + count]

    def add_roots(self, lanes: Sequence[Lane]) -> None:
        """Add the lanes of new roots."""
        new = [Path(lane) for lane in lanes]
        self.roots += new
        self.paths += new

    def prepare(self, lockstep: Lockstep) -> list[Lane]:
        """Fork each running path at a node into waiting lanes, while leaves are left; return the lanes of all running paths."""
        active = [path for path in self.paths if not path.lane.over]
        for path in active:
            path.waiting = []
            walk = path.lane.walk
            assert walk is not None
            turn = len(walk.turns) + 1
            if self.left and turn > path.since and tool_before(walk.turns[-1], self._settings.after) is not None:
                names = [f"t{turn}b{number}" for number in range(1, self._settings.beam)]
                path.waiting = [lockstep.fork(path.lane, name) for name in names[: self.left]]
        return [path.lane for path in active]

    def decide(self, lockstep: Lockstep) -> None:
        """Fork or drop the waiting lanes of each path at a node, by a seeded draw; rules that choose afterwards keep them."""
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
                uniform = random.Random(f"branch:{node.origin}:{node.turn}").random()
                count = min(len(waiting), self.left) if uniform < chance else 0
                self._record_decision(node, count, chance=chance, drawn=uniform)
                self._fork(node, path, waiting[:count])
            lockstep.drop(waiting[count:])

    def choose(self, lockstep: Lockstep) -> None:
        """Fork the chosen nodes of ended rollouts while leaves are left, record every node, and drop the lanes not used."""
        nodes, self._nodes = self._nodes, []
        scores = self._scores(nodes, lockstep)
        fork_numbers = self._choose_nodes(nodes, scores)
        for number in [*fork_numbers, *(number for number in range(len(nodes)) if number not in fork_numbers)]:
            node, path, waiting = nodes[number]
            count = min(len(waiting), self.left) if number in fork_numbers else 0
            self._record_decision(node, count, score=scores[number])
            self._fork(node, path, waiting[:count])
            lockstep.drop(waiting[count:])

    def _scores(self, nodes: Sequence[_Candidate], lockstep: Lockstep) -> list[float]:
        """Score nodes by the spread of extra rollouts' rewards (`value`), by `likelihood`, else by their rise in entropy."""
        if self._settings.rule == "value":
            return [self._spread(waiting[0], lockstep) for _, _, waiting in nodes]
        if self._settings.rule == "likelihood":
            scores = []
            for node, path, _ in nodes:
                walk = path.lane.walk
                assert walk is not None  # or all scores behind it would be another node's
                scores.append(node.entropy * likelihood_change(walk.turns, node.turn))
            return scores
        return [node.delta for node, _, _ in nodes]

    def _choose_nodes(self, nodes: Sequence[_Candidate], scores: Sequence[float]) -> list[int]:
        """Return the nodes to fork, in order: each path's last (`late`), all by score (`value`), or the better half."""
        if self._settings.rule == "late":
            return sorted({id(path): number for number, (_, path, _) in enumerate(nodes)}.values())
        ranked = sorted(range(len(nodes)), key=lambda number: (-scores[number], number))
        return ranked if self._settings.rule == "value" else ranked[: (len(nodes) + 1) // 2]

    def _spread(self, waiting: Lane, lockstep: Lockstep) -> float:
        """Return the std of the reward of extra rollouts from a node; 0 where all of them failed."""
        walk = waiting.walk
        assert walk is not None
        probes = [lockstep.fork(waiting, f"p{n}") for n in range(self._settings.probes)]
        while any(not lane.over for lane in probes):
            lockstep.step([lane for lane in probes if not lane.over])
        walks = [lane.walk for lane in probes if lane.walk is not None and not lane.fault]
        turns = [turn for one in walks for turn in one.turns[len(walk.turns) :]]
        self.probe_calls += tool_calls(turns).total()
        lockstep.drop(probes)
        return statistics.pstdev([one.result().trajectory.total_reward for one in walks]) if walks else 0.0

    def _fork(self, node: BranchNode, path: Path, lanes: Sequence[Lane]) -> None:
        if lanes:
            path.forks[node.turn] = [Path(lane, node.turn, path.number) for lane in lanes]
            self.paths += path.forks[node.turn]

    def _node(self, path: Path) -> BranchNode | None:
        """Return the node before a path's last turn; None where no tool result came before it or entropies are missing."""
        walk = path.lane.walk
        assert walk is not None
        numbers = numbers_of(walk.turns, self._settings, self._vocabulary)
        return numbers and BranchNode(path.lane.origin, len(walk.turns), path.number + 1, *numbers, self.left)

    def _record_decision(self, node: BranchNode, forks: int, **more: float) -> None:
        shape = {"node": f"{node.origin}:{node.turn}", "number": node.number, "tool": node.tool, "left": self.left}
        numbers = {"entropy": node.entropy, "baseline": node.baseline, "delta": node.delta, **more}
        self.decisions.append(shape | {name: round(value, 6) for name, value in numbers.items()} | {"forks": forks})


def grow(plan: Sequence[Planned], lockstep: Lockstep, settings: BranchingSettings, vocabulary: int) -> list[TaskTree]:
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
    trees = [TaskTree(items, settings, vocabulary) for items in groups.values()]
    while True:
        finished_trees = [tree for tree in trees if all(path.lane.over for path in tree.paths)]
        for tree in finished_trees:
            tree.choose(lockstep)
        new_roots = [tree.next_roots() for tree in trees]
        lanes = iter(lockstep.begin([item for items in new_roots for item in items]))
        for tree, items in zip(trees, new_roots, strict=True):
            tree.add_roots([next(lanes) for _ in items])
        active = [lane for tree in trees for lane in tree.prepare(lockstep)]
        if not active:
            if not any(tree.left for tree in trees):
                return trees
            continue
        lockstep.step(active)
        for tree in trees:
            tree.decide(lockstep)
