"""Arguments of constructors are checked here; each error names the owner, the argument, the value and what to give."""

import math
import sys
from collections.abc import Iterable
from typing import Any

from agent_envs.base.errors import UsageError

MOST = sys.float_info.max


def display_value(value: Any) -> str:
    """Return a wrong argument's repr for a message, cut after 80 characters; of an integer from 10**40 on its bit length."""
    if isinstance(value, int) and abs(value) >= 10**40:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "..."


def whole_number(
    owner: str, argument: str, value: Any, low: int = 1, high: int | None = None, *, otherwise: str = ""
) -> int:
    """Return a whole number from low to high (None: no upper limit) as an int; UsageError for others, True and 1.0 too.

    Args:
        owner: the environment or the class whose argument it is.
        argument: its name.
        value: as it was given.
        low: the least.
        high: the most, None for any.
        otherwise: what else the owner takes, behind ", or " in the error.

    Raises:
        UsageError: it is none; True and 1.0 are none.
    """
    if not _is_number(value, int) or value < low or (high is not None and value > high):
        span = (f">= {low}" if high is None else f"from {low} to {high}") + (f", or {otherwise}" if otherwise else "")
        raise UsageError(f"{owner}: {argument}={display_value(value)}; give a whole number {span}")
    return int(value)


def whole_numbers(owner: str, **limits: tuple[Any, int, int | None]) -> None:
    """Check several whole numbers: argument=(value, low, high); raises UsageError where one is none within its limits."""
    for argument, (value, low, high) in limits.items():
        whole_number(owner, argument, value, low, high)


def number(owner: str, argument: str, value: Any, low: float, high: float = math.inf, *, above: bool = False) -> float:
    """Return a finite number from `low` (`above`: greater than it) to `high` as a float; UsageError for others, True too."""
    if not _is_number(value, int | float) or not low <= value <= min(high, MOST) or (above and value == low):
        span = f"above {low:g}, at most {high:g}" if above else f"from {low:g} to {high:g}"
        span = span if high < math.inf else f">= {low:g}"
        raise UsageError(f"{owner}: {argument}={display_value(value)}; give a number {span}")
    return float(value)


def portion(owner: str, argument: str, value: Any) -> float:
    """Return a number from 0 to 1, as `number` does."""
    return number(owner, argument, value, 0, 1)


def choice(owner: str, argument: str, value: Any, choices: Iterable[str]) -> str:
    """Return the value where it is one of the choices; UsageError where it is none of them or no text."""
    names = tuple(choices)
    if not isinstance(value, str) or value not in names:
        raise UsageError(f"{owner}: {argument}={display_value(value)}; give one of {', '.join(names)}")
    return value


def flag(owner: str, argument: str, value: Any) -> bool:
    """Return True or False; raises UsageError where it is neither; 0 and 1 are neither."""
    if not isinstance(value, bool):
        raise UsageError(f"{owner}: {argument}={display_value(value)}; give True or False")
    return value


def _is_number(value: Any, kind: Any) -> bool:
    """Return whether a value is a number of a kind; numpy's float64 and an IntEnum are, a bool is none."""
    return isinstance(value, kind) and not isinstance(value, bool)
