"""Word problems as tasks: splits, ids, clusters, recomputed answers, and Calc-Bench over either source."""

import os
import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from agent_envs.base.errors import DataMissing, UsageError
from agent_envs.envs.expa.calculator.word_problems import (
    RESCALINGS,
    RescaledSource,
    ScaledSource,
    calc_bench_source,
    scaled_source,
)
from agent_envs.grading.arithmetic import evaluate, literals


def recomputed(task):
    """Return the answer of a task's steps: every operand is given or an earlier result."""
    known = {Fraction(number) for number in task.data.given}
    for step in task.hidden.steps:
        assert set(literals(step)) <= known, task.id
        known.add(evaluate(step))
    return evaluate(task.hidden.steps[-1])


def test_generated_tasks_are_reached_alone_and_solved_by_their_steps():
    source = ScaledSource()
    for index in (0, 7, 10**6):
        task = source.get("test", index)
        assert task == ScaledSource().get("test", task.id) and task.id == f"gsm8k_scaled-test-{index}"
        assert recomputed(task) == Fraction(task.gold[0]) == Fraction(task.hidden.answer)
        assert task.gold[0] not in task.question.replace(",", "").split()
    assert {split: source.size(split) for split in source.splits} == {"train": 5317, "dev": 58, "test": 579}


def test_the_splits_share_no_question():
    source = ScaledSource(digits=2)
    questions = [{source.get(split, index).question for index in range(1000)} for split in source.splits]
    assert not questions[0] & questions[1] and not questions[0] & questions[2] and not questions[1] & questions[2]


@pytest.mark.parametrize("digits", [2, 3, 6, 9])
def test_numbers_have_at_most_the_digits_asked_for(digits):
    longest = max(
        len(number) for index in range(200) for number in ScaledSource(digits=digits).get("train", index).data.given
    )
    assert longest == digits


@pytest.mark.parametrize(
    ("arguments", "named"), [({"tasks": "GSM8K*"}, "tasks="), ({"tasks": "generated", "digits": 1}, "digits=")]
)
def test_wrong_arguments_are_named(arguments, named):
    with pytest.raises(UsageError, match=named):
        scaled_source(**arguments)


@pytest.mark.data
def test_rescaled_items_of_one_problem_are_one_cluster_and_differ():
    source = RescaledSource()
    assert source.splits == ("train", "test") and source.digest
    items = source.size("test") // RESCALINGS
    one, again, far = (source.get("test", 5 + k * items) for k in (0, 1, RESCALINGS + 3))
    assert one.cluster == again.cluster == far.cluster != source.get("test", 6).cluster
    assert len({one.question, again.question, far.question}) == 3
    for index in range(0, source.size("test"), 7):
        task = source.get("test", index)
        assert recomputed(task) == Fraction(task.gold[0])
        assert source.get("test", task.id) == task


@pytest.mark.data
def test_calc_bench_takes_either_source_of_word_problems():
    made, real = calc_bench_source("generated"), calc_bench_source("gsm8k")
    assert not made.digest and real.digest
    kinds = [real.get("test", index).id.split("-")[0] for index in range(300)]
    assert {"arithmetic", "countdown", "gsm8k_rescaled", "count"} == set(kinds)
    assert {real.get("dev", index).data.kind for index in range(100)} == {"arithmetic", "countdown", "count"}
    assert real.get("train", real.get("train", 3).id) == real.get("train", 3)


@pytest.mark.data
def test_a_part_of_gsm8k_is_not_taken_for_the_whole(tmp_path, monkeypatch):
    whole = Path(os.environ["AGENT_ENVS_DATA"]) / "gsm8k" / "test.jsonl"
    (tmp_path / "gsm8k").mkdir()
    shutil.copy(whole, tmp_path / "gsm8k" / "test.jsonl")
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path))
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DataMissing, match="gsm8k, split train"):
        scaled_source("gsm8k")
