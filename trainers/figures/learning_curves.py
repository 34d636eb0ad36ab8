"""Learning curves are drawn as a picture: a panel a metric, seeds thin, their mean thick, evaluations with intervals."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_envs.base.errors import MissingExtra, UsageError

Rows = Sequence[dict[str, float]]

PANELS = (
    *("eval/success", "reward", "loss", "kl", "entropy", "explained_variance", "frac_reward_zero_std"),
    *("completions/mean_length", "turns", "valid_actions", "tools/search", "clip_ratio/region_mean", "grad_norm"),
)
_COLUMNS = 3
_BLUE, _ORANGE = "#1f5fa8", "#c8500a"


def plot_curves(seeds: Sequence[Rows], path: Path, panels: Sequence[str] = PANELS, title: str = "") -> None:
    """Draw the metrics of one or several seeds into a PNG, without those that no row has; UsageError if none is left.

    Args:
        seeds: of each, the rows that `read_metrics` returns.
        path: of the picture; its folder is made.
        panels: names of metrics; those that no row has are left out.
        title: above all panels.

    Raises:
        UsageError: no row has any of the metrics.
        MissingExtra: matplotlib is not installed.
    """
    there = [name for name in panels if any(name in row for rows in seeds for row in rows)]
    if not there:
        raise UsageError(f"no metrics to draw: none of {', '.join(panels)} is in the rows")
    figure, axes = _grid(len(there))
    figure.suptitle(
        "\n".join(filter(None, [title, _legend(seeds, there)])), fontsize=11, x=0.01, y=0.99, ha="left", va="top"
    )
    for axis, name in zip(axes, there, strict=True):
        _draw_panel(axis, seeds, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _grid(count: int) -> tuple[Any, list[Any]]:
    """Make a figure with `count` panels in a grid; the rest of the grid is invisible. MissingExtra without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "train", "a picture of the curves") from error
    columns = min(_COLUMNS, count)
    lines = math.ceil(count / columns)
    # Margins in inches: matplotlib's own layout, which measures every text, takes as long as the drawing.
    width, height = 4.2 * columns, 2.7 * lines + 0.7
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    panel = (width - 0.8 - 0.7 * (columns - 1)) / columns, (height - 1.45 - 0.8 * (lines - 1)) / lines
    edges = {"left": 0.65 / width, "right": 1 - 0.15 / width, "bottom": 0.5 / height, "top": 1 - 0.95 / height}
    gaps = {"wspace": 0.7 / panel[0], "hspace": 0.8 / panel[1]}
    axes = figure.subplots(lines, columns, squeeze=False, gridspec_kw=edges | gaps).flatten()
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, list(axes[:count])


def _legend(seeds: Sequence[Rows], names: Sequence[str]) -> str:
    """Compose the figure's legend: thin and thick lines, the smoothing window, interval bars; "" without any of them."""
    plain = [name for name in names if not _has_intervals(seeds, name)]
    window = max((smoothing(len(points(rows, name))) for rows in seeds for name in plain), default=1)
    over = f" over {window} steps" if window > 1 else ""
    words = []
    if len(seeds) > 1:
        words.append(f"thin: {len(seeds)} seeds; thick: their mean{over}")
    elif over:
        words.append(f"thin: each step; thick: mean{over}")
    if len(plain) < len(names):
        words.append("bars: intervals of evaluations")
    return "; ".join(words)


def _draw_panel(axis: Any, seeds: Sequence[Rows], name: str) -> None:
    """Draw one metric: each seed's raw curve or interval bars, and over them the seeds' mean, smoothed where it has no bars."""
    measured = _has_intervals(seeds, name)
    apart = 0.008 * max((row["step"] for rows in seeds for row in rows), default=1)  # bars side by side
    for number, rows in enumerate(seeds):
        curve = points(rows, name)
        x, y = [step for step, _ in curve], [value for _, value in curve]
        if measured:
            low = [max(0.0, row[name] - row[f"{name}_low"]) for row in rows if name in row and f"{name}_low" in row]
            high = [max(0.0, row[f"{name}_high"] - row[name]) for row in rows if name in row and f"{name}_high" in row]
            shifted = [step + apart * (number - (len(seeds) - 1) / 2) for step in x]
            axis.errorbar(shifted, y, [low, high], color=_ORANGE, alpha=0.45, marker="o", ms=3, lw=0.8, capsize=2)
        else:
            axis.plot(x, y, color=_BLUE, alpha=0.35, lw=0.8, marker="o" if len(x) < 3 else None, ms=3)
    mean = mean_curve([points(rows, name) for rows in seeds])
    window = 1 if measured else smoothing(len(mean))
    steps = [step for step, _ in mean]
    axis.plot(steps, smooth([value for _, value in mean], window), color=_ORANGE if measured else _BLUE, lw=2.2)
    axis.set_title(name, fontsize=10, loc="left")
    axis.set_xlabel("step", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.25)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _has_intervals(seeds: Sequence[Rows], name: str) -> bool:
    """Return whether every value of a metric has its interval."""
    metric_rows = [row for rows in seeds for row in rows if name in row]
    return all(f"{name}_low" in row and f"{name}_high" in row for row in metric_rows)


def points(rows: Rows, name: str) -> list[tuple[float, float]]:
    """Return the steps and values of a metric, where it is there."""
    return [(row["step"], row[name]) for row in rows if name in row]


def mean_curve(curves: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """Return the mean over seeds at the steps that all of them have (those that have any point at all)."""
    tables = [dict(curve) for curve in curves if curve]
    shared = set.intersection(*(set(table) for table in tables)) if tables else set()
    return [(step, sum(table[step] for table in tables) / len(tables)) for step in sorted(shared)]


def smoothing(count: int) -> int:
    """Return the window for smoothing a curve of so many points: a twentieth of them, 1 for fewer than 40."""
    return max(1, count // 20)


def smooth(values: Sequence[float], window: int) -> list[float]:
    """Return means over a window around each value, over what there is of it at the ends."""
    before, after = window // 2, (window + 1) // 2
    parts = [values[max(0, place - before) : place + after] for place in range(len(values))]
    return [sum(part) / len(part) for part in parts]
