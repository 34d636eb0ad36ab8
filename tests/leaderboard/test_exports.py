"""A verified submission in the forms of others, read by their own readers."""

from tests.needs import require

require("[data]")

import json
import sys

import pyarrow.parquet
import pytest
import yaml

from agent_envs.base.errors import MissingExtra, UsageError
from agent_envs.evaluation.suites.suite import suite_text
from leaderboard.board import entrant_of
from leaderboard.command_line import main
from leaderboard.exports import hub_results
from leaderboard.inspect_logs import write_inspect
from leaderboard.standings import standings
from tests.leaderboard.boards import how, made_up, many_tasks

NAME = '"\n- dataset: {id: other/other}\n  value: 100 # \u2028 {{7*7}}'


def test_the_hubs_results_are_yaml_that_no_name_can_add_to():
    suite = many_tasks(20)
    entrant = made_up(suite, "a", 0.5, 1)
    object.__setattr__(entrant.submission.agent, "name", NAME)
    text = hub_results(entrant, suite.name, "owner/bench", "https://example.org/a?b#c")
    (row,) = yaml.safe_load(text)
    assert row["dataset"] == {"id": "owner/bench", "task_id": "many"}
    assert row["value"] == pytest.approx(100 * entrant.verdict.score.value) and 0 < row["value"] < 100
    assert row["source"] == {"url": "https://example.org/a?b#c", "name": "agent-envs submission"}
    assert (
        row["notes"].startswith(f"{NAME} on {suite.name}, 95 % interval ")
        and entrant.verdict.submission in row["notes"]
    )
    assert set(row) == {"dataset", "value", "date", "source", "notes"}
    assert "source" not in yaml.safe_load(hub_results(entrant, suite.name, "owner/bench"))[0]
    for dataset, source in (
        ("bench", ""),
        ("a/b/c", ""),
        ("owner/bench", "javascript:1"),
        ("owner/bench", "https://a\nb"),
    ):
        with pytest.raises(UsageError, match="export: "):
            hub_results(entrant, suite.name, dataset, source)


def test_episodes_as_parquet_are_those_of_the_replay(made, tmp_path, capsys):
    suite, place = made
    file = tmp_path / "suite.json"
    file.write_text(suite_text(suite))
    out = tmp_path / "episodes.parquet"
    with pytest.raises(SystemExit) as end:
        main(
            [
                "export",
                str(place / "heuristic"),
                "--to",
                "parquet",
                "--out",
                str(out),
                "--suite",
                str(file),
                "--jobs",
                "1",
            ]
        )
    assert end.value.code == 0 and "48 episodes" in capsys.readouterr().out
    rows = pyarrow.parquet.read_table(out).to_pylist()
    _, entrant = entrant_of(place / "heuristic", how(suite))
    assert [(row["key"], row["success"], row["turns"], row["return"]) for row in rows] == [
        (item.key, item.success, item.turns, item.total) for item in entrant.verdict.episodes
    ]
    for entry in entrant.verdict.entries:
        mine = [row["success"] for row in rows if row["entry"] == entry["entry"]]
        assert sum(mine) / len(mine) == pytest.approx(entry["success"])
    assert {row["trial"] for row in rows} == {0, 1} and len({(row["task"], row["entry"]) for row in rows}) == 24
    (only,) = standings(suite, [entrant]).rows
    with pytest.raises(SystemExit) as end:
        main(["export", str(place / "heuristic"), "--to", "hub", "--dataset", "owner/bench", "--suite", str(file),
              "--out", str(tmp_path / "mine.yaml"), "--jobs", "1", "--json"])  # fmt: skip
    assert end.value.code == 0 and json.loads(capsys.readouterr().out)["rows"] == 1
    (row,) = yaml.safe_load((tmp_path / "mine.yaml").read_text())
    assert row["value"] == pytest.approx(100 * only.score.value, abs=1e-4) and row["date"] == entrant.submission.date


def test_inspects_log_needs_its_package_and_an_ending_that_it_knows(made, tmp_path, monkeypatch):
    suite, place = made
    _, entrant = entrant_of(place / "random", how(suite))
    with pytest.raises(UsageError, match=r"log.txt is no file that ends in .eval or .json"):
        write_inspect(entrant, suite, tmp_path / "log.txt")
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    with pytest.raises(MissingExtra, match=r'pip install "agent-envs\[inspect\]"'):
        write_inspect(entrant, suite, tmp_path / "log.eval")
    assert list(tmp_path.iterdir()) == []
