"""Do more turns in training teach to use more turns? GRPO on generated law, trained at 4 and at 10 free turns, and its start.

    python -m benchmarks.legal_learn --out benchmarks/results/legal_learn.json

After "Reinforcement Learning for Long-Horizon Multi-Turn Search Agents" (arXiv 2510.24126, turn-restricted evaluation), on
models made from nothing. A seed is `python -m trainers.grpo --preset tiny-legal`, and `--preset tiny-legal-4`, which begin
with the same weights. The base (those weights) and both agents are then played on test tasks with 0 to 10 free turns before
the answer is forced, as `agent-envs eval LegalSearch --turn-limits` does; 0 is naive RAG. A run that ended is not repeated.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_envs.evaluation.episodes import EpisodeNumbers
from agent_envs.evaluation.evaluate import evaluate
from agent_envs.evaluation.plan import Choice, adhoc_suite
from agent_envs.evaluation.run_folder import Settings, open_run
from agent_envs.evaluation.suite import Suite
from agent_envs.evaluation.turn_limits import LimitedRun, LimitRow, limit_rows
from benchmarks.training_runs import about, percent, trained
from trainers.command_line import load_preset
from trainers.grpo import GRPOSettings

LIMITS = (0, 1, 2, 3, 4, 6, 8, 10)
PRESETS = {"10 turns": "tiny-legal", "4 turns": "tiny-legal-4"}
CLASS = "trainers.trained_agent:TrainedAgent"
CONCURRENCY = 96
PANELS = (
    ("success", "accuracy", 100),
    ("abstained", "abstained", 100),
    ("wrong", "wrong", 100),
    ("turns", "turns, the answer included", 1),
)
COLOURS = {"base": "#6e7781", "4 turns": "#c8500a", "10 turns": "#1f5fa8"}


@dataclass(frozen=True)
class Agent:
    """Who is played: the start of a run or its end."""

    name: str
    folder: Path
    start: bool = False


def swept(agent: Agent, suite: Suite, folder: Path) -> list[EpisodeNumbers]:
    """Play an agent under all limits, or go on with it, and return the numbers of its episodes."""
    options: dict[str, Any] = {"folder": str(agent.folder), **({"start": True} if agent.start else {})}
    evaluate(suite, Settings(CLASS, options, CONCURRENCY, smoke=True), folder=folder)
    return open_run(folder).numbers()


def rows_of(name: str, suite: Suite, numbers: Sequence[EpisodeNumbers]) -> list[LimitRow]:
    """Return a row a limit; the episodes of several seeds count as trials of their task."""
    return limit_rows([LimitedRun(name, suite, numbers)])


def draw(found: dict[str, list[LimitRow]], path: Path) -> None:
    """Draw accuracy, abstention, wrong answers and turns against free turns, a line an agent, with intervals."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    title = "Generated law, tiny models: trained at 4 and at 10 free turns, and before reinforcement"
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    for axis, (figure_name, label, scale) in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
        for shift, (name, rows) in enumerate(found.items()):
            points = [point_of(row, figure_name, scale) for row in rows]
            x = [row.free_turns + 0.08 * (shift - 1) for row in rows]
            y, low, high = zip(*points, strict=True)
            axis.errorbar(x, y, [low, high], color=COLOURS[name], marker="o", ms=3, lw=1.5, capsize=2, label=name)
        axis.set_title(label + (", %" if scale == 100 else ""), fontsize=10, loc="left")
        axis.set_xlabel("free turns before the forced answer", fontsize=9)
        axis.grid(alpha=0.25)
    figure.axes[0].legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)


def point_of(row: LimitRow, name: str, scale: int) -> tuple[float, float, float]:
    """Return a value, and how far its interval reaches below and above it."""
    if name == "turns":
        value, (low, high) = row.turns or 0.0, row.turns_interval
    else:
        rate = getattr(row, name)
        value, low, high = (0.0, 0.0, 0.0) if rate is None else (rate.value, rate.low, rate.high)
    low, high = (value if bound is None else bound for bound in (low, high))
    return scale * value, scale * max(0.0, value - low), scale * max(0.0, high - value)


def main() -> None:
    """Train, sweep, print, write the figures, and draw the chart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="default: 0 1 2")
    parser.add_argument("--tasks", type=int, default=150, help="test tasks under each limit (default 150)")
    parser.add_argument("--runs", type=Path, default=Path("runs/legal-learn"), help="where the runs are kept")
    parser.add_argument("--out", type=Path, help="write the figures here, and the chart beside it")
    args = parser.parse_args()
    settings = load_preset(GRPOSettings, "grpo", "tiny-legal")
    arguments = json.loads(settings.env.arguments)
    suite = adhoc_suite(Choice("LegalSearch", arguments, "test", args.tasks, turn_limits=LIMITS))
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in PRESETS}
    numbers: dict[str, list[list[EpisodeNumbers]]] = {name: [] for name in ("base", *reversed(PRESETS))}
    for seed in args.seeds:
        folders = {name: args.runs / f"{preset}-{seed}" for name, preset in PRESETS.items()}
        for name, preset in PRESETS.items():
            result = trained("grpo", ("--preset", preset), seed, folders[name])
            runs[name].append(result)
            print(f"{name} seed {seed}: {percent(result['before'])} -> {percent(result['after'])}", flush=True)
        agents = [Agent("base", folders["10 turns"], start=True)]
        agents += [Agent(name, folder) for name, folder in folders.items()]
        for agent in agents:
            folder = args.runs / f"turns-{agent.name.replace(' ', '-')}-{seed}"
            numbers[agent.name].append(swept(agent, suite, folder))
            told = [
                f"{row.free_turns}: {100 * row.success.value:.0f}"
                for row in rows_of("", suite, numbers[agent.name][-1])
            ]
            print(f"{agent.name} seed {seed}, accuracy by free turns: {', '.join(told)}", flush=True)
    if args.out:
        write(args.out, suite, runs, numbers)


def write(
    out: Path, suite: Suite, runs: dict[str, list[dict[str, Any]]], numbers: dict[str, list[list[EpisodeNumbers]]]
) -> None:
    """Write the figures and the chart."""
    rows = {name: rows_of(name, suite, [row for seed in seeds for row in seed]) for name, seeds in numbers.items()}
    kept = ("seed", "before", "after", "gain", "steps", "env_steps", "sampled_tokens", "cpu_seconds")
    table = {
        "about": about("python -m benchmarks.legal_learn --out benchmarks/results/legal_learn.json"),
        "runs": {
            name: {
                "command": f"python -m trainers.grpo --preset {PRESETS[name]}",
                "seeds": [{key: result[key] for key in kept} for result in results],
            }
            for name, results in runs.items()
        },
        "turns": {name: [row.to_json() for row in found] for name, found in rows.items()},
        "by_seed": {
            name: [[round(row.success.value, 4) for row in rows_of(name, suite, seed)] for seed in seeds]
            for name, seeds in numbers.items()
        },
    }
    out.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    draw(rows, out.with_suffix(".png"))


if __name__ == "__main__":
    main()
