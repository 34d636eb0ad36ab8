"""The evaluation runner is timed by how near to a slow model's ideal rate it stays, and by what a turn and an episode cost.

    python -m benchmarks.runner --out benchmarks/results/runner.json

Peers: inspect_ai and lm-eval, each in a virtual environment of its own (see benchmarks/README.md), in the same run. They log
other things: inspect_ai every model call and event, lm-eval one row a sample; ours journals every turn.
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.agents import LATENCY_SECONDS, TURNS, Instant, Slow, SlowEngine

EPISODES, CONCURRENCY = 256, 64
VENVS = Path(".venv-peers")


ROUNDS = 3


def median_pace(policy: Any, concurrency: int, batch: int) -> dict[str, Any]:
    """Return the middle one of three rounds, with the worlds' indexes built before."""
    pace(Instant(), 1, 1)
    rounds = sorted((pace(policy, concurrency, batch) for _ in range(ROUNDS)), key=lambda row: row["share_of_ideal"])
    return rounds[ROUNDS // 2] | {"rounds": [round(row["share_of_ideal"], 3) for row in rounds]}


def pace(policy: Any, concurrency: int, batch: int) -> dict[str, Any]:
    """Time a run of 256 episodes of 4 turns against the rate that the model's latency allows."""
    from agent_envs.evaluation.suites.plan import Choice, adhoc_suite, plan_of
    from agent_envs.rollout.run_many import run_many

    plan = plan_of(adhoc_suite(Choice("SearchQA", limit=EPISODES)))
    with tempfile.TemporaryDirectory() as folder:
        started, cpu = time.perf_counter(), time.process_time()
        turns = sum(
            len(result.trajectory.turns)
            for _, result in run_many(plan, policy, concurrency=concurrency, journal=Path(folder) / "journal.jsonl")
        )
        wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    ideal = turns / batch * LATENCY_SECONDS
    return {
        "policy": policy.name, "concurrency": concurrency, "batch": batch, "episodes": EPISODES, "turns": turns,
        "ideal_seconds": ideal, "wall_seconds": wall, "share_of_ideal": ideal / wall, "cpu_ms_a_turn": 1e3 * cpu / turns,
    }  # fmt: skip


def ours(episodes: int) -> dict[str, Any]:
    """Measure the cost of an evaluation here; call it in a fresh process."""
    from agent_envs import __version__
    from agent_envs.evaluation.runs.evaluate import evaluate
    from agent_envs.evaluation.runs.run_folder import Settings
    from agent_envs.evaluation.suites.plan import Choice, adhoc_suite

    # What is imported at first use is no cost of an episode; the peers' scripts warm up in the same way.
    evaluate(adhoc_suite(Choice("SearchQA", limit=1)), Settings("instant"), policy=Instant())
    before = rss_mb()
    trials = -(-episodes // 1280)
    started, cpu = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        suite = adhoc_suite(Choice("SearchQA", limit=min(episodes, 1280), trials=trials))
        settings = Settings("instant", concurrency=CONCURRENCY)
        result = evaluate(suite, settings, policy=Instant(), folder=Path(folder) / "run")
    summary = result.summaries[0]
    return {
        "peer": "agent-envs", "version": __version__, "episodes": summary.episodes, "turns": summary.episodes * TURNS,
        "cpu_seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - started,
        "peak_rss_mb": rss_mb(), "rss_after_import_mb": before,
    }  # fmt: skip


def rss_mb() -> float:
    """Return the peak resident set of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def inspect_pace() -> list[dict[str, Any]]:
    """Return inspect_ai's share of the ideal rate with the same model, where it is installed."""
    python = VENVS / "inspect" / "bin" / "python"
    if not python.exists():
        return []
    latency = ["--latency", str(LATENCY_SECONDS), "--turns", str(TURNS), "--concurrency", str(CONCURRENCY)]
    command = [str(python), "benchmarks/peers/inspect_run.py", "--episodes", str(EPISODES), *latency]
    rows = []
    for _ in range(ROUNDS):
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(ran.stdout.splitlines()[-1]))
    row = sorted(rows, key=lambda row: row["wall_seconds"])[ROUNDS // 2]
    ideal = row["turns"] / CONCURRENCY * LATENCY_SECONDS
    shares = {"ideal_seconds": ideal, "share_of_ideal": ideal / row["wall_seconds"]}
    return [{**row, **shares, "rounds": [round(ideal / one["wall_seconds"], 3) for one in rows]}]


def cells(episodes: int) -> list[dict[str, Any]]:
    """Return one row for us and each peer that is installed, each from a fresh process, one after the other."""
    commands = [[sys.executable, "-m", "benchmarks.runner", "--cell", str(episodes)]]
    turns = ["--turns", str(TURNS), "--concurrency", str(CONCURRENCY)]
    peers = [("inspect", "inspect_run.py", turns), ("lmeval", "lm_eval_run.py", [])]
    for venv, script, more in peers:
        python = VENVS / venv / "bin" / "python"
        if python.exists():
            commands.append([str(python), f"benchmarks/peers/{script}", "--episodes", str(episodes), *more])
    rows = []
    for command in commands:
        print(" ".join(command), file=sys.stderr, flush=True)
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        row = json.loads(ran.stdout.splitlines()[-1])
        rows.append({**row, "cpu_ms_a_turn": 1e3 * row["cpu_seconds"] / row["turns"]})
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """Measure and print; with --out, keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, nargs="*", default=[1_000, 10_000], help="sizes of the cost cells")
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    parser.add_argument("--cell", type=int, help="only our own cost cell, as JSON (what the command itself calls)")
    options = parser.parse_args()
    if options.cell:
        print(json.dumps(ours(options.cell)))
        return
    paces = [median_pace(Slow(), CONCURRENCY, CONCURRENCY)]
    paces += [median_pace(SlowEngine(batch), CONCURRENCY, batch) for batch in (CONCURRENCY // 2, CONCURRENCY)]
    paces += inspect_pace()
    for row in paces:
        print(json.dumps(row), file=sys.stderr, flush=True)
    record = {
        "command": "python -m benchmarks.runner --out benchmarks/results/runner.json",
        "machine": f"{platform.machine()}, Python {platform.python_version()}, shared cores",
        "pace": paces,
        "cost": [row for size in options.episodes for row in cells(size)],
    }
    print(json.dumps(record, indent=2))
    if options.out:
        options.out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
