"""`check_each` makes one test of many rows: all of them are checked, and those that fail are listed, each with its error."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

MOST_CHARACTERS = 400  # that are told of a row: some hold a text of a megabyte


def check_each(check: Callable[..., None], rows: Iterable[tuple[Any, ...]], *, at_once: int = 1) -> None:
    """Call `check(*row)` for every row, `at_once` of them together (for rows that wait), and fail with all that failed."""
    rows = list(rows)
    assert rows, "there is nothing to check"

    def failure(row: tuple[Any, ...]) -> str:
        try:
            check(*row)
        # Whatever a row raises is what is told of it; one that skips would hide the rows behind it.
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:  # noqa: BLE001
            return f"{repr(row)[:MOST_CHARACTERS]}: {type(error).__name__}: {error}"
        return ""

    if at_once == 1:
        failures = [failure(row) for row in rows]
    else:
        with ThreadPoolExecutor(at_once) as pool:
            failures = list(pool.map(failure, rows))
    failed = [text for text in failures if text]
    assert not failed, f"{len(failed)} of {len(rows)} rows fail:\n" + "\n".join(failed)


def each_row(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Make one test of a check and its rows, which are written as `pytest.mark.parametrize` has them.

    For many rows that take no time: as tests of their own, telling of each costs more than the check.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)

    def made(check: Callable[..., None]) -> Callable[[], None]:
        assert list(inspect.signature(check).parameters) == arguments, f"{check.__name__} takes no fixtures"
        assert not getattr(check, "pytestmark", []), f"{check.__name__}: marks stand above each_row, or they are lost"

        def test() -> None:
            check_each(check, ((row,) if len(arguments) == 1 else tuple(row) for row in rows))

        test.__name__, test.__module__, test.__doc__ = check.__name__, check.__module__, check.__doc__
        return test

    return made
