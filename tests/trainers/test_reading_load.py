"""A reader of one algorithm meets little code, and importing it loads no other algorithm's parts."""

import importlib
import sys

from benchmarks.reading_load import lines, reached, table
from tests.trainers.forked import returned

MOST = 6_500


def loaded_by_grpo():
    """Return the modules of trainers that importing GRPO loads; for a process of its own, which forgets what it has of them."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "trainers"]:
        del sys.modules[name]
    importlib.import_module("trainers.grpo")
    return {name for name in sys.modules if name.partition(".")[0] == "trainers"}


def test_importing_grpo_loads_little_and_nothing_of_earl_and_veg():
    loaded = returned(loaded_by_grpo)
    assert not [name for name in loaded if name.startswith(("trainers.earl", "trainers.veg", "trainers.tiny"))]
    assert lines(loaded) <= MOST, f"importing trainers.grpo loads {lines(loaded)} lines, and may load {MOST}"
    assert loaded == reached("trainers.grpo"), "the table is of what is loaded"


def test_what_is_loaded_at_use_is_counted_beside():
    assert "trainers.engines.hf" in reached("trainers.grpo", at_use=True) - reached("trainers.grpo")
    assert "trainers.earl_parts.expa_head" in reached("trainers.earl")
    assert table().startswith("| trainer |") and "| `veg` |" in table()
