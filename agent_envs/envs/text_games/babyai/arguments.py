"""Arguments of environments, checked where they are given: the message names class, argument, value and what is possible."""

from collections.abc import Iterable
from typing import Any

from agent_envs.base.errors import UsageError


def shown(value: Any) -> str:
    """Return a wrong argument as a message shows it: never long, and for every value."""
    if isinstance(value, int) and abs(value) >= 10**40:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "..."


def checked_choice(owner: str, argument: str, value: Any, choices: Iterable[str]) -> str:
    """Return one of the choices, or raise a UsageError that names the argument."""
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        raise UsageError(f"{owner}: {argument}={shown(value)} is not known; give one of {', '.join(known)}")
    return value


def checked_count(owner: str, argument: str, value: Any, low: int = 1, high: int = 1_000_000) -> int:
    """Return a whole number from low to high, or raise a UsageError that names the argument."""
    if type(value) is not int or not low <= value <= high:
        raise UsageError(
            f"{owner}: {argument}={shown(value)} is not possible; give a whole number from {low} to {high}"
        )
    return value
