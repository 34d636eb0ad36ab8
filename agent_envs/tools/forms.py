"""`filled` asks a person for a tool's arguments one by one, by their schema, and returns them as values; nobody types JSON."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from agent_envs.base.protocol import is_too_deep

Ask = Callable[[str, str], str]  # (name of the argument, what it has to be) -> what was typed


def filled(parameters: Mapping[str, Any], ask: Ask, place: str = "") -> dict[str, Any] | None:
    """Return the arguments that a person gives for a tool's `parameters`; None if a needed one is left out.

    An empty line leaves an argument out. A list of objects is asked for object by object, until one is left out; other lists
    are one line with commas. What does not read as its type is asked for again. What JSON Schema says beside types, as
    patterns and references, is the environment's to judge.

    Args:
        parameters: a JSON Schema of type object.
        ask: is given a name and a hint, and returns one line.
        place: what stands before the names, within another argument.
    """
    values: dict[str, Any] = {}
    needed = parameters.get("required", ())
    for name, schema in parameters.get("properties", {}).items():
        value = _ask_argument(f"{place}{name}", schema, name in needed, ask)
        if value is not None:
            values[name] = value
        elif name in needed:
            return None
    return values


def _ask_argument(name: str, schema: Any, needed: bool, ask: Ask) -> Any:
    """Return one argument's value, asked for again until it reads as its type; None where it is left out."""
    schema = schema if isinstance(schema, Mapping) else {}
    kind, items = str(schema.get("type", "")), schema.get("items", {})
    if kind == "object" and schema.get("properties"):
        return filled(schema, ask, f"{name}.")
    if kind == "array" and isinstance(items, Mapping) and items.get("properties"):
        rows: list[dict[str, Any]] = []
        # An object of which nothing is given ends the list.
        while row := filled(items, ask, f"{name} {len(rows) + 1}, "):
            rows.append(row)
        return rows or None
    read, form = _TYPES.get(kind, (json_or_text, ""))
    hints = [
        form,
        str(schema.get("description", "")),
        "|".join(map(str, schema.get("enum", ()))),
        "" if needed else "or nothing",
    ]
    hint = "; ".join(filter(None, hints))
    while text := ask(name, hint).strip():
        try:
            return read(text)
        except ValueError:
            hint = f"it has to be {form}"
    return None


def _number(text: str) -> int | float:
    """Return a finite number, an int where it is all digits with a sign at most; ValueError for text, NaN, infinity."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return int(text) if text.lstrip("+-").isdigit() else value


def _yes_or_no(text: str) -> bool:
    """Return True for yes, y or true, False for no, n or false, in any case; ValueError for another word."""
    words = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def _list(text: str) -> list[Any]:
    """Return a JSON list's items; other text is parted at its commas, each part a stripped text."""
    value = json_or_text(text) if text.startswith("[") else None
    return value if isinstance(value, list) else [part.strip() for part in text.split(",")]


def json_or_text(text: str) -> Any:
    """Return the value of a JSON text, or the text where it is none, or has more than MAX_CALL_DEPTH levels."""
    try:
        return text if is_too_deep(text) else json.loads(text)
    except ValueError:
        return text


_TYPES: dict[str, tuple[Callable[[str], Any], str]] = {
    "string": (str, ""),
    "integer": (int, "a whole number"),
    "number": (_number, "a number"),
    "boolean": (_yes_or_no, "yes or no"),
    "array": (_list, "with commas between"),
}
