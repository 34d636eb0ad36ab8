"""EARL trains tiny models on a CPU: an algorithm that sorts, CPO beside GRPO where counterfactuals fire, and Countdown.

    python -m benchmarks.earl_learn --out benchmarks/results/earl.json

Each run is the command that a user would type, `python -m trainers.earl --preset tiny-sort4 --seed 0 --out DIR`, in a process
of its own, on one torch thread. A run that ended is not repeated, and one that was killed goes on from its last checkpoint.
Seeds follow from the preset's name (`benchmarks.training_runs.report_seeds`); settings are chosen on 0, 1 and 2. The figures
are those of its result.json: success on tasks of the test split before reinforcement (after the warm start) and
after, with intervals, and for sorting accuracy, comparisons and swaps over all permutations. CPU-seconds count everything: the
tokenizer, the warm start, the evaluations. Of runs on Countdown what all test episodes looked like stands beside (the paper's
Table 4).
"""

import argparse
import math
import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.sweeps import read_sweep
from benchmarks.training_runs import (
    about,
    describe_seeds,
    end_trainers_with_us,
    mean_line,
    over_seeds,
    percent,
    report_seeds,
    run_training,
    summarise_shares,
    write,
)
from benchmarks.tree_drawing import draw_tree_file

IMAGES = Path(__file__).parents[1] / "docs" / "images"
RELEASED = '{"size": 4, "directions": "ascending", "max_actions": 64, "reward": "released"}'
SORT_PANELS = ("success", "tools/compare", "tools/swap", "reward", "entropy", "counterfactual/share")
CPO_PANELS = (
    "success",
    "tools/calculator",
    "entropy",
    "counterfactual/share",
    "counterfactual/gain",
    "counterfactual/rewarded",
)


@dataclass(frozen=True)
class EarlExperiment:
    """A command in several seeds.

    Attributes:
        name: of its folders and its picture.
        options: of the command line, but the seed and the folder.
        panels: of the picture.
        preset: whose name gives the seeds that are reported: experiments of one preset are paired by seed.
    """

    name: str
    options: tuple[str, ...]
    panels: tuple[str, ...] = SORT_PANELS

    @property
    def preset(self) -> str:
        """The preset that the options name."""
        return self.options[self.options.index("--preset") + 1]


def experiments() -> dict[str, EarlExperiment]:
    """Return all of them by name; those of the sweep `tiny-methods` carry the names of its cells."""
    common, cells = read_sweep("earl", "tiny-methods")
    all_experiments = [
        EarlExperiment("sort4", ("--preset", "tiny-sort4")),
        EarlExperiment("sort4-released", ("--preset", "tiny-sort4", "--env.arguments", RELEASED)),
        EarlExperiment("sort4-minute", ("--preset", "tiny-sort4-minute")),
        EarlExperiment("sort4-optimal", ("--preset", "tiny-sort4-optimal")),
        EarlExperiment("sort4-both", ("--preset", "tiny-sort4-both")),
        EarlExperiment("sort5", ("--preset", "tiny-sort5")),
        EarlExperiment("sort2-zero", ("--preset", "tiny-sort2-zero")),
        *(
            EarlExperiment(
                f"arithmetic-{rule}", ("--preset", "tiny-arithmetic", "--counterfactual.rule", rule), CPO_PANELS
            )
            for rule in ("paper", "released", "off")
        ),
        *(
            EarlExperiment(
                f"held-down-{rule}", ("--preset", "tiny-held-down", "--counterfactual.rule", rule), CPO_PANELS
            )
            for rule in ("paper", "off")
        ),
        *(EarlExperiment(f"countdown-{cell.folder}", (*common, *cell.options), CPO_PANELS) for cell in cells),
    ]
    return {experiment.name: experiment for experiment in all_experiments}


def folder_of(runs: Path, experiment: EarlExperiment, seed: int) -> Path:
    """Return the folder of a run."""
    return runs / f"{experiment.name}-{seed}"


def describe_run(name: str, result: dict[str, Any]) -> str:
    """Format a run's result as one line."""
    sides = [percent(result[side]) for side in ("before", "after")]
    line = f"{name:20} seed {result['seed']}: {sides[0]} -> {sides[1]}"
    if "comparisons" in result:
        line += f", all permutations {100 * result['accuracy']:.1f} %, "
        line += f"{result['comparisons']:.4f} comparisons, {result['swaps']:.4f} swaps"
    return (
        f"{line}; {result['steps']} steps, {result['sampled_tokens']:,} tokens, {result['cpu_seconds']:.0f} CPU-seconds"
    )


def counterfactual_means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the share of counterfactuals over a whole run, and their mean gains, weighted by their number."""
    shares = [row.get("counterfactual/share", 0.0) for row in rows]
    weight = math.fsum(shares)
    means = {
        name: math.fsum(s * row.get(f"counterfactual/{name}", 0.0) for s, row in zip(shares, rows, strict=True))
        / (weight or 1.0)
        for name in ("gain", "rewarded")
    }
    steps = sum(share > 0 for share in shares)
    return {"share": weight / max(1, len(rows)), "steps_that_fired": steps, "steps": len(rows), **means}


def habits(folder: Path) -> dict[str, float]:
    """Return the means of what a trained policy's test episodes looked like, all of them (the paper's Table 4)."""
    from benchmarks.episode_counts import read_episodes

    episodes = list(read_episodes(folder).values())
    names = [name for name in episodes[0] if name != "success"] if episodes else []
    return {name: math.fsum(episode[name] for episode in episodes) / len(episodes) for name in names}


def climb(rows: Sequence[dict[str, float]], goal: float = 0.3, window: int = 5) -> dict[str, Any]:
    """Return the curve [step, sampled tokens, success] of sampled success, and the point where its mean first reached a goal.

    Args:
        rows: of a run's metrics.
        goal: a success.
        window: steps whose mean is compared with it.
    """
    curve = [[int(row["step"]), int(row["sampled_tokens"]), round(row["success"], 4)] for row in rows]
    means = [
        math.fsum(row[2] for row in curve[place - window : place]) / window for place in range(window, len(curve) + 1)
    ]
    first = next((curve[place + window - 1][:2] for place, mean in enumerate(means) if mean >= goal), None)
    return {
        "curve": curve,
        "reached": {"success": goal, "step": first and first[0], "sampled_tokens": first and first[1]},
    }


def figures_of(folder: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Return a run's figures for the results file."""
    from trainers.training.metrics import METRICS_FILE, read_metrics

    fields = (
        "seed",
        "before",
        "after",
        "gain",
        "tests",
        "steps",
        "sampled_tokens",
        "cpu_seconds",
        "accuracy",
        "comparisons",
        "swaps",
    )
    figures = {name: result[name] for name in fields if name in result}
    if "trees" in result:
        figures["trees"] = [{name: tree[name] for name in tree if name != "files"} for tree in result["trees"]]
    rows = read_metrics(folder / METRICS_FILE)
    figures["counterfactuals"] = counterfactual_means(rows)
    if folder.name.startswith("held-down"):
        figures["climb"] = climb(rows)
    if result["env"].startswith("Countdown"):
        figures["habits"] = habits(folder)
    return figures


def draw(run_folders: dict[str, list[Path]], selection: Sequence[EarlExperiment], out: Path) -> None:
    """Draw a picture of each experiment's seeds, and the decision tree of the first one that sorts four items."""
    from trainers.figures.learning_curves import plot_curves
    from trainers.training.metrics import METRICS_FILE, read_metrics

    for experiment in selection:
        rows = [read_metrics(folder / METRICS_FILE) for folder in run_folders[experiment.name]]
        title = f"EARL, tiny models: {experiment.name}"
        plot_curves(rows, out.with_name(f"earl-{experiment.name}.png"), experiment.panels, title=title)
    held_down_folders = {name: folders for name, folders in run_folders.items() if name.startswith("held-down")}
    if held_down_folders:
        draw_climbs(held_down_folders, out.with_name("earl-held-down.png"))
    if "sort4" in run_folders:
        draw_tree(run_folders["sort4"][0], IMAGES / "sort-4-tree.svg")


def draw_climbs(run_folders: dict[str, list[Path]], picture: Path) -> None:
    """Draw sampled success by step (the axis of the paper's Figure 6) and by sampled tokens, a line a seed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from trainers.training.metrics import METRICS_FILE, read_metrics

    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    for place, (axis, name) in enumerate(
        zip(figure.subplots(1, 2, sharey=True), ("step", "sampled tokens"), strict=True)
    ):
        for experiment, folders in run_folders.items():
            cpo = experiment.endswith("paper")
            for number, folder in enumerate(folders):
                curve = climb(read_metrics(folder / METRICS_FILE))["curve"]
                label = None if number else "CPO" if cpo else "GRPO"
                style = {"color": "#c8500a" if cpo else "#1f5fa8", "ls": "-" if cpo else ":"}
                axis.plot([row[place] for row in curve], [row[2] for row in curve], lw=1.2, label=label, **style)
        axis.set_xlabel(name, fontsize=9)
        axis.grid(alpha=0.25)
    figure.axes[0].set_title("A caller that is held down: sampled success", fontsize=11, loc="left")
    figure.axes[0].legend(fontsize=8)
    figure.savefig(picture, dpi=110)


def draw_tree(folder: Path, picture: Path) -> None:
    """Draw the decision tree of a run on four items, from the JSON that the run wrote."""
    picture.write_text(draw_tree_file(folder / "trees" / "sort-4-ascending.json"), encoding="utf-8")


def over_seeds_of(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Summarise an experiment over its seeds: success before and after, and of sorting its figures."""
    rows = {result["seed"]: result for result in results}
    success = {
        side: summarise_shares({seed: row[side]["success"] for seed, row in rows.items()})
        for side in ("before", "after")
    }
    names = ("accuracy", "comparisons", "swaps") if all("accuracy" in row for row in results) else ()
    return success | {name: over_seeds({seed: row[name] for seed, row in rows.items()}) for name in names}


def table_of(experiment: EarlExperiment, results: Sequence[dict[str, Any]], folders: Sequence[Path]) -> dict[str, Any]:
    """Return an experiment's entry in the results file."""
    return {
        "command": f"python -m trainers.earl {shlex.join(experiment.options)}",
        "seeds_are": describe_seeds(experiment.preset, [result["seed"] for result in results]),
        "over_seeds": over_seeds_of(results),
        "seeds": [figures_of(*row) for row in zip(folders, results, strict=True)],
    }


def main() -> None:
    """Train, print, write the figures, and draw the curves."""
    by_name = experiments()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(by_name), help="default: all; may be repeated")
    parser.add_argument("--seeds", type=int, nargs="+", help="default: five that follow from each preset's name")
    parser.add_argument("--runs", type=Path, default=Path("runs/earl-learn"), help="where the runs are kept")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each on one core")
    parser.add_argument("--finished", action="store_true", help="start nothing: take the runs that have ended")
    parser.add_argument(
        "--out", type=Path, help="write the figures here (its other experiments stay), curves beside it"
    )
    args = parser.parse_args()
    selection = [by_name[name] for name in args.only or by_name]
    plan = [(row, seed) for row in selection for seed in args.seeds or report_seeds(row.preset)]
    if args.finished:
        plan = [row for row in plan if (folder_of(args.runs, *row) / "result.json").exists()]
    results_by_name: dict[str, list[dict[str, Any]]] = {}
    folders: dict[str, list[Path]] = {}
    with ThreadPoolExecutor(args.jobs) as pool:
        places = [folder_of(args.runs, *row) for row in plan]
        results = pool.map(lambda row, place: run_training("earl", row[0].options, row[1], place), plan, places)
        for (experiment, _), place, result in zip(plan, places, results, strict=True):
            results_by_name.setdefault(experiment.name, []).append(result)
            folders.setdefault(experiment.name, []).append(place)
            print(describe_run(experiment.name, result), flush=True)
    for name, rows in results_by_name.items():
        print(f"{name:20} after: {mean_line(over_seeds_of(rows)['after'])}")
    if args.out is None:
        return
    draw(folders, [by_name[name] for name in results_by_name], args.out)
    tables = {name: table_of(by_name[name], rows, folders[name]) for name, rows in results_by_name.items()}
    write(tables, args.out, "experiments", about("python -m benchmarks.earl_learn --out benchmarks/results/earl.json"))


if __name__ == "__main__":
    end_trainers_with_us()
    main()
