"""Canonical JSON and the coding of state."""

import copy
import dataclasses
import inspect
import json
import pickle
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.messages import ToolCall, ToolResult
from agent_envs.base.serialization import (
    canonical_json,
    decode_state,
    digest,
    encode_state,
    is_local,
    plain_value,
    sha256_text,
    state_type,
)
from tests.rows import each_row


@state_type
@dataclass(frozen=True)
class Pair:
    """A state type of a third party."""

    left: object
    right: object = ()


TEXTS = st.text(st.characters(), max_size=8)
LEAVES = (
    st.none() | st.booleans() | TEXTS | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, -0.0, 1e300])
)  # fmt: skip
STATES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(TEXTS.filter(lambda key: not key.startswith("$")), inner, max_size=3)
        | st.builds(Pair, inner, inner)
        | st.builds(ToolResult, TEXTS, TEXTS, TEXTS, st.booleans(), st.lists(TEXTS, max_size=2).map(tuple))
    ),
    max_leaves=12,
)


def same(one, two):
    """Equal, and of equal types all the way down (1 == 1.0 == True)."""
    if type(one) is not type(two):
        return False
    if isinstance(one, tuple):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict):
        return set(one) == set(two) and all(same(one[key], two[key]) for key in one)
    if isinstance(one, Pair):
        return same(one.left, two.left) and same(one.right, two.right)
    return repr(one) == repr(two)


@given(STATES)
def test_state_survives_its_text(state):
    text = canonical_json(encode_state(state))
    data = text.encode("utf-8", "surrogatepass")
    again = decode_state(json.loads(data.decode("utf-8", "surrogatepass")))
    assert same(again, state)
    assert canonical_json(encode_state(again)) == text


@each_row(
    "value",
    [[1], {1, 2}, frozenset(), b"bytes", object(), 1j, {1: "a"}, {"$int": "5"}, {"$x": 1}, np.int64(3), np.zeros(2),
     range(3), Pair, ToolCall, len],
)  # fmt: skip
def test_what_has_no_stored_form_is_refused_wherever_it_hides(value):
    for state in (value, (1, (value,)), {"a": value}, Pair(1, value)):
        with pytest.raises(TypeError):
            encode_state(state)


def test_a_named_tuple_is_refused_because_it_would_come_back_as_a_tuple():
    Point = namedtuple("Point", "x y")
    with pytest.raises(TypeError, match="Point"):
        encode_state((Point(1, 2),))


def test_an_unregistered_dataclass_is_refused_by_name():
    @dataclass(frozen=True)
    class Stranger:
        x: int = 1

    with pytest.raises(TypeError, match=r"Stranger.*state_type"):
        encode_state(Stranger())

    @dataclass(frozen=True)
    class ToolCall:  # the name of a registered type
        x: int = 1

    with pytest.raises(TypeError, match="ToolCall"):
        encode_state(ToolCall())
    with pytest.raises(ValueError, match="two state types are named ToolCall"):
        state_type(ToolCall)
    assert state_type(Pair) is Pair


@each_row(
    "stored",
    [
        {"$type": "os.system"}, {"$type": "Unknown", "x": 1}, {"$type": ["ToolCall"]}, {"$type": None},
        {"$type": "ToolCall", "bogus": 1}, {"$type": "ToolCall"}, {"$int": "1.5"}, {"$int": []}, {"$int": None},
        {"$pairs": None}, {"$pairs": [1]}, {"$pairs": [[1, 2]]}, {"$pairs": [["a", [1]]]},
        {"$tuple": None}, {"$tuple": 3}, [1], {"$tuple": [[1]]}, {"a": [1]},
    ],
)  # fmt: skip
def test_malformed_marks_and_unknown_types_are_refused(stored):
    with pytest.raises(ValueError):
        decode_state(stored)


@given(st.integers(-(2**80), 2**80))
def test_a_number_has_one_stored_form(number):
    stored = encode_state(number)
    assert (stored == number) if abs(number) <= 2**53 else (stored == {"$int": str(number)})


def test_the_order_of_a_mapping_survives_its_text():
    for state in ({"b": 1, "a": {"d": (), "c": {"z": 1, "y": 2}}}, {"a": 1, "b": 2}):
        again = decode_state(json.loads(canonical_json(encode_state(state))))
        assert again == state and list(again) == list(state)
        assert [list(item) for item in state.values() if isinstance(item, dict)] == [
            list(item) for item in again.values() if isinstance(item, dict)
        ]
    assert encode_state({"a": 1, "b": 2}) == {"a": 1, "b": 2}


def test_canonical_json_is_one_text():
    assert canonical_json({"b": 1, "a": [1.0, "é", None]}) == '{"a":[1.0,"é",null],"b":1}'
    assert canonical_json("\u2028\x7f\n") == '"\u2028\x7f\\n"'
    for value in (float("nan"), float("inf"), [-float("inf")]):
        with pytest.raises(ValueError):
            canonical_json(value)
    with pytest.raises(TypeError):
        canonical_json({"a": {1}})
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        canonical_json(endless)
    assert canonical_json([[], []]) == "[[],[]]"  # nothing is left of the values that were refused


class Flag(IntEnum):
    UP = 1


class Word(str):
    pass


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
        | st.sampled_from([Flag.UP, Word("é\"\ud800")]),
        lambda part: st.lists(part) | st.tuples(part, part) | st.dictionaries(st.text(), part),
    )
)  # fmt: skip
def test_canonical_json_is_what_the_standard_encoder_writes(value):
    wanted = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    assert canonical_json(value) == wanted


def test_a_python_whose_json_has_no_c_writes_the_same():
    values = [{"b": [1, 2.5, None], "a": "\u00e9"}, [True], 1.0, 7, "x"]
    code = "import json, sys; json.encoder.c_make_encoder = None; from agent_envs.base.serialization import canonical_json; "
    code += "print(json.dumps([canonical_json(value) for value in json.load(sys.stdin)]))"
    told = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(values), capture_output=True, text=True, check=True
    )
    assert json.loads(told.stdout) == [canonical_json(value) for value in values]


def test_digests_take_lone_surrogates_and_tell_values_apart():
    assert len({digest(value) for value in (1, 1.0, "1", True, [1], None, "\ud800", "?", "\ufffd", {})}) == 10
    assert sha256_text("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_arguments_that_can_travel():
    for value in (None, 1, 1.5, "x", True, [1, [2]], (1, 2), {"a": {"b": []}}, {"object": "a word"}, '{"object":"x"}'):
        assert not is_local(value), value
    for value in (object(), [object()], {"a": [len]}, np.int64(1), (b"x",), {"object": object()}):
        assert is_local(value), value
    assert plain_value({"a": (1, len)}) == {"a": [1, {"object": "builtins:builtin_function_or_method"}]}


@state_type
@dataclass(frozen=True, slots=True, weakref_slot=True)
class Quick:
    """A record with slots, which `state_type` makes quickly."""

    first: int
    second: tuple[int, ...] = ()
    third: str = "c"


def test_a_record_that_is_made_quickly_is_the_record_that_it_was():
    value = Quick(1, third="d")
    assert (
        type(value) is Quick
        and value == Quick(first=1, second=(), third="d")
        and hash(value) == hash(Quick(1, (), "d"))
    )
    assert repr(value) == "Quick(first=1, second=(), third='d')" and not hasattr(value, "__dict__")
    assert copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == dataclasses.replace(value, second=()) == value
    signature = "(first: int, second: tuple[int, ...] = (), third: str = 'c') -> None"
    assert str(inspect.signature(Quick)) == signature and Quick.__init__.__qualname__ == "Quick.__init__"
    assert Quick.__init__.__code__.co_varnames == ("self", "first", "second", "third")
    assert "__set_0" in Quick.__init__.__code__.co_names


def test_a_record_that_is_made_quickly_is_frozen_and_refuses_wrong_arguments():
    value = Quick(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.first = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del value.first
    with pytest.raises(TypeError, match="first"):
        Quick()
    with pytest.raises(TypeError, match="fourth"):
        Quick(1, fourth=2)


def test_a_subclass_of_a_record_that_is_made_quickly_keeps_its_class():
    class Other(Quick):
        pass

    @dataclass(frozen=True, slots=True)
    class More(Quick):
        fourth: int = 4

    assert type(Other(1, third="d")) is Other and Other(1, third="d").third == "d"
    assert type(More(1)) is More and More(1).fourth == 4 and More(1).second == ()


def test_records_that_are_made_in_another_way_keep_it():
    @state_type
    @dataclass(frozen=True, slots=True)
    class OwnWay:
        first: int
        second: int

        def __init__(self, both):
            object.__setattr__(self, "first", both)
            object.__setattr__(self, "second", both)

    @state_type
    @dataclass(frozen=True, slots=True, init=False)
    class NoWay:
        first: int

    @state_type
    @dataclass(frozen=True, slots=True)
    class MoreIn:
        first: int
        second: dataclasses.InitVar[int] = 2

    assert OwnWay(3).second == 3 and NoWay() is not None and MoreIn(1, second=3).first == 1
    named = dataclasses.make_dataclass("NamedSelf", [("self", int), ("set_self", int)], frozen=True, slots=True)
    assert state_type(named)(1, 2).self == 1


def test_records_with_factories_keep_the_constructor_that_they_have():
    @state_type
    @dataclass(frozen=True, slots=True)
    class Slow:
        first: list[int] = dataclasses.field(default_factory=list)

    assert Slow().first == [] and Slow().first is not Slow().first
