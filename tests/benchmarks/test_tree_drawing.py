"""The picture of a decision tree: sound XML, nothing from outside, and no box upon another."""

import json
import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from tests.needs import require

require("[train]")

from baselines.sorting import SortingAgent
from benchmarks import earl_learn
from benchmarks.tree_drawing import COLOURS, DARK, LETTER, LIGHT, STYLE, draw_tree_file, drawing, read_tree
from tests.trainers.figures.test_decision_tree import COMPARE, SWAP, A, B, C, Scripted, played, tree_of
from trainers.figures.decision_tree import decision_trees, tree_text, write_trees

SVG = "{http://www.w3.org/2000/svg}"


def parsed(tree, **words):
    return ElementTree.fromstring(drawing(tree, **words))


def frame(rect):
    x, y, width, height = (float(rect.get(name)) for name in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


def boxes_of(svg):
    return [frame(rect) for rect in svg.iter(f"{SVG}rect") if rect.get("class").startswith("box ")]


@pytest.mark.parametrize(
    ("name", "size"),
    [("earl-star", 3), ("earl-star", 4), ("earl-star-as-printed", 4), ("insertion", 4), ("network-4", 4),
     ("selection", 5), ("optimal", 5)],
)  # fmt: skip
def test_no_box_lies_on_another_or_beyond_the_edge(name, size):
    svg = parsed(tree_of(name, size))
    _, _, width, height = map(float, svg.get("viewBox").split())
    boxes = boxes_of(svg)
    assert len(boxes) >= {3: 11, 4: 47, 5: 239}[size]
    for one, other in combinations(boxes, 2):
        apart = one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]
        assert apart, (one, other)
    for text in svg.iter(f"{SVG}text"):
        assert float(text.get("x")) + len(text.text) * LETTER <= width
    assert all(0 < box[0] and 0 < box[1] and box[2] < width and box[3] < height for box in boxes)


def test_no_words_lie_on_others():
    for tree in (tree_of("insertion"), tree_of("earl-star", 3), tree_of("optimal")):
        rows = {}
        for text in parsed(tree).iter(f"{SVG}text"):
            half = len(text.text) * LETTER / 2
            start = float(text.get("x")) - (half if "sign" in text.get("class", "") else 0)
            rows.setdefault(text.get("y"), []).append((start, start + 2 * half))
        for row in rows.values():
            row.sort()
            assert all(one[1] < other[0] for one, other in zip(row, row[1:], strict=False))


def test_four_items_fit_a_readme():
    svg = parsed(tree_of("earl-star"))
    assert float(svg.get("width")) <= 900
    labels = [text.text for text in svg.iter(f"{SVG}text")]
    assert labels.count("A ? B") == 2  # the root, and the legend's sample
    assert {"swap A B, swap C D", "none", "A B C D", "implied by earlier answers"} & set(labels) == {
        "swap A B, swap C D", "none", "A B C D",
    }  # fmt: skip
    assert sum(rect.get("class") == "box good" for rect in svg.iter(f"{SVG}rect")) == 24


def test_every_branch_has_its_line_and_its_sign():
    svg = parsed(tree_of("earl-star-as-printed"))
    labels = [text.text for text in svg.iter(f"{SVG}text")]
    lines = [path.get("class") for path in svg.iter(f"{SVG}path")]
    for sign, kind in (("<", "less"), (">", "more")):
        assert labels.count(sign) == lines.count(kind) - 1 == 25  # 23 comparisons that branch, 2 implied ones each way
    assert "implied by earlier answers" in labels
    assert sum(rect.get("class") == "box implied" for rect in svg.iter(f"{SVG}rect")) == 4


def test_it_stands_alone_and_tells_itself_in_words():
    tree = tree_of("earl-star")
    text = drawing(tree, notes=["a note"])
    assert not re.search(r"<script|href|url\(|@import|<image|<foreignObject", text)
    svg = ElementTree.fromstring(text)
    title, description, *_ = svg
    assert (title.tag, description.tag, svg.get("role")) == (f"{SVG}title", f"{SVG}desc", "img")
    assert svg.get("aria-labelledby").split() == [title.get("id"), description.get("id")]
    assert tree_text(tree) in description.text
    assert "a note" in description.text
    assert "prefers-color-scheme: dark" in STYLE
    assert LIGHT.keys() == DARK.keys() == set(COLOURS.get_identifiers())


def contrast(one, other):
    def luminance(colour):
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_words_can_be_read_on_either_ground(palette):
    for words in ("ink", "quiet", "less", "more"):
        assert contrast(palette[words], palette["ground"]) >= 4.5
    for ground in ("box", "good", "bad"):
        assert contrast(palette["ink"], palette[ground]) >= 4.5


def test_words_are_escaped():
    text = drawing(tree_of("optimal", 2), title='<script>alert("&")</script>', notes=["</svg><b>"])
    assert "<script" not in text
    assert ElementTree.fromstring(text)[0].text == '<script>alert("&")</script>'


def test_a_wrong_policy_is_drawn_as_such():
    (tree,) = decision_trees(played(Scripted(COMPARE, A, A, *[SWAP, A, B, SWAP, B, C] * 3, 0), 3))
    svg = parsed(tree)
    labels = [text.text for text in svg.iter(f"{SVG}text")]
    assert "swap A B, swap B C, swap A B, swap B C and 2 more; 5 of 6 wrong" in labels
    assert {"not sorted", "unknown", "=", "A ? A"} <= set(labels)
    width = float(svg.get("width"))
    assert all(float(text.get("x")) + len(text.text) * LETTER <= width for text in svg.iter(f"{SVG}text"))
    (cut,) = decision_trees(played(Scripted(SWAP, A, B, SWAP), 2, max_actions=4))
    assert "swap A B, cut off; 1 of 2 wrong" in drawing(cut)


def test_a_run_is_extracted(tmp_path):
    episodes = [*played(SortingAgent("selection"), 3), *played(SortingAgent("selection"), 3, True)]
    rows = write_trees(episodes, tmp_path / "trees")
    assert [(row["size"], row["direction"]) for row in rows] == [(3, "ascending"), (3, "descending")]
    for row in rows:
        assert (row["policy"]["accuracy"], row["policy"]["comparisons"]) == (1.0, 3.0)
        assert row["pruned"]["comparisons"] == pytest.approx(16 / 6)
        assert row["fewest_swaps"]["swaps"] == pytest.approx(7 / 6)
    stems = [f"sort-3-{direction}{pruned}" for direction in ("ascending", "descending") for pruned in ("", "-pruned")]
    found = sorted(path.name for path in (tmp_path / "trees").iterdir())
    assert found == sorted(f"{stem}.{kind}" for stem in stems for kind in ("json", "txt"))
    stored = json.loads((tmp_path / "trees" / "sort-3-ascending-pruned.json").read_text())
    assert stored["figures"] == rows[0]["pruned"]
    first = {path: path.read_bytes() for path in (tmp_path / "trees").iterdir()}
    assert write_trees(episodes[::-1], tmp_path / "trees") == rows
    assert first == {path: path.read_bytes() for path in (tmp_path / "trees").iterdir()}
    picture = draw_tree_file(tmp_path / "trees" / "sort-3-ascending.json")
    assert "without implied comparisons: 2.6667; with the fewest swaps: 1.1667" in picture
    for path, tree in zip(sorted((tmp_path / "trees").glob("*g.json")), decision_trees(episodes), strict=True):
        assert read_tree(path) == tree


def test_the_benchmark_draws_the_tree_of_a_run_on_four_items(tmp_path, monkeypatch):
    write_trees(played(SortingAgent("earl-star"), 4), tmp_path / "run" / "trees")
    monkeypatch.setattr(earl_learn, "IMAGES", tmp_path)
    earl_learn.draw({"sort4": [tmp_path / "run"]}, [], tmp_path / "earl.json")
    picture = (tmp_path / "sort-4-tree.svg").read_text()
    assert picture == draw_tree_file(tmp_path / "run" / "trees" / "sort-4-ascending.json")
    earl_learn.draw({"countdown": [tmp_path]}, [], tmp_path / "earl.json")  # where nothing sorts there is no tree
