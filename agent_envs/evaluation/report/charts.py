"""Tables of texts, rates and drawings; the drawings are inline SVG: a rate with its interval, shares, curves with bands.

They are drawn of numbers only, so that nothing from data is markup. Titles, axis labels and legends are HTML around the
drawing (html/page.html); colours are classes of its style sheet.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from agent_envs.evaluation.statistics.rates import Rate

Point = tuple[float, float, float | None, float | None]

COLOURS = 6
BAR_WIDTH, BAR_HEIGHT, BAR_EDGE = 150, 20, 7
WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 28, 10, 32
UNITS = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))  # from, size, name
MOST_DOTS, MOST_STAIRS = 40, 24
SCALES = (0.05, 0.1, 0.2, 0.5, 1.0)  # of forest plots: points to each side of no difference
GREATEST = 1e150  # beyond it differences overflow


@dataclass(frozen=True, slots=True)
class Bar:
    """A number and its interval, on an axis from `least` to `most`: a rate by default."""

    value: float
    low: float
    high: float
    least: float = 0.0
    most: float = 1.0


@dataclass(frozen=True)
class Forest:
    """The bars of a forest plot: differences on one scale, with no difference in the middle.

    Differences are of any type with `difference`, `low` and `high`, as `statistics.paired.Paired` has them.
    """

    scale: float

    @classmethod
    def over(cls, items: Sequence[Any]) -> "Forest":
        """Return the least of the scales, 0.05 to 1, on which all of these and their intervals have room; 1 where none has."""
        widest = max((abs(end) for item in items for end in (item.low, item.high)), default=1.0)
        return cls(next((scale for scale in SCALES if widest <= scale), 1.0))

    @property
    def head(self) -> str:
        """The column's header."""
        return f"−{100 * self.scale:.0f} to +{100 * self.scale:.0f}"

    def bar(self, item: Any, sign: int = 1) -> Bar:
        """Return one difference; with the sign -1 that of the first minus the second."""
        low, high = sorted((sign * item.low, sign * item.high))
        return Bar(sign * item.difference, low, high, -self.scale, self.scale)


def points(item: Any, sign: int = 1) -> str:
    """Return a difference in points with its interval; with the sign -1 that of the first minus the second."""
    middle, *ends = (100 * sign * value + 0.0 for value in (item.difference, item.low, item.high))  # + 0.0: no "-0.0"
    return f"{middle:+.1f} [{min(ends):+.1f}, {max(ends):+.1f}]".replace("-", "−")


@dataclass(frozen=True, slots=True)
class StackedBar:
    """Shares of a whole, as (number of its colour, share)."""

    parts: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """Lines over a common axis, as (name, points) of (x, y, low or None, high or None); one point alone is a numbered dot.

    `dots`: points are marked where they are few.
    """

    caption: str
    x_label: str
    y_label: str
    series: tuple[tuple[str, tuple[Point, ...]], ...]
    dots: bool = True


def histogram(caption: str, x_label: str, groups: Mapping[str, Sequence[float]], step: float = 0.0) -> Curve | None:
    """Return each group's values as stairs of shares in %, over intervals of one width; None without values below 1e150.

    `step`: the width is a multiple of it.
    """
    groups = {name: [value for value in rows if abs(value) < GREATEST] for name, rows in groups.items()}
    values = [value for rows in groups.values() for value in rows]
    if not values:
        return None
    width = (max(values) - min(values)) / MOST_STAIRS or 1.0
    width = math.ceil(width / step) * step if step else width
    start = min(values) - width / 2
    series = []
    for name, rows in groups.items():
        counts = Counter(int((value - start) / width) for value in rows)
        stairs = [(start, 0.0)]
        for place in range(max(counts, default=0) + 1):
            share = 100 * counts[place] / max(len(rows), 1)
            stairs += [(start + width * (place + end), share) for end in (0, 1)]
        points = tuple((x, share, 0.0, share) for x, share in (*stairs, (stairs[-1][0], 0.0)))
        series.append((name, points))
    return Curve(caption, x_label, "episodes, %", tuple(series), dots=False)


def bar_svg(bar: Bar) -> str:
    """Draw a point and its interval as SVG, on an axis with ends and middle marked; the axis alone if one is not finite."""
    middle = BAR_HEIGHT // 2
    ends = [_bar_position(bar, at) for at in (bar.least, (bar.least + bar.most) / 2, bar.most)]
    parts = [f'<line class="grid" x1="{ends[0]}" y1="{middle}" x2="{ends[2]}" y2="{middle}"/>']
    parts += [f'<line class="grid" x1="{at}" y1="{middle - 6}" x2="{at}" y2="{middle + 6}"/>' for at in ends]
    label = "no value"
    if all(map(math.isfinite, (bar.value, bar.low, bar.high))):
        label = f"{bar.value:.3f}, interval {bar.low:.3f} to {bar.high:.3f}"
        low, value, high = (_bar_position(bar, at) for at in (bar.low, bar.value, bar.high))
        parts.append(f'<line class="span" x1="{low}" y1="{middle}" x2="{high}" y2="{middle}"/>')
        parts.append(f'<circle class="mark" cx="{value}" cy="{middle}" r="4"/>')
    head = f'<svg class="bar" role="img" aria-label="{label}" viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}"'
    return f'{head} width="{BAR_WIDTH}" height="{BAR_HEIGHT}">{"".join(parts)}</svg>'


def stack_svg(stack: StackedBar) -> str:
    """Draw shares beside each other on one line as SVG."""
    parts, at = [], 0.0
    for colour, share in stack.parts:
        place = f'x="{_coordinate(at)}" y="4" width="{_coordinate(BAR_WIDTH * share)}" height="{BAR_HEIGHT - 8}"'
        parts.append(f'<rect class="k{colour}" {place}/>')
        at += BAR_WIDTH * share
    label = ", ".join(f"{100 * share:.0f} %" for _, share in stack.parts)
    head = f'<svg class="bar" role="img" aria-label="{label}" viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}"'
    return f'{head} width="{BAR_WIDTH}" height="{BAR_HEIGHT}">{"".join(parts)}</svg>'


def curve_svg(curve: Curve) -> str:
    """Draw a curve as SVG: axes with ticks, each series' band, line and, where points are few, dots; huge points left out."""
    series = [[point for point in points if all(value is None or abs(value) < GREATEST for value in point)]
              for _, points in curve.series]  # fmt: skip
    xs = [point[0] for points in series for point in points]
    ys = [value for points in series for point in points for value in point[1:] if value is not None]
    x_ticks, y_ticks = _ticks(xs or [0.0], whole=False), _ticks(ys or [0.0], whole=True)
    x_range = (min(xs), max(xs)) if xs and max(xs) > min(xs) else (x_ticks[0], x_ticks[-1])
    frame = _Frame(x_range, (y_ticks[0], y_ticks[-1]))
    parts = [_axes(frame, x_ticks, y_ticks)]
    parts += [_band(frame, points, number) for number, points in enumerate(series)]
    parts += [_line(frame, points, number, curve.dots) for number, points in enumerate(series)]
    label = f"{len(series)} curves, {sum(map(len, series))} points"
    head = f'<svg class="plot" role="img" aria-label="{label}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    return f"{head}>{''.join(parts)}</svg>"


def swatch_svg(number: int) -> str:
    """Return the legend's sample of a series."""
    line = f'<line class="line c{number % COLOURS}" x1="1" y1="5" x2="19" y2="5"/>'
    return f'<svg class="swatch" aria-hidden="true" viewBox="0 0 20 10" width="20" height="10">{line}</svg>'


@dataclass(frozen=True, slots=True)
class _Frame:
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def x(self, value: float) -> str:
        """Return the horizontal coordinate of a value."""
        low, high = self.x_range
        return _coordinate(LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / (high - low))

    def y(self, value: float) -> str:
        """Return the vertical coordinate of a value; larger values lie higher."""
        low, high = self.y_range
        return _coordinate(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low))


def _axes(frame: _Frame, x_ticks: Sequence[float], y_ticks: Sequence[float]) -> str:
    """Draw both axes as SVG, with a grid line at each y tick and a mark at each x tick."""
    parts = []
    for tick, label in _labels(y_ticks):
        at = frame.y(tick)
        kind = "axis" if tick == y_ticks[0] else "grid"
        parts.append(f'<line class="{kind}" x1="{LEFT}" y1="{at}" x2="{WIDTH - RIGHT}" y2="{at}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at}" dy="4" text-anchor="end">{label}</text>')
    low, high = frame.x_range
    floor = HEIGHT - BOTTOM
    for tick, label in _labels(x_ticks):
        if low <= tick <= high:
            at = frame.x(tick)
            parts.append(f'<line class="axis" x1="{at}" y1="{floor}" x2="{at}" y2="{floor + 5}"/>')
            parts.append(f'<text x="{at}" y="{floor + 20}" text-anchor="middle">{label}</text>')
    return "".join(parts)


def _band(frame: _Frame, points: Sequence[Point], number: int) -> str:
    """Draw the interval band of a curve as polygons, one for each run of points with both bounds."""
    parts = []
    for bounded, run in groupby(points, key=lambda point: point[2] is not None and point[3] is not None):
        if bounded:
            part = list(run)
            lower = [f"{frame.x(x)},{frame.y(low)}" for x, _, low, _ in part if low is not None]
            upper = [f"{frame.x(x)},{frame.y(high)}" for x, _, _, high in part if high is not None]
            parts.append(f'<polygon class="band c{number % COLOURS}" points="{" ".join(lower + upper[::-1])}"/>')
    return "".join(parts)


def _line(frame: _Frame, points: Sequence[Point], number: int, dots: bool) -> str:
    """Draw a curve as SVG: a line, dots if they are few; a single point gets its number and its interval."""
    colour = f"c{number % COLOURS}"
    places = [(frame.x(point[0]), frame.y(point[1])) for point in points]
    path = " ".join(f"{x},{y}" for x, y in places)
    parts = [f'<polyline class="line {colour}" points="{path}"/>'] if len(places) > 1 else []
    if dots and len(places) <= MOST_DOTS:
        parts += [f'<circle class="dot {colour}" cx="{x}" cy="{y}" r="2.5"/>' for x, y in places]
    if len(points) == 1:
        (_, _, low, high), (x, y) = points[0], places[0]
        parts.append(f'<text x="{x}" y="{y}" dx="6" dy="-5">{number + 1}</text>')
        if low is not None and high is not None:
            parts.append(f'<line class="line {colour}" x1="{x}" y1="{frame.y(low)}" x2="{x}" y2="{frame.y(high)}"/>')
    return "".join(parts)


def _ticks(values: Sequence[float], whole: bool) -> list[float]:
    """Return four to nine round numbers around the values; `whole`: they enclose them, and start at 0 where that is near."""
    low, high = min(values), max(values)
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-100):
        low, high = (low - abs(low) / 2, high + abs(high) / 2) if abs(low) > 1e-100 else (0.0, 1.0)
    if whole and 0 < low < 0.6 * high:
        low = 0.0
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power >= rough * (1 - 1e-9))
    if not whole and all(float(value).is_integer() for value in values):
        step = max(step, 1.0)  # no tick stands between two steps or trials
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _bar_position(bar: Bar, at: float) -> str:
    """Return the horizontal coordinate of a value on a bar; one beyond its ends is drawn at the end."""
    share = (at - bar.least) / (bar.most - bar.least)
    return _coordinate(BAR_EDGE + (BAR_WIDTH - 2 * BAR_EDGE) * min(max(share, 0.0), 1.0))


def _labels(ticks: Sequence[float]) -> list[tuple[float, str]]:
    """Return (tick, its text); one unit serves the whole axis."""
    greatest = max(map(abs, ticks))
    size, unit = next(((size, name) for least, size, name in UNITS if greatest >= least), (1.0, ""))
    return [(tick, f"{tick / size + 0.0:.9g}{unit if tick else ''}") for tick in ticks]


def _coordinate(value: float) -> str:
    """Return a coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell that links, or is a badge with a tone (`good`, `bad`, `odd`; of a heat map `h0` to `h10`; of a stack `k0`).

    A link leads to an anchor of the page (`#e1`, or `#e1-t2` for a turn), or to a page of the same site
    (`pages/0001.html#e1`).
    """

    text: str
    href: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table; a row may be shorter than the headers, and a first cell that repeats the one above is left out.

    A page draws a rate beside its text. `sift` is the column by whose texts a reader chooses rows there; it needs an anchor.
    With a `summary` a page folds the rows away behind these texts, which stand in columns of equal width.
    """

    caption: str
    headers: tuple[str | Cell, ...]
    rows: tuple[tuple[str | Cell | Rate | Bar | StackedBar, ...], ...]
    note: str = ""
    anchor: str = ""
    sift: int | None = None
    summary: tuple[str, ...] = ()

    @property
    def bases(self) -> list[str]:
        """What the first rate of each row rests on, "" for rows without one."""
        return [next((cell.basis for cell in row if isinstance(cell, Rate)), "") for row in self.rows]

    def texts(self) -> tuple[list[str], list[list[str]]]:
        """Return headers and rows as text: the basis of a row's rates once, in a last column, and no drawings."""
        drawings = {place for row in self.rows for place, cell in enumerate(row) if isinstance(cell, Bar | StackedBar)}
        heads, *rows = (
            [text_of(cell) for place, cell in enumerate(row) if place not in drawings]
            for row in (self.headers, *self.rows)
        )
        if any(self.bases):
            heads, rows = [*heads, "n"], [[*row, basis] for row, basis in zip(rows, self.bases, strict=True)]
        return heads, rows


def text_of(cell: object) -> str:
    """Return a cell in words."""
    return cell.share if isinstance(cell, Rate) else cell.text if isinstance(cell, Cell) else str(cell)
