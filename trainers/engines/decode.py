"""The decoding loop of one batch draws tokens, drops the rows that ended, and runs the model on the drawn tokens."""

from collections.abc import Callable
from typing import Any

import torch

from trainers.contracts import Sampling
from trainers.engines.draws import allowed_table, draw, uniforms
from trainers.engines.kv_cache import Kept
from trainers.engines.prefill import Filled, Row
from trainers.engines.slots import Slots
from trainers.engines.stops import StopTexts


class Decoding:
    """Rows that are decoded together, each in a slot."""

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
        self._rows = list(rows)  # by slot
        self._running = list(enumerate(rows))
        self._ends = ends
        self._watched = [ends | stops.last_tokens(row.prefix.stop) for row in rows]
        self._history: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._steps = max(row.limit for row in rows)
        self._logits = filled.logits
        device = filled.states.device
        self._uniforms = uniforms([row.prefix.seed for row in rows], [row.limit for row in rows]).to(device)
        allowed = allowed_table([row.prefix.allowed_ids for row in rows], filled.logits.shape[-1])
        self._allowed = None if allowed is None else allowed.to(device)
        self._positions = self._make_positions().to(device)
        self._slots = Slots(filled, self._steps)

    def _make_positions(self) -> torch.Tensor:
        """Where each drawn token stands, (rows, steps); a row that ended must not run past the model's last position."""
        starts = torch.tensor([len(row.prefix.ids) for row in self._rows]).unsqueeze(1)
        lasts = torch.tensor([len(row.prefix.ids) + row.limit - 1 for row in self._rows]).unsqueeze(1)
        return torch.minimum(starts + torch.arange(self._steps), lasts)

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
                if (order := self._slots.drop([slot for slot, _ in self._running])) is not None:
                    ids = ids[self._reorder(order)]
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
                states = self._slots.states[:, slot]
                stop = self._slots.begin + len(row.ids) - 1
                parts = [states[:, :, row.old[0] : row.old[1]], states[:, :, row.new : stop]]
                kept = Kept(row.prefix.ids + tuple(row.ids[:-1]), torch.cat(parts, dim=2))
                self._keep(row.prefix.session, kept)
        gone = {slot for slot, _ in ended}
        self._running = [(slot, row) for slot, row in self._running if slot not in gone]

    def _reorder(self, order: list[int]) -> torch.Tensor:
        """Follow rows into other slots; return where each slot that stays has its row from, (slots,)."""
        self._flush()
        chosen = torch.tensor(order, device=self._positions.device)
        self._uniforms, self._positions = self._uniforms[chosen], self._positions[chosen]
        self._allowed = None if self._allowed is None else self._allowed[chosen]
        self._rows = [self._rows[slot] for slot in order]
        self._watched = [self._watched[slot] for slot in order]
        self._running = list(enumerate(self._rows))
        return chosen

    def _forward(self, ids: torch.Tensor, step: int) -> torch.Tensor:
        """Run the model on one token a slot; return the logits of the next, (slots, vocabulary)."""
        positions = self._positions[:, step : step + 1]
        more = {"position_ids": positions, "logits_to_keep": 1, **self._slots.next_pass()}
        logits: torch.Tensor = self._model(input_ids=ids.unsqueeze(1), **more).logits
        return logits[:, -1]

    def _flush(self) -> None:
        """Give rows the logprobs and entropies of the tokens they drew since the slots were last assigned."""
        logprobs = torch.stack([logprobs for logprobs, _ in self._history], 1)  # (slots, steps)
        entropies = torch.stack([entropies for _, entropies in self._history], 1)
        if not bool(torch.isfinite(logprobs).all()):
            raise FloatingPointError("the model's logits are not finite: its weights diverged, or its dtype overflows")
        for row, some, others in zip(self._rows, logprobs.tolist(), entropies.tolist(), strict=True):
            missing = len(row.ids) - len(row.logprobs)
            row.logprobs += some[:missing]
            row.entropies += others[:missing]
        self._history = []
