"""Chat models: what an agent, a simulated user or a judge talks through. `ScriptedChat` is the one without a network."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent_envs.errors import EnvFault
from agent_envs.messages import ToolCall


@dataclass(frozen=True)
class ChatRequest:
    """What a model is asked: plain chat messages, tool schemas, and how to sample."""

    messages: Sequence[dict[str, Any]]
    tools: Sequence[dict[str, Any]] = ()
    stop: Sequence[str] = ()
    prefill: str = ""
    temperature: float = 1.0
    max_tokens: int = 1024
    seed: int = 0


@dataclass(frozen=True)
class ChatReply:
    """What it said. `usage` counts tokens by name (`input`, `output`, ...)."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: dict[str, int] = field(default_factory=dict)


class ChatModel(Protocol):
    """A model behind a name; safe to call from many threads."""

    name: str

    def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply.

        Raises:
            EnvFault: the service failed.
        """
        ...


class ScriptedChat:
    """A chat model that speaks from a script: a function of the request, or a list of lines.

    A list is read by how many assistant messages the conversation holds, so that the model keeps no state, and forks and
    threads cannot disturb each other.
    """

    def __init__(self, script: Sequence[str] | Callable[[ChatRequest], str], name: str = "scripted") -> None:
        """Take the script."""
        self.name = name
        self._script = script

    def complete(self, request: ChatRequest) -> ChatReply:
        """Return the script's next line; past its end, EnvFault."""
        if callable(self._script):
            return ChatReply(self._script(request))
        spoken = sum(message["role"] == "assistant" for message in request.messages)
        if spoken >= len(self._script):
            raise EnvFault(f"the script of {self.name} has {len(self._script)} lines, and one more was asked", False)
        return ChatReply(self._script[spoken])
