"""Cost of journals and of snapshots as bytes: `python -m benchmarks.journals --before CHECKOUT --out FILE`.

A run of 10,000 episodes is played, resumed when it is finished, and reported, each as a process of its own; CPU-seconds
include the start of the process. The numbers of the finished run are kept in a cache folder of the measurement's own: `unkept`
is the same with that folder removed before each command. The code of another checkout does the same before.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SNAPSHOTS = """
import json, time
import gymnasium as gym
import agent_envs
found = {}
for name in ("SearchQA", "Sort", "BabyAI", "BabaIsAI", "Crafter", "Tau2Retail"):
    env = gym.make(f"agent_envs/{name}-v0")
    env.reset(seed=0)
    for turn in range(50):
        outcome = env.step("<search>a city</search>")
        if outcome[2] or outcome[3]:
            break
    moment = agent_envs.snapshot(env)
    data, least = moment.to_bytes(), 1e9
    for _ in range(100):
        start = time.process_time_ns()
        moment.to_bytes()
        least = min(least, (time.process_time_ns() - start) / 1000)
    found[name] = {"turns": turn + 1, "bytes": len(data), "microseconds_again": round(least)}
print(json.dumps(found))
"""


def measured(checkout: Path, episodes: int) -> dict[str, Any]:
    """Return CPU-seconds of playing, resuming and reporting by the code of a checkout, and the bytes of the journal."""
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        play = ["eval", "SearchQA", "--agent", "heuristic", "-n", "100", "--trials", str(episodes // 100), "--out", run]
        again = {"resume": ["eval", "--resume", run], "report": ["report", run]}
        main, kept = "import sys; from agent_envs.cli.app import main; sys.exit(main())", Path(folder) / "cache"
        costs = {
            name: _cpu_seconds(checkout, ["-c", main, *command], kept)[0]
            for name, command in {"play": play, **again}.items()
        }
        unkept = {}
        for name, command in again.items():
            shutil.rmtree(kept, ignore_errors=True)
            unkept[name] = _cpu_seconds(checkout, ["-c", main, *command], kept)[0]
        size = (Path(run) / "journal.jsonl").stat().st_size
        snapshots = json.loads(_cpu_seconds(checkout, ["-c", SNAPSHOTS], kept)[1])
    return {"cpu_seconds": costs, "cpu_seconds_unkept": unkept, "journal_bytes": size, "snapshots": snapshots}


def _cpu_seconds(checkout: Path, arguments: list[str], cache: Path) -> tuple[float, str]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(checkout), "AGENT_ENVS_CACHE": str(cache)}
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=checkout, env=environment, check=True, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2), ran.stdout


def main() -> None:
    """Measure this checkout, and another one where it is given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.journals", description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of earlier code")
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    report: dict[str, Any] = {"machine": "two shared cores", "episodes": given.episodes, "env": "SearchQA, heuristic"}
    if given.before is not None:
        report["before"] = measured(given.before.resolve(), given.episodes)
    report["after"] = measured(ROOT, given.episodes)
    text = json.dumps(report, indent=2) + "\n"
    print(text, end="")
    if given.out is not None:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
