"""`tool_view` shows every id in text as tools with OpenAI schemas: native tools, tags, an answer, or plain words.

The text that a call is written as is the one that a policy of turns would have written: nothing changes in the environment.
"""

import copy
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import ToolCall, Utterance
from agent_envs.base.protocol import LabelProtocol, ToolCallProtocol
from agent_envs.core.env import TurnEnv, core_of
from agent_envs.tools.forms import json_or_text
from agent_envs.tools.native_tags import ANSWER, text_tool

SAY, ACT, _BY_NAME = "say", "act", inspect.Parameter.KEYWORD_ONLY
_TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}


@dataclass(frozen=True)
class ToolView:
    """One tool."""

    schema: dict[str, Any]  # in the shape of OpenAI's function tools
    around: tuple[str, str] | None = None  # what stands around its one argument in an action; None: a native tool

    @property
    def name(self) -> str:
        """The tool's name."""
        return str(self.schema["function"]["name"])

    def render(self, arguments: Mapping[str, Any] | str) -> str:
        """Return the action that calls the tool; never fails on what a model wrote: the environment says what is wrong with it.

        Args:
            arguments: by name, or their JSON as models write it. Of a tool that has one argument in text, others are left
                out, a value that is no text is written as JSON, and what is no mapping is the argument itself.
        """
        if self.around is None:
            text = arguments if isinstance(arguments, str) else json.dumps(dict(arguments), ensure_ascii=False)
            return ToolCallProtocol.render([ToolCall("call_0", self.name, text)])
        value = json_or_text(arguments) if isinstance(arguments, str) else arguments
        content = value if isinstance(value, Mapping) else arguments
        if isinstance(content, Mapping):
            (argument,) = self.schema["function"]["parameters"]["properties"]
            content = content.get(argument, "")
        body = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        return f"{self.around[0]}{body}{self.around[1]}"


def tool_view(env: gym.Env[Any, Any]) -> tuple[ToolView, ...]:
    """Return an environment's tools as schemas, with what calls each, no reset needed; UsageError if actions are no texts.

    Native tools are as `info["tools"]` has them, and tags are tools of one argument. Where the environment takes an answer,
    `answer(text)` gives it, unless a native tool does; a conversation has `say(text)`, and a text game `act(text)`.
    Any wrappers may stand around it. UsageError: its actions are not text (expanded actions, or a numeric view).
    """
    core = core_of(env)
    if not isinstance(env.action_space, Utterance):
        raise UsageError(
            f"{core.env_id}: tool_view shows ids whose actions are text, not {env.action_space}; an id named ...ExpA has a "
            "twin in text, whose name is without it"
        )
    views = [ToolView(copy.deepcopy(dict(schema))) for schema in core.tools]
    views += _text_tools(core)
    if any(view.name.endswith(ANSWER[0]) for view in views):
        return tuple(views)
    if core.answer_tags[0]:
        return (*views, _text_tool_view(*ANSWER, core.answer_tags))
    if core.written is None:
        views.append(_text_tool_view(SAY, "text", "Say something in plain words to whoever is listening.", ("", "")))
    return tuple(views)


def method_of(view: ToolView) -> Callable[..., str]:
    """Return a tool as a method with a signature and a docstring; it hands its action to `self._act(text)`."""
    function = view.schema["function"]
    properties: Mapping[str, Any] = function["parameters"].get("properties", {})
    required = set(function["parameters"].get("required", ()))

    def method(self: Any, /, **arguments: Any) -> str:
        """Play the tool's call as an action, and return the environment's reply as text."""
        return str(self._act(view.render(arguments)))

    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
    lines = []
    for name, schema in properties.items():
        default = inspect.Parameter.empty if name in required else schema.get("default")
        parameters.append(inspect.Parameter(name, _BY_NAME, default=default, annotation=_hint(schema)))
        members = ", ".join(schema.get("items", {}).get("properties", ()))
        about = f"{schema.get('description', name)} {members and f'Each has {members}.'}"
        lines.append(f"    {name}: {' '.join(about.split())}")
    method.__name__ = method.__qualname__ = view.name
    method.__doc__ = "\n".join([function["description"], *(["", "Args:", *lines] if lines else ())])
    method.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters[1:]} | {"return": str}
    method.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    return method


def _hint(schema: Mapping[str, Any]) -> Any:
    """Convert a JSON schema to a Python annotation; `str` for unknown types."""
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if schema.get("type") == "array" and "items" in schema:
        return list[_hint(schema["items"])]  # type: ignore[misc]
    return _TYPES.get(schema.get("type", "string"), str)


def _text_tools(core: TurnEnv) -> list[ToolView]:
    """Return the tools that are called in text; [] for native calls."""
    protocol = core.written
    if protocol is None:
        return []
    if isinstance(protocol, LabelProtocol):
        return [_text_tool_view(ACT, "text", "Take one action, by its name.", (f"{protocol.label} ", ""))]
    tools = [(tag, *tool, protocol.about.get(tool[0], "")) for tag, tool in protocol.tools.items()]
    return [_text_tool_view(name, argument, about, (f"<{tag}>", f"</{tag}>")) for tag, name, argument, about in tools]


def _text_tool_view(name: str, argument: str, about: str, around: tuple[str, str]) -> ToolView:
    """Return a tool of one text argument whose call is written as that text between two others."""
    return ToolView(text_tool(name, argument, about), around)
