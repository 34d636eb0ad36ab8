"""ARPO, forks by chance, and GRPO learn tiny-searchqa from one start at equal numbers of distinct tool calls.

    python -m benchmarks.arpo_learn --out benchmarks/results/arpo.json

For each seed a start is made once (the warm start of the preset; a step with a rate of 1e-12 writes it), and every arm begins
with those weights and ends once tools have carried out so many calls (`most_tool_calls`), those of shared turns counted once.
Told are success on held-out tasks over calls and over sampled tokens, success on the test split, what branching saved beside
the bound and the simulation (`benchmarks.arpo_bound`), and two comparisons: does sharing beginnings save calls at equal success
(ARPO and forks by chance against GRPO), and does entropy choose better places (ARPO against `matched`, which forks by chance at
the rate that ARPO's rule would have had at its last nodes; `random` has one rate from beginning to end)? The unit is the seed;
tasks only narrow a seed's own figure. The half-width of an interval is the smallest difference that could have been shown.

`hard` and `weighted`, `weight-W` and `roots-N` are cells of the sweeps `credit`, `entropy` and `roots` of trainers.arpo, from
one start; soft credit, weight 4 and 8 roots are `arpo` itself.

Before all that stands the power of the second question: how far the chance of a fork differs between nodes at the start, and
how many decisions ARPO and chance take alike. Settings were chosen on seed 0; the seeds follow from the preset's name, and are
the fourth to the eighth: three were played before there was `matched`. Seeds of a file that is there stay beside new ones where
an arm's command is the same.
"""

import argparse
import json
import statistics
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agent_envs.base.jsonl_log import read_journal
from benchmarks.arpo_bound import call_savings
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
from trainers.arpo_parts import BranchingSettings, BranchNode, chance_of

PRESET, CALLS, CHANCE = "tiny-searchqa", 20_000, 0.57
START = ("--steps", "1", "--optim.learning-rate", "1e-12", "--evaluation.every", "0",
         "--evaluation.test-tasks", "0", "--log.no-curves")  # fmt: skip
COMMON = ("--warm-start.demonstrations", "0", "--steps", "1000",
          "--evaluation.every", "5", "--log.no-curves", "--log.checkpoint-every", "20")  # fmt: skip
ARMS: dict[str, tuple[str, ...]] = {
    "arpo": ("arpo",),
    "matched": ("arpo", "--branching.rule", "callable:benchmarks.arpo_learn:matched"),
    "grpo-16": ("grpo", "--group-size", "16"),
    "grpo-11": ("grpo", "--group-size", "11"),
    "late": ("arpo", "--branching.rule", "late"),
    "top": ("arpo", "--branching.rule", "top"),
    "value": ("arpo", "--branching.rule", "value"),
    "random": ("arpo", "--branching.rule", "random", "--branching.chance", str(CHANCE)),
    "hard": ("arpo", "--shared", "hard"),
    "weighted": ("arpo", "--weighted"),
    **{f"weight-{weight}": ("arpo", "--branching.weight", weight) for weight in ("0", "2", "6", "8", "10")},
    **{f"roots-{roots}": ("arpo", "--branching.roots", roots) for roots in ("1", "2", "4", "12")},
    "grpo": ("grpo",),  # with the preset's own number of rollouts
    "clip-higher": ("grpo", "--eps-high", "0.28", "--drop-flat-groups", "--loss", "token_mean"),
    "reinforce-pp": ("grpo", "--credit", "turn", "--turn-baseline", "batch", "--beta", "0.001", "--kl", "k1",
                     "--kl-in", "reward"),
}  # fmt: skip
PEERS = ("clip-higher", "reinforce-pp")
DEFAULT_ARMS = ("arpo", "matched", "grpo-16", "grpo-11", "late")  # what the two questions need
FRESH = report_seeds(PRESET, 8)[3:]
COMPARED = {
    "sharing, ARPO": ("grpo-16", "arpo"),
    "sharing, forks by chance": ("grpo-16", "random"),
    "sharing against as many whole rollouts": ("grpo-11", "arpo"),
    "sharing by chance at ARPO's rate against as many": ("grpo-11", "matched"),
    "entropy against chance": ("random", "arpo"),
    "entropy against chance at its rate": ("matched", "arpo"),
    "the best places against chance": ("random", "value"),
    "the best places against chance at ARPO's rate": ("matched", "value"),
    "`hard` against `soft` credit": ("arpo", "hard"),
    "`weighted` against `soft` credit": ("arpo", "weighted"),
    "clip-higher against GRPO": ("grpo-16", "clip-higher"),
    "REINFORCE++ against GRPO": ("grpo-16", "reinforce-pp"),
    "clip-higher against GRPO with as many rollouts": ("grpo", "clip-higher"),
    "REINFORCE++ against GRPO with as many rollouts": ("grpo", "reinforce-pp"),
    "ARPO against GRPO with as many rollouts": ("grpo", "arpo"),
    "`late` against GRPO with as many rollouts": ("grpo", "late"),
    "`late` against chance at ARPO's rate": ("matched", "late"),
    "`late` against ARPO": ("arpo", "late"),
    "`top` against chance at ARPO's rate": ("matched", "top"),
    "`top` against ARPO": ("arpo", "top"),
}
ENOUGH = 0.15  # between the quartiles of the chance: with less, ARPO and `random` are one method
Run = dict[str, Any]
_CHANCES = deque(
    [CHANCE] * 16, maxlen=150
)  # of the newest nodes, about a step of them; before the first the mean of seed 0


def matched(node: BranchNode) -> float:
    """Return the mean chance that ARPO's rule gave the nodes before this one: its rate of forking, whatever the node's entropy.

    The run's own nodes are meant, so that the rate falls as its policy grows surer; a run that goes on begins to count anew.
    """
    rate = statistics.fmean(_CHANCES)
    _CHANCES.append(chance_of(node, _rule()))
    return rate


@cache
def _rule() -> BranchingSettings:
    """Return the branching settings of the preset, cached."""
    from trainers.arpo import ARPOSettings
    from trainers.command_line import load_preset

    return load_preset(ARPOSettings, "arpo", PRESET).branching


def words_of(arm: str, calls: int = CALLS, preset: str = PRESET) -> tuple[str, ...]:
    """Return the options of an arm that ends after so many calls; the large preset's peers have presets."""
    own = (f"{preset}-{arm}",) if arm in PEERS and preset == PRESET else (preset, *ARMS[arm][1:])
    return ("--preset", own[0], *COMMON, "--most-tool-calls", str(calls), *own[1:])


def power(folder: Path) -> dict[str, Any]:
    """Compare the branching decisions of a run's first step, at the weights of the start, with those of `random`."""
    rows = [row for row in read_journal(folder / "decisions-0.jsonl") if row.get("step") == 0]
    chances = [row["chance"] for row in rows]
    deltas, quartiles = ([round(x, 4) for x in statistics.quantiles(column, n=4)] for column in
                         ([row["delta"] for row in rows], chances))  # fmt: skip
    return {
        "nodes": len(rows),
        "delta_quartiles": deltas,
        "chance_quartiles": quartiles,
        "mean_chance": round(statistics.fmean(chances), 4),
        "decided_alike": round(1 - statistics.fmean(abs(chance - CHANCE) for chance in chances), 4),
        "enough": quartiles[2] - quartiles[0] >= ENOUGH,
    }


def figures_of(folder: Path, result: Run) -> Run:
    """Return a run's figures and its success over calls and tokens, for the results file."""
    from trainers.training.metrics import METRICS_FILE, read_metrics

    rows = read_metrics(folder / METRICS_FILE)
    fields = ("seed", "before", "after", "gain", "steps", "env_steps", "tool_calls", "sampled_tokens", "cpu_seconds")
    figures = {name: result[name] for name in fields}
    for axis in ("tool_calls", "sampled_tokens"):
        figures[f"success_over_{axis}"] = [
            [round(row[axis]), round(row["eval/success"], 4)] for row in rows if "eval/success" in row
        ]
    for name in ("tools/saved", "branching/forked", "branching/nodes", "branching/roots", "branching/probe_calls",
                 "tokens/distinct_share", "cpu_seconds/step", "frac_reward_zero_std"):  # fmt: skip
        values = [row[name] for row in rows if name in row]
        if values:
            figures[name] = round(statistics.fmean(values), 4)
    return figures


def over_calls(run: Run) -> float:
    """Return the mean of held-out success over calls: the area under straight lines from the start (its test success) on."""
    curve = [(0, run["before"]["success"]), *run["success_over_tool_calls"]]
    areas = [(after[0] - before[0]) * (after[1] + before[1]) / 2 for before, after in pairwise(curve)]
    return float(sum(areas) / curve[-1][0])


def describe_run(arm: str, run: Run) -> str:
    """Format a run's result as one line."""
    sides = f"{percent(run['before'])} -> {percent(run['after'])}, over calls {100 * over_calls(run):.1f} %"
    spared = f", saved {100 * run['tools/saved']:.0f} % of the calls" if "tools/saved" in run else ""
    calls = sum(run["tool_calls"].values())
    cost = f"{calls:,} calls, {run['sampled_tokens']:,} tokens, {run['cpu_seconds']:.0f} CPU-seconds"
    return f"{arm:8} seed {run['seed']}: {sides}; {run['steps']} steps, {cost}{spared}"


def compare_with_bound(arm: str, rows: Sequence[Run]) -> dict[str, Any]:
    """Return the share of calls that an arm's trees saved; with half as many roots as leaves, the bound and a simulation."""
    if "tools/saved" not in rows[0]:
        return {}
    own, forked = (statistics.fmean(run[name] for run in rows) for name in ("tools/saved", "branching/forked"))
    savings: dict[str, Any] = {"measured": round(own, 3)}
    if "--branching.roots" not in ARMS[arm]:
        simulated = {str(calls): round(call_savings(calls, forked, tasks=300), 3) for calls in (1, 2)}
        savings |= {"bound": 0.5, "simulated_by_calls_an_episode": simulated}
    return {"saved": savings}


def command_of(arm: str, calls: int, preset: str) -> str:
    """Return the command of an arm's runs."""
    return f"python -m trainers.{ARMS[arm][0]} {' '.join(words_of(arm, calls, preset))} --model.name START"


def with_earlier(runs_by_arm: Mapping[str, Sequence[Run]], earlier: Mapping[str, Any], calls: int, preset: str) -> Any:
    """Return the runs by arm behind those of other seeds that a file has of the same command."""
    together = {}
    for arm, rows in runs_by_arm.items():
        old, seeds = earlier.get("arms", {}).get(arm, {}), {run["seed"] for run in rows}
        same = old["seeds"] if old.get("command") == command_of(arm, calls, preset) else ()
        together[arm] = [*(run for run in same if run["seed"] not in seeds), *rows]
    return together


def tables_of(
    runs_by_arm: Mapping[str, Sequence[Run]],
    runs: Path,
    calls: int = CALLS,
    preset: str = PRESET,
    earlier: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the power, the arms, and the comparisons, each paired by seed; earlier seeds have their file's power."""
    tables: dict[str, Any] = {"power": {}, "arms": {}, "compared": {}}
    for seed in (run["seed"] for run in runs_by_arm.get("arpo", ())):
        earlier_power, folder = earlier.get("power", {}).get(str(seed)), runs / f"arpo-{seed}"
        tables["power"][str(seed)] = power(folder) if folder.exists() or not earlier_power else earlier_power
    for arm, rows in runs_by_arm.items():
        after = summarise_shares({run["seed"]: run["after"]["success"] for run in rows})
        whole = summarise_shares({run["seed"]: over_calls(run) for run in rows})
        tables["arms"][arm] = {
            "command": command_of(arm, calls, preset),
            **compare_with_bound(arm, rows),
            "after": after,
            "over_calls": whole,
            "seeds": list(rows),
        }
    for name, (one, other) in COMPARED.items():
        for figure, value in (("after", lambda run: run["after"]["success"]), ("over calls", over_calls)):
            pair = ({run["seed"]: value(run) for run in runs_by_arm.get(arm, ())} for arm in (one, other))
            if (gap := lead_over_seeds(*pair)) is not None:
                bounds = gap["interval"]
                smallest = bounds and round((bounds[1] - bounds[0]) / 2, 4)
                tables["compared"][f"{name}, {figure}"] = {**gap, "smallest_that_could_be_shown": smallest}
    return tables


def draw(runs_by_arm: Mapping[str, Sequence[Run]], path: Path) -> None:
    """Draw held-out success over calls and over sampled tokens: a thin line a seed of each arm."""
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    colours: Sequence[Any] = ("#0072B2", "#E69F00", "#000000", "#999999", "#009E73", "#D55E00", "#CC79A7")
    if len(runs_by_arm) > len(colours):
        colours = colormaps["viridis"](range(0, 256, 256 // len(runs_by_arm)))
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    for axis, name in zip(figure.subplots(1, 2), ("tool_calls", "sampled_tokens"), strict=True):
        for (arm, rows), colour in zip(runs_by_arm.items(), colours, strict=False):
            for number, run in enumerate(rows):
                line = [(x, 100 * y) for x, y in run[f"success_over_{name}"]]
                axis.plot(*zip(*line, strict=True), color=colour, lw=1, alpha=0.8, label=None if number else arm)
        axis.set_xlabel({"tool_calls": "distinct tool calls", "sampled_tokens": "sampled tokens"}[name], fontsize=9)
        axis.set_ylabel("held-out success, %", fontsize=9)
        axis.grid(alpha=0.25)
    figure.axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Train, print, write the figures, and draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", action="append", choices=list(ARMS), help=f"default: {', '.join(DEFAULT_ARMS)}; may be repeated"
    )
    parser.add_argument("--seeds", type=int, nargs="+", help="default: five that follow from the preset's name")
    parser.add_argument(
        "--preset", default=PRESET, help=f"of start and trees (default {PRESET}); tiny-minute costs a quarter"
    )
    parser.add_argument("--calls", type=int, default=CALLS, help=f"distinct tool calls of a run (default {CALLS:,})")
    parser.add_argument("--runs", type=Path, default=Path("runs/arpo-learn"), help="where the runs are kept")
    parser.add_argument("--finished", action="store_true", help="start nothing: take the runs that have ended")
    parser.add_argument("--out", type=Path, help="write the figures here, and the curves beside it")
    args = parser.parse_args()
    runs_by_arm: dict[str, list[Run]] = {}
    seeds = args.seeds or (FRESH if args.preset == PRESET else report_seeds(args.preset))
    for seed in seeds:
        for arm in args.only or DEFAULT_ARMS:
            folder = args.runs / f"{arm}-{seed}"
            if args.finished and not (folder / "result.json").exists():
                continue
            start = args.runs / f"start-{seed}"
            run_training("grpo", ("--preset", args.preset, *START), seed, start)
            words = (*words_of(arm, args.calls, args.preset), "--model.name", str(start / "model"))
            runs_by_arm.setdefault(arm, []).append(figures_of(folder, run_training(ARMS[arm][0], words, seed, folder)))
            print(describe_run(arm, runs_by_arm[arm][-1]), flush=True)
    earlier = json.loads(args.out.read_text(encoding="utf-8")) if args.out and args.out.exists() else {}
    together = with_earlier(runs_by_arm, earlier, args.calls, args.preset)
    tables = tables_of(together, args.runs, args.calls, args.preset, earlier)
    for seed, row in tables["power"].items():
        print(f"power, seed {seed}: {json.dumps(row)}")
    for name, gap in tables["compared"].items():
        print(f"{name}: {points(gap)}")
    if args.out:
        seeds = list(dict.fromkeys(run["seed"] for rows in together.values() for run in rows))
        options = " ".join(f"--only {arm}" for arm in args.only or ()) + f" --seeds {' '.join(map(str, seeds))}"
        options = (
            f"{options.strip()} --preset {args.preset} --calls {args.calls} --out benchmarks/results/{args.out.name}"
        )
        command = f"python -m benchmarks.arpo_learn {options}"
        provenance = about(command) | {"seeds_are": describe_seeds(args.preset, seeds), "calls": args.calls}
        text = json.dumps({"about": provenance, **tables}, indent=1)
        args.out.write_text(with_points_on_a_line(text) + "\n", encoding="utf-8")
        draw(together, args.out.with_suffix(".png"))


if __name__ == "__main__":
    end_trainers_with_us()
    main()
