"""Each report's server is played: what becomes of the episode is what is expected, and a right answer beside it is paid."""

import json

import pytest

from benchmarks import provider_faults
from benchmarks.provider_faults import RESULTS, try_report
from benchmarks.provider_reports import REPORTS
from tests.examples import sample
from tests.needs import needs

BY_NAME = {report.name: report for report in REPORTS}


@needs("[anthropic]")
@needs("[legal]")
@pytest.mark.parametrize("name", sample(list(BY_NAME), 18))
def test_a_report_ends_as_it_should_and_a_right_answer_is_paid(name, monkeypatch):
    import agent_envs.rollout.run_many as run_many
    import agent_envs.services.recording as recording

    monkeypatch.setattr(recording, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setitem(run_many.run_many.__kwdefaults__, "pause_seconds", 0.0)
    row = try_report(BY_NAME[name])
    assert (row["verdict"], row["control"]) == ("right", "paid"), row


def test_the_rows_that_are_kept_are_those_of_today():
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert [row["name"] for row in rows] == list(BY_NAME) and len(rows) == len(REPORTS) >= 40
    assert all(row["verdict"] == "right" and row["control"] == "paid" and row["before"] for row in rows)
    assert [row["expected"] for row in rows] == [json.loads(json.dumps(report.expected)) for report in REPORTS]


def test_a_row_that_does_not_come_out_fails_the_command(monkeypatch, capsys):
    from dataclasses import replace

    wrong = replace(BY_NAME["no usage"], expected={"success": False})
    monkeypatch.setattr(provider_faults, "REPORTS", [wrong])
    monkeypatch.setattr(provider_faults, "without_pauses", lambda: None)  # it lasts as long as the process
    assert provider_faults.main(["--rows", "no usage"]) == 1
    assert "| wrong: 1 calls, 0 faults, 1 turns, solved | paid |" in capsys.readouterr().out
