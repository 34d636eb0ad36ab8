"""The gold agent knows the criteria: it does what is expected, says what must be said, and asks the user for its part.

It is the solver, and the partner of whoever plays the user. A task with a recorded dialogue is played as recorded.
"""

import json
from importlib.resources import files
from string import Template
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import ToolCall
from agent_envs.core.trajectory import Task
from agent_envs.envs.tau2.dialogue import Dialogue, Line
from agent_envs.envs.tau2.scene import Scene, recorded_lines
from agent_envs.envs.tau2.task_schema import Criteria, ExpectedAction, tau2_task
from agent_envs.envs.tau2.toolkit import Side
from agent_envs.envs.tau2.turn_taking import AGENT_STOP, DONE

CLOSING = Line("assistant", "All is done. Is there anything else that I can do for you?")
HANDED_OVER = Line("assistant", "I have handed you over: you are being transferred to a human agent.")
TRANSFER = "transfer_to_human_agents"
_PLAN = Template(files(__package__).joinpath("prompt_plan.md").read_text(encoding="utf-8").strip())


class GoldAgent:
    """Plays the agent's side from the criteria, whatever the user says."""

    name, service = "scripted", ""

    def speak(self, scene: Scene) -> tuple[Line | None, Any]:
        """Return the first line of the script that was not said yet; it never stops by itself."""
        line = next_line(scene.task, scene.public.domain, scene.dialogue, scene.side, scene.rules.solo)
        return line, scene.memory


def next_line(task: Task, domain: str, dialogue: Dialogue, side: Side, solo: bool) -> Line:
    """Return the script's first line not said yet, in order; after the last, a closing, or that of a transfer."""
    script = _script(task, domain, side, solo)
    place = 0
    for line in dialogue.lines:
        if line.sender == side and place < len(script) and _are_same(line, script[place]):
            place += 1
    if place < len(script):
        return script[place]
    transferred = any(call.name == TRANSFER for line in script for call in line.calls)
    return HANDED_OVER if transferred else CLOSING


def oracle_plan(task: Task, domain: str) -> str:
    """Return the original's oracle plan for the agent's prompt: the expected actions as steps, "Nothing" without any."""
    criteria = _criteria(task, domain)
    steps = [
        f"{place}. {'Call' if action.requestor == 'assistant' else 'Ask the customer to do this:'} {_call_text(action)}"
        for place, action in enumerate((criteria and criteria.actions) or (), 1)
    ]
    return _PLAN.substitute(steps="\n".join(steps) or "Nothing is to be done.")


def _script(task: Task, domain: str, side: Side, solo: bool) -> tuple[Line, ...]:
    """Return a side's recorded lines, unless solo; else an assistant's by the criteria; () for other sides or without any."""
    recorded = recorded_lines(task, side)
    if recorded and not solo:
        return recorded
    criteria = _criteria(task, domain)
    return tuple(_expected_lines(criteria, solo)) if criteria is not None and side == "assistant" else ()


def _criteria(task: Task, domain: str) -> Criteria | None:
    """Return a task's criteria; None where it has none, or they cannot be read (UsageError swallowed)."""
    try:
        return tau2_task(task, domain).criteria
    except UsageError:  # criteria that cannot be read expect nothing
        return None


def _are_same(one: Line, other: Line) -> bool:
    """Return whether two lines have the same text and calls."""
    return (one.text, one.calls) == (other.text, other.calls)


def _expected_lines(criteria: Criteria, solo: bool) -> list[Line]:
    """Return the script: the expected actions, the user's as requests unless solo, then the facts to tell, or solo's end."""
    lines = [_line(action, place, solo) for place, action in enumerate(criteria.actions or ())]
    info = "; ".join(criteria.communicate_info)
    if solo:
        through = Line("assistant", calls=(ToolCall("call_0", DONE, "{}"),))
        return [*lines, Line("assistant", f"{info} {AGENT_STOP}") if info else through]
    return [*lines, Line("assistant", f"For your information: {info}. {CLOSING.text}")] if info else lines


def _line(action: ExpectedAction, place: int, solo: bool) -> Line:
    """Return the line of an expected action: a call, or (the user's, unless solo) words that ask the user for it."""
    if action.requestor == "assistant" or solo:
        return Line("assistant", calls=(ToolCall("call_0", action.name, action.arguments),))
    return Line("assistant", f"Step {place + 1}: please do this on your phone: {_call_text(action)}")


def _call_text(action: ExpectedAction) -> str:
    """Return an expected action as text: the name with its arguments in brackets."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in json.loads(action.arguments).items())
    return f"{action.name}({arguments})"
