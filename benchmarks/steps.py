"""Search QA with real retrieval is timed in steps per CPU-second, beside GEM and SkyRL-gym with stubs.

Every engine plays episodes of three searches and an answer in a process of its own; the rounds alternate, and the figure is
the median of the rounds, each the best of five windows of a second. The peers' search is a stub that returns a constant; ours
searches 300 passages, 52,082 where `AGENT_ENVS_DATA` names the data, or has the same stub: the same three passages and query.
With the stub each plays twice: keeping a record of every turn, and without (SkyRL-gym always keeps its conversation, which its
reward reads). Ours without is a subclass in `search_steps` that forgets its turns and is no part of the package. Snapshot
costs are measured in the same run. Peers are installed into `.venv-peers/NAME` where missing.

In the same rounds every ExpA id and its text environment play what the solver and what random legal play did in 24 test tasks:
actions are recorded first, so that only the environment is measured. These rows have no peer: the calculator and countdown
tasks that the peers have are single turns, without a tool.
"""

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

PEERS = {"gem": "benchmarks/peers/gem_search.py", "skyrl-gym": "benchmarks/peers/skyrl_search.py"}
PACKAGES = {  # of each virtual environment, in their order: torch by name first, its CPU build
    "gem": [["gem-llm==0.1.0", "datasets", "requests"]],
    "skyrl-gym": [["skyrl-gym==0.4.0"]],
    "reasoning-gym": [["reasoning-gym==0.1.25"]],
    "trl": [["torch==2.13.0"], ["trl==1.16.0", "datasets", "psutil"]],
}
STUBBED = ("ours, stub, recorded", "ours, stub")
EXPA = [f"{name}{face}" for name in ("Arithmetic", "Countdown", "Count", "GSM8KScaled", "CalcBench", "Sort", "Order")
        for face in ("", "ExpA")]  # fmt: skip
EXPA_TASKS, EXPA_SECONDS = 24, 0.3
Plan = list[tuple[int, list[Any]]]  # a task's index, and the actions of an episode of it


def _rate(window: Callable[[], int], seconds: float = 1.0) -> float:
    """Return the steps that a CPU second takes in, measured over at least `seconds`."""
    started, steps = time.process_time(), 0
    while time.process_time() - started < seconds:
        steps += window()
    return steps / (time.process_time() - started)


def snapshots() -> dict[str, float]:
    """Return microseconds of CPU for snapshot, fork, restore and bytes, in mid-episode behind gymnasium's make-stack."""
    import gymnasium as gym

    import agent_envs  # noqa: F401 - registers the ids

    env = gym.make("agent_envs/SearchQA-v0")
    env.reset(seed=0)
    for _ in range(3):
        env.step("<search>a city</search>")
    return snapshot_costs(env, 500)


def snapshot_costs(env: Any, repeats: int) -> dict[str, float]:
    """Return microseconds of CPU for snapshot, fork, restore and bytes of the moment that an environment is in."""
    import agent_envs

    moment = agent_envs.snapshot(env)
    calls = {
        "snapshot": lambda: agent_envs.snapshot(env),
        "fork": lambda: agent_envs.fork(env),
        "restore": lambda: agent_envs.restore(env, moment),
        "to_bytes": lambda: moment.to_bytes(),
    }
    costs = {}
    for name, call in calls.items():
        best = float("inf")
        for _ in range(5):
            started = time.process_time()
            for _ in range(repeats):
                call()
            best = min(best, (time.process_time() - started) / repeats)
        costs[name] = round(best * 1e6, 1)
    return costs


def expa() -> dict[str, dict[str, Any]]:
    """Return, for each ExpA id, steps per CPU-second of solver and random play, and what a snapshot costs in mid-episode."""
    import gymnasium as gym

    import agent_envs  # noqa: F401 - registers the ids

    return {name: expa_row(gym.make(f"agent_envs/{name}-v0")) for name in EXPA}


def expa_row(env: Any) -> dict[str, Any]:
    """Return the row of one id; the snapshot is taken halfway through the solver's longest episode."""
    row: dict[str, Any] = {}
    for player in ("random", "solver"):
        plan = record_plan(env, player)

        def window(plan: Plan = plan) -> int:
            """Replay the plan, and return its number of steps."""
            return replay(env, plan)

        row[player] = max(_rate(window, EXPA_SECONDS) for _ in range(3))
        row[f"{player}_steps_an_episode"] = round(sum(len(actions) for _, actions in plan) / len(plan), 1)
    task, actions = max(plan, key=lambda episode: len(episode[1]))
    half = len(actions) // 2
    replay(env, [(task, actions[:half])])
    return row | {"snapshot_turns": half, "snapshot_microseconds": snapshot_costs(env, 100)}


def record_plan(env: Any, player: str) -> Plan:
    """Record the actions of the solver or of random legal play in the first test tasks."""
    from agent_envs.core.registry import companion

    act = companion(env, {"solver": "solver", "random": "sampler"}[player])
    assert act is not None
    plan: Plan = []
    for task in range(EXPA_TASKS):
        env.reset(options={"task": task, "split": "test"})
        actions: list[Any] = []
        done, rng = False, random.Random(f"steps {task}")
        while not done:
            actions.append(act(env) if player == "solver" else act(env, rng))
            _, _, terminated, truncated, _ = env.step(actions[-1])
            done = terminated or truncated
        plan.append((task, actions))
    return plan


def replay(env: Any, plan: Plan) -> int:
    """Play recorded actions and return how many there were."""
    steps = 0
    for task, actions in plan:
        env.reset(options={"task": task, "split": "test"})
        for action in actions:
            env.step(action)
        steps += len(actions)
    return steps


def expa_medians(rounds: list[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return each id's row: medians over the rounds of the rates, and the least costs."""
    rows = {}
    for name, row in rounds[0].items():
        samples = [one[name] for one in rounds]
        rates = {player: round(statistics.median(each[player] for each in samples)) for player in ("solver", "random")}
        costs = [each["snapshot_microseconds"] for each in samples]
        least = {cost: min(each[cost] for each in costs) for cost in costs[0]}
        rows[name] = row | rates | {"snapshot_microseconds": least}
    return rows


def import_seconds() -> float:
    """Return the least CPU time of `import agent_envs` in five fresh processes."""
    code = "import time; t = time.process_time(); import agent_envs; print(time.process_time() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True) for _ in range(5)]
    return round(min(float(run.stdout) for run in runs), 3)


def peer_python(name: str) -> str:
    """Return the interpreter of a peer's virtual environment, made where it is missing."""
    folder = Path(".venv-peers") / name
    if not (folder / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        for packages in PACKAGES[name]:
            subprocess.run([str(folder / "bin" / "pip"), "install", "--quiet", *packages], check=True)
    return str(folder / "bin" / "python")


def run_json(command: list[str]) -> Any:
    """Run a process and return the JSON of the last line that it printed."""
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    parser.add_argument("--engine", choices=["expa"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine == "expa":
        print(json.dumps(expa()))
        return
    names = ["ours", *(["ours, 52,082 passages"] if os.environ.get("AGENT_ENVS_DATA") else []), *STUBBED]
    commands = {name: [sys.executable, "-m", "benchmarks.search_steps", name] for name in names}
    for peer, script in PEERS.items():
        commands |= {peer: [peer_python(peer), script], f"{peer}, recorded": [peer_python(peer), script, "--records"]}
    rates: dict[str, list[float]] = {name: [] for name in commands}
    expa_rounds: list[dict[str, dict[str, Any]]] = []
    for number in range(options.rounds):
        for name, command in commands.items():
            print(f"round {number + 1}/{options.rounds}: {name}", file=sys.stderr)
            rates[name].append(run_json(command)["steps_per_cpu_second"])
        print(f"round {number + 1}/{options.rounds}: ExpA", file=sys.stderr)
        expa_rounds.append(run_json([sys.executable, "-m", "benchmarks.steps", "--engine", "expa"]))
    median = {name: statistics.median(values) for name, values in rates.items()}
    rows = {
        name: {
            "steps_per_cpu_second": round(value),
            "rounds": [round(rate) for rate in rates[name]],
            "ours/this": round(median["ours"] / value, 2),
        }
        for name, value in median.items()
    }
    report: dict[str, Any] = {
        "command": "python -m benchmarks.steps",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "gymnasium": version("gymnasium"),
        "rows": rows,
        "snapshot_microseconds": snapshots(),
        "import_cpu_seconds": import_seconds(),
        "expa": expa_medians(expa_rounds),
    }
    for name, row in rows.items():
        print(
            f"{name:24}{row['steps_per_cpu_second']:>10,} steps per CPU-second, ours with retrieval is {row['ours/this']} x"
        )
    print(
        f"microseconds: {report['snapshot_microseconds']}; import agent_envs: {report['import_cpu_seconds']} CPU-seconds"
    )
    for name, row in report["expa"].items():
        costs = ", ".join(f"{cost} {value}" for cost, value in row["snapshot_microseconds"].items())
        print(
            f"{name:16} solver {row['solver']:>8,} random {row['random']:>8,}; at turn {row['snapshot_turns']}: {costs}"
        )
    if options.out:
        options.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
