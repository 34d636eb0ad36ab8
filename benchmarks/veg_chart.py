"""The chart of benchmarks/veg_learn.py: accuracy with feedback and without, and token entropy, against environment steps."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

Curve = Sequence[Sequence[float]]

PANELS = (
    ("eval/success", "held-out accuracy, as it is trained"),
    ("eval_bare/success", "held-out accuracy without feedback"),
    ("entropy", "token entropy, nats"),
)
COLOURS = ("#1f5fa8", "#c8500a", "#2b8a3e", "#8250df", "#6e7781")


def draw(found: dict[str, list[dict[str, Any]]], path: Path, title: str) -> None:
    """Draw a line for each experiment, the mean over its seeds, and a thin one for each seed.

    Args:
        found: of each experiment, what `figures_of` returns for its seeds.
        path: of the picture.
        title: above all panels.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0 * len(PANELS), 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    seeds = max(len(rows) for rows in found.values())
    figure.suptitle(f"{title} (thin: {seeds} seeds; thick: their mean)", fontsize=11, x=0.01, ha="left")
    for axis, (metric, label) in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
        for colour, (name, rows) in zip(COLOURS, found.items(), strict=False):
            curves = [curve for row in rows if (curve := curve_of(row, metric))]
            for curve in curves:
                axis.plot(*zip(*curve, strict=True), color=colour, alpha=0.3, lw=0.7)
            if mean := mean_of(curves):
                axis.plot(*zip(*mean, strict=True), color=colour, lw=2.0, label=name)
        axis.set_title(label, fontsize=10, loc="left")
        axis.set_xlabel("environment steps", fontsize=9)
        axis.grid(alpha=0.25)
        axis.tick_params(labelsize=8)
    figure.axes[0].legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)


def curve_of(row: dict[str, Any], metric: str) -> Curve:
    """Return a curve of a run; without wrappers around the environment the bare one is that which is trained in."""
    curve: Curve = row["curves"].get(metric) or []
    return curve or (row["curves"]["eval/success"] if metric == "eval_bare/success" else [])


def mean_of(curves: Sequence[Curve], points: int = 60) -> list[tuple[float, float]]:
    """Return the mean of curves over the range that all of them have, each smoothed over a twentieth of its points."""
    if not curves:
        return []
    low, high = max(curve[0][0] for curve in curves), min(curve[-1][0] for curve in curves)
    places = [low + (high - low) * number / (points - 1) for number in range(points)]
    lines = [smooth(curve) for curve in curves]
    return [(place, sum(value_at(line, place) for line in lines) / len(lines)) for place in places]


def smooth(curve: Curve) -> list[tuple[float, float]]:
    """Return means over a twentieth of the points around each; short curves stay as they are."""
    half = len(curve) // 40
    parts = [curve[max(0, place - half) : place + half + 1] for place in range(len(curve))]
    return [(float(curve[place][0]), sum(y for _, y in part) / len(part)) for place, part in enumerate(parts)]


def value_at(curve: Sequence[tuple[float, float]], place: float) -> float:
    """Return the value of a curve between its points."""
    for (left, low), (right, high) in zip(curve, curve[1:], strict=False):
        if place <= right:
            share = (place - left) / max(1e-9, right - left)
            return low + (high - low) * min(1.0, max(0.0, share))
    return curve[-1][1]
