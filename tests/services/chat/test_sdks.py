"""The official SDKs are the reference: they parse what our fake services answer, and send what our clients send.

So the fakes that all other tests use, and the clients, speak the real formats.
"""

import importlib
import json
import tomllib
from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from agent_envs.services.chat import AnthropicChat, ChatOptions, ChatRequest, OpenAIChat, OpenAIText
from tests import ROOT
from tests.needs import needs
from tests.services.chat.wire import AnthropicWire, OpenAITextWire, OpenAIWire, Said

pytestmark = needs("[anthropic]", "[dev]")


@pytest.fixture
def anthropic():
    """An SDK, imported where a test runs: each worker collects this module, and the SDKs take two seconds."""
    return importlib.import_module("anthropic")


@pytest.fixture
def openai():
    return importlib.import_module("openai")


PARAMETERS = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
FUNCTION = {"name": "find", "description": "Find.", "parameters": PARAMETERS}
ARGUMENTS = '{"q":"bridge"}'
CALL = '<tool_call>\n{"name": "find", "arguments": {"q":"bridge"}}\n</tool_call>'
REQUEST = ChatRequest(
    messages=[
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Who built it?"},
        {"role": "assistant", "content": f"I look.\n{CALL}"},
        {"role": "tool", "content": "Ana Vilks.", "tool_call_id": "call_0"},
        {"role": "user", "content": "And when?"},
    ],
    tools=[{"type": "function", "function": FUNCTION}],
    stop=["</answer>", "\n"],
    max_tokens=99,
    seed=7,
)
SAID = Said("I know. <answer>1931</answer> and", (("find", ARGUMENTS), ("find", "{}")))


def plain(value):
    """Consume the lazy iterators that pydantic makes of the SDKs' types."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value if value is None or isinstance(value, str | int | float) else [plain(item) for item in value]


def test_openai(serve, openai):
    wire = OpenAIWire(lambda body: SAID, key="k")
    url = serve(wire)
    with openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0, _strict_response_validation=True) as sdk:
        answer = sdk.chat.completions.create(
            model="m",
            messages=[
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Who built it?"},
                {
                    "role": "assistant",
                    "content": "I look.",
                    "tool_calls": [
                        {"id": "call00000", "type": "function", "function": {"name": "find", "arguments": ARGUMENTS}}
                    ],
                },
                {"role": "tool", "tool_call_id": "call00000", "content": "Ana Vilks."},
                {"role": "user", "content": "And when?"},
            ],
            tools=[{"type": "function", "function": FUNCTION}],
            stop=["</answer>", "\n"],
            max_tokens=99,
            seed=7,
            temperature=0.5,
            top_p=0.9,
            reasoning_effort="low",
        )
    options = ChatOptions(temperature=0.5, top_p=0.9, reasoning_effort="low")
    reply = OpenAIChat("m", url, api_key="k", options=options).complete(REQUEST)
    assert wire.bodies[0] == wire.bodies[1]
    official = TypeAdapter(openai.types.chat.completion_create_params.CompletionCreateParamsNonStreaming)
    assert plain(official.validate_python(wire.bodies[1])) == wire.bodies[1]
    message, usage = answer.choices[0].message, answer.usage
    assert (reply.text, reply.stop_reason) == (message.content, answer.choices[0].finish_reason)
    assert [(call.id, call.name, json.loads(call.arguments)) for call in reply.tool_calls] == [
        (call.id, call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls
    ]
    assert reply.usage == {
        "input": usage.prompt_tokens,
        "output": usage.completion_tokens,
        "cached": usage.prompt_tokens_details.cached_tokens,
        "cache_write": 0,
        "reasoning": usage.completion_tokens_details.reasoning_tokens,
        "calls": 1,
    }


def test_openai_text(serve, openai):
    wire = OpenAITextWire(lambda body: SAID, key="k")
    url = serve(wire)
    prompt = (
        'Tools, each called as <tool_call>{"name": ..., "arguments": {...}}</tool_call>:\n'
        '{"description":"Find.","name":"find","parameters":'
        '{"properties":{"q":{"type":"string"}},"required":["q"],"type":"object"}}\n\n'
        f"System: Be brief.\n\nUser: Who built it?\n\nAssistant: I look.\n{CALL}\n\nUser: Ana Vilks.\n\nUser: And when?\n\n"
        "Assistant: It was"
    )
    with openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0, _strict_response_validation=True) as sdk:
        answer = sdk.completions.create(
            model="m", prompt=prompt, stop=["\n\nUser:", "</answer>", "\n"], max_tokens=99, seed=7, top_p=0.9
        )
    model = OpenAIText("m", url, api_key="k", options=ChatOptions(top_p=0.9))
    reply = model.complete(replace(REQUEST, prefill="It was"))
    assert wire.bodies[0] == wire.bodies[1]
    official = TypeAdapter(openai.types.completion_create_params.CompletionCreateParamsNonStreaming)
    assert plain(official.validate_python(wire.bodies[1])) == wire.bodies[1]
    assert (reply.text, reply.tool_calls, reply.stop_reason) == (f"It was{answer.choices[0].text}", (), "stop")
    assert (reply.usage["input"], reply.usage["output"]) == (answer.usage.prompt_tokens, answer.usage.completion_tokens)


def test_the_official_client_here_is_the_newest_of_its_range(anthropic):
    """The oldest is played by tests/heavy/test_installs.py: the range has two ends, and both are played."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (line,) = extras["anthropic"]
    major, minor = anthropic.__version__.split(".")[:2]
    assert line == f"anthropic>=2,<{major}.{int(minor) + 1}"


def test_anthropic(serve, anthropic):
    wire = AnthropicWire(lambda body: SAID, key="k")
    url = serve(wire)
    with anthropic.Anthropic(api_key="k", base_url=url, max_retries=0, _strict_response_validation=True) as sdk:
        answer = sdk.messages.create(
            model="m",
            system="Be brief.",
            messages=[
                {"role": "user", "content": [{"type": "text", "text": "Who built it?"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "I look."},
                        {"type": "tool_use", "id": "call00000", "name": "find", "input": {"q": "bridge"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "call00000", "content": "Ana Vilks."},
                        {"type": "text", "text": "And when?"},
                    ],
                },
            ],
            tools=[{"name": "find", "description": "Find.", "input_schema": PARAMETERS}],
            stop_sequences=["</answer>"],
            max_tokens=99,
            output_config={"effort": "low"},
        )
    reply = AnthropicChat("m", url=url, api_key="k", options=ChatOptions(reasoning_effort="low")).complete(REQUEST)
    assert wire.bodies[0] == wire.bodies[1]
    assert wire.headers[0]["anthropic-version"] == wire.headers[1]["anthropic-version"]
    official = TypeAdapter(anthropic.types.message_create_params.MessageCreateParamsNonStreaming)
    assert plain(official.validate_python(wire.bodies[1])) == wire.bodies[1]
    kinds = [block.type for block in answer.content]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"]
    assert reply.text == answer.content[1].text and reply.stop_reason == answer.stop_reason == "tool_use"
    assert [(call.id, call.name, json.loads(call.arguments)) for call in reply.tool_calls] == [
        (block.id, block.name, block.input) for block in answer.content[2:]
    ]
    usage = answer.usage
    assert reply.usage == {
        "input": usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
        "output": usage.output_tokens,
        "cached": usage.cache_read_input_tokens,
        "cache_write": usage.cache_creation_input_tokens,
        "reasoning": usage.output_tokens_details.thinking_tokens,
        "calls": 1,
    }


def test_anthropic_with_a_prefix_for_the_cache(serve, anthropic):
    wire = AnthropicWire(lambda body: Said("Look closer."), key="k")
    url = serve(wire)
    with anthropic.Anthropic(api_key="k", base_url=url, max_retries=0, _strict_response_validation=True) as sdk:
        answer = sdk.messages.create(
            model="m",
            system=[
                {"type": "text", "text": "Be brief."},
                {"type": "text", "text": "The rules.", "cache_control": {"type": "ephemeral"}},
            ],
            messages=[{"role": "user", "content": [{"type": "text", "text": "Now."}]}],
            max_tokens=1024,
        )
    rows = [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "The rules.", "cached": True},
        {"role": "user", "content": "Now."},
    ]
    reply = AnthropicChat("m", url=url, api_key="k").complete(ChatRequest(rows))
    assert wire.bodies[0] == wire.bodies[1] and reply.text == answer.content[-1].text == "Look closer."
    official = TypeAdapter(anthropic.types.message_create_params.MessageCreateParamsNonStreaming)
    assert plain(official.validate_python(wire.bodies[1])) == wire.bodies[1]
    written, read = answer.usage.cache_creation_input_tokens, answer.usage.cache_read_input_tokens
    assert (reply.usage["cache_write"], reply.usage["cached"]) == (written, read) == (6, 64)
    # The other format has no such field: what is sent is what it always was.
    plain_wire = OpenAIWire(lambda body: Said("Hm."))
    OpenAIChat("m", serve(plain_wire)).complete(ChatRequest(rows))
    assert all(set(message) == {"role", "content"} for message in plain_wire.bodies[0]["messages"])


def test_the_fakes_refuse_as_the_services_do(serve, openai, anthropic):
    with openai.OpenAI(api_key="x", base_url=f"{serve(OpenAIWire(None, key='k'))}/v1", max_retries=0) as sdk:
        with pytest.raises(openai.AuthenticationError):
            sdk.chat.completions.create(model="m", messages=[])
    with anthropic.Anthropic(api_key="k", base_url=serve(AnthropicWire(None, key="k")), max_retries=0) as sdk:
        with pytest.raises(anthropic.BadRequestError):
            sdk.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": " "}])
