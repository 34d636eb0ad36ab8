"""A function with types and a docstring becomes a tool, with a schema and checked calls. Refused calls become results."""

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args, get_origin, get_type_hints

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import ToolCall, ToolResult

_JSON_TYPES: dict[type, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"
}  # fmt: skip


class ToolError(Exception):
    """A tool refuses: the text is what the caller sees."""


@dataclass(frozen=True)
class Tool:
    """A callable with its schema. `writes` tells whether it may change state."""

    name: str
    description: str
    parameters: dict[str, Any]
    function: Callable[..., str | ToolResult]
    writes: bool = False

    def schema(self) -> dict[str, Any]:
        """Return a fresh schema in the shape of OpenAI's function tools."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return json.loads(json.dumps({"type": "function", "function": function}))  # type: ignore[no-any-return]


def tool(function: Callable[..., str | ToolResult] | None = None, *, writes: bool = False) -> Any:
    """Make a Tool of a function from its signature and Google docstring; as `@tool(writes=True)`, return a decorator.

    Raises:
        UsageError: a parameter has no type that JSON knows (str, int, float, bool, list, dict).
    """
    if function is None:
        return lambda inner: tool(inner, writes=writes)
    hints = get_type_hints(function)
    text = inspect.getdoc(function) or ""
    described = argument_texts(text)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        properties[name] = json_type(hints.get(name), f"{function.__name__}({name})")
        if name in described:
            properties[name]["description"] = described[name]
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
    schema = {"type": "object", "properties": properties, "required": required}
    return Tool(function.__name__, text.split("\n\n")[0], schema, function, writes)


class Toolkit:
    """A fixed set of tools by name."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        """Take the tools by name; two tools of one name raise UsageError."""
        self.tools = {item.name: item for item in tools}
        if len(self.tools) != len(tools):
            raise UsageError("Toolkit(tools): two tools have one name; rename one")

    def schemas(self) -> list[dict[str, Any]]:
        """Return fresh schemas of all tools."""
        return [item.schema() for item in self.tools.values()]

    def execute(self, call: ToolCall) -> ToolResult:
        """Run a call. A wrong name, wrong arguments or a ToolError give a result with `error`; bugs propagate."""
        tool = self.tools.get(call.name)
        if tool is None:
            return self._error(call, f"there is no tool {call.name!r}; the tools are {', '.join(self.tools)}")
        arguments = json.loads(call.arguments)
        problem = _check(tool.parameters, arguments)
        if problem:
            return self._error(call, f"{call.name}: {problem}")
        try:
            result = tool.function(**arguments)
        except ToolError as error:
            return self._error(call, str(error))
        if isinstance(result, ToolResult):
            return replace(result, call_id=call.id, name=call.name)
        return ToolResult(call.id, call.name, result)

    @staticmethod
    def _error(call: ToolCall, text: str) -> ToolResult:
        """Return an error as the result of a call: the text behind "Error: ", marked as one."""
        return ToolResult(call.id, call.name, f"Error: {text}", error=True)


def json_type(hint: Any, where: str) -> dict[str, Any]:
    """Return the schema of a plain type, that of a list's items too; UsageError, which names `where`, for other types."""
    origin = get_origin(hint) or hint
    if origin not in _JSON_TYPES:
        raise UsageError(f"tool parameter {where} needs one of the types {', '.join(t.__name__ for t in _JSON_TYPES)}")
    schema: dict[str, Any] = {"type": _JSON_TYPES[origin]}
    if origin is list and get_args(hint):
        schema["items"] = json_type(get_args(hint)[0], where)
    return schema


def argument_texts(docstring: str) -> dict[str, str]:
    """Return the first line on each argument in the Args section of a Google docstring; {} without such a section."""
    lines = docstring.splitlines()
    if "Args:" not in [line.strip() for line in lines]:
        return {}
    start = [line.strip() for line in lines].index("Args:") + 1
    texts: dict[str, str] = {}
    for line in lines[start:]:
        if not line.startswith(" "):
            break
        name, colon, rest = line.strip().partition(":")
        if colon and name.isidentifier():
            texts[name] = rest.strip()
    return texts


def _check(schema: dict[str, Any], arguments: dict[str, Any]) -> str:
    """Check a call's arguments against its schema; return the complaint, or "" if all is well."""
    properties = schema["properties"]
    missing = [name for name in schema["required"] if name not in arguments]
    if missing:
        return f"missing argument {', '.join(missing)}"
    for name, value in arguments.items():
        if name not in properties:
            return f"unknown argument {name!r}; the arguments are {', '.join(properties)}"
        if not _fits(value, properties[name]):
            return f"argument {name!r} must be of type {properties[name]['type']}"
    return ""


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    """Return whether a value is of a schema's type, a list's items too; a bool is no number, and an int is one."""
    kind = schema["type"]
    if isinstance(value, bool):
        return bool(kind == "boolean")
    if kind == "number":
        return isinstance(value, int | float)
    if kind == "array":
        return isinstance(value, list) and all(_fits(item, schema["items"]) for item in value if "items" in schema)
    python_type = next(python for python, name in _JSON_TYPES.items() if name == kind)
    return isinstance(value, python_type)
