"""Suites: strict files, derived keys and seeds, planned denominators."""

import json

import gymnasium as gym
import pytest

from agent_envs.base.errors import DataMissing, MissingExtra, UsageError
from agent_envs.core.env import core_of
from agent_envs.core.registry import TABLE
from agent_envs.core.trajectory import Header, Trajectory, Turn
from agent_envs.evaluation.runs.summary import averages_of
from agent_envs.evaluation.statistics.rates import Rate, weighted_rate
from agent_envs.evaluation.suites import plan
from agent_envs.evaluation.suites.plan import (
    Choice,
    adhoc_suite,
    choose_split,
    entry_env,
    first_tasks,
    plan_of,
    playable_part,
    tasks_of,
)
from agent_envs.evaluation.suites.suite import (
    changes,
    describe_changes,
    load_suite,
    read_suite,
    seed_of,
    suite_names,
    suite_text,
)
from agent_envs.rollout.episode_runner import EpisodeResult
from leaderboard import write_suites
from leaderboard.write_suites import CANARY, CORE, DATA_SUITES, generated_suites
from tests.examples import part
from tests.fresh_process import printed
from tests.needs import needs
from tests.rows import each_row

SMALL = {"world": {"passages": 60, "questions_per_world": 2}}


def small(**changes_):
    return adhoc_suite(Choice(**{"env_id": "SearchQA", "arguments": SMALL, **changes_}))


@needs("[envs]")
def test_the_shipped_suites_are_what_they_would_be_today(monkeypatch):
    """Fails when a task, a reward or a family changed: `make suites`, and a line under Scores in the CHANGELOG."""
    suite = load_suite("core")
    generated = ["babyai", "calc-bench", "core", "demo", "legal", "sorting", "tool-reasoning"]
    assert suite_names() == sorted([*generated, *DATA_SUITES])
    few = part(128, 12)
    monkeypatch.setattr(write_suites, "TASKS", few)
    entries = tuple(entry.model_copy(update={"tasks": entry.tasks[:few]}) for entry in suite.entries)
    shipped, today = suite.model_copy(update={"entries": entries}), write_suites.core_suite()
    moved = describe_changes(shipped.to_json(), today.to_json())
    assert shipped == today, f"core is another one now, {moved}: make suites, and a line under Scores in the CHANGELOG"
    rows = [row for row in TABLE if row.name in CORE]  # a new id is not among them before somebody enters it
    assert not any(row.twin for row in rows) and len(rows) == len(CORE) == 16
    assert suite.version == f"1.{len(rows)}" and [entry.env_id for entry in suite.entries] == [row.id for row in rows]
    assert suite.trials == 4 and all(len(entry.tasks) == 128 for entry in suite.entries)
    for family in {row.family for row in rows}:
        ids = {row.id for row in rows if row.family == family}
        assert sum(entry.weight for entry in suite.entries if entry.env_id in ids) == pytest.approx(1)
    assert all(entry.split == "test" for entry in suite.entries)
    plan = plan_of(suite)
    assert len(plan) == 512 * len(rows) == len({item.key for item in plan})
    assert load_suite(f"core@{suite.version}") == suite
    with pytest.raises(UsageError, match=r"version 1\.\d+ in this installation, not 0\.9"):
        load_suite("core@0.9")


@needs("[envs]")
def test_suites_of_papers_are_what_they_would_be_today_in_their_first_tasks():
    """All of their tasks are made again by the heavy test below: that takes ten seconds."""
    for name, labels in {
        "calc-bench": ["Arithmetic", "Countdown", "Count", "GSM8KScaled"],
        "sorting": ["Sort-4", "Sort-5"],
        "babyai": ["goto", "pickup", "open", "putnext", "pick_up_seq_go_to"],
        "legal": ["Accuracy"],
        "tool-reasoning": ["math_world"],
    }.items():
        suite = load_suite(f"{name}@1")
        assert [entry.label for entry in suite.entries] == labels and suite.trials == 1 and suite.canary == CANARY
        for entry in suite.entries:
            core = entry_env(entry).unwrapped
            assert core.spec_digest == entry.spec_digest and tasks_of(core, "test", 12) == entry.tasks[:12]
    sizes = [len(entry.tasks) for entry in load_suite("calc-bench").entries]
    assert sizes == [2000, 2000, 2000, 579]
    assert len(load_suite("legal").entries[0].tasks) == 300
    assert len(load_suite("tool-reasoning").entries[0].tasks) == 1000


@pytest.mark.heavy
def test_all_shipped_suites_are_what_they_would_be_today():
    for suite in generated_suites():
        assert load_suite(suite.id) == suite, f"make suites: {suite.id}"


@pytest.mark.data
@each_row("name", DATA_SUITES)
def test_suites_on_data_are_what_they_would_be_today(name):
    assert load_suite(name) == DATA_SUITES[name](), f"make suites: {name}"


def test_suites_on_data_hold_ids_and_digests_of_what_papers_play():
    sizes = {name: [len(entry.tasks) for entry in load_suite(name).entries] for name in DATA_SUITES}
    seven = [300, 300, 300, 300, 300, 300, 75]
    assert sizes == {"search-qa-7": seven, "search-qa-7-veg": seven, "tau2": [114, 50, 114], "tau2-veg": [26, 5, 25]}
    assert load_suite("tau2").trials == 4
    with pytest.raises(DataMissing, match="nq, split"):
        plan_of(load_suite("search-qa-7"))
    with pytest.raises(DataMissing, match="official tau2 data"):
        plan_of(load_suite("tau2-veg"))


def test_averages_are_the_papers_rules_on_the_papers_own_cells():
    """VEG's Table 1, Ours at 3B: its printed 0.439 weighs questions, and the plain mean is 0.369 (docs/papers.md)."""
    cells = {"NQ": 0.473, "TriviaQA": 0.672, "PopQA": 0.460, "HotpotQA": 0.349, "2Wiki": 0.319, "MuSiQue": 0.088,
             "Bamboogle": 0.224}  # fmt: skip
    for name, score in (("search-qa-7", 0.369), ("search-qa-7-veg", 0.439)):
        suite = load_suite(name)
        rates = [Rate(cells[entry.label], 0, 1, 100, 100, 100) for entry in suite.entries]
        averages = {label: round(rate.value, 3) for label, rate in averages_of(suite, rates).items()}
        assert averages == {"Avg., plain mean": 0.369, "Avg., weighted by questions": 0.439}
        assert round(weighted_rate(rates, [entry.weight for entry in suite.entries]).value, 3) == score
    calc = load_suite("calc-bench")  # EARL, Table 1, EARL at 7B: Overall 78.69
    rates = [Rate(value / 100, 0, 1, 100, 100, 100) for value in (78.10, 84.25, 98.70, 53.71)]
    assert averages_of(calc, rates)["Overall"].value == pytest.approx(0.7869, abs=5e-5)


def test_a_part_of_a_suite_keeps_the_averages_over_what_is_left():
    suite = load_suite("calc-bench")
    assert suite.part(suite.entries) == suite and not suite.part(suite.entries[:2]).scored
    assert suite.part(suite.entries[:2]).averages == () and read_suite(suite_text(suite.part(suite.entries[:2])), "x")
    plain = suite.model_copy(update={"averages": ()})
    assert "averages" not in plain.to_json() and [*plain.episodes()] == [*suite.episodes()]


@needs("[envs]")
def test_demo_is_a_part_of_core_and_leaves_out_what_is_not_installed(monkeypatch):
    core, demo = load_suite("core"), load_suite("demo@1")
    assert [entry.label for entry in demo.entries] == [entry.label for entry in core.entries] and demo.trials == 1
    for small_one, large in zip(demo.entries, core.entries, strict=True):
        assert small_one.tasks == large.tasks[:8] and small_one.model_copy(update={"tasks": large.tasks}) == large
    assert playable_part(demo) == (demo, [])
    real = plan.entry_env

    def lacking(entry):
        if "Crafter" in entry.label:
            raise MissingExtra("crafter", "crafter", "Crafter")
        return real(entry)

    monkeypatch.setattr(plan, "entry_env", lacking)
    part, lines = playable_part(demo)
    assert len(part.entries) == len(demo.entries) - 1 and part.digest() != demo.digest()
    assert lines == ['Crafter-v0 is skipped: Crafter needs crafter: pip install "agent-envs[crafter]"']


def test_a_canary_is_written_where_there_is_one():
    suite = small(limit=1)
    assert "canary" not in suite_text(suite) and f'"canary":"{CANARY}"' in suite_text(load_suite("demo"))
    assert read_suite(suite_text(suite), "x") == suite


@each_row("label", ["a\u202eb", "a\x00b", "x\ny", " x", "e\u0301", "a\u200bb"])
def test_labels_that_could_mislead_are_refused(label):
    row = small(limit=1).to_json()
    row["entries"][0]["label"] = label
    with pytest.raises(UsageError, match="label"):
        read_suite(json.dumps(row), "x")


def test_a_suite_survives_its_file(tmp_path):
    suite = small(limit=5, trials=3)
    path = tmp_path / "mine.json"
    path.write_text(suite_text(suite), encoding="utf-8")
    again = load_suite(str(path))
    assert again == suite and again.digest() == suite.digest()
    assert json.loads(path.read_text())["schema"] == "agent-envs/suite@1"
    assert path.read_text().count("\n") >= 5  # a task a line


def test_keys_and_seeds_are_derived():
    suite = small(limit=6, trials=2)
    plan = plan_of(suite)
    assert plan == plan_of(small(limit=6, trials=2)) and len({item.key for item in plan}) == 12
    assert [item.trial for item in plan] == [0, 1] * 6
    assert all(len(item.key) == 16 and item.seed == seed_of(item.key) == int(item.key[:8], 16) >> 1 for item in plan)
    assert [item.task for item in plan[::2]] == [f"world-test-{world}-0" for world in range(6)]
    assert [cluster for *_, cluster, _ in suite.episodes()] == [item.task.rsplit("-", 1)[0] for item in plan]


def test_the_plan_is_the_same_in_other_processes():
    code = (
        "import json, sys; from agent_envs.evaluation.suites.plan import *; "
        "suite = adhoc_suite(Choice('SearchQA', json.loads(sys.argv[1]), limit=3)); "
        "print(json.dumps([suite.digest(), [vars(item) for item in plan_of(suite)]]))"
    )
    suite = small(limit=3)
    assert json.loads(printed(code, json.dumps(SMALL))) == [suite.digest(), [vars(item) for item in plan_of(suite)]]


def test_keys_depend_on_what_is_played():
    def keys(**more):
        return [item.key for item in plan_of(small(**more))]

    whole = keys()
    assert len(whole) == 64 and keys(limit=5) == whole[:5] and keys(limit=1000) == whole
    assert keys(env_id="agent_envs/SearchQA-v0") == whole and keys(trials=2)[::2] == whole
    for more in ({"split": "dev"}, {"arguments": {**SMALL, "top_k": 1}}, {"arguments": {}}, {"turn_limits": (2,)}):
        assert not set(keys(limit=9, **more)) & set(whole)


def test_sweeps_and_turn_limits_are_entries():
    suite = small(limit=2, sweep=("retriever", ("bm25", "empty")), turn_limits=(0, 3))
    assert [entry.label for entry in suite.entries] == [
        f"retriever={name} free_turns={turns}" for name in ("bm25", "empty") for turns in (0, 3)
    ]
    assert not suite.scored and small(limit=2).scored and not small(limit=2, turn_limits=(1, 2)).scored
    assert len(plan_of(suite)) == 8 and "ForcedAnswer" in plan_of(suite)[0].spec
    with pytest.raises(UsageError, match="each one once"):
        small(turn_limits=(2, 2))


def test_turn_limits_are_what_the_environment_can_grant():
    def limits(env_id="SearchQA", turns=(0, 3, 5, 6, 10), **arguments):
        return [e.turn_limit for e in adhoc_suite(Choice(env_id, arguments, limit=1, turn_limits=turns)).entries]

    assert limits() == [0, 3, 5] and limits(max_generations=11) == [0, 3, 5, 6, 10]
    assert limits(max_generations=1) == [0]
    suite = adhoc_suite(Choice("ArithmeticExpA", limit=1, turn_limits=(2, 3)))
    assert [entry.label for entry in suite.entries] == ["turns=2", "turns=3"] and "TurnLimit" in plan_of(suite)[0].spec
    with pytest.raises(UsageError, match="ArithmeticExpA-v0 has no answer to force: give turn limits >= 1"):
        limits("ArithmeticExpA", (0, 1))


def test_the_split():
    choice = Choice("SearchQA")
    assert choose_split(choice, ("train", "dev", "test")) == "test"
    assert choose_split(choice, ("train", "dev")) == "dev"
    assert choose_split(choice, ("a", "b")) == "b"
    assert choose_split(Choice("SearchQA", split="train"), ("train", "dev")) == "train"
    with pytest.raises(UsageError, match="SearchQA: no split 'test'; the splits are train, dev"):
        choose_split(Choice("SearchQA", split="test"), ("train", "dev"))


@pytest.mark.parametrize(
    "wrong", [{"limit": 0}, {"limit": -1}, {"trials": 0}, {"env_id": "nope"}, {"arguments": {"tusk": 1}}], ids=str
)
def test_choices_that_cannot_be(wrong):
    with pytest.raises(UsageError):
        small(**wrong)


def test_a_world_with_fewer_questions_is_played_once():
    knobs = {"world": {"passages": 40, "questions_per_world": 30, "unanswerable": 1.0, "hops": [1]}}
    plan = plan_of(adhoc_suite(Choice("SearchQA", knobs)))
    assert 32 < len(plan) < 32 * 30 and len({item.task for item in plan}) == len(plan)


def test_a_limited_suite_is_another_suite():
    suite = small()
    assert first_tasks(suite, None) is suite
    part = first_tasks(suite, 3)
    assert len(plan_of(part)) == 3 and part.digest() != suite.digest()
    assert [item.key for item in plan_of(part)] == [item.key for item in plan_of(suite)][:3]


def average_of(row, weight):
    return {"name": "a", "source": "b", "weights": {row["entries"][0]["label"]: weight}}


MUTATIONS = {
    "an unknown key": lambda row: row.update(more=1),
    "another schema": lambda row: row.update(schema="agent-envs/suite@2"),
    "a name of capitals": lambda row: row.update(id="Core"),
    "no version": lambda row: row.pop("version"),
    "trials as text": lambda row: row.update(trials="2"),
    "trials as truth": lambda row: row.update(trials=True),
    "no trials": lambda row: row.update(trials=0),
    "no entries": lambda row: row.update(entries=[]),
    "no tasks": lambda row: row["entries"][0].update(tasks=[]),
    "a task twice": lambda row: row["entries"][0]["tasks"].append(row["entries"][0]["tasks"][0]),
    "an entry twice": lambda row: row["entries"].append(row["entries"][0]),
    "a short digest": lambda row: row["entries"][0]["tasks"][0].__setitem__(1, "abc"),
    "a weight of 0": lambda row: row["entries"][0].update(weight=0.0),
    "an average of no entry": lambda row: row.update(averages=[{"name": "a", "source": "b", "weights": {"c": 1.0}}]),
    "an average twice": lambda row: row.update(averages=2 * [average_of(row, 1.0)]),
    "an average of weight 0": lambda row: row.update(averages=[average_of(row, 0.0)]),
    "another predicate": lambda row: row["entries"][0].update(success="return>=1; import os"),
}


@each_row("name", MUTATIONS)
def test_a_file_that_is_no_suite_is_refused(name):
    row = json.loads(suite_text(small(limit=2)))
    MUTATIONS[name](row)
    with pytest.raises(UsageError, match="mine is no suite"):
        read_suite(json.dumps(row), "mine")


@pytest.mark.parametrize("text", ["", "[]", "{", "NaN", '{"a": 1e999}', "[" * 5000])
def test_texts_that_are_no_suite(text):
    with pytest.raises(UsageError, match="is no suite"):
        read_suite(text, "x")


def test_unknown_names():
    for name in ("nope", "core.json", "../core", ""):
        with pytest.raises(UsageError, match="no suite .*core"):
            load_suite(name)


def test_another_environment_or_task_is_named():
    row = json.loads(suite_text(small(limit=2)))
    row["entries"][0]["spec_digest"] = "0" * 64
    with pytest.raises(UsageError, match=r"SearchQA-v0 is another environment here \(spec digest 000000000000 -> "):
        plan_of(read_suite(json.dumps(row), "x"))
    row = json.loads(suite_text(small(limit=2)))
    row["entries"][0]["tasks"][1][1] = "1" * 64
    with pytest.raises(UsageError, match="task 'world-test-1-0' has another content here"):
        plan_of(read_suite(json.dumps(row), "x"))
    row["entries"][0]["tasks"][1][0] = "world-test-1-99"
    with pytest.raises(UsageError, match="no task 'world-test-1-99'"):
        plan_of(read_suite(json.dumps(row), "x"))


def test_the_predicate_of_success():
    turn = Turn(1, "o", "", None, (), (), 0.25, (), terminated=True)
    trajectory = Trajectory(Header("e", "", "t", "test", "", 0, "k"), (), (turn, turn), None, False)
    entry = small(limit=1).entries[0]
    assert not entry.solved(trajectory)
    assert entry.model_copy(update={"success": "return>=0.5"}).solved(trajectory)
    assert not entry.model_copy(update={"success": "return>=0.51"}).solved(trajectory)
    assert EpisodeResult(trajectory, "terminated").success is False


def test_changes_are_named():
    assert changes({"a": 1, "b": [1, 2]}, {"a": 1, "b": [1, 3]}) == ["b[1] (2 -> 3)"]
    assert changes({"a": [1]}, {"a": [1, 2], "c": {}}) == ["a (1 -> 2 of them)", "c (None -> {})"]
    assert changes([1], [1]) == [] and describe_changes(dict.fromkeys("abcde", 1), {}).endswith("and 2 more")


def test_drawing_many_tasks_tells_how_far_it_is_once_it_takes_long(monkeypatch):
    told = []
    monkeypatch.setattr(plan, "stage_lines", lambda title: lambda stage, part: told.append((title, stage, part)))
    core = core_of(gym.make("agent_envs/Sort-v0"))
    rows = tasks_of(core, "test", 4)
    assert (len(rows), told) == (4, []), "nothing is told of what is quick"
    monkeypatch.setattr(plan, "QUIET_SECONDS", -1.0)
    assert tasks_of(core, "test", 4) == rows
    assert told == [("agent_envs/Sort-v0", "tasks drawn", part) for part in (0.25, 0.5, 0.75, 1.0)]
