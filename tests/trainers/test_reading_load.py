"""A reader of one algorithm meets little code, and importing it loads no other algorithm's parts."""

import importlib
import sys
from functools import partial

import pytest

from benchmarks.reading_load import eval_trip, find_modules, lines, step_trip, table
from tests import ROOT
from tests.test_size import lines_of_code
from tests.trainers.forked import returned

MOST = 6_660
# Files that a trip opens, and their lines of code: these numbers may fall, never rise. A step of GRPO is to open 20 files of
# trainers at most, and `agent-envs eval` 40.
TRIPS = {
    "step": (step_trip, {"trainers": (20, 3_280), "agent_envs": (28, 4_175)}),
    "eval": (eval_trip, {"trainers": (0, 0), "agent_envs": (45, 7_026)}),
}
SLACK_FILES, SLACK_LINES = 1, 160  # by which a trip may be shorter before its numbers have to follow


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
    assert loaded == find_modules("trainers.grpo"), "the table is of what is loaded"


def test_what_is_loaded_at_use_is_counted_beside():
    assert "trainers.engines.hf" in find_modules("trainers.grpo", at_use=True) - find_modules("trainers.grpo")
    assert "trainers.earl_parts.expa_head" in find_modules("trainers.earl")
    assert table().startswith("| trainer |") and "| `veg` |" in table()


def opened(trip):
    """Return the files that a trip opens and their lines of code, by package; for a process of its own."""
    files = trip().files
    packages = {top: [path for path in files if path.is_relative_to(ROOT / top)] for top in ("trainers", "agent_envs")}
    return {name: (len(paths), sum(map(lines_of_code, paths))) for name, paths in packages.items()}


@pytest.mark.parametrize("name", TRIPS)
def test_a_reader_of_a_trip_opens_no_more_than_is_held(name):
    trip, held = TRIPS[name]
    for package, (files, length) in returned(partial(opened, trip)).items():
        most_files, most_lines = held[package]
        print(f"{name}, {package}: {files} files, {length} lines, held {most_files} and {most_lines}")
        assert files <= most_files and length <= most_lines, f"{name} opens {files} files of {package}, {length} lines"
        assert most_files - files <= SLACK_FILES and most_lines - length <= SLACK_LINES, f"{name}: lower what is held"
