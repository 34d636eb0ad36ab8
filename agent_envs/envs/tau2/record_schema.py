"""Shapes of records say which members a record has, in which order, and how loosely their values are read.

A shape is a plain value: `str`, `int`, `float` or `bool`; a tuple of the allowed texts; a one-element list for lists; a
mapping of members for a record; or one of the classes below. `shaped` follows the lax reading of the original's models:
7 becomes 7.0 where a float is declared, 7.0 becomes 7 where an integer is, "7" becomes either, unknown members vanish.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

from agent_envs.envs.tau2.database import frozen

Shape = Any
_WHOLE = re.compile(r"([-+]?[0-9]+(?:_[0-9]+)*)(?:\.0+)?")
_MOST_DIGITS = 300  # far below what Python refuses to print, so that sums of such numbers can be written down


class SchemaError(ValueError):
    """A value that does not fit its shape; the text names the place."""


@dataclass(frozen=True)
class Anything:
    """Any value, as it is."""


@dataclass(frozen=True)
class Maybe:
    """A member that may be null; absent means null, too."""

    shape: Shape


@dataclass(frozen=True)
class Default:
    """A member that may be absent, and then has this value."""

    shape: Shape
    value: Any


@dataclass(frozen=True)
class Each:
    """A mapping whose keys are free and whose values all have one shape."""

    shape: Shape


@dataclass(frozen=True)
class Closed:
    """A record that refuses members which it does not declare."""

    members: Mapping[str, Shape]


@dataclass(frozen=True)
class Tagged:
    """A record of one of several shapes, told apart by the text of one member."""

    member: str
    shapes: Mapping[str, Mapping[str, Shape]]


def shaped(value: Any, shape: Shape, where: str = "value") -> Any:
    """Read a value by its shape, frozen (lists become tuples, members in declared order); SchemaError where it does not fit.

    Raises SchemaError: it does not fit; the message names the place.
    """
    if isinstance(shape, type) and shape in _SCALARS:
        return _SCALARS[shape](value, where)
    return _READERS[type(shape)](value, shape, where)


def _text(value: Any, where: str) -> str:
    """Return a text unchanged; SchemaError with the place for anything else."""
    if not isinstance(value, str):
        raise SchemaError(f"{where}: a text is needed")
    return value


def _number(value: Any, where: str) -> float:
    """Return a value as a float; texts and truths are read, too; SchemaError for others and what is not finite."""
    if isinstance(value, bool | int | float) or (isinstance(value, str) and value.isascii()):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = nan
        if isfinite(number):  # the original's models read "nan", too, but state and hashes hold finite numbers alone
            return number
    raise SchemaError(f"{where}: a number is needed")


def _integer(value: Any, where: str) -> int:
    """Return a value as an int; whole floats, texts and truths are read, too; SchemaError for others."""
    if isinstance(value, bool | int):
        return int(value)
    match = _WHOLE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is not None and len(match[1]) <= _MOST_DIGITS:
        return int(match[1])
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    raise SchemaError(f"{where}: a whole number is needed")


def _truth(value: Any, where: str) -> bool:
    """Return a value as a bool; the original's words and 1 and 0 for true and false are read, too; SchemaError for others."""
    plain = value.lower() if isinstance(value, str) else value
    for texts, meaning in (
        (("true", "1", "yes", "y", "on", "t"), True),
        (("false", "0", "no", "n", "off", "f"), False),
    ):
        if plain in texts or (isinstance(plain, bool | int | float) and plain == meaning):
            return meaning
    raise SchemaError(f"{where}: true or false is needed")


_SCALARS: dict[type, Callable[[Any, str], Any]] = {str: _text, int: _integer, float: _number, bool: _truth}


def _choice(value: Any, shape: tuple[str, ...], where: str) -> Any:
    """Return one of the possible texts unchanged; SchemaError with the place for anything else."""
    if not isinstance(value, str) or value not in shape:
        raise SchemaError(f"{where}: one of {', '.join(shape)} is needed")
    return value


def _list(value: Any, shape: list[Shape], where: str) -> Any:
    """Return a list as a tuple, each item shaped; SchemaError where it is none."""
    if not isinstance(value, list | tuple):
        raise SchemaError(f"{where}: a list is needed")
    return tuple(shaped(item, shape[0], f"{where}[{position}]") for position, item in enumerate(value))


def _record(value: Any, shape: Mapping[str, Shape], where: str) -> Any:
    """Return an object with just the members of the shape, each shaped; SchemaError where it is none."""
    if not isinstance(value, dict):
        raise SchemaError(f"{where}: an object is needed")
    return {name: _member(value, name, inner, where) for name, inner in shape.items()}


def _member(value: dict[str, Any], name: str, shape: Shape, where: str) -> Any:
    """Return a member by its shape; an absent one is None (Maybe) or its default (Default), else a SchemaError."""
    if name in value:
        return shaped(value[name], shape, f"{where}.{name}")
    if isinstance(shape, Maybe):
        return None
    if isinstance(shape, Default):
        return frozen(shape.value)
    raise SchemaError(f"{where}.{name}: is missing")


def _closed_record(value: Any, shape: Closed, where: str) -> Any:
    """Return a record by its shape; SchemaError for a member that the shape has not, or that does not fit."""
    record = _record(value, shape.members, where)
    for name in value:
        if name not in shape.members:
            raise SchemaError(f"{where}.{name}: is not known here")
    return record


def _each_value(value: Any, shape: Each, where: str) -> Any:
    """Return an object of any names, each value shaped; SchemaError where it is none."""
    if not isinstance(value, dict):
        raise SchemaError(f"{where}: an object is needed")
    return {name: shaped(item, shape.shape, f"{where}.{name}") for name, item in value.items()}


def _tagged_record(value: Any, shape: Tagged, where: str) -> Any:
    """Return an object shaped by the kind that one of its members names; SchemaError for an unknown kind, or no object."""
    tag = value.get(shape.member) if isinstance(value, dict) else None
    if not isinstance(tag, str) or tag not in shape.shapes:
        raise SchemaError(f"{where}.{shape.member}: one of {', '.join(shape.shapes)} is needed")
    return _record(value, shape.shapes[tag], where)


_READERS: dict[type, Callable[[Any, Any, str], Any]] = {
    Anything: lambda value, shape, where: frozen(value),
    Maybe: lambda value, shape, where: None if value is None else shaped(value, shape.shape, where),
    Default: lambda value, shape, where: shaped(value, shape.shape, where),
    tuple: _choice,
    list: _list,
    dict: _record,
    Closed: _closed_record,
    Each: _each_value,
    Tagged: _tagged_record,
}
