"""GRPO trains three tiny presets, three seeds of each, on one torch thread, and curves are drawn.

    python -m benchmarks.learn --out benchmarks/results/learn.json

Each seed is the command that a user would type, `python -m trainers.grpo --preset tiny-searchqa --seed 0 --out DIR`, in a
process of its own. A seed that ended is not run again, and one that was killed goes on from its last checkpoint. The figures
are those of its result.json: success on tasks of the test split before reinforcement (after the warm start) and after, each
with its interval, and the paired gain. The test tasks of tiny-sort are the twelve that it trains on; the others' are new.
Every CPU-second is counted: the tokenizer, the warm start and the evaluations are in it.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

PRESETS = ("tiny-searchqa", "tiny-sort", "tiny-calcbench")
SEEDS = (0, 1, 2)
PANELS = ("success", "eval/success", "reward", "valid_actions", "tools/call_frequency", "entropy")


def train(preset: str, seed: int, folder: Path) -> dict[str, Any]:
    """Run one seed to its end, or on to it, and return its result."""
    result = folder / "result.json"
    if not result.exists():
        started = (folder / "settings.json").exists()
        words = (
            ["--resume", str(folder)] if started else ["--preset", preset, "--seed", str(seed), "--out", str(folder)]
        )
        quiet = {**os.environ, "OMP_NUM_THREADS": "1"}
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "log.txt").open("a", encoding="utf-8") as log:
            command = [sys.executable, "-m", "trainers.grpo", *words]
            subprocess.run(command, check=True, env=quiet, stdout=log, stderr=subprocess.STDOUT)
    found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return found


def told(preset: str, result: dict[str, Any]) -> str:
    """Return one line a seed."""
    sides = [f"{100 * result[side]['success']:5.1f} % {_interval(result[side])}" for side in ("before", "after")]
    gain = f"{100 * result['gain']['difference']:+.1f} {_interval(result['gain'])}"
    cost = f"{result['steps']} steps, {result['sampled_tokens']:,} tokens, {result['cpu_seconds'] / 60:.1f} CPU-minutes"
    return f"{preset:16} seed {result['seed']}: {sides[0]} -> {sides[1]}, gain {gain}; {cost}"


def _interval(row: dict[str, Any]) -> str:
    low, high = row["interval"]
    return f"[{100 * low:.1f}, {100 * high:.1f}]"


def main() -> None:
    """Train, print, write the figures, and draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--preset", action="append", choices=PRESETS, help="one of them (default: all); may be repeated"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="default: 0 1 2")
    parser.add_argument("--runs", type=Path, default=Path("runs/learn"), help="where the runs are kept")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each on one core")
    parser.add_argument("--out", type=Path, help="write the figures here, and the curves beside it")
    args = parser.parse_args()
    wanted = [(preset, seed) for preset in args.preset or PRESETS for seed in args.seeds]
    figures: dict[str, list[dict[str, Any]]] = {}
    with ThreadPoolExecutor(args.jobs) as pool:
        folders = [args.runs / f"{preset}-{seed}" for preset, seed in wanted]
        results = pool.map(train, *zip(*wanted, strict=True), folders)
        for (preset, _), result in zip(wanted, results, strict=True):
            figures.setdefault(preset, []).append(result)
            print(told(preset, result), flush=True)
    if args.out is None:
        return
    from trainers.command_line import METRICS_FILE
    from trainers.training.curves import plot_curves
    from trainers.training.metrics import read_metrics

    for preset in figures:
        picture = args.out.with_name(f"learn-{preset}.png")
        rows = [read_metrics(args.runs / f"{preset}-{seed}" / METRICS_FILE) for seed in args.seeds]
        plot_curves(rows, picture, PANELS, title=f"GRPO, {preset}")
    names = ("torch", "transformers", "numpy")
    about = {
        "command": "python -m benchmarks.learn --out benchmarks/results/learn.json",
        "machine": platform.processor(),
    }
    about |= {"python": platform.python_version(), **{name: version(name) for name in names}}
    args.out.write_text(json.dumps({"about": about, "presets": figures}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
