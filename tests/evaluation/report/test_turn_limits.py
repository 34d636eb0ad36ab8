"""Turn-restricted evaluation: rows by hand, several agents in one figure, pages, and metrics that are not there."""

import re

import pytest

from agent_envs import EnvFault, Reply, run_episode
from agent_envs.envs.search_qa.scoring import metrics
from agent_envs.evaluation.html.report_page import write_report
from agent_envs.evaluation.html.view import write_view
from agent_envs.evaluation.report.report import agent_names, report_on
from agent_envs.evaluation.report.turn_limits import limit_curves
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite, entry_env
from tests.toy import ID

LIMITS = (0, 2, 5)
TASKS = 8


class Answers:
    """Searches while it may, then answers by a rule of the task and of the free turns that it had."""

    name, batch, needs_env = "answers", 1, True

    def __init__(self, rule, env=None):
        self.rule, self.env = rule, env

    def begin(self, env):
        return Answers(self.rule, env)

    def act(self, requests):
        if not requests[0].prefill:
            return [Reply("<search>more</search>")]
        task = self.env.unwrapped.episode.task
        place = int(task.id.split("-")[2]) if task.id.startswith("world") else 0
        text = {"right": task.gold[0]}.get(found := self.rule(place, requests[0].turn - 1), found)
        return [Reply(f"<answer>{text}</answer>")]


def careful(place, free):
    """As many right as there were free turns; of the others the last is wrong, and the rest is not known."""
    return "right" if place < free else "never so" if place == TASKS - 1 else "I don't know."


def bold(place, free):
    return "right" if place < free else "never so"


def faulty(place, free):
    if place == 7:
        raise EnvFault("no model", retryable=False)
    return bold(place, free)


def play(folder, rule, name, **more):
    suite = adhoc_suite(Choice(**{"env_id": "SearchQA", "limit": TASKS, "turn_limits": LIMITS, **more}))
    return evaluate(suite, Settings(name), policy=Answers(rule), folder=folder)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limits")
    play(folder / "careful", careful, "careful")
    play(folder / "bold", bold, "bold")
    return folder


def test_rows_by_hand(place):
    rows = report_on(open_run(place / "careful")).limits
    assert [(row.series, row.subject, row.free_turns) for row in rows] == [
        ("careful", "SearchQA-v0 test", free) for free in LIMITS
    ]
    assert [row.success.value for row in rows] == [0, 2 / 8, 5 / 8]
    assert [row.abstained.value for row in rows] == [7 / 8, 5 / 8, 2 / 8]
    assert [row.wrong.value for row in rows] == [1 / 8] * 3
    assert [row.turns for row in rows] == [1, 3, 6] and rows[0].turns_interval == (None, None)
    assert all(
        rate.low < rate.value < rate.high for row in rows[1:] for rate in (row.success, row.abstained, row.wrong)
    )


def test_several_agents_share_figures_and_tables(place):
    report = report_on(open_run(place / "careful"), open_run(place / "bold"))
    curves = limit_curves(report.limits)
    assert [curve.caption.partition(" against")[0] for curve in curves] == [
        "Accuracy", "Abstention", "Wrong answers", "Turns"
    ]  # fmt: skip
    assert all([name for name, _ in curve.series] == ["careful", "bold"] for curve in curves)
    accuracy, abstention, wrong, turns = ({name: [p[:2] for p in line] for name, line in c.series} for c in curves)
    assert accuracy["careful"] == accuracy["bold"] == [(0, 0), (2, 25), (5, 62.5)]
    assert abstention == {"careful": [(0, 87.5), (2, 62.5), (5, 25)], "bold": [(0, 0), (2, 0), (5, 0)]}
    assert wrong["bold"] == [(0, 100), (2, 75), (5, 37.5)] and turns["bold"] == [(0, 1), (2, 3), (5, 6)]
    tables = {grid.caption: grid for grid in report.tables}
    table = tables["Against turn limits, SearchQA-v0 test"]
    assert [row[:3] for row in table.rows] == [(n, str(free), "8") for n in ("careful", "bold") for free in LIMITS]
    assert table.rows[2][3].startswith("62.5 % [") and "n=" not in table.rows[2][3] and table.rows[2][-1] == "6.00"
    assert tables["Success"].headers[:2] == ("agent", "entry") and len(tables["Success"].rows) == 6
    assert {note.partition(":")[0] for note in report.notes} == {"careful", "bold"}
    assert list(report.breakdowns) == [f"{name}: free_turns={free}" for name in ("careful", "bold") for free in LIMITS]
    found = report.to_json()["turn_limits"][2]
    assert found["success"]["value"] == 0.625 and found["abstained"]["n"] == 8 and len(found["wrong"]["interval"]) == 2


def test_columns_that_a_run_has_not_are_empty(place, tmp_path):
    evaluate(adhoc_suite(Choice("SearchQA", limit=4)), Settings("null"), folder=tmp_path / "null")
    tables = {grid.caption: grid for grid in report_on(open_run(place / "bold"), open_run(tmp_path / "null")).tables}
    ended = tables["How the episodes ended"]
    heads, rows = ended.texts()
    last = dict(zip(heads, rows[-1], strict=True))
    assert (last["agent"], last["wrong answer"], last["unreadable"]) == ("null", "", "4")


def test_the_page_holds_the_figures(place, tmp_path):
    report = report_on(open_run(place / "careful"), open_run(place / "bold"))
    write_report(tmp_path / "a" / "page.html", report)
    html = (tmp_path / "a" / "page.html").read_text()
    assert html.count('<svg class="plot"') == 4 and "naive RAG" in html and "62.5 % [" in html
    assert 'aria-label="2 curves, 6 points"' in html and "How the episodes ended" not in html
    evaluate(adhoc_suite(Choice("SearchQA", limit=4)), Settings("null"), folder=tmp_path / "null")
    write_report(tmp_path / "plain.html", report_on(open_run(tmp_path / "null")))
    html = (tmp_path / "plain.html").read_text()
    assert [curve in html for curve in ("<h2>Turns</h2>", "<h2>Returns</h2>", "pass^k")] == [True, True, False]
    assert "How the episodes ended" in html


def test_the_pages_of_a_run_tell_a_limit_of_none_from_no_limit(place, tmp_path):
    html = write_view(place / "bold", tmp_path, most=1).read_text()
    table = html.partition("<h2>What was played</h2>")[2].partition("</table>")[0]
    assert "turn limit" in table and all(re.search(f'<td class="num"[^>]*>{free}</td>', table) for free in LIMITS)


def test_the_same_agent_twice_is_told_apart_by_its_folder(place, tmp_path):
    play(tmp_path / "again", bold, "bold")
    runs = [open_run(folder) for folder in (place / "bold", tmp_path / "again", place / "careful")]
    assert agent_names(runs) == ["bold (bold)", "bold (again)", "careful"]
    assert len(limit_curves(report_on(*runs).limits)[0].series) == 3
    assert agent_names([runs[0], runs[0]]) == ["bold (bold), 1", "bold (bold), 2"]


def test_what_is_varied_beside_the_limit_names_the_series_and_other_tasks_have_other_figures(place, tmp_path):
    play(tmp_path / "sweep", bold, "bold", sweep=("retriever", ("bm25", "empty")), turn_limits=(0, 1))
    rows = report_on(open_run(tmp_path / "sweep")).limits
    assert [row.series for row in rows] == ["bold, retriever=bm25"] * 2 + ["bold, retriever=empty"] * 2
    play(tmp_path / "fewer", bold, "fewer", limit=3, turn_limits=(0, 1))
    rows = report_on(open_run(place / "bold"), open_run(tmp_path / "fewer")).limits
    assert list(dict.fromkeys(row.subject for row in rows)) == [
        "SearchQA-v0 test, 8 tasks (set 1)", "SearchQA-v0 test, 3 tasks (set 2)"
    ]  # fmt: skip
    assert len(limit_curves(rows)) == 8


def test_without_a_sweep_there_is_nothing(tmp_path):
    play(tmp_path / "one", bold, "bold", turn_limits=(2,))
    evaluate(adhoc_suite(Choice("SearchQA", limit=2)), Settings("null"), folder=tmp_path / "none")
    for name in ("one", "none"):
        report = report_on(open_run(tmp_path / name))
        assert report.limits == () and "turn_limits" not in report.to_json()


def test_one_limit_a_run_makes_a_sweep_of_several_runs(tmp_path):
    for free in (0, 2):
        play(tmp_path / str(free), bold, f"agent{free}", turn_limits=(free,))
    rows = report_on(*(open_run(tmp_path / name) for name in "02")).limits
    assert [(row.series, row.free_turns) for row in rows] == [("agent0", 0), ("agent2", 2)]


def test_a_family_without_such_metrics_has_no_abstention_and_wrong_answers_all_the_same(tmp_path):
    play(tmp_path, bold, "bold", env_id=f"tests.toy:{ID}", turn_limits=(0, 1))
    rows = report_on(open_run(tmp_path)).limits
    assert [row.abstained for row in rows] == [None, None]
    assert rows[0].wrong.value == 1.0 and rows[1].wrong.value == 0.0
    assert [curve.caption.partition(" ")[0] for curve in limit_curves(rows)] == ["Accuracy", "Wrong", "Turns"]


def test_what_was_not_played_counts_as_no_answer_of_any_kind(tmp_path):
    play(tmp_path, faulty, "faulty")
    rows = report_on(open_run(tmp_path)).limits
    assert [row.wrong.value for row in rows] == [7 / 8, 5 / 8, 2 / 8] and [row.success.trials for row in rows] == [
        8
    ] * 3
    assert [row.turns for row in rows] == [1, 3, 6]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("unknown", (1.0, 0.0)),
        ("Unknown.", (1.0, 0.0)),
        ("I don't know", (1.0, 0.0)),
        ("I do not know,\nsorry", (1.0, 0.0)),
        ("The Unknown Soldier", (0.0, 1.0)),
        ("", (0.0, 1.0)),
        ("right", (0.0, 0.0)),
    ],
)
def test_search_tells_abstentions_from_wrong_answers(said, found):
    env = entry_env(adhoc_suite(Choice("SearchQA", limit=1, turn_limits=(0,))).entries[0])
    result = run_episode(env, Answers(lambda place, free: said), seed=0, task=0, split="test")
    assert metrics(result.trajectory) == dict(zip(("abstained", "wrong"), found, strict=True))


def test_abstaining_where_nothing_is_known_is_right_and_an_abstention():
    choice = Choice("SearchQA", {"world": {"unanswerable": 1.0, "kinds": ["bridge"]}}, limit=1, turn_limits=(0,))
    env = entry_env(adhoc_suite(choice).entries[0])
    result = run_episode(env, Answers(lambda place, free: "unknown"), seed=0, task=0, split="test")
    assert result.success and metrics(result.trajectory) == {"abstained": 1.0, "wrong": 0.0}


def test_no_answer_is_neither():
    env = entry_env(adhoc_suite(Choice("SearchQA", limit=1)).entries[0])
    result = run_episode(env, Answers(bold), seed=0, task=0, split="test")
    assert result.status == "truncated" and metrics(result.trajectory) == {"abstained": 0.0, "wrong": 0.0}
