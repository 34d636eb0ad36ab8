"""Dual control is a state machine: it knows whose turn it is, where messages go, what each side sees, and when it ends.

Pure functions on `Dialogue`: nothing is mutated, nothing runs beside. Every message is routed as the original routes it: one
with calls goes to the environment, which executes them in order and answers the caller; text goes to the other side.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import ToolCall
from agent_envs.envs.tau2.dialogue import Dialogue, Line, ToolReply, arguments_of
from agent_envs.envs.tau2.toolkit import FRESH, Domain, DomainState, Side, call

GREETING = "Hello! What can I help you with today?"
AGENT_STOP = "###STOP###"
USER_STOPS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
DONE = "done"  # solo mode's tool that ends the episode
Speak = Callable[[Dialogue], tuple[Line | None, Any]]
LIMITS = ("max_steps", "max_agent_turns", "too_many_errors")  # endings that cut a conversation off


@dataclass(frozen=True)
class Rules:
    """The domain, the mode and the limits of a conversation.

    Attributes:
        domain: the databases, tools and switches.
        solo: there is no user; the assistant has both sides' tools, and ends the episode itself.
        max_steps: messages that are routed, the environment's included.
        max_errors: tool calls that may fail, both sides' together.
        max_agent_turns: messages of the assistant; None leaves it to `max_steps`.
    """

    domain: Domain
    solo: bool = False
    max_steps: int = 200
    max_errors: int = 10
    max_agent_turns: int | None = None

    def __post_init__(self) -> None:
        """Refuse solo mode where the domain has none."""
        if self.solo and self.domain.user is None:
            raise UsageError(f"tau2 {self.domain.name} has no solo mode: its user has no tools; only telecom has it")

    def tools_of(self, side: Side) -> list[dict[str, Any]]:
        """Return the schemas of a side's tools; in solo mode those of both sides and the tool that ends the episode."""
        own = self.domain.assistant if side == "assistant" else self.domain.user
        kits = [own] if not self.solo else [self.domain.assistant, self.domain.user]
        schemas = [tool.schema() for kit in kits if kit is not None for tool in kit.tools.values()]
        return [*schemas, _done_schema()] if self.solo else schemas


def _done_schema() -> dict[str, Any]:
    """Return the schema of the tool with which a side without a partner ends the episode."""
    text = "End the episode, once all is done. Call it alone: other calls of the same message are not carried out."
    parameters = {"type": "object", "properties": dict[str, Any](), "required": list[str]()}
    return {"type": "function", "function": {"name": DONE, "description": text, "parameters": parameters}}


def opened(rules: Rules, world: DomainState = FRESH, history: tuple[Line, ...] = ()) -> Dialogue:
    """Return a conversation at its start: greeted, silent in solo mode, or going on after a history (`world` holds it)."""
    if history:
        return Dialogue(history, world, _awaited_side(history[-1]))
    if rules.solo:
        return Dialogue(world=world, turn="assistant")
    return Dialogue((Line("assistant", GREETING),), world, "user")


def _awaited_side(last: Line) -> Side:
    """Return the side whose turn follows a line: the caller of results, else the other side."""
    if last.results:
        return last.results[0].requestor
    return other(last.sender)


def other(side: str) -> Side:
    """Return the side that a side talks to."""
    return "user" if side == "assistant" else "assistant"


def spoke(rules: Rules, dialogue: Dialogue, text: str, calls: tuple[ToolCall, ...] = ()) -> Dialogue:
    """Return the conversation after a message: answers to its calls, else the other side's turn, or its end; or UsageError.

    Text beside calls is kept and delivered to nobody. In solo mode text that does not stop is the assistant's error.

    Raises:
        UsageError: the conversation is over, or the message is empty.
    """
    side = dialogue.turn
    if dialogue.ended or not (text.strip() or calls):
        raise UsageError(f"tau2: {'an empty message' if not dialogue.ended else 'the conversation is over'}")
    if rules.solo and any(item.name == DONE for item in calls):
        text, calls = AGENT_STOP, ()
    line = Line(side, text, calls)
    new = dialogue.replace(
        lines=(*dialogue.lines, line),
        steps=dialogue.steps + 1,
        agent_turns=dialogue.agent_turns + (side == "assistant"),
    )
    if calls:
        return limited(rules, _answer_calls(rules, new, line))
    awaited: Side = "assistant" if rules.solo else other(side)
    return limited(rules, new.replace(turn=awaited, ended=_ending(rules, side, text)))


def stumbled(rules: Rules, dialogue: Dialogue) -> Dialogue:
    """Return the conversation after a turn that could not be read: nothing is routed, and an assistant's turn is spent."""
    return limited(rules, dialogue.replace(agent_turns=dialogue.agent_turns + (dialogue.turn == "assistant")))


def answered(rules: Rules, dialogue: Dialogue, side: Side, speak: Speak) -> Dialogue:
    """Let a simulated side speak until its turn or the conversation ends; None in place of a line stops it."""
    while dialogue.turn == side and not dialogue.ended:
        line, memory = speak(dialogue)
        dialogue = dialogue.replace(memory=memory)
        dialogue = stopped(rules, dialogue) if line is None else spoke(rules, dialogue, line.text, line.calls)
    return dialogue


def stopped(rules: Rules, dialogue: Dialogue) -> Dialogue:
    """Return the conversation after the side whose turn it is ended it, with a stop: user_stop or agent_stop."""
    side = dialogue.turn
    new = spoke(rules, dialogue, AGENT_STOP)
    return new if new.ended else limited(rules, new.replace(ended="user_stop" if side == "user" else "agent_stop"))


def limited(rules: Rules, dialogue: Dialogue) -> Dialogue:
    """Return a conversation, ended where errors, steps or agent turns are used up; one that is over stays, but for a switch.

    A stop on exactly the last step stands, unless the switch `max_steps_overwrite` has it overwritten as the original does.
    """
    if dialogue.ended and not rules.domain.compat.max_steps_overwrite:
        return dialogue
    if dialogue.errors >= rules.max_errors:
        return dialogue.replace(ended="too_many_errors")
    if dialogue.steps >= rules.max_steps:
        return dialogue.replace(ended="max_steps")
    out_of_turns = rules.max_agent_turns is not None and dialogue.agent_turns >= rules.max_agent_turns
    if out_of_turns and dialogue.turn == "assistant" and not dialogue.ended:
        return dialogue.replace(ended="max_agent_turns")
    return dialogue


def seen_by(dialogue: Dialogue, side: Side, start: int = 0) -> tuple[Line, ...]:
    """Return the lines from a place on that a side sees: its own, the answers to its calls, and what the other told it."""
    return tuple(line for line in dialogue.lines[start:] if _sees(side, line))


def _sees(side: Side, line: Line) -> bool:
    """Return whether a side sees a line: all of its own and answers to it, of the other side words without calls."""
    if line.sender == "environment":
        return line.results[0].requestor == side
    return line.sender == side or not line.calls


def _ending(rules: Rules, side: Side, text: str) -> str:
    """Return the reason for which words end the conversation: user_stop, solo agent_stop or agent_error; "" for none."""
    if side == "user":
        return "user_stop" if any(stop in text for stop in USER_STOPS) else ""
    if not rules.solo:
        return ""
    return "agent_stop" if AGENT_STOP in text else "agent_error"


def _answer_calls(rules: Rules, dialogue: Dialogue, line: Line) -> Dialogue:
    """Return the conversation with a line's calls carried out: the replies as a line, one step more, errors counted."""
    replies, world = _execute_calls(rules, dialogue.world, line)
    return dialogue.replace(
        lines=(*dialogue.lines, Line("environment", results=replies)),
        world=world,
        steps=dialogue.steps + 1,
        errors=dialogue.errors + sum(reply.error for reply in replies),
    )


def _execute_calls(rules: Rules, world: DomainState, line: Line) -> tuple[tuple[ToolReply, ...], DomainState]:
    """Execute a line's calls in order; return the replies, failed ones too, and the state after all."""
    requestor: Side = "user" if line.sender == "user" else "assistant"
    replies = []
    for tool_call in line.calls:
        outcome, world = call(rules.domain, world, requestor, tool_call.name, arguments_of(tool_call), rules.solo)
        replies.append(ToolReply(tool_call.id, tool_call.name, outcome.content, outcome.error, requestor))
    return tuple(replies), world
