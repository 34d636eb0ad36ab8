"""The known order of procedures comes out of a small run, and a planted defect breaks it; the full run is a benchmark's."""

from tests.needs import require

require("[sandbox]")

import json

import pytest

from benchmarks.baselines import DEFECTS, PLACES, ROWS, SETTINGS, measure
from tests import ROOT


@pytest.fixture(scope="module")
def small():
    return measure(SETTINGS["low"], (0,), 60)


def test_each_place_holds(small):
    assert [row["above"] for row in small["places"] if not row["holds"]] == []


def test_each_planted_defect_loses_its_place(small):
    assert [row["agent"] for row in small["defects"] if row["place"]["holds"]] == []
    assert len(small["defects"]) == len(DEFECTS) == len(PLACES)


def test_the_stored_figures_hold_at_three_settings():
    stored = json.loads((ROOT / "benchmarks/results/baselines.json").read_text(encoding="utf-8"))
    assert len(stored["settings"]) == 3 and stored["seeds"] == [0, 1, 2]
    for result in stored["settings"].values():
        assert set(result["rates"]) == set(ROWS)
        assert all(row["holds"] for row in result["places"])
        assert not any(row["place"]["holds"] for row in result["defects"])
