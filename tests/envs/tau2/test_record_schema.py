"""Shapes read loosely where the original's models do, and refuse the rest."""

import pytest

from agent_envs.envs.tau2.record_schema import Anything, Closed, Default, Each, Maybe, SchemaError, Tagged, shaped
from tests.rows import each_row

SHAPE = {
    "name": str,
    "size": float,
    "count": int,
    "good": bool,
    "mood": ("calm", "angry"),
    "tags": [str],
    "prices": Each(float),
    "note": Maybe(str),
    "level": Default(int, 80),
    "extra": Default(Anything(), ()),
}
VALUE = {
    "size": 7,
    "count": 7.0,
    "good": 1,
    "name": "n",
    "mood": "calm",
    "tags": ["a"],
    "prices": {"x": "2.5"},
    "odd": 1,
}


def test_values_are_read_and_ordered_as_declared():
    read = shaped(VALUE, SHAPE)
    assert list(read) == list(SHAPE)
    assert repr(list(read.values())) == repr(["n", 7.0, 7, True, "calm", ("a",), {"x": 2.5}, None, 80, ()])
    assert shaped({**VALUE, "extra": [{"a": [1]}], "note": "x", "level": "3"}, SHAPE)["extra"] == ({"a": (1,)},)
    assert shaped(read, SHAPE) == read


@each_row(
    "wrong",
    [
        {"name": 5}, {"name": None}, {"size": "wide"}, {"size": None}, {"size": []}, {"count": 2.5}, {"count": "x"},
        {"count": float("inf")}, {"good": "maybe"}, {"good": 2}, {"mood": "sad"}, {"mood": []}, {"tags": "a"},
        {"tags": [1]}, {"prices": []}, {"prices": {"x": "y"}}, {"note": 5}, {"level": None},
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_its_place(wrong):
    with pytest.raises(SchemaError, match=rf"^value\.{next(iter(wrong))}"):
        shaped(VALUE | wrong, SHAPE)


@each_row(
    ("value", "number"),
    [
        ("1_000", 1000), (" 2 ", 2), ("2.00", 2), ("9007199254740993", 2**53 + 1), (True, 1), (1e15, 10**15),
        ("1e3", None), ("1.", None), (".0", None), ("\u0661", None), (1e300, None), ("9" * 5000, None), (2.5, None),
    ],
)  # fmt: skip
def test_whole_numbers_are_read_as_the_originals_models_read_them(value, number):
    if number is None:
        with pytest.raises(SchemaError, match="a whole number is needed"):
            shaped(value, int)
    else:
        assert shaped(value, int) == number


@pytest.mark.parametrize("value", ["nan", "inf", "-Infinity", "1e999", "\u0661", float("nan"), 10**400])
def test_numbers_are_finite(value):
    with pytest.raises(SchemaError, match="a number is needed"):
        shaped(value, float)


def test_missing_members_and_other_kinds_are_refused():
    with pytest.raises(SchemaError, match=r"place\.name: is missing"):
        shaped({"size": 1}, SHAPE, "place")
    with pytest.raises(SchemaError, match="an object"):
        shaped([VALUE], SHAPE)
    with pytest.raises(SchemaError, match=r"value\[1\]: a text"):
        shaped(["a", 1], [str])


def test_closed_records_refuse_members_of_other_names():
    shape = Closed({"a": Default(int, 1)})
    assert shaped({}, shape) == {"a": 1}
    with pytest.raises(SchemaError, match=r"value\.b"):
        shaped({"b": 1}, shape)


def test_tagged_records_take_the_shape_that_they_name():
    shape = Tagged("kind", {"cash": {"kind": str}, "card": {"kind": str, "number": str}})
    assert shaped({"kind": "cash", "number": "1"}, shape) == {"kind": "cash"}
    assert shaped({"number": "1", "kind": "card"}, shape) == {"kind": "card", "number": "1"}
    for wrong in ({"kind": "coin"}, {"kind": []}, {}, "cash", {"kind": "card"}):
        with pytest.raises(SchemaError):
            shaped(wrong, shape)
