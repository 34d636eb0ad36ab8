"""The chart of benchmarks/discrete_ppo.py shows how greedy play changes with training, one panel a figure, as one SVG."""

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.scaling_chart import BOTTOM, HEIGHT, LEFT, RIGHT, STYLE, TOP, WIDTH

PANELS = (
    ("success", "Tasks solved", "share", (0, 0.25, 0.5, 0.75, 1)),
    ("comparisons", "Comparisons", "mean of an episode", (0, 2, 4, 6, 8, 10, 12, 14)),
    ("swaps", "Swaps", "mean of an episode", (0, 2, 4, 6, 8, 10, 12, 14)),
)
MORE_STYLE = """.seed { stroke-width: 1; opacity: .35 } .best { fill: none; stroke: #6e7781; stroke-dasharray: 5 4 }
"""
LEGEND = 28


def chart_svg(result: dict[str, Any]) -> str:
    """Draw one thick line a way (the mean over its seeds), a thin one a seed, and where optimal play stands."""
    panels = [
        f'<g transform="translate({place * WIDTH} {LEGEND})">{_panel(result, *panel)}</g>'
        for place, panel in enumerate(PANELS)
    ]
    width, height = WIDTH * len(PANELS), HEIGHT + LEGEND
    label = "Success, comparisons and swaps of greedy play against training steps"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" viewBox="0 0 {width} {height}"'
    body = f"<style>{STYLE}{MORE_STYLE}</style>{_legend(list(result['runs']))}{''.join(panels)}"
    return f'{head} width="{width}" height="{height}">{body}</svg>\n'


def _legend(names: Sequence[str]) -> str:
    parts, left = [], LEFT
    for number, name in enumerate([*names, "optimal play"]):
        kind = "best" if number == len(names) else "line"
        parts.append(f'<g class="s{number}"><path class="{kind}" d="M{left} 16h28"/></g>')
        parts.append(f'<text x="{left + 36}" y="20">{name}</text>')
        left += 66 + 7 * len(name)
    return "".join(parts)


def _panel(result: dict[str, Any], figure: str, title: str, unit: str, ticks: Sequence[float]) -> str:
    curves = [[run["curve"] for run in runs] for runs in result["runs"].values()]
    most = max(point["steps"] for runs in curves for curve in runs for point in curve)
    right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(steps: float) -> float:
        return float(LEFT + steps / most * (right - LEFT))

    def y(value: float) -> float:
        return float(floor - min(value, ticks[-1]) / ticks[-1] * (floor - TOP))

    def path(points: Sequence[tuple[float, float]], kind: str) -> str:
        return f'<path class="{kind}" d="M' + "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in points) + '"/>'

    parts = [f'<text class="title" x="{LEFT}" y="20">{title}</text>']
    for tick in ticks:
        kind = "axis" if tick == 0 else "grid"
        parts.append(f'<path class="{kind}" d="M{LEFT} {y(tick):.1f}H{right}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for steps in range(0, most + 1, 100_000):
        parts.append(f'<path class="axis" d="M{x(steps):.1f} {floor}v5"/>')
        parts.append(
            f'<text x="{x(steps):.1f}" y="{floor + 18}" text-anchor="middle">{f"{steps // 1000}k" if steps else 0}</text>'
        )
    parts.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">training steps</text>')
    middle = (TOP + floor) / 2
    parts.append(f'<text transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">{unit}</text>')
    best = result["optimum"][figure]
    parts.append(path([(0, best), (most, best)], "best"))
    for number, runs in enumerate(curves):
        lines = [[(point["steps"], point[figure]) for point in curve] for curve in runs]
        mean = [(points[0][0], statistics.mean(value for _, value in points)) for points in zip(*lines, strict=True)]
        drawn = "".join(path(line, "line seed") for line in lines) + path(mean, "line")
        parts.append(f'<g class="s{number}">{drawn}</g>')
    return "".join(parts)
