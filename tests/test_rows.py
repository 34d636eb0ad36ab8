"""A test of many rows checks them all, and tells each that fails."""

import pytest

from tests.rows import check_each


def check(number, wanted):
    assert number == wanted
    if number == 5:
        with pytest.raises(ValueError):
            int("5")


@pytest.mark.parametrize("at_once", [1, 4])
def test_every_failing_row_is_told(at_once):
    check_each(check, [(1, 1), (2, 2)], at_once=at_once)
    rows = [(1, 1), (2, 3), (5, 5), (4, 4), ("a", "b")]
    with pytest.raises(AssertionError) as caught:
        check_each(check, rows, at_once=at_once)
    told = str(caught.value)
    assert told.startswith("3 of 5 rows fail:")
    assert all(f"\n{row!r}: " in told for row in ((2, 3), (5, 5), ("a", "b"))) and "(1, 1)" not in told


def test_no_rows_are_no_test():
    with pytest.raises(AssertionError, match="nothing to check"):
        check_each(check, [])
