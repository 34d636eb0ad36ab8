"""Verlog learns BabyAI's goto within 16 turns, beside GRPO at equal environment steps, random play and the solver.

    python -m benchmarks.verlog_learn --out benchmarks/results/verlog_learn.json

A seed is `python -m trainers.verlog --preset tiny-babyai-goto` and `python -m trainers.grpo --preset tiny-babyai-goto`, which
begin with the same weights and take equally many steps of the environment, those of the critic's warm-up included. Success is
of 128 held-out tasks, sampled at temperature 1. Random play and the solver play the same tasks at the same limit, and at 64
turns, which is another task: a wanderer finds a third of the goals in them. A run that ended is not repeated. The preset's
seeds are the ninth to the twelfth that follow from its name: on the first eight the warm-up's check stopped some, and the
rounds of the warm-up and how far back the check looks were changed for them; on the tenth it did so again, and a warm-up goes
on since then where its loss still falls, which left the ninth and the eleventh as they were. A seed whose warm-up check stops
its run has failed: it is told beside the others, and is in no mean.

`--ablations` adds Verlog with one discount for all tokens, without the critic's warm-up, with a weight of 1 for the first
token, with the environment's own reward, and with an episode that a limit ended as a failure; `--only ARM` trains what it
names. Beside what is sampled stands greedy play of each run's model on the same tasks. Seeds are paired; intervals of means
and differences are Student's over seeds. The chart shows every seed.
"""

import argparse
import json
import math
import shlex
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gymnasium as gym

from agent_envs.core.registry import full_id
from agent_envs.evaluation.statistics.rates import success_rate
from agent_envs.evaluation.statistics.student import t_quantile
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import CompanionPolicy
from benchmarks.training_runs import (
    about,
    describe_seeds,
    end_trainers_with_us,
    lead_over_seeds,
    mean_line,
    percent,
    points,
    report_seeds,
    run_training,
    summarise_shares,
    with_points_on_a_line,
)
from trainers.command_line import load_preset
from trainers.environments import environment_spec, measured_tasks
from trainers.evaluation import measure_all
from trainers.training.metrics import METRICS_FILE, read_metrics
from trainers.verlog import VerlogSettings

PRESET = "tiny-babyai-goto"
FRESH = report_seeds(PRESET, 12)[8:]
ONE_DISCOUNT = ("--discounts.gamma-token", "0.99", "--discounts.lambda-token", "0.95")
ARMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Verlog": ("verlog", ()),
    "GRPO": ("grpo", ()),
}
ABLATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "one discount": ("verlog", ONE_DISCOUNT),
    "no warm-up": ("verlog", ("--warmup.batches", "0", "--steps", "66")),  # as many environment steps
    "first weight 1": ("verlog", ("--critic.first-weight", "1")),
    "native reward": (
        "verlog",
        ("--env.arguments", '{"examples": 0, "kind": "goto", "max_turns": 16, "reward": "native"}'),
    ),
    "released truncation": ("verlog", ("--released-truncation",)),
}
LIMITS = (16, 64)
STOPPED = "the critic has not settled"  # as trainers.verlog says it
FIELDS = (
    "seed",
    "before",
    "after",
    "gain",
    "steps",
    "env_steps",
    "sampled_tokens",
    "cpu_seconds",
    "warm_start",
    "critic_warm_up",
)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#6e7781")

EMPTY: Mapping[str, Sequence[int]] = MappingProxyType({})

Results = dict[str, dict[int, dict[str, Any]]]  # by arm and seed
Curve = list[tuple[float, float]]  # steps of environments, success


def folder_of(runs: Path, arm: str, seed: int) -> Path:
    """Return the folder of a run."""
    return runs / f"{arm.lower().replace(' ', '-')}-{seed}"


def built_in(agent: str, limit: int, tasks: int, preset: str = PRESET) -> dict[str, Any]:
    """Return the success of a built-in agent on the test tasks that runs of a preset are measured on."""
    where = load_preset(VerlogSettings, "verlog", preset).env
    env: Any = gym.make(full_id(where.id), **json.loads(where.arguments) | {"max_turns": limit})
    test_tasks = measured_tasks(env.unwrapped.source, "test", tasks)
    ends = [run_episode(env, CompanionPolicy(agent), seed=task, split="test", task=task) for task in test_tasks]
    rate = success_rate([float(end.success) for end in ends], list(map(str, test_tasks)), list(map(str, test_tasks)))
    turns = statistics.mean(len(end.trajectory.turns) for end in ends)
    return {"success": rate.value, "interval": [rate.low, rate.high], "tasks": len(test_tasks), "turns": turns}


def greedy(folder: Path) -> dict[str, Any]:
    """Return the success of a run's model on the run's test tasks with greedy decoding."""
    from trainers.trained_agent import TrainedAgent

    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    specs = (("", environment_spec(settings["env"]["id"], json.loads(settings["env"]["arguments"]))),)
    tasks, key = settings["evaluation"]["test_tasks"], f"{settings['seed']}/test"
    return measure_all(TrainedAgent(str(folder), temperature=0), specs, "test", tasks, key).summary()


def curve_of(folder: Path, result: Mapping[str, Any]) -> Curve:
    """Return held-out success by steps of environments: the test before, evaluations on the way, the test after."""
    rows = [row for row in read_metrics(folder / METRICS_FILE) if "eval/success" in row]
    way = [(row["env_steps"], row["eval/success"]) for row in rows if row["env_steps"] < result["env_steps"]]
    return [(0.0, result["before"]["success"]), *way, (float(result["env_steps"]), result["after"]["success"])]


def explained_variance(folder: Path) -> list[float]:
    """Return the critic's explained variance, step by step; nothing where there is no critic."""
    rows = read_metrics(folder / METRICS_FILE)
    return [round(row["explained_variance"], 4) for row in rows if "explained_variance" in row]


def half_width(gap: Mapping[str, Any] | None) -> float | None:
    """Return the half-width of a difference's interval, the smallest difference that this design could tell from none."""
    values = list(gap["by_seed"].values()) if gap else []
    if len(values) < 2:
        return None
    return round(t_quantile(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values)), 4)


def run_or_stop(program: str, options: Sequence[str], seed: int, folder: Path) -> dict[str, Any] | None:
    """Return the result of a run; None where the check of its warm-up stopped it."""
    try:
        return run_training(program, options, seed, folder)
    except subprocess.CalledProcessError:
        if STOPPED not in (folder / "log.txt").read_text(encoding="utf-8"):
            raise
        return None


def table_of(
    results_by_arm: Results, runs: Path, tasks: int, stopped: Mapping[str, Sequence[int]] = EMPTY, preset: str = PRESET
) -> dict[str, Any]:
    """Return the figures; `stopped` are seeds by arm that the check of the warm-up stopped."""
    arms: dict[str, Any] = {}
    for arm, results in results_by_arm.items():
        failed = {"stopped_by_its_check": list(stopped[arm])} if arm in stopped else {}
        if not results:
            arms[arm] = failed
            continue
        after = {seed: row["after"]["success"] for seed, row in results.items()}
        before = {seed: row["before"]["success"] for seed, row in results.items()}
        gap = lead_over_seeds(
            {seed: row["after"]["success"] for seed, row in results_by_arm.get("Verlog", {}).items()}, after
        )
        own = {} if arm == "Verlog" else {"ahead_of_verlog": gap, "smallest_difference_shown": half_width(gap)}
        arms[arm] = {
            "seeds_are": describe_seeds(preset, list(results)),
            "before": summarise_shares(before),
            "after": summarise_shares(after),
            **own,
            **failed,
            "greedy": {str(seed): greedy(folder_of(runs, arm, seed)) for seed in results},
            "seeds": [{key: row[key] for key in FIELDS if key in row} for row in results.values()],
            "curves": {str(seed): curve_of(folder_of(runs, arm, seed), row) for seed, row in results.items()},
            "explained_variance": {str(seed): explained_variance(folder_of(runs, arm, seed)) for seed in results},
        }
    agents = {
        f"{agent}, {limit} turns": built_in(agent, limit, tasks, preset)
        for agent in ("random", "solver")
        for limit in LIMITS
    }
    return {"arms": arms, "built_in": agents}


def draw(table: Mapping[str, Any], path: Path) -> None:
    """Draw success by environment steps, and the explained variance of critics by step, a line a seed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for colour, (arm, row) in zip(COLOURS, table["arms"].items(), strict=False):
        for number, line in enumerate(row.get("curves", {}).values()):
            label = f"{arm}, seeds: {len(row['curves'])}" if number == 0 else None
            left.plot(
                [x for x, _ in line], [100 * y for _, y in line], color=colour, lw=1.2, marker=".", ms=4, label=label
            )
        for line in row.get("explained_variance", {}).values():
            right.plot(range(1, len(line) + 1), line, color=colour, lw=0.9)
    for name in ("random", "solver"):
        rate = 100 * table["built_in"][f"{name}, {LIMITS[0]} turns"]["success"]
        left.axhline(rate, color="#444444", lw=0.8, ls=":")
        left.annotate(name, (0, rate), xytext=(2, 3), textcoords="offset points", fontsize=8)
    left.set_title("Success on held-out tasks, %, 16 turns, sampled at T 1: one line a seed", fontsize=10, loc="left")
    left.set_xlabel("steps of environments in training, the critic's warm-up included", fontsize=9)
    left.set_ylim(0, 103)
    left.legend(fontsize=9, frameon=False, loc="lower right")
    right.set_title("Explained variance of returns, by step of Verlog: one line a seed", fontsize=10, loc="left")
    right.set_xlabel("step", fontsize=9)
    for axis in (left, right):
        axis.grid(alpha=0.25)
        axis.tick_params(labelsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Train, print, write the figures, and draw the chart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", help="default: such as follow from the preset's name")
    parser.add_argument("--runs", type=Path, default=Path("runs/verlog-learn"), help="where the runs are kept")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each on one core")
    parser.add_argument("--ablations", action="store_true", help="train the ablations too")
    parser.add_argument("--only", action="append", choices=[*ARMS, *ABLATIONS], help="this arm; may be repeated")
    parser.add_argument("--preset", default=PRESET, help=f"of runs with --only (default {PRESET})")
    parser.add_argument("--no-check", action="store_true", help="go on where the check of the warm-up would stop a run")
    parser.add_argument("--finished", action="store_true", help="start nothing: take the runs that have ended")
    parser.add_argument("--tasks", type=int, default=128, help="that the built-in agents play (default 128)")
    parser.add_argument("--out", type=Path, help="write the figures here, and the chart beside it")
    args = parser.parse_args()
    seeds: Sequence[int] = args.seeds or (FRESH if args.preset == PRESET else report_seeds(args.preset))
    arms = ARMS | (ABLATIONS if args.ablations else {})
    arms = {name: (ARMS | ABLATIONS)[name] for name in args.only} if args.only else arms
    unchecked = ("--warmup.no-check",) if args.no_check else ()
    plan = [(arm, seed, folder_of(args.runs, arm, seed)) for seed in seeds for arm in arms]
    if args.finished:
        plan = [row for row in plan if (row[2] / "result.json").exists()]
    results_by_arm: Results = {}
    stopped: dict[str, list[int]] = {}
    with ThreadPoolExecutor(args.jobs) as pool:
        program = {
            arm: (name, ("--preset", args.preset, *unchecked, *options)) for arm, (name, options) in arms.items()
        }
        results = pool.map(lambda row: run_or_stop(*program[row[0]], *row[1:]), plan)
        for (arm, seed, _), result in zip(plan, results, strict=True):
            own = results_by_arm.setdefault(arm, {})
            if result is None:
                stopped.setdefault(arm, []).append(seed)
                print(f"{arm:14} seed {seed}: stopped by its check", flush=True)
                continue
            own[seed] = result
            sides = f"{percent(result['before'])} -> {percent(result['after'])}"
            cost = f"{result['env_steps']:,} environment steps, {result['cpu_seconds'] / 60:.1f} CPU-minutes"
            print(f"{arm:14} seed {seed}: {sides}; {cost}", flush=True)
    table = table_of(results_by_arm, args.runs, args.tasks, stopped, args.preset)
    for arm, row in table["arms"].items():
        gap, failed = row.get("ahead_of_verlog"), row.get("stopped_by_its_check", ())
        notes = [f"after: {mean_line(row['after'])}"] if "after" in row else []
        notes += [f"ahead of Verlog by {points(gap)}"] if gap else []
        notes += [f"stopped by its check: seeds {', '.join(map(str, failed))}"] if failed else []
        print(f"{arm:14} {'; '.join(notes)}")
    for agent, row in table["built_in"].items():
        print(f"{agent}: {percent(row)}")
    if args.out:
        words = (
            ["--ablations"] * args.ablations
            + ["--no-check"] * args.no_check
            + ["--preset", args.preset] * (args.preset != PRESET)
            + [word for arm in args.only or () for word in ("--only", arm)]
        )
        words += ["--seeds", *map(str, args.seeds)] if args.seeds else []
        provenance = about(
            shlex.join(
                ["python", "-m", "benchmarks.verlog_learn", *words, "--out", f"benchmarks/results/{args.out.name}"]
            )
        )
        args.out.write_text(
            with_points_on_a_line(json.dumps({"about": provenance, **table}, indent=1)) + "\n", encoding="utf-8"
        )
        draw(table, args.out.with_suffix(".png"))


if __name__ == "__main__":
    end_trainers_with_us()
    main()
