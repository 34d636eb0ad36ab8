"""The decoding loop of a batch of rows, each in a slot: it draws a token for each, and runs the model on the drawn tokens.

A slot of a row that ended goes to a row that waits, or is dropped. Ends are looked for every few tokens, from one copy of them,
so that a GPU need not wait for the CPU at each; what a row drew beyond its end is left out. Each row draws from uniforms of its
own, so nothing else depends on its slot or on when it is looked at.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.nn import functional

from trainers.contracts import Sampling
from trainers.engines.decode import Draws, allowed_table, draw, uniforms
from trainers.engines.kv_cache import CachedTokens, SlotCache
from trainers.engines.prefill import DecodeRow, PrefilledBatch, additive, last_logits

ROOM = 256  # columns at first: rows may end long before their limits
_DROP_SHARE = 8  # ended rows are dropped once they are one in so many


class Slots:
    """Keys, values and attention mask of a batch. A slot is a place in it; several rows may have it one after another.

    Attributes:
        column: the next one that is written.
    """

    def __init__(self, filled: PrefilledBatch, steps: int) -> None:
        """Take over a batch after its prefixes, for at most so many passes."""
        self.column = filled.valid.shape[1]
        self._most = self.column + steps
        self._cache = SlotCache(filled.states.shape[0] // 2, 0, filled.states)
        self._mask = None  # (slots, 1, 1, columns) once there are holes
        if not bool(filled.valid.all()):
            valid = functional.pad(filled.valid, (0, filled.states.shape[3] - self.column), value=True)
            self._mask = additive(valid.to(filled.states.device), filled.states.dtype)[:, None, None]

    @property
    def states(self) -> torch.Tensor:
        """Keys and values, (2 * layers, slots, heads, columns, dim)."""
        assert self._cache.states is not None
        return self._cache.states

    def next_pass(self) -> dict[str, Any]:
        """Advance by a column, with more room if needed, and return the model's arguments for it, one token a slot."""
        column = self.column
        if column >= self.states.shape[3]:  # room for all that can come, or for as many again, whatever is less
            self._move(0, min(self._most, 2 * column))
        self.column = column + 1
        self._cache.aim(column, self.column)
        mask = None if self._mask is None else self._mask[..., : self.column]
        return {"attention_mask": mask, "cache": self._cache}

    def fill(self, slot: int, states: torch.Tensor, steps: int) -> None:
        """Give a slot to another row, whose prefix (2 * layers, heads, tokens, dim) ends at the present column."""
        start = self.column - states.shape[2]
        self.states[:, slot, :, start : self.column] = states
        if self._mask is None:
            self._mask = states.new_zeros(self.states.shape[1], 1, 1, self.states.shape[3])
        self._mask[slot, ..., :start] = float("-inf")
        self._mask[slot, ..., start:] = 0
        self._most = max(self._most, self.column + steps)

    def trim(self, first: int) -> int:
        """Leave out the columns before the first that a row reads, where they are a quarter; return how many went."""
        if 4 * first < self.column:
            return 0
        self._move(first, self.states.shape[3])
        return first

    def _move(self, first: int, columns: int) -> None:
        """Copy what is there from a column on into a tensor of so many columns."""
        old = self.states[:, :, :, first : self.column]
        self._cache.states = old.new_empty(*old.shape[:3], columns, old.shape[4])
        self._cache.states[:, :, :, : old.shape[3]] = old
        if self._mask is not None:
            self._mask = functional.pad(self._mask[..., first : self.column], (0, columns - old.shape[3]))
        self.column, self._most = self.column - first, self._most - first

    def drop(self, running: Sequence[int]) -> list[int] | None:
        """Drop ended slots if they are an eighth; return the old slot of each that stays, else None; last rows fill gaps.

        Args:
            running: the slots whose rows still run, in their order.

        Returns:
            For each slot that stays, which slot it now has its row from; None where too few have ended.
        """
        states, count = self.states, len(running)
        if (states.shape[1] - count) * _DROP_SHARE < states.shape[1]:
            return None
        order = list(range(count))
        free = sorted(set(order) - set(running))
        moved = [slot for slot in running if slot >= count]
        for target, source in zip(free, moved, strict=True):
            order[target] = source
        if moved:
            sources, targets = (torch.tensor(slots, device=states.device) for slots in (moved, free))
            states[:, targets, :, : self.column] = states[:, sources, :, : self.column]
        self._cache.states = states[:, :count]
        self._mask = None if self._mask is None else self._mask[torch.tensor(order, device=states.device)]
        return order


class Seats:
    """Rows and what each draws from: those in the slots, or those that wait for one.

    Attributes:
        rows: the rows.
        filled: what `prefill` made of them.
        tensors: row by row: logits of the next token (rows, vocabulary), uniforms (rows, steps), the positions of the first,
            next and last token (rows, 3), and, where some row of the call may not draw all, allowed tokens (rows, vocabulary).
    """

    def __init__(self, rows: Sequence[DecodeRow], filled: PrefilledBatch, steps: int, bound: bool) -> None:
        """Take over a batch after its prefixes.

        Args:
            rows: that are decoded; each is filled in place.
            filled: what `prefill` made of them.
            steps: the most tokens of any row of the call.
            bound: whether some row of the call may not draw every token.
        """
        self.rows, self.filled = list(rows), filled
        table = uniforms([row.prefix.seed for row in rows], [row.limit for row in rows])
        starts = torch.tensor([len(row.prefix.ids) for row in rows])
        # A row that ended stays for a while, and must not run past the model's last position.
        spans = torch.stack([starts, starts, starts + torch.tensor([row.limit - 1 for row in rows])], 1)
        tensors = [filled.logits, functional.pad(table, (0, steps - table.shape[1])), spans]
        if bound:
            tensors.append(allowed_table([row.prefix.allowed_ids for row in rows], filled.logits.shape[1]))
        self.tensors = [tensor.to(filled.logits.device) for tensor in tensors]

    def draw(self, sampling: Sampling) -> tuple[Draws, torch.Tensor]:
        """Draw the next token of each row; return them and their positions, (rows, 1)."""
        logits, table, spans, *allowed = self.tensors
        positions = spans[:, 1:2].clone()
        uniform = table.gather(1, positions - spans[:, :1]).squeeze(1)
        spans[:, 1:2] = torch.minimum(positions + 1, spans[:, 2:])
        return draw(logits, uniform, sampling, *allowed), positions

    def reorder(self, order: list[int]) -> torch.Tensor:
        """Follow rows into other slots; return where each slot that stays has its row from, (slots,)."""
        sources = torch.tensor(order, device=self.tensors[0].device)
        self.tensors = [tensor[sources] for tensor in self.tensors]
        self.rows = [self.rows[at] for at in order]
        return sources

    def take(self, waiting: "Seats", places: list[int], slots: list[int]) -> None:
        """Give slots to rows that wait at these places."""
        for place, slot in zip(places, slots, strict=True):
            self.rows[slot] = waiting.rows[place]
        sources, targets = (torch.tensor(numbers, device=self.tensors[0].device) for numbers in (places, slots))
        for mine, theirs in zip(self.tensors, waiting.tensors, strict=True):
            mine[targets] = theirs[sources]


class Decoding:
    """The decoding loop of a batch of rows, each in a slot, and of rows that wait for one.

    Attributes:
        slot_passes: tokens drawn, with those beyond a row's end and those of slots that nobody has.
    """

    def __init__(
        self, *, model: Any, seats: Seats, waiting: Iterator[Seats], sampling: Sampling, look_every: int = 1,
        is_end: Callable[[DecodeRow], bool], keep: Callable[[str, CachedTokens], None],
    ) -> None:  # fmt: skip
        """Take over a batch.

        Args:
            model: a causal language model in evaluation mode.
            seats: the batch.
            waiting: further batches, none with a longer prefix than one before it.
            sampling: how tokens are drawn.
            look_every: tokens between two looks at what ends.
            is_end: told of a row whose newest token is watched, whether it has ended.
            keep: called with the session of a row that ended, and what to keep of it.
        """
        self._model, self._sampling, self._is_end, self._keep = model, sampling, is_end, keep
        self._seats, self._waiting, self._look_every = seats, waiting, look_every
        self._reserve: tuple[Seats, list[int]] | None = None  # rows that wait, and the places of those left
        self._slots = Slots(seats.filled, max(row.limit for row in seats.rows))
        self._running = list(enumerate(seats.rows))
        for row in seats.rows:
            row.output = self._slots.column
        self._history: list[Draws] = []  # since rows last came to slots
        self._look_step = self.slot_passes = 0  # of the history: what was looked at

    def run(self) -> None:
        """Decode until every row has ended, keeping sessions' caches; FloatingPointError for logits that are not finite."""
        while True:
            samples, positions = self._seats.draw(self._sampling)
            self._history.append(samples)
            self.slot_passes += len(self._seats.rows)
            ids, ended = samples.ids, self._look()
            if ended and not self._others_wait():
                if not self._running:
                    break
                if (order := self._slots.drop([slot for slot, _ in self._running])) is not None:
                    self._flush()
                    sources = self._seats.reorder(order)
                    ids, positions = ids[sources], positions[sources]
                    self._running = list(enumerate(self._seats.rows))
            if self._running:
                inputs = {"input_ids": ids.unsqueeze(1), "position_ids": positions, **self._slots.next_pass()}
                self._seats.tensors[0] = last_logits(self._model, **inputs)
            if ended and self._reserve is not None:
                self._refill(*self._reserve)
        self._flush()

    def _look(self) -> bool:
        """Give rows the tokens drawn since the last look, where one is due; return whether some ended."""
        history = self._history[self._look_step :]
        if len(history) < self._look_every and len(history) < max(row.limit - len(row.ids) for _, row in self._running):
            return False
        self._look_step += len(history)
        tokens = torch.stack([samples.ids for samples in history], 1).tolist()
        ended = [(slot, row) for slot, row in self._running if self._ends(row, tokens[slot])]
        for slot, row in ended:
            if row.prefix.session:
                states = row.tokens_of(self._slots.states[:, slot], row.output + len(row.ids) - 1)
                self._keep(row.prefix.session, CachedTokens(row.prefix.ids + tuple(row.ids[:-1]), states))
        ended_slots = {slot for slot, _ in ended}
        self._running = [(slot, row) for slot, row in self._running if slot not in ended_slots]
        return bool(ended)

    def _ends(self, row: DecodeRow, tokens: list[int]) -> bool:
        """Add tokens to a row up to its end, and return whether that is among them."""
        for token in tokens:
            row.ids.append(token)
            if (token in row.watched and self._is_end(row)) or len(row.ids) == row.limit:
                return True
        return False

    def _others_wait(self) -> bool:
        """Return whether rows wait for slots; where some still run, the next batch is made ready."""
        if self._reserve is None and self._running and (seats := next(self._waiting, None)) is not None:
            self._reserve = seats, list(range(len(seats.rows)))
        return self._reserve is not None

    def _refill(self, waiting: Seats, left: list[int]) -> None:
        """Give free slots to rows that wait; their prefixes end at the present column."""
        self._flush()
        busy = {slot for slot, _ in self._running}
        free = [slot for slot in range(len(self._seats.rows)) if slot not in busy][: len(left)]
        places, left = left[: len(free)], left[len(free) :]
        column = self._slots.column
        for place, slot in zip(places, free, strict=True):
            row = waiting.rows[place]
            states = row.tokens_of(waiting.filled.states[:, place], waiting.filled.valid.shape[1])
            self._slots.fill(slot, states, row.limit)
            row.new, row.output = column - states.shape[2], column
            row.old = row.new, row.new
        self._seats.take(waiting, places, free)
        self._reserve = (waiting, left) if left else None
        self._running += [(slot, self._seats.rows[slot]) for slot in free]
        # Rows that wait have prefixes no longer than those that came last: they fit behind what is left out.
        shift = self._slots.trim(min(row.old[0] for _, row in self._running))
        for _, row in self._running:
            row.old, row.new, row.output = (row.old[0] - shift, row.old[1] - shift), row.new - shift, row.output - shift

    def _flush(self) -> None:
        """Give rows the logprobs and entropies drawn since slots were assigned; FloatingPointError if they are not finite."""
        logprobs = torch.stack([samples.logprobs for samples in self._history], 1)  # (slots, steps)
        entropies = torch.stack([samples.entropies for samples in self._history], 1)
        if not bool(torch.isfinite(logprobs).all()):
            raise FloatingPointError("the model's logits are not finite: its weights diverged, or its dtype overflows")
        for row, some, others in zip(self._seats.rows, logprobs.tolist(), entropies.tolist(), strict=True):
            missing = len(row.ids) - len(row.logprobs)
            row.logprobs += some[:missing]
            row.entropies += others[:missing]
        self._history, self._look_step = [], 0
