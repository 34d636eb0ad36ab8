"""The chart of benchmarks/scaling.py shows small multiples with logarithmic axes, as one SVG for light and dark pages."""

import math
from collections.abc import Sequence
from typing import TypeAlias

Point: TypeAlias = tuple[float, float]

PANELS = (
    ("build_cpu_seconds", "Build", "CPU-seconds"),
    ("build_peak_rss_mb", "Peak memory of the build", "MB (resident)"),
    ("query_p50_ms", "Query, median", "milliseconds"),
)
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #424a53 }
.title { font-weight: 600; font-size: 13px }
.grid { stroke: #d0d7de; stroke-width: 1 } .axis { stroke: #6e7781; stroke-width: 1 }
.line { fill: none; stroke-width: 2 }
.s0 { --c: #0969da } .s1 { --c: #bc4c00 } .s2 { --c: #1a7f37 }
.line { stroke: var(--c) } .mark { fill: var(--c) }
@media (prefers-color-scheme: dark) {
text { fill: #c9d1d9 } .grid { stroke: #30363d } .axis { stroke: #8b949e }
.s0 { --c: #58a6ff } .s1 { --c: #ff9b50 } .s2 { --c: #4ac26b }
}
"""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 300, 270, 62, 14, 34, 46
LEGEND = 28


def chart_svg(results: dict[str, dict[str, dict[str, float]]]) -> str:
    """Draw each figure over the number of passages, one line an engine."""
    names = [name for name, by_size in results.items() if by_size]
    panels = []
    for place, (figure, title, unit) in enumerate(PANELS):
        series = [
            sorted((float(size), row[figure]) for size, row in results[name].items() if row[figure] > 0)
            for name in names
        ]
        panels.append(f'<g transform="translate({place * WIDTH} {LEGEND})">{_panel(series, title, unit)}</g>')
    width, height = WIDTH * len(PANELS), HEIGHT + LEGEND
    label = "Build time, peak memory and query time of each engine over the number of passages"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" viewBox="0 0 {width} {height}"'
    body = f"<style>{STYLE}</style>{_legend(names)}{''.join(panels)}"
    return f'{head} width="{width}" height="{height}">{body}</svg>\n'


def _legend(names: Sequence[str]) -> str:
    """Draw the legend: a line and a mark for each engine."""
    parts = []
    for number, name in enumerate(names):
        left = LEFT + 130 * number
        parts.append(f'<g class="s{number}"><path class="line" d="M{left} 16h28"/>{_mark(number, left + 14, 16)}</g>')
        parts.append(f'<text x="{left + 36}" y="20">{name}</text>')
    return "".join(parts)


def _panel(series: Sequence[Sequence[Point]], title: str, unit: str) -> str:
    """Draw one panel with logarithmic axes as SVG; "" without points."""
    points = [point for line in series for point in line]
    if not points:
        return ""
    x_range, y_range = (_decades([point[axis] for point in points]) for axis in (0, 1))
    right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM

    def place(point: Point) -> Point:
        """Return the place of a point in the panel, on logarithmic axes."""
        x, y = (math.log10(value) for value in point)
        across = (x - x_range[0]) / (x_range[1] - x_range[0])
        up = (y - y_range[0]) / (y_range[1] - y_range[0])
        return LEFT + across * (right - LEFT), floor - up * (floor - TOP)

    parts = [f'<text class="title" x="{LEFT}" y="20">{title}</text>']
    for power in range(y_range[0], y_range[1] + 1):
        y = place((10 ** x_range[0], 10**power))[1]
        kind = "axis" if power == y_range[0] else "grid"
        parts.append(f'<path class="{kind}" d="M{LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(power)}</text>')
    for power in range(x_range[0], x_range[1] + 1):
        x = place((10**power, 10 ** y_range[0]))[0]
        parts.append(f'<path class="axis" d="M{x:.1f} {floor}v5"/>')
        parts.append(f'<text x="{x:.1f}" y="{floor + 18}" text-anchor="middle">{_number(power)}</text>')
    middle = (TOP + floor) / 2
    parts.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">passages</text>')
    parts.append(f'<text transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">{unit}</text>')
    for number, line in enumerate(series):
        places = [place(point) for point in line]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<g class="s{number}">' + (f'<path class="line" d="M{path}"/>' if len(places) > 1 else ""))
        parts.append("".join(_mark(number, x, y) for x, y in places) + "</g>")
    return "".join(parts)


def _mark(number: int, x: float, y: float) -> str:
    """Return a series' sign, which tells it apart without its colour."""
    if number == 0:
        return f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    path = "m-4 -4h8v8h-8z" if number == 1 else "m0 -5l5 9h-10z"
    return f'<path class="mark" d="M{x:.1f} {y:.1f}{path}"/>'


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Return the powers of ten around values, at least one decade apart."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _number(power: int) -> str:
    """Return a power of ten as text, with k for thousands and M for millions."""
    if power >= 6:
        return f"{10 ** (power - 6)}M"
    return f"{10 ** (power - 3)}k" if power >= 3 else f"{10.0**power:g}"
