"""`check_each` makes one test of many rows: all of them are checked, and those that fail are listed, each with its error."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest


def check_each(check: Callable[..., None], rows: Iterable[tuple[Any, ...]], *, at_once: int = 1) -> None:
    """Call `check(*row)` for every row, `at_once` of them together (for rows that wait), and fail with all that failed."""
    rows = list(rows)
    assert rows, "there is nothing to check"

    def failure(row: tuple[Any, ...]) -> str:
        try:
            check(*row)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - whatever a row raises is what is told of it
            return f"{row!r}: {type(error).__name__}: {error}"
        return ""

    if at_once == 1:
        failures = [failure(row) for row in rows]
    else:
        with ThreadPoolExecutor(at_once) as pool:
            failures = list(pool.map(failure, rows))
    failed = [text for text in failures if text]
    assert not failed, f"{len(failed)} of {len(rows)} rows fail:\n" + "\n".join(failed)
