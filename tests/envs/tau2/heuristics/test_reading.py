"""The rule-based agents parse turns, tool calls, yes and no, and values from any conversation."""

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
    return reading.read(Request("key", 0, [*OPENING, *({"role": role, "content": text} for role, text in rows)], TOOLS))


def test_a_conversation_is_put_into_words_and_calls():
    asked = reading.calling(("get_order_details", {"order_id": "#W1"}), ("get_order_details", {"order_id": "#W2"}))
    user, own, calls = talk(
        ("user", "My order, please."), ("assistant", asked), ("tool", '{"order_id": "#W1"}'),
        ("tool", "Error: Order not found"), ("assistant", "<think>well</think>I found one."), ("user", "Good."),
    )  # fmt: skip
    assert user == ["My order, please.", "Good."]
    assert own == [("Hello! What can I help you with today?", 0), ("I found one.", 1)]
    assert [call.arguments["order_id"] for call in calls] == ["#W1", "#W2"]
    assert [call.failed for call in calls] == [False, True] and [call.turn for call in calls] == [1, 1]
    assert calls[0].value == {"order_id": "#W1"} and calls[1].value == "Error: Order not found"


def test_native_calls_are_read_too():
    native = {
        "id": "call_0",
        "type": "function",
        "function": {"name": "get_order_details", "arguments": '{"order_id":"#W7"}'},
    }
    rows = [*OPENING, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": [native]},
            {"role": "tool", "content": "{}"}]  # fmt: skip
    assert reading.read(Request("key", 0, rows, TOOLS))[2][0].arguments == {"order_id": "#W7"}


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
    assert reading.answer(text) is True


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
    assert reading.answer(text) is False


@pytest.mark.parametrize("text", ["My zip code is 12345.", "", "The lamp.", "OK, but not on my card."])
def test_what_is_neither(text):
    assert reading.answer(text) is None


def test_values_are_found_in_words():
    text = (
        "I'm Mira Holm (mira.holm4@example.org.), zip 10115, order #W1234567 of 2024-05-17: $1,200.50, or 40 dollars."
    )
    assert reading.names(text)[0] == ("Mira", "Holm")
    assert reading.matches(r"\b\d{5}\b", text) == ["10115"]
    assert reading.mentions("two Desk Lamps", "desk lamp") and not reading.mentions("a desk and a lamp", "desk lamp")


@given(st.text(max_size=300), st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.text(max_size=80))))
def test_anything_can_be_read(text, rows):
    assert isinstance(talk(*rows, ("user", text))[0][-1], str)
    for function in (reading.names, reading.answer, reading.plain):
        function(text)


def test_payment_methods_are_found_by_digits_or_by_a_kind_that_is_the_only_one():
    card, other = ({"id": f"c{digits}", "source": "credit_card", "last_four": digits} for digits in ("1111", "2222"))
    gift = {"id": "g", "source": "gift_card", "balance": 5.0}
    text = "My gift card first, and the rest on my Visa card ending in 2222."
    assert reading.methods_in(text, [card, other, gift]) == [gift, other]
    assert reading.methods_in("My credit card.", [card, other, gift]) == []
    assert reading.called(other) == "the credit card ending in 2222"
