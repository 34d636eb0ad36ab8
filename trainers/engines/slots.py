"""The decoding loop of rows in slots: a pass reads a token of each, and draws the next.

A slot of a row that ended goes to a row that waits, or is dropped. Ends are looked for every few tokens, from one copy of them,
so that a GPU need not wait for the CPU at each; what a row drew beyond its end is left out. Each row draws from uniforms of its
own, so nothing else depends on its slot or on when it is looked at. A pass has nothing to ask the CPU: its shapes follow from
the number of slots and of columns, which on a GPU come in few sizes, so that it can be captured as a CUDA graph.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.nn import functional

from trainers.contracts import Sampling
from trainers.engines.decode import allowed_table, draw, uniforms
from trainers.engines.kv_cache import CachedTokens, SlotCache
from trainers.engines.prefill import DecodeRow, PrefilledBatch, causal_mask, last_logits

ROOM = 256  # columns at first: rows may end long before their limits
_DROP_SHARE = 8  # ended rows are dropped once they are one in so many
Placed = list[tuple[int, DecodeRow]]  # rows by their slots
_BUCKET = 256  # columns of the smallest size


class Slots:
    """Keys and values of rows in slots. Rows that have ended are dropped.

    Attributes:
        cache: of the rows.
        count: slots that take part in a pass.
    """

    def __init__(self, cache: SlotCache, count: int, longest: int, sized: bool = False) -> None:
        """Take over a batch after its prefixes.

        Args:
            cache: of the batch.
            count: its rows.
            longest: tokens that any row may have, at most.
            sized: let passes have few sizes: powers of two, of columns from 256 on.
        """
        self.cache, self.count, self._longest, self._sized = cache, count, longest, sized

    def reach(self, tokens: int) -> int:
        """Make room for the longest row, for all that can come or for as many again; return how many columns a pass reads."""
        stop = columns_read(tokens, self._sized)
        if stop > self.cache.columns:
            self.cache.resize(self.count, max(stop, min(self._longest, 2 * self.cache.columns)))
        return stop

    def inputs(self, ids: torch.Tensor, positions: torch.Tensor, stop: int) -> dict[str, Any]:
        """Return the model's arguments for a pass over tokens (slots, 1) at their positions (slots, 1)."""
        self.cache.aim(slice(0, len(ids)), positions, stop)
        assert self.cache.states is not None
        mask = causal_mask(positions, stop, self.cache.states.dtype)
        return {"input_ids": ids, "position_ids": positions, "attention_mask": mask, "cache": self.cache}

    def drop(self, running: Sequence[int], tokens: int) -> list[int] | None:
        """Drop ended slots if they are an eighth; return the old slot of each that stays, else None; last rows fill gaps.

        Args:
            running: the slots whose rows still run, in their order.
            tokens: of the longest of them.

        Returns:
            For each slot that stays, which slot it now has its row from; None where too few have ended.
        """
        count = min(self.count, power_of_two(len(running)) if self._sized else len(running))
        if (self.count - count) * _DROP_SHARE < self.count:
            return None
        order = list(range(count))
        moved = [slot for slot in running if slot >= count]
        free = sorted(set(order) - set(running))[: len(moved)]
        for target, source in zip(free, moved, strict=True):
            order[target] = source
        if moved:
            self.cache.take(self.cache, moved, free, tokens)
        self.count = count
        return order


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is no less."""
    return 1 << (number - 1).bit_length()


def columns_read(tokens: int, sized: bool) -> int:
    """Return the columns that a pass reads where the longest row has so many tokens: as many, or the next of few sizes."""
    return max(_BUCKET, power_of_two(tokens)) if sized else tokens


class Seats:
    """Rows in slots, and what each draws from.

    Attributes:
        rows: the rows.
        slots: their keys and values.
        tensors: slot by slot: the newest token, its position, the positions of the first and last token to be drawn, each
            (slots, 1), uniforms (slots, steps), and, where some row of the call may not draw all, allowed tokens (slots,
            vocabulary).
    """

    def __init__(self, rows: Sequence[DecodeRow], slots: Slots, tensors: list[torch.Tensor]) -> None:
        """Take what belongs together."""
        self.rows, self.slots, self.tensors = list(rows), slots, tensors

    def advance(self, model: Any, sampling: Sampling, stop: int) -> torch.Tensor:
        """Read the newest token of each slot and draw the next; return ids, logprobs and entropies as float64, (3, slots)."""
        ids, positions, first, last, table, *allowed = (tensor[: self.slots.count] for tensor in self.tensors)
        logits = last_logits(model, **self.slots.inputs(ids, positions, stop))
        # A row that ended stays for a while, and must not run past the model's last position.
        following = torch.minimum(positions + 1, last)
        draws = draw(logits, table.gather(1, following - first).squeeze(1), sampling, *allowed)
        ids.copy_(draws.ids.unsqueeze(1))
        positions.copy_(following)
        return torch.stack([values.double() for values in draws])

    def take(self, other: "Seats", places: Sequence[int], slots: Sequence[int]) -> Placed:
        """Give slots to rows at these places of others; return them with their slots.

        Args:
            other: may have fewer uniforms a row, and no allowed tokens: its rows may draw all.
            places: of the rows.
            slots: a slot for each.
        """
        pairs = [(slot, other.rows[place]) for place, slot in zip(places, slots, strict=True)]
        longest = max(len(row.prefix.ids) for _, row in pairs)
        self.slots.reach(longest)
        self.slots.cache.take(other.slots.cache, places, slots, longest)
        sources, targets = (torch.tensor(numbers, device=self.tensors[0].device) for numbers in (places, slots))
        for mine, theirs in zip(self.tensors, other.tensors, strict=False):
            mine[targets, : theirs.shape[1]] = theirs[sources]
        for mine in self.tensors[len(other.tensors) :]:  # allowed tokens, of which the others say nothing
            mine[targets] = True
        for slot, row in pairs:
            self.rows[slot] = row
        return pairs

    def drop(self, running: Placed, tokens: int) -> Placed:
        """Drop ended slots where they are many, and return the rows that run with their slots; `tokens` has the longest."""
        order = self.slots.drop([slot for slot, _ in running], tokens)
        if order is None:
            return running
        sources = torch.tensor(order, device=self.tensors[0].device)
        for tensor in self.tensors:
            tensor[: len(order)] = tensor[sources]
        self.rows[: len(order)] = [self.rows[at] for at in order]
        slots = {old: slot for slot, old in enumerate(order)}
        return [(slots[old], row) for old, row in running]


class Passes:
    """Passes as they come, in the slots that rows were prefilled in; a subclass captures them.

    Attributes:
        sized: whether they have few sizes.
    """

    def __init__(self, model: Any, sized: bool) -> None:
        """Take a causal language model in evaluation mode, and whether its passes have few sizes."""
        self.model, self.sized = model, sized

    def home(self, seats: Seats, longest: int) -> Seats:
        """Return the slots that decode the first rows of a call, none of them with more tokens than `longest`."""
        return seats

    def run(self, seats: Seats, sampling: Sampling, stop: int) -> torch.Tensor:
        """Run one, see `Seats.advance`."""
        return seats.advance(self.model, sampling, stop)


class Decoding:
    """The decoding loop of the rows of a call.

    Attributes:
        slot_passes: tokens drawn, with those beyond a row's end and those of slots that nobody has.
    """

    def __init__(
        self, *, passes: Passes, batches: Iterator[PrefilledBatch], rows: Sequence[DecodeRow], sampling: Sampling,
        look_every: int = 1, is_end: Callable[[DecodeRow], bool], keep: Callable[[str, CachedTokens], None],
    ) -> None:  # fmt: skip
        """Take over a call.

        Args:
            passes: of the model.
            batches: of the rows, prefilled when they are asked for.
            rows: of all batches.
            sampling: how tokens are drawn.
            look_every: tokens between two looks at what ends.
            is_end: told of a row whose newest token is watched, whether it has ended.
            keep: called with the session of a row that ended, and what to keep of it.
        """
        self._passes, self._batches, self._sampling, self._look_every = passes, batches, sampling, look_every
        self._is_end, self._keep = is_end, keep
        steps = max(row.limit for row in rows)
        self._steps = power_of_two(steps) if passes.sized else steps
        self._longest = max(len(row.prefix.ids) + row.limit for row in rows)
        self._bound = any(row.prefix.allowed_ids is not None for row in rows)
        self._seats: Seats | None = None
        self._running: Placed = []  # by slots
        self._reserve: tuple[Seats, list[int]] | None = None  # rows that wait, and the places of those left
        self.slot_passes = 0

    def run(self) -> None:
        """Decode until every row has ended, keeping sessions' caches; FloatingPointError for logits that are not finite."""
        while (seats := self._filled()) is not None:
            steps = min(self._look_every, max(row.limit - len(row.ids) for _, row in self._running))
            tokens = self._tokens()
            stops = [seats.slots.reach(min(tokens + step, self._longest)) for step in range(steps)]
            draws = [self._passes.run(seats, self._sampling, stop) for stop in stops]
            self.slot_passes += steps * seats.slots.count
            self._running = self._read(seats, self._running, torch.stack(draws))

    def _tokens(self) -> int:
        """Return the tokens of the longest row that runs."""
        return max(len(row.prefix.ids) + len(row.ids) for _, row in self._running)

    def _filled(self) -> Seats | None:
        """Give free slots to rows that wait, or drop them where none does; return the slots, None where no row is left."""
        while not self._running or (self._seats is not None and len(self._running) < self._seats.slots.count):
            while self._reserve is None and (batch := next(self._batches, None)) is not None:
                self._begin(batch)
            if self._reserve is None:
                break
            self._seat(*self._reserve)
        if self._seats is not None and self._running and self._reserve is None:
            self._running = self._seats.drop(self._running, self._tokens())
        return self._seats if self._running else None

    def _begin(self, batch: PrefilledBatch) -> None:
        """Draw the first token of each row of a batch; those that go on wait for slots."""
        rows, device = batch.rows, batch.logits.device
        table = uniforms([row.prefix.seed for row in rows], [row.limit for row in rows])
        table = functional.pad(table, (0, self._steps - table.shape[1])).to(device)
        first = torch.tensor([[len(row.prefix.ids)] for row in rows])
        last = first + torch.tensor([[row.limit - 1] for row in rows])
        allowed = []
        if self._bound:
            allowed = [allowed_table([row.prefix.allowed_ids for row in rows], batch.logits.shape[1]).to(device)]
        draws = draw(batch.logits, table[:, 0], self._sampling, *allowed)
        positions = [places.to(device) for places in (first.clone(), first, last)]
        slots = Slots(batch.cache, len(rows), self._longest, self._passes.sized)
        seats = Seats(rows, slots, [draws.ids.unsqueeze(1), *positions, table, *allowed])
        self.slot_passes += len(rows)
        running = self._read(seats, list(enumerate(rows)), torch.stack([values.double() for values in draws])[None])
        self._reserve = (seats, [slot for slot, _ in running]) if running else None

    def _seat(self, waiting: Seats, places: list[int]) -> None:
        """Give free slots to rows that wait; where none runs, these stay where they are."""
        if not self._running:
            self._seats = self._passes.home(waiting, self._longest)
            self._running, self._reserve = [(place, waiting.rows[place]) for place in places], None
            return
        assert self._seats is not None
        busy = {slot for slot, _ in self._running}
        free = [slot for slot in range(self._seats.slots.count) if slot not in busy][: len(places)]
        self._running += self._seats.take(waiting, places[: len(free)], free)
        self._reserve = (waiting, places[len(free) :]) if len(free) < len(places) else None

    def _read(self, seats: Seats, rows: Placed, samples: torch.Tensor) -> Placed:
        """Give rows what was drawn, (steps, 3, slots), up to their ends; keep sessions of those that ended, return the others.

        Raises:
            FloatingPointError: logprobs are not finite.
        """
        samples = samples.permute(2, 0, 1).cpu()
        if not bool(torch.isfinite(samples).all()):
            raise FloatingPointError("the model's logits are not finite: its weights diverged, or its dtype overflows")
        table, running = samples.tolist(), []
        for slot, row in rows:
            if not self._ends(row, table[slot]):
                running.append((slot, row))
            elif row.prefix.session:
                ids = row.prefix.ids + tuple(row.ids[:-1])  # the model has not read the last
                self._keep(row.prefix.session, CachedTokens(ids, seats.slots.cache.copy_of(slot, len(ids))))
        return running

    def _ends(self, row: DecodeRow, samples: list[list[float]]) -> bool:
        """Add tokens, each with its logprob and entropy, to a row up to its end; return whether that is among them."""
        for token, logprob, entropy in samples:
            row.ids.append(int(token))
            row.logprobs.append(logprob)
            row.entropies.append(entropy)
            if (row.ids[-1] in row.watched and self._is_end(row)) or len(row.ids) == row.limit:
                return True
        return False
