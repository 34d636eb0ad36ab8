"""Rows of tokens into padded micro-batches of bounded size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import torch

from agent_envs.errors import UsageError
from trainers.contracts import TokenSequence


@dataclass(frozen=True, slots=True)
class Row:
    """A token sequence with what its update needs.

    Attributes:
        sequence: the tokens.
        advantages: one a token; 0 where not trained.
        reference_logprobs: of trained tokens under the reference model, one a token; empty where there is none.
    """

    sequence: TokenSequence
    advantages: tuple[float, ...]
    reference_logprobs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Rows padded on the right to one length. Position t of every tensor tells of token t itself, not of the next.

    Attributes:
        ids: token ids.
        attention: 1 at tokens, 0 at padding.
        trained: which tokens carry a gradient.
        old_logprobs: of trained tokens under the policy that sampled them.
        advantages: of trained tokens.
        reference_logprobs: of trained tokens under the reference model; 0 where the rows have none.
        turns: the turn (from 1) that a trained token belongs to; 0 elsewhere.
        rows: the index of each row among those given to `micro_batches`.
    """

    ids: torch.Tensor  # (batch, tokens)
    attention: torch.Tensor  # (batch, tokens)
    trained: torch.Tensor  # (batch, tokens)
    old_logprobs: torch.Tensor  # (batch, tokens)
    advantages: torch.Tensor  # (batch, tokens)
    reference_logprobs: torch.Tensor  # (batch, tokens)
    turns: torch.Tensor  # (batch, tokens)
    rows: tuple[int, ...]

    def to(self, device: torch.device | str) -> "MicroBatch":
        """Return the same micro-batch on a device."""
        tensors = {field.name: getattr(self, field.name).to(device) for field in fields(self) if field.name != "rows"}
        return MicroBatch(**tensors, rows=self.rows)


def micro_batches(rows: Sequence[Row], token_budget: int, pad_id: int) -> Iterator[MicroBatch]:
    """Yield every row in exactly one micro-batch, the longest rows first.

    Rows of like length go together, so little is padded, and a budget that does not fit the memory fails at once.

    Args:
        rows: what to train on.
        token_budget: the most tokens in a micro-batch, padding included; a row longer than that goes alone.
        pad_id: the token that fills up short rows.

    Raises:
        UsageError: a row's tuples do not fit together, or only some rows have reference logprobs.
    """
    if token_budget < 1:
        raise UsageError(f"token_budget={token_budget}: a micro-batch needs room for at least 1 token")
    for index, row in enumerate(rows):
        _check(index, row, with_reference=bool(rows[0].reference_logprobs))
    order = sorted(range(len(rows)), key=lambda index: (-len(rows[index].sequence.ids), index))
    start = 0
    while start < len(order):
        longest = len(rows[order[start]].sequence.ids)
        count = max(1, token_budget // longest)
        chosen = order[start : start + count]
        yield _padded([rows[index] for index in chosen], tuple(chosen), pad_id)
        start += count


def _check(index: int, row: Row, with_reference: bool) -> None:
    sequence = row.sequence
    length = len(sequence.ids)
    if length == 0:
        raise UsageError(f"row {index} has no tokens")
    if bool(row.reference_logprobs) != with_reference:
        raise UsageError(f"row {index}: reference_logprobs must be given for all rows or for none")
    columns: list[tuple[float, ...]] = [sequence.trained, sequence.logprobs, sequence.turns, row.advantages]
    columns += [row.reference_logprobs] if with_reference else []
    if any(len(column) != length for column in columns):
        raise UsageError(f"row {index}: its {length} ids need as many entries in trained, logprobs, turns, advantages")
    if sequence.trained[0]:
        raise UsageError(f"row {index}: the first token cannot be trained, nothing predicts it")
    if any(advantage != 0 and not kept for advantage, kept in zip(row.advantages, sequence.trained, strict=True)):
        raise UsageError(f"row {index}: a token that is not trained has an advantage")


def _padded(rows: list[Row], indices: tuple[int, ...], pad_id: int) -> MicroBatch:
    length = len(rows[0].sequence.ids)
    sequences = [row.sequence for row in rows]

    def column(values: list[tuple[float, ...]], fill: float, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor([(*value, *[fill] * (length - len(value))) for value in values], dtype=dtype)

    return MicroBatch(
        ids=column([sequence.ids for sequence in sequences], pad_id, torch.long),
        attention=column([(1,) * len(sequence.ids) for sequence in sequences], 0, torch.long),
        trained=column([sequence.trained for sequence in sequences], False, torch.bool),
        old_logprobs=column([sequence.logprobs for sequence in sequences], 0.0, torch.float32),
        advantages=column([row.advantages for row in rows], 0.0, torch.float32),
        reference_logprobs=column([row.reference_logprobs for row in rows], 0.0, torch.float32),
        turns=column([sequence.turns for sequence in sequences], 0, torch.long),
        rows=indices,
    )
