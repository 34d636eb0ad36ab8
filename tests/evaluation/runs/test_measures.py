"""Metrics and labels of environment families are averaged correctly, also from a journal, and are optional."""

import json
from collections import Counter
from dataclasses import replace

import gymnasium as gym
import pytest

from agent_envs import EnvFault, Reply, Share, UsageError, register_companions
from agent_envs.base.dialects import TOLERATED
from agent_envs.base.protocol import Say
from agent_envs.core.trajectory import Turn
from agent_envs.evaluation.html.view import write_view
from agent_envs.evaluation.report.compare import compare_entries, compare_runs
from agent_envs.evaluation.report.report import report_on
from agent_envs.evaluation.runs.evaluate import evaluate, result_of_run, resume
from agent_envs.evaluation.runs.measures import valid_turn
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.runs.summary import natural
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from tests.evaluation.html.test_view import checked, texts
from tests.hostile_texts import HOSTILE, MARKUP
from tests.toy import Guess, Numbers

LABEL = "measured/Told-v0"
SIZES = ("10", "9", "2")
# task -> (hints asked for, whether the answer is right)
FIRST = {0: (0, True), 1: (1, False), 2: (2, True), 3: (3, True), 4: (4, False), 5: (1, True)}
SECOND = dict.fromkeys(range(6), (1, True))
EVIL = "<script>alert(1)</script>|`[x](javascript:alert(1))`\x1b[31m\n# head"
T_OF_5 = 2.5705818366147  # Student's 0.975 quantile, 5 degrees of freedom


class SingleNumbers(Numbers):
    """Numbers, each task its own cluster; it counts what it is asked for, and can change."""

    asked = Counter()
    question = "Which number?"

    def get(self, split, key):
        task = super().get(split, key)
        self.asked[task.id] += 1
        return replace(task, cluster=task.id, question=self.question)


class Silent(Guess):
    """Guess over them, without labels and metrics; it counts how often it is made."""

    made = Counter()

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.made[type(self).__name__] += 1
        self.source = SingleNumbers()


class Told(Silent):
    """The same with labels and metrics."""


class Hostile(Silent):
    """The same with labels and metrics that attack their reader."""


class Wrong(Silent):
    """The same with those that a test chooses."""


def place_of(task):
    return int(task.id.rpartition("-")[2])


def labels(task):
    place = place_of(task)
    return {"parity": ("even", "odd")[place % 2], "size": SIZES[place % 3]}


def metrics(trajectory):
    assert trajectory.task.id == trajectory.header.task_id and trajectory.task.gold
    hints = sum(len(turn.results) for turn in trajectory.turns)
    parity = {"odd": 1} if place_of(trajectory.task) % 2 else {"even": 1, "solved": Share(trajectory.success)}
    return {"hints": hints, "solved": None, **parity, "never": None}


def hostile(subject):
    mark = "" if subject is None else subject.id  # a label with one value only has no table
    return {name: text + mark for name, text in {EVIL: EVIL, **MARKUP, "all": "".join(HOSTILE.values())}.items()}


register_companions(Told, labels=labels, metrics="tests.evaluation.runs.test_measures:metrics")
register_companions(Hostile, labels=hostile, metrics=lambda trajectory: dict.fromkeys(hostile(None), 1.0))
for _class in (Silent, Told, Hostile, Wrong):
    gym.register(
        id=f"measured/{_class.__name__}-v0", entry_point=f"tests.evaluation.runs.test_measures:{_class.__name__}"
    )


def made_by_a_function(**arguments):
    return Told(**arguments)


class Scripted:
    """Asks for hints and answers by a table."""

    name, batch, needs_env = "scripted", 1, True

    def __init__(self, table=FIRST, faulty=(), task=None):
        self.table, self.faulty, self.task = table, faulty, task

    def begin(self, env):
        return Scripted(self.table, self.faulty, env.unwrapped.episode.task)

    def act(self, requests):
        place = place_of(self.task)
        if place in self.faulty:
            raise EnvFault("no model", retryable=False)
        hints, right = self.table[place]
        text = (
            "<compare>50</compare>" if requests[0].turn <= hints else f"<answer>{self.task.gold[0] if right else 'no'}"
        )
        return [Reply(text)]


def play(folder, name="Told", policy=None, agent="scripted", **more):
    suite = adhoc_suite(Choice(f"measured/{name}-v0", **{"limit": 6, **more}))
    return evaluate(suite, Settings(agent), policy=policy or Scripted(), folder=folder)


def cut(folder, rows):
    """Leave the first rows of a run's journal."""
    path = folder / "journal.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[: rows + 1]))


def test_metrics_by_hand(tmp_path):
    row = play(tmp_path).to_json()
    hints = row["metrics"]["hints"]
    played, solved = hints["played"], hints["solved"]
    half = T_OF_5 * ((31 - 11**2 / 6) / 5 / 6) ** 0.5  # the squares of 0 1 2 3 4 1 sum to 31
    assert (played["episodes"], solved["episodes"]) == (6, 4)
    assert played["mean"] == pytest.approx(11 / 6) and played["interval"] == pytest.approx(
        [11 / 6 - half, 11 / 6 + half]
    )
    assert solved["mean"] == 1.5 and (solved["p10"], solved["median"], solved["p90"]) == pytest.approx((0.3, 1.5, 2.7))
    assert row["metrics"]["odd"]["played"]["episodes"] == 3 and row["metrics"]["even"]["solved"]["episodes"] == 2
    assert row["metrics"]["odd"]["played"]["interval"] == [None, None]  # equal numbers say nothing about others
    (again,) = result_of_run(open_run(tmp_path))[0].summaries
    assert {name: again.breakdown()[name] for name in ("strata", "metrics")} == {
        n: row[n] for n in ("strata", "metrics")
    }
    json.dumps(row, allow_nan=False)


def test_strata_by_hand(tmp_path):
    strata = play(tmp_path).to_json()["strata"]
    assert list(strata) == ["parity", "size"]
    assert [item["value"] for item in strata["size"]] == ["2", "9", "10"]
    assert [item["success"] for item in strata["size"]] == [1.0, 0.0, 1.0]
    even, odd = strata["parity"]
    assert (even["value"], even["tasks"], even["trials"], even["clusters"]) == ("even", 3, 3, 3)
    assert even["success"] == odd["success"] == pytest.approx(2 / 3)
    assert even["mean_return"] == pytest.approx((1 + (1 - 2 / 16) - 4 / 16) / 3)
    assert odd["mean_return"] == pytest.approx((-1 / 16 + (1 - 3 / 16) + (1 - 1 / 16)) / 3)
    assert even["metrics"] == {"hints": 2.0, "even": 1.0, "solved": pytest.approx(2 / 3), "never": None}
    assert odd["metrics"]["hints"] == pytest.approx(5 / 3)
    assert 0 < even["interval"][0] < 2 / 3 < even["interval"][1] < 1


def test_the_tables_of_a_report(tmp_path, monkeypatch):
    play(tmp_path)
    report = report_on(open_run(tmp_path))
    parity, size, measured, by_parity, by_size = report.tables[3:]
    assert (parity.caption, size.caption) == ("Success by parity", "Success by size")
    assert parity.headers == ("entry", "parity", "tasks", "success (95 % interval)", "mean return")
    assert (*parity.rows[0][1:3], parity.rows[0][4]) == ("even", "3", "0.542") and parity.rows[0][3].value == 2 / 3
    assert by_parity.headers == ("entry", "parity", "ended", "hints", "solved", "even", "never", "odd")
    assert by_parity.rows == (
        (LABEL, "even", "3", "2", "66.7 %", "1", "-", "-"), (LABEL, "odd", "3", "1.667", "-", "-", "-", "1"),
    )  # fmt: skip
    assert measured.rows[1][1:6] == ("solved", "66.7 % [4.4 %, 98.9 %]", "3", "100.0 %", "2")
    assert measured.rows[3][1:] == ("never", "-", "0", "-", "0", "-", "-", "-")
    assert report.to_json()["metrics"][LABEL]["solved"]["unit"] == "share"
    assert [row[1] for row in by_size.rows] == [row[1] for row in size.rows] == ["2", "9", "10"]
    assert [row[:2] for row in measured.rows] == [(LABEL, name) for name in ("hints", "solved", "even", "never", "odd")]
    assert measured.rows[0][2:] == ("1.833 [0.2886, 3.378]", "6", "1.5 [0, 3.554]", "4", "-", "-", "-")
    monkeypatch.setattr("agent_envs.evaluation.report.report.FEW", 4)
    assert report_on(open_run(tmp_path)).tables[5].rows[0][-3:] == ("0.3", "1.5", "2.7")
    row = report.to_json()
    assert list(row) == ["title", "tables", "notes", "strata", "metrics"]
    assert [item["value"] for item in row["strata"][LABEL]["size"]] == ["2", "9", "10"]
    assert row["metrics"][LABEL]["hints"]["solved"]["median"] == 1.5
    json.dumps(row, allow_nan=False)


def test_a_run_that_went_on_tells_the_same(tmp_path):
    suite = adhoc_suite(Choice("measured/Told-v0", limit=8, trials=3))
    whole = evaluate(suite, Settings("heuristic", concurrency=4), folder=tmp_path).summaries[0].breakdown()
    assert whole["metrics"]["hints"]["played"]["episodes"] == 24
    for rows in (24, 13, 0):
        cut(tmp_path, rows)
        result, _ = result_of_run(open_run(tmp_path))
        assert (result.summaries[0].breakdown() == whole) is (rows == 24)
        assert resume(tmp_path).summaries[0].breakdown() == whole
        assert report_on(open_run(tmp_path)).breakdowns == {LABEL: whole}
        assert json.loads((tmp_path / "results.json").read_text())["strata"] == whole["strata"]


def test_missing_and_faulty_episodes_are_failures_of_their_strata_and_no_metrics(tmp_path):
    play(tmp_path, policy=Scripted(faulty=(1,)))
    rows = (tmp_path / "journal.jsonl").read_bytes().splitlines(keepends=True)
    kept = [row for row in rows if b'"task_id":"test-4"' not in row]
    assert len(kept) == len(rows) - 1
    (tmp_path / "journal.jsonl").write_bytes(b"".join(kept))
    (summary,) = result_of_run(open_run(tmp_path))[0].summaries
    nine = {item.value: item for item in summary.strata["size"]}["9"]
    assert (nine.success.value, nine.success.trials, nine.mean_return, nine.metrics) == (0.0, 2, None, {})
    assert [item.success.trials for item in summary.strata["parity"]] == [3, 3]
    hints = summary.metrics["hints"]
    assert (hints.overall.episodes, hints.solved.episodes, hints.overall.mean) == (4, 4, 1.5)
    assert (nine.success.tasks, nine.ended) == (2, 0)
    _, size, _, _, by_size = report_on(open_run(tmp_path)).tables[3:]
    assert size.rows[1][1:] == ("9", "2", nine.success, "") and [row[1] for row in by_size.rows] == ["2", "10"]


def test_a_task_is_fetched_once_and_an_environment_made_only_to_fetch(tmp_path):
    play(tmp_path / "told", trials=4)
    play(tmp_path / "silent", "Silent")
    SingleNumbers.asked.clear()
    Silent.made.clear()
    report_on(open_run(tmp_path / "told"))
    report_on(open_run(tmp_path / "silent"))
    assert SingleNumbers.asked == {f"test-{place}": 1 for place in range(6)}
    assert Silent.made == {"Told": 1}


def test_without_labels_and_metrics_nothing_is_told(tmp_path):
    for name in "ab":
        result = play(tmp_path / name, "Silent")
    row = result.to_json()
    assert not {"strata", "metrics"} & row.keys()
    report = report_on(open_run(tmp_path / "a"))
    assert [grid.caption for grid in report.tables][-1] == "How the episodes ended"
    assert list(report.to_json()) == ["title", "tables", "notes"] and len(report.notes) == 1
    (contrast,), notes = compare_runs(open_run(tmp_path / "a"), open_run(tmp_path / "b"))
    assert "metrics" not in contrast.to_json() and notes == []


def test_labels_alone_and_metrics_alone(tmp_path, wrong):
    wrong(labels=labels)
    assert "metrics" not in play(tmp_path / "a", "Wrong").to_json()
    wrong(metrics=metrics)
    row = play(tmp_path / "b", "Wrong").to_json()
    assert "strata" not in row and row["metrics"]["hints"]["played"]["episodes"] == 6


def test_a_comparison_pairs_metrics_by_task(tmp_path):
    play(tmp_path / "a", trials=2)
    play(tmp_path / "b", policy=Scripted(SECOND), agent="second", trials=2)
    (contrast,), notes = compare_runs(open_run(tmp_path / "a"), open_run(tmp_path / "b"))
    hints = contrast.metrics["hints"]
    half = T_OF_5 * ((15 - 5**2 / 6) / 5 / 6) ** 0.5  # the differences are 1 0 -1 -2 -3 0
    assert hints.means == pytest.approx((11 / 6, 1)) and hints.difference == pytest.approx(-5 / 6) and hints.tasks == 6
    assert hints.interval == pytest.approx((-5 / 6 - half, -5 / 6 + half)) and notes == []
    assert hints.text() == "1.833 and 1; second minus first -0.8333 [-2.378, +0.7114] (n=6 tasks)"
    assert contrast.metrics["odd"].tasks == 3 and contrast.metrics["odd"].interval == (None, None)
    assert contrast.to_json()["metrics"]["hints"]["first"] == pytest.approx(11 / 6)
    assert (
        contrast.metrics["solved"].text().startswith("66.7 % and ") and " points" in contrast.metrics["solved"].text()
    )
    assert ("never", "-") in contrast.metric_texts() and contrast.to_json()["metrics"]["never"] is None
    cut(tmp_path / "b", 10)  # the last task is not played by both, and counts in neither mean
    (contrast,), _ = compare_runs(open_run(tmp_path / "a"), open_run(tmp_path / "b"))
    assert contrast.metrics["hints"].means == (2.0, 1.0) and contrast.metrics["hints"].tasks == 5
    cut(tmp_path / "b", 6)  # of two tasks little is known, and no share differs by more than 100 points
    play(tmp_path / "c", policy=Scripted({**SECOND, 0: (1, False)}), trials=2)
    (contrast,), _ = compare_runs(open_run(tmp_path / "c"), open_run(tmp_path / "b"))
    assert contrast.metrics["solved"].text().endswith("second minus first +50.0 points [-100.0, +100.0] (n=2 tasks)")


def test_entries_of_a_sweep_are_compared_too(tmp_path):
    play(tmp_path, sweep=("turns", (9, 3)))
    (contrast,), _ = compare_entries(open_run(tmp_path))
    assert contrast.metrics["hints"].means == pytest.approx((11 / 6, 10 / 6))  # the fourth hint of task 4 is cut off
    grid = report_on(open_run(tmp_path)).tables[3]
    assert [row[:2] for row in grid.rows] == [
        ("turns=9", "even"), ("turns=9", "odd"), ("turns=3", "even"), ("turns=3", "odd"),
    ]  # fmt: skip


def test_pages_show_the_same_tables(tmp_path):
    play(tmp_path / "run")
    write_view(tmp_path / "run", tmp_path / "view")
    text = checked(tmp_path / "view")["index.html"].text
    for grid in report_on(open_run(tmp_path / "run")).tables[3:]:
        assert grid.caption in text and all(cell in text for row in grid.texts()[1] for cell in row)
    places = [text.index(caption) for caption in ("mean return", f"Episodes of {LABEL}", "How the episodes ended")]
    assert places == sorted(places) and "smallest difference to be seen: a smaller true" in text


def test_hostile_labels_are_shown_as_they_stand(tmp_path):
    play(tmp_path / "run", "Hostile")
    text = report_on(open_run(tmp_path / "run")).markdown()
    assert "<script" not in text and "<img" not in text and "[x](" not in text and "\x1b" not in text
    assert text.count("\n# ") == 0 and text.count("\n## ") == 3 + 2 * len(hostile(None)) + 1
    write_view(tmp_path / "run", tmp_path / "view")
    readers = checked(tmp_path / "view")
    page = texts(tmp_path / "view")["index.html"]
    assert page.count("<script") == page.count("<h1>forged") == page.count("<img") == 0
    assert all(payload in readers["index.html"].text for payload in MARKUP.values())


@pytest.fixture
def wrong():
    """A function that gives Wrong its companions; they are gone again after the test."""
    from agent_envs.core.registry import _COMPANIONS

    name = f"{Wrong.__module__}:{Wrong.__qualname__}"

    def register(**companions):
        for kind in ("labels", "metrics"):
            _COMPANIONS.pop((name, kind), None)
        register_companions(Wrong, **companions)

    yield register
    register()


def fails(subject):
    raise KeyError("gone")


@pytest.mark.parametrize(
    ("kind", "companion", "words"),
    [
        ("metrics", fails, "failed: KeyError: 'gone'"),
        ("metrics", lambda _: {"a": float("nan")}, "returned {'a': nan}; it returns finite numbers by name"),
        ("metrics", lambda _: {"a": "1"}, "finite numbers by name"),
        ("metrics", lambda _: {1: 1.0}, "finite numbers by name"),
        ("metrics", lambda _: None, "returned None"),
        ("labels", fails, "failed: KeyError: 'gone'"),
        ("labels", lambda _: {"a": 4}, "returned {'a': 4}; it returns texts by name"),
        ("labels", lambda _: [], "texts by name"),
    ],
)
def test_a_bug_of_a_family_names_its_environment(tmp_path, wrong, kind, companion, words):
    play(tmp_path / "fine", "Wrong")
    wrong(**{kind: companion})
    for read in (lambda: play(tmp_path / "r", "Wrong"), lambda: report_on(open_run(tmp_path / "fine"))):
        with pytest.raises(RuntimeError) as caught:
            read()
        assert f"measured/Wrong-v0: its {kind} companion, for task 'test-0', " in str(caught.value)
        assert words in str(caught.value)


def test_what_is_not_known_here_is_noted(tmp_path, monkeypatch):
    play(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(SingleNumbers, "question", "Which one?")
        report = report_on(open_run(tmp_path / "run"))
        assert f"{LABEL}: not all labels and metrics are told, as a task has another content here" in report.notes
        assert len(report.tables) == 3 and "strata" not in report.to_json()
    with monkeypatch.context() as patch:
        patch.delitem(gym.registry, "measured/Told-v0")
        run = open_run(tmp_path / "run")
        note = f"{LABEL}: labels and metrics, if it has any, are not told, as its environment is not known here (UsageError)"
        assert note in report_on(run).notes and note in compare_runs(run, run)[1]
        write_view(tmp_path / "run", tmp_path / "view")
        assert note in checked(tmp_path / "view")["index.html"].text
    assert len(report_on(open_run(tmp_path / "run")).tables) == 8


def test_reading_a_run_imports_nothing_that_its_files_name(tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    play(tmp_path / "run")
    path = tmp_path / "run" / "suite.json"
    path.write_text(path.read_text().replace('"env_id":"', '"env_id":"planted:'))
    with pytest.raises(UsageError, match=r"suite.json is no suite: entries.0.env_id: .*names a module to import"):
        open_run(tmp_path / "run")


def test_an_environment_may_be_registered_by_a_function(tmp_path):
    gym.register(id="measured/Made-v0", entry_point="tests.evaluation.runs.test_measures:made_by_a_function")
    try:
        assert "metrics" in play(tmp_path, "Made").to_json()
        assert len(report_on(open_run(tmp_path)).tables) == 8
    finally:
        gym.registry.pop("measured/Made-v0")


@pytest.mark.parametrize(
    ("events", "valid"), [((), True), ((f"{TOLERATED} x",), True), ((f"{TOLERATED} x", "no action found"), False)]
)
def test_a_turn_in_a_tolerated_dialect_is_valid(events, valid):
    assert valid_turn(Turn(1, "key", "guess 3", Say("guess 3"), (), events=events)) is valid


def test_natural_order():
    shown = ["-3", "2", "9", "10", "10.5", "2 digits", "10 digits", "even", "size 2", "size 10", "size x", "²"]
    assert sorted(reversed(shown), key=natural) == shown
    assert natural("9" * 5_000) > natural("1")
