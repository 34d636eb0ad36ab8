"""Reading a turn: calls in three forms, words, thoughts; never an exception, and nothing is evaluated."""

import ast
import json
from keyword import iskeyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.protocol import Call, Malformed, Say
from agent_envs.envs.tau2.actions import MOST_CALLS, read_action, without_thought
from tests.rows import each_row

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,9}", fullmatch=True).filter(lambda name: not iskeyword(name))
TOOLS = frozenset({"look_up", "calculate"})
TEXTS = st.text(st.characters(exclude_categories=("Cs",)))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def one(text):
    parsed = read_action(text, TOOLS)
    assert isinstance(parsed, Call) and len(parsed.calls) == 1, parsed
    return parsed.calls[0].name, json.loads(parsed.calls[0].arguments)


@given(st.dictionaries(NAMES, VALUES, max_size=3))
def test_the_functional_form_reads_literals_as_python_does(arguments):
    text = f"look_up({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
    assert [key.arg for key in ast.parse(text, mode="eval").body.keywords] == list(arguments)
    assert one(text) == ("look_up", json.loads(json.dumps(arguments)))


@given(st.text())
def test_no_text_raises(text):
    for said in (text, f"look_up({text})", f"look_up(a={text})", f"<tool_call>{text}</tool_call>", "{" + text + "}"):
        parsed = read_action(said, TOOLS)
        assert isinstance(parsed, Call | Say | Malformed)
        if isinstance(parsed, Call):
            for call in parsed.calls:
                call.name.encode()
                assert isinstance(json.loads(call.arguments), dict)


@pytest.mark.parametrize(
    "text",
    [
        'look_up(id="A", n=2,)',
        '{"name": "look_up", "arguments": {"id": "A", "n": 2}}',
        'I look.\n<tool_call>\n{"name": "look_up", "arguments": {"id": "A", "n": 2}}\n</tool_call>',
        "<think>look_up(id=1)</think> look_up(id='A', n=2)",
    ],
)
def test_one_call_in_every_form(text):
    assert one(text) == ("look_up", {"id": "A", "n": 2})


def test_names_of_json_and_of_python_mean_the_same():
    assert one("look_up(a=True, b=true, c=None, d=null, e=False)")[1] == {
        "a": True, "b": True, "c": None, "d": None, "e": False
    }  # fmt: skip


@each_row(
    "text",
    [
        "look_up(1)", "look_up(a=b)", "look_up(a=1 2)", "look_up(a=[1,,2])", "look_up(a=)", "look_up(a=1,,b=2)",
        "look_up(a=1,a=2)", "look_up(a=1e999)", "look_up(a={1:2})", "look_up(a=--1)", "look_up(a=" + "9" * 5000 + ")",
        "look_up(a=[1)", "look_up(a=1])", "look_up(a=[1}])", "look_up(a=__import__('os'))", "look_up(a=(1))", "look_up(,)",
        "look_up(a=1", "look_up(a=1) and then I wait", "look_up(a=" + "[" * 90_000 + "]" * 90_000 + ")", "look_up(a='x)",
        "look_up(" + "a=1," * 200_000 + ")", '<tool_call>{"name": 1}</tool_call>', "<tool_call>", '{"name": "look_up"',
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_explained(text):
    parsed = read_action(text, TOOLS)
    if text == '{"name": "look_up"':  # braces that do not close are words
        assert parsed == Say(text)
        return
    assert isinstance(parsed, Malformed) and parsed.reason and len(parsed.reason) < 200


@pytest.mark.parametrize("text", ["Sure (ok)", "hello(there)", "f(x) = 2", "(look_up)", "{yes}", "look_up?"])
def test_words_that_look_like_calls_are_words(text):
    assert read_action(text, TOOLS) == Say(text)


def test_an_unknown_name_with_proper_arguments_is_a_call_that_the_tools_refuse():
    assert one("look_down(id='A')") == ("look_down", {"id": "A"})


def test_thoughts_are_cut_and_empty_turns_explained():
    assert without_thought("<think>secret</think> Hello ") == "Hello"
    assert read_action("<think>secret</think>Hello", TOOLS) == Say("Hello")
    for text in ("", " \n", "<think>only this", "<think>a</think> "):
        assert isinstance(read_action(text, TOOLS), Malformed)
    assert read_action("I <think> so", TOOLS) == Say("I <think> so")


def test_calls_in_one_turn_are_bounded():
    call = '<tool_call>{"name": "look_up"}</tool_call>'
    assert len(read_action(call * MOST_CALLS, TOOLS).calls) == MOST_CALLS
    assert "at most 32" in read_action(call * (MOST_CALLS + 1), TOOLS).reason
