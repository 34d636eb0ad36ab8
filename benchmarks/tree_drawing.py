"""The decision trees that a sorting policy's run wrote are drawn, each as one SVG file beside its JSON.

    python -m benchmarks.tree_drawing RUN/trees

A picture has no script and no outside font, is light or dark as its reader prefers, and stands on a ground of its own. Time
goes from left to right; the ends stand in one column, a row each, with the swaps that come last and the order that was found.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any
from xml.etree import ElementTree

from agent_envs.envs.expa.sorting.environments import SYMBOLS
from trainers.figures.decision_tree import (
    CompareNode,
    DecisionTree,
    EndNode,
    Names,
    Node,
    SwapNode,
    chain,
    prune,
    tree_text,
)

ROW, BOX, GAP, PAD, MARGIN = 23.0, 18.0, 37.0, 8.0, 20.0
LETTER = 7.25  # width of a letter at 12 pixels, in the widest of the fonts below
HEAD, LINE = 74.0, 20.0
HEADINGS = ("swaps at the end", "lowest first")
MOST_SWAPS = 4  # that a label spells out
# Colours stand in the rules, twice, and not in CSS variables, which not every viewer of SVG knows.
LIGHT = {
    "ground": "#ffffff", "ink": "#1f2328", "quiet": "#59636e", "line": "#d1d9e0", "box": "#f6f8fa", "edge": "#818b98",
    "less": "#0969da", "more": "#bc4c00", "good": "#e6f6ea", "sorted": "#2da44e", "bad": "#ffebe9", "wrong": "#cf222e",
}  # fmt: skip
DARK = {
    "ground": "#0d1117", "ink": "#e6edf3", "quiet": "#9198a1", "line": "#30363d", "box": "#161b22", "edge": "#6e7681",
    "less": "#4c9dff", "more": "#f0883e", "good": "#12261e", "sorted": "#3fb950", "bad": "#2d1517", "wrong": "#f85149",
}  # fmt: skip
SHAPES = """
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; }
.title { font-size: 15px; font-weight: 600; }
.implied { stroke-dasharray: 2 2; }
path { fill: none; stroke-width: 1.5; }
path.more { stroke-dasharray: 5 3; }
.sign { font-weight: 700; text-anchor: middle; stroke-width: 5; paint-order: stroke; }
"""
COLOURS = Template("""
text { fill: $ink; } .quiet { fill: $quiet; } .ground { fill: $ground; stroke: $line; }
.node { fill: $box; stroke: $edge; } .implied, .swap { fill: $ground; stroke: $edge; }
.good { fill: $good; stroke: $sorted; } .bad { fill: $bad; stroke: $wrong; }
path { stroke: $edge; } path.less { stroke: $less; } path.more { stroke: $more; }
.sign { stroke: $ground; } .sign.less { fill: $less; } .sign.more { fill: $more; }
""")
STYLE = f"{SHAPES}{COLOURS.substitute(LIGHT)}@media (prefers-color-scheme: dark) {{{COLOURS.substitute(DARK)}}}\n"
_KINDS = {"<": "less", ">": "more"}


def read_tree(path: Path) -> DecisionTree:
    """Return the tree of a file that a run wrote."""
    row = json.loads(path.read_text(encoding="utf-8"))
    return DecisionTree(row["size"], row["descending"], _node(row["root"]))


def _node(row: dict[str, Any]) -> Node:
    """Convert JSON to a node and all below it."""
    if "end" in row:
        sorts, wrong = (tuple(map(tuple, row[name])) for name in ("sorted", "wrong"))
        return EndNode(sorts, wrong, row["end"] == "truncated")
    if "swap" in row:
        one, other = row["swap"]
        return SwapNode((one, other), _node(row["then"]))
    one, other = row["compare"]
    return CompareNode(
        (one, other), tuple((sign, _node(child)) for sign, child in row["branches"].items()), row["implied"]
    )


def draw_tree_file(path: Path) -> str:
    """Draw the tree of a file as SVG text; that of an unpruned policy notes its cost without waste."""
    tree = read_tree(path)
    if path.stem.endswith("-pruned"):
        return drawing(tree, title=f"{tree.name}: the policy without implied comparisons")
    bare, least = prune(tree), prune(tree, fewest_swaps=True)
    note = f"without implied comparisons: {bare.figures.mean_comparisons + 0.0:.4f}"
    return drawing(tree, notes=[f"{note}; with the fewest swaps: {least.figures.mean_swaps + 0.0:.4f}"])


def drawing(tree: DecisionTree, *, title: str = "", notes: Sequence[str] = ()) -> str:
    """Return the tree as the text of an SVG file.

    Args:
        tree: of any size; four items take 900 pixels in width, the height is 23 a row.
        title: the heading; by default the tree's name.
        notes: lines below the figures.
    """
    layout = _Layout()
    layout.place(tree.root, 0)
    figures, title = str(tree.figures), title or f"{tree.name}: the policy as a decision tree"
    footer = [figures, *notes]
    starts, ends = layout.columns()
    orders, bottom = ends + 14, HEAD + layout.rows * ROW + 10
    legend = ElementTree.Element("g")
    rights = [orders + _width(HEADINGS[1]), _legend(legend, bottom + LINE / 2 - 2, layout.boxes)]
    width = max(rights + [MARGIN + _width(line) for line in footer]) + MARGIN
    height = bottom + LINE * (len(footer) + 1) + 16
    view = {"viewBox": f"0 0 {width:g} {height:g}", "width": f"{width:g}", "height": f"{height:g}"}
    svg = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img"} | view)
    svg.set("aria-labelledby", "title description")
    ElementTree.SubElement(svg, "title", {"id": "title"}).text = title
    ElementTree.SubElement(svg, "desc", {"id": "description"}).text = "\n".join(footer) + "\n" + tree_text(tree)
    ElementTree.SubElement(svg, "style").text = STYLE
    ground = {"class": "ground", "x": "0.5", "y": "0.5", "width": f"{width - 1:g}", "height": f"{height - 1:g}"}
    ElementTree.SubElement(svg, "rect", ground | {"rx": "8"})
    _text(svg, MARGIN, 26, title, "title")
    for x, words in zip((starts[-1], orders), HEADINGS, strict=True):
        _text(svg, x, HEAD - 20, words, "quiet")
    for box in layout.boxes:
        _draw_edges(svg, box, starts)
    for box in layout.boxes:
        _draw_box(svg, box, starts, orders)
    svg.append(legend)
    for number, line in enumerate(footer, start=1):
        _text(svg, MARGIN, bottom + LINE * (number + 0.5) + 4, line, "" if number == 1 else "quiet")
    return ElementTree.tostring(svg, encoding="unicode") + "\n"


@dataclass(frozen=True, slots=True)
class _Box:
    """A box: its words, its column (-1: the ends), the height of its middle, and what follows it by sign."""

    label: str
    kind: str
    column: int
    y: float
    order: str = ""
    following: tuple[tuple[str, "_Box"], ...] = ()


@dataclass
class _Layout:
    """Boxes in columns by the number of steps before them; every end has a row of its own."""

    boxes: list[_Box] = field(default_factory=list)
    rows: int = 0

    def place(self, node: Node, column: int) -> _Box:
        """Place a node and all that follows it, and return its box."""
        swaps, rest = chain(node)
        if isinstance(rest, EndNode):
            box = _Box(
                _label(swaps, rest), "bad" if rest.wrong else "good", -1, HEAD + ROW * (self.rows + 0.5), _order(rest)
            )
            self.rows += 1
        elif swaps:
            following = self.place(rest, column + 1)
            box = _Box(_spell(swaps), "swap", column, following.y, "", (("", following),))
        else:
            children = tuple((sign, self.place(child, column + 1)) for sign, child in rest.branches)
            middle = (children[0][1].y + children[-1][1].y) / 2
            box = _Box(" ? ".join(rest.items), "implied" if rest.implied else "node", column, middle, "", children)
        self.boxes.append(box)
        return box

    def columns(self) -> tuple[list[float], float]:
        """Return the left edge of each column, that of the ends last, and the right edge of that one."""
        count = max((box.column for box in self.boxes), default=-1) + 1
        starts = [MARGIN]
        for column in [*range(count), -1]:
            wide = max(_width(box.label) for box in self.boxes if box.column == column)
            wide = max(wide, _width(HEADINGS[0])) if column < 0 else wide
            starts.append(starts[-1] + wide + 2 * PAD + GAP)
        return starts[:-1], starts[-1] - GAP


def _width(text: str) -> float:
    """Return the width of a text in the drawing."""
    return len(text) * LETTER


def _spell(swaps: Sequence[Names]) -> str:
    """Return swaps in words, the first ones of many."""
    words = ", ".join(f"swap {one} {other}" for one, other in swaps[:MOST_SWAPS])
    return words + (f" and {len(swaps) - MOST_SWAPS} more" if len(swaps) > MOST_SWAPS else "")


def _label(swaps: Sequence[Names], end: EndNode) -> str:
    """Return the label of an end."""
    label = _spell(swaps) or "none"
    if end.truncated:
        label += ", cut off"
    return f"{label}; {len(end.wrong)} of {len(end.wrong) + len(end.sorted)} wrong" if end.wrong else label


def _order(end: EndNode) -> str:
    """Return the items by their numbers, where the calls before an end tell it."""
    if len(end.sorted) + len(end.wrong) > 1:
        return "unknown"
    (values,) = end.sorted or end.wrong
    return " ".join(SYMBOLS[item] for item in sorted(range(len(values)), key=values.__getitem__))


def _draw_edges(svg: ElementTree.Element, box: _Box, starts: Sequence[float]) -> None:
    """Draw the lines to what follows a box: a bend in the gap behind its column, then straight on."""
    if not box.following:
        return
    left, turn = starts[box.column] + _width(box.label) + 2 * PAD, starts[box.column + 1] - GAP
    ElementTree.SubElement(svg, "path", {"d": f"M{left:g} {box.y:g}H{turn:g}"})
    for sign, child in box.following:
        kind = _KINDS.get(sign, "then")
        bend = f"M{turn:g} {box.y:g}c16 0 6 {child.y - box.y:g} 24 {child.y - box.y:g}"
        ElementTree.SubElement(svg, "path", {"class": kind, "d": f"{bend}H{starts[child.column]:g}"})
        if sign:
            _text(svg, turn + 28.5, child.y, sign, f"sign {kind}")


def _draw_box(svg: ElementTree.Element, box: _Box, starts: Sequence[float], orders: float) -> None:
    """Draw a node's box and label as SVG; an end's box has its orders beside it."""
    x, wide = starts[box.column], _width(box.label) + 2 * PAD
    if box.column < 0:
        wide = orders - 14 - x
        _text(svg, orders, box.y, box.order, "quiet")
    place = {"x": f"{x:g}", "y": f"{box.y - BOX / 2:g}", "width": f"{wide:g}", "height": f"{BOX:g}", "rx": "4"}
    ElementTree.SubElement(svg, "rect", {"class": f"box {box.kind}"} | place)
    _text(svg, x + PAD, box.y, box.label, "quiet" if box.kind == "implied" else "")


def _legend(svg: ElementTree.Element, y: float, boxes: Sequence[_Box]) -> float:
    """Draw a sample of each kind of line and box that the tree has, and return where they end."""
    kinds = {box.kind for box in boxes}
    x = MARGIN
    for kind, words in (("less", "A < B"), ("more", "A > B")):
        ElementTree.SubElement(svg, "path", {"class": kind, "d": f"M{x:g} {y:g}h30"})
        x = _text(svg, x + 38, y, words, "quiet") + 22
    rows = (
        ("node", "A ? B", "compare"),
        ("implied", "A ? B", "implied by earlier answers"),
        ("bad", "    ", "not sorted"),
    )
    for kind, sample, words in rows:
        if kind in kinds:
            wide = _width(sample) + 2 * PAD
            place = {"x": f"{x:g}", "y": f"{y - BOX / 2:g}", "width": f"{wide:g}", "height": f"{BOX:g}", "rx": "4"}
            ElementTree.SubElement(svg, "rect", {"class": kind} | place)
            _text(svg, x + PAD, y, sample, "quiet")
            x = _text(svg, x + wide + 8, y, words, "quiet") + 22
    return x - 22


def _text(svg: ElementTree.Element, x: float, y: float, words: str, kind: str) -> float:
    """Write words from x on and return where they end."""
    place = {"x": f"{x:g}", "y": f"{y:g}", "dy": "0.35em"} | ({"class": kind} if kind else {})
    ElementTree.SubElement(svg, "text", place).text = words
    return x + _width(words)


def main() -> None:
    """Draw every tree of a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="RUN/trees")
    for path in sorted(parser.parse_args().folder.glob("*.json")):
        path.with_suffix(".svg").write_text(draw_tree_file(path), encoding="utf-8")
        print(path.with_suffix(".svg"))


if __name__ == "__main__":
    main()
