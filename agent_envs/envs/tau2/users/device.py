"""A telecom customer carries out on the phone what an agent asks for, and tells what it showed.

`requests(text)` are queued; of the first, `plan` gives the steps. Each step is one call, in a line of its own; with each
answer, `due` drops the steps whose condition it does not meet. What the answers showed is put into words by `report`.
"""

import re
from dataclasses import dataclass, replace

from agent_envs.base.serialization import state_type
from agent_envs.envs.tau2.users.device_words import READING, STATES, TOGGLES, Request, label_of, read_requests, requests

__all__ = ["Request", "Step", "due", "feasible", "plan", "read_requests", "report", "requests"]
_SWITCHES = {tool: thing for thing, tool in TOGGLES.items()}
_ICONS = (
    ("✈️ ", ""), ("📶¹ ", "signal "), ("📶² ", "signal "), ("📶³ ", "signal "), ("📶⁴ ", "signal "), ("📵 ", ""), ("📱 ", ""),
    ("🔽 ", ""), ("📡 Connected to ", "Wi-Fi connected to "), ("📡 Enabled", "Wi-Fi connected"), ("🔒 ", ""),
    ("🔋 ", "battery "),
)  # fmt: skip
_MINE = re.compile(r"\b(your|you have|you do)\b", re.IGNORECASE)
_FIRST = {"your": "my", "you have": "I have", "you do": "I do"}


@state_type
@dataclass(frozen=True, slots=True)
class Step:
    """One call of a plan.

    Attributes:
        tool: the user's tool.
        arguments: canonical JSON.
        when: a text that the answer before it must hold, any case, or after "!" must not hold; "" for a step that is always
            taken.
        label: the line of the answer that the user tells; "" for all of it.
    """

    tool: str
    arguments: str = "{}"
    when: str = ""
    label: str = ""


def plan(request: Request) -> tuple[Step, ...]:
    """Return a request's steps: a look at its condition, a look at its switch (only set if the other way), and the call."""
    if request.look and request.look != "location":
        steps = plan(replace(request, look="", told="{}", shows=""))
        return (Step(request.look, request.told), replace(steps[0], when=request.shows), *steps[1:])
    if request.goal and request.tool in _SWITCHES:
        thing = _SWITCHES[request.tool]
        shown_on, shown_off = STATES[thing]
        return (
            Step(READING[thing], label=label_of(thing)),
            Step(request.tool, request.arguments, when=shown_off if request.goal == "on" else shown_on),
        )
    return (Step(request.tool, request.arguments, label=request.label),)


def feasible(requests: tuple[Request, ...], abroad: bool) -> tuple[Request, ...]:
    """Return the requests without those for a customer who is elsewhere: abroad, or at home."""
    where = "abroad" if abroad else "!abroad"
    return tuple(one for one in requests if one.look != "location" or one.shows == where)


def due(steps: tuple[Step, ...], content: str) -> tuple[Step, ...]:
    """Return the steps that are left after a call: () if the next one's condition is not met by the answer, else all.

    There are none where it does not show what the next step needs.
    """
    when = steps[0].when.lower() if steps else ""
    is_there = when.lstrip("!") in content.lower()
    return steps if not when or is_there != when.startswith("!") else ()


def report(tool: str, content: str, label: str = "") -> str:
    """Put a tool's answer into the user's words; with a label, those lines alone if there. "It shows nothing." for none."""
    matches = [line for line in content.split("\n") if label and line.startswith(label)]
    text = "\n".join(matches) or content
    for icon, words in _ICONS:
        text = text.replace(icon, words)
    lines = [_first_person(line.strip()) for line in text.split("\n") if line.strip()]
    if tool == "check_network_status":
        return f"My phone shows: {', '.join(lines)}."
    return " ".join(line if line[-1] in ".!?)" else f"{line}." for line in map(_voice, lines)) or "It shows nothing."


def _voice(line: str) -> str:
    """Return a line of the phone as a sentence; a bare status bar as a list, any other line unchanged."""
    label, _, items = line.partition("Status Bar: ")
    return f"The status bar shows: {items.replace(' | ', ', ')}" if items and not label else line


def _first_person(line: str) -> str:
    """Return a line in the first person (`your` becomes `my`), with a capital at its beginning."""
    sentence = _MINE.sub(lambda match: _FIRST[match[0].lower()], line)
    return sentence[:1].upper() + sentence[1:]
