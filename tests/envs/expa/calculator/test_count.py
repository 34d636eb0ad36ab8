import hashlib
import re
from collections import Counter
from functools import cache

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.envs.expa.calculator.count import SHAPES, CountSource
from tests.envs.expa.calculator.reading import assert_random_access, number_in_words
from tests.examples import part
from tests.fresh_process import printed

SPLITS = ("train", "dev", "test")
KINDS = ("digits", "symbols")
COUNT = part(3000, 1000)


@cache
def tasks(split, sequences, **knobs):
    source = CountSource(sequences=sequences, **knobs)
    return tuple(source.get(split, index) for index in range(COUNT))


def read(task, sequences):
    """Return the sequence and the item that the question tells, digits as digits and shapes by name, and if in words."""
    if sequences == "digits":
        pattern = r"How many times does the digit (\d) occur in the number (.+) when it is written in digits\?"
        digit, number = re.fullmatch(pattern, task.question).groups()
        in_words = not number.isdigit()
        return (str(number_in_words(number)) if in_words else number), digit, in_words
    pattern = r"How many times does the (word|symbol) (\S+) occur in this sequence: (.+)\?"
    put, item, sequence = re.fullmatch(pattern, task.question).groups()
    if put == "word":
        return tuple(sequence.split(", ")), item, True
    names = {shape: name for name, shape in SHAPES.items()}
    return tuple(names[shape] for shape in sequence.split()), names[item], False


@pytest.mark.parametrize("sequences", KINDS)
def test_random_access(sequences):
    assert_random_access(lambda: CountSource(sequences=sequences))


@pytest.mark.parametrize("sequences", KINDS)
@pytest.mark.parametrize("split", SPLITS)
def test_every_answer_recounted(split, sequences):
    for task in tasks(split, sequences):
        sequence, item, in_words = read(task, sequences)
        count = sum(symbol == item for symbol in sequence)
        assert task.gold == (str(count),) == (task.hidden.answer,) and task.hidden.steps == ()
        assert task.data.given == ((sequence, item) if sequences == "digits" else ())
        assert (task.data.kind, task.data.size) == ("count", len(sequence))
        assert task.data.wording == ("words" if in_words else sequences)


@pytest.mark.parametrize("sequences", KINDS)
def test_ranges_and_portions_of_table_3(sequences):
    for split in SPLITS:
        rows = [read(task, sequences) for task in tasks(split, sequences)]
        assert sum(in_words for *_, in_words in rows) / COUNT == pytest.approx(0.9, abs=0.022)
        lengths = Counter(len(sequence) for sequence, *_ in rows)
        assert set(lengths) == set(range(1, 21))
        assert all(abs(times - COUNT / 20) < 55 for times in lengths.values()), lengths  # 4.6 standard deviations
        items = Counter(item for _, item, _ in rows)
        assert set(items) == (set("0123456789") if sequences == "digits" else set(SHAPES))
        assert all(times == pytest.approx(COUNT / len(items), rel=0.25) for times in items.values())
    source = CountSource(sequences=sequences)
    assert [source.size(split) for split in SPLITS] == [1000, 200, 2000]


def test_numbers_never_begin_with_zero_and_use_all_digits_everywhere():
    numbers = [task.data.given[0] for task in tasks("test", "digits")]
    assert all(number[0] != "0" for number in numbers)
    long = [number for number in numbers if len(number) == 20]
    for place in (1, 10, 11, 19):
        assert len({number[place] for number in long}) == 10


def test_symbol_counts_are_spread():
    counts = Counter(int(task.gold[0]) for task in tasks("test", "symbols"))
    assert len(counts) > 12 and max(counts.values()) < COUNT / 3


@pytest.mark.parametrize("sequences", KINDS)
def test_splits_share_no_question_however_it_is_put(sequences):
    contents = [{read(task, sequences)[:2] for task in tasks(split, sequences)} for split in SPLITS]
    short = [{read(task, sequences)[:2] for task in tasks(split, sequences, length=1)} for split in SPLITS]
    for one, two, three in (contents, short):
        assert one and two and three
        assert one.isdisjoint(two) and one.isdisjoint(three) and two.isdisjoint(three)


def test_knobs():
    assert {task.data.wording for task in tasks("test", "symbols", words=0.0)} == {"symbols"}
    assert {task.data.wording for task in tasks("test", "digits", words=1.0)} == {"words"}
    assert max(task.data.size for task in tasks("test", "digits", length=4)) == 4


@pytest.mark.parametrize(
    "knobs", [{"sequences": "letters"}, {"length": 0}, {"length": 21}, {"words": -0.1}, {"words": True}]
)
def test_bad_knobs_name_themselves(knobs):
    with pytest.raises(UsageError, match=f"count: {next(iter(knobs))}="):
        CountSource(**knobs)


@pytest.mark.parametrize("sequences", KINDS)
def test_the_same_tasks_under_every_hash_seed(sequences):
    code = (
        "import hashlib; from agent_envs.envs.expa.calculator.count import CountSource\n"
        f"s = CountSource(sequences={sequences!r})\n"
        "print(hashlib.sha256(''.join(s.get(k, i).digest for k in s.splits for i in range(40)).encode()).hexdigest())"
    )
    source = CountSource(sequences=sequences)
    here = "".join(source.get(split, index).digest for split in SPLITS for index in range(40))
    expected = hashlib.sha256(here.encode()).hexdigest()
    assert printed(code).strip() == expected
