"""The scripted solver says and does what was recorded or is expected, and the sampler draws random legal turns."""

import json
import random
import re
from dataclasses import replace
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import ToolCallProtocol
from agent_envs.core.env import TurnEnv
from agent_envs.envs.tau2.dialogue import Line
from agent_envs.envs.tau2.env import Tau2Env
from agent_envs.envs.tau2.gold_agent import next_line
from agent_envs.envs.tau2.partners import make_partner
from agent_envs.envs.tau2.scene import Scene, recorded_lines
from agent_envs.envs.tau2.turn_taking import AGENT_STOP

_WORD = re.compile(r"#?\w[\w.-]*")
_PHRASES = (
    "Could you tell me more?", "Yes, please.", "No, thank you.", "Let me look.", "I am sorry about that.", "Is it done?"
)  # fmt: skip


def next_action(env: TurnEnv) -> str:
    """Return the agent's next line by the criteria, a user's by recording or script; UsageError with a live service."""
    core = env.unwrapped
    assert isinstance(core, Tau2Env)
    if core.live_service:
        raise UsageError(f"{core.env_id}: the solver asks no live service ({core.live_service}); replay a recording")
    side, dialogue = core.face.side, core.episode.state
    task = core.episode.task
    if side == "user" and not recorded_lines(task, side):
        return _render(_user_line(core.scene(task, dialogue, side, core.episode.header.episode_key)))
    return _render(next_line(task, core.domain, dialogue, side, core.rules.solo))


def _render(line: Line) -> str:
    """Return a line as the policy writes it: its calls if there are any, else its text."""
    return ToolCallProtocol.render(line.calls) if line.calls else line.text


def _user_line(scene: Scene) -> Line:
    """Return the scripted user's next line, its memory rebuilt by replaying its lines; a stop where it has none."""
    user, memory, line = make_partner("user", "scripted"), None, None
    lines = scene.dialogue.lines
    places = [place for place, past_line in enumerate(lines) if past_line.sender == "user"]
    for place in (*places, len(lines)):
        moment = scene.dialogue.replace(lines=lines[:place], memory=memory)
        line, memory = user.speak(replace(scene, dialogue=moment))
    return line or Line("user", AGENT_STOP)


def random_action(env: TurnEnv, rng: random.Random) -> str:
    """Return a phrase (4 in 10; solo 1 in 20; always without tools), or one or two calls with values from what was shown."""
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
        names = [n for n in schema["properties"] if n in schema["required"] or rng.random() < 0.3]
        arguments = {name: _value(schema["properties"][name], words, rng) for name in names}
        calls.append(ToolCall(f"call_{place}", function["name"], json.dumps(arguments)))
    return ToolCallProtocol.render(calls)


def _words(core: Tau2Env) -> list[str]:
    """Return the words of prompt and last three turns, each message's first 2,000 characters; ["nothing"] without any."""
    episode = core.episode
    messages = [episode.prompt[-1], *(message for turn in episode.turns[-3:] for message in turn.observation)]
    return _WORD.findall(" ".join(message.content[:2000] for message in messages)) or ["nothing"]


def _value(schema: dict[str, Any], words: list[str], rng: random.Random) -> Any:
    """Draw a value that fits a schema, down into lists and objects; its texts are words from the conversation."""
    kind = schema["type"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if kind == "array":
        return [_value(schema["items"], words, rng) for _ in range(rng.randint(1, 2))]
    if kind == "object":
        return {name: _value(inner, words, rng) for name, inner in schema.get("properties", {}).items()}
    plain: dict[str, Any] = {
        "integer": rng.randint(0, 5), "number": rng.randint(1, 40) / 4, "boolean": rng.random() < 0.5
    }  # fmt: skip
    return plain[kind] if kind in plain else rng.choice(words)
