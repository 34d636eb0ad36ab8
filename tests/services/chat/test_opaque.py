"""Servers that act as providers do get back with a turn what they want, as it came, and to the same model alone."""

from tests.needs import require

require("[anthropic]")

import json

import gymnasium as gym
import pytest

from agent_envs.core.trajectory import Trajectory
from agent_envs.rollout.chat_policy import ChatPolicy
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.services.chat.anthropic import AnthropicChat
from agent_envs.services.chat.conversation import conversation
from agent_envs.services.chat.model import ChatRequest
from agent_envs.services.chat.openai import OpenAIChat
from tests.services.chat.local import LocalServer

TOOLS = [{"type": "function", "function": {"name": "find_user_id_by_email", "parameters": {"type": "object"}}}]
CALL = {"name": "find_user_id_by_email", "arguments": '{"email": "a@b.c"}'}
TEXT = {"type": "text", "text": "Hi."}
SIGNATURE = {"google": {"thought_signature": "Ab+/=="}}
# How each provider's message looks, and which parts of it come back on the same message.
MESSAGES = {
    "deepseek": {"content": "", "reasoning_content": "First\n the user. é", "tool_calls": [{"id": "x", "function": CALL}]},
    "gemini": {"content": None, "tool_calls": [{"id": "x", "function": CALL, "extra_content": SIGNATURE}]},
    "openrouter": {
        "content": "I look.", "reasoning": None, "reasoning_details": [{"type": "encrypted", "data": "q=="}],
        "tool_calls": [{"id": "x", "function": CALL}],
    },
    "mistral": {"content": [{"type": "thinking", "thinking": [TEXT]}, TEXT]},
    "vllm": {"content": "Hi.", "reasoning": "A thought."},
}  # fmt: skip


def exchange(model, text="tool result", **more):
    """Ask a model, and ask again with its reply in the conversation; return the second reply."""
    first = model.complete(ChatRequest([{"role": "user", "content": "Who?"}], TOOLS))
    said = {"role": "assistant", "content": first.canonical, "opaque": first.opaque, **more}
    results = [{"role": "tool", "tool_call_id": "call_0", "content": text}] if first.tool_calls else []
    rows = [{"role": "user", "content": "Who?"}, said, *results, {"role": "user", "content": "Go on."}]
    return model.complete(ChatRequest(rows, TOOLS))


def serve_message(serve, message):
    bodies = []

    def handler(path, headers, body):
        bodies.append(json.loads(body))
        return LocalServer.reply(200, {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {}})

    return serve(handler), bodies


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_parts_come_back_on_the_same_message(serve, message):
    url, bodies = serve_message(serve, message)
    exchange(OpenAIChat("m", url))
    [back] = [row for row in bodies[1]["messages"] if row["role"] == "assistant"]
    for name, value in message.items():
        if "reason" in name:
            assert back.get(name) == value
    if isinstance(message["content"], list):
        assert back["content"] == message["content"]
    for old, new in zip(message.get("tool_calls", ()), back.get("tool_calls", ()), strict=True):
        assert new.get("extra_content") == old.get("extra_content")


def test_no_other_model_sees_them(serve):
    url, bodies = serve_message(serve, MESSAGES["deepseek"])
    reply = OpenAIChat("m", url).complete(ChatRequest([{"role": "user", "content": "Who?"}], TOOLS))
    rows = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "x", "opaque": reply.opaque}]
    for other in (OpenAIChat("other", url), OpenAIChat("m", f"{url}/v2")):
        other.complete(ChatRequest(rows))
        assert "reasoning_content" not in json.dumps(bodies[-1]) and "opaque" not in json.dumps(bodies[-1])
    for text in ("{", "[]", '{"model": "m"}', None, 7):
        assert conversation(ChatRequest([{**rows[1], "opaque": text}]), model=reply.opaque and "x")[0].opaque == {}


def test_thinking_blocks_stand_where_they_stood(serve):
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, {"type": "text", "text": "I look."},
        {"type": "redacted_thinking", "data": "eA=="}, {"type": "tool_use", "id": "t", "name": "find", "input": {}},
    ]  # fmt: skip
    bodies = []

    def handler(path, headers, body):
        bodies.append(json.loads(body))
        usage = {"input_tokens": 1, "output_tokens": 1}
        return LocalServer.reply(200, {"content": blocks, "stop_reason": "tool_use", "usage": usage})

    exchange(AnthropicChat("m", url=serve(handler)))
    [back] = [row["content"] for row in bodies[1]["messages"] if row["role"] == "assistant"]
    assert [block["type"] for block in back] == [block["type"] for block in blocks]
    assert (back[0], back[2]) == (blocks[0], blocks[2])


def test_a_server_that_takes_no_such_field_is_asked_without(serve):
    bodies = []

    def handler(path, headers, body):
        bodies.append(json.loads(body))
        if "reasoning" in json.dumps(bodies[-1]["messages"]):
            return LocalServer.reply(400, {"error": {"message": "property 'reasoning' is unsupported"}})
        message = MESSAGES["vllm"]
        return LocalServer.reply(200, {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {}})

    model = OpenAIChat("m", serve(handler))
    assert exchange(model).text == "Hi." and len(bodies) == 3
    assert exchange(model).text == "Hi." and len(bodies) == 5


def test_an_environment_never_sees_them_and_a_record_keeps_them(serve):
    """DeepSeek's rule: the second call of a conversation is refused without the thoughts of the first."""
    calls = []

    def handler(path, headers, body):
        calls.append([row for row in json.loads(body)["messages"] if row["role"] == "assistant"])
        if any("reasoning_content" not in row for row in calls[-1]):
            message = {"message": "The `reasoning_content` in the thinking mode must be passed back to the API."}
            return LocalServer.reply(400, {"error": message})
        message = MESSAGES["deepseek"]
        return LocalServer.reply(200, {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": {}})

    env = gym.make("agent_envs/Tau2Retail-v0", max_agent_turns=4)
    policy = ChatPolicy(OpenAIChat("m", serve(handler)), wait=lambda _: None)
    result = run_episode(env, policy, seed=0)
    turns = result.trajectory.turns
    assert len(calls) == len(turns) == 4 and all("First\\n the user. é" in turn.opaque for turn in turns)
    assert Trajectory.from_json(result.trajectory.to_lean_json()).turns == turns
    assert "the user. é" not in str(env.unwrapped.episode)
