"""Verlog on long horizons, one seed of each preset, cut at the steps that ten CPU-minutes are enough for.

    python -m benchmarks.verlog_horizons --out benchmarks/results/verlog_horizons.json

Each run is `python -m trainers.verlog --preset PRESET --steps N` with the first seed that follows from the preset's name.
Success is of the preset's test tasks, sampled at temperature 1 and, beside it, greedy; random play and the solver play the
same tasks at the same limit. One seed says that this run learnt or did not, and nothing of others. Rows of a file that is
there stay.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.training_runs import about, percent, report_seeds, seeds_told, trained, write
from benchmarks.verlog_learn import KEPT, built_in, curve_of, greedy
from trainers.training.metrics import METRICS_FILE, read_metrics

# by preset: where its run was cut, and what was measured less often than the preset has it
CUT: dict[str, tuple[str, ...]] = {
    "tiny-babyai-seq": ("--steps", "110"),
    "tiny-babaisai-make-win": ("--steps", "10", "--evaluation.test-tasks", "64", "--evaluation.every", "0"),
}
TOLD = ("explained_variance", "valid_actions", "entropy", "kl", "episodes_ended", "cpu_seconds/step")


def by_ten(values: Sequence[float]) -> list[float]:
    """Return the means of a number over ten steps each; the last of those that are left."""
    return [round(statistics.fmean(values[place : place + 10]), 4) for place in range(0, len(values), 10)]


def row(preset: str, runs: Path, tasks: int) -> dict[str, Any]:
    """Train a preset, or take the run that is there, and return its figures."""
    (seed,) = report_seeds(preset, 1)
    folder = runs / f"{preset}-{seed}"
    result = trained("verlog", ("--preset", preset, *CUT[preset]), seed, folder)
    env = json.loads((folder / "settings.json").read_text(encoding="utf-8"))["env"]
    limit = json.loads(env["arguments"])["max_turns"]
    told = {"options": " ".join(CUT[preset]), "seeds_are": seeds_told(preset, (seed,)), "limit": limit}
    told |= {key: result[key] for key in KEPT if key in result} | {"greedy": greedy(folder)}
    told["curve"] = curve_of(folder, result)
    rows = read_metrics(folder / METRICS_FILE)
    told["by_ten_steps"] = {name: by_ten([each[name] for each in rows if name in each]) for name in TOLD}
    played = min(tasks, told["after"]["tasks"])
    return told | {"built_in": {agent: built_in(agent, limit, played, preset) for agent in ("random", "solver")}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, print, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(CUT), help="this preset; may be repeated")
    parser.add_argument("--runs", type=Path, default=Path("runs/verlog-horizons"), help="where the runs are kept")
    parser.add_argument("--tasks", type=int, default=128, help="that the built-in agents play (default 128)")
    parser.add_argument("--out", type=Path, help="write the figures here")
    given = parser.parse_args(arguments)
    for preset in given.only or CUT:
        found = row(preset, given.runs, given.tasks)
        sides = f"{percent(found['before'])} -> {percent(found['after'])}, greedy {percent(found['greedy'])}"
        floor = ", ".join(f"{agent} {percent(rate)}" for agent, rate in found["built_in"].items())
        cost = f"{found['env_steps']:,} environment steps, {found['cpu_seconds']:.0f} CPU-seconds"
        print(f"{preset}: {sides}; {floor}; {found['steps']} steps, {cost}", flush=True)
        if given.out:
            command = f"python -m benchmarks.verlog_horizons --out benchmarks/results/{given.out.name}"
            write({preset: found}, given.out, "runs", about(command))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
