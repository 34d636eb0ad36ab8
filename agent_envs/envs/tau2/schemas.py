"""JSON schemas of tools are made from signatures, annotations and Google docstrings.

Nested objects, choices and optional values are supported.
"""

import inspect
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from agent_envs.base.errors import UsageError
from agent_envs.base.tool_schema import argument_texts

_PLAIN: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}


def description_of(function: Callable[..., Any]) -> str:
    """Return the part of a docstring before its sections."""
    text = inspect.getdoc(function) or ""
    return text.split("\n\nArgs:")[0].split("\n\nRaises:")[0]


def parameters_of(function: Callable[..., Any], terms: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the schema of a tool's arguments; its first parameter is what it works on, and no argument.

    Args:
        function: the tool.
        terms: descriptions of arguments that its docstring does not describe.

    Raises:
        UsageError: an argument has a type that JSON does not know.
    """
    hints = get_type_hints(function)
    described = {**(terms or {}), **argument_texts(inspect.getdoc(function) or "")}
    properties: dict[str, Any] = {}
    required = []
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        properties[name] = _schema(hints.get(name), f"{function.__name__}({name})")
        if name in described:
            properties[name]["description"] = described[name]
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
        elif parameter.default is not None:
            properties[name]["default"] = parameter.default
    return {"type": "object", "properties": properties, "required": required}


def _schema(hint: Any, where: str) -> dict[str, Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if is_typeddict(hint):
        members = {name: _schema(of, f"{where}.{name}") for name, of in get_type_hints(hint).items()}
        required = [name for name in members if name in hint.__required_keys__]
        return {"type": "object", "properties": members, "required": required}
    if origin is list:
        return {"type": "array", "items": _schema(inner[0], where)}
    if origin is Literal:
        return {"type": "string", "enum": list(inner)}
    if origin in (Union, UnionType):
        merged: dict[str, Any] = {}
        for option in (_schema(of, where) for of in inner if of is not NoneType):
            merged = {**option, "type": [*merged.get("type", []), option["type"]]}
        return merged | {"type": [*merged["type"], "null"]} if NoneType in inner else merged
    plain = _PLAIN.get(origin or hint)
    if plain is None:
        raise UsageError(f"tool parameter {where} has no type that JSON knows: {hint!r}")
    return {"type": plain}
