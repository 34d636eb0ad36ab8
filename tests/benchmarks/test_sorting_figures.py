"""Exact figures of sorting algorithms."""

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.sorting_figures import sorting_figures
from tests.cli.conftest import strict


@pytest.fixture
def command():
    """A function that runs the command."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(sorting_figures)
    return lambda *arguments: CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def test_the_table(command):
    ran = command("--n", "4")
    lines = {line.split()[0]: line.split()[1:] for line in ran.stdout.splitlines() if " yes " in line}
    assert ran.exit_code == 0 and "Sort-4: exact means" in ran.stdout
    assert lines["optimal"] == ["4.6667", "5", "1.9167", "3", "yes", "0.8333", "0.8628"]
    assert lines["earl-star"] == ["4.8333", "6", "1.9167", "3", "yes", "0.7222", "0.8594"]
    assert lines["network-4"][:5] == ["5.0000", "5", "2.3333", "5", "yes"]
    counts = ran.stdout[ran.stdout.index("fewest swaps   4 items") :].splitlines()[2:6]
    assert [line.split() for line in counts] == [["0", "1"], ["1", "6"], ["2", "11"], ["3", "6"]]


def test_json_has_every_size_and_both_directions(command):
    ran = command("--json")
    found = strict(ran.stdout)
    assert ran.exit_code == 0
    assert found["strata"]["5"] == {"0": 1, "1": 10, "2": 35, "3": 50, "4": 24}
    rows = {(row["items"], row["algorithm"], row["direction"]): row for row in found["rows"]}
    assert len(rows) == len(found["rows"]) == 2 * (4 * 7 + 2)
    best = rows[5, "optimal", "descending"]
    assert best["exact"] == {"mean_compares": "104/15", "mean_swaps": "163/60"} and best["max_compares"] == 7
    assert best["mean_compares"] == 104 / 15 and best["all_sorted"] is True and best["permutations"] == 120
    for (n, name, direction), row in rows.items():
        assert row["fixed"] <= rows[n, "optimal", direction]["fixed"] + 1e-12, name


def test_more_items_leave_out_what_is_not_for_them(command):
    found = strict(command("--n", "6", "--n", "3", "--n", "6", "--json").stdout)
    names = {n: {row["algorithm"] for row in found["rows"] if row["items"] == n} for n in (3, 6)}
    assert [row["items"] for row in found["rows"]] == [3] * 14 + [6] * 12
    assert names[3] - names[6] == {"optimal"} and "network-4" not in names[3]


def test_wrong_usage(command):
    for wrong in ("1", "7", "x"):
        assert command("--n", wrong).exit_code == 2


def test_help_says_what_the_figures_mean(command):
    ran = command("--help")
    assert ran.exit_code == 0 and "over all permutations" in ran.stdout and "--n" in ran.stdout
