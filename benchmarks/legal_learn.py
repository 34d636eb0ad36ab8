"""GRPO trains on generated law at 2, 4 and 10 free turns, and the agents and their start are tested at 0 to 10.

    python -m benchmarks.legal_learn --out benchmarks/results/legal_learn.json

It asks whether more turns in training teach to use more turns, after "Reinforcement Learning for Long-Horizon Multi-Turn
Search Agents" (arXiv 2510.24126, turn-restricted evaluation), on models made from nothing. A seed is
`python -m trainers.grpo --preset tiny-legal-2`, `tiny-legal-4` and `tiny-legal`, which begin with the same weights. The base
(those weights) and the agents are then played on test tasks with 0 to 10 free turns before the answer is forced, as
`agent-envs eval LegalSearch --turn-limits` does; 0 is naive RAG. A run that ended is not repeated.

Seeds are paired, and intervals of means and differences are Student's over seeds. The chart shows every seed and no bars.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_envs.evaluation.report.turn_limits import LimitRow, limit_rows
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.evaluation.suites.suite import Suite
from benchmarks.training_runs import (
    about,
    end_trainers_with_us,
    lead_over_seeds,
    over_seeds,
    percent,
    points,
    run_training,
)
from trainers.command_line import load_preset
from trainers.grpo import GRPOSettings

LIMITS = (0, 1, 2, 3, 4, 6, 8, 10)
PRESETS = {"10 turns": "tiny-legal", "4 turns": "tiny-legal-4", "2 turns": "tiny-legal-2"}
AGENTS = ("base", "2 turns", "4 turns", "10 turns")
DIFFERENCES = (
    ("2 turns", "base"), ("4 turns", "base"), ("10 turns", "base"), ("4 turns", "2 turns"), ("10 turns", "4 turns"),
)  # fmt: skip
CLASS = "trainers.trained_agent:TrainedAgent"
CONCURRENCY = 96
PANELS = (
    ("success", "accuracy", 100),
    ("abstained", "abstained", 100),
    ("wrong", "wrong", 100),
    ("turns", "turns, the answer included", 1),
)
STYLES = {
    "base": ("#000000", ":"),
    "2 turns": ("#009E73", "-."),
    "4 turns": ("#D55E00", "--"),
    "10 turns": ("#0072B2", "-"),
}
LABELS = {
    "base": "before reinforcement",
    "2 turns": "trained at 2 free turns",
    "4 turns": "trained at 4 free turns",
    "10 turns": "trained at 10 free turns",
}
BARS = (
    "mean and interval: of the seeds' values, Student's 95 % over seeds (None for one seed, and where all seeds have one "
    "value); differences are paired by seed, as the agents of a seed begin with the same weights and play the same tasks. "
    "In `seeds`, an interval is over the test tasks of that seed alone. The chart: thin lines are seeds, thick ones their "
    "mean, and there are no bars"
)

Rows = dict[int, list[LimitRow]]  # of an agent, by seed


@dataclass(frozen=True)
class Agent:
    """A policy to play: a run's model at its start or at its end."""

    name: str
    folder: Path
    start: bool = False


def run_folders(runs: Path, seed: int) -> dict[str, Path]:
    """Return the folders of a seed's runs."""
    return {name: runs / f"{preset}-{seed}" for name, preset in PRESETS.items()}


def sweep_folder(runs: Path, name: str, seed: int) -> Path:
    """Return the folder of an agent's episodes under all limits."""
    return runs / f"turns-{name.replace(' ', '-')}-{seed}"


def has_ended(runs: Path, seed: int) -> bool:
    """Return whether the runs of a seed and the sweeps of its agents have come to their end."""
    results = [sweep_folder(runs, name, seed) / "results.json" for name in AGENTS]
    all_trained = all((folder / "result.json").exists() for folder in run_folders(runs, seed).values())
    swept_all = all(path.exists() and json.loads(path.read_text(encoding="utf-8"))["complete"] for path in results)
    return all_trained and swept_all


def sweep(agent: Agent, suite: Suite, folder: Path) -> None:
    """Play an agent under all limits, or go on with it."""
    options: dict[str, Any] = {"folder": str(agent.folder), **({"start": True} if agent.start else {})}
    evaluate(suite, Settings(CLASS, options, CONCURRENCY, smoke=True), folder=folder)


def rows_of(folder: Path) -> list[LimitRow]:
    """Return a row a limit of the episodes that lie in a folder."""
    run = open_run(folder)
    return limit_rows([("", run.suite, run.numbers())])


def value_of(row: LimitRow, name: str) -> float | None:
    """Return a figure of an agent under a limit; None where it is not known."""
    if name == "turns":
        return row.turns
    rate = getattr(row, name)
    return None if rate is None else float(rate.value)


def values(rows: Rows, name: str, limit: int) -> dict[int, float]:
    """Return a figure under a limit by seed, where it is known."""
    by_seed = {seed: value_of(row, name) for seed, table in rows.items() for row in table if row.free_turns == limit}
    return {seed: value for seed, value in by_seed.items() if value is not None}


def limits_of(by_agent: Mapping[str, Rows]) -> list[int]:
    """Return the limits that were played."""
    return sorted({row.free_turns for rows in by_agent.values() for table in rows.values() for row in table})


def turns_table(by_agent: Mapping[str, Rows]) -> dict[str, Any]:
    """Return, by agent, figure and free turns, the seeds' values with their mean and interval."""
    return {
        agent: {
            name: {str(limit): over_seeds(got) for limit in limits_of(by_agent) if (got := values(rows, name, limit))}
            for name, _, _ in PANELS
        }
        for agent, rows in by_agent.items()
    }


def differences(by_agent: Mapping[str, Rows]) -> dict[str, Any]:
    """Return, by pair of agents, figure and free turns, how far the first is above the second over seeds."""
    gaps: dict[str, Any] = {}
    for one, other in DIFFERENCES:
        table = gaps[f"{one} - {other}"] = {name: dict[str, Any]() for name, _, _ in PANELS}
        for name, rows in table.items():
            for limit in limits_of(by_agent):
                gap = lead_over_seeds(values(by_agent[other], name, limit), values(by_agent[one], name, limit))
                if gap is not None:
                    rows[str(limit)] = gap
    return gaps


def draw(by_agent: Mapping[str, Rows], path: Path) -> None:
    """Draw accuracy, abstention, wrong answers and turns against free turns: a thin line a seed, a thick one for the mean."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    title = "Generated law, tiny models: trained at 2, 4 and 10 free turns, and before reinforcement"
    figure.suptitle(f"{title}\n\n", fontsize=13, x=0.01, ha="left")
    count = max(map(len, by_agent.values()))
    note = f"Thin: one seed each ({count}); thick: their mean. No bars: intervals over seeds stand with the figures."
    figure.text(0.01, 1 - 0.4 / figure.get_figheight(), note, fontsize=9, va="top", color="#444444")
    axes = figure.subplots(1, len(PANELS))
    for axis, (name, label, scale) in zip(axes, PANELS, strict=True):
        for agent, rows in by_agent.items():
            draw_agent(axis, agent, rows, name, scale)
        axis.set_title(label + (", %" if scale == 100 else ""), fontsize=10, loc="left")
        axis.set_xlabel("free turns before the forced answer", fontsize=9)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.25)
        axis.tick_params(labelsize=8)
    lines, names = axes[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower left", ncols=len(names), fontsize=9, frameon=False)
    figure.savefig(path, dpi=110)


def draw_agent(axis: Any, agent: str, rows: Rows, name: str, scale: float) -> None:
    """Draw a figure of an agent: its seeds, and their mean where they have it."""
    colour, dashes = STYLES[agent]
    by_limit = {limit: got for limit in limits_of({agent: rows}) if (got := values(rows, name, limit))}
    for seed in rows:
        line = [(limit, scale * got[seed]) for limit, got in by_limit.items() if seed in got]
        axis.plot([x for x, _ in line], [y for _, y in line], color=colour, alpha=0.35, lw=0.8)
    means = [scale * sum(got.values()) / len(got) for got in by_limit.values()]
    axis.plot(list(by_limit), means, color=colour, ls=dashes, lw=2.2, marker="o", ms=4, label=LABELS[agent])


def train_and_sweep(runs: Path, seed: int, suite: Suite) -> None:
    """Train the agents of a seed and sweep them and their start, where that is not done."""
    folders = run_folders(runs, seed)
    for name, preset in PRESETS.items():
        run_training("grpo", ("--preset", preset), seed, folders[name])
    starts = [Agent("base", folders["10 turns"], start=True)]
    for agent in [*starts, *(Agent(name, folder) for name, folder in folders.items())]:
        sweep(agent, suite, sweep_folder(runs, agent.name, seed))


def read(runs: Path, seed: int) -> tuple[dict[str, Any], dict[str, list[LimitRow]]]:
    """Return the results of a seed's runs and the rows of its agents, and print them."""
    results: dict[str, Any] = {}
    for name, folder in run_folders(runs, seed).items():
        result = results[name] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        print(f"{name} seed {seed}: {percent(result['before'])} -> {percent(result['after'])}")
    rows = {name: rows_of(sweep_folder(runs, name, seed)) for name in AGENTS}
    for name, table in rows.items():
        accuracies = ", ".join(f"{row.free_turns}: {100 * row.success.value:.0f}" for row in table)
        print(f"{name} seed {seed}, accuracy by free turns: {accuracies}", flush=True)
    return results, rows


def write(out: Path, results: Mapping[int, dict[str, Any]], by_agent: Mapping[str, Rows]) -> None:
    """Print the differences, write the figures, and draw the chart."""
    fields = ("seed", "before", "after", "gain", "steps", "env_steps", "sampled_tokens", "cpu_seconds")
    gaps = differences(by_agent)
    for pair, table in gaps.items():
        print(f"{pair}, accuracy by free turns, in points (Student's interval over seeds):")
        for limit, row in table["success"].items():
            print(f"  {limit:>2}: {points(row)}")
    table = {
        "about": about("python -m benchmarks.legal_learn --out benchmarks/results/legal_learn.json") | {"bars": BARS},
        "runs": {
            name: {
                "command": f"python -m trainers.grpo --preset {preset}",
                "seeds": [{key: row[name][key] for key in fields} for row in results.values()],
            }
            for name, preset in PRESETS.items()
        },
        "turns": turns_table(by_agent),
        "differences": gaps,
        "seeds": {
            name: {str(seed): [row.to_json() for row in table] for seed, table in rows.items()}
            for name, rows in by_agent.items()
        },
    }
    out.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    draw(by_agent, out.with_suffix(".png"))


def main() -> None:
    """Train, sweep, print, write the figures, and draw the chart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="default: 0 1 2")
    parser.add_argument("--tasks", type=int, default=150, help="test tasks under each limit (default 150)")
    parser.add_argument("--runs", type=Path, default=Path("runs/legal-learn"), help="where the runs are kept")
    parser.add_argument("--finished", action="store_true", help="start nothing: take the seeds that have ended")
    parser.add_argument("--out", type=Path, help="write the figures here, and the chart beside it")
    args = parser.parse_args()
    seeds: Sequence[int] = [seed for seed in args.seeds if not args.finished or has_ended(args.runs, seed)]
    settings = load_preset(GRPOSettings, "grpo", "tiny-legal")
    arguments = json.loads(settings.env.arguments)
    suite = adhoc_suite(Choice("LegalSearch", arguments, "test", args.tasks, turn_limits=LIMITS))
    results: dict[int, dict[str, Any]] = {}
    by_agent: dict[str, Rows] = {name: {} for name in AGENTS}
    for seed in seeds:
        if not args.finished:
            train_and_sweep(args.runs, seed, suite)
        results[seed], rows = read(args.runs, seed)
        for name, table in rows.items():
            by_agent[name][seed] = table
    if args.out and results:
        write(args.out, results, by_agent)


if __name__ == "__main__":
    end_trainers_with_us()
    main()
