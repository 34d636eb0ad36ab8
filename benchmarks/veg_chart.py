"""The charts of benchmarks/veg_learn.py show held-out accuracy and token entropy over training, as the paper's Figure 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Curve = Sequence[Sequence[float]]

PANELS = (
    ("eval/success", "held-out accuracy, as it is trained", 100, "%"),
    ("eval_bare/success", "held-out accuracy, without feedback", 100, "%"),
    ("entropy", "entropy of sampled tokens, in training", 1, "nats a token"),
)
# Okabe and Ito's colours, which colour-blind readers tell apart; dashes tell them apart in grey.
STYLES = {
    "grpo": ("GRPO, no feedback", "#000000", "-"),
    "veg": ("VEG, epsilon 0.1, good", "#0072B2", "-"),
    "veg-0.5": ("VEG, epsilon 0.5, good", "#E69F00", "--"),
    "veg-0.9": ("VEG, epsilon 0.9, good", "#009E73", "-."),
    "veg-weak": ("VEG, epsilon 0.1, weak", "#D55E00", "--"),
    "sparse-grpo": ("GRPO, no feedback", "#000000", "-"),
    "sparse-veg": ("VEG, epsilon 0.1, good", "#0072B2", "-"),
}
NOTE = (
    "Thin: one seed; thick: the mean of the seeds over the range that all have. Entropy is smoothed over a twentieth of the "
    "steps. Dotted: test success of an agent that only does what good hints say."
)


@dataclass(frozen=True)
class ChartSpec:
    """The title and rows of a group's picture.

    Attributes:
        title: above all panels.
        rows: of panels: a title, and the experiments that are drawn in it.
    """

    title: str
    rows: tuple[tuple[str, tuple[str, ...]], ...]


PICTURES = {
    "searchqa": ChartSpec(
        "VEG beside GRPO on Search QA, tiny models",
        (
            ("How often feedback explores", ("grpo", "veg", "veg-0.5", "veg-0.9")),
            ("How good feedback is", ("grpo", "veg-weak", "veg")),
        ),
    ),
    "sparse": ChartSpec(
        "VEG beside GRPO where reward is rare, tiny models that their start has taught to heed feedback",
        (("Search QA, two hops", ("sparse-grpo", "sparse-veg")),),
    ),
}


def draw(experiments: dict[str, list[dict[str, Any]]], path: Path, picture: ChartSpec, script: float) -> None:
    """Draw a line for each experiment, the mean over its seeds, and a thin one for each seed.

    Args:
        experiments: of each one, what `figures_of` returns for its seeds.
        path: of the file.
        picture: what it says and shows.
        script: success of following good hints word for word.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [(title, [name for name in names if name in experiments]) for title, names in picture.rows]
    rows = [(title, names) for title, names in rows if names]
    figure = Figure(figsize=(15.5, 0.9 + 3.9 * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{picture.title}\n\n", fontsize=13, x=0.01, ha="left")
    figure.text(0.01, 1 - 0.4 / figure.get_figheight(), NOTE, fontsize=9, va="top", color="#444444")
    parts = figure.subfigures(len(rows), 1, squeeze=False)[:, 0]
    for part, (title, names) in zip(parts, rows, strict=True):
        draw_row(part, title, {name: experiments[name] for name in names}, script)
    figure.savefig(path, dpi=110)


def draw_row(part: Any, title: str, experiments: dict[str, list[dict[str, Any]]], script: float) -> None:
    """Draw the panels of some experiments, with their legend beside."""
    part.suptitle(title, fontsize=11, x=0.01, ha="left")
    axes = part.subplots(1, len(PANELS), sharex=True)
    for axis, (metric, label, scale, unit) in zip(axes, PANELS, strict=True):
        for name, rows in experiments.items():
            draw_line(axis, [curve_of(row, metric) for row in rows], scale, STYLES[name])
        if metric == "eval/success":
            axis.axhline(100 * script, color="#555555", lw=1.5, ls=":", label="the script alone")
        axis.set_title(label, fontsize=10, loc="left")
        axis.set_xlabel("environment steps", fontsize=9)
        axis.set_ylabel(unit, fontsize=9)
        axis.set_ylim(0, 100 if scale == 100 else None)
        axis.set_xlim(left=0)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axis.grid(alpha=0.25)
        axis.tick_params(labelsize=8)
    part.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=9, frameon=False)


def draw_line(axis: Any, curves: Sequence[Curve], scale: float, style: tuple[str, str, str]) -> None:
    """Draw the curves of the seeds of an experiment and their mean; the legend says how many seeds there are."""
    label, colour, dashes = style
    lines = [smooth(curve) for curve in curves if curve]
    for curve in lines:
        axis.plot([x for x, _ in curve], [scale * y for _, y in curve], color=colour, alpha=0.35, lw=0.8)
    mean = mean_of(lines)
    legend = f"{label} ({len(lines)} seed{'s' * (len(lines) > 1)})"
    axis.plot([x for x, _ in mean], [scale * y for _, y in mean], color=colour, ls=dashes, lw=2.2, label=legend)


def curve_of(row: dict[str, Any], metric: str) -> Curve:
    """Return a curve of a run; without wrappers its bare and its training environment are the same."""
    curve: Curve = row["curves"].get(metric) or []
    return curve or (row["curves"]["eval/success"] if metric == "eval_bare/success" else [])


def mean_of(curves: Sequence[Curve], points: int = 60) -> list[tuple[float, float]]:
    """Return the mean of curves over the range that all of them have; [] without curves."""
    if not curves:
        return []
    low, high = max(curve[0][0] for curve in curves), min(curve[-1][0] for curve in curves)
    places = [low + (high - low) * number / (points - 1) for number in range(points)]
    return [(place, sum(value_at(curve, place) for curve in curves) / len(curves)) for place in places]


def smooth(curve: Curve) -> list[tuple[float, float]]:
    """Return means over a twentieth of the points around each; short curves stay as they are."""
    half = len(curve) // 40
    parts = [curve[max(0, place - half) : place + half + 1] for place in range(len(curve))]
    return [(float(curve[place][0]), sum(y for _, y in part) / len(part)) for place, part in enumerate(parts)]


def value_at(curve: Curve, place: float) -> float:
    """Return the value of a curve between its points; at its ends beyond them."""
    for (left, low), (right, high) in zip(curve, curve[1:], strict=False):
        if place <= right:
            share = (place - left) / max(1e-9, right - left)
            return low + (high - low) * min(1.0, max(0.0, share))
    return curve[-1][1]
