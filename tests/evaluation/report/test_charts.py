"""Drawings: well-formed for any numbers, and marks where the numbers say."""

import math
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from agent_envs.evaluation.report.charts import Bar, Curve, bar_svg, curve_svg


def test_a_bar_stands_where_its_numbers_say() -> None:
    marks = [ElementTree.fromstring(bar_svg(Bar(at, at, at))).find("circle") for at in (0.0, 0.5, 1.0, 9.0)]
    left, middle, right, beyond = (float(mark.attrib["cx"]) for mark in marks if mark is not None)
    assert left + right == 2 * middle
    assert beyond == right
    assert ElementTree.fromstring(bar_svg(Bar(math.nan, 0, 1))).find("circle") is None


def test_a_curve_is_drawn_inside_its_axes() -> None:
    points = tuple((float(x), x * x, x * x - 5.0, x * x + 5.0) for x in range(5))
    drawing = ElementTree.fromstring(curve_svg(Curve("", "", "", (("a", points),))))
    line, band = drawing.find("polyline"), drawing.find("polygon")
    assert line is not None and band is not None
    assert len(band.attrib["points"].split()) == 2 * len(line.attrib["points"].split()) == 10
    heights = [float(place.split(",")[1]) for place in line.attrib["points"].split()]
    assert heights == sorted(heights, reverse=True)
    assert [text.text for text in drawing.findall("text")] == [
        "-5",
        "0",
        "5",
        "10",
        "15",
        "20",
        "25",
        "0",
        "1",
        "2",
        "3",
        "4",
    ]


def test_ticks_use_one_unit() -> None:
    points = tuple((x * 200_000.0, 0.1 * x, None, None) for x in range(6))
    texts = [
        node.text for node in ElementTree.fromstring(curve_svg(Curve("", "", "", (("a", points),)))).findall("text")
    ]
    assert texts == ["0", "0.1", "0.2", "0.3", "0.4", "0.5", "0", "0.2M", "0.4M", "0.6M", "0.8M", "1M"]


def test_no_tick_stands_between_whole_numbers() -> None:
    points = tuple((float(k), 0.1 * k, None, None) for k in (1, 2, 4))
    texts = [row.text for row in ElementTree.fromstring(curve_svg(Curve("", "", "", (("a", points),)))).findall("text")]
    assert texts[-4:] == ["1", "2", "3", "4"] and "0.2" in texts


def test_a_gap_in_the_interval_parts_the_band() -> None:
    points = ((0.0, 1.0, 0.0, 2.0), (1.0, 1.0, 0.0, 2.0), (2.0, 1.0, None, None), (3.0, 1.0, 0.0, 2.0))
    assert curve_svg(Curve("", "", "", (("a", points),))).count("<polygon") == 2


ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(st.tuples(ANY_FLOAT, ANY_FLOAT, st.none() | ANY_FLOAT, st.none() | ANY_FLOAT), max_size=8))
def test_any_numbers_make_a_drawing(points: list[tuple[float, float, float | None, float | None]]) -> None:
    drawing = curve_svg(Curve("", "", "", (("a", tuple(points)), ("b", ()))))
    ElementTree.fromstring(drawing)
    assert "nan" not in drawing and "inf" not in drawing
    assert 2 <= drawing.count("<text") <= 24


def test_a_bar_has_a_scale_of_its_own():
    def places(*scale, at):
        return [ElementTree.fromstring(bar_svg(Bar(x, x, x, *scale))).find("circle").get("cx") for x in at]

    assert places(-0.2, 0.2, at=(-0.2, 0.0, 0.2)) == places(at=(0.0, 0.5, 1.0))


def test_one_point_alone_has_the_number_of_its_series_and_its_interval():
    series = (("a", ((1.0, 5.0, 2.0, 8.0),)), ("b", ((2.0, 6.0, None, None),)))
    drawing = ElementTree.fromstring(curve_svg(Curve("c", "x", "y", series)))
    spans = [item for item in drawing.findall("line") if item.get("class") == "line c0"]
    assert [item.text for item in drawing.findall("text") if item.get("dx")] == ["1", "2"]
    assert len(spans) == 1 and spans[0].get("x1") == spans[0].get("x2") and spans[0].get("y1") != spans[0].get("y2")
