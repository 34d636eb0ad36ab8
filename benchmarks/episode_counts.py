"""The test episodes of trained policies are counted, for EARL's Table 4 and its Figures 5 and 6 of the runs of a sweep.

Each run keeps success, sampled tokens and the environment's counts of every test episode. Table 4 here is of all episodes of
every method. The released analysis mixes populations: episodes that solved their task for EARL, failed ones on tasks that EARL
solved for the prompted methods, all for SFT; that table stands beside ours under the release's name.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_envs.base.errors import MissingExtra
from trainers.evaluation import EPISODES_FILE
from trainers.figures.learning_curves import Rows, mean_curve, points, smooth, smoothing

EARL = "ExpA+CPO"
_OTHERS = ("success", "tokens")
Episodes = Mapping[str, Mapping[str, float]]  # by task
Method = Mapping[str, Episodes]  # by seed


def read_episodes(folder: Path) -> dict[str, dict[str, float]]:
    """Read the counts of a run's last test episodes, by task; {} where there are none."""
    path = folder / EPISODES_FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines]
    return {row.pop("task"): row for row in rows}


def table_4(methods: Mapping[str, Method]) -> str:
    """Return both tables of what methods' episodes hold, as Markdown; "" where nothing was counted."""
    counted = {
        row for method in methods.values() for episodes in method.values() for row in episodes.values() for row in row
    }
    names = sorted(counted - set(_OTHERS))
    if not names:
        return ""
    every = {row: _pool_seeds(method.values()) for row, method in methods.items()}
    released = {row: _released_subset(row, method, methods.get(EARL, {})) for row, method in methods.items()}
    parts = [
        ("All test episodes of every method (the paper's Table 4, one population)", every),
        (
            f"As the release counts: {EARL} where it succeeded, Prompt where it failed on what {EARL} solved, SFT all",
            released,
        ),
    ]
    return "\n\n".join(f"{title}:\n\n{_table(rows, names)}" for title, rows in parts)


def _released_subset(row: str, method: Method, earl: Method) -> list[Mapping[str, float]]:
    """Return the episodes that the released analysis looks at: all, the solved ones, or failures on tasks that EARL solves."""
    if row.startswith("SFT"):
        return _pool_seeds(method.values())
    if row.startswith("ExpA"):
        return [counts for counts in _pool_seeds(method.values()) if counts["success"]]
    solved = {seed: {task for task, counts in episodes.items() if counts["success"]} for seed, episodes in earl.items()}
    return [
        counts
        for seed, episodes in method.items()
        for task, counts in episodes.items()
        if not counts["success"] and task in solved.get(seed, ())
    ]


def _pool_seeds(seeds: Any) -> list[Mapping[str, float]]:
    """Return the counts of all episodes of all seeds in one list."""
    return [counts for episodes in seeds for counts in episodes.values()]


def _table(rows: Mapping[str, Sequence[Mapping[str, float]]], names: Sequence[str]) -> str:
    """Write a Markdown table of mean counts by method."""
    lines = [f"| method | episodes | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for row, episodes in rows.items():
        means = [f"{statistics.mean(counts[name] for counts in episodes):.2f}" if episodes else "" for name in names]
        lines.append(f"| {row} | {len(episodes)} | {' | '.join(means)} |")
    return "\n".join(lines)


def draw_figures(methods: Mapping[str, Method], curves: Mapping[str, Sequence[Rows]], out: Path) -> list[Path]:
    """Draw OUT/lengths.png, tokens of right episodes by method (Figure 5), and OUT/rewards.png, reward by step (Figure 6).

    Args:
        methods: test episodes by row of the table and seed.
        curves: metrics by row of the table, of each seed.
        out: the folder of a sweep.

    Returns:
        The pictures that there was something for.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    lengths = {
        row: sorted(counts["tokens"] for counts in _pool_seeds(method.values()) if counts["success"])
        for row, method in methods.items()
    }
    lengths = {row: tokens for row, tokens in lengths.items() if tokens}
    rewards = {row: [points(rows, "reward") for rows in seeds] for row, seeds in curves.items()}
    rewards = {row: seeds for row, seeds in rewards.items() if any(seeds)}
    paths = []
    if lengths:
        paths.append(
            _save(out / "lengths.png", "Sampled tokens of episodes that solved their task", _draw_lengths, lengths)
        )
    if rewards:
        paths.append(_save(out / "rewards.png", "Training reward by step", _draw_rewards, rewards))
    return paths


def _save(path: Path, title: str, draw: Any, values: Any) -> Path:
    """Draw a picture into a file and return its path; MissingExtra without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "train", "a picture of a sweep") from error
    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    draw(axis, values)
    axis.set_title(title, fontsize=11, loc="left")
    axis.grid(alpha=0.25)
    figure.savefig(path, dpi=110)
    return path


def _draw_lengths(axis: Any, lengths: Mapping[str, Sequence[float]]) -> None:
    """Draw a box a method: the quartiles, and all that lies within 1.5 times their distance."""
    names = [f"{row} ({len(tokens)})" for row, tokens in lengths.items()]
    axis.boxplot(list(lengths.values()), orientation="horizontal", showfliers=False)
    axis.set_yticks(range(1, len(names) + 1), names, fontsize=9)
    axis.set_xlabel("tokens", fontsize=9)


def _draw_rewards(axis: Any, rewards: Mapping[str, Sequence[Sequence[tuple[float, float]]]]) -> None:
    """Draw the mean over seeds; methods with counterfactuals as solid lines, the others dotted, as the paper has them."""
    for row, seeds in rewards.items():
        mean = mean_curve(seeds)
        values = smooth([value for _, value in mean], smoothing(len(mean)))
        axis.plot([step for step, _ in mean], values, "-" if "CPO" in row else ":", label=row)
    axis.set_xlabel("step", fontsize=9)
    axis.legend(fontsize=8)
