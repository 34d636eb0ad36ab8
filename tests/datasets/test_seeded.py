"""A source from seeds: random access, ids, refusals, and splits that share no content."""

import copy
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs import Task
from agent_envs.datasets import SPLITS, SeededSource, SeededWorlds, in_split, stream
from tests.rows import each_row


class Sums(SeededSource[Task]):
    """Sums of two numbers."""

    def __init__(self, **more):
        self.builds = []
        super().__init__("two-sums", {"train": 1000, "dev": 5, "test": 50}, **more)

    def build(self, split, index):
        self.builds.append(index)
        draw = stream(self.name, split, index)
        while True:
            numbers = draw.randint(1, 999), draw.randint(1, 999)
            if in_split(split, f"{numbers}"):
                return Task(self.task_id(split, index), split, f"{numbers[0]} + {numbers[1]}?", (str(sum(numbers)),))


class Bounded(Sums):
    """Sums that end with their split."""

    bounded = True


class Evens(Sums):
    """Sums of even indices only, asked for by their place."""

    def index_at(self, split, place):
        return 2 * place

    def index_in(self, split, task_id):
        index = super().index_in(split, task_id)
        return -1 if index % 2 else index


class Rooms(SeededWorlds[Task]):
    """Up to three things in each room; every second room has two."""

    def __init__(self):
        super().__init__("rooms", {"train": 4, "test": 2}, 3)

    def tasks(self, split, world):
        return [Task(f"rooms-{split}-{world}-{item}", split, f"{world}.{item}?") for item in range(3 - world % 2)]


def test_index_and_id_name_the_same_task_whatever_was_asked_before():
    source = Sums()
    assert source.splits == SPLITS and source.digest == "" and [source.size(split) for split in SPLITS] == [1000, 5, 50]
    for split in SPLITS:
        for index in (0, 5, 999, 10**6, 10**18 - 1):
            task = source.get(split, index)
            assert task.id == f"two-sums-{split}-{index}" and task.split == split
            assert task == source.get(split, task.id) == Sums().get(split, np.uint64(index))


BAD = (
    [-1, True, False, 10**18, 10**5_000, 1.0, None, "", "0", "-0", "two-sums", "two-sums-dev", "two-sums-dev-"]
    + [
        "two-sums-dev-00",
        "two-sums-dev-01",
        "two-sums-dev--1",
        "two-sums-dev-+1",
        "two-sums-dev-1 ",
        "two-sums-dev-1_0",
    ]
    + ["two-sums-dev-1.0", "two-sums-dev-٣", "two-sums-dev-²", "two-sums-dev-1\n", "two-sums-test-1", "sums-dev-1"]
    + ["two-sums-dev-" + "9" * 19, "two-sums-dev-" + "9" * 9_999, "two-sums-dev-0-0", "two-sums-dev-1-w1"]
)


@each_row("key", BAD)
def test_other_keys_are_key_errors_with_short_words(key):
    for source in (Sums(), Bounded(), Evens()):
        with pytest.raises(KeyError):
            source.get("dev", key)
    if not isinstance(key, str):
        with pytest.raises(KeyError) as caught:
            Sums().get("dev", key)
        assert len(str(caught.value)) < 60


@pytest.mark.parametrize("source", [Sums(), Rooms()], ids=["sums", "rooms"])
def test_unknown_splits_are_key_errors(source):
    for key in (0, f"{source.name}-valid-0", f"{source.name}-valid-0-0"):
        with pytest.raises(KeyError):
            source.get("valid", key)
    with pytest.raises(KeyError):
        source.size("valid")


@given(st.text(max_size=30) | st.from_regex(r"two-sums-(dev|test)-[0-9-]{0,21}", fullmatch=True))
def test_any_text_is_an_id_or_a_key_error(key):
    numeral = re.fullmatch(r"two-sums-test-(0|[1-9][0-9]{0,17})", key)
    try:
        assert Sums().get("test", key).id == key and numeral
    except KeyError:
        assert not numeral


def test_splits_share_no_content():
    assert all(sum(in_split(split, text) for split in SPLITS) == 1 for text in map(str, range(300)))
    asked = Counter(
        question for split in SPLITS for question in {Sums().get(split, index).question for index in range(2_000)}
    )
    assert set(asked.values()) == {1}


def test_streams_go_by_their_whole_name():
    draws = {
        stream(*parts).random() for parts in (("a", "train", 1), ("a", "train", 2), ("a", "test", 1), ("b", "train", 1))
    }
    assert len(draws) == 4 and stream("a", "train", 1).random() in draws


def test_a_bounded_source_ends_with_its_split():
    source = Bounded()
    assert source.get("dev", 4).id == "two-sums-dev-4"
    for key in (5, "two-sums-dev-5"):
        with pytest.raises(KeyError):
            source.get("dev", key)


def test_a_source_may_leave_indices_out():
    source = Evens()
    assert source.get("dev", 3).id == "two-sums-dev-6" == source.get("dev", "two-sums-dev-6").id
    with pytest.raises(KeyError):
        source.get("dev", "two-sums-dev-3")


def test_tasks_are_kept_where_that_is_asked_for():
    source = Sums(cache_size=2)
    assert source.get("dev", 1) is source.get("dev", "two-sums-dev-1") and source.builds == [1]
    for index in (2, 3, 1):
        source.get("dev", index)
    assert source.builds == [1, 2, 3, 1]
    assert copy.deepcopy(source) is source


def test_worlds_are_spread_and_go_on():
    source = Rooms()
    assert [source.size(split) for split in source.splits] == [12, 6]
    ids = [source.get("train", index).id.removeprefix("rooms-train-") for index in range(14)]
    assert ids == ["0-0", "1-0", "2-0", "3-0", "0-1", "1-1", "2-1", "3-1", "0-2", "1-0", "2-2", "3-0", "4-0", "5-0"]
    assert all(source.get("train", f"rooms-train-{name}").id == f"rooms-train-{name}" for name in ids)
    for name in ("1-2", "0-3", "0", "", "0-", "-0", "00-0", "0-00", "0-0-0", "0--1", "٣-0", "1" * 19 + "-0"):
        with pytest.raises(KeyError):
            source.get("train", f"rooms-train-{name}")
    for key in (-1, True, 10**18, "rooms-test-0-0", "0-0"):
        with pytest.raises(KeyError):
            source.get("train", key)
