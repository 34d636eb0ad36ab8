"""GRPO trains three tiny presets on one torch thread, on five seeds that no setting was chosen on, and curves are drawn.

    python -m benchmarks.learn --out benchmarks/results/learn.json

Each seed is the command that a user would type, `python -m trainers.grpo --preset tiny-searchqa --seed 0 --out DIR`, in a
process of its own. A seed that ended is not run again, and one that was killed goes on from its last checkpoint. The seeds of
a preset follow from its name (`benchmarks.training_runs.report_seeds`); settings are chosen on 0, 1 and 2. The figures are
those of its result.json: success on tasks of the test split before reinforcement (after the warm start) and after, each with
its interval, and the paired gain; of all seeds the mean with Student's interval over seeds, and the worst seed. The test tasks
of tiny-sort are the twelve that it trains on; the others' are new. Every CPU-second is counted: the tokenizer, the warm start
and the evaluations are in it.
"""

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.training_runs import (
    about,
    describe_seeds,
    end_trainers_with_us,
    mean_line,
    percent,
    report_seeds,
    run_training,
    summarise_shares,
    write,
)

PRESETS = ("tiny-searchqa", "tiny-sort", "tiny-calcbench")
PANELS = ("success", "eval/success", "reward", "valid_actions", "tools/call_frequency", "entropy")


def describe_run(preset: str, result: dict[str, Any]) -> str:
    """Format a run's result as one line."""
    gain = f"{100 * result['gain']['difference']:+.1f}"
    cost = f"{result['steps']} steps, {result['sampled_tokens']:,} tokens, {result['cpu_seconds'] / 60:.1f} CPU-minutes"
    sides = f"{percent(result['before'])} -> {percent(result['after'])}, gain {gain}"
    return f"{preset:16} seed {result['seed']}: {sides}; {cost}"


def table_of(preset: str, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a preset's entry in the results file: its seeds' results, their summary, and the origin of the seeds."""
    sides = {
        side: summarise_shares({result["seed"]: result[side]["success"] for result in results})
        for side in ("before", "after")
    }
    seeds = [result["seed"] for result in results]
    return {"seeds_are": describe_seeds(preset, seeds), "over_seeds": sides, "seeds": list(results)}


def main() -> None:
    """Train, print, write the figures, and draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--preset", action="append", choices=PRESETS, help="one of them (default: all); may be repeated"
    )
    parser.add_argument("--seeds", type=int, nargs="+", help="default: five that follow from the preset's name")
    parser.add_argument("--runs", type=Path, default=Path("runs/learn"), help="where the runs are kept")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each on one core")
    parser.add_argument("--finished", action="store_true", help="start nothing: take the runs that have ended")
    parser.add_argument("--out", type=Path, help="write the figures here (its other presets stay), curves beside it")
    args = parser.parse_args()
    plan = [
        (preset, seed, args.runs / f"{preset}-{seed}")
        for preset in args.preset or PRESETS
        for seed in args.seeds or report_seeds(preset)
    ]
    if args.finished:
        plan = [row for row in plan if (row[2] / "result.json").exists()]
    results_by_preset: dict[str, list[dict[str, Any]]] = {}
    folders: dict[str, list[Path]] = {}
    with ThreadPoolExecutor(args.jobs) as pool:
        results = pool.map(lambda row: run_training("grpo", ("--preset", row[0]), *row[1:]), plan)
        for (preset, _, folder), result in zip(plan, results, strict=True):
            results_by_preset.setdefault(preset, []).append(result)
            folders.setdefault(preset, []).append(folder)
            print(describe_run(preset, result), flush=True)
    tables = {preset: table_of(preset, rows) for preset, rows in results_by_preset.items()}
    for preset, table in tables.items():
        print(f"{preset:16} after: {mean_line(table['over_seeds']['after'])}")
    if args.out is None:
        return
    draw(folders, args.out)
    write(tables, args.out, "presets", about("python -m benchmarks.learn --out benchmarks/results/learn.json"))


def draw(folders: dict[str, list[Path]], out: Path) -> None:
    """Draw the curves of each preset's seeds."""
    from trainers.figures.learning_curves import plot_curves
    from trainers.training.metrics import METRICS_FILE, read_metrics

    for preset, runs in folders.items():
        rows = [read_metrics(run / METRICS_FILE) for run in runs]
        plot_curves(rows, out.with_name(f"learn-{preset}.png"), PANELS, title=f"GRPO, {preset}")


if __name__ == "__main__":
    end_trainers_with_us()
    main()
