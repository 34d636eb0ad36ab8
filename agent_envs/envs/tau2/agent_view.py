"""`SideView` makes one side's prompt and observations and carries out its turns; Gym and PettingZoo share it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from string import Template
from typing import Any

from agent_envs.base.messages import Message, ToolResult
from agent_envs.base.protocol import Call, Malformed, Parsed, Say
from agent_envs.base.serialization import canonical_json
from agent_envs.envs.tau2.actions import read_action
from agent_envs.envs.tau2.dialogue import Dialogue, Line
from agent_envs.envs.tau2.task_schema import Tau2Task
from agent_envs.envs.tau2.toolkit import Side
from agent_envs.envs.tau2.turn_taking import DONE, GREETING, Rules, seen_by, spoke, stumbled

_PROMPTS = {
    name: Template(files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8").strip())
    for name in ("prompt", "prompt_user", "prompt_solo")
}
_ENDINGS = {
    "agent_stop": "The conversation is over: the agent ended it.",
    "user_stop": "The conversation is over: the customer ended it.",
    "agent_error": "The episode is over: nobody reads words here; call a tool in every turn.",
    "max_steps": "The conversation was cut off: no further message is carried.",
    "max_agent_turns": "The conversation was cut off: the agent has no turn left.",
    "too_many_errors": "The conversation was cut off: too many tool calls failed.",
}
_EVENT = 200  # characters of an error's text in an event
_REMINDED = 600  # characters of the other side's last words
# A call of the right form for each set of tools, of nobody's in any task.
_EXAMPLES = {
    "find_user_id_by_email": {"email": "nobody@example.org"},
    "get_reservation_details": {"reservation_id": "XXXXXX"},
    "get_customer_by_phone": {"phone_number": "555-000-0000"},
    "check_status_bar": {},
}


@dataclass(frozen=True)
class SideTurn:
    """The outcome of a side's turn, as that side sees it.

    Attributes:
        parsed: the turn.
        dialogue: the conversation behind it.
        notices: what its writer is told at once, where it was no message.
    """

    parsed: Parsed
    dialogue: Dialogue
    notices: tuple[Message, ...] = ()

    @property
    def events(self) -> tuple[str, ...]:
        """The parse error of a turn that could not be read; () for one that could."""
        return (f"malformed: {self.parsed.reason}",) if isinstance(self.parsed, Malformed) else ()


@dataclass(frozen=True)
class SideView:
    """One side of a conversation under rules."""

    rules: Rules
    side: Side
    turns: int

    @cached_property
    def tools(self) -> tuple[dict[str, Any], ...]:
        """The schemas of the side's tools, cached."""
        return tuple(self.rules.tools_of(self.side))

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the side's tools, cached."""
        return frozenset(tool["function"]["name"] for tool in self.tools)

    def opening(self, task: Tau2Task, dialogue: Dialogue, instructions: str = "") -> tuple[Message, ...]:
        """Return the side's prompt before its first turn, with the words heard so far; in solo mode the ticket.

        `instructions` stand in place of the side's own; "" for those.
        """
        if self.rules.solo:
            first = Message("system", self.instructions(task), "environment")
            return first, Message("user", task.ticket or "There is no ticket.", "environment")
        messages = tuple(self._messages(seen_by(dialogue, self.side), own=bool(task.history)))
        return self._prompt(task, messages, instructions)

    def conversation(self, task: Tau2Task, dialogue: Dialogue, instructions: str = "") -> tuple[Message, ...]:
        """Return the side's whole conversation as a model's context; `instructions` replace the side's own."""
        return self._prompt(task, tuple(self._messages(seen_by(dialogue, self.side), own=True)), instructions)

    def _prompt(self, task: Tau2Task, messages: tuple[Message, ...], instructions: str = "") -> tuple[Message, ...]:
        """Return messages behind the system prompt; where an assistant's comes first, a user's line is put before it."""
        first = Message("system", instructions or self.instructions(task), "environment")
        if messages and messages[0].role == "assistant":  # some chat templates let nobody but the user begin
            messages = (Message("user", "The conversation so far:", "environment"), *messages)
        return (first, *messages)

    def hear(self, dialogue: Dialogue, text: str) -> SideTurn:
        """Parse the side's turn and route its words or carry out its calls; an unreadable one gets a notice and a count."""
        parsed = read_action(text, self.names)
        if isinstance(parsed, Malformed):
            notice = Message("user", self._teach(parsed.reason, dialogue), "environment")
            return SideTurn(parsed, stumbled(self.rules, dialogue), (notice,))
        calls = parsed.calls if isinstance(parsed, Call) else ()
        words = parsed.text if isinstance(parsed, Say) else ""
        return SideTurn(parsed, spoke(self.rules, dialogue, words, calls))

    def _teach(self, reason: str, dialogue: Dialogue) -> str:
        """Word the answer to an unreadable turn: what was wrong, a call in the right form, the last words of the other side."""
        name = next((name for name in _EXAMPLES if name in self.names), "")
        call = canonical_json({"name": name, "arguments": _EXAMPLES[name]}) if name else ""
        form = f" A turn is words alone, or a call, such as {call}." if call else ""
        words = [line.text for line in dialogue.lines if line.sender != self.side and line.text]
        task = f' It is to answer: "{words[-1][:_REMINDED]}"' if words else ""
        return f"This turn could not be read: {reason}.{form}{task}"

    def news(self, before: Dialogue, after: Dialogue) -> tuple[Message, ...]:
        """Return the lines since `before` as the side observes them, without its own words, and a note on the ending."""
        messages = tuple(self._messages(seen_by(after, self.side, len(before.lines)), own=False))
        # The words with which the other side stops say enough.
        explains_end = bool(messages) and messages[-1].role == "user" and after.ended in ("user_stop", "agent_stop")
        if after.ended and not explains_end:
            messages = (*messages, Message("user", _ENDINGS[after.ended], "environment"))
        return messages

    def results(self, before: Dialogue, after: Dialogue) -> tuple[ToolResult, ...]:
        """Return the answers since `before` to the side's own calls."""
        return tuple(
            ToolResult(reply.call_id, reply.name, reply.content, reply.error)
            for line in seen_by(after, self.side, len(before.lines))
            for reply in line.results
        )

    def instructions(self, task: Tau2Task) -> str:
        """Return the side's system prompt: the user's, the agent's, or the agent's in solo mode."""
        domain = self.rules.domain
        name = "prompt_user" if self.side == "user" else "prompt_solo" if self.rules.solo else "prompt"
        return _PROMPTS[name].substitute(
            scenario=task.scenario,
            policy=(domain.solo_policy if self.rules.solo else domain.policy).strip(),
            tools="\n".join(f"- {signature(tool)}" for tool in self.tools) or "none",
            greeting=GREETING,
            done=DONE,
            turns=self.turns,
        )

    def _messages(self, lines: tuple[Line, ...], own: bool) -> Iterator[Message]:
        """Yield lines as messages to this side: its own as assistant (only if `own`), results as tool, others as user."""
        for line in lines:
            if line.sender == self.side:
                if own:
                    yield Message("assistant", line.text, "environment", line.calls)
            elif line.results:
                yield from (Message("tool", reply.content, "tool", (), reply.call_id) for reply in line.results)
            else:
                yield Message("user", line.text, "user" if line.sender == "user" else "environment")


def signature(tool: dict[str, Any]) -> str:
    """Return a tool's name with its arguments, those that may be left out as `name=...`."""
    function = tool["function"]
    required = function["parameters"]["required"]
    names = [name if name in required else f"{name}=..." for name in function["parameters"]["properties"]]
    return f"{function['name']}({', '.join(names)})"


def errors_of(results: tuple[ToolResult, ...]) -> tuple[str, ...]:
    """Return an event for each call that failed."""
    return tuple(f"{result.name[:_EVENT]}: {result.content[:_EVENT]}" for result in results if result.error)
