"""The scripted solver plays math_world with search alone, python alone, both and neither, beside random play.

The solver (agent_envs/envs/tool_reasoning/solver.py) knows what to look up and run, and answers with what the tools gave it:
a row says how many tasks can be solved with those tools at all. Intervals count the tasks of one world as one cluster.
"""

import argparse
import json
import platform
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

from agent_envs.base.progress import progress_bar
from agent_envs.envs.tool_reasoning.content import NEEDS
from agent_envs.envs.tool_reasoning.env import ToolReasoning
from agent_envs.envs.tool_reasoning.solver import next_action, random_action
from agent_envs.evaluation.statistics.rates import success_rate
from agent_envs.tools.sandbox import sandbox_version

ALL = ("search", "browse", "python")
TOOLS: dict[str, tuple[str, ...]] = {"neither": (), "search": ALL[:2], "python": ALL[2:], "both": ALL}


def played(env: ToolReasoning, index: int, seed: int | None) -> tuple[bool, float, int]:
    """Play a test task with the solver, or at random from a seed; return success, return and turns."""
    env.reset(options={"task": index, "split": "test"})
    rng = random.Random(f"both tools {seed} {index}")
    total, turns = 0.0, 0
    while True:
        action = next_action(env) if seed is None else random_action(env, rng)
        _, reward, terminated, truncated, info = env.step(action)
        total, turns = total + float(reward), turns + 1
        if terminated or truncated:
            return bool(info["success"]), total, turns


def row(name: str, tools: tuple[str, ...], tasks: int, seed: int | None) -> dict[str, Any]:
    """Return the rates of one line of the table."""
    env = ToolReasoning(tools=tools)
    right: dict[str, list[float]] = defaultdict(list)
    worlds: dict[str, list[str]] = defaultdict(list)
    returns, turns = [], []
    with progress_bar(name) as report:
        for index in range(tasks):
            success, total, taken = played(env, index, seed)
            task = env.episode.task
            for stratum in ("all", task.data.needs, f"level {task.data.level}"):
                right[stratum].append(float(success))
                worlds[stratum].append(task.cluster)
            returns.append(total)
            turns.append(taken)
            if report is not None:
                report(index + 1, tasks, sum(right["all"]))
    rates = {}
    for stratum, values in sorted(right.items()):
        rate = success_rate(values, [str(place) for place in range(len(values))], worlds[stratum])
        rates[stratum] = {"rate": rate.value, "interval": [rate.low, rate.high], "tasks": len(values)}
    mean = {"mean_return": round(sum(returns) / tasks, 4), "mean_turns": round(sum(turns) / tasks, 3)}
    return {"tools": list(tools), **mean, "success": rates}


def main() -> None:
    """Play and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000, help="test tasks a row (default 1,000, the whole split)")
    parser.add_argument("--seed", type=int, default=0, help="of random play")
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    options = parser.parse_args()
    rows = {name: row(f"solver, {name}", tools, options.tasks, None) for name, tools in TOOLS.items()}
    rows["random"] = row("random, both", ALL, options.tasks, options.seed)
    strata = ("all", *NEEDS)
    print(f"{'tools':10}" + "".join(f"{stratum:>26}" for stratum in strata) + f"{'return':>9}{'turns':>7}")
    for name, found in rows.items():
        cells = []
        for stratum in strata:
            rate = found["success"][stratum]
            low, high = rate["interval"]
            cells.append(f"{rate['rate']:.1%} [{low:.1%}, {high:.1%}]".rjust(26))
        print(f"{name:10}" + "".join(cells) + f"{found['mean_return']:9.3f}{found['mean_turns']:7.2f}")
    if options.out:
        about = {
            "command": f"python -m benchmarks.both_tools --tasks {options.tasks} --seed {options.seed}",
            "python": platform.python_version(),
            "sandbox": sandbox_version("monty"),
        }
        options.out.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
