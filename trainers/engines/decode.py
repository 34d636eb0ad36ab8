"""The decoding loop of one batch draws tokens, drops the rows that ended, and runs the model on the drawn tokens."""

from collections.abc import Callable
from typing import Any

import torch

from trainers.contracts import Sampling
from trainers.engines.draws import allowed_table, draw, uniforms
from trainers.engines.kv_cache import Kept, SlotCache
from trainers.engines.prefill import Filled, Row, additive
from trainers.engines.stops import StopTexts

ROOM = 256  # columns at first: rows may end long before their limits
_DROP_SHARE = 8  # ended rows are dropped once they are one in so many


class Decoding:
    """Rows that are decoded together. A slot is a place in the batch; several rows may have it one after another."""

    def __init__(
        self,
        *,
        model: Any,
        rows: list[Row],
        filled: Filled,
        sampling: Sampling,
        ends: frozenset[int],
        stops: StopTexts,
        keep: Callable[[str, Kept], None],
    ) -> None:
        """Take over a batch after its prefixes.

        Args:
            model: a causal language model in evaluation mode.
            rows: what is decoded; each is filled in place.
            filled: what `prefill` made of them.
            sampling: how tokens are drawn.
            ends: end-of-sequence tokens.
            stops: finds stop texts.
            keep: called with the session of a row that ended, and what to keep of it.
        """
        self._model, self._sampling, self._stops, self._keep = model, sampling, stops, keep
        self._slots = list(rows)
        self._running = list(enumerate(rows))
        self._ends = ends
        self._watched = [ends | stops.last_tokens(row.prefix.stop) for row in rows]
        self._history: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._begin = filled.valid.shape[1]
        self._steps = max(row.limit for row in rows)
        self._logits = filled.logits
        device = filled.states.device
        self._uniforms = uniforms([row.prefix.seed for row in rows], [row.limit for row in rows]).to(device)
        allowed = allowed_table([row.prefix.allowed_ids for row in rows], filled.logits.shape[-1])
        self._allowed = None if allowed is None else allowed.to(device)
        self._positions = self._make_positions().to(device)
        self._mask = self._make_mask(filled.valid, filled.states)
        self._cache = SlotCache(filled.states.shape[0] // 2, 0, filled.states)

    def _make_positions(self) -> torch.Tensor:
        """Where each drawn token stands, (rows, steps); a row that ended must not run past the model's last position."""
        starts = torch.tensor([len(row.prefix.ids) for row in self._slots]).unsqueeze(1)
        lasts = torch.tensor([len(row.prefix.ids) + row.limit - 1 for row in self._slots]).unsqueeze(1)
        return torch.minimum(starts + torch.arange(self._steps), lasts)

    def _make_mask(self, valid: torch.Tensor, states: torch.Tensor) -> torch.Tensor | None:
        """What rows attend to, (rows, 1, 1, columns): made once, and sliced at each step; None if there are no holes."""
        if bool(valid.all()):
            return None
        drawn = torch.ones(valid.shape[0], self._steps, dtype=torch.bool)
        return additive(torch.cat([valid, drawn], 1).to(states.device), states.dtype)[:, None, None]

    def run(self) -> None:
        """Decode until every row has ended."""
        logits = self._logits
        for step in range(self._steps):
            drawn = draw(logits, self._uniforms[:, step], self._sampling, self._allowed)
            self._history.append((drawn.logprobs, drawn.entropies))
            ended = self._note(drawn.ids.tolist())
            ids = drawn.ids
            if ended:
                self._finish(ended)
                if not self._running:
                    break
                if (len(self._slots) - len(self._running)) * _DROP_SHARE >= len(self._slots):
                    ids = ids[self._drop(self._begin + step)]
            logits = self._forward(ids, step)
        self._flush()

    def _note(self, tokens: list[int]) -> list[tuple[int, Row]]:
        """Add a token to each row that still runs; return those that it ends."""
        ended = []
        for slot, row in self._running:
            token = tokens[slot]
            row.ids.append(token)
            if (token in self._watched[slot] and self._is_end(row, token)) or len(row.ids) == row.limit:
                ended.append((slot, row))
        return ended

    def _is_end(self, row: Row, token: int) -> bool:
        if token in self._ends:
            row.finish = "eos"
        elif self._stops.complete(row.ids, row.prefix.stop):
            row.finish = "stop"
        return row.finish != "length"

    def _finish(self, ended: list[tuple[int, Row]]) -> None:
        """Keep what sessions need of rows that ended: all their tokens but the last, which the model has not read."""
        for slot, row in ended:
            if row.prefix.session:
                states = self._states[:, slot]
                stop = self._begin + len(row.ids) - 1
                parts = [states[:, :, row.old[0] : row.old[1]], states[:, :, row.new : stop]]
                kept = Kept(row.prefix.ids + tuple(row.ids[:-1]), torch.cat(parts, dim=2))
                self._keep(row.prefix.session, kept)
        gone = {slot for slot, _ in ended}
        self._running = [(slot, row) for slot, row in self._running if slot not in gone]

    def _drop(self, columns: int) -> torch.Tensor:
        """Move the last running rows into the slots of those that ended, and forget the slots behind.

        Returns:
            For each slot that stays, which slot it now has its row from.
        """
        self._flush()
        count = len(self._running)
        order = list(range(count))
        free = sorted(set(order) - {slot for slot, _ in self._running})
        moved = [slot for slot, _ in self._running if slot >= count]
        for target, source in zip(free, moved, strict=True):
            order[target] = source
        device = self._states.device
        chosen = torch.tensor(order, device=device)
        if moved:
            sources, targets = torch.tensor(moved, device=device), torch.tensor(free, device=device)
            self._states[:, targets, :, :columns] = self._states[:, sources, :, :columns]
        self._cache.states = self._states[:, :count]
        self._uniforms, self._positions = self._uniforms[chosen], self._positions[chosen]
        self._mask = None if self._mask is None else self._mask[chosen]
        self._allowed = None if self._allowed is None else self._allowed[chosen]
        self._slots = [self._slots[slot] for slot in order]
        self._watched = [self._watched[slot] for slot in order]
        self._running = list(enumerate(self._slots))
        return chosen

    def _forward(self, ids: torch.Tensor, step: int) -> torch.Tensor:
        """Run the model on one token a slot; return the logits of the next, (slots, vocabulary)."""
        column = self._begin + step
        if column >= self._states.shape[3]:
            self._widen(column)
        self._cache.aim(column, column + 1)
        output = self._model(
            input_ids=ids.unsqueeze(1),
            attention_mask=None if self._mask is None else self._mask[..., : column + 1],
            position_ids=self._positions[:, step : step + 1],
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: torch.Tensor = output.logits
        return logits[:, -1]

    @property
    def _states(self) -> torch.Tensor:
        assert self._cache.states is not None
        return self._cache.states

    def _widen(self, columns: int) -> None:
        """Make room for more columns: for all that can come, or for as many again, whatever is less."""
        states = self._states
        wanted = min(self._begin + self._steps, 2 * columns)
        wider = states.new_empty(*states.shape[:3], wanted, states.shape[4])
        wider[:, :, :, :columns] = states
        self._cache.states = wider

    def _flush(self) -> None:
        """Give rows the logprobs and entropies of the tokens they drew since the slots were last assigned."""
        logprobs = torch.stack([logprobs for logprobs, _ in self._history], 1)  # (slots, steps)
        entropies = torch.stack([entropies for _, entropies in self._history], 1)
        if not bool(torch.isfinite(logprobs).all()):
            raise FloatingPointError("the model's logits are not finite: its weights diverged, or its dtype overflows")
        for row, some, others in zip(self._slots, logprobs.tolist(), entropies.tolist(), strict=True):
            missing = len(row.ids) - len(row.logprobs)
            row.logprobs += some[:missing]
            row.entropies += others[:missing]
        self._history = []
