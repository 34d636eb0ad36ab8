"""Chat models by name."""

import json
import sys

import pytest

from agent_envs.base.errors import EnvFault, MissingExtra, UsageError
from agent_envs.services.chat import (
    AnthropicChat,
    OpenAIChat,
    OpenAIText,
    ScriptedChat,
    ask,
    chat_port,
    make_chat_model,
)
from agent_envs.services.chat.model import ChatRequest
from agent_envs.services.recording import CallSite, Recording
from tests.needs import needs
from tests.rows import each_row
from tests.servers import FaultServer
from tests.services.chat.wire import AnthropicWire, Said


@each_row(
    ("name", "kind", "url", "shown"),
    [
        ("openai:gpt-x", OpenAIChat, "https://api.openai.com/v1/chat/completions", "openai:gpt-x"),
        (
            "openai:gpt-x@https://api.openai.com",
            OpenAIChat,
            "https://api.openai.com/v1/chat/completions",
            "openai:gpt-x",
        ),
        (
            "openai:a/b:7@http://h:8000",
            OpenAIChat,
            "http://h:8000/v1/chat/completions",
            "openai:a/b:7@http://h:8000/v1",
        ),
        ("openai:m@http://h:8000/", OpenAIChat, "http://h:8000/v1/chat/completions", "openai:m@http://h:8000/v1"),
        ("openai:m@http://h/v1/", OpenAIChat, "http://h/v1/chat/completions", "openai:m@http://h/v1"),
        ("openai:m@http://h/v1/chat/completions", OpenAIChat, "http://h/v1/chat/completions", "openai:m@http://h/v1"),
        ("openai:m@https://h/api/v3", OpenAIChat, "https://h/api/v3/chat/completions", "openai:m@https://h/api/v3"),
        ("openai-text:m@http://h", OpenAIText, "http://h/v1/completions", "openai-text:m@http://h/v1"),
        ("openai-text:m@http://h/v1/completions", OpenAIText, "http://h/v1/completions", "openai-text:m@http://h/v1"),
        ("openai-text:m", OpenAIText, "https://api.openai.com/v1/completions", "openai-text:m"),
        ("anthropic:c@20250514", AnthropicChat, "https://api.anthropic.com/v1/messages", "anthropic:c@20250514"),
        ("anthropic:c@1@http://h", AnthropicChat, "http://h/v1/messages", "anthropic:c@1@http://h"),
        ("anthropic:c@http://h/v1/messages", AnthropicChat, "http://h/v1/messages", "anthropic:c@http://h"),
        (
            "anthropic:c@https://api.anthropic.com/v1",
            AnthropicChat,
            "https://api.anthropic.com/v1/messages",
            "anthropic:c",
        ),
    ],
)
def test_names(name, kind, url, shown):
    model = make_chat_model(name)
    assert (type(model), model.url, model.name) == (kind, url, shown)


@pytest.mark.parametrize("name", ["gpt-x", "openai:", "openai", "google:x", "openai:m@", "openai:@http://h", ":m"])
def test_unknown_names_show_the_forms(name):
    with pytest.raises(UsageError, match="openai:MODEL@URL, anthropic:MODEL, "):
        make_chat_model(name)


@pytest.mark.parametrize(
    "url", ["localhost:8000", "http://", "http://h:port", "https://u:pass@h", "http://h/v1?key=pass"]
)
def test_urls_that_are_none_or_hold_secrets_are_refused_without_showing_them(url):
    with pytest.raises(UsageError, match="URL") as caught:
        make_chat_model(f"openai:m@{url}")
    assert "pass@" not in str(caught.value) and "=pass" not in str(caught.value)


@each_row(
    ("options", "text"),
    [
        (
            {"heat": 1},
            "the options are temperature, max_tokens, top_p, reasoning_effort, tools, prefill, extra, api_key_env",
        ),
        ({"temperature": "warm"}, "temperature='warm'"),
        ({"temperature": 3}, "temperature=3"),
        ({"temperature": True}, "temperature=True"),
        ({"max_tokens": 0}, "max_tokens=0"),
        ({"max_tokens": 2.5}, "max_tokens=2.5"),
        ({"top_p": -1}, "top_p=-1"),
        ({"reasoning_effort": 3}, "reasoning_effort=3"),
        ({"extra": "x"}, "extra='x'"),
        ({"api_key_env": 3}, "api_key_env=3"),
    ],
)
def test_options_are_checked(options, text):
    with pytest.raises(UsageError, match=text):
        make_chat_model("openai:m", **options)


def test_a_key_comes_from_the_variable_that_is_named(monkeypatch):
    monkeypatch.setenv("MY_KEY", "abc")
    assert make_chat_model("openai:m", api_key_env="MY_KEY").headers() == {"Authorization": "Bearer abc"}
    assert make_chat_model("anthropic:m@http://h", api_key_env="MY_KEY").headers() == {"X-Api-Key": "abc"}


def test_a_port_needs_the_key_unless_it_replays(monkeypatch, tmp_path):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = make_chat_model("openai:m")
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        chat_port(model)
    path = tmp_path / "r.jsonl"
    Recording(path, "record").close()
    port = chat_port(model, recording=Recording(path, "replay"))
    with pytest.raises(EnvFault, match="no recording"):
        ask(port, ChatRequest([]), CallSite("k"))


@pytest.mark.parametrize("package", ["anthropic", "httpx2"])  # the second comes with the first from 1.0 on
@needs("[anthropic]")
def test_a_port_needs_the_sdk_unless_it_replays(monkeypatch, tmp_path, serve, package):
    wire, path, asked = (
        AnthropicWire(lambda body: Said("yes")),
        tmp_path / "r.jsonl",
        ChatRequest([{"role": "user", "content": "x"}]),
    )
    name = f"anthropic:m@{serve(wire)}"
    with Recording(path, "record") as recording:
        first = ask(chat_port(make_chat_model(name), recording=recording), asked, CallSite("k"))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=r'needs anthropic: pip install "agent-envs\[anthropic\]"$') as caught:
        chat_port(make_chat_model(name))
    assert "\n" not in str(caught.value)
    replay = chat_port(make_chat_model(name), recording=Recording(path, "replay"))
    assert ask(replay, asked, CallSite("k")) == first and first.text == "yes"


def test_other_settings_are_another_port():
    ports = [
        chat_port(make_chat_model("openai:m@http://h", **options)) for options in ({}, {"top_p": 0.5}, {"top_p": 0.6})
    ]
    assert len({port.name for port in ports}) == 3
    assert ports[0].name == "openai:m@http://h/v1"


def test_a_port_records_and_replays_a_reply(tmp_path):
    path, asked, site = tmp_path / "r.jsonl", ChatRequest([{"role": "user", "content": "x"}]), CallSite("k")
    with Recording(path, "record") as recording:
        first = ask(chat_port(ScriptedChat(["one"]), recording=recording), asked, site)
    silent = ScriptedChat([])
    with Recording(path, "replay") as recording:
        assert ask(chat_port(silent, recording=recording), asked, site) == first
        with pytest.raises(EnvFault, match="no recording"):
            ask(chat_port(silent, recording=recording), asked, CallSite("another"))


def test_a_recording_of_something_else_is_a_fault(tmp_path):
    asked, site = ChatRequest([]), CallSite("k")
    with Recording(tmp_path / "r.jsonl", "record") as recording:
        port = chat_port(ScriptedChat([]), recording=recording)
        recording.keep(port.key(asked.to_json(), site), port.name, asked.to_json(), {"text": "x"})
        with pytest.raises(EnvFault, match="malformed"):
            ask(port, asked, site)


@pytest.mark.parametrize("name", ["openai:m", "openai-text:m", "anthropic:m"])
@needs("[anthropic]")
def test_a_greeting_asks_for_the_list_of_models_and_takes_any_answer_but_a_refused_key(name, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    for status in (200, 404, 405, 500):
        with FaultServer(lambda path, headers, body, status=status: (status, {}, b"{}")) as server:
            make_chat_model(f"{name}@{server.url}").greet()
        assert [(request[0], request[1], request[3]) for request in server.requests] == [("GET", "/v1/models", b"")]
    with (
        FaultServer(lambda path, headers, body: (401, {}, b"sk-secret")) as server,
        pytest.raises(EnvFault, match="answered 401; is the key in .*_API_KEY right") as caught,
    ):
        make_chat_model(f"{name}@{server.url}").greet()
    assert "sk-secret" not in caught.value.cause and not caught.value.retryable


def test_a_url_of_another_format_is_refused():
    with pytest.raises(UsageError, match="asked at /completions: give the URL up to /v1; chat models: openai:m"):
        make_chat_model("openai-text:m@http://h/v1/chat/completions")
    with pytest.raises(
        UsageError, match="asked at /chat/completions: give the URL up to /v1; base models: openai-text:m"
    ):
        make_chat_model("openai:m@http://h/v1/completions")


def test_a_key_that_a_server_echoes_is_in_no_reply(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-1234")
    call = {"id": "c", "type": "function", "function": {"name": "search", "arguments": '{"q": "sk-secret-1234"}'}}
    said = {"role": "assistant", "content": "it is sk-secret-1234", "tool_calls": [call]}
    answer = json.dumps({"choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}).encode()
    with FaultServer(lambda path, headers, body: (200, {}, answer)) as server:
        reply = make_chat_model(f"openai:m@{server.url}").complete(ChatRequest(({"role": "user", "content": "?"},)))
    assert reply.text == "it is (key)" and reply.tool_calls[0].arguments == '{"q":"(key)"}'
