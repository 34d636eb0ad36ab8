"""Prefixes become a batch that is ready to decode: what is kept is loaded, and what rows begin with alike is computed once."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from trainers.batching import in_groups
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
        ids: drawn so far, with `logprobs` and `entropies`.
        finish: why it ended.
        watched: tokens at which it may end.
    """

    prefix: Prefix
    limit: int
    cache: CachedTokens | None
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    finish: str = "length"
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


@dataclass(frozen=True, slots=True)
class PrefilledBatch:
    """A batch whose prefixes are computed.

    Attributes:
        rows: in the order of their slots.
        cache: of the rows; behind each there is room for more.
        logits: of the next token, (rows, vocabulary).
        computed: how many tokens went through the model, padding not counted.
    """

    rows: list[DecodeRow]
    cache: SlotCache
    logits: torch.Tensor
    computed: int


def prefill(model: Any, rows: Sequence[DecodeRow], layers: int, room: int, read: Read | None = None) -> PrefilledBatch:
    """Run the new tokens of all rows through the model, what they begin with alike once, each pass in slots side by side.

    Args:
        model: a causal language model in evaluation mode.
        rows: the batch.
        layers: how many the model has.
        room: columns to leave for tokens that follow; one at least.
        read: runs the model on inputs and returns what stands for the logits of the last tokens, (rows, width); None for these.
    """
    read = read or partial(last_logits, model)
    # Of equal prefixes the one computes that has most of it kept.
    best = {row.prefix.ids: row for row in sorted(rows, key=lambda row: row.cache_length)}
    sources = list(best.values())
    computed = _share(model, read, sources, layers) + sum(len(row.fresh) for row in sources)
    cache = SlotCache(layers, len(rows), max(len(row.prefix.ids) for row in rows) + room)
    ordered, parts = list[DecodeRow](), list[torch.Tensor]()
    for each in _passes(sources):
        parts.append(_pass(model, read, each, cache, len(ordered)))
        ordered += each
    logits = parts[0] if len(parts) == 1 else torch.cat(parts)
    places = {row.prefix.ids: place for place, row in enumerate(ordered)}
    if others := [row for row in rows if row is not best[row.prefix.ids]]:
        at = [places[row.prefix.ids] for row in others]
        cache.take(cache, at, range(len(ordered), len(rows)), max(len(row.prefix.ids) for row in others))
        logits = torch.cat([logits, logits[at]])
    return PrefilledBatch([*ordered, *others], cache, logits, computed)


def last_logits(model: Any, **inputs: Any) -> torch.Tensor:
    """Run a causal language model on a cache and return the logits after the last tokens, (rows, vocabulary)."""
    logits: torch.Tensor = run_cached(model, logits_to_keep=1, **inputs).logits
    return logits[:, -1]


def _share(model: Any, read: Read, rows: Sequence[DecodeRow], layers: int) -> int:
    """Let rows that have nothing kept go on from what they begin with alike; return how many tokens that took."""
    groups = list(_shared_groups(sorted((row for row in rows if not row.cache_length), key=lambda row: row.prefix.ids)))
    beginnings = [DecodeRow(Prefix(group[0].prefix.ids[:length], 0), 0, None) for group, length in groups]
    joint = {id(beginning): group for beginning, (group, _) in zip(beginnings, groups, strict=True)}
    for each in _passes(beginnings):
        cache = SlotCache(layers, len(each), len(each[0].fresh) + 1)
        _pass(model, read, each, cache, 0)
        assert cache.states is not None
        for slot, beginning in enumerate(each):
            ids = beginning.prefix.ids
            for row in joint[id(beginning)]:
                row.cache, row.shared = CachedTokens(ids, cache.states[:, slot, :, : len(ids)]), len(ids)
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


def _passes(sources: list[DecodeRow]) -> Iterator[list[DecodeRow]]:
    """Split rows so that padding, and the tokens of one pass, stay within bounds: longest first."""

    def fits(group: list[DecodeRow], row: DecodeRow) -> bool:
        """Return whether a pass has room for one more row, which is not too short for it."""
        widest = len(group[0].fresh)
        return widest * (len(group) + 1) <= _TOKENS_A_PASS and 2 * len(row.fresh) >= widest - _PADDING

    return in_groups(sorted(sources, key=lambda row: -len(row.fresh)), fits)


def _pass(model: Any, read: Read, rows: list[DecodeRow], cache: SlotCache, first: int) -> torch.Tensor:
    """Load what is kept of rows into slots from `first` on, and run their new tokens; return logits (rows, vocabulary)."""
    count, width = len(rows), len(rows[0].fresh)
    ids = torch.zeros(count, width, dtype=torch.long)
    positions = torch.zeros(count, width, dtype=torch.long)
    columns = torch.tensor(
        [[len(row.prefix.ids)] * width for row in rows]
    )  # of padding: behind the row, where none looks
    for at, row in enumerate(rows):
        padding = width - len(row.fresh)
        if row.cache is not None:
            cache.load(first + at, row.cache.states[:, :, : row.cache_length])
        ids[at, padding:] = torch.tensor(row.fresh)
        positions[at, padding:] = columns[at, padding:] = torch.arange(row.cache_length, len(row.prefix.ids))
    device, stop = model.device, max(len(row.prefix.ids) for row in rows)
    causal = all(len(row.fresh) == len(row.prefix.ids) == width for row in rows)
    positions = positions.to(device)
    cache.aim(slice(first, first + count), columns.to(device), stop)
    ends = torch.arange(width - 1, count * width, width, device=device)
    with only_at(last_mlp(model.get_decoder(), cache.depth), ends):
        return read(
            input_ids=ids.to(device),
            attention_mask=None if causal else causal_mask(positions, stop, compute_type(device, model.dtype)),
            position_ids=positions,
            cache=cache,
        )


def causal_mask(positions: torch.Tensor, stop: int, dtype: torch.dtype) -> torch.Tensor:
    """Return the mask that is added to attention scores of tokens at positions (rows, tokens): (rows, 1, tokens, stop).

    A row's own columns are those up to the position; a padded token, at position 0, attends to the first alone.
    """
    return additive(torch.arange(stop, device=positions.device) <= positions[..., None], dtype).unsqueeze(1)


def additive(visible: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a mask as what is added to scores: 0 where visible, minus infinity elsewhere."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, float("-inf"))
