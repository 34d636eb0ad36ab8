"""Stored values are checked against the annotations of a dataclass, which are resolved once a class.

Known are the forms of state: None, bool, int, float, str, tuples, string-keyed dicts, literals, unions, dataclasses and Any.
An annotation of any other form, or one that cannot be resolved, lets everything pass.
"""

import dataclasses
import inspect
import sys
from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Fits = Callable[[Any], bool]
_MOST = sys.float_info.max


def misfit(cls: type, values: dict[str, Any]) -> str:
    """Return words on the first value that does not fit its field's annotation, "" where all do; unchecked names pass."""
    checks = _checks(cls)
    for name, value in values.items():
        if (check := checks.get(name)) is not None and type(value) not in check[0] and not check[1](value):
            return f"{cls.__name__}.{name} is {check[2]}, and holds a {type(value).__name__}"
    return ""


def attribute_fits(cls: type, name: str, value: Any) -> bool:
    """Return whether a value fits what a class annotates an attribute with; True where no annotation can be checked."""
    fits = _attribute_check(cls, name)
    return fits is None or fits(value)


@cache
def _checks(cls: Any) -> dict[str, tuple[frozenset[type], Fits, str]]:
    """Build the check, exact types and type name of each checkable field, cached; {} if hints do not resolve."""
    try:
        hints = get_type_hints(cls)
    except (NameError, TypeError, AttributeError, SyntaxError):  # names that only the class's own scope knows
        return {}
    checks = {}
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        if (fits := _fits(hint)) is not None:
            plain = isinstance(hint, type) and not get_args(hint)
            name = hint.__name__ if plain else str(hint).replace("typing.", "")
            checks[field.name] = (_exact_types(hint), fits, name)
    return checks


@cache
def _attribute_check(cls: type, name: str) -> Fits | None:
    """Return the check of an annotated attribute, of the first class that annotates it, or None; cached."""
    for base in cls.__mro__:
        if name in inspect.get_annotations(base):
            try:
                return _fits(inspect.get_annotations(base, eval_str=True)[name])
            except (NameError, TypeError, AttributeError, SyntaxError):  # as above
                return None
    return None


def _exact_types(hint: Any) -> frozenset[type]:
    """Return the types whose values fit as they are, none for generic ones; this spares most values the slower test."""
    if get_origin(hint) in (Union, UnionType):
        return frozenset().union(*map(_exact_types, get_args(hint)))
    if hint in (None, NoneType, bool, int, str):
        return frozenset([hint or NoneType])
    return frozenset([hint] if isinstance(hint, type) and dataclasses.is_dataclass(hint) else [])


def _fits(hint: Any) -> Fits | None:
    """Return the test of an annotation; None where every value passes, as for annotations that it does not know."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in (None, NoneType):
        return lambda value: value is None
    if hint is float:
        return lambda value: isinstance(value, float | int) and -_MOST <= value <= _MOST
    if hint in (bool, int, str) or (isinstance(hint, type) and dataclasses.is_dataclass(hint)):
        return lambda value: isinstance(value, hint)
    if origin is Literal:
        kinds = tuple({type(part) for part in parts})  # pages show odd roles and authors as they are
        return lambda value: isinstance(value, kinds)
    if origin in (Union, UnionType):
        tests = [test for part in parts if (test := _fits(part)) is not None]
        return (lambda value: any(test(value) for test in tests)) if len(tests) == len(parts) else None
    if origin is tuple:
        return _tuple_fits(parts)
    if origin is not dict:
        return None
    each = _fits(parts[1])
    return lambda value: isinstance(value, dict) and (each is None or all(map(each, value.values())))


def _tuple_fits(parts: tuple[Any, ...]) -> Fits:
    """Build the check of a tuple: any length with one type, or a fixed length."""
    if len(parts) == 2 and parts[1] is Ellipsis:
        each = _fits(parts[0])
        if each is None:
            return lambda value: isinstance(value, tuple)
        exact = _exact_types(parts[0])
        return lambda value: isinstance(value, tuple) and (exact.issuperset(map(type, value)) or all(map(each, value)))
    tests = [_fits(part) for part in parts]

    def fits(value: Any) -> bool:
        """Return whether a value is a tuple of the right length whose items pass their tests; None as a test lets all pass."""
        if not isinstance(value, tuple) or len(value) != len(tests):
            return False
        return all(test is None or test(item) for test, item in zip(tests, value, strict=True))

    return fits
