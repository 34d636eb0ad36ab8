"""The rule-based agents parse turns, tool calls, yes and no, and values from any conversation."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.envs.tau2.heuristics import reading
from agent_envs.rollout.policy import Request

TOOLS = [{"function": {"name": name}} for name in ("get_order_details", "cancel_pending_order")]
OPENING = [
    {"role": "system", "content": "the policy"},
    {"role": "user", "content": "The conversation so far:"},
    {"role": "assistant", "content": "Hello! What can I help you with today?"},
]


def talk(*rows):
    return reading.talk_of(
        Request("key", 0, [*OPENING, *({"role": role, "content": text} for role, text in rows)], TOOLS)
    )


def test_a_conversation_is_put_into_turns_and_calls():
    asked = reading.calling_all(
        [("get_order_details", {"order_id": "#W1"}), ("get_order_details", {"order_id": "#W2"})]
    )
    read = talk(
        ("user", "My order, please."), ("assistant", asked), ("tool", '{"order_id": "#W1"}'),
        ("tool", "Error: Order not found"), ("assistant", "<think>well</think>I found one."), ("user", "Good."),
    )  # fmt: skip
    assert read.user == ("My order, please.", "Good.")
    assert read.own == ("Hello! What can I help you with today?", "I found one.") and read.spoken == (0, 1)
    assert [call.arguments["order_id"] for call in read.calls] == ["#W1", "#W2"]
    assert [call.failed for call in read.calls] == [False, True]
    assert read.calls[0].value == {"order_id": "#W1"} and read.calls[1].value == "Error: Order not found"
    assert [call.content for call in read.named("get_order_details")] == ['{"order_id": "#W1"}']
    assert (
        read.tried("get_order_details", order_id="#W2").failed
        and read.tried("get_order_details", order_id="#W3") is None
    )
    assert read.awaiting and read.last == "Good." and read.since(1) == "Good."
    assert not talk(("user", "a"), ("assistant", asked), ("tool", "{}")).awaiting


def test_native_calls_are_read_too():
    native = {
        "id": "call_0",
        "type": "function",
        "function": {"name": "get_order_details", "arguments": '{"order_id":"#W7"}'},
    }
    rows = [*OPENING, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": [native]},
            {"role": "tool", "content": "{}"}]  # fmt: skip
    assert reading.talk_of(Request("key", 0, rows, TOOLS)).calls[0].arguments == {"order_id": "#W7"}


@pytest.mark.parametrize(
    "text",
    [
        "Yes, please.",
        "yes",
        "Sure, go ahead.",
        "OK, do it",
        "That sounds good to me.",
        "Yes. No problem at all.",
        "Correct!",
    ],
)
def test_what_is_a_yes(text):
    assert reading.agrees(text) and not reading.refuses(text)


@pytest.mark.parametrize(
    "text",
    [
        "No, that is wrong.",
        "Wait, not yet.",
        "Please do not do that.",
        "No thank you, rather the red one.",
        "Stop, never mind.",
    ],
)
def test_what_is_a_no(text):
    assert reading.refuses(text) and not reading.agrees(text)


@pytest.mark.parametrize("text", ["My zip code is 12345.", "", "The lamp."])
def test_what_is_neither(text):
    assert not reading.agrees(text) and not reading.refuses(text)


def test_values_are_found_in_words():
    text = (
        "I'm Mira Holm (mira.holm4@example.org.), zip 10115, order #W1234567 of 2024-05-17: $1,200.50, or 40 dollars."
    )
    assert reading.names(text)[0] == ("Mira", "Holm")
    assert reading.emails(text) == ["mira.holm4@example.org"]
    assert reading.zips(text) == ["10115"]
    assert reading.dates(text) == ["2024-05-17"]
    assert reading.amounts(text) == [1200.5, 40.0]
    assert reading.mentions("two Desk Lamps", "desk lamp") and not reading.mentions("a desk and a lamp", "desk lamp")


@given(st.text(max_size=300), st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.text(max_size=80))))
def test_anything_can_be_read(text, rows):
    assert isinstance(talk(*rows, ("user", text)).last, str)
    for function in (reading.names, reading.emails, reading.zips, reading.dates, reading.amounts, reading.agrees):
        function(text)


def test_a_call_is_written_as_it_is_read():
    written = reading.calling("get_order_details", order_id='#W1 "</tool_call>')
    assert talk(("user", "x"), ("assistant", written), ("tool", "{}")).calls[0].arguments == {
        "order_id": '#W1 "</tool_call>'
    }
    assert json.loads(written.splitlines()[1])["name"] == "get_order_details"
