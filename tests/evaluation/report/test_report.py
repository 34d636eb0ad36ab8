"""`report` and `compare` print each rate and each paired difference with its interval and its number of tasks."""

import json
import re
from dataclasses import replace

import pytest

from agent_envs import EnvFault, Reply, UsageError
from agent_envs.evaluation.report.charts import Table
from agent_envs.evaluation.report.compare import compare_entries, compare_runs
from agent_envs.evaluation.report.report import RunReport, report_on, result_of_run
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.rollout.policy import NullPolicy
from benchmarks.agents import Instant

EVIL = "<script>alert(1)</script>|`[x](javascript:alert(1))`\x1b[31m\n# head"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of runs by name, all on one suite; `other` on another."""
    place = tmp_path_factory.mktemp("runs")
    suite = adhoc_suite(Choice("SearchQA", limit=48, trials=2))
    for agent in ("random", "heuristic", "solver", "null"):
        evaluate(suite, Settings(agent), folder=place / agent)
    evaluate(suite, Settings("heuristic"), folder=place / "again")
    evaluate(adhoc_suite(Choice("SearchQA", limit=40, trials=2)), Settings("random"), folder=place / "other")
    settings = adhoc_suite(Choice("SearchQA", {"retriever": "empty"}, limit=48, trials=2))
    evaluate(settings, Settings("heuristic"), folder=place / "empty")
    sweep = adhoc_suite(Choice("SearchQA", limit=48, sweep=("retriever", ("bm25", "empty", "random"))))
    evaluate(sweep, Settings("heuristic"), folder=place / "sweep")
    return lambda name: open_run(place / name)


def ended(report):
    return next(grid for grid in report.tables if grid.caption == "How the episodes ended")


def test_every_rate_has_its_interval_and_denominator(runs):
    report = report_on(runs("heuristic"))
    success, trials = report.tables[:2]
    heads, (row,) = success.texts()
    assert re.fullmatch(r"\d+\.\d % \[\d+\.\d, \d+\.\d\]", row[2])
    assert (heads[-1], row[-1]) == ("n", "96 in 32 clusters") and "48 x 2" in row
    assert trials.headers == ("entry", "success, were the same tasks played again", "k", "pass^k", "pass@k")
    assert trials.rows[0][2] == "2" and all("[" in trials.rows[0][place] for place in (1, 3, 4))
    text = report.markdown()
    assert text.startswith("# heuristic on SearchQA-v0\n") and "80 % power" in text and text.count("96 in 32") == 1


def test_a_report_is_computed_from_the_journal(runs, tmp_path):
    run = runs("heuristic")
    (run.folder / "results.json").write_text('{"success": 1.0}')
    result, numbers = result_of_run(run)
    assert result.summaries[0].success.value < 0.5 and len(numbers) == 96


def test_outcomes_add_up(runs):
    for name in ("random", "heuristic", "null", "solver"):
        grid = ended(report_on(runs(name)))
        heads, (row,) = grid.texts()
        assert sum(map(int, row[1:-1])) == 96 and heads[-1] == "retried"
        assert sum(share for _, share in grid.rows[0][-1].parts) == pytest.approx(1)
    assert "unreadable" in ended(report_on(runs("null"))).texts()[0]


def test_invalid_actions_are_warned_of(runs):
    assert any("turns were valid" in note for note in report_on(runs("null")).notes)
    assert not any("turns were valid" in note for note in report_on(runs("solver")).notes)


def test_faults_are_told_with_their_cause(tmp_path):
    class Faulty(NullPolicy):
        def act(self, requests):
            if requests[0].episode_key[0] in "01234567":
                raise EnvFault(EVIL, retryable=False)
            return [Reply("")]

    evaluate(adhoc_suite(Choice("SearchQA", limit=16)), Settings("null"), policy=Faulty(), folder=tmp_path)
    report = report_on(open_run(tmp_path))
    assert any("ended in a fault and count 0" in note for note in report.notes)
    text = report.markdown()
    assert "<script>" not in text and "\x1b" not in text and "&lt;script&gt;" in text


def test_markdown_shows_what_strangers_wrote_as_it_stands():
    text = RunReport(EVIL, (Table(EVIL, (EVIL,), ((EVIL,),)),), (EVIL,)).markdown()
    assert "<script" not in text and "[x](" not in text and "\x1b" not in text
    assert len(re.findall(r"^#", text, flags=re.M)) == 2
    (row,) = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line][1:]
    assert len(re.findall(r"(?<!\\)\|", row)) == 2


def test_a_comparison_is_paired_and_signed(runs):
    (contrast,), notes = compare_runs(runs("random"), runs("heuristic"))
    paired = contrast.paired
    assert notes == [] and (contrast.first, contrast.second) == ("random", "heuristic")
    assert paired.tasks == 48 and paired.clusters == 32
    assert paired.difference == pytest.approx(contrast.rates[1].value - contrast.rates[0].value)
    assert paired.low < paired.difference < paired.high and paired.detectable > 0
    (back,), _ = compare_runs(runs("heuristic"), runs("random"))
    assert back.paired.difference == pytest.approx(-paired.difference) and back.paired.p_value == pytest.approx(
        paired.p_value
    )


def test_verdicts(runs):
    (contrast,), _ = compare_runs(runs("random"), runs("solver"))
    assert contrast.verdict() == "solver is better" and contrast.adjusted < 0.001
    assert contrast.verdict("first", "second") == "second is better"
    (same,), _ = compare_runs(runs("heuristic"), runs("again"))
    assert same.verdict() == "not distinguishable" and same.paired.difference == 0 and same.adjusted == 1
    assert same.paired.low < 0 < same.paired.high
    assert same.first == "heuristic (heuristic)" and same.second == "heuristic (again)"
    json.dumps(same.to_json(), allow_nan=False)


def test_runs_on_other_tasks_cannot_be_compared(runs):
    with pytest.raises(UsageError, match=r"suites differ in .*tasks \(48 -> 40 of them\)"):
        compare_runs(runs("random"), runs("other"))


def test_two_settings_on_the_same_tasks_are_compared_with_a_note(runs):
    (contrast,), notes = compare_runs(runs("heuristic"), runs("empty"))
    assert contrast.paired.difference < 0 and "arguments.retriever (None -> 'empty')" in notes[0]


def test_a_sweep_is_compared_with_its_first_entry(runs):
    contrasts, notes = compare_entries(runs("sweep"))
    assert [(item.first, item.second) for item in contrasts] == [
        ("retriever=bm25", "retriever=empty"), ("retriever=bm25", "retriever=random"),
    ]  # fmt: skip
    assert all(item.adjusted >= item.paired.p_value for item in contrasts) and notes == []
    with pytest.raises(UsageError, match="name two runs"):
        compare_entries(runs("random"))


def test_what_was_not_played_is_told(tmp_path):
    suite = adhoc_suite(Choice("SearchQA", limit=8))
    for name in "ab":
        evaluate(suite, Settings("instant"), policy=Instant(), folder=tmp_path / name)
    journal = tmp_path / "b" / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-2]))
    _, notes = compare_runs(open_run(tmp_path / "a"), open_run(tmp_path / "b"))
    assert notes == ["2 tasks are left out: not every episode of theirs came to its end"]
    assert replace(report_on(open_run(tmp_path / "b")), tables=()).notes[0].startswith("SearchQA-v0: 2 of 8 planned")
