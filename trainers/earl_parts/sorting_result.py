"""A trained sorting policy is played on every permutation, for its figures and its decision trees."""

import json
from dataclasses import replace
from typing import Any

from agent_envs.core.env import core_of
from agent_envs.envs.expa.sorting.tasks import SortData
from agent_envs.rollout.episode_runner import Planned
from trainers.figures.decision_tree import permutation_tasks, write_trees
from trainers.run import TrainingRun
from trainers.settings import RunSettings


def sorting_result(settings: RunSettings, run: TrainingRun) -> dict[str, Any]:
    """Play all permutations, write decision trees and return figures; {} if not sorting, not greedy, or not process 0.

    `accuracy`, `comparisons` and `swaps` are those of the largest number of items, ascending where that is played.
    """
    core = core_of(run.parts.environment())
    data = core.source.get(settings.env.test_split, 0).data
    sorts = isinstance(data, SortData) and data.kind == "sort"
    if not sorts or settings.sampling.eval_temperature or not run.parts.accelerator.is_main_process:
        return {}  # of several processes one plays and writes
    arguments = json.loads(settings.env.arguments)
    sizes = [arguments["size"]] if arguments.get("size") else [2, 3, 4, 5]
    both = arguments.get("directions", "both")
    tasks = {
        f"trees/{size}/{descending}/{task.id}": task
        for size in sizes
        for descending in (False, True)
        if both in ("both", "descending" if descending else "ascending")
        for task in permutation_tasks(core.source, size, descending, settings.env.test_split)
    }
    split = settings.env.test_split
    results = run.parts.eval_policy.play(
        [Planned(key, run.parts.spec, task.id, split, seed=0) for key, task in tasks.items()]
    )
    run.parts.eval_policy.forget()
    episodes = [replace(result.trajectory, task=tasks[key]) for key, result in results.items()]
    trees = write_trees(episodes, run.parts.out / "trees")
    best = next(tree for tree in trees if tree["size"] == sizes[-1])
    figures = {name: best["policy"][name] for name in ("accuracy", "comparisons", "swaps")}
    return figures | {"direction": best["direction"], "trees": trees}
