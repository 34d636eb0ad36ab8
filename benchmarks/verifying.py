"""Verification of a submission over all families, beside stepping its actions alone.

`python -m benchmarks.verifying --tasks 87 --out benchmarks/results/verifying.json`: 87 tasks of each of the 23 ids are 2,001
episodes. CPU seconds are of all processes together; wall time is told with the load that the machine had.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_envs.core.wrapper_stack import core_of
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.submission.replaying import places_of
from agent_envs.evaluation.suites.plan import entry_env
from agent_envs.evaluation.suites.suite import Suite
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services
from benchmarks.all_families import families_suite, play
from leaderboard.shards import read_episode_rows
from leaderboard.verify import How, verify


def cpu_seconds() -> float:
    """Return what this process and its ended children took."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in used)


def timed(work: Callable[[], Any]) -> dict[str, float]:
    """Return CPU and wall seconds of a call."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    work()
    return {"cpu_seconds": round(cpu_seconds() - cpu, 2), "wall_seconds": round(time.perf_counter() - wall, 2)}


def step_all(suite: Suite, packed: Path, externals: Path) -> int:
    """Step every recorded action, compare nothing, and return how many there were."""
    plan, steps = dict(places_of(suite)), 0
    envs: dict[str, Any] = {}
    with Recording(externals, "replay") as recording:
        for path in sorted(packed.glob("episodes/*/*.gz")):
            for row in read_episode_rows(path):
                place = plan[row.key]
                if row.entry not in envs:
                    envs[row.entry] = entry_env(place.entry)
                    core_of(envs[row.entry]).services = Services(recording)
                env, head = envs[row.entry], place.header
                options = {"task": head.task_id, "split": head.split, "episode_key": head.episode_key}
                env.reset(seed=head.seed, options=options)
                for turn in row.turns:
                    env.step(turn.action)
                    steps += 1
    return steps


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=87)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        suite = families_suite(given.tasks)
        run = play(suite, folder / "run")
        packed = folder / "packed"
        packing = timed(lambda: pack_run(folder / "run", packed))
        os.environ["AGENT_ENVS_CACHE"] = str(folder / "cache")
        result = {
            "command": f"python -m benchmarks.verifying --tasks {given.tasks}",
            "episodes": sum(1 for _ in suite.episodes()),
            "bytes": sum(path.stat().st_size for path in packed.rglob("*") if path.is_file()),
            "packing_with_replay": packing, "load_before": round(os.getloadavg()[0], 1),
            "cores": os.cpu_count(),
        }  # fmt: skip
        for jobs in (2, 1):
            result[f"verify_{jobs}_jobs"] = timed(lambda jobs=jobs: _accepted(packed, How(suite, jobs=jobs)))
        result["largest_process_mb"] = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
        steps = []
        result["stepping_alone"] = timed(lambda: steps.append(step_all(suite, packed, run.externals)))
        result["steps"] = steps[0]
    text = json.dumps(result, indent=1) + "\n"
    if given.out is not None:
        given.out.write_text(text, encoding="utf-8")
    print(text, end="")


def _accepted(packed: Path, how: How) -> None:
    verdict = verify(packed, how)
    assert verdict.verdict == "accepted", [item.text() for item in (*verdict.findings, *verdict.unknown)][:5]


if __name__ == "__main__":
    main()
