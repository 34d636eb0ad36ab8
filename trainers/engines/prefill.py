"""Prefixes become a batch that is ready to decode: what is kept is loaded, and what rows begin with alike is computed once."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from trainers.contracts import Prefix, common_beginning
from trainers.engines.kv_cache import CachedTokens, SlotCache, compute_type, last_mlp, only_at, run_cached

Read = Callable[..., torch.Tensor]
_TOKENS_A_PASS = 16_384  # bounds activations, and the mask of a pass
_WORTH_A_PASS = 128  # tokens that a pass of its own for a common beginning must save
_PADDING = 32  # rows whose new tokens differ by less share a pass, though one is twice as long


@dataclass(slots=True)
class DecodeRow:
    """A prefix and its continuation so far.

    Attributes:
        prefix: what it goes on from.
        limit: how many tokens may follow.
        cache: begins as the prefix does; None where all of the prefix is new.
        shared: how many tokens the two begin with alike.
        ids: drawn so far; `logprobs` and `entropies` follow in batches.
        finish: why it ended.
        old: where its kept tokens lie in the batch: columns from, to.
        new: the first column of its new tokens; they run to the end of the prefix, and drawn ones follow.
        output: the first column of drawn tokens.
        watched: tokens at which it may end.
    """

    prefix: Prefix
    limit: int
    cache: CachedTokens | None
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    finish: str = "length"
    old: tuple[int, int] = (0, 0)
    new: int = 0
    output: int = 0
    watched: frozenset[int] = frozenset()
    shared: int = 0

    @property
    def cache_length(self) -> int:
        """The number of tokens that need no pass: one is always left, whose logits the first draw needs."""
        return min(self.shared, len(self.prefix.ids) - 1)

    @property
    def fresh(self) -> tuple[int, ...]:
        """The tokens of the prefix that need a pass; drawn ones are none of them."""
        return self.prefix.ids[self.cache_length :]

    def tokens_of(self, states: torch.Tensor, stop: int) -> torch.Tensor:
        """Copy its own columns before `stop` from its part of a batch, (2 * layers, heads, columns, dim)."""
        return torch.cat([states[:, :, self.old[0] : self.old[1]], states[:, :, self.new : stop]], dim=2)


@dataclass(frozen=True, slots=True)
class PrefilledBatch:
    """A batch whose prefixes are computed.

    Attributes:
        states: keys and values, (2 * layers, rows, heads, columns, dim); after the prefixes there is room for more.
        logits: of the next token, (rows, vocabulary).
        valid: which columns of the prefixes hold a row's tokens, (rows, columns) of bool, on the CPU.
        computed: how many tokens went through the model, padding not counted.
    """

    states: torch.Tensor
    logits: torch.Tensor
    valid: torch.Tensor
    computed: int


@dataclass(frozen=True, slots=True)
class _Pass:
    """Rows that go through the model together: their kept tokens end at one column, their new ones at another."""

    sources: list[DecodeRow]
    cache_width: int
    fresh_width: int

    @property
    def width(self) -> int:
        """The columns of the pass: cached tokens and new ones."""
        return self.cache_width + self.fresh_width


def prefill(model: Any, rows: Sequence[DecodeRow], layers: int, room: int, read: Read | None = None) -> PrefilledBatch:
    """Run the new tokens of all rows through the model, what they begin with alike once, and lay the batch out.

    Args:
        model: a causal language model in evaluation mode.
        rows: the batch; each is told which columns are its own.
        layers: how many the model has.
        room: columns to leave for tokens that follow.
        read: runs the model on inputs and returns what stands for the logits of the last tokens, (rows, width); None for these.
    """
    read = read or partial(last_logits, model)
    members: dict[tuple[int, ...], list[int]] = {}
    for index, row in enumerate(rows):
        members.setdefault(row.prefix.ids, []).append(index)
    sources = [max((rows[at] for at in indices), key=lambda row: row.cache_length) for indices in members.values()]
    targets = {id(row): indices for row, indices in zip(sources, members.values(), strict=True)}
    computed = _share(model, read, sources, layers)
    passes = list(_passes(sources))
    computed += sum(len(row.fresh) for row in sources)
    columns = max(each.width for each in passes)
    valid = torch.zeros(len(rows), columns, dtype=torch.bool)
    if len(passes) == 1 and list(map(id, passes[0].sources)) == list(map(id, rows)):
        # The pass is the batch: it writes where the batch goes on, and nothing is copied.
        states, logits = _run(model, read, passes[0], layers, room)
        for index, row in enumerate(rows):
            _place(row, row, passes[0], valid[index])
        return PrefilledBatch(states, logits, valid, computed)
    states = logits = torch.empty(0)
    for each in passes:
        part, part_logits = _run(model, read, each, layers)
        if each is passes[0]:
            shape = (part.shape[0], len(rows), part.shape[2], columns + room, part.shape[4])
            states = part.new_empty(shape)
            logits = part_logits.new_empty(len(rows), part_logits.shape[-1])
        copies = [(at, index) for at, row in enumerate(each.sources) for index in targets[id(row)]]
        source = torch.tensor([at for at, _ in copies], device=states.device)
        target = torch.tensor([index for _, index in copies], device=states.device)
        # Holes must hold numbers: a NaN there would survive its weight of 0.
        states[:, target, :, : columns - each.width] = 0
        states[:, target, :, columns - each.width : columns] = part[:, source]
        logits[target] = part_logits[source]
        for at, index in copies:
            _place(rows[index], each.sources[at], each, valid[index])
    return PrefilledBatch(states, logits, valid, computed)


def last_logits(model: Any, **inputs: Any) -> torch.Tensor:
    """Run a causal language model on a cache and return the logits after the last tokens, (rows, vocabulary)."""
    logits: torch.Tensor = run_cached(model, logits_to_keep=1, **inputs).logits
    return logits[:, -1]


def _share(model: Any, read: Read, rows: Sequence[DecodeRow], layers: int) -> int:
    """Let rows that have nothing kept go on from what they begin with alike; return how many tokens that took."""
    groups = list(_shared_groups(sorted((row for row in rows if not row.cache_length), key=lambda row: row.prefix.ids)))
    beginnings = [DecodeRow(Prefix(group[0].prefix.ids[:length], 0), 0, None) for group, length in groups]
    joint = {id(beginning): group for beginning, (group, _) in zip(beginnings, groups, strict=True)}
    for each in _passes(beginnings) if beginnings else ():
        states, _ = _run(model, read, each, layers)
        for at, beginning in enumerate(each.sources):
            ids = beginning.prefix.ids
            cache = CachedTokens(ids, states[:, at, :, each.width - len(ids) :])
            for row in joint[id(beginning)]:
                row.cache, row.shared = cache, len(ids)
    return sum(len(beginning.prefix.ids) for beginning in beginnings)


def _shared_groups(rows: Sequence[DecodeRow]) -> Iterator[tuple[Sequence[DecodeRow], int]]:
    """Yield groups of sorted rows, and how many tokens each begins with alike: the one that saves most, then what it left."""
    heights = [common_beginning(a.prefix.ids, b.prefix.ids) for a, b in itertools.pairwise(rows)]
    best = (0, 0, 0, 0)  # tokens saved, first row, last row, length
    open_bars: list[tuple[int, int]] = []  # of rising height: the first row, and the height
    for place, height in enumerate([*heights, 0]):
        first = place
        while open_bars and open_bars[-1][1] >= height:
            first, length = open_bars.pop()
            best = max(best, ((place - first) * length, first, place, length))
        open_bars.append((first, height))
    saved, first, last, length = best
    if saved >= _WORTH_A_PASS:
        yield from _shared_groups(rows[:first])
        yield rows[first : last + 1], length
        yield from _shared_groups(rows[last + 1 :])


def _passes(sources: list[DecodeRow]) -> Iterator[_Pass]:
    """Split rows so that padding, and the tokens of one pass, stay within bounds: longest first."""
    group: list[DecodeRow] = []
    for row in sorted(sources, key=lambda row: -len(row.fresh)):
        widest = len(group[0].fresh) if group else 0
        if group and (widest * (len(group) + 1) > _TOKENS_A_PASS or 2 * len(row.fresh) < widest - _PADDING):
            yield _pass_of(group)
            group = []
        group.append(row)
    yield _pass_of(group)


def _pass_of(group: list[DecodeRow]) -> _Pass:
    """Return a pass of rows with as many new tokens as the first; the longest cache sets its columns."""
    return _Pass(group, max(row.cache_length for row in group), len(group[0].fresh))


def _place(row: DecodeRow, source: DecodeRow, each: _Pass, valid: torch.Tensor) -> None:
    """Set the columns of a row's cached and fresh tokens, right-aligned at the border, and mark them as valid."""
    columns = len(valid)
    border = columns - each.fresh_width
    row.old = (border - source.cache_length, border)
    row.new = columns - len(source.fresh)
    valid[row.old[0] : row.old[1]] = True
    valid[row.new :] = True


def _run(model: Any, read: Read, each: _Pass, layers: int, room: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Run one pass of the model; return states (2 * layers, rows, heads, columns + room, dim) and logits (rows, vocabulary)."""
    count, kept_width, fresh_width = len(each.sources), each.cache_width, each.fresh_width
    ids = torch.zeros(count, fresh_width, dtype=torch.long)
    positions = torch.zeros(count, fresh_width, dtype=torch.long)
    valid = torch.zeros(count, each.width, dtype=torch.bool)
    for at, row in enumerate(each.sources):
        fresh, length = row.fresh, row.cache_length
        ids[at, fresh_width - len(fresh) :] = torch.tensor(fresh)
        positions[at, fresh_width - len(fresh) :] = torch.arange(length, length + len(fresh))
        valid[at, kept_width - length : kept_width] = True
        valid[at, each.width - len(fresh) :] = True
    cache = SlotCache(layers, each.width + room, _cache_states(each, room))
    cache.aim(kept_width, each.width)
    device = model.device
    causal = not kept_width and bool(valid.all())
    ends = torch.arange(fresh_width - 1, count * fresh_width, fresh_width, device=device)
    with only_at(last_mlp(model.get_decoder(), layers), ends):
        logits = read(
            input_ids=ids.to(device),
            attention_mask=None
            if causal
            else prefill_mask(valid.to(device), fresh_width, compute_type(device, model.dtype)),
            position_ids=positions.to(device),
            cache=cache,
        )
    assert cache.states is not None
    return cache.states, logits


def _cache_states(each: _Pass, room: int) -> torch.Tensor | None:
    """Return room for a pass with its cached tokens, each row's ending at the same column; None where there are none."""
    cache = next((row.cache for row in each.sources if row.cache), None)
    if cache is None:
        return None
    depth, heads, _, dim = cache.states.shape
    states = cache.states.new_empty(depth, len(each.sources), heads, each.width + room, dim)
    for at, row in enumerate(each.sources):
        start = each.cache_width - row.cache_length
        states[:, at, :, :start] = 0
        if row.cache:
            states[:, at, :, start : each.cache_width] = row.cache.states[:, :, : row.cache_length]
    return states


def prefill_mask(valid: torch.Tensor, fresh_width: int, dtype: torch.dtype) -> torch.Tensor:
    """Return the attention mask of new columns, to be added to scores: (rows, 1, fresh columns, columns).

    A padded column attends to itself alone, so that its keys and values stay numbers.
    """
    columns = torch.arange(valid.shape[1], device=valid.device)
    queries = columns[-fresh_width:, None]
    visible = valid[:, None, :] & (columns <= queries) | (columns == queries)  # (rows, fresh columns, columns)
    return additive(visible, dtype).unsqueeze(1)


def additive(visible: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a mask as what is added to scores: 0 where visible, minus infinity elsewhere."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, float("-inf"))
