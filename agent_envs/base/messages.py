"""Messages, tool calls and tool results are frozen, and each message knows who wrote it.

`role` is what a chat template needs; `author` is who wrote the text. Rewards and training masks read the author, never
the role: a retrieved passage may travel in a `user` message, and it is still not the policy's word.
"""

from dataclasses import dataclass
from typing import Any, Literal

from agent_envs.base.serialization import state_type

Role = Literal["system", "user", "assistant", "tool"]
Author = Literal["environment", "policy", "user", "tool", "feedback"]
FEEDBACK_MARK = "Feedback: "  # what a message of feedback begins with, for those who see no author


@state_type
@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that somebody asked for. `arguments` is the canonical JSON text of an object."""

    id: str
    name: str
    arguments: str


@state_type
@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call.

    Attributes:
        call_id: the id of the call that it answers; "" of what the environment itself noted for rewards.
        name: the tool.
        content: the text that the caller sees.
        error: whether the call was refused or failed.
        ids: opaque ids of what was returned (passages, records), in order: the typed trace that rewards may read.
    """

    call_id: str
    name: str
    content: str
    error: bool = False
    ids: tuple[str, ...] = ()


@state_type
@dataclass(frozen=True, slots=True, weakref_slot=True)  # as `serialization.kept_text` asks
class Message:
    """One chat message."""

    role: Role
    content: str
    author: Author
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return a fresh plain dict for a chat template, in the shape of OpenAI's chat API, without the author."""
        row: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            row["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.tool_calls
            ]
        if self.tool_call_id:
            row["tool_call_id"] = self.tool_call_id
        return row


def text_of(messages: tuple[Message, ...]) -> str:
    """Return the contents of messages as one text, separated by blank lines."""
    if len(messages) == 1:
        return messages[0].content
    return "\n\n".join([message.content for message in messages])
