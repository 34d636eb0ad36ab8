"""A mixture is several environments that one run is trained on, each by its weight, and measured on, each and all together.

Each step's groups are shared out among them: an environment gets its share, rounded up or down by a draw of the step's own, and
of its tasks every one comes once before any comes again. All of it follows from the seed and the step.
"""

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.core.registry import full_id
from agent_envs.rollout.run_log import Planned
from trainers.sampling import plan_groups, tasks_at, tasks_of_step
from trainers.settings import EnvironmentSettings, json_object

Specs = tuple[tuple[str, str], ...]  # of environments with their names


@dataclass(frozen=True)
class Member:
    """One of the environments: its name as the settings have it, its weight, and its settings as if it were alone."""

    name: str
    weight: float
    env: EnvironmentSettings


@dataclass(frozen=True)
class Arena:
    """Where a share of training is played.

    Attributes:
        weight: of its share.
        spec: of the environment, as JSON.
        bare: of the environment without the wrappers of `env.wrappers`.
        size: how many training tasks it has.
        tools: schemas that the policy is shown.
    """

    weight: float
    spec: str
    bare: str
    size: int
    tools: tuple[Any, ...]


def members_of(env: EnvironmentSettings) -> list[Member]:
    """Return the environments that settings name: `env.id` alone, or all of `env.mixture`.

    Raises:
        UsageError: `env.mixture` is no mixture that holds `env.id`.
    """
    rows = json_object(env.mixture, "env.mixture")
    if not rows:
        return [Member(env.id, 1.0, env)]
    found = [_member(env, name, row) for name, row in rows.items()]
    names = [full_id(member.name) for member in found]
    if len(set(names)) < len(names) or full_id(env.id) not in names:
        raise UsageError(f"env.mixture names {', '.join(rows)}: each once, and env.id={env.id!r} among them")
    return found


def _member(env: EnvironmentSettings, name: str, row: Any) -> Member:
    given = row if isinstance(row, dict) else {"weight": row}
    weight = given.get("weight")
    if set(given) - {"weight", "arguments"} or isinstance(weight, bool) or not isinstance(weight, int | float):
        raise UsageError(f'env.mixture: {name}: give a weight, or {{"weight": 2, "arguments": {{...}}}}')
    if not 0 < weight < math.inf:
        raise UsageError(f"env.mixture: {name}: a weight is > 0, not {weight}")
    own = json_object(json.dumps(given.get("arguments", {})), f"env.mixture: {name}")
    arguments = json_object(env.arguments, "env.arguments") | own
    return Member(name, float(weight), replace(env, id=name, arguments=json.dumps(arguments), mixture="{}"))


def shares(weights: Sequence[float], count: int, seed: int, step: int) -> list[int]:
    """Return how many of a step's groups each environment gets; over many steps they stand as the weights do."""
    draw = random.Random(f"mixture:{seed}:{step}").random()
    marks = [math.floor(count * edge / sum(weights) + draw) for edge in accumulate(weights, initial=0.0)]
    marks[-1] = count
    return [stop - start for start, stop in pairwise(marks)]


def step_plan(arenas: Sequence[Arena], split: str, counts: tuple[int, int], step: int, seed: int) -> list[Planned]:
    """Return the plan of a step's groups.

    Args:
        arenas: where they are played.
        split: of the tasks.
        counts: of groups, and of episodes in each.
        step: from 0.
        seed: of the order of tasks.
    """
    groups, size, key = *counts, f"{seed}/train/{step}"
    if len(arenas) == 1:
        return plan_groups(arenas[0].spec, split, tasks_of_step(step, groups, arenas[0].size, seed), size, key)
    weights = [arena.weight for arena in arenas]
    given = [shares(weights, groups, seed, earlier) for earlier in range(step + 1)]
    drawn = []
    for place, arena in enumerate(arenas):
        begun = sum(row[place] for row in given[:-1])
        tasks = tasks_at(range(begun, begun + given[-1][place]), arena.size, seed)
        drawn += [(arena.spec, task) for task in tasks]
    random.Random(f"order:{seed}:{step}").shuffle(drawn)  # minibatches take groups as they come
    plans = [plan_groups(spec, split, [task], size, f"{key}/{place}") for place, (spec, task) in enumerate(drawn)]
    return [planned for plan in plans for planned in plan]
