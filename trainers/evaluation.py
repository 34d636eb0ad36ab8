"""A run is evaluated: success with an interval, before, on the way and after, and whether turns hold valid actions.

Verlog's report puts prompts first: before any training one should know whether the model understands what it is shown.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import UsageError
from agent_envs.base.terminal import stage_lines
from agent_envs.core.env import TurnEnv, core_of
from agent_envs.core.registry import companion
from agent_envs.evaluation.statistics.paired import compare_paired
from agent_envs.evaluation.statistics.rates import Rate, success_rate
from agent_envs.rollout.episode_runner import EpisodeResult, Planned
from trainers.environments import (
    Specs,
    environment_specs,
    extra_tests,
    measured_tasks,
    wrapper_rows,
)
from trainers.sampling import EpisodeGroup, Player, episode_means, plan_groups, play_groups, sampled_tokens
from trainers.settings import RunSettings
from trainers.training.optimise import one_budget

WITHIN, BARE = "within", "bare"
EPISODES_FILE, OUTCOMES_FILE = "test_episodes.jsonl", "test_outcomes.jsonl"
MIN_VALID = 0.95  # Verlog's report: valid actions over 95 % of the time


@dataclass(frozen=True)
class EvaluationResult:
    """The results of one trial on each of some tasks.

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
        """Return the numbers for a result file, by kind if several; without a rate success is None, and means are left out."""
        summary: dict[str, object] = {**_rate_numbers(self.rate), "tasks": len(self.successes)}
        means = self.means if self.rate else {}
        summary |= {"clusters": len(set(self.clusters.values())), **means, "faults": self.faults}
        parts = {kind: self._kind_summary(kind) for kind in sorted({*self.kinds.values(), *self.faults_by_kind})}
        return {**summary, "kinds": parts} if len(parts) > 1 else summary

    def _kind_summary(self, kind: str) -> dict[str, object]:
        """Return success and number of tasks of one kind, and its faults where they are counted by kind."""
        successes = {task: value for task, value in self.successes.items() if self.kinds[task] == kind}
        summary = {**_rate_numbers(_rate(successes, self.clusters) if successes else None), "tasks": len(successes)}
        return summary | ({"faults": self.faults_by_kind[kind]} if self.faults_by_kind else {})

    def as_json(self) -> dict[str, Any]:
        """Return everything that `from_json` needs."""
        names = ("successes", "clusters", "means", "faults", "kinds", "faults_by_kind")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> "EvaluationResult":
        """Read the form of `as_json`."""
        whole = set(row.get("faults_by_kind", ())) <= set(row["kinds"].values())
        return cls(_rate(row["successes"], row["clusters"]) if whole else None, **row)


def measure_all(policy: Player, specs: Specs, split: str, count: int, key: str) -> EvaluationResult:
    """Play the same `count` tasks of a split once in each environment and pool the results; UsageError for no such split.

    Args:
        policy: who plays.
        specs: of the environments, with their names, which are the kinds of tasks where there are several.
        split: of their tasks.
        count: in each, at most; a split that ends may have fewer. They are drawn from all of it.
        key: names the draws: equal keys, equal samples.

    Raises:
        UsageError: there is no such split.
    """
    plan, cores, task_counts = list[Planned](), dict[str, tuple[str, TurnEnv]](), dict[str, int]()
    for name, spec in specs:
        core = core_of(gym.make(EnvSpec.from_json(spec)))
        if split not in core.source.splits:
            raise UsageError(f"{core.env_id}: no split {split!r}; the splits are {', '.join(core.source.splits)}")
        tasks = measured_tasks(core.source, split, count)
        own = key if len(specs) == 1 else f"{key}/{name}"
        plan += plan_groups(spec, split, tasks, 1, own)
        cores[core.env_id], task_counts[name] = (name, core), len(tasks)
    groups = play_groups(plan, policy)
    rows = [_outcome(group.results[0], cores, split) for group in groups]
    kinds = {task: kind for task, _, _, kind in rows}
    counts = Counter(kinds.values())
    several = len(specs) > 1
    return EvaluationResult.from_json(
        {
            "successes": {task: success for task, success, _, _ in rows},
            "clusters": {task: cluster for task, _, cluster, _ in rows},
            "means": episode_means(groups),
            "faults": len(plan) - len(groups),
            "kinds": kinds if several or len(counts) > 1 else {},
            "faults_by_kind": {name: count - counts[name] for name, count in task_counts.items()} if several else {},
            "episodes": {row[0]: _counts(row, group, cores) for row, group in zip(rows, groups, strict=True)},
        }
    )


def _outcome(
    result: EpisodeResult, cores: Mapping[str, tuple[str, TurnEnv]], split: str
) -> tuple[str, float, str, str]:
    """Return an episode's task, success, cluster and kind; with several environments, task and cluster carry their names."""
    header = result.trajectory.header
    name, core = cores[header.env_id]
    task = core.source.get(split, header.task_id)
    if len(cores) > 1:
        return f"{name}/{task.id}", float(result.success), f"{name}/{task.cluster or task.id}", name
    labels = companion(core, "labels") or (lambda task: {})
    return task.id, float(result.success), task.cluster or task.id, labels(task).get("task", "")


def _counts(
    row: tuple[str, float, str, str], group: EpisodeGroup, cores: Mapping[str, tuple[str, TurnEnv]]
) -> dict[str, float]:
    """Return an episode's success and sampled tokens, and what its environment counts, if anything."""
    trajectory = group.results[0].trajectory
    _, core = cores[trajectory.header.env_id]
    counted = companion(core, "metrics")
    counts = {"success": row[1], "tokens": float(sampled_tokens([group])[0])}
    if counted is None:
        return counts
    task = core.source.get(trajectory.header.split, trajectory.header.task_id)
    return counts | counted(replace(trajectory, task=task))


def _rate_numbers(rate: Rate | None) -> dict[str, object]:
    """Return a rate and its interval for a summary; None for both without a rate."""
    return {"success": rate and rate.value, "interval": rate and [rate.low, rate.high]}


def _rate(successes: dict[str, float], clusters: dict[str, str]) -> Rate:
    """Return the success rate of tasks with its interval, by their clusters."""
    return success_rate(list(successes.values()), list(successes), [clusters[task] for task in successes])


def gain(before: EvaluationResult, after: EvaluationResult) -> dict[str, object]:
    """Return the paired difference of success on the tasks that both measured, with its interval and test."""
    tasks = before.successes.keys() & after.successes.keys()
    sides = [{task: [side.successes[task]] for task in sorted(tasks)} for side in (before, after)]
    test = compare_paired(*sides, clusters={task: before.clusters[task] for task in tasks})
    return {"difference": test.difference, "interval": [test.low, test.high], "p_value": test.p_value}


class Evaluator:
    """Measures a player on what a run's settings name; the first process alone does, and the others wait.

    Where wrappers stand around the environment (`env.wrappers`), all is measured within them, as it is trained, and in the bare
    environment as well, unless `evaluation.bare` is off or `Memory` is one of them.

    Attributes:
        player: that is measured.
        episodes: of the last test, as `EvaluationResult.episodes`.
    """

    def __init__(self, settings: RunSettings, player: Player, accelerator: Any) -> None:
        """Set the settings, the player to measure, and accelerate's processes.

        Raises:
            UsageError: arguments are no JSON object, a split does not exist, or the best would be chosen on the test split.
        """
        self.player = player
        self._specs = {WITHIN: environment_specs(settings), BARE: environment_specs(settings, bare=True)}
        remembers = any(name == "Memory" for name, _ in wrapper_rows(settings.env.wrappers, "env.wrappers"))
        if remembers or not settings.evaluation.bare or self._specs[BARE] == self._specs[WITHIN]:
            del self._specs[BARE]
        self._tests = extra_tests(settings)
        self._settings, self._accelerator = settings, accelerator
        self.episodes: dict[str, dict[str, float]] = {}
        self._outcomes: dict[str, EvaluationResult | None] = {}

    def before(self) -> dict[str, Any] | None:
        """Measure on the test split and return what `results` compares with, as JSON; None where nothing is measured here."""
        measurements = self._test()
        return {name: measured.as_json() for name, measured in measurements.items()} or None

    def results(self, before: dict[str, Any] | None) -> dict[str, Any]:
        """Measure on the test split and return what a result file tells: before, after, the paired gain, and `env.tests`.

        What was measured in the bare environment stands under "bare" in the same form, where it is another one.
        """
        after = self._test()
        sides = {name: EvaluationResult.from_json(row) for name, row in (before or {}).items()}
        self._outcomes = {"before": sides.get(WITHIN), "after": after.get(WITHIN)}
        result = _compare(*self._outcomes.values()) | {"tests": self._measure_tests(after)}
        return result | ({BARE: _compare(sides.get(BARE), after.get(BARE))} if BARE in self._specs else {})

    def write_episodes(self, folder: Path) -> None:
        """Write the counts of the last test's episodes, and each measure's outcomes, a line a task; nothing without a test."""
        measures = [(name, measured) for name, measured in self._outcomes.items() if measured is not None]
        outcomes = [
            {"measure": name, "task": task, "cluster": measured.clusters[task], "success": success}
            for name, measured in measures
            for task, success in measured.successes.items()
        ]
        counts = [{"task": task, **row} for task, row in self.episodes.items()]
        for name, rows in ((EPISODES_FILE, counts), (OUTCOMES_FILE, outcomes)):
            if rows:
                (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")

    def validation(self) -> dict[str, float]:
        """Measure on the evaluation split and return curve points, bare ones under eval_bare/; {} on other processes."""
        settings, points = self._settings, dict[str, float]()
        for name, (spec, _) in self._specs.items():
            measurement = self._measure(spec, settings.env.eval_split, settings.evaluation.tasks, "eval")
            if measurement is not None:
                points |= curve_points(measurement, "eval" if name == WITHIN else f"eval_{name}")
        return points

    def held_out(self, tasks: int) -> float:
        """Return success on tasks of the split that chooses; 0 on the other processes, and where faults left no rate."""
        spec, _ = self._specs[WITHIN]
        measurement = self._measure(spec, self._settings.env.eval_split, tasks, "warm start")
        return measurement.rate.value if measurement is not None and measurement.rate else 0.0

    def _test(self) -> dict[str, EvaluationResult]:
        """Measure on the test split and keep its episodes; {} on other processes, and where no test is wanted."""
        settings = self._settings
        sides = {
            name: self._measure(spec, settings.env.test_split, settings.evaluation.test_tasks, "test")
            for name, (_, spec) in self._specs.items()
        }
        measurements = {name: measured for name, measured in sides.items() if measured is not None}
        self.episodes = measurements[WITHIN].episodes if WITHIN in measurements else {}
        return measurements

    def _measure_tests(self, after: dict[str, EvaluationResult]) -> dict[str, dict[str, object] | None]:
        """Measure `env.tests`, by name, None on other processes; one that equals a test just measured is not played again."""
        settings, summaries = self._settings, dict[str, dict[str, object] | None]()
        # In every process the same are played, though only the first knows what was found.
        measurements = {(specs[1], settings.env.test_split): after.get(name) for name, specs in self._specs.items()}
        for name, (spec, split) in self._tests.items():
            if (spec, split) in measurements:
                measurement = measurements[spec, split]
            else:
                measurement = self._measure(spec, split, settings.evaluation.test_tasks, f"test/{name}")
            self._outcomes[f"tests/{name}"] = measurement
            summaries[name] = None if measurement is None else {"split": split, **measurement.summary()}
        return summaries

    def _measure(self, specs: Specs, split: str, tasks: int, name: str) -> EvaluationResult | None:
        """Measure the player on tasks of a split in the main process, while the others wait; None in these and for 0 tasks."""
        measurement = None
        with one_budget():
            if tasks and self._accelerator.is_main_process:
                self.player.report = stage_lines(f"{name}, {tasks} tasks of {split}")
                measurement = measure_all(self.player, specs, split, tasks, f"{self._settings.seed}/{name}")
        self._accelerator.wait_for_everyone()
        return measurement


def _compare(before: EvaluationResult | None, after: EvaluationResult | None) -> dict[str, Any]:
    """Return both summaries, None if not measured, and the gain, None where one side has no rate of all environments."""
    both = before and after and before.rate and after.rate
    return {
        "before": before and before.summary(),
        "after": after and after.summary(),
        "gain": gain(before, after) if before and after and both else None,
    }


def change_in_words(measured: dict[str, Any], split: str) -> str:
    """Return success before and after on a split as a line for the screen; "" where one of them was not measured."""
    if not measured["gain"]:
        return ""
    return f"success on {split}: " + " -> ".join(success_of(measured[side]) for side in ("before", "after"))


def success_of(summary: dict[str, Any]) -> str:
    """Return the success of a summary in words, with its interval."""
    low, high = summary["interval"]
    return f"{100 * summary['success']:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def curve_points(measured: EvaluationResult, prefix: str = "eval") -> dict[str, float]:
    """Return the curve points of a validation; its faults alone where an environment has no result: it is never the best."""
    rate = measured.rate
    if rate is None:
        return {f"{prefix}/faults": measured.faults}
    numbers = {"success": rate.value, "success_low": rate.low, "success_high": rate.high, **measured.means}
    return {f"{prefix}/{name}": value for name, value in numbers.items()}


def few_valid(share: float) -> str:
    """Return a warning where fewer turns are valid than training needs, and what helps; "" where enough are."""
    if share >= MIN_VALID:
        return ""
    return (
        f"warning: {100 * share:.1f} % of the turns held a valid action: give --warm-start.demonstrations, "
        """or worked turns: --env.arguments '{"examples": 1}'"""
    )
