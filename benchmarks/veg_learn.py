"""VEG beside GRPO on tiny models: Search QA in several seeds with the paper's two ablations, and generated telecom tasks.

    python -m benchmarks.veg_learn --out benchmarks/results/veg.json

Each run is the command that a user would type, in a process of its own, on one torch thread; one that ended is not repeated,
one that was killed goes on. Of one seed all runs begin with the same weights, after the same warm start, and end after as many
environment steps. All are measured with good feedback and without any, before and after. What feedback would have cost if a
paid model had given it is counted on the trained policy's test episodes, at four characters a token: tokens times prices.
"""

import argparse
import json
import math
import statistics
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.training_runs import about, percent, trained

SEARCH = ("--preset", "tiny-searchqa", "--test-feedback", "scripted:good")
SPARSE = ("--preset", "tiny-sparse", "--test-feedback", "scripted:good")
TELECOM = ("--preset", "tiny-telecom", "--test-feedback", "scripted:good")
SIDES = ("after_with_feedback", "after_without")
CURVES = ("eval/success", "eval_bare/success", "entropy", "success", "reward", "turns")
EXPLAINED = ("grpo", "veg")
PRICED = ("veg", "telecom-veg")
T_QUANTILES = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}  # 97.5 % of Student's t, by the number of seeds


@dataclass(frozen=True)
class Experiment:
    """A command in several seeds.

    Attributes:
        name: of its folders, and of its line in pictures.
        options: of the command line, but the seed and the folder.
        group: experiments of one group are compared, the first one (GRPO) with each of the others.
    """

    name: str
    options: tuple[str, ...]
    group: str


EXPERIMENTS = (
    Experiment("grpo", (*SEARCH, "--feedback", "none"), "searchqa"),
    Experiment("veg", SEARCH, "searchqa"),
    Experiment("veg-0.5", (*SEARCH, "--epsilon", "0.5"), "searchqa"),
    Experiment("veg-0.9", (*SEARCH, "--epsilon", "0.9"), "searchqa"),
    Experiment("veg-weak", (*SEARCH, "--feedback", "scripted:weak"), "searchqa"),
    Experiment("sparse-grpo", (*SPARSE, "--feedback", "none"), "sparse"),
    Experiment("sparse-veg", SPARSE, "sparse"),
    Experiment("telecom-grpo", (*TELECOM, "--feedback", "none"), "telecom"),
    Experiment("telecom-veg", TELECOM, "telecom"),
)


def figures_of(folder: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of a run."""
    from trainers.training.metrics import FILE, read_metrics

    rows = read_metrics(folder / FILE)
    kept = ("seed", "before", *SIDES, "bare", "steps", "env_steps", "sampled_tokens", "cpu_seconds")
    found = {name: result[name] for name in kept if name in result}
    found["curves"] = {
        name: [[row["env_steps"], round(row[name], 4)] for row in rows if name in row] for name in CURVES
    }
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    episodes = settings["tasks_per_step"] * settings["group_size"]
    found["cost"] = {
        "episodes": episodes * len(rows),
        "env_steps": result["env_steps"],
        "sampled_tokens": result["sampled_tokens"],
        "trained_on_tokens": round(rows[-1]["num_tokens"]),
        "feedback_calls": round(sum(row.get("feedback/messages", 0.0) for row in rows) * episodes),
    }
    return found


def compared(one: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]], side: str) -> dict[str, Any]:
    """Return the mean over seeds of how far the second is ahead of the first, with Student's interval over seeds."""
    pairs = zip(one, other, strict=True)
    gaps = [row[side]["success"] - base[side]["success"] for base, row in pairs]
    told: dict[str, Any] = {"by_seed": [round(gap, 4) for gap in gaps], "mean": round(statistics.mean(gaps), 4)}
    if len(gaps) in T_QUANTILES:
        half = T_QUANTILES[len(gaps)] * statistics.stdev(gaps) / math.sqrt(len(gaps))
        told["interval"] = [round(told["mean"] - half, 4), round(told["mean"] + half, 4)]
    return told


def told(name: str, result: dict[str, Any]) -> str:
    """Return one line a run."""
    sides = ", ".join(f"{side.removeprefix('after_').replace('_', ' ')} {percent(result[side])}" for side in SIDES)
    bare = result.get("bare", result)["before"]
    cost = (
        f"{result['steps']} steps, {result['env_steps']:,} environment steps, {result['cpu_seconds']:.0f} CPU-seconds"
    )
    return f"{name:13} seed {result['seed']}: before {percent(bare)}; after {sides}; {cost}"


def main() -> None:
    """Train, print, write the figures, and draw the curves."""
    names = [experiment.name for experiment in EXPERIMENTS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=names, help="default: all; may be repeated")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="default: 0 1 2")
    parser.add_argument("--runs", type=Path, default=Path("runs/veg-learn"), help="where the runs are kept")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each on one core")
    parser.add_argument("--finished", action="store_true", help="start nothing: take the runs that have ended")
    parser.add_argument("--out", type=Path, help="write the figures here, and the curves beside it")
    args = parser.parse_args()
    chosen = [experiment for experiment in EXPERIMENTS if experiment.name in (args.only or names)]
    wanted = [(experiment, seed) for seed in args.seeds for experiment in chosen]
    folders = [args.runs / f"{experiment.name}-{seed}" for experiment, seed in wanted]
    if args.finished:
        pairs = [pair for pair in zip(wanted, folders, strict=True) if (pair[1] / "result.json").exists()]
        wanted, folders = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    found: dict[str, list[dict[str, Any]]] = {}
    with ThreadPoolExecutor(args.jobs) as pool:
        results = pool.map(lambda row, folder: trained("veg", row[0].options, row[1], folder), wanted, folders)
        for (experiment, _), folder, result in zip(wanted, folders, results, strict=True):
            print(told(experiment.name, result), flush=True)
            found.setdefault(experiment.name, []).append(figures_of(folder, result))
    if args.out:
        write(found, args.out, args.runs)


def write(found: dict[str, list[dict[str, Any]]], out: Path, runs: Path) -> None:
    """Write the figures and the pictures."""
    from benchmarks.veg_chart import draw
    from benchmarks.veg_failures import failures
    from benchmarks.veg_price import price_of

    known = {experiment.name: experiment for experiment in EXPERIMENTS}
    tables: dict[str, Any] = {}
    for name, rows in found.items():
        command = f"python -m trainers.veg {' '.join(known[name].options)}"
        tables[name] = {"command": command, "seeds": rows}
        first = next(other for other in EXPERIMENTS if other.group == known[name].group).name
        if name != first and len(found.get(first, ())) == len(rows):
            tables[name]["ahead_of_grpo"] = {side: compared(found[first], rows, side) for side in SIDES}
        if name in EXPLAINED:
            tables[name]["failures"] = [failures(runs / f"{name}-{row['seed']}") for row in rows]
        if name in PRICED:
            tables[name]["price"] = price_of(runs / f"{name}-{rows[0]['seed']}")
    told = about("python -m benchmarks.veg_learn --out benchmarks/results/veg.json")
    out.write_text(json.dumps({"about": told, "experiments": tables}, indent=1) + "\n", encoding="utf-8")
    for group in dict.fromkeys(experiment.group for experiment in EXPERIMENTS):
        lines = {name: rows for name, rows in found.items() if known[name].group == group}
        if lines:
            draw(lines, out.with_name(f"veg-{group}.png"), f"VEG beside GRPO on tiny models: {group}")


if __name__ == "__main__":
    main()
