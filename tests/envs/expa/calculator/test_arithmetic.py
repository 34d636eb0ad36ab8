import hashlib
from collections import Counter
from fractions import Fraction
from functools import cache

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.envs.expa.calculator.arithmetic import ArithmeticSource
from agent_envs.envs.expa.calculator.calculator import keyable
from agent_envs.envs.expa.calculator.random_expressions import MOST_DIGITS, OPERATORS, as_unit
from agent_envs.grading.arithmetic import evaluate, number_text
from tests.envs.expa.calculator.reading import arithmetic, assert_random_access
from tests.examples import part
from tests.fresh_process import printed
from tests.rows import each_row

SPLITS = ("train", "dev", "test")
COUNT = part(3000, 1000)


@cache
def tasks(split, labels="tree", **knobs):
    source = ArithmeticSource(labels=labels, **knobs)
    return tuple(source.get(split, index) for index in range(COUNT))


def assert_portion(hits, count, portion, spread=4.0):
    """Within `spread` standard deviations of a binomial."""
    assert abs(hits - count * portion) <= spread * (count * portion * (1 - portion)) ** 0.5, (hits / count, portion)


def test_random_access():
    assert_random_access(ArithmeticSource)


@pytest.mark.parametrize("split", SPLITS)
def test_every_answer_is_what_the_question_says(split):
    for task in tasks(split):
        told, _, numbers = arithmetic(task.question, task.data.wording)
        assert task.gold == (number_text(told),) == (task.hidden.answer,)
        assert Fraction(task.gold[0]) == told, "a label is exact, not rounded"
        assert task.data.given == tuple(numbers)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("labels", ["tree", "released"])
def test_the_derivation_gives_the_label_on_the_calculator(split, labels):
    for task in tasks(split, labels)[:1000]:
        [step] = task.hidden.steps
        assert keyable(step, decimal_point=False)
        assert number_text(evaluate(step)) == task.gold[0]


def test_ranges_and_portions_of_table_3():
    for split, operations, portion in (("train", 4, 0.1), ("dev", 6, 0.7), ("test", 6, 0.7)):
        wordings = Counter(task.data.wording for task in tasks(split))
        assert_portion(COUNT - wordings["symbols"], COUNT, portion)
        assert_portion(wordings["number words"], COUNT - wordings["symbols"], 0.5)
        for task in tasks(split):
            assert task.data.kind == "arithmetic" and task.data.size == operations
            assert len(task.data.given) == operations + 1
            assert all(1 <= int(number) <= 99_999 for number in task.data.given)
            value = Fraction(task.gold[0])
            assert abs(value) < 10**9 and 1000 % value.denominator == 0
    source = ArithmeticSource()
    assert [source.size(split) for split in SPLITS] == [1000, 200, 2000]


@pytest.mark.parametrize(
    ("split", "negative", "decimals", "division", "brackets"),
    [("train", 0.37, 0.09, 0.17, 0.65), ("test", 0.44, 0.13, 0.26, 0.83)],
)
def test_what_was_measured_of_the_released_description(split, negative, decimals, division, brackets):
    rows = tasks(split, train_words=0.0, test_words=0.0)
    for portion, hit in (
        (negative, lambda task: task.gold[0].startswith("-")),
        (decimals, lambda task: "." in task.gold[0]),
        (division, lambda task: "/" in task.hidden.steps[0]),
        (brackets, lambda task: "(" in task.hidden.steps[0]),
    ):
        assert sum(map(hit, rows)) / len(rows) == pytest.approx(portion, abs=0.05)


def test_lengths_of_operands_are_uniform():
    """No sum of small numbers is rejected for its value, so the draws show as they are; one of them settles the bucket."""
    source = ArithmeticSource(digits=2, train_operations=1, train_words=0.0)
    rows = [task.data.given for task in (source.get("train", index) for index in range(4000)) if "+" in task.question]
    for place in (0, 1):
        assert_portion(sum(len(row[place]) == 1 for row in rows), len(rows), 0.5, spread=5)


def test_splits_share_no_content():
    contents = [{tuple(sorted(task.data.given, key=int)) for task in tasks(split)} for split in SPLITS]
    small = [{tuple(sorted(t.data.given)) for t in tasks(s, digits=1, test_operations=2)} for s in ("dev", "test")]
    assert contents[1].isdisjoint(contents[2]) and contents[0].isdisjoint(contents[1] | contents[2])
    assert small[0].isdisjoint(small[1]) and min(map(len, small)) > 20


@pytest.mark.parametrize(("split", "share"), [("train", 0.37), ("test", 0.41)])
def test_released_labels_contradict_the_words_of_operator_worded_items_alone(split, share):
    words = {"train_words": 1.0, "test_words": 1.0}
    rows = tasks(split, "released", **words)
    worded = [task for task in rows if task.data.wording == "operator words"]
    differing = 0
    for task in rows:
        told, flat, _ = arithmetic(task.question, task.data.wording)
        assert task.gold == (number_text(flat),)
        differing += told != flat
        assert task.data.wording == "operator words" or told == flat
    assert differing / len(worded) == pytest.approx(share, abs=0.05)
    for ours, released in zip(tasks(split, **words), rows, strict=True):
        assert ours.data.wording == released.data.wording
        assert ours == released or ours.data.wording == "operator words"


def test_a_released_test_split_holds_one_wrong_label_in_seven():
    wrong = sum(len({*arithmetic(task.question, task.data.wording)[:2]}) > 1 for task in tasks("test", "released"))
    assert wrong / COUNT == pytest.approx(0.14, abs=0.025)


def test_all_phrases_come_and_parts_stay_whole():
    worded = [task for task in tasks("test") if task.data.wording == "operator words"]
    for phrase in ("the sum of", "the product of", "reduced by", "divided by the value"):
        assert any(phrase in task.question for task in worded)
    steps = [task.hidden.steps[0] for task in worded]
    assert any(step.count("(") > 1 for step in steps)


def test_a_unit_is_a_number_or_bracketed_as_a_whole():
    add, *_ = OPERATORS
    assert as_unit([7]) == [7]
    assert as_unit([7, add, 8]) == ["(", 7, add, 8, ")"]
    assert as_unit(["(", 7, add, 8, ")"]) == ["(", 7, add, 8, ")"]
    two = ["(", 7, add, 8, ")", add, "(", 7, add, 8, ")"]
    assert as_unit(two) == ["(", *two, ")"]


def test_knobs_at_their_ends():
    for knobs in (
        {"digits": 1, "train_operations": 1},
        {"digits": MOST_DIGITS, "train_operations": 1},
        {"digits": 1, "train_operations": 10},
    ):
        source = ArithmeticSource(train_words=0.5, **knobs)
        for index in range(100):
            task = source.get("train", index)
            told, _, numbers = arithmetic(task.question, task.data.wording)
            assert Fraction(task.gold[0]) == told and len(numbers) == knobs["train_operations"] + 1
    assert {ArithmeticSource(train_words=0).get("train", index).data.wording for index in range(200)} == {"symbols"}


@each_row(
    "knobs",
    [{"digits": 0}, {"digits": 10}, {"digits": True}, {"train_operations": 0}, {"test_operations": 11}, {"test_words": "0.7"},
     {"test_operations": 2.0}, {"train_words": 1.5}, {"labels": "flat"}],
)  # fmt: skip
def test_bad_knobs_name_themselves(knobs):
    with pytest.raises(UsageError, match=f"arithmetic: {next(iter(knobs))}="):
        ArithmeticSource(**knobs)


def test_the_same_tasks_under_every_hash_seed():
    code = (
        "import hashlib; from agent_envs.envs.expa.calculator.arithmetic import ArithmeticSource; s = ArithmeticSource()\n"
        "print(hashlib.sha256(''.join(s.get(k, i).digest for k in s.splits for i in range(40)).encode()).hexdigest())"
    )
    here = "".join(ArithmeticSource().get(split, index).digest for split in SPLITS for index in range(40))
    expected = hashlib.sha256(here.encode()).hexdigest()
    assert printed(code).strip() == expected
