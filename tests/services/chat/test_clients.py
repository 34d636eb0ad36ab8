"""The two clients against services that answer well, oddly and malformed."""

from tests.needs import require

require("[anthropic]")

import copy
import json

import pytest

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import Malformed, ToolCallProtocol
from agent_envs.services.chat import AnthropicChat, ChatOptions, ChatReply, ChatRequest, OpenAIChat, OpenAIText
from tests.services.chat.faulty import FaultyServer
from tests.services.chat.wire import AnthropicWire, OpenAIWire, Said

KEY = "sk-secret-0123456789"
ASKED = ChatRequest([{"role": "user", "content": "Go"}], stop=["</answer>"])


def openai_answer(message, **choice):
    return {"choices": [{"message": message, "finish_reason": "stop", **choice}]}


def anthropic_answer(*blocks, **more):
    return {"content": list(blocks), "stop_reason": "end_turn", **more}


NOTHING = {"input": 0, "output": 0, "cached": 0, "cache_write": 0, "reasoning": 0, "calls": 1}


def answering(value):
    """A handler that answers anything with this JSON."""
    return lambda path, headers, body: (200, {"content-type": "application/json"}, json.dumps(value).encode())


@pytest.fixture
def read_openai(serve):
    return lambda value, asked=ASKED: OpenAIChat("m", serve(answering(value))).complete(asked)


@pytest.fixture
def read_anthropic(serve):
    return lambda value, asked=ASKED: AnthropicChat("m", url=serve(answering(value))).complete(asked)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "hi"}, "hi"),
        ({"content": None, "tool_calls": []}, ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]}, "ab"),
        ({"content": "hi", "reasoning_content": "long thoughts"}, "hi"),
        ({"reasoning_content": "cut while thinking"}, ""),
        ({"reasoning": "cut while thinking"}, ""),
        ({"content": "hi", "tool_calls": None}, "hi"),
        ({"content": "lone \ud800"}, "lone ?"),
    ],
)
def test_openai_contents(read_openai, message, text):
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    assert read_openai({**openai_answer(message), "usage": usage}).text == text


def test_openai_stop_strings_come_back_where_the_server_names_them(read_openai):
    cut = {"content": "<answer>Mor"}
    assert read_openai(openai_answer(cut, stop_reason="</answer>")).text == "<answer>Mor</answer>"
    assert read_openai(openai_answer(cut, matched_stop="</answer>")).text == "<answer>Mor</answer>"
    assert read_openai(openai_answer(cut, matched_stop=128001)).text == "<answer>Mor"
    assert read_openai(openai_answer({"content": "x</answer>"}, stop_reason="</answer>")).text == "x</answer>"


def test_openai_usage_of_wrong_types_counts_nothing(read_openai):
    usage = {"prompt_tokens": "9", "completion_tokens": -4, "prompt_tokens_details": None}
    reply = read_openai({**openai_answer({"content": "x"}), "usage": usage})
    assert reply.usage == {"calls": 1, "uncounted": 1}


@pytest.mark.parametrize(
    ("usage", "sound"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 0}, True),
        ({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": None}}, True),
        ({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": "3"}}, False),
        ({"prompt_tokens": "900", "completion_tokens": 4}, False),
        ({"prompt_tokens": 9, "completion_tokens": 4.5}, False),
        ({"prompt_tokens": 9, "completion_tokens": True}, False),
        ({"prompt_tokens": 9}, False),
        ({}, False),
        ("900", False),
        (None, False),
    ],
)
def test_a_reply_says_whether_all_its_tokens_are_counted(read_openai, read_anthropic, usage, sound):
    assert ("uncounted" not in read_openai({**openai_answer({"content": "x"}), "usage": usage}).usage) is sound
    if not isinstance(usage, dict):
        assert read_anthropic({**anthropic_answer({"type": "text", "text": "x"}), "usage": usage}).usage["uncounted"]


def test_a_fault_is_uncounted_only_where_its_answer_counts_wrongly(read_openai):
    for value, usage in [
        ({"error": {"message": "overloaded"}}, {"calls": 1}),
        ({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}, {**NOTHING, "input": 9, "output": 4}),
        ({"choices": [], "usage": {"prompt_tokens": "9"}}, {"calls": 1, "uncounted": 1}),
    ]:
        with pytest.raises(EnvFault) as caught:
            read_openai(value)
        assert caught.value.usage == usage


def test_a_call_without_a_name_is_the_models_mistake_and_explained(read_openai, read_anthropic):
    for row in (None, {}, {"id": "a"}, {"id": "a", "function": {"name": None, "arguments": '{"q": "</tool_call>"}'}}):
        reply = read_openai(openai_answer({"content": None, "tool_calls": [row]}))
        read = ToolCallProtocol().parse(reply.canonical)
        assert reply.tool_calls == () and isinstance(read, Malformed) and '{"name": "..."' in read.reason
    reply = read_anthropic(anthropic_answer({"type": "tool_use", "id": "a", "input": {"q": 1}}))
    assert reply.text == '<tool_call>\n{"arguments": {"q":1}}\n</tool_call>'


def test_broken_arguments_reach_the_text(read_openai, read_anthropic):
    row = {"id": "a", "type": "function", "function": {"name": "find", "arguments": "{broken"}}
    openai = read_openai(openai_answer({"content": "I look.", "tool_calls": [row]}))
    anthropic = read_anthropic(
        anthropic_answer(
            {"type": "text", "text": "I look."}, {"type": "tool_use", "id": "a", "name": "find", "input": 3}
        )
    )
    for reply in (openai, anthropic):
        assert reply.text.startswith("I look.\n<tool_call>") and reply.tool_calls == ()
        assert isinstance(ToolCallProtocol().parse(reply.canonical), Malformed)


def test_anthropic_blocks(read_anthropic):
    thinking, text = {"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "<answer>Mor"}
    assert read_anthropic(anthropic_answer(thinking, text)).text == "<answer>Mor"
    met = anthropic_answer(text, stop_reason="stop_sequence", stop_sequence="</answer>")
    assert read_anthropic(met).text == "<answer>Mor</answer>"
    assert read_anthropic(anthropic_answer(stop_reason="refusal")) == ChatReply(
        "", usage={"calls": 1, "uncounted": 1}, stop_reason="refusal", refusal="refusal"
    )
    call = {"type": "tool_use", "id": "t", "name": "find", "input": {"q": 1}}
    assert read_anthropic(anthropic_answer(call)).tool_calls == (ToolCall("t", "find", '{"q":1}'),)


MALFORMED = [None, [], "text", 7, {}, {"error": {"message": "overloaded"}}]


@pytest.mark.parametrize(
    "value",
    [*MALFORMED, {"choices": []}, {"choices": {}}, {"choices": [None]}, {"choices": [{}]}, openai_answer({}), openai_answer([]),
     openai_answer({"content": 7})],
)  # fmt: skip
def test_openai_answers_without_structure_are_faults(read_openai, value):
    with pytest.raises(EnvFault) as caught:
        read_openai(value)
    assert caught.value.retryable


@pytest.mark.parametrize(
    "value",
    [*MALFORMED, {"content": "text"}, {"content": [None]}, {"content": [{}]}, anthropic_answer({"type": "text"})],
)
def test_anthropic_answers_without_structure_are_faults(read_anthropic, value):
    with pytest.raises(EnvFault) as caught:
        read_anthropic(value)
    assert caught.value.retryable


def test_an_error_inside_a_good_status_is_told(read_openai):
    with pytest.raises(EnvFault, match="overloaded"):
        read_openai({"error": {"message": "overloaded"}})


def test_what_is_sent_follows_the_options():
    model = OpenAIChat(
        "m", "http://localhost", options=ChatOptions(temperature=0.3, max_tokens=5, extra={"min_p": 0.1})
    )
    body = model.body(ChatRequest([], temperature=0.0, stop=list("abcdef")))
    assert (body["temperature"], body["max_tokens"], body["stop"]) == (0.0, 5, list("abcdef"))
    assert model.body(ChatRequest([]))["temperature"] == 0.3
    assert OpenAIChat("m", "http://localhost").body(ChatRequest([]))["temperature"] is None


def test_openai_itself_gets_its_own_fields():
    body = OpenAIChat("m").body(ChatRequest([], stop=list("abcdef"), max_tokens=7))
    assert (body["max_completion_tokens"], body["stop"]) == (7, list("abcd"))
    assert "max_tokens" not in body


def test_extra_adds_replaces_and_removes_fields(serve):
    wire = OpenAIWire(lambda body: Said("x"))
    extra = {"max_tokens": None, "max_completion_tokens": 3, "stop": None, "n": 1}
    OpenAIChat("m", serve(wire), options=ChatOptions(extra=extra)).complete(ASKED)
    assert wire.bodies == [
        {"model": "m", "messages": [{"role": "user", "content": "Go"}], "max_completion_tokens": 3, "n": 1}
    ]


@pytest.mark.parametrize("make", [AnthropicChat, OpenAIChat, OpenAIText])
@pytest.mark.parametrize(
    "fault", ["server_error", "unavailable", "rate_limit", "overloaded", "reset", "redirect_loop", "hang"]
)
def test_one_attempt_is_one_request(make, fault):
    """The port alone asks again: it knows the deadline, and what a fault cost."""
    with FaultyServer(OpenAIWire(None), lambda number: fault) as server:
        with pytest.raises(EnvFault):
            make("m", url=server.url, api_key="k").complete(ASKED, seconds=0.3 if fault == "hang" else 10.0)
        assert server.count == 1


@pytest.mark.parametrize(("make", "wire"), [(AnthropicChat, AnthropicWire), (OpenAIChat, OpenAIWire)])
def test_a_lone_surrogate_in_a_call_is_no_obstacle(serve, make, wire):
    service = wire(lambda body: Said("x"))
    call = '<tool_call>\n{"name": "find", "arguments": {"q": "\\ud800"}}\n</tool_call>'
    rows = [{"role": "user", "content": "Go"}, {"role": "assistant", "content": call},
            {"role": "tool", "content": "no", "tool_call_id": "call_0"}]  # fmt: skip
    tools = [{"type": "function", "function": {"name": "find"}}]
    assert make("m", url=serve(service)).complete(ChatRequest(rows, tools)).text == "x"


def text_answer(text, **choice):
    return {"choices": [{"text": text, "finish_reason": "stop", **choice}]}


@pytest.mark.parametrize(
    ("answer", "prefill", "text"),
    [
        (text_answer(" Mor"), "", "Mor"),
        (text_answer(" Mor"), "<answer>", "<answer> Mor"),
        (text_answer("Mor", stop_reason="</answer>"), "<answer>", "<answer>Mor</answer>"),
        (text_answer(" Mor", stop_reason="\n\nUser:"), "", "Mor"),
        (text_answer("lone \ud800"), "", "lone ?"),
        ({**text_answer(""), "usage": {"prompt_tokens": 1, "completion_tokens": 0}}, "", ""),
    ],
)
def test_text_of_a_base_model(serve, answer, prefill, text):
    asked = ChatRequest(ASKED.messages, stop=ASKED.stop, prefill=prefill)
    assert OpenAIText("m", serve(answering(answer))).complete(asked).text == text


@pytest.mark.parametrize("value", [*MALFORMED, {"choices": []}, {"choices": [{}]}, text_answer(None), text_answer(7)])
def test_answers_of_a_base_model_without_structure_are_faults(serve, value):
    with pytest.raises(EnvFault) as caught:
        OpenAIText("m", serve(answering(value))).complete(ASKED)
    assert caught.value.retryable


def test_a_base_model_gets_the_fields_that_it_knows():
    body = OpenAIText("m").body(ChatRequest([], stop=list("abcdef"), max_tokens=7))
    assert (body["prompt"], body["max_tokens"], body["stop"]) == ("Assistant:", 7, ["\n\nUser:", *"abc"])
    with pytest.raises(UsageError, match="openai-text:m: a base model takes no reasoning_effort"):
        OpenAIText("m", options=ChatOptions(reasoning_effort="low")).body(ASKED)


def test_a_system_text_alone_is_a_user_message_to_anthropic():
    body = AnthropicChat("m", url="http://localhost").body(ChatRequest([{"role": "system", "content": "Speak."}]))
    assert body["system"] is None
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Speak."}]}]


def test_a_temperature_is_sent_to_anthropic_in_the_version_that_has_one(serve):
    wire = AnthropicWire(lambda body: Said("x"))
    model = AnthropicChat("m", url=serve(wire))
    for temperature in (None, 0.0):
        model.complete(ChatRequest(ASKED.messages, temperature=temperature))
    assert [headers["anthropic-version"] for headers in wire.headers] == ["2026-10-21", "2023-06-01"]
    assert ["temperature" in body for body in wire.bodies] == [False, True]


def test_a_key_goes_to_anthropic_in_one_header_and_to_others_in_both(monkeypatch):
    """Without a key none goes anywhere, whatever the environment holds for the SDK."""
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "somebody's")
    sent = []

    def carry(method, url, *, headers, **request):
        sent.append((url, {name: headers.get(name) for name in ("authorization", "x-api-key", "anthropic-version")}))
        return anthropic_answer({"type": "text", "text": "hi"})

    for url, key in (("https://api.anthropic.com", "k"), ("http://localhost/a", "k"), ("http://localhost", "")):
        model = AnthropicChat("m", url=url, api_key=key)
        monkeypatch.setattr(model._client, "json", carry)
        model.complete(ASKED)
    version = {"anthropic-version": "2026-10-21"}
    assert sent == [
        ("https://api.anthropic.com/v1/messages", {"authorization": "Bearer k", "x-api-key": None, **version}),
        ("http://localhost/a/v1/messages", {"authorization": "Bearer k", "x-api-key": "k", **version}),
        ("http://localhost/v1/messages", {"authorization": None, "x-api-key": None, **version}),
    ]


def test_a_key_that_is_missing_is_named(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    for model, variable in ((OpenAIChat("m"), "OPENAI_API_KEY"), (AnthropicChat("m"), "ANTHROPIC_API_KEY")):
        with pytest.raises(UsageError, match=variable) as caught:
            model.complete(ASKED)
        assert "\n" not in str(caught.value)
    OpenAIChat("m", "http://localhost").require_key()
    with pytest.raises(UsageError, match="MY_KEY"):
        OpenAIChat("m", "http://localhost", key_variable="MY_KEY").require_key()


def test_no_key_shows_anywhere(serve, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    # Both fakes quote the key that they refuse, as careless servers do.
    models = (
        OpenAIChat("m", serve(OpenAIWire(None, key="other"))),
        AnthropicChat("m", url=serve(AnthropicWire(None, key="other"))),
    )
    for model in models:
        with pytest.raises(EnvFault, match="401") as caught:
            model.complete(ASKED)
        assert not caught.value.retryable
        assert (
            KEY not in f"{caught.value} {caught.value.cause} {caught.value!r} {model!r} {model.name} {model.settings}"
        )
        assert copy.deepcopy(model) is model


def test_a_key_in_an_answer_without_structure_is_hidden(serve):
    with pytest.raises(EnvFault) as caught:
        OpenAIChat("m", serve(answering({"error": f"bad key {KEY}"})), api_key=KEY).complete(ASKED)
    assert KEY not in caught.value.cause and "bad key (key)" in caught.value.cause


def test_a_key_that_no_header_can_carry_is_refused_without_showing_it():
    with pytest.raises(UsageError) as caught:
        OpenAIChat("m", api_key="sk-\nsecret")
    assert "secret" not in str(caught.value)


def test_requests_and_replies_have_a_json_form():
    asked = ChatRequest([{"role": "user", "content": "x"}], [{"type": "function"}], ["a"], "p", 0.5, 9, 3)
    assert ChatRequest.from_json(json.loads(json.dumps(asked.to_json()))) == asked
    reply = ChatReply("x", (ToolCall("a", "find", "{}"),), {"input": 1}, "stop")
    assert ChatReply.from_json(json.loads(json.dumps(reply.to_json()))) == reply


def test_a_key_that_stands_where_a_text_is_cut_is_hidden_whole(serve):
    key = "sk-0123456789-SECRET"
    for padding in range(180, 202):
        value = {"error": "z" * padding + key}
        model = OpenAIChat(
            "m", serve(lambda path, headers, body, value=value: (200, {}, json.dumps(value).encode())), api_key=key
        )
        with pytest.raises(EnvFault) as caught:
            model.complete(ChatRequest([{"role": "user", "content": "hi"}]))
        assert "sk-01" not in str(caught.value)


def test_counts_beyond_reason_are_bounded(serve):
    answer = {"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": 10**400, "completion_tokens": 5}}
    model = OpenAIChat("m", serve(lambda path, headers, body: (200, {}, json.dumps(answer).encode())), api_key="k")
    usage = model.complete(ChatRequest([{"role": "user", "content": "hi"}])).usage
    assert usage["input"] == 10**9 and usage["output"] == 5
