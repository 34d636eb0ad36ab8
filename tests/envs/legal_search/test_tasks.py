"""The task source of generated law finds each task by index or id, and its splits share no question and no library."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.serialization import decode_state, encode_state
from agent_envs.envs.legal_search.env import make_source
from agent_envs.envs.legal_search.tasks import ABSTAIN, METRICS
from tests.examples import examples, part
from tests.rows import each_row

SOURCE = make_source("statutes", None)


def test_the_standard_set_has_2300_items():
    sizes = {split: SOURCE.size(split) for split in SOURCE.splits}
    assert sizes == {"train": 1700, "dev": 300, "test": 300}
    tasks = [SOURCE.get("test", index) for index in range(300)]
    assert len({task.id for task in tasks}) == len({task.question for task in tasks}) == 300
    assert len({task.cluster for task in tasks}) >= 60
    assert {task.data[2] for task in tasks[:3]} == {task.data[2] for task in tasks} == {0, 1, 2}


@examples(25)
@given(st.sampled_from(SOURCE.splits), st.integers(0, part(400, 5)))
def test_index_and_id_name_the_same_task(split, index):
    task = SOURCE.get(split, index)
    assert SOURCE.get(split, task.id) == task and SOURCE.get(split, task.id).digest == task.digest
    assert task.split == split and task.id.startswith(f"statutes-{split}-")


def test_larger_indices_are_tasks_of_further_worlds():
    assert SOURCE.get("test", 3).id == "statutes-test-0-1"
    assert SOURCE.get("test", 300 + 2).id == "statutes-test-5-0"


@each_row(
    "key",
    ["", "statutes", "statutes-test-0", "statutes-test-0-100", "statutes-test-00-0", "statutes-test-0--1", "0", -1,
     "statutes-dev-0-0", "statutes-test-٣-0", "statutes-test-0-0-0", "statutes-test-0-99999999999"],
)  # fmt: skip
def test_unknown_tasks_are_refused(key):
    with pytest.raises(KeyError):
        SOURCE.get("test", key)


def test_splits_share_no_question_and_no_library():
    tasks = {split: [SOURCE.get(split, index) for index in range(part(300, 6))] for split in SOURCE.splits}
    texts = {split: {task.question for task in rows} for split, rows in tasks.items()}
    assert not texts["train"] & texts["dev"] and not texts["train"] & texts["test"] and not texts["dev"] & texts["test"]
    digests = {split: {task.data[-1] for task in rows} for split, rows in tasks.items()}
    assert len(set.union(*digests.values())) == part(17, 6) + 3 + 3


def test_a_task_names_its_library_and_hides_its_answer():
    kinds, blanks = set(), 0
    for index in range(300):
        task = SOURCE.get("dev", index)
        library, scenario = SOURCE.library(task), task.hidden
        kinds.add(task.data[0])
        assert task.data[1:] == ("dev", index % 3, library.digest)
        assert scenario.metric in METRICS and decode_state(encode_state(task)) == task
        assert all(section in library.sections for section in (*scenario.gold_sections, *scenario.answer_sections))
        assert all(section in library.sections for section in (step.section for step in scenario.steps))
        if not scenario.answerable:
            blanks += 1
            assert task.gold == (ABSTAIN,) and scenario.metric == "abstain" and not scenario.answer_sections
            assert library.read(scenario.steps[-1].section).level == "chapter" and scenario.steps[-1].query
            assert len(scenario.gold_sections) == len(scenario.steps) - 1
        else:
            assert task.gold[0] != ABSTAIN and scenario.answer_sections
            assert int(task.data[0][-1]) == len(scenario.gold_sections) == len(scenario.steps)
            assert scenario.answer_sections == scenario.gold_sections
            assert all(library.corpus[library.corpus.row(section)].text for section in scenario.gold_sections)
    assert blanks == 30
    assert {kind.split("-")[0] for kind in kinds} == {
        "amount", "deadline", "fine", "comparison", "term", "unanswerable",
    }  # fmt: skip


def test_knobs_reach_the_worlds():
    knobs = {"reads": [4], "kinds": ["deadline"], "questions_per_world": 5, "unanswerable": 0.0}
    source = make_source("statutes", knobs)
    tasks = [source.get("train", index) for index in range(part(17 * 3, 3))]
    assert {task.data[0] for task in tasks} == {"deadline-4"}
    assert source.size("train") == 17 * 5
