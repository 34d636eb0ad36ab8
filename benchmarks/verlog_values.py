"""A run of Verlog is looked at: what its critic says along episodes, and what cutting batches at 8 turns does to the gradient.

    python -m trainers.verlog --preset tiny-babyai-goto --seed 18372 --out runs/verlog
    python -m benchmarks.verlog_values runs/verlog --out benchmarks/results/verlog_values.json

The policy and the critic of the run's last checkpoint play a long stretch in lanes, with draws of their own. The same turns
become advantages in two ways: cut at every `e_len` turns, where the critic's value stands in for what follows, and as whole
episodes, cut at the end of the stretch alone. Each way gives a gradient for every batch of n_env x e_len turns, whitened as in
training and without the KL's reward: equal turns, equal environment steps. Told are the mean of them, its direction beside that
of whole episodes, and their variance about it. The chart shows V of a turn's first token by the turn of its episode, of
episodes that ended solved and of others.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.training_runs import about, with_points_on_a_line
from trainers.batching import Row
from trainers.command_line import read_settings
from trainers.fixed_turns import FixedTurns, LanePlan, Point
from trainers.run import TrainingRun, open_run
from trainers.training.critic import Critic
from trainers.training.optimise import Optimiser
from trainers.verlog import Batch, VerlogSettings, judged, update, whitened

OTHER_DRAWS = 1_000_003  # added to the seed of the run: the turns are none that it learnt from


class Gradients:
    """Stands where a run's optimiser does, and keeps each gradient in place of following it."""

    learning_rate = 0.0

    def __init__(self, model: torch.nn.Module) -> None:
        """Take the model, whose weights stay."""
        self.found: list[torch.Tensor] = []
        self._weights = [weight for weight in model.parameters() if weight.requires_grad]

    def step(self, accelerator: Any) -> float:
        """Keep the gradient as one vector, and return its norm."""
        parts = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in self._weights]
        self.found.append(torch.cat([part.flatten() for part in parts]).double())
        for weight in self._weights:
            weight.grad = None
        return float(self.found[-1].norm())


def stretch(run: TrainingRun, settings: VerlogSettings, batches: int) -> list[Batch]:
    """Play so many batches of turns with the weights as they are."""
    lane_plan = LanePlan(
        run.parts.spec, run.parts.train_split, run.parts.train_size, settings.n_env, settings.seed + OTHER_DRAWS
    )
    with FixedTurns(lane_plan, run.parts.policy, run.parts.max_context, run.parts.chat.end_ids[0]) as lanes:
        lanes.open(range(settings.n_env))
        return [lanes.play(settings.e_len)[0] for _ in range(batches)]


def joined(played: Sequence[Batch]) -> Batch:
    """Return the lanes of several batches in one piece: states behind cuts are asked for at its end and at limits alone."""
    lanes = [[point for batch in played for point in batch[lane]] for lane in range(len(played[0]))]
    return [[point if _ends(point, place + 1 == len(lane)) else replace(point, ahead=()) for place, point in enumerate(lane)]
            for lane in lanes]  # fmt: skip


def _ends(point: Point, last: bool) -> bool:
    return last or point.turn.truncated or point.turn.terminated


def by_batch(rows: Sequence[Row], lanes: Batch, e_len: int) -> list[list[Row]]:
    """Return rows, which come lane by lane, as batches of `e_len` turns of every lane."""
    left, found = iter(rows), dict[int, list[Row]]()
    for lane in lanes:
        for place, point in enumerate(lane):
            if not point.empty:
                found.setdefault(place // e_len, []).append(next(left))
    return [found[number] for number in sorted(found)]


def gradients(
    run: TrainingRun, settings: VerlogSettings, critic: Critic, played: Sequence[Batch]
) -> dict[str, list[torch.Tensor]]:
    """Return the gradient of each batch, by the way its turns were cut."""
    whole = joined(played)
    cut = [judged(batch, critic, run, settings)[0] for batch in played]
    ways = {
        f"cut at {settings.e_len} turns": cut,
        "whole episodes": by_batch(judged(whole, critic, run, settings)[0], whole, settings.e_len),
    }
    found: dict[str, list[torch.Tensor]] = {}
    for way, batches in ways.items():
        recorder = Gradients(run.parts.bare)
        run.parts = replace(run.parts, optimiser=recorder)  # type: ignore[arg-type]
        for rows in batches:
            update(whitened(rows, run), run, settings)
        found[way] = recorder.found
    return found


def spread(found: Sequence[torch.Tensor], beside: torch.Tensor) -> dict[str, float]:
    """Return the squared norm of the mean gradient, less what chance adds to it, their variance, and the mean's direction.

    Args:
        found: a gradient a batch.
        beside: the mean gradient that the direction is told against, as a cosine.
    """
    table = torch.stack(list(found))  # (batches, weights)
    mean = table.mean(dim=0)
    variance = float(((table - mean) ** 2).sum() / (len(found) - 1))
    return {
        "mean_squared": float(mean @ mean) - variance / len(found),
        "variance": variance,
        "cosine_of_means": float(mean @ beside / (mean.norm() * beside.norm())),
    }


def along(played: Sequence[Batch], rows: Sequence[Row]) -> dict[str, list[list[tuple[int, float]]]]:
    """Return (turn, V of its first token) along each episode that was seen from its first turn to its end.

    Args:
        played: the batches; lanes go on from one to the next.
        rows: of their turns, lane by lane.
    """
    lanes, left = joined(played), iter(rows)
    found: dict[str, list[list[tuple[int, float]]]] = {"solved": [], "not solved": []}
    for lane in lanes:
        line: list[tuple[int, float]] = []
        for point in lane:
            row = None if point.empty else next(left)
            line = [] if point.turn.index == 1 else line
            if row is not None:
                line.append((point.turn.index, row.more["values"][row.sequence.trained.index(True)]))
            if _ends(point, False) and line and line[0][0] == 1:
                found["solved" if point.turn.reward > 0 else "not solved"].append(line)
    return found


def means_by_turn(lines: Sequence[Sequence[tuple[int, float]]]) -> list[list[float]]:
    """Return [turn, mean V, episodes] for every turn that an episode reached."""
    values: dict[int, list[float]] = {}
    for turn, value in (pair for line in lines for pair in line):
        values.setdefault(turn, []).append(value)
    return [[turn, round(statistics.fmean(found), 4), len(found)] for turn, found in sorted(values.items())]


def draw(lines: dict[str, list[list[tuple[int, float]]]], path: Path) -> None:
    """Draw V along episodes: thin lines of the first 40 of each kind, and their means by turn."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    for (name, found), colour in zip(lines.items(), ("#0072B2", "#D55E00"), strict=True):
        for line in found[:40]:
            axis.plot(*zip(*line, strict=True), color=colour, lw=0.5, alpha=0.35)
        if means := means_by_turn(found):
            turns, values, _ = zip(*means, strict=True)
            axis.plot(turns, values, color=colour, lw=2.2, label=f"{name}: {len(found)} episodes")
    axis.set_xlabel("turn of the episode", fontsize=9)
    axis.set_ylabel("V before the turn's first token", fontsize=9)
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)


def looked_at(folder: Path, batches: int) -> tuple[dict[str, Any], dict[str, list[list[tuple[int, float]]]]]:
    """Return the figures of a run, and V along its episodes."""
    settings = replace(read_settings(VerlogSettings, folder), beta=0.0)
    with open_run(settings, folder, settings.steps * settings.epochs * settings.minibatches) as run:
        critic = Critic(run.parts.bare, settings.critic)
        run.keep("critic", critic, Optimiser(critic, settings.critic.optim, 0))
        played = stretch(run, settings, batches)
        whole = joined(played)
        rows, told = judged(whole, critic, run, settings)
        found = gradients(run, settings, critic, played)
        step = run.step
    mean = torch.stack(found["whole episodes"]).mean(dim=0)
    lines = along(played, rows)
    table = {
        "step": step,
        "seed": settings.seed,
        "batches": batches,
        "turns_a_batch": settings.n_env * settings.e_len,
        "explained_variance_of_whole_episodes": round(told["explained_variance"], 4),
        "gradient": {way: spread(each, mean) for way, each in found.items()},
        "values": {name: means_by_turn(each) for name, each in lines.items()},
    }
    return table, lines


def main() -> None:
    """Look at runs, print, write the figures, and draw the charts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of runs of trainers.verlog with their checkpoints")
    parser.add_argument("--batches", type=int, default=24, help="that are played, of n_env x e_len turns each")
    parser.add_argument("--out", type=Path, help="write the figures here, and a chart a run beside it")
    args = parser.parse_args()
    tables: dict[str, Any] = {}
    for folder in args.runs:
        tables[folder.name], lines = looked_at(folder, args.batches)
        print(folder.name, json.dumps(tables[folder.name]["gradient"], indent=1))
        if args.out:
            draw(lines, args.out.with_name(f"{args.out.stem}-{folder.name}.png"))
    if args.out:
        words = [*(f"runs/{name}" for name in tables), "--batches", str(args.batches)]
        command = f"python -m benchmarks.verlog_values {' '.join(words)} --out benchmarks/results/{args.out.name}"
        text = json.dumps({"about": about(command), "runs": tables}, indent=1)
        args.out.write_text(with_points_on_a_line(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
