from collections import Counter

import pytest

from agent_envs.core.trajectory import Task
from agent_envs.datasets.seeded import SPLITS, SeededSource
from agent_envs.envs.expa.calculator.arithmetic import ArithmeticSource
from agent_envs.envs.expa.calculator.count import CountSource
from agent_envs.envs.expa.calculator.countdown import CountdownSource
from agent_envs.envs.expa.calculator.word_problems import TABLE_3, CalcBenchSource
from agent_envs.envs.expa.generated import CalcData, Derivation, split_sizes
from tests.rows import each_row


class Doubling(SeededSource):
    """A fourth member in a few lines, as a family of the user's own would be."""

    def __init__(self):
        super().__init__("gsm8k_scaled", split_sizes("gsm8k_scaled"))

    def build(self, split, index):
        task_id = self.task_id(split, index)
        data = CalcData("gsm8k_scaled", (str(index),), size=1)
        answer = str(2 * index)
        return Task(task_id, split, f"Twice {index}?", (answer,), task_id, data, Derivation((f"{index}*2",), answer))


class Published:
    """A member of five tasks a split and no more, with outside data."""

    name = "published"
    digest = "abc"

    def size(self, split):
        return 5

    def get(self, split, key):
        index = int(key.removeprefix(f"published-{split}-")) if isinstance(key, str) else key
        if index not in range(5):
            raise KeyError(key)
        return Task(f"published-{split}-{index}", split, f"{index}?")


def mixture(**changes):
    members = {
        "arithmetic": ArithmeticSource(),
        "countdown": CountdownSource(),
        "gsm8k_scaled": Doubling(),
        "count": CountSource(),
    }
    return CalcBenchSource(members | changes)


def test_sizes_of_table_3():
    source = mixture()
    assert [source.size(split) for split in SPLITS] == [27_317, 658, 6579]
    assert source.splits == SPLITS and source.digest == "" and source.name == "calcbench"


@pytest.mark.parametrize("split", SPLITS)
def test_a_block_holds_each_member_s_tasks_once(split):
    source = mixture()
    size = source.size(split)
    for block in (0, 1):
        places = [source.place(split, block * size + index) for index in range(size)]
        assert len(set(places)) == size
        for name, share in TABLE_3[split].items():
            assert sorted(i for member, i in places if member == name) == list(
                range(block * share, (block + 1) * share)
            )


@pytest.mark.parametrize("split", SPLITS)
def test_the_first_tasks_hold_about_the_mixture_s_shares(split):
    source = mixture()
    size = source.size(split)
    seen = Counter()
    for index in range(size):
        seen[source.place(split, index)[0]] += 1
        for name, share in TABLE_3[split].items():
            # Random order would be off by up to 30 among the first thousand.
            assert abs(seen[name] - (index + 1) * share / size) < (3 if index < 1000 else 8)


def test_tasks_are_the_members_own():
    source = mixture()
    members = {
        "arithmetic": ArithmeticSource(),
        "countdown": CountdownSource(),
        "gsm8k_scaled": Doubling(),
        "count": CountSource(),
    }
    for split in SPLITS:
        for index in (*range(40), 10**7):
            name, place = source.place(split, index)
            task = source.get(split, index)
            assert task == members[name].get(split, place) == mixture().get(split, index) == source.get(split, task.id)
            assert task.data.kind == name and task.id == f"{name}-{split}-{place}"


@each_row("key", [-1, True, "", "calcbench-train-3", "countdown-dev-3", "count-train-x", "sudoku-train-1", "3"])
def test_bad_keys(key):
    with pytest.raises(KeyError):
        mixture().get("train", key)
    with pytest.raises(KeyError):
        mixture().get("validation", 0)


def test_a_member_that_ends_begins_again_and_its_data_count():
    sizes = {split: {"count": 3, "published": 8} for split in SPLITS}
    source = CalcBenchSource({"count": CountSource(), "published": Published()}, sizes)
    ids = Counter(source.get("dev", index).id for index in range(3 * 11))
    assert sorted(times for name, times in ids.items() if name.startswith("published")) == [4, 5, 5, 5, 5]
    assert len([name for name in ids if name.startswith("count")]) == 9
    assert source.digest and source.get("dev", "published-dev-2").question == "2?"
    assert source.digest != CalcBenchSource({"count": Published(), "published": CountSource()}, sizes).digest


def test_names_that_begin_alike():
    class Longer(Doubling):
        def __init__(self):
            SeededSource.__init__(self, "count-twice", {"train": 10, "dev": 1, "test": 10})

    source = CalcBenchSource({"a": CountSource(), "b": Longer()}, {split: {"a": 1, "b": 1} for split in SPLITS})
    for index in range(8):
        task = source.get("test", index)
        assert source.get("test", task.id) == task


@pytest.mark.parametrize("shares", [(1, 0), (1, 1), (2, 1), (0, 7), (5, 100), (64, 64)])
def test_any_sizes(shares):
    sizes = {split: dict(zip("ab", shares, strict=True)) for split in SPLITS}
    source = CalcBenchSource({"a": CountSource(), "b": Doubling()}, sizes)
    places = {source.place("train", index) for index in range(3 * sum(shares))}
    assert places == {(name, i) for name, share in zip("ab", shares, strict=True) for i in range(3 * share)}
