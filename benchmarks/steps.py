"""Steps per CPU-second of Search QA on the embedded world with real retrieval, beside GEM and SkyRL-gym with stubs.

Every engine plays episodes of three searches and an answer in a process of its own; the rounds alternate, and the figure is
the median of the rounds, each the best of five windows of a second. The peers' search is a stub that returns a constant, ours
searches 300 passages. Snapshot costs are measured in the same run. Peers are installed into `.venv-peers/NAME` where missing.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

PEERS = {
    "gem": ("benchmarks/peers/gem_search.py", ["gem-llm==0.1.0", "datasets", "requests"]),
    "skyrl-gym": ("benchmarks/peers/skyrl_search.py", ["skyrl-gym==0.4.0"]),
}


def ours(with_stub: bool) -> float:
    """Return our steps per CPU-second; `with_stub` replaces retrieval by a constant, as the peers have it."""
    import gymnasium as gym

    import agent_envs  # noqa: F401 - registers the ids

    env = gym.make("agent_envs/SearchQA-v0")
    if with_stub:
        _stub_retrieval(env)
    query = "<think>t</think><search>{}</search>"
    plans = []
    for task in range(256):
        env.reset(options={"task": task, "split": "train"})
        question = env.unwrapped.episode.task.question
        plans.append((task, [query.format(question)] * 3 + ["<answer>Lisbon</answer>"]))

    def window() -> int:
        steps = 0
        for task, turns in plans:
            env.reset(options={"task": task, "split": "train"})
            for turn in turns:
                env.step(turn)
                steps += 1
        return steps

    return max(_rate(window) for _ in range(5))


def _stub_retrieval(env: Any) -> None:
    from agent_envs.documents import Hit, Passage

    hits = tuple(Hit(Passage(f"p{n}", "t", "word " * 70), 1.0) for n in range(3))

    class Stub:
        name = "stub"

        def search(self, query: str, top_k: int, *, support: Any = (), seed: str = "") -> Any:
            return hits

    env.unwrapped._retriever_of = lambda task: Stub()


def _rate(window: Callable[[], int]) -> float:
    started, steps = time.process_time(), 0
    while time.process_time() - started < 1.0:
        steps += window()
    return steps / (time.process_time() - started)


def snapshots() -> dict[str, float]:
    """Return microseconds of CPU for snapshot, fork, restore and bytes, in mid-episode behind gymnasium's make-stack."""
    import gymnasium as gym

    import agent_envs

    env = gym.make("agent_envs/SearchQA-v0")
    env.reset(seed=0)
    for _ in range(3):
        env.step("<search>a city</search>")
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
            for _ in range(500):
                call()
            best = min(best, (time.process_time() - started) / 500)
        costs[name] = round(best * 1e6, 1)
    return costs


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
        subprocess.run([str(folder / "bin" / "pip"), "install", "--quiet", *PEERS[name][1]], check=True)
    return str(folder / "bin" / "python")


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    parser.add_argument("--engine", choices=["ours", "ours-stub"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        print(json.dumps({"steps_per_cpu_second": ours(options.engine == "ours-stub")}))
        return
    commands = {name: [sys.executable, "-m", "benchmarks.steps", "--engine", name] for name in ("ours", "ours-stub")}
    commands |= {name: [peer_python(name), script] for name, (script, _) in PEERS.items()}
    rates: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(options.rounds):
        for name, command in commands.items():
            print(f"round {number + 1}/{options.rounds}: {name}", file=sys.stderr)
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            rates[name].append(json.loads(out.splitlines()[-1])["steps_per_cpu_second"])
    median = {name: statistics.median(values) for name, values in rates.items()}
    rows = {
        name: {
            "steps_per_cpu_second": round(value),
            "rounds": [round(rate) for rate in rates[name]],
            "ours/this": round(median["ours"] / value, 2),
        }
        for name, value in median.items()
    }
    report = {
        "command": "python -m benchmarks.steps",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "gymnasium": version("gymnasium"),
        "rows": rows,
        "snapshot_microseconds": snapshots(),
        "import_cpu_seconds": import_seconds(),
    }
    for name, row in rows.items():
        print(
            f"{name:12}{row['steps_per_cpu_second']:>10,} steps per CPU-second, ours with retrieval is {row['ours/this']} x"
        )
    print(
        f"microseconds: {report['snapshot_microseconds']}; import agent_envs: {report['import_cpu_seconds']} CPU-seconds"
    )
    if options.out:
        options.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
