"""The scripted solver, which says and does what was recorded or is expected, and the sampler of random legal turns."""

import json
import random
import re
from collections.abc import Sequence
from typing import Any

from agent_envs.core import TurnEnv
from agent_envs.errors import UsageError
from agent_envs.messages import ToolCall
from agent_envs.protocol import ToolCallProtocol
from agent_envs.tau2.dialogue import Line, recording_of
from agent_envs.tau2.env import Tau2Env
from agent_envs.tau2.machine import DONE
from agent_envs.tau2.task_rows import Criteria, tau2_task
from agent_envs.trajectory import Task

_WORD = re.compile(r"#?\w[\w.-]*")
_PHRASES = (
    "Could you tell me more?", "Yes, please.", "No, thank you.", "Let me look.", "I am sorry about that.", "Is it done?"
)  # fmt: skip
_CLOSING = Line("assistant", "Is there anything else that I can do for you?")


def next_action(env: TurnEnv) -> str:
    """Return the next line of the recording (or of the expected actions) that was not said yet."""
    core = env.unwrapped
    assert isinstance(core, Tau2Env)
    if core.live_service:
        raise UsageError(f"{core.env_id}: the solver asks no live judge ({core.live_service}); leave judge= out")
    side, dialogue = core.face.side, core.episode.state
    script = _script(core, core.episode.task)
    said = [(line.text, line.calls) for line in dialogue.lines if line.sender == side]
    place = 0
    for words in said:
        if place < len(script) and words == (script[place].text, script[place].calls):
            place += 1
    line = script[place] if place < len(script) else _CLOSING
    return ToolCallProtocol.render(line.calls) if line.calls else line.text


def _script(core: Tau2Env, task: Task) -> Sequence[Line]:
    recorded = [line for line in recording_of(task.data.get("recording", ())) if line.sender == core.face.side]
    if recorded and not core.rules.solo:
        return recorded
    criteria = tau2_task(task, core.domain).criteria
    return _expected(criteria, core.rules.solo) if criteria is not None else ()


def _expected(criteria: Criteria, solo: bool) -> list[Line]:
    """Return the expected actions of the agent (in solo mode of both sides), one a line, and what it has to say."""
    actions = [action for action in criteria.actions or () if solo or action.requestor == "assistant"]
    lines = [Line("assistant", calls=(ToolCall("call_0", action.name, action.arguments),)) for action in actions]
    if solo:
        return [*lines, Line("assistant", calls=(ToolCall("call_0", DONE, "{}"),))]
    told = "; ".join(criteria.communicate_info)
    return [*lines, Line("assistant", f"All is done. {told}".strip())]


def random_action(env: TurnEnv, rng: random.Random) -> str:
    """Return a phrase, or a call or two of random tools with values from what was shown."""
    core = env.unwrapped
    assert isinstance(core, Tau2Env)
    tools = core.face.tools
    if not tools or rng.random() < (0.05 if core.rules.solo else 0.4):
        return rng.choice(_PHRASES)
    words = _words(core)
    calls = []
    for place in range(1 + (rng.random() < 0.2)):
        function = rng.choice(tools)["function"]
        schema = function["parameters"]
        chosen = [n for n in schema["properties"] if n in schema["required"] or rng.random() < 0.3]
        arguments = {name: _value(schema["properties"][name], words, rng) for name in chosen}
        calls.append(ToolCall(f"call_{place}", function["name"], json.dumps(arguments)))
    return ToolCallProtocol.render(calls)


def _words(core: Tau2Env) -> list[str]:
    """Return words that were shown, those of the last messages more often."""
    episode = core.episode
    shown = [episode.prompt[-1], *(message for turn in episode.turns[-3:] for message in turn.observation)]
    return _WORD.findall(" ".join(message.content[:2000] for message in shown)) or ["nothing"]


def _value(schema: dict[str, Any], words: list[str], rng: random.Random) -> Any:
    kind = schema["type"][0] if isinstance(schema["type"], list) else schema["type"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if kind == "array":
        return [_value(schema["items"], words, rng) for _ in range(rng.randint(1, 2))]
    if kind == "object":
        return {name: _value(inner, words, rng) for name, inner in schema.get("properties", {}).items()}
    plain: dict[str, Any] = {
        "integer": rng.randint(0, 5), "number": rng.randint(1, 40) / 4, "boolean": rng.random() < 0.5, "null": None
    }  # fmt: skip
    return plain[kind] if kind in plain else rng.choice(words)
