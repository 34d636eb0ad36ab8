"""`Dialogue` is the one immutable value that holds all of the state of a conversation between two sides.

Three parties send lines: the assistant, the user, and the environment, which answers tool calls. A line with calls goes to
the environment, whatever else it says; the answers go back to the caller alone.

A `Task` of the core carries a task of this family so: `data` is the published row without its criteria (frozen: tuples for
lists), and under "recording", where there is one, what both sides said, as `recording_of` reads it; `hidden` is the row's
`evaluation_criteria` (frozen), which nobody is ever shown.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import ToolCall
from agent_envs.base.serialization import canonical_json, state_type
from agent_envs.envs.tau2.database import thawed
from agent_envs.envs.tau2.record_schema import Anything, Default, Each, SchemaError, Shape, shaped
from agent_envs.envs.tau2.toolkit import FRESH, DomainState, Side

Sender = Literal["assistant", "user", "environment"]
_ROWS: Shape = [
    {
        "sender": ("assistant", "user"),
        "text": Default(str, ""),
        "calls": Default([{"name": str, "arguments": Default(Each(Anything()), {})}], ()),
    }
]
STOPS = ("agent_stop", "user_stop")  # the endings after which a conversation is scored


@state_type
@dataclass(frozen=True, slots=True)
class ToolReply:
    """The environment's answer to one call: the text that the caller sees, and nobody else."""

    call_id: str
    name: str
    content: str
    error: bool
    requestor: Side


@state_type
@dataclass(frozen=True, slots=True)
class Line:
    """One message of a conversation.

    Attributes:
        sender: who sent it.
        text: what it says; beside calls it is kept and delivered to nobody.
        calls: what it asks the environment to do, in order.
        results: of an environment's line: the answers to one message's calls, in order.
    """

    sender: Sender
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolReply, ...] = ()


@state_type
@dataclass(frozen=True, slots=True)
class Dialogue:
    """The whole state of a conversation.

    Attributes:
        lines: all messages in order.
        world: what the episode changed in the databases.
        turn: whose message is awaited.
        steps: messages routed so far, as the original counts them (both sides' and the environment's).
        agent_turns: messages of the assistant so far, those that could not be read included.
        errors: tool calls that failed so far, both sides'.
        ended: "" while it goes on, else why it ended: agent_stop, user_stop, max_steps, max_agent_turns, too_many_errors
            or agent_error.
        memory: what a simulated side keeps in mind: an immutable value of its own, None at the start.
    """

    lines: tuple[Line, ...] = ()
    world: DomainState = FRESH
    turn: Side = "user"
    steps: int = 0
    agent_turns: int = 0
    errors: int = 0
    ended: str = ""
    memory: Any = None

    def replace(self, **changes: Any) -> "Dialogue":
        """Return a copy with some attributes changed."""
        return Dialogue(**{name: getattr(self, name) for name in Dialogue.__match_args__} | changes)


def recording_of(rows: Sequence[Mapping[str, Any]]) -> tuple[Line, ...]:
    """Return a recording's rows (`sender`, `text`, `calls`) as lines; UsageError for another form, or where one says nothing.

    Raises UsageError: the rows are something else, or one says nothing; the message names the place.
    """
    try:
        lines = tuple(
            Line(row["sender"], row["text"], calls_of(row["calls"])) for row in shaped(rows, _ROWS, "recording")
        )
    except SchemaError as error:
        raise UsageError(f"tau2: {error}") from None
    for place, line in enumerate(lines):
        if not (line.text.strip() or line.calls):
            raise UsageError(f"tau2: recording[{place}]: says nothing and calls nothing")
    return lines


def calls_of(rows: Sequence[Mapping[str, Any]]) -> tuple[ToolCall, ...]:
    """Return rows with `name` and perhaps `arguments` as calls, numbered call_0, call_1, ..."""
    return tuple(
        ToolCall(f"call_{place}", row["name"], canonical_json(thawed(row.get("arguments", {}))))
        for place, row in enumerate(rows)
    )


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """Return a call's arguments."""
    arguments: dict[str, Any] = json.loads(call.arguments)
    return arguments


def arguments_text(arguments: str) -> str:
    """Return a call's arguments as `name=value`, each value as JSON."""
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in json.loads(arguments).items())
