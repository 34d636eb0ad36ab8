"""Test episodes are counted as one population for every method, and beside it as the release counts, under its name."""

from tests.needs import require

require("[train]")

import json

import pytest

from benchmarks import sweeps
from benchmarks.episode_counts import draw_figures, read_episodes, table_4
from benchmarks.sweeps import SweepCell
from tests.trainers.earl_runs import ARITHMETIC, run


def counts(success, calls):
    return {"success": success, "tokens": 10.0 * calls, "interactions": calls}


METHODS = {
    "ExpA+CPO": {"0": {"a": counts(1.0, 3), "b": counts(0.0, 9), "c": counts(1.0, 5)}},
    "Prompt+GRPO": {"0": {"a": counts(0.0, 1), "b": counts(0.0, 2), "c": counts(1.0, 4)}},
    "SFT+GRPO": {"0": {"a": counts(1.0, 1), "b": counts(0.0, 2), "c": counts(0.0, 6)}},
}


def test_table_4_counts_all_episodes_of_every_method_and_names_the_releases_populations():
    """EARL's right episodes: a and c, (3 + 5) / 2. Prompt's wrong ones where EARL was right: a. SFT's are all."""
    ours, released = (part.strip().splitlines() for part in table_4(METHODS).split("As the release counts"))
    assert ours[0].startswith("All test episodes of every method")
    assert ours[-3:] == ["| ExpA+CPO | 3 | 5.67 |", "| Prompt+GRPO | 3 | 2.33 |", "| SFT+GRPO | 3 | 3.00 |"]
    assert released[-3:] == ["| ExpA+CPO | 2 | 4.00 |", "| Prompt+GRPO | 1 | 1.00 |", "| SFT+GRPO | 3 | 3.00 |"]


def test_without_counts_or_without_earl_there_is_nothing_to_tell():
    assert table_4({"ExpA+CPO": {"0": {"a": {"success": 1.0, "tokens": 3.0}}}}) == "" == table_4({})
    assert table_4({"Prompt+CPO": METHODS["Prompt+GRPO"]}).splitlines()[-1] == "| Prompt+CPO | 0 |  |"


def test_figures_are_drawn_of_what_there_is(tmp_path):
    curves = {"ExpA+CPO": [[{"step": step, "reward": step / 9} for step in range(1, 10)]], "SFT+GRPO": [[{"step": 1}]]}
    assert [path.name for path in draw_figures(METHODS, curves, tmp_path)] == ["lengths.png", "rewards.png"]
    assert all((tmp_path / name).stat().st_size > 5000 for name in ("lengths.png", "rewards.png"))
    assert draw_figures({}, {"SFT+GRPO": [[{"step": 1}]]}, tmp_path) == []


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a folder of runs with a finished one of ExpA+CPO in it."""
    out = tmp_path_factory.mktemp("sweep")
    cell = SweepCell("ExpA+CPO", "", (), seed="0")
    return out, cell, run(out / cell.folder, *ARITHMETIC, steps=1)


def test_a_run_keeps_its_test_episodes_and_a_sweep_tells_of_them(finished, monkeypatch):
    out, cell, result = finished
    episodes = read_episodes(out / cell.folder)
    assert len(episodes) == result["after"]["tasks"] == 4
    mean = sum(row["tokens"] for row in episodes.values()) / 4
    assert mean == pytest.approx(result["after"]["completions/mean_length"])
    assert all(
        {"success", "tokens", "interactions", "hallucinated operands"} <= row.keys() for row in episodes.values()
    )
    outcomes = [json.loads(line) for line in (out / cell.folder / "test_outcomes.jsonl").read_text().splitlines()]
    after = {row["task"]: row["success"] for row in outcomes if row["measure"] == "after"}
    assert after == {task: row["success"] for task, row in episodes.items()} and all(row["cluster"] for row in outcomes)
    assert [row["measure"] for row in outcomes] == ["before"] * 4 + ["after"] * 4
    by_row, curves = sweeps._by_row(out, [cell])
    assert list(by_row["ExpA+CPO"]) == ["/0"] and "reward" in curves["ExpA+CPO"][0][0]
    assert "| ExpA+CPO | 4 |" in table_4(by_row)
    assert json.loads((out / cell.folder / "result.json").read_text()).keys() == result.keys()
