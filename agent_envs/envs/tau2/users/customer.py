"""The user's rule-based side tells the scenario, does what is asked, agrees, and stops when the agent asks for more."""

import json
import re

from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import ToolCallProtocol
from agent_envs.envs.tau2.turn_taking import AGENT_STOP
from agent_envs.envs.tau2.users.device import report, requests
from agent_envs.envs.tau2.users.prose import first_person
from agent_envs.rollout.policy import Request

_PART = re.compile(r"\t(Reason for call|Known info):\n((?:\t\t.*\n?)+)")
_ENDS = re.compile(
    r"anything else|something else|all is (?:done|settled)|transferr|over to a human|is there more", re.I
)


def act(request: Request) -> str:
    """Return the customer's turn: its opening, a report on a tool, calls asked for, an end where the text ends, else a yes."""
    own = [place for place, message in enumerate(request.messages) if message["role"] == "assistant"]
    if not own:
        return _opening(str(request.messages[0]["content"]))
    last = request.messages[-1]
    own_text = str(request.messages[own[-1]]["content"])
    if last["role"] == "tool":
        called = re.search(r'"name": ?"(\w+)"', own_text)
        return report(called[1] if called else "", str(last["content"])) or "I have done it."
    text = str(last["content"])
    names = {tool["function"]["name"] for tool in request.tools}
    tasks = [one for one in requests(text) if one.tool in names]
    if tasks:
        calls = tuple(
            ToolCall(f"call_{place}", one.tool, json.dumps(json.loads(one.arguments)))
            for place, one in enumerate(tasks)
        )
        return ToolCallProtocol.render(calls)
    return f"No, thank you. {AGENT_STOP}" if _ENDS.search(text) else "Yes, please."


def _opening(prompt: str) -> str:
    """Return the customer's opening: a greeting, the reason for the call and the known facts in the first person."""
    parts = [" ".join(match[2].split()) for match in _PART.finditer(prompt[:50_000])]
    return " ".join(["Hello.", *map(first_person, parts)])
