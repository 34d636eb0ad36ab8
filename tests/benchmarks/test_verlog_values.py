"""Verlog's critic and gradients are looked at on the same turns, whatever way they are cut, and no weight moves."""

from tests.needs import require

require("[train]")

import json

import pytest
import torch

from benchmarks import verlog_values
from tests import ROOT
from tests.trainers.test_verlog import SMALL, point
from trainers.batching import Row
from trainers.command_line import parse
from trainers.run import open_run
from trainers.verlog import VerlogSettings, train


def test_the_spread_of_gradients_of_a_hand_worked_table():
    """Two gradients (1, 0) and (3, 2): mean (2, 1), variance (1 + 1 + 1 + 1) / 1, squared norm 5 less half of that."""
    found = [torch.tensor([1.0, 0.0]).double(), torch.tensor([3.0, 2.0]).double()]
    told = verlog_values.spread(found, torch.tensor([2.0, 1.0]).double())
    assert told == pytest.approx({"mean_squared": 3.0, "variance": 4.0, "cosine_of_means": 1.0})


def test_joined_lanes_ask_for_no_state_where_they_go_on():
    one = [[point(1, 1, ahead=(5,)), point(2, 1, truncated=True, ahead=(6,))], [point(1, 1), point(2, 1, ahead=(7,))]]
    two = [[point(1, 1), point(2, 1, ahead=(8,))], [point(3, 1, 1.0, terminated=True), point(1, 1, ahead=(9,))]]
    assert [[each.ahead for each in lane] for lane in verlog_values.joined([one, two])] == [
        [(), (6,), (), (8,)], [(), (), (), (9,)],
    ]  # fmt: skip


def test_values_are_followed_along_whole_episodes_and_rows_come_in_batches():
    lane = [point(2, 1), point(1, 2), point(2, 1, 1.0, terminated=True), point(1, 1, empty=True), point(2, 1)]
    spoken = [each for each in lane if not each.empty]
    rows = [
        Row(each.sequence, (0.0,) * len(each.sequence.ids), more={"values": (0.0, 0.0, 0.1 * at, 9.0)})
        for at, each in enumerate(spoken)
    ]
    found = verlog_values.along([[lane]], rows)
    assert found == {"solved": [[(1, pytest.approx(0.1)), (2, pytest.approx(0.2))]], "not solved": []}
    assert verlog_values.means_by_turn(found["solved"] * 2) == [[1, 0.1, 2], [2, 0.2, 2]]
    assert [len(batch) for batch in verlog_values.by_batch(rows, [lane], 2)] == [2, 1, 1]


def test_a_run_is_looked_at_and_keeps_its_weights(tmp_path):
    settings, folder = parse(VerlogSettings, [*SMALL, "--steps", "1", "--out", str(tmp_path / "run")], program="verlog")
    with open_run(settings, folder, 1) as opened:
        result = train(settings, opened)
    before = {path: path.read_bytes() for path in folder.rglob("*.safetensors")}
    table, lines = verlog_values.looked_at(folder, 4)
    assert {path: path.read_bytes() for path in folder.rglob("*.safetensors")} == before
    assert table["step"] == 1 and json.loads((folder / "result.json").read_text()) == json.loads(json.dumps(result))
    cut, whole = table["gradient"]["cut at 3 turns"], table["gradient"]["whole episodes"]
    assert whole["cosine_of_means"] == pytest.approx(1.0) and cut["variance"] > 0 and whole["variance"] > 0
    verlog_values.draw(lines, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_has_the_figures_of_the_file():
    page = (ROOT / "docs" / "verlog.md").read_text(encoding="utf-8")
    runs = json.loads((ROOT / "benchmarks" / "results" / "verlog_values.json").read_text(encoding="utf-8"))["runs"]
    for run in runs.values():
        ways = [run["gradient"][way] for way in ("cut at 8 turns", "whole episodes")]
        cells = [f"{way[name]:.4f}" for name in ("variance", "mean_squared") for way in ways]
        cells += [f"{ways[0]['cosine_of_means']:.2f}", f"{run['explained_variance_of_whole_episodes']:.3f}"]
        for kind in ("solved", "not solved"):
            values = {turn: value for turn, value, _ in run["values"][kind]}
            cells.append(f"{', '.join(f'{values[turn]:.3f}' for turn in (1, 8, 16))} ({run['values'][kind][0][2]})")
        assert f"| {run['seed']} | {' | '.join(cells)} |" in page
