"""Every row once, little padding, never more than the budget."""

import dataclasses
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from tests.examples import examples
from trainers.batching import TrainRow, micro_batches
from trainers.contracts import TokenSequence

PAD = 7


def row(length, first=10):
    ids = tuple(range(first, first + length))
    return TrainRow(
        TokenSequence(ids, ((False,) + (True,) * length)[:length], (0.0,) * length, (0,) * length), (0.0,) * length
    )


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 100))
def test_every_row_is_in_exactly_one_micro_batch_within_the_budget(lengths, budget):
    batches = list(micro_batches([row(length) for length in lengths], budget, PAD))
    assert sorted(index for batch in batches for index in batch.rows) == list(range(len(lengths)))
    for batch in batches:
        assert batch.ids.numel() <= budget or len(batch.rows) == 1
        for place, index in enumerate(batch.rows):
            length = lengths[index]
            assert batch.ids[place].tolist() == list(range(10, 10 + length)) + [PAD] * (batch.ids.shape[1] - length)
            assert batch.attention[place].tolist() == [1] * length + [0] * (batch.ids.shape[1] - length)
            assert not batch.trained[place, length:].any()


def test_rows_of_like_length_share_a_micro_batch_and_the_longest_come_first():
    batches = list(micro_batches([row(n) for n in (2, 9, 3, 10, 2)], 20, PAD))
    assert [batch.rows for batch in batches] == [(3, 1), (2, 0, 4)]
    assert [tuple(batch.ids.shape) for batch in batches] == [(2, 10), (3, 3)]


def test_tensors_hold_what_the_row_held():
    sequence = TokenSequence((4, 5, 6), (False, True, True), (0.0, -0.5, -1.5), (0, 1, 2))
    (batch,) = micro_batches([TrainRow(sequence, (0.0, 2.0, -1.0), (0.0, -0.25, -1.25)), row(4)][:1], 8, PAD)
    assert batch.trained.tolist() == [[False, True, True]]
    assert batch.old_logprobs.tolist() == [[0.0, -0.5, -1.5]]
    assert batch.advantages.tolist() == [[0.0, 2.0, -1.0]]
    assert batch.reference_logprobs.tolist() == [[0.0, -0.25, -1.25]]
    assert batch.turns.tolist() == [[0, 1, 2]]
    assert (batch.ids.dtype, batch.trained.dtype, batch.advantages.dtype) == (torch.long, torch.bool, torch.float32)


def test_further_columns_go_by_name():
    rows = [
        dataclasses.replace(row(length), more={"returns": (0.5,) * length, "values": (-1.0,) * length})
        for length in (3, 2)
    ]
    (batch,) = micro_batches(rows, 6, pad_id=0)
    assert batch.more["returns"].tolist() == [[0.5] * 3, [0.5, 0.5, 0.0]]
    moved = batch.to("meta")
    assert {name: values.shape for name, values in moved.more.items()} == {"returns": (2, 3), "values": (2, 3)}
    assert moved.more["values"].is_meta and moved.ids.is_meta and moved.rows == batch.rows


def test_without_a_reference_its_logprobs_are_0_of_the_same_shape():
    (batch,) = micro_batches([row(3), row(2)], 8, PAD)
    assert batch.reference_logprobs.tolist() == [[0.0] * 3] * 2
    moved = batch.to("cpu")
    assert moved.rows == batch.rows and torch.equal(moved.turns, batch.turns)


GOOD = row(3)


@pytest.mark.parametrize(
    ("rows", "budget", "says"),
    [
        ([GOOD], 0, "token_budget"),
        ([row(0)], 5, "no tokens"),
        ([dataclasses.replace(GOOD, advantages=(0.0,))], 5, "advantages"),
        ([GOOD, dataclasses.replace(GOOD, reference_logprobs=(0.0,) * 3)], 5, "all rows or for none"),
        (
            [GOOD, dataclasses.replace(GOOD, more={"returns": (0.0,) * 3})],
            5,
            "returns must be given for all rows or for none",
        ),
        ([dataclasses.replace(GOOD, more={"returns": (0.0,) * 2})], 5, "3 ids need as many entries"),
        ([TrainRow(TokenSequence((1, 2), (True, True), (0.0, 0.0), (1, 1)), (0.0, 0.0))], 5, "first token"),
        ([TrainRow(TokenSequence((1, 2), (False, False), (0.0, 0.0), (0, 0)), (0.0, 1.0))], 5, "not trained"),
    ],
)
def test_rows_that_do_not_fit_together_are_refused(rows, budget, says):
    with pytest.raises(UsageError, match=says):
        list(micro_batches(rows, budget, PAD))


def prompted(prompt, length):
    """A row of a prompt of so many tokens, and so many trained ones after it."""
    ids, mask = prompt + tuple(range(length)), (False,) * len(prompt) + (True,) * length
    return TrainRow(TokenSequence(ids, mask, (0.0,) * len(ids), (0,) * len(ids)), (0.0,) * len(ids))


def test_rows_of_one_prompt_go_together_where_that_saves_more_than_it_pads():
    first, second = tuple(range(100, 120)), tuple(range(200, 220))
    rows = [prompted(first, 9), prompted(second, 8), prompted(first, 2), prompted(second, 7)]
    assert [batch.rows for batch in micro_batches(rows, 60, PAD)] == [(0, 2), (1, 3)]
    rows = [prompted(first[:3], 9), prompted(second[:3], 8), prompted(first[:3], 2), prompted(second[:3], 7)]
    assert [batch.rows for batch in micro_batches(rows, 24, PAD)] == [(0, 1), (3, 2)]


def leaves(generator, depth, turn):
    """Rows of a tree whose every node has two children, each turn of so many tokens."""
    contexts = [tuple(generator.randrange(1000) for _ in range(turn))]
    for _ in range(depth):
        contexts = [
            context + tuple(generator.randrange(1000) for _ in range(turn)) for context in contexts for _ in range(2)
        ]
    return [prompted(context, 5) for context in contexts]


def distinct(batch):
    """How many tokens a micro-batch has where those that rows begin with alike count once."""
    rows = [batch.ids[place, : batch.attention[place].sum()].tolist() for place in range(len(batch.rows))]
    return len({tuple(row[:length]) for row in rows for length in range(1, len(row) + 1)})


def test_siblings_of_a_tree_share_a_micro_batch():
    generator = random.Random("tree")
    rows = leaves(generator, 4, 30)
    generator.shuffle(rows)
    total = sum(len(row.sequence.ids) for row in rows)
    computed = 31 * 30 + 16 * 5
    (whole,) = micro_batches(rows, total * 3 // 5, PAD, laid_out=0.2)
    assert distinct(whole) == computed and total > 2 * computed
    halves = list(micro_batches(rows, 800, PAD, laid_out=0.2))
    stems = [{rows[index].sequence.ids[:60] for index in batch.rows} for batch in halves]
    assert sum(map(distinct, halves)) <= computed + 4 * 30 * (len(halves) - 1)  # a border cuts one path
    assert len(halves) > 1 and sum(map(len, stems)) <= 2 + len(halves) - 1  # one subtree is cut at most, at each border
    assert all(len(batch.rows) < 16 for batch in micro_batches(rows, total * 3 // 5, PAD))


def test_a_group_with_a_long_prompt_fills_a_budget_of_distinct_tokens():
    generator = random.Random("group")
    prompt = tuple(generator.randrange(1000) for _ in range(500))
    rows = [prompted(prompt + (number,), 67) for number in range(32)]
    batches = list(micro_batches(rows, 4096, PAD, laid_out=0.2))
    total = sum(len(row.sequence.ids) for row in rows)
    bound = total / (500 + 32 * 68)
    assert total / sum(map(distinct, batches)) > 0.7 * bound
    assert total / sum(map(distinct, micro_batches(rows, 4096, PAD))) < 0.7 * bound


@examples(60)
@given(st.randoms(use_true_random=False), st.integers(1, 300), st.sampled_from([0.0, 0.2, 0.7]))
def test_what_is_laid_out_keeps_to_the_budget(generator, budget, laid_out):
    stems = [tuple(range(start, start + 30)) for start in (0, 100, 100)]
    rows = [
        prompted(
            generator.choice(stems)[: generator.randint(1, 30)] + (generator.randrange(5),), generator.randint(1, 9)
        )
        for _ in range(generator.randint(1, 20))
    ]
    batches = list(micro_batches(rows, budget, PAD, laid_out=laid_out))
    assert sorted(index for batch in batches for index in batch.rows) == list(range(len(rows)))
    for batch in batches:
        computed = distinct(batch)
        assert computed + laid_out * (batch.ids.numel() - computed) <= budget or len(batch.rows) == 1
    widths = [batch.ids.shape[1] for batch in batches]
    assert widths == sorted(widths, reverse=True)
