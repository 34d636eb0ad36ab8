"""From messages with calls as text to pairs of native calls and results that no service refuses."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import Malformed, ToolCallProtocol
from agent_envs.services.chat import AnthropicChat, ChatReply, ChatRequest, OpenAIChat
from agent_envs.services.chat.conversation import conversation, read_native_call
from tests.examples import examples
from tests.services.chat.wire import AnthropicWire, OpenAIWire, Refused

TOOLS = [{"type": "function", "function": {"name": "find", "description": "Find.", "parameters": {"type": "object"}}}]


def calls(*names):
    return ToolCallProtocol.render([ToolCall("", name, '{"q":1}') for name in names])


def said(role, content, call_id=None):
    return {"role": role, "content": content} | ({"tool_call_id": call_id} if call_id else {})


def shape(messages, tools=TOOLS, **more):
    turns = conversation(ChatRequest(messages, tools, **more))
    return [(turn.role, turn.text, tuple(call.id for call in turn.calls) or turn.call_id) for turn in turns]


def test_calls_of_two_turns_get_ids_of_their_own():
    rows = [said("user", "Go"), said("assistant", f"I look.\n{calls('find', 'find')}"), said("tool", "a", "call_0"),
            said("tool", "b", "call_1"), said("assistant", calls("find")), said("tool", "c", "call_0")]  # fmt: skip
    assert shape(rows) == [
        ("user", "Go", ""),
        ("assistant", "I look.", ("call00000", "call00001")),
        ("tool", "a", "call00000"),
        ("tool", "b", "call00001"),
        ("assistant", "", ("call00002",)),
        ("tool", "c", "call00002"),
    ]


def test_results_come_in_the_order_of_their_calls_and_surplus_ones_as_text():
    rows = [said("assistant", calls("find", "find")), said("tool", "b", "call_1"), said("tool", "x", "call_7"),
            said("tool", "a", "call_0"), said("tool", "again", "call_0")]  # fmt: skip
    assert [row[:2] for row in shape(rows)[1:]] == [("tool", "a"), ("tool", "b"), ("user", "x"), ("user", "again")]


@pytest.mark.parametrize(
    "rows",
    [
        [said("assistant", calls("find")), said("user", "no")],
        [said("assistant", calls("find", "find")), said("tool", "only one", "call_0")],
        [said("assistant", calls("no such name")), said("tool", "refused", "call_0")],
        [said("assistant", "<tool_call>\n{broken\n</tool_call>"), said("tool", "refused", "call_0")],
        [said("tool", "of nothing", "call_0")],
        [said("assistant", calls("find"))],
    ],
)
def test_what_has_no_pair_is_sent_as_the_text_that_it_is(rows):
    roles = {"tool": "user"}
    assert shape(rows) == [(roles.get(row["role"], row["role"]), row["content"], "") for row in rows]


def test_without_tools_calls_are_text():
    rows = [said("assistant", calls("find")), said("tool", "a", "call_0")]
    assert shape(rows, tools=()) == [("assistant", calls("find"), ""), ("user", "a", "")]


def test_native_calls_in_a_message_are_kept():
    row = {"id": "x", "type": "function", "function": {"name": "find", "arguments": '{"q":1}'}}
    rows = [{"role": "assistant", "content": None, "tool_calls": [row]}, said("tool", "a", "x")]
    assert shape(rows) == [("assistant", "", ("call00000",)), ("tool", "a", "call00000")]
    assert shape(rows, tools=())[0] == ("assistant", calls("find"), "")


def test_a_prefill_is_asked_for_in_words():
    assert shape([said("user", "Go")], prefill="<answer>")[-1] == ("user", "Begin your reply with <answer>", "")


@pytest.mark.parametrize(
    "arguments", ["{broken", "[1]", '"text"', '{"a": NaN}', "[" * 100_000, '{"a":1}, "name": "other"', 3]
)
def test_broken_arguments_become_text_that_an_environment_explains(arguments):
    text = read_native_call("c", "find", arguments)
    assert isinstance(text, str)
    assert isinstance(ToolCallProtocol().parse(text), Malformed)


def test_arguments_that_are_too_deep_are_refused_for_that():
    """The call is a level more than they are."""
    for levels in (63, 64, 5_000):
        text = read_native_call("c", "find", '{"a":' * levels + "1" + "}" * levels)
        deep = Malformed("the tool call is nested more than 64 deep")
        assert isinstance(text, ToolCall) if levels == 63 else ToolCallProtocol().parse(text) == deep


@pytest.mark.parametrize("arguments", ['{"q": 1}', {"q": 1}])
def test_sound_arguments_are_a_call(arguments):
    assert read_native_call("c", "find", arguments) == ToolCall("c", "find", '{"q":1}')
    assert read_native_call("c", "find", "") == read_native_call("c", "find", None) == ToolCall("c", "find", "{}")


def test_a_reply_in_canonical_text_parses_back():
    reply = ChatReply("I look.", (ToolCall("x", "find", '{"q":"</tool_call>"}'),))
    assert ToolCallProtocol().parse(reply.canonical).calls == (ToolCall("call_0", "find", '{"q":"</tool_call>"}'),)
    assert ChatReply("only text").canonical == "only text"


PIECES = st.sampled_from(
    ["", " ", "word", "\ud800", calls("find"), calls("find", "find"), calls("a b"), "<tool_call>{"]
)
ROWS = st.lists(
    st.builds(
        lambda role, parts, call_id: said(role, "\n".join(parts), call_id if role == "tool" else None),
        st.sampled_from(["system", "user", "assistant", "tool", "tool"]),
        st.lists(PIECES, max_size=3),
        st.sampled_from(["call_0", "call_1", "call_2"]),
    ),
    max_size=8,
)


@given(rows=ROWS, tools=st.sampled_from([TOOLS, []]))
@examples(300)
def test_no_conversation_is_refused(rows, tools):
    request = ChatRequest([said("user", "Go"), *rows, said("user", "On")], tools, stop=["\n", "</a>"])
    openai = OpenAIChat("m", "http://localhost").body(request)
    anthropic = AnthropicChat("m", url="http://localhost").body(request)
    for wire, body in ((OpenAIWire, openai), (AnthropicWire, anthropic)):
        sent = json.loads(json.dumps({name: value for name, value in body.items() if value is not None}))
        try:
            wire(None).check(sent, {"anthropic-version": "2026-10-21"})
        except Refused as refused:
            pytest.fail(f"{wire.__name__}: {refused}: {sent['messages']}")
        assert "\ud800" not in json.dumps(sent, ensure_ascii=False)
