"""A test of many rows checks them all, and tells each that fails; workers share what is done before the first test."""

import pytest

from tests import ROOT
from tests.conftest import stretch
from tests.rows import check_each, each_row


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


@each_row("number", [1, 2, 3])
def test_rows_of_one_value(number):
    """It is collected as one test."""
    assert number in (1, 2, 3)


def test_rows_are_written_as_parameters_are():
    seen = []
    each_row("one, two", {(1, 2): None, (3, 4): None})(lambda one, two: seen.append((one, two)))()
    assert seen == [(1, 2), (3, 4)]
    with pytest.raises(AssertionError, match="takes no fixtures"):
        each_row(("one", "two"), [])(lambda one, two, tmp_path: None)
    with pytest.raises(AssertionError, match=r"1 of 1 rows fail:\n\('long") as caught:
        each_row("text", ["long" * 1_000])(check_nothing)()
    assert len(str(caught.value)) < 1_000


def check_nothing(text):
    assert not text, "it is not empty"


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_module_is_imported_first_by_one_worker_and_all_have_about_as_much(count):
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    stretches = [stretch(files, number, count) for number in range(count)]
    assert sum(stretches, []) == files
    sizes = [sum(file.stat().st_size for file in part) for part in stretches]
    assert max(sizes) - min(sizes) < 50_000
