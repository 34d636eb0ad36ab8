"""Averages have their papers' names wherever a suite's score stands: on the terminal, in JSON, report, page and verdict."""

import json

import pytest

from agent_envs.cli import app as cli
from agent_envs.evaluation.html.view import write_view
from agent_envs.evaluation.report.report import report_on
from agent_envs.evaluation.runs.evaluate import result_of_run
from agent_envs.evaluation.runs.run_folder import open_run
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.evaluation.suites.suite import Average, load_suite, suite_text
from agent_envs.evaluation.verification.verify import How, verify
from tests.evaluation.submission.packing import play

NAME = "Avg., by swaps"


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Return the folder of a packed run of the random agent, on two sizes of sorting, of which one weighs three times."""
    place = tmp_path_factory.mktemp("averages")
    suite = adhoc_suite(Choice("Order", limit=12, sweep=("size", (2, 5))))
    labels = [entry.label for entry in suite.entries]
    average = Average(name=NAME, source="a paper, Table 1", weights=dict(zip(labels, (3.0, 1.0), strict=True)))
    suite = suite.model_copy(update={"id": "swaps", "scored": True, "averages": (average,)})
    play(place / "run", suite, "random")
    pack_run(place / "run", place / "packed")
    (place / "suite.json").write_text(suite_text(suite), encoding="utf-8")
    return place


def test_an_average_is_shown_beside_the_score(played, tmp_path, capsys):
    run = open_run(played / "run")
    result, _ = result_of_run(run)
    small, large = (item.success.value for item in result.summaries)
    assert small != large and result.score.value == pytest.approx((small + large) / 2)
    rate = result.averages[NAME]
    assert rate.value == pytest.approx((3 * small + large) / 4)
    assert result.to_json()["averages"] == {NAME: [rate.value, rate.low, rate.high]}
    assert (NAME, "", rate, "", "", "", "") in report_on(run).tables[0].rows
    page = write_view(played / "run", tmp_path / "page")
    assert NAME in page.read_text(encoding="utf-8")
    cli.app(["eval", "--resume", str(played / "run")], standalone_mode=False)
    assert f"{NAME}: {rate.text()}" in capsys.readouterr().out


def test_a_verdict_computes_it_again(played, capsys):
    result, _ = result_of_run(open_run(played / "run"))
    verdict = verify(played / "packed", How(load_suite(str(played / "suite.json")), jobs=0))
    assert verdict.verdict == "accepted" and verdict.averages == result.averages
    for more in ([], ["--json"]):
        arguments = ["verify", str(played / "packed"), "--suite", str(played / "suite.json"), "--jobs", "1", *more]
        assert cli.app(arguments, standalone_mode=False) == 0
        told = capsys.readouterr().out
        assert NAME in told
    assert json.loads(told)["averages"][NAME][0] == verdict.averages[NAME].value
