"""Rows of tokens are put into padded micro-batches of bounded size."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, pairwise
from typing import TypeVar

import torch

from agent_envs.base.errors import UsageError
from trainers.contracts import TokenSequence, common_beginning

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TrainRow:
    """A token sequence with what its update needs.

    Attributes:
        sequence: the tokens.
        advantages: one a token; 0 where not trained.
        reference_logprobs: of trained tokens under the reference model, one a token; empty where there is none.
        more: further columns by name, such as returns and values, one entry a token; every row has the same names.
    """

    sequence: TokenSequence
    advantages: tuple[float, ...]
    reference_logprobs: tuple[float, ...] = ()
    more: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


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
        targets: what was chosen at each token: the token itself, but at expanded actions, whose ids are beyond the vocabulary.
        legal: which expanded actions were legal at a trained token, `end` first, which stands for the vocabulary as well;
            without expanded actions there are none.
        rows: the index of each row among those given to `micro_batches`.
        more: the rows' further columns by name, float32, 0 at padding.
    """

    ids: torch.Tensor  # (batch, tokens)
    attention: torch.Tensor  # (batch, tokens)
    trained: torch.Tensor  # (batch, tokens)
    old_logprobs: torch.Tensor  # (batch, tokens)
    advantages: torch.Tensor  # (batch, tokens)
    reference_logprobs: torch.Tensor  # (batch, tokens)
    turns: torch.Tensor  # (batch, tokens)
    targets: torch.Tensor  # (batch, tokens)
    legal: torch.Tensor  # (batch, tokens, actions)
    rows: tuple[int, ...]
    more: Mapping[str, torch.Tensor] = field(default_factory=dict)  # each (batch, tokens)

    def to(self, device: torch.device | str) -> "MicroBatch":
        """Return the same micro-batch on a device."""
        values = {column.name: getattr(self, column.name) for column in fields(self)}
        tensors = {name: value.to(device) for name, value in values.items() if isinstance(value, torch.Tensor)}
        return replace(self, **tensors, more={name: value.to(device) for name, value in self.more.items()})


def micro_batches(
    rows: Sequence[TrainRow], token_budget: int, pad_id: int, *, laid_out: float = 1.0
) -> Iterator[MicroBatch]:
    """Yield each row in one micro-batch with like ones, within the budget, longest first; UsageError for malformed rows.

    Rows of like length go together, so little is padded, and a budget that does not fit the memory fails at once. Where
    tokens that rows begin with alike are computed once, rows go together that share them: of one prompt, or siblings of a
    tree, whatever leaves the least to compute.

    Args:
        rows: what to train on.
        token_budget: the most tokens in a micro-batch; a row longer than that goes alone.
        pad_id: the token that fills up short rows.
        laid_out: how much of a token counts where it is padding, or the copy of one that another row begins with; 1 where a
            model computes these like any other. `training.forward.laid_out` knows.

    Raises:
        UsageError: a row's tuples do not fit together, or only some rows have reference logprobs or a further column.
    """
    if token_budget < 1:
        raise UsageError(f"token_budget={token_budget}: a micro-batch needs room for at least 1 token")
    for index, row in enumerate(rows):
        _check(index, row, rows[0])
    orders = [_order(rows)]
    if laid_out < 1:
        orders.append(sorted(range(len(rows)), key=lambda index: rows[index].sequence.ids))
    layouts = [list(_parts(rows, order, token_budget, laid_out)) for order in orders]
    batches = min(layouts, key=lambda parts: sum(cost for _, cost in parts))
    longest = [max(len(rows[index].sequence.ids) for index in part) for part, _ in batches]
    for place in sorted(range(len(batches)), key=lambda place: -longest[place]):
        part, _ = batches[place]
        yield _pad([rows[index] for index in part], tuple(part), pad_id)


def _parts(
    rows: Sequence[TrainRow], order: Sequence[int], token_budget: int, laid_out: float
) -> Iterator[tuple[list[int], float]]:
    """Cut an order of rows into parts within the budget, a longer row alone; yield each, and the tokens that it counts as."""
    part: list[int] = []
    distinct, longest, cost = 0, 0, 0.0
    for index in order:
        ids = rows[index].sequence.ids
        shared = common_beginning(rows[part[-1]].sequence.ids, ids) if part else 0
        widest = max(longest, len(ids))
        computed = distinct + len(ids) - shared
        total = computed + laid_out * (widest * (len(part) + 1) - computed)
        if part and total > token_budget:
            yield part, cost
            part, computed, widest, total = [], len(ids), len(ids), len(ids)
        part.append(index)
        distinct, longest, cost = computed, widest, total
    if part:
        yield part, cost


def in_groups(items: Iterable[T], fits: Callable[[list[T], T], bool]) -> Iterator[list[T]]:
    """Yield items in their order in groups: a new one begins where `fits(group, item)` says that there is no room."""
    group: list[T] = []
    for item in items:
        if group and not fits(group, item):
            yield group
            group = []
        group.append(item)
    if group:
        yield group


def in_parts(rows: Sequence[TrainRow], count: int) -> list[list[TrainRow]]:
    """Split rows in their order into `count` parts of equal size, up to one row."""
    cuts = [len(rows) * part // count for part in range(count + 1)]
    return [list(rows[start:stop]) for start, stop in pairwise(cuts)]


def _order(rows: Sequence[TrainRow]) -> list[int]:
    """Return the indices of rows, longest first, each beside those that share its prompt where that is worth the padding."""
    lengths = [len(row.sequence.ids) for row in rows]
    families: dict[tuple[int, ...], list[int]] = {}
    for index in sorted(range(len(rows)), key=lambda index: (-lengths[index], index)):
        families.setdefault(_prompt(rows[index].sequence), []).append(index)
    parts: list[list[int]] = []
    for prompt, members in families.items():
        padding = sum(lengths[members[0]] - lengths[index] for index in members)
        together = (len(members) - 1) * len(prompt) > padding
        parts += [members] if together else [[index] for index in members]
    parts.sort(key=lambda part: (-lengths[part[0]], part[0]))
    return [index for part in parts for index in part]


def _prompt(sequence: TokenSequence) -> tuple[int, ...]:
    """Return the tokens before the first trained one, or all where none is trained."""
    return sequence.ids[: sequence.trained.index(True)] if True in sequence.trained else sequence.ids


def _check(index: int, row: TrainRow, first: TrainRow) -> None:
    """Raise UsageError if a row is empty, its columns do not fit, or an untrained or the first token is to be trained."""
    sequence = row.sequence
    length = len(sequence.ids)
    if length == 0:
        raise UsageError(f"row {index} has no tokens")
    if bool(row.reference_logprobs) != bool(first.reference_logprobs) or row.more.keys() != first.more.keys():
        names = ", ".join(["reference_logprobs", *sorted(row.more.keys() | first.more.keys())])
        raise UsageError(f"row {index}: {names} must be given for all rows or for none")
    columns: list[tuple[float, ...]] = [sequence.trained, sequence.logprobs, sequence.turns, row.advantages]
    columns += [*row.more.values(), *filter(None, (row.reference_logprobs, sequence.targets))]
    if any(len(column) != length for column in columns):
        raise UsageError(f"row {index}: its {length} ids need as many entries in trained, logprobs, turns, advantages")
    if len(sequence.legal) not in (0, length) or bool(sequence.legal) != bool(sequence.targets):
        raise UsageError(f"row {index}: targets and legal actions go together, one entry a token")
    if sequence.trained[0]:
        raise UsageError(f"row {index}: the first token cannot be trained, nothing predicts it")
    if any(advantage != 0 and not trained for advantage, trained in zip(row.advantages, sequence.trained, strict=True)):
        raise UsageError(f"row {index}: a token that is not trained has an advantage")


def _pad(rows: list[TrainRow], indices: tuple[int, ...], pad_id: int) -> MicroBatch:
    """Put the rows of one micro-batch into tensors, padded on the right to the longest row."""
    sequences = [row.sequence for row in rows]
    length = max(len(sequence.ids) for sequence in sequences)

    def column(values: list[tuple[float, ...]], fill: float, dtype: torch.dtype) -> torch.Tensor:
        """Return values as a tensor, each padded to the common length."""
        return torch.tensor([(*value, *[fill] * (length - len(value))) for value in values], dtype=dtype)

    return MicroBatch(
        ids=column([sequence.ids for sequence in sequences], pad_id, torch.long),
        attention=column([(1,) * len(sequence.ids) for sequence in sequences], 0, torch.long),
        trained=column([sequence.trained for sequence in sequences], False, torch.bool),
        old_logprobs=column([sequence.logprobs for sequence in sequences], 0.0, torch.float32),
        advantages=column([row.advantages for row in rows], 0.0, torch.float32),
        reference_logprobs=column([row.reference_logprobs for row in rows], 0.0, torch.float32),
        turns=column([sequence.turns for sequence in sequences], 0, torch.long),
        targets=column([sequence.targets or sequence.ids for sequence in sequences], pad_id, torch.long),
        legal=_legal(sequences, length),
        rows=indices,
        more={name: column([row.more[name] for row in rows], 0.0, torch.float32) for name in rows[0].more},
    )


def _legal(sequences: Sequence[TokenSequence], length: int) -> torch.Tensor:
    """Return the mask of legal expanded actions, (rows, tokens, actions): as many as any row knows."""
    numbers = [number for sequence in sequences for number in set(chain.from_iterable(set(sequence.legal)))]
    table = torch.zeros(len(sequences), length, max(numbers, default=-1) + 1, dtype=torch.bool)
    places: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for row, sequence in enumerate(sequences):
        for place, legal in enumerate(sequence.legal):
            if legal:
                places.setdefault(legal, []).append((row, place))
    for legal, cells in places.items():  # few sets, many places
        rows, columns = torch.tensor(cells).T
        for number in legal:
            table[rows, columns, number] = True
    return table
