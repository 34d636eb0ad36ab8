"""The kill test kills evaluations (SIGKILL) at random moments and resumes them, fifty kills in all.

    python -m benchmarks.kills            # or: make kill-test

Checked after every kill: rows that were in the journal stay in it, byte for byte; no episode that was in it is asked for
again (the agent keeps a diary of its own, outside the run); and at the end the numbers are those of a run that nobody
killed. Exit code 1 if anything of that fails.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_envs import Reply, Request
from agent_envs.base.jsonl_log import read_journal
from agent_envs.base.terminal import progress_bar
from benchmarks.agents import script

TASKS, TRIALS, CONCURRENCY = 40, 2, 4
TIMING = ("seconds", "agent_seconds", "run")


class Diarist:
    """Four slow turns, each noted in the file that DIARY names before it is answered."""

    name, batch = "diarist", 1

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return the scripted replies."""
        request = requests[0]
        with open(os.environ["DIARY"], "a", encoding="utf-8") as diary:
            diary.write(f"{request.episode_key} {request.turn}\n")
        time.sleep(float(os.environ.get("SLOW", "0.03")))
        return [script(request)]


def begin(folder: Path, diary: Path) -> list[str]:
    """Return the command that begins the run."""
    more = ["-n", str(TASKS), "--trials", str(TRIALS), "--concurrency", str(CONCURRENCY), "--out", str(folder)]
    return [
        sys.executable,
        "-m",
        "agent_envs",
        "eval",
        "SearchQA",
        "--agent",
        "benchmarks.kills:Diarist",
        *more,
        "--json",
    ]


def survive(folder: Path, kills: int, rng: random.Random) -> tuple[int, list[str]]:
    """Kill one run again and again until it ends; return how often, and what went wrong."""
    run, diary = folder / "run", folder / "diary"
    journal = run / "journal.jsonl"
    wrong: list[str] = []
    killed = 0
    while killed < kills:
        resumed = run.joinpath("config.json").exists() and journal.exists()
        command = (
            [sys.executable, "-m", "agent_envs", "eval", "--resume", str(run), "--json"]
            if resumed
            else begin(run, diary)
        )
        before = journal.read_bytes() if journal.exists() else b""
        whole = before[: before.rfind(b"\n") + 1]
        finished_keys = {row["key"] for row in read_journal(journal) if "key" in row}
        diary.write_bytes(b"")
        process = subprocess.Popen(
            command, env={**os.environ, "DIARY": str(diary)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=rng.uniform(0.2, 2.5))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            killed += 1
        else:
            if process.returncode:
                wrong.append(f"{command[3:6]} ended with {process.returncode}: {err.decode()[-300:]}")
                return killed, wrong
            break
        if not (journal.exists() or not whole) or (journal.exists() and not journal.read_bytes().startswith(whole)):
            wrong.append("a row that was in the journal is gone")
        again = {line.split()[0] for line in diary.read_text(encoding="utf-8").splitlines()} & finished_keys
        if again:
            wrong.append(f"finished episodes were played again: {sorted(again)[:3]}")
    return killed, wrong


def numbers(row: dict[str, Any]) -> dict[str, Any]:
    """Return a result without its timings."""
    return {name: value for name, value in row.items() if name not in TIMING}


def complete(folder: Path) -> dict[str, Any]:
    """Return the result of a run, which is finished first where it is not."""
    command = [sys.executable, "-m", "agent_envs", "eval", "--resume", str(folder), "--json"]
    environment = {**os.environ, "DIARY": str(folder.parent / "last-diary"), "SLOW": "0"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(ran.stdout)
    return result


def main() -> None:
    """Kill, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50, help="how many kills in all (default 50)")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments; printed, so that a failure repeats")
    options = parser.parse_args()
    rng = random.Random(f"kills:{options.seed}")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        quiet = {**os.environ, "DIARY": str(place / "diary"), "SLOW": "0"}
        ran = subprocess.run(
            begin(place / "truth", place / "diary"), env=quiet, capture_output=True, text=True, check=True
        )
        truth = numbers(json.loads(ran.stdout))
        killed, runs, wrong = 0, 0, list[str]()
        with progress_bar("kills") as progress:
            while killed < options.kills and not wrong:
                folder = place / f"life-{runs}"
                folder.mkdir()
                count, wrong = survive(folder, options.kills - killed, rng)
                killed, runs = killed + count, runs + 1
                if not (folder / "run" / "journal.jsonl").exists():
                    continue  # killed before it began
                if numbers(complete(folder / "run")) != truth:
                    wrong.append("the final numbers differ from those of a run that nobody killed")
                keys = [row["key"] for row in read_journal(folder / "run" / "journal.jsonl") if "key" in row]
                if len(keys) != TASKS * TRIALS or len(set(keys)) != len(keys):
                    wrong.append(f"{len(keys)} rows, {len(set(keys))} episodes of {TASKS * TRIALS}")
                if progress is not None:
                    progress(killed, options.kills, killed)
    print(json.dumps({"kills": killed, "runs": runs, "seed": options.seed, "wrong": wrong}))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
