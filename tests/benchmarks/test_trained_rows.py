"""The stored rows of trained models are those of the command, and the page tells them as they are stored."""

from tests.needs import require

require("[train]")

import json

from benchmarks.trained_rows import ROWS
from benchmarks.training_runs import report_seeds
from tests import ROOT


def cell(rate):
    low, high = (round(100 * bound) for bound in rate["interval"])
    return f"{100 * rate['success']:.0f} % [{low}, {high}]"


def test_rows_are_of_seeds_that_no_setting_was_chosen_on_and_stand_on_the_page():
    stored = json.loads((ROOT / "benchmarks/results/trained_rows.json").read_text(encoding="utf-8"))["rows"]
    page = (ROOT / "docs/baselines.md").read_text(encoding="utf-8")
    assert list(stored) == list(ROWS)
    for name, row in stored.items():
        program, preset, options = ROWS[name]
        assert row["preset"] == f"{program}/{preset}" and row["options"] == list(options)
        assert [row["seed"]] == list(report_seeds(preset, 1))
        (line,) = (line for line in page.splitlines() if line.startswith(f"| {program}, {preset} |"))
        cells = [part.strip() for part in line.strip("|").split("|")]
        agents = row["agents"]
        told = [
            cell(agents[agent]) if agent in agents else "-"
            for agent in ("as it began", "as it ended", "random", "solver")
        ]
        assert cells[2:] == [*told, f"{row['cpu_seconds']:.0f}"]
