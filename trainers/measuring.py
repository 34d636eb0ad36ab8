"""A policy's success on tasks of a split is measured with an interval, and so is the gain between two measurements."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import UsageError
from agent_envs.core.builtin_agents import companion
from agent_envs.core.env import TurnEnv
from agent_envs.core.trajectory import TaskSource, Trajectory
from agent_envs.core.wrapper_stack import core_of
from agent_envs.evaluation.runs.episode_numbers import tool_calls, valid_turn
from agent_envs.evaluation.statistics.paired import compare_paired
from agent_envs.evaluation.statistics.rates import Rate, success_rate
from agent_envs.rollout.episode_runner import EpisodeResult
from agent_envs.rollout.run_log import Planned
from agent_envs.wrappers.feedback_costs import feedback_usage
from trainers.mixture import Specs
from trainers.sampling import Group, Player, plan_groups, play_groups, tasks_of_step
from trainers.spread_tasks import has_task
from trainers.training.pooling import Ratio


@dataclass(frozen=True)
class Measurement:
    """One trial on each of some tasks.

    Attributes:
        rate: of success, over tasks, clustered as the environment says; None where one of several environments has no result,
            as that of the others is not the rate of all.
        successes: 0 or 1 by task id.
        clusters: by task id.
        means: reward, turns, searches and other tool calls, share of valid actions, sampled tokens: per episode.
        faults: tasks that an outside fault left out.
        kinds: of tasks, by task id, where the environment tells several apart.
        faults_by_kind: of several environments: the faults of each, by its name.
        episodes: by task id: success, sampled tokens, and the counts of an environment that has some (EARL's Table 4). They are
            not kept over a kill.
    """

    rate: Rate | None
    successes: dict[str, float]
    clusters: dict[str, str]
    means: dict[str, float]
    faults: int
    kinds: dict[str, str] = field(default_factory=dict)
    faults_by_kind: dict[str, int] = field(default_factory=dict)
    episodes: dict[str, dict[str, float]] = field(default_factory=dict)

    def summary(self) -> dict[str, object]:
        """Return the numbers for a result file; where `rate` is None so is success, and there are no means of all."""
        told: dict[str, object] = {**_numbers(self.rate), "tasks": len(self.successes)}
        means = self.means if self.rate else {}
        told |= {"clusters": len(set(self.clusters.values())), **means, "faults": self.faults}
        parts = {kind: self._part(kind) for kind in sorted({*self.kinds.values(), *self.faults_by_kind})}
        return {**told, "kinds": parts} if len(parts) > 1 else told

    def _part(self, kind: str) -> dict[str, object]:
        successes = {task: value for task, value in self.successes.items() if self.kinds[task] == kind}
        told = {**_numbers(_rate(successes, self.clusters) if successes else None), "tasks": len(successes)}
        return told | ({"faults": self.faults_by_kind[kind]} if self.faults_by_kind else {})

    def as_json(self) -> dict[str, Any]:
        """Return everything that `from_json` needs."""
        names = ("successes", "clusters", "means", "faults", "kinds", "faults_by_kind")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> "Measurement":
        """Read what `as_json` gave."""
        whole = set(row.get("faults_by_kind", ())) <= set(row["kinds"].values())
        return cls(_rate(row["successes"], row["clusters"]) if whole else None, **row)


def measure_all(policy: Player, specs: Specs, split: str, count: int, key: str) -> Measurement:
    """Play `count` tasks of a split once each, always the same ones, and pool what is measured in several environments.

    Args:
        policy: who plays.
        specs: of the environments, with their names, which are the kinds of tasks where there are several.
        split: of their tasks.
        count: in each, at most; a split that ends may have fewer. They are drawn from all of it.
        key: names the draws: equal keys, equal samples.

    Raises:
        UsageError: there is no such split.
    """
    plan, cores, planned = list[Planned](), dict[str, tuple[str, TurnEnv]](), dict[str, int]()
    for name, spec in specs:
        core = core_of(gym.make(EnvSpec.from_json(spec)))
        if split not in core.source.splits:
            raise UsageError(f"{core.env_id}: no split {split!r}; the splits are {', '.join(core.source.splits)}")
        tasks = tasks_measured(core.source, split, count)
        own = key if len(specs) == 1 else f"{key}/{name}"
        plan += plan_groups(spec, split, tasks, 1, own)
        cores[core.env_id], planned[name] = (name, core), len(tasks)
    groups = play_groups(plan, policy)
    rows = [_measured(group.results[0], cores, split) for group in groups]
    kinds = {task: kind for task, _, _, kind in rows}
    played = Counter(kinds.values())
    several = len(specs) > 1
    return Measurement.from_json(
        {
            "successes": {task: success for task, success, _, _ in rows},
            "clusters": {task: cluster for task, _, cluster, _ in rows},
            "means": episode_means(groups),
            "faults": len(plan) - len(groups),
            "kinds": kinds if several or len(played) > 1 else {},
            "faults_by_kind": {name: count - played[name] for name, count in planned.items()} if several else {},
            "episodes": {row[0]: _counts(row, group, cores) for row, group in zip(rows, groups, strict=True)},
        }
    )


def tasks_measured(source: TaskSource, split: str, count: int) -> list[int]:
    """Return which tasks of a split a measurement plays, always the same ones: all where it has not so many.

    A source without end has as many as are asked for: beyond its size lie its next tasks.
    """
    size = source.size(split)
    drawn = tasks_of_step(0, min(count, size), size, seed=0)
    return drawn + [*range(size, count)] if count > size and has_task(source, split, size) else drawn


def _measured(
    result: EpisodeResult, cores: Mapping[str, tuple[str, TurnEnv]], split: str
) -> tuple[str, float, str, str]:
    """Return an episode's task, success, cluster and kind; of several environments their names are parts of them."""
    header = result.trajectory.header
    name, core = cores[header.env_id]
    task = core.source.get(split, header.task_id)
    if len(cores) > 1:
        return f"{name}/{task.id}", float(result.success), f"{name}/{task.cluster or task.id}", name
    labels = companion(core, "labels") or (lambda task: {})
    return task.id, float(result.success), task.cluster or task.id, labels(task).get("task", "")


def _counts(
    row: tuple[str, float, str, str], group: Group, cores: Mapping[str, tuple[str, TurnEnv]]
) -> dict[str, float]:
    """Return an episode's success, sampled tokens, and what its environment counts."""
    trajectory = group.results[0].trajectory
    _, core = cores[trajectory.header.env_id]
    counted = companion(core, "metrics")
    told = {"success": row[1], "tokens": float(_sampled_tokens([group])[0])}
    if counted is None:
        return told
    task = core.source.get(trajectory.header.split, trajectory.header.task_id)
    return told | counted(replace(trajectory, task=task))


def _numbers(rate: Rate | None) -> dict[str, object]:
    return {"success": rate and rate.value, "interval": rate and [rate.low, rate.high]}


def _rate(successes: dict[str, float], clusters: dict[str, str]) -> Rate:
    return success_rate(list(successes.values()), list(successes), [clusters[task] for task in successes])


def gain(before: Measurement, after: Measurement) -> dict[str, object]:
    """Return the paired difference of success on the tasks that both measured, with its interval and test."""
    tasks = before.successes.keys() & after.successes.keys()
    sides = [{task: [side.successes[task]] for task in sorted(tasks)} for side in (before, after)]
    found = compare_paired(*sides, clusters={task: before.clusters[task] for task in tasks})
    return {"difference": found.difference, "interval": [found.low, found.high], "p_value": found.p_value}


def episode_means(groups: Sequence[Group]) -> dict[str, float]:
    """Return means over all episodes of groups: what a curve of training shows beside the reward."""
    episodes = [result.trajectory for group in groups for result in group.results]
    turns = [turn for episode in episodes for turn in episode.turns]
    calls = [tool_calls(episode.turns) for episode in episodes]
    names = sorted({name for call in calls for name in call})
    tokens = _sampled_tokens(groups)
    return {
        "reward": _mean([episode.total_reward for episode in episodes]),
        "turns": _mean([len(episode.turns) for episode in episodes]),
        "valid_actions": Ratio(sum(valid_turn(turn) for turn in turns), len(turns)),
        "completions/mean_length": _mean(tokens),
        "completions/min_length": min(tokens, default=0),
        "completions/max_length": max(tokens, default=0),
        "completions/clipped_ratio": _mean([episode.last.truncated for episode in episodes]),
        "tools/call_frequency": _mean([sum(call.values()) for call in calls]),
        **{f"tools/{name}": _mean([call[name] for call in calls]) for name in names},
        **_terms(episodes),
        **_feedback([result for group in groups for result in group.results]),
    }


def _feedback(results: Sequence[EpisodeResult]) -> dict[str, float]:
    """Return what verbal feedback took, per episode: messages, and calls and tokens of a chat model that gave it."""
    said, used = 0, Counter[str]()
    for result in results:
        shown = [*result.trajectory.prompt, *(m for turn in result.trajectory.turns for m in turn.observation)]
        said += sum(message.author == "feedback" for message in shown)
        used.update(feedback_usage(result.usage))
    totals = {"messages": said, **used} if said else {}
    return {f"feedback/{name}": total / len(results) for name, total in totals.items()}


def _outcomes(groups: Sequence[Group]) -> dict[str, float]:
    """Return TRL's numbers of the episodes that no limit ended, without extremes where there are none, and of tools."""
    episodes = [result.trajectory for group in groups for result in group.results]
    pairs = zip(_sampled_tokens(groups), episodes, strict=True)
    lengths = [tokens for tokens, episode in pairs if not episode.last.truncated]
    results = [result for episode in episodes for turn in episode.turns for result in turn.results]
    extremes = {"min": min(lengths), "max": max(lengths)} if lengths else {}
    return {
        "completions/mean_terminated_length": Ratio(sum(lengths), len(lengths)),
        **{f"completions/{name}_terminated_length": value for name, value in extremes.items()},
        "tools/failure_frequency": Ratio(sum(bool(result.error) for result in results), len(results)),
    }


def _sampled_tokens(groups: Sequence[Group]) -> list[int]:
    return [sum(map(sum, (sequence.trained for sequence in row))) for group in groups for row in group.sequences]


def _terms(episodes: Sequence[Trajectory]) -> dict[str, float]:
    """Return the mean of each named term of the reward, under TRL's names."""
    totals = Counter[str]()
    for turn in (turn for episode in episodes for turn in episode.turns):
        totals.update(dict(turn.terms))
    return {f"rewards/{name}/mean": total / len(episodes) for name, total in totals.items()}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def distinct_calls(groups: Sequence[Group], forks: Sequence[Trajectory] = ()) -> Counter[str]:
    """Return how often each tool was carried out, in groups and in forks of their episodes; in turns that are shared, once."""
    turns = {name: node.turn for group in groups for name, node in group.tree.nodes.items()}
    return tool_calls((turns | {turn.node: turn for fork in forks for turn in fork.turns}).values())


def group_stats(groups: Sequence[Group]) -> dict[str, float]:
    """Return what a training step's log says of its episodes."""
    results = [result for group in groups for result in group.results]
    rewards = [result.trajectory.total_reward for result in results]
    return {
        **episode_means(groups),
        **_outcomes(groups),
        "success": _mean([result.success for result in results]),
        "reward_std": statistics.stdev(rewards) if len(rewards) > 1 else 0.0,
        "drift": sum(group.drift for group in groups),
        "faults": sum(group.faults for group in groups),
    }
