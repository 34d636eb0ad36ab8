"""Wrappers are put around environments as settings list them, in JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import gymnasium as gym

from agent_envs import wrappers as known
from agent_envs.base.errors import UsageError

WrapperRow = tuple[str, dict[str, Any]]


def wrapper_rows(text: str, name: str) -> list[WrapperRow]:
    """Return the wrappers that a setting lists as JSON, innermost first: [{"TurnLimit": {"turns": 4}}, ...].

    Args:
        text: the setting.
        name: of the setting, for the error.

    Raises:
        UsageError: this is no such list.
    """
    try:
        rows = [(key, value) for row in json.loads(text) for key, value in row.items()]
        sound = all(isinstance(value, dict) for _, value in rows)
    except (ValueError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise UsageError(f'{name}={text!r}: a JSON list of wrappers is needed, as [{{"TurnLimit": {{"turns": 4}}}}]')
    return rows


@dataclass(frozen=True)
class Stack:
    """Where a share of a warm start's demonstrations is played.

    Attributes:
        rows: of wrappers, innermost first; none for the bare environment.
        flaws: of the demonstrations; "" for those of the others.
    """

    rows: Sequence[WrapperRow] = ()
    flaws: str = ""


def stacks_of(text: str, name: str) -> list[Stack]:
    """Return several stacks of wrappers that a setting lists as JSON, each as `wrapper_rows` takes it, [] for none.

    One with flaws of its own is an object: {"wrappers": [...], "flaws": {"early": 0.1}}.

    Raises:
        UsageError: this is no such list, or an empty one.
    """
    try:
        parts = [{"flaws": "", **(part if isinstance(part, dict) else {"wrappers": part})} for part in json.loads(text)]
        sound = bool(parts) and all(set(part) == {"wrappers", "flaws"} for part in parts)
    except (ValueError, TypeError):
        sound = False
    if not sound:
        raise UsageError(f'{name}={text!r}: a JSON list of lists is needed, as [[], [{{"TurnLimit": {{"turns": 4}}}}]]')
    flaws = [part["flaws"] if isinstance(part["flaws"], str) else json.dumps(part["flaws"]) for part in parts]
    return [
        Stack(wrapper_rows(json.dumps(part["wrappers"]), name), own) for part, own in zip(parts, flaws, strict=True)
    ]


def wrapped(env: gym.Env[Any, Any], rows: Sequence[WrapperRow]) -> gym.Env[Any, Any]:
    """Return an environment with wrappers around it.

    Args:
        env: what is wrapped.
        rows: names and arguments, innermost first: of `agent_envs.wrappers`, or as module:Class.

    Raises:
        UsageError: there is no such wrapper, or it does not take these arguments.
    """
    for name, arguments in rows:
        module, colon, attribute = name.partition(":")
        try:
            kind = getattr(import_module(module), attribute) if colon else getattr(known, name)
            env = kind(env, **arguments)
        except (ImportError, AttributeError, TypeError) as error:
            names = ", ".join(known.__all__)
            raise UsageError(f"no wrapper {name}({arguments}): {error}; there are {names}, or module:Class") from error
    return env
