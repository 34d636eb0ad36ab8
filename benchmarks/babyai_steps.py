"""BabyAI's steps and snapshots are timed beside minigrid's own, on the same worlds and actions in the same run.

Both sides play what a random player did in the worlds of 24 seeds; resets are outside the clock. The rungs: our bare rules with
the mission's verdict, the same with the description, the full turn of the text environment (parsing, reward, record), and
minigrid's step, which makes its symbolic observation. Rounds alternate, the figure is the median of the rounds' CPU time. Costs
of a moment are measured halfway through the longest episode, against a deep copy of minigrid's environment.
"""

import argparse
import copy
import json
import platform
import random
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.steps import snapshot_costs

LEVELS: dict[str, dict[str, Any]] = {
    "goto": {"kind": "goto"},
    "open": {"kind": "open"},
    "putnext": {"kind": "putnext"},
    "putnext, 12 distractors": {"kind": "putnext", "distractors": 12},
    "BossLevel": {"level": "BossLevel"},
}
TASKS, MOST_STEPS, REPEATS = 24, 128, 300
RUNGS = ("bare", "described", "turn", "minigrid")
Plan = list[tuple[Any, Any, list[int]]]  # a task, minigrid's level in the same world, the actions


def plan_of(arguments: dict[str, Any]) -> Plan:
    """Return worlds of one level, ours and minigrid's from the same seeds, with what a random player does there.

    An episode goes on until its mission's end, at most MOST_STEPS steps.
    """
    from agent_envs import Task
    from agent_envs.envs.text_games.babyai.instructions import play_action
    from agent_envs.envs.text_games.babyai.levels import local_level, named_level
    from agent_envs.envs.text_games.babyai.mission import surface
    from agent_envs.envs.text_games.babyai.tasks import BabyTask

    name = arguments.get("level", "")
    level = named_level(name) if name else local_level(arguments["kind"], arguments.get("distractors", 0))
    plan: Plan = []
    for seed in range(TASKS):
        world, status, actions = level.world(seed), "continue", []
        theirs, rng = level.make(), random.Random(f"babyai {seed}")
        theirs.reset(seed=seed)
        task = Task(f"bench-{seed}", "test", surface(world.instructions), data=BabyTask(level.name, world))
        while status == "continue" and len(actions) < min(MOST_STEPS, world.limit):
            actions.append(rng.randrange(6))
            world, status = play_action(world, actions[-1])
        plan.append((task, theirs, actions))
    return plan


def rung(name: str, env: Any, plan: Plan) -> float:
    """Return the CPU microseconds of a step on one rung."""
    from agent_envs.envs.text_games.babyai.describe import describe
    from agent_envs.envs.text_games.babyai.instructions import play_action

    seconds, steps = 0.0, 0
    for task, level, actions in plan:
        texts = [env.say(action) for action in actions]
        world = task.data.world
        if name == "turn":
            env.reset(options={"task": task})
        level = copy.deepcopy(level) if name == "minigrid" else level
        started = time.process_time()
        if name == "bare":
            for action in actions:
                world, _ = play_action(world, action)
        elif name == "described":
            for action in actions:
                world, _ = play_action(world, action)
                describe(world)
        elif name == "turn":
            for text in texts:
                env.step(text)
        else:
            for action in actions:
                level.step(action)
        seconds += time.process_time() - started
        steps += len(actions)
    return seconds / steps * 1e6


def moment_costs(env: Any, plan: Plan) -> dict[str, float]:
    """Return CPU microseconds for a moment in mid-episode: ours, as bytes and back, and a deep copy of minigrid's level."""
    import agent_envs

    task, level, actions = max(plan, key=lambda episode: len(episode[2]))
    env.reset(options={"task": task})
    for action in actions[: len(actions) // 2]:
        env.step(env.say(action))
        level.step(action)
    sent = agent_envs.snapshot(env).to_bytes()
    costs = snapshot_costs(env, REPEATS)
    costs["from_bytes and restore"] = least(lambda: agent_envs.restore(env, agent_envs.Snapshot.from_bytes(sent)))
    costs["minigrid deepcopy"] = least(lambda: copy.deepcopy(level))
    return costs | {"bytes": len(sent), "turns": len(actions) // 2}


def least(call: Callable[[], Any], repeats: int = 100) -> float:
    """Return the CPU microseconds of a call, the least of five series."""
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        for _ in range(repeats):
            call()
        best = min(best, (time.process_time() - started) / repeats)
    return round(best * 1e6, 1)


def row(arguments: dict[str, Any], rounds: int) -> dict[str, Any]:
    """Return the figures of one level."""
    from agent_envs.envs.text_games.babyai.env import BabyAI

    env = BabyAI(**arguments)
    plan = plan_of(arguments)
    timings: dict[str, list[float]] = {name: [] for name in RUNGS}
    for _ in range(rounds):
        for name in RUNGS:
            timings[name].append(rung(name, env, plan))
    cost = {name: round(statistics.median(values), 1) for name, values in timings.items()}
    ratios = {f"minigrid/{name}": round(cost["minigrid"] / cost[name], 1) for name in RUNGS[:-1]}
    steps = sum(len(actions) for _, _, actions in plan)
    return {"steps": steps, "microseconds_a_step": cost, **ratios, "moment_microseconds": moment_costs(env, plan)}


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    options = parser.parse_args()
    about = {
        "command": f"python -m benchmarks.babyai_steps --rounds {options.rounds} --out benchmarks/results/babyai_steps.json",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("minigrid", "gymnasium", "numpy")},
        "machine": "Linux x86_64, 2 shared cores, one thread",
    }
    rows = {}
    for name, arguments in LEVELS.items():
        rows[name] = row(arguments, options.rounds)
        steps, moment = rows[name]["microseconds_a_step"], rows[name]["moment_microseconds"]
        print(f"{name:24} microseconds a step: " + ", ".join(f"{rung} {value}" for rung, value in steps.items()))
        print(
            f"{'':24} minigrid / ours: "
            + ", ".join(f"{rung} {rows[name][f'minigrid/{rung}']} x" for rung in RUNGS[:-1])
        )
        print(f"{'':24} a moment: " + ", ".join(f"{call} {value}" for call, value in moment.items()), flush=True)
    if options.out:
        options.out.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
