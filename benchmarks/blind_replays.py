"""The best of k random plays of each task is played back, beside random play: how far a player comes that never looks.

    python -m benchmarks.blind_replays [--tasks 16] [--ids ID ...] [--suites demo@1 core@1] [--out FILE]

Ids play their first test tasks with default arguments. `demo@1` is played with k = 8 and 24, another suite with 8.
benchmarks/results/blind_replays.json keeps the figures that docs/leaderboard.md has.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from agent_envs.core.registry import env_ids
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.runs.run_folder import Settings
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.evaluation.suites.suite import Suite, load_suite

RESULTS = Path(__file__).parent / "results" / "blind_replays.json"
BLIND = "leaderboard.blind_replay:BlindReplay"
PLAYS = (8, 24)


def success(suite: Suite, agent: str, **options: Any) -> dict[str, Any]:
    """Play a suite and return its score, where it has one, and each entry's success with interval, in per cent."""
    with tempfile.TemporaryDirectory() as folder:
        result = evaluate(suite, Settings(agent, options), folder=Path(folder) / "run")
    rates = {row.entry: row.success for row in result.summaries}
    row: dict[str, Any] = {
        name: [round(100 * number, 1) for number in (rate.value, rate.low, rate.high)] for name, rate in rates.items()
    }
    return row if result.score is None else {"score": round(100 * result.score.value, 1), **row}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line: play, print a table, and keep the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.blind_replays", description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=16, help="of each id")
    parser.add_argument("--ids", nargs="*", default=env_ids(), help="default: all")
    parser.add_argument("--suites", nargs="*", default=["demo@1", "core@1"])
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    suites = {name: adhoc_suite(Choice(name, split="test", limit=options.tasks)) for name in options.ids}
    rows: dict[str, dict[str, Any]] = {}
    for name, suite in (suites | {name: load_suite(name) for name in options.suites}).items():
        plays = PLAYS if name in suites or name == "demo@1" else PLAYS[:1]
        rows[name] = {"random": success(suite, "random")} | {
            f"blind_replay-{count}": success(suite, BLIND, plays=count) for count in plays
        }
        print(name, json.dumps(rows[name]), flush=True)
        options.out.write_text(json.dumps({"tasks": options.tasks, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
