"""Values become canonical JSON, digests and stored state: one text for one value, on every machine.

Keys are sorted, separators carry no space, text is UTF-8 and escaped only where JSON demands it, floats use Python's
shortest round-trip form, NaN and infinities are refused.

State adds four marks to JSON: `{"$tuple": [...]}`, `{"$int": "..."}` beyond 2**53, `{"$pairs": [[key, value], ...]}` for
mappings whose order is not that of their sorted keys and would be lost, and `{"$type": name, ...fields}` for dataclasses that
were registered with `state_type`. Nothing else is ever constructed from stored text.

The lean form (`lean_state`) leaves out fields that hold their defaults, and has `{"$text": n}` for a content that stands in a
table of texts. The defaults of stored types are therefore part of what is stored: a type whose default changes is a new type.
"""

import dataclasses
import hashlib
import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache, update_wrapper
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from agent_envs.base.type_checks import misfit

# Fields that are stored only where they differ from their defaults: they came later, and what was stored before stays as it is.
LATER_FIELDS = frozenset({"finish_reason", "outcome", "opaque"})
_TYPES: dict[str, type] = {}
_STORED_TEXTS: dict[int, tuple[weakref.ref[Any], bytes, bytes]] = {}
_SAFE_INTEGER = 2**53
_PLAIN = frozenset((type(None), bool, str, float))
_SCALAR = _PLAIN | {int}
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
# `_ENCODER.encode` makes this anew for each value, which takes longer than a small value itself. A Python may have none in C.
_quoted = json.encoder.encode_basestring
_make: Any = getattr(json.encoder, "c_make_encoder", None) or (lambda *_: lambda value, _: _ENCODER.iterencode(value))
_parts = _make(None, _ENCODER.default, _quoted, None, ":", ",", True, False, False)
T = TypeVar("T", bound=type)


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a JSON-able value: keys sorted, no blanks, non-ASCII characters as they are.

    Raises:
        TypeError: the value holds something that JSON has no form for.
        ValueError: it holds NaN or an infinity.
        RecursionError: it holds itself (a Python without C: ValueError), or very many levels.
    """
    return _quoted(value) if type(value) is str else "".join(_parts(value, 0))


def sha256_text(text: str) -> str:
    """Return the sha256 of a text as 64 hex digits (lone surrogates are allowed)."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def sha256_file(path: Path) -> str:
    """Return the sha256 of a file's bytes as 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(value: Any) -> str:
    """Return the sha256 of a value's canonical JSON."""
    return sha256_text(canonical_json(value))


def state_type(cls: T) -> T:
    """Register a frozen dataclass for stored state by its class name, and return it; ValueError if another has the name."""
    other = _TYPES.setdefault(cls.__name__, cls)
    if other is not cls and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(f"two state types are named {cls.__name__}: {other.__module__} and {cls.__module__}")
    _TYPES[cls.__name__] = cls
    _make_quickly(cls)
    return cls


def _make_quickly(cls: Any) -> None:
    """Give a plain frozen slots dataclass a faster `__init__` than the generated one; any other class is left unchanged."""
    original, fields = cls.__init__, dataclasses.fields(cls)
    names, code = tuple(field.name for field in fields), getattr(cls.__init__, "__code__", None)
    generated = code and code.co_filename == "<string>" and code.co_varnames[: code.co_argcount] == ("self", *names)
    factories = any(field.default_factory is not dataclasses.MISSING for field in fields)
    if not generated or factories or hasattr(cls, "__post_init__") or "__slots__" not in vars(cls):
        return
    scope = {f"__set_{place}": getattr(cls, name).__set__ for place, name in enumerate(names)}
    stores = [f"__set_{place}(self, {name})" for place, name in enumerate(names)] or ["pass"]
    body = "\n ".join(stores)
    exec(f"def __init__(self, {', '.join(names)}):\n {body}", scope)  # of names of fields alone, as dataclasses does
    cls.__init__ = update_wrapper(scope["__init__"], original)
    cls.__init__.__defaults__ = original.__defaults__


def encode_state(value: Any) -> Any:
    """Return the JSON form of a state of plain values, tuples, text-keyed dicts and state types; TypeError for other parts.

    Raises:
        TypeError: some part is of another type; the message names it.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple:
        return {"$tuple": [item if type(item) in _PLAIN else encode_state(item) for item in value]}
    if _TYPES.get(kind.__name__) is kind:
        names, defaults, parts = _fields(kind)  # type: ignore[arg-type]  # a class can be hashed
        row = {"$type": kind.__name__}
        for name, default, item in zip(names, defaults, parts(value), strict=True):
            if name not in LATER_FIELDS or item != default:
                row[name] = item if type(item) in _PLAIN else encode_state(item)
        return row
    if isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return value if -_SAFE_INTEGER <= value <= _SAFE_INTEGER else {"$int": str(value)}
    if isinstance(value, dict) and not any(not isinstance(key, str) or key.startswith("$") for key in value):
        if list(value) != sorted(value):
            return {"$pairs": [[key, encode_state(item)] for key, item in value.items()]}
        return {key: encode_state(item) for key, item in value.items()}
    raise TypeError(
        f"{type(value).__name__} cannot be part of stored state: use tuples, or register it with state_type"
    )


def lean_state(value: Any, texts: Mapping[str, int]) -> Any:
    """Return a state's form as `encode_state` does, less fields at their defaults, `content` found in `texts` by its number."""
    kind = type(value)
    if kind is tuple:
        return {"$tuple": [item if type(item) in _PLAIN else lean_state(item, texts) for item in value]}
    if _TYPES.get(kind.__name__) is not kind:
        return encode_state(value)
    row: dict[str, Any] = {"$type": kind.__name__}
    names, defaults, parts = _fields(kind)  # type: ignore[arg-type]  # a class can be hashed
    for name, default, item in zip(names, defaults, parts(value), strict=True):
        if item is default:
            continue
        if name == "content" and item in texts:
            row[name] = {"$text": texts[item]}
        # -0.0 equals 0.0 and True equals 1, and neither is the same text.
        elif item != default or repr(item) != repr(default):
            row[name] = item if type(item) in _PLAIN else lean_state(item, texts)
    return row


@cache
def _fields(kind: Any) -> tuple[list[str], list[Any], Callable[[Any], tuple[Any, ...]]]:
    """Return the names of a dataclass's fields, their defaults (MISSING where there is none) and a reader of all, cached."""
    fields = dataclasses.fields(kind)
    names = [field.name for field in fields]
    # A single name would be read as itself, and none not at all.
    parts = attrgetter(*names) if len(names) > 1 else lambda value: tuple(getattr(value, name) for name in names)
    return names, [field.default for field in fields], parts


def stored_text(value: Any) -> bytes:
    """Return the canonical JSON of the stored form of a value; raises TypeError where some part has none."""
    return canonical_json(encode_state(value)).encode("utf-8", "surrogatepass")


def cached_text(value: Any, write: Callable[[Any], bytes] = stored_text) -> tuple[bytes, bytes]:
    """Return the cached text that `write` makes of a frozen value, and its quoted sha256; both live as long as the value.

    Raises:
        TypeError: some part has no stored form, or the value's class allows no weak reference.
    """
    key = id(value)
    entry = _STORED_TEXTS.get(key)
    if entry is None or entry[0]() is not value:
        text = write(value)
        seal = f'"{hashlib.sha256(text).hexdigest()}"'.encode()
        entry = _STORED_TEXTS[key] = (weakref.ref(value, lambda _: _STORED_TEXTS.pop(key, None)), text, seal)
    return entry[1:]


def decode_state(value: Any, texts: Sequence[str] = ()) -> Any:
    """Return the state of its JSON form, lean or not (`texts` is what it refers to); ValueError where it is malformed.

    Raises:
        ValueError: a type name that is not registered, a field of another type than annotated, or a malformed mark.
    """
    try:
        return _decode(value, texts)
    except (TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(f"stored state is malformed: {error}") from error


def _decode(value: Any, texts: Sequence[str]) -> Any:
    """Decode stored JSON to values; ValueError for a bare list, which no state is stored as."""
    if type(value) in _SCALAR:
        return value
    if isinstance(value, list):
        raise ValueError("stored state holds a bare list")
    if not isinstance(value, dict):
        return value
    if "$type" in value:
        return _construct(value, texts)
    if "$tuple" in value:
        return tuple([item if type(item) in _SCALAR else _decode(item, texts) for item in value["$tuple"]])
    if "$text" in value:
        return texts[value["$text"]]
    if "$int" in value:
        return int(value["$int"])
    if "$pairs" in value:
        return {_text_key(key): _decode(item, texts) for key, item in value["$pairs"]}
    return {key: _decode(item, texts) for key, item in value.items()}


def _construct(value: dict[str, Any], texts: Sequence[str]) -> Any:
    """Construct a registered type from its stored fields; ValueError for an unknown type or unfit fields."""
    cls = _TYPES.get(value["$type"])
    if cls is None:
        raise ValueError(
            f"stored state names an unknown type: {value['$type']!r}; make its environment first, which brings its types"
        )
    fields = {key: item if type(item) in _SCALAR else _decode(item, texts) for key, item in value.items()}
    del fields["$type"]
    if wrong := misfit(cls, fields):
        raise ValueError(f"stored state is malformed: {wrong}")
    return cls(**fields)


def _text_key(value: Any) -> str:
    """Return a mapping's key from a stored state; ValueError where it is no text."""
    if not isinstance(value, str):
        raise ValueError("stored state holds a mapping with a key that is no text")
    return value


def plain_value(value: Any) -> Any:
    """Return an argument as JSON: tuples as lists, keys as texts, an object (cannot travel) as {"object": "module:Class"}."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain_value(item) for key, item in value.items()}
    return {"object": f"{type(value).__module__}:{type(value).__qualname__}"}


def is_local(value: Any) -> bool:
    """Return whether an argument holds an object that JSON cannot carry."""
    if isinstance(value, list | tuple | dict):
        return any(is_local(item) for item in (value.values() if isinstance(value, dict) else value))
    return not (value is None or isinstance(value, bool | int | float | str))
