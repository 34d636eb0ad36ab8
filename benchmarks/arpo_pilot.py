"""Entropy after tools' results, token by token, of a finished run's policy: the measure of ARPO's Figure 2.

    python -m benchmarks.arpo_pilot runs/arpo --start --out benchmarks/results/arpo_pilot.json

Test tasks are played once each at temperature 1. Told is the mean entropy, in nats, of the first tokens of turns: after each
tool's result, after an error, and of the first turn; and of all later tokens of turns. A model made from nothing that imitated
a flawed solver is unsure where the flaws were: its figures say what the measure does, and nothing of language models.
"""

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent_envs.core.trajectory import Turn
from benchmarks.training_runs import about

FIRST = 50


def kinds_of(turns: Iterable[Turn]) -> list[str]:
    """Return what came before each turn of an episode: nothing, an error, a tool's result, or something else."""
    found, before = [], None
    for turn in turns:
        results = [] if before is None else [row for row in before.results if row.call_id]
        if before is None:
            found.append("first turn")
        elif before.events or any(row.error for row in results):
            found.append("after an error")
        else:
            found.append(f"after {results[-1].name}" if results else "after no result")
        before = turn
    return found


def profile(episodes: Iterable[tuple[Turn, ...]], first: int = FIRST) -> dict[str, dict[str, Any]]:
    """Return, for each kind of turn, the mean entropy at its tokens 1, 2, ..., and their number; and of tokens behind those."""
    columns: dict[str, list[list[float]]] = defaultdict(lambda: [[] for _ in range(first)])
    counts: dict[str, int] = defaultdict(int)
    behind: list[float] = []
    for turns in episodes:
        for kind, turn in zip(kinds_of(turns), turns, strict=True):
            kept = turn.sampled or (True,) * len(turn.entropies)
            values = [value for value, mine in zip(turn.entropies, kept, strict=True) if mine]
            counts[kind] += bool(values)
            for place, value in enumerate(values[:first]):
                columns[kind][place].append(value)
            behind += values[4:]
    told = {
        kind: {"turns": counts[kind], "by_token": [[len(row), round(statistics.fmean(row), 4)] for row in rows if row]}
        for kind, rows in sorted(columns.items())
    }
    return told | {"token 5 and later": {"tokens": len(behind), "mean": round(statistics.fmean(behind or [0.0]), 4)}}


def main() -> None:
    """Play, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder of a finished run")
    parser.add_argument("--start", action="store_true", help="with the weights that reinforcement began with")
    parser.add_argument("--tasks", type=int, default=256, help="of the test split")
    parser.add_argument("--out", type=Path, help="write the figures here")
    args = parser.parse_args()
    from trainers.command_line import SETTINGS_FILE
    from trainers.environments import environment_spec
    from trainers.sampling import plan_groups
    from trainers.trained_agent import TrainedAgent

    settings = json.loads((args.run / SETTINGS_FILE).read_text(encoding="utf-8"))
    player = TrainedAgent(str(args.run), start=args.start, temperature=1.0)
    spec = environment_spec(settings["env"]["id"], json.loads(settings["env"]["arguments"]))
    results = player.play(plan_groups(spec, settings["env"]["test_split"], range(args.tasks), 1, "pilot"))
    found = profile(row.trajectory.turns for row in results.values())
    for kind, row in found.items():
        means = [f"{mean:.2f}" for _, mean in row.get("by_token", ())][:8]
        print(f"{kind:20} {row.get('turns', row.get('tokens')):5}  {' '.join(means) or row['mean']}")
    if args.out:
        start = " --start" if args.start else ""
        told = about(f"python -m benchmarks.arpo_pilot RUN{start} --out benchmarks/results/arpo_pilot.json")
        told |= {"tasks": args.tasks, "seed": settings["seed"], "weights": "start" if args.start else "end"}
        text = json.dumps({"about": told, "entropy": found}, indent=1)
        args.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
