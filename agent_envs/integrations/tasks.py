"""`task_rows` lists tasks of an id as the rows of a data set: the prompt, and what a reset needs to show it again."""

import random
from typing import Any

import gymnasium as gym

from agent_envs.base.arguments import whole_numbers
from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import plain_value
from agent_envs.core.registry import NAMESPACE, full_id, spec_json
from agent_envs.core.wrapper_stack import core_of


def task_rows(
    env_id: str, n: int, split: str = "train", seed: int = 0, repeats: int = 1, **arguments: Any
) -> list[dict[str, Any]]:
    """Return `n` different tasks of a split as rows, each `repeats` times in a row with a seed of its own.

    A row is plain JSON and the same in every process: `prompt` (chat messages), `task_id`, `task` (its index), `split`, `seed`,
    `env_id` and `env_kwargs`. A rollout begins, in any process, with

        env = gym.make(row["env_id"], **row["env_kwargs"])
        env.reset(seed=row["seed"], options={"task": row["task"], "split": row["split"]})

    whose `info["messages"]` are the row's prompt. The rows of one task form a group, as GRPO has it.

    Args:
        env_id: an id of ours, short or full, or anyone's as `module:namespace/Name-v0`.
        n: how many tasks; they are drawn without replacement.
        split: of which split.
        seed: draws the tasks, and the seeds of the rows.
        repeats: how many rows a task has.
        arguments: of the environment; they must be JSON, because rows travel (UsageError, as for a split with fewer tasks).
    """
    name = full_id(env_id)
    whole_numbers("task_rows", n=(n, 1, None), repeats=(repeats, 1, None))
    env = gym.make(name, **arguments)
    core = core_of(env)
    spec_json(env)  # refuses arguments that cannot travel
    if split not in core.source.splits:
        raise UsageError(f"task_rows: {name} has no split {split!r}; the splits are {', '.join(core.source.splits)}")
    if n > (size := core.source.size(split)):
        raise UsageError(f"task_rows: n={n}; split {split!r} of {name} has {size} tasks")
    importable = f"{NAMESPACE}:{name}" if name.startswith(f"{NAMESPACE}/") else env_id
    drawn = random.Random(f"task_rows:{name}:{split}:{seed}")
    rows = []
    for task in drawn.sample(range(size), n):
        for _ in range(repeats):
            start = drawn.randrange(2**31)
            _, info = env.reset(seed=start, options={"task": task, "split": split})
            row = {"prompt": info["messages"], "task_id": info["task_id"], "task": task, "split": split, "seed": start}
            rows.append(row | {"env_id": importable, "env_kwargs": plain_value(arguments)})
    env.close()
    return rows
