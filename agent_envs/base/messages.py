"""Messages, tool calls and tool results are chat messages with an author; `Utterance` is the space of all strings."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Space

from agent_envs.base.serialization import state_type

Role = Literal["system", "user", "assistant", "tool"]
Author = Literal["environment", "policy", "user", "tool", "feedback"]
FEEDBACK_MARK = "Feedback: "  # what a message of feedback begins with, for those who see no author


_WORDS = "search answer the a of in who what when where first last yes no move left right one two three".split()


@state_type
@dataclass(frozen=True, slots=True)
class ToolCall:
    """A requested tool call; `arguments` is the canonical JSON text of an object."""

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
@dataclass(frozen=True, slots=True, weakref_slot=True)  # as `serialization.cached_text` asks
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


class Utterance(Space[str]):
    """Every Python string, of any length, lone surrogates included.

    `sample` draws a short printable text; it is there for Gymnasium's machinery, not as a sensible policy.
    """

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)

    def sample(self, mask: None = None, probability: None = None) -> str:
        """Return one to eight random words; ValueError for a `mask` or a `probability`, which have no meaning here."""
        if mask is not None or probability is not None:
            raise ValueError("Utterance has no mask and no probability: it holds all strings")
        count = int(self.np_random.integers(1, 9))
        return " ".join(_WORDS[int(self.np_random.integers(len(_WORDS)))] for _ in range(count))

    def contains(self, x: Any) -> bool:
        """Return whether `x` is a string."""
        return isinstance(x, str)

    @property
    def is_np_flattenable(self) -> bool:
        """Strings have no fixed-size vector."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Utterance)

    def __hash__(self) -> int:
        return hash("Utterance")

    def __repr__(self) -> str:
        return "Utterance()"
