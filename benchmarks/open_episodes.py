"""Many episodes of Search QA are open at one moment: memory, threads, CPU a turn, bytes asked and kept, by how many there are.

    python -m benchmarks.open_episodes --out benchmarks/results/open_episodes.json

Every episode waits in its third turn until all have come there, so that the number is what is open and not what was allowed.
Each size runs in a process of its own.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_envs import Reply, Request
from benchmarks.agents import TURNS, Instant, script

SIZES = (64, 1_024, 10_000)
PATIENCE_SECONDS = 540


class Gathering:
    """The scripted agent, which counts the bytes of what it is asked, and waits in one turn for all others."""

    name, batch = "gathering", 1

    def __init__(self, episodes: int) -> None:
        """Wait for so many; where they do not come, the barrier breaks and the run fails."""
        self.reply_bytes = self.threads = self.resident_mb = 0
        self.request_bytes = [0] * TURNS
        self._all = threading.Barrier(episodes, self._look, PATIENCE_SECONDS)
        self._lock = threading.Lock()

    def _look(self) -> None:
        """Note the threads and the resident memory."""
        self.threads = threading.active_count()
        self.resident_mb = resident_mb()

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return the scripted replies and count bytes; at the third turn all episodes wait for each other."""
        replies = [script(request) for request in requests]
        for request, reply in zip(requests, replies, strict=True):
            if request.turn == 3:
                self._all.wait()
            with self._lock:
                self.request_bytes[request.turn - 1] += len(json.dumps(list(request.messages)).encode())
                self.reply_bytes += len(str(reply.action).encode())
        return replies


def resident_mb() -> int:
    """Return the memory of this process at this moment, in MB (2**20 bytes)."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


def cell(episodes: int) -> dict[str, Any]:
    """Play so many episodes, all at a time, and return what they cost; exit where not all are finished."""
    from agent_envs.evaluation.suites.plan import Choice, adhoc_suite, plan_of
    from agent_envs.rollout.run_many import run_many

    with tempfile.TemporaryDirectory() as folder:
        for _ in run_many(plan_of(adhoc_suite(Choice("SearchQA", limit=1))), Instant(), journal=Path(folder) / "first"):
            pass  # what is imported at first use is no cost of an episode
        before, agent, journal = resident_mb(), Gathering(episodes), Path(folder) / "journal.jsonl"
        choice = Choice("SearchQA", limit=min(episodes, 1_000), trials=-(-episodes // 1_000))
        plan = plan_of(adhoc_suite(choice))[:episodes]
        started, cpu = time.perf_counter(), time.process_time()
        ends = [(len(result.trajectory.turns), result.status)
                  for _, result in run_many(plan, agent, concurrency=episodes, journal=journal)]  # fmt: skip
        wall, cpu = time.perf_counter() - started, time.process_time() - cpu
        journal_bytes = journal.stat().st_size
    turns = sum(count for count, _ in ends)
    if turns != TURNS * episodes or {status for _, status in ends} != {"terminated"}:
        raise SystemExit(f"{turns} turns and not {TURNS} of each of {episodes} episodes, or not all are finished")
    return {
        "episodes": episodes, "threads": agent.threads, "cpu_ms_a_turn": round(1e3 * cpu / turns, 4),
        "wall_seconds": round(wall, 1), "mb_before": before, "mb_all_open": agent.resident_mb,
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "kb_an_open_episode": round((agent.resident_mb - before) * 2**20 / 1e3 / episodes, 1),
        "bytes_asked_by_turn": [round(count / episodes) for count in agent.request_bytes],
        "bytes_said_a_turn": round(agent.reply_bytes / turns),
        "journal_bytes_an_episode": round(journal_bytes / episodes),
    }  # fmt: skip


def main() -> None:
    """Measure each size and print; with --out, keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cell", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        print(json.dumps(cell(options.cell)))
        return
    rows = []
    for size in SIZES:
        command = [sys.executable, "-m", "benchmarks.open_episodes", "--cell", str(size)]
        rows.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
        print(json.dumps(rows[-1]), flush=True)
    if options.out:
        command_line = f"python -m benchmarks.open_episodes --out {options.out}"
        record = {"command": command_line, "load": os.getloadavg(), "rows": rows}
        options.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
