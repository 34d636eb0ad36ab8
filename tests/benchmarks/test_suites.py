"""The measurement of suites: outcomes become shares, weights are the suite's, and the page says what the file says."""

import json
import re

import pytest

from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.evaluation.suites.suite import load_suite, suite_names
from benchmarks.suites import Measurement, line_of, main, play, table_of
from tests import ROOT

RESULTS = json.loads((ROOT / "benchmarks" / "results" / "suites.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8")
YES, NO = True, False


@pytest.fixture(scope="module")
def suite():
    """Two entries of four tasks, of which the first weighs three times the second."""
    made = adhoc_suite(Choice("Count", limit=4, sweep=("sequences", ("digits", "symbols"))))
    heavy = made.entries[0].model_copy(update={"weight": 3.0})
    return made.model_copy(update={"entries": (heavy, made.entries[1])})


def test_shares_are_weighted_as_the_score_is(suite):
    both = {"random": (NO, NO, NO, YES), "heuristic": (NO, YES, NO, YES), "solver": (YES, YES, YES, YES)}
    alone = {"random": (NO, NO, YES, YES), "solver": (YES, YES, YES, NO)}
    rows = [Measurement(entry, ends) for entry, ends in zip(suite.entries, (both, alone), strict=True)]
    table = table_of(suite, rows)
    assert rows[0].alike(("random", "heuristic", "solver")) == 0.25 and rows[1].alike(("random", "solver")) == 0.25
    assert table["alike"] == 0.25 and table["alike_without_gold"] == 0.75 and table["entries_with_heuristic"] == 1
    assert table["saturation"] == (3 * 0.5 + 0.5) / 4 and table["headroom"] == (3 + 0.75) / 4 - 0.5
    assert table["random"] == pytest.approx((3 * 0.25 + 0.5) / 4, abs=1e-4) and table["drop"] == []


def test_only_an_entry_with_both_agents_at_nothing_is_to_be_dropped(suite):
    entry = suite.entries[0]
    none, all_ = (NO,) * 4, (YES,) * 4
    assert Measurement(entry, {"random": none, "heuristic": none, "solver": all_}).dropped
    assert not Measurement(entry, {"random": none, "solver": all_}).dropped
    assert not Measurement(entry, {"random": none, "heuristic": none, "solver": (*all_[1:], NO)}).dropped
    assert not Measurement(entry, {"random": none, "heuristic": (YES, *none[1:]), "solver": all_}).dropped


def test_an_entry_is_played_by_every_agent_that_its_environment_has(suite):
    ticks = []
    row = play(suite, suite.entries[0], ticks.append)
    assert (
        list(row.outcomes) == ["random", "heuristic", "solver"]
        and row.outcomes["solver"] == (YES,) * 4
        and len(ticks) == 12
    )
    assert play(suite, suite.entries[0]) == row


def test_a_suite_whose_data_is_not_here_is_left_out_by_name_and_the_tables_of_others_stay(tmp_path, capsys):
    out = tmp_path / "out.json"
    assert main(["sorting", "--tasks", "2", "--out", str(out)]) == 0
    before = out.read_text()
    assert main(["tau2", "--tasks", "2", "--out", str(out)]) == 3
    assert "tau2 is left out" in capsys.readouterr().err and out.read_text() == before
    assert main(["calc-bench", "--tasks", "2", "--out", str(out)]) == 0
    assert [table["suite"] for table in json.loads(out.read_text())["suites"]] == ["calc-bench@1.0", "sorting@1.0"]


def test_the_figures_are_of_the_suites_that_ship_and_the_page_shows_them():
    tables = {table["suite"]: table for table in RESULTS["suites"]}
    assert {name.partition("@")[0] for name in tables} == set(suite_names()) - {"demo"}
    rows = set(re.findall(r"^\| .* \|$", PAGE, flags=re.M))
    for name, table in tables.items():
        assert load_suite(name).digest() == table["digest"], f"python -m benchmarks.suites: {name} is another one now"
        assert line_of(table) in rows
    drops = {name: table["drop"] for name, table in tables.items() if table["drop"]}
    assert drops == {"babyai@1.0": ["open"]}  # the page says so; core drops nothing
