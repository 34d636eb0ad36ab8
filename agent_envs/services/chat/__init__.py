"""Chat models: what an agent, a simulated user or a judge talks through.

`ScriptedChat` needs no network; `OpenAIChat` and `AnthropicChat` speak the two wire formats that services and local servers
share. A model's `complete` is one attempt; `chat_port` puts attempts, deadlines and recordings before it.
"""

from agent_envs.services.chat.anthropic import AnthropicChat
from agent_envs.services.chat.model import ChatModel, ChatReply, ChatRequest, ScriptedChat
from agent_envs.services.chat.named import make_chat_model
from agent_envs.services.chat.openai import OpenAIChat
from agent_envs.services.chat.options import ChatOptions
from agent_envs.services.chat.port import ChatPort, ask, chat_port

__all__ = [
    "AnthropicChat",
    "ChatModel",
    "ChatOptions",
    "ChatPort",
    "ChatReply",
    "ChatRequest",
    "OpenAIChat",
    "ScriptedChat",
    "ask",
    "chat_port",
    "make_chat_model",
]
