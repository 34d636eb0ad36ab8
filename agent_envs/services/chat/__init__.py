"""Chat models answer for an agent, a simulated user or a judge: OpenAI, Anthropic, servers like them, or a script.

`ScriptedChat` needs no network. `OpenAIChat`, `OpenAIText` (base models) and `AnthropicChat` (over the official SDK) speak the
wire formats that services and local servers share. A model's `complete` is one attempt; `chat_port` puts attempts, deadlines
and recordings before it.

Modules, in reading order:
    model: `ChatOptions`, `ChatRequest`, `ChatReply` with its token usage, the `ChatModel` interface, and `ScriptedChat`.
    named: models by name (`openai:MODEL@URL`, `anthropic:MODEL`, ...), and the model that an argument names.
    http, openai, anthropic: API keys and malformed answers; the chat-completions, completions and Messages formats.
    conversation: tool calls in text turned into native tool calls and results.
    port: retries, deadlines, recording and replay of a chat model; `ask`.
    server: whether tools and prefills reach the prompt of a local server.
    prices, spending: prices of tokens (`prices.json`), the cost of usage, and the cost limit that models share.
"""

from agent_envs.services.chat.anthropic import AnthropicChat
from agent_envs.services.chat.model import ChatModel, ChatOptions, ChatReply, ChatRequest, ScriptedChat
from agent_envs.services.chat.named import make_chat_model
from agent_envs.services.chat.openai import OpenAIChat, OpenAIText
from agent_envs.services.chat.port import ChatPort, ask, chat_port

__all__ = [
    "AnthropicChat", "ChatModel", "ChatOptions", "ChatPort", "ChatReply", "ChatRequest", "OpenAIChat", "OpenAIText",
    "ScriptedChat", "ask", "chat_port", "make_chat_model",
]  # fmt: skip
