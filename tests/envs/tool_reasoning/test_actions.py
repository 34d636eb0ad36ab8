import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.protocol import Answer, Call, Malformed
from agent_envs.envs.tool_reasoning.actions import BROWSE, MOST_CALLS, PYTHON, SEARCH, TOOLS, Actions, program
from tests.hostile_texts import HOSTILE
from tests.rows import each_row

TAGS, JSON = Actions("tags", TOOLS), Actions("json", TOOLS)


def one(actions, text):
    parsed, wishes = actions.read(text)
    assert isinstance(parsed, Call) and len(wishes) == 1
    return wishes[0]


@pytest.mark.parametrize("actions", [TAGS, JSON], ids=["tags", "json"])
def test_what_is_rendered_is_read(actions):
    code = "for i in range(3):\n    if i < 2:\n        print(i, '</tool_call>')"
    for name, text in ((SEARCH, "the tower"), (BROWSE, "w-0012"), (PYTHON, code)):
        wish = one(actions, "<think>why</think>\n" + actions.rendered(name, text))
        assert (wish.call.name, wish.text, wish.page, wish.problem) == (name, text, 1, "")


def test_a_page_stands_behind_the_id():
    assert (one(TAGS, "<browse>w-1 [page 3]</browse>").text, one(TAGS, "<browse>w-1 [page 3]").page) == ("w-1", 3)
    assert one(TAGS, "<browse>[page 3] w-1</browse>").text == "[page 3] w-1"
    assert one(TAGS, "<browse>w-1 [page 1234567]</browse>").page == 1
    call = {"name": "browse", "arguments": {"document": " w-1 ", "page": 2}}
    wish = one(JSON, f"<tool_call>{json.dumps(call)}</tool_call>")
    assert (wish.text, wish.page) == ("w-1", 2)


@each_row(
    ("text", "code"),
    [
        ("\n    x = 1\n    print(x)\n", "x = 1\nprint(x)"),
        ("  x = 1\n    y = 2", "x = 1\n  y = 2"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("\n```py\n    print(1)\n    ```\n", "print(1)"),
        ("``` \nprint(1)\n```  ", "print(1)"),
        ("```\n```", ""),
        ("print('''```''')", "print('''```''')"),
        ("print(1)\n```", "print(1)\n```"),
        (" \n\t", ""),
    ],
)
def test_programs_keep_their_indents_and_lose_fences(text, code):
    assert program(text) == code
    assert one(TAGS, f"<python>{text}</python>").text == code


def test_the_first_complete_tag_counts_and_an_unclosed_last_one():
    assert one(TAGS, "<search>a</search><python>1</python>").call.name == SEARCH
    assert one(TAGS, "<search>a <python>1</python>").call.name == PYTHON
    assert one(TAGS, "<think>x</think><search>a").text == "a"
    parsed, wishes = TAGS.read("<answer>\\boxed{4}")
    assert (parsed, wishes) == (Answer("\\boxed{4}"), ())
    assert isinstance(TAGS.read("nothing")[0], Malformed)


def test_tools_that_are_not_offered_are_no_actions():
    actions = Actions("tags", (PYTHON,))
    assert isinstance(actions.read("<search>a</search>")[0], Malformed)
    assert actions.stop == ("</python>", "</answer>")
    wish = one(Actions("json", (PYTHON,)), '<tool_call>{"name": "search", "arguments": {"query": "a"}}</tool_call>')
    assert "there is no tool 'search'; the tools are python" in wish.problem


def test_json_answers():
    assert JSON.read("so <answer> \\boxed{4} </answer> <tool_call>{}</tool_call>")[0] == Answer("\\boxed{4}")
    assert JSON.read("It is \\boxed{4}.")[0] == Answer("It is \\boxed{4}.")
    assert isinstance(JSON.read("It is 4.")[0], Malformed)
    assert isinstance(JSON.read("\\boxed{4} <tool_call>{</tool_call>")[0], Malformed)


def test_json_calls_are_read_in_order_and_bounded():
    call = '<tool_call>{"name": "search", "arguments": {"query": "q%d"}}</tool_call>'
    parsed, wishes = JSON.read("\n".join(call % number for number in range(40)))
    assert isinstance(parsed, Call)
    assert [wish.text for wish in wishes[:MOST_CALLS]] == [f"q{number}" for number in range(MOST_CALLS)]
    assert len(wishes) == 20
    assert all("at most 8 calls" in wish.problem for wish in wishes[MOST_CALLS:])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"query": 3}, "'query' must be of type string"),
        ({}, "missing argument query"),
        ({"query": "a", "k": 1}, "unknown argument 'k'"),
    ],
)
def test_wrong_arguments_are_problems(arguments, told):
    wish = one(JSON, "<tool_call>" + json.dumps({"name": "search", "arguments": arguments}) + "</tool_call>")
    assert told in wish.problem


@given(st.sampled_from(sorted(HOSTILE.values())) | st.text(max_size=200), st.sampled_from([TAGS, JSON]))
def test_any_text_is_read(text, actions):
    for shape in (text, f"<python>{text}</python>", f"<browse>{text}", f"<tool_call>{text}</tool_call>"):
        parsed, wishes = actions.read(shape)
        assert bool(wishes) == isinstance(parsed, Call)
