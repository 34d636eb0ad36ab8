"""The task sources of sorting and ordering."""

from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import decode_state, encode_state
from agent_envs.core.trajectory import Task
from agent_envs.envs.expa.sorting.environments import SYMBOLS
from agent_envs.envs.expa.sorting.knowledge import consistent
from agent_envs.envs.expa.sorting.tasks import OrderSource, SortSource, labels
from tests.examples import examples


def tasks(source, split, count, start=0):
    return [source.get(split, index) for index in range(start, start + count)]


def told(relation):
    """The pair (less, more) of a relation's text."""
    one, sign, other = relation
    pair = (SYMBOLS.index(one), SYMBOLS.index(other))
    return pair if sign == "<" else pair[::-1]


def test_the_papers_sets():
    sort, order = SortSource(), OrderSource()
    assert [sort.size(split) for split in sort.splits] == [80_000, 200, 2_000]
    assert [order.size(split) for split in order.splits] == [20_000, 200, 2_000]
    assert Counter(task.data.size for task in tasks(sort, "train", 1000)) == {2: 100, 3: 200, 4: 300, 5: 400}
    for split in ("dev", "test"):
        assert Counter(task.data.size for task in tasks(sort, split, 200)) == {4: 100, 5: 100}
        mixed = Counter((task.data.kind, task.data.size) for task in tasks(order, split, 200))
        assert mixed == {("order", 2): 60, ("order", 3): 60, ("order", 4): 40, ("order", 5): 40}
    mixed = Counter((task.data.kind, task.data.size) for task in tasks(order, "train", 2000))
    assert mixed == {("order", 2): 570, ("order", 3): 570, ("order", 4): 380, ("order", 5): 380, ("compare", 2): 100}


def test_first_tasks_hold_the_shares_too():
    for count in range(10, 60, 7):
        sizes = Counter(task.data.size for task in tasks(SortSource(), "train", count))
        assert all(abs(sizes[size] - count * (size - 1) / 10) <= 1.5 for size in (2, 3, 4, 5))


@pytest.mark.parametrize("make", [SortSource, OrderSource])
def test_random_access_ids_and_state(make):
    source = make()
    for split in source.splits:
        task = source.get(split, 4711)
        assert task == make().get(split, f"{source.name}-{split}-4711") and task.id == f"{source.name}-{split}-4711"
        assert decode_state(encode_state(task)) == task and isinstance(task, Task)
    every = {task.id for split in source.splits for task in tasks(source, split, 50)}
    assert len(every) == 150
    for wrong in (("train", -1), ("nope", 0), ("train", f"{source.name}-test-1"), ("train", f"{source.name}-train-01")):
        with pytest.raises(KeyError):
            source.get(*wrong)


def test_one_task_for_ever():
    task = SortSource().get("test", 7)
    assert (task.hidden, task.data.descending, task.gold) == ((3, 4, 2, 1, 0), True, ("B, A, C, D, E",))
    task = OrderSource().get("test", 7)
    assert task.hidden == (3, 4, 2, 0, 1) and task.gold == ("D, E, C, A, B",)
    assert task.data.relations == ("C<A", "D<E", "C>E", "A<B")


@pytest.mark.parametrize("make", [SortSource, OrderSource])
def test_golds_sort_the_hidden_values(make):
    for task in tasks(make(), "train", 400) + tasks(make(size=8), "test", 50):
        (gold,) = task.gold
        if task.data.kind == "compare":
            assert gold == ("A < B" if task.hidden[0] < task.hidden[1] else "A > B")
            continue
        symbols = gold.split(", ")
        values = [task.hidden[SYMBOLS.index(symbol)] for symbol in symbols]
        assert values == sorted(range(task.data.size), reverse=task.data.descending)
        assert sorted(symbols) == list(SYMBOLS[: task.data.size])


def test_permutations_and_directions_are_even():
    found = tasks(SortSource(size=4), "train", 12_000)
    counts = Counter(task.hidden for task in found)
    assert set(counts) == set(permutations(range(4))) and all(400 < count < 600 for count in counts.values())
    assert 5_700 < sum(task.data.descending for task in found) < 6_300


def test_what_a_sorting_task_shows_hangs_on_its_size_and_direction_alone():
    shown = {}
    for task in tasks(SortSource(), "test", 400):
        public = (task.question, task.data)
        assert shown.setdefault((task.data.size, task.data.descending), public) == public
    assert len(shown) == 4


def test_order_tasks_are_never_in_order_and_their_relations_tell_it():
    for task in tasks(OrderSource(), "train", 600) + tasks(OrderSource(size=7), "train", 60):
        data = task.data
        if data.kind == "compare":
            assert data.relations == () and data.size == 2 and not data.descending
            continue
        assert task.gold[0] != ", ".join(SYMBOLS[: data.size])
        pairs = [told(relation) for relation in data.relations]
        assert all(task.hidden[less] < task.hidden[more] for less, more in pairs)
        assert len(consistent(data.size, pairs)) == 1
        assert len(set(pairs)) == len(pairs) and 0 <= len(pairs) - (data.size - 1) <= data.size - 2


def test_relations_vary_in_number_place_and_writing():
    found = [task.data.relations for task in tasks(OrderSource(size=5), "train", 2_000)]
    extra = Counter(len(relations) - 4 for relations in found)
    assert set(extra) == {0, 1, 2, 3} and all(400 < count < 600 for count in extra.values())
    signs = Counter(sign for relations in found for _, sign, _ in relations)
    assert 0.9 < signs["<"] / signs[">"] < 1.1
    firsts = Counter(told(relations[0]) for relations in found)
    assert len(firsts) == 20 and max(firsts.values()) < 160


@pytest.mark.parametrize("directions", ["ascending", "descending"])
def test_a_direction_can_be_chosen_and_changes_nothing_else(directions):
    both = SortSource()
    for index in range(60):
        task = SortSource(directions=directions).get("test", index)
        assert task.data.descending == (directions == "descending")
        assert task.hidden == both.get("test", index).hidden


@given(st.integers(2, 8), st.sampled_from([SortSource, OrderSource]), st.integers(0, 10**12))
@examples(60)
def test_a_single_size(size, make, index):
    source = make(size=size)
    assert source.items == size
    for split in source.splits:
        assert source.get(split, index).data.size == size and source.get(split, index).data.kind != "compare"


def test_a_share_of_comparing_tasks_of_ones_own():
    assert {task.data.kind for task in tasks(OrderSource(compare_percent=0), "train", 200)} == {"order"}
    assert {task.data.kind for task in tasks(OrderSource(compare_percent=100), "train", 20)} == {"compare"}
    assert SortSource().items == 5


def test_equal_problems_are_one_cluster():
    found = tasks(SortSource(size=3), "test", 400)
    contents = {(task.hidden, task.data.descending) for task in found}
    assert len(contents) == 12 == len({task.cluster for task in found})
    assert len({(task.hidden, task.data.descending, task.cluster) for task in found}) == 12


def test_labels():
    for task in tasks(SortSource(), "test", 100):
        found = labels(task)
        assert found["task"] == "sort" and found["size"] == str(task.data.size)
        assert found["direction"] == ("descending" if task.data.descending else "ascending")
        order = sorted(range(task.data.size), key=lambda symbol: task.hidden[symbol], reverse=task.data.descending)
        assert (found[f"least swaps of {task.data.size} items"] == "0") == (order == sorted(order))
    compared = next(task for task in tasks(OrderSource(), "train", 100) if task.data.kind == "compare")
    assert labels(compared) == {"task": "compare", "size": "2"}


@pytest.mark.parametrize(
    ("make", "knobs", "words"),
    [
        (SortSource, {"size": 9}, "sort: size=9; give a whole number from 2 to 8"),
        (SortSource, {"size": True}, "size=True"),
        (OrderSource, {"size": 1}, "order: size=1"),
        (SortSource, {"directions": "up"}, "sort: directions='up'; give one of both, ascending, descending"),
        (OrderSource, {"compare_percent": 101}, "compare_percent=101"),
    ],
)
def test_knobs_out_of_range(make, knobs, words):
    with pytest.raises(UsageError, match=words):
        make(**knobs)
