"""VEG is compared with GRPO on tiny models: Search QA with the paper's two ablations, and rare reward.

    python -m benchmarks.veg_learn --out benchmarks/results/veg.json

Each run is the command that a user would type, in a process of its own, on one torch thread, in several seeds; one that ended
is not repeated, one that was killed goes on. Of one seed all runs of a group begin with the same weights, after the same warm
start, and end after as many environment steps. At its end each is measured on the same test tasks as it was trained, with good
feedback, and without any; at its start as it is trained (`before`), and where that is with feedback, without it (`bare`).

The warm start of tiny-sparse is made for VEG's case: it teaches to heed feedback, and to stop a hop early without it.

Seeds follow from the preset's name (`benchmarks.training_runs.report_seeds`); settings are chosen on 0, 1 and 2. They are
paired, and an interval is Student's over seeds. What feedback would have cost if a paid model had given it is counted on the
trained policy's test episodes (`benchmarks.veg_price`); what the script earns when it plays alone stands beside
(`benchmarks.veg_episodes`).
"""

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.training_runs import (
    about,
    describe_seeds,
    end_trainers_with_us,
    lead_over_seeds,
    percent,
    points,
    report_seeds,
    run_training,
    summarise_shares,
    with_points_on_a_line,
)

SEARCH = ("--preset", "tiny-searchqa", "--test-feedback", "scripted:good")
SPARSE = ("--preset", "tiny-sparse", "--test-feedback", "scripted:good")
SIDES = ("after_with_feedback", "after_without")
COMPARISONS = {
    "as_trained": (
        "after",
        "each as it was trained: VEG with the feedback that it had in training, GRPO with none. The paper's comparison; in the "
        "test episodes VEG alone is told anything",
    ),
    "both_with_feedback": (
        "after_with_feedback",
        "both with good feedback in the test episodes; GRPO saw feedback in half of its warm start, and none in reinforcement",
    ),
    "both_without": (
        "after_without",
        "both without feedback in the test episodes; VEG had some at every turn of reinforcement",
    ),
}
STARTS = {
    "searchqa": "half of the warm start's demonstrations show feedback, good or weak, of a solver that takes none",
    "sparse": "made for VEG's case: the warm start stops a hop early 95 % of the time without feedback, and 25 % where "
    "good feedback says what is missing: it teaches to heed feedback",
}
CURVES = ("eval/success", "eval_bare/success", "entropy", "success", "reward", "turns")
EXPLAINED = ("grpo", "veg")
PRICED = ("veg",)


@dataclass(frozen=True)
class VegExperiment:
    """A command in several seeds.

    Attributes:
        name: of its folders.
        options: of the command line, but the seed and the folder.
        group: experiments of one group are compared, the first one (GRPO) with each of the others.
        preset: whose name gives the seeds that are reported: experiments of one preset are paired by seed.
    """

    name: str
    options: tuple[str, ...]
    group: str

    @property
    def preset(self) -> str:
        """The preset that the options name."""
        return self.options[self.options.index("--preset") + 1]


EXPERIMENTS = (
    VegExperiment("grpo", (*SEARCH, "--feedback", "none"), "searchqa"),
    VegExperiment("veg", SEARCH, "searchqa"),
    VegExperiment("veg-0.5", (*SEARCH, "--epsilon", "0.5"), "searchqa"),
    VegExperiment("veg-0.9", (*SEARCH, "--epsilon", "0.9"), "searchqa"),
    VegExperiment("veg-weak", (*SEARCH, "--feedback", "scripted:weak"), "searchqa"),
    VegExperiment("sparse-grpo", (*SPARSE, "--feedback", "none"), "sparse"),
    VegExperiment("sparse-veg", SPARSE, "sparse"),
)
BY_NAME = {experiment.name: experiment for experiment in EXPERIMENTS}
FIRST = {group: next(row.name for row in EXPERIMENTS if row.group == group) for group in {e.group for e in EXPERIMENTS}}

RunsByName = dict[str, list[dict[str, Any]]]


def figures_of(folder: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Return a run's figures and curves for the results file."""
    from trainers.training.metrics import METRICS_FILE, read_metrics

    rows = read_metrics(folder / METRICS_FILE)
    fields = ("seed", "before", "after", *SIDES, "bare", "steps", "env_steps", "sampled_tokens", "cpu_seconds")
    figures = {name: result[name] for name in fields if name in result}
    figures["curves"] = {
        name: [[row["env_steps"], round(row[name], 4)] for row in rows if name in row] for name in CURVES
    }
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    episodes = settings["tasks_per_step"] * settings["group_size"]
    figures["cost"] = {
        "episodes": episodes * len(rows),
        "env_steps": result["env_steps"],
        "sampled_tokens": result["sampled_tokens"],
        "trained_on_tokens": round(rows[-1]["num_tokens"]),
        "feedback_calls": round(sum(row.get("feedback/messages", 0.0) for row in rows) * episodes),
    }
    return figures


def compare_by_seed(one: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the lead of the second over the first, paired by seed: as each was trained, then on equal sides."""
    gaps: dict[str, Any] = {}
    for name, (side, what) in COMPARISONS.items():
        gap = lead_over_seeds(*({row["seed"]: row[side]["success"] for row in rows} for rows in (one, other)))
        if gap is not None:
            gaps[name] = {"what": what, **gap}
    return gaps


def describe_run(name: str, result: dict[str, Any]) -> str:
    """Format a run's result as one line."""
    sides = ", ".join(f"{side.removeprefix('after_').replace('_', ' ')} {percent(result[side])}" for side in SIDES)
    bare = result.get("bare", result)["before"]
    cost = (
        f"{result['steps']} steps, {result['env_steps']:,} environment steps, {result['cpu_seconds']:.0f} CPU-seconds"
    )
    return f"{name:13} seed {result['seed']}: before, without feedback {percent(bare)}; after, {sides}; {cost}"


def tables_of(runs_by_name: RunsByName, runs: Path) -> dict[str, Any]:
    """Return the table of each experiment: its seeds, its lead over GRPO, its failures, and its price with a paid model."""
    from benchmarks.veg_failures import failures
    from benchmarks.veg_price import price_of

    tables: dict[str, Any] = {}
    for name, rows in runs_by_name.items():
        table = tables[name] = {"command": f"python -m trainers.veg {' '.join(BY_NAME[name].options)}"}
        first = FIRST[BY_NAME[name].group]
        if name != first and (gaps := compare_by_seed(runs_by_name.get(first, ()), rows)):
            table["ahead_of_grpo"] = gaps
        table["seeds_are"] = describe_seeds(BY_NAME[name].preset, [row["seed"] for row in rows])
        table["success"] = {
            side: summarise_shares({row["seed"]: row[side]["success"] for row in rows}) for side in ("after", *SIDES)
        }
        table["seeds"] = rows
        if name in EXPLAINED:
            table["failures"] = [failures(runs / f"{name}-{row['seed']}") for row in rows]
        if name in PRICED:
            table["price"] = price_of(runs / f"{name}-{rows[0]['seed']}")
    return tables


def scripts_of(runs_by_name: RunsByName, runs: Path) -> dict[str, Any]:
    """Return, by group, the success of following good hints alone on the test tasks of its runs."""
    from benchmarks.veg_episodes import script_as_agent

    scripts: dict[str, Any] = {}
    for name, rows in runs_by_name.items():
        if BY_NAME[name].group not in scripts:
            scripts[BY_NAME[name].group] = script_as_agent(runs / f"{name}-{rows[0]['seed']}")
    return scripts


def summary(tables: dict[str, Any], scripts: dict[str, Any]) -> str:
    """Return the text of the last printout: every comparison with its meaning, success on both sides, and the script alone."""
    lines = []
    for name, (_, what) in COMPARISONS.items():
        lines.append(f"ahead of GRPO, {name} ({what}), in points:")
        gaps = {one: table["ahead_of_grpo"][name] for one, table in tables.items() if "ahead_of_grpo" in table}
        lines += [f"  {one:13} {points(gap)}" for one, gap in gaps.items()]
    lines.append("success in the mean over seeds, with good feedback and without:")
    for one, table in tables.items():
        means = (f"{100 * table['success'][side]['mean']:5.1f} %" for side in SIDES)
        lines.append(f"  {one:13} {', '.join(means)}")
    if scripts:
        lines.append(next(iter(scripts.values()))["what"])
    lines += [
        f"  {group:13} {percent(row)}, {100 * row['out_of_turns']:.1f} % out of turns" for group, row in scripts.items()
    ]
    return "\n".join(lines)


def write(runs_by_name: RunsByName, out: Path, runs: Path) -> None:
    """Print and write the figures, and draw the pictures."""
    from benchmarks.veg_chart import PICTURES, draw

    tables, scripts = tables_of(runs_by_name, runs), scripts_of(runs_by_name, runs)
    print(summary(tables, scripts))
    provenance = about("python -m benchmarks.veg_learn --out benchmarks/results/veg.json")
    provenance["intervals"] = (
        "of a run: over its test tasks; of means and differences: Student's over seeds, None for one seed or equal ones"
    )
    old = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {"script_as_agent": {}, "experiments": {}}
    sections = {name: {**old[name], **new} for name, new in (("script_as_agent", scripts), ("experiments", tables))}
    table = {"about": provenance, "starts": STARTS, **sections}
    out.write_text(with_points_on_a_line(json.dumps(table, indent=1)) + "\n", encoding="utf-8")
    for group, picture in PICTURES.items():
        lines = {name: rows for name, rows in runs_by_name.items() if BY_NAME[name].group == group}
        if lines:
            draw(lines, out.with_name(f"{out.stem}-{group}.png"), picture, scripts[group]["success"])


def main() -> None:
    """Train, print, write the figures, and draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(BY_NAME), help="default: all; may be repeated")
    parser.add_argument("--seeds", type=int, nargs="+", help="default: five that follow from each preset's name")
    parser.add_argument("--runs", type=Path, default=Path("runs/veg-learn"), help="where the runs are kept")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each on one core")
    parser.add_argument("--finished", action="store_true", help="start nothing: take the runs that have ended")
    parser.add_argument(
        "--out", type=Path, help="write the figures here (its other experiments stay), curves beside it"
    )
    args = parser.parse_args()
    selection = [experiment for experiment in EXPERIMENTS if experiment.name in (args.only or BY_NAME)]
    plan = [
        (row, seed, args.runs / f"{row.name}-{seed}")
        for row in selection
        for seed in args.seeds or report_seeds(row.preset)
    ]
    if args.finished:
        plan = [row for row in plan if (row[2] / "result.json").exists()]
    runs_by_name: RunsByName = {}
    with ThreadPoolExecutor(args.jobs) as pool:
        results = pool.map(lambda row: run_training("veg", row[0].options, *row[1:]), plan)
        for (experiment, _, folder), result in zip(plan, results, strict=True):
            print(describe_run(experiment.name, result), flush=True)
            runs_by_name.setdefault(experiment.name, []).append(figures_of(folder, result))
    if args.out:
        write(runs_by_name, args.out, args.runs)


if __name__ == "__main__":
    end_trainers_with_us()
    main()
