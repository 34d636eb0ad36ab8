"""`Slots` are the places of a batch that is decoded: they grow by a column a pass, and those of rows that ended are dropped."""

from collections.abc import Sequence
from typing import Any

import torch

from trainers.engines.kv_cache import SlotCache
from trainers.engines.prefill import Filled, additive

ROOM = 256  # columns at first: rows may end long before their limits
_DROP_SHARE = 8  # ended rows are dropped once they are one in so many


class Slots:
    """Keys, values and attention mask of a batch. A slot is a place in it; several rows may have it one after another.

    Attributes:
        begin: the first column behind the prefixes.
    """

    def __init__(self, filled: Filled, steps: int) -> None:
        """Take over a batch after its prefixes, for at most so many passes."""
        self.begin = self._column = filled.valid.shape[1]
        self._most = self.begin + steps
        self._cache = SlotCache(filled.states.shape[0] // 2, 0, filled.states)
        self._mask = None
        if not bool(filled.valid.all()):
            after = torch.ones(filled.valid.shape[0], steps, dtype=torch.bool)
            seen = torch.cat([filled.valid, after], 1).to(filled.states.device)
            # (slots, 1, 1, columns): made once, and sliced in each pass; None if there are no holes.
            self._mask = additive(seen, filled.states.dtype)[:, None, None]

    @property
    def states(self) -> torch.Tensor:
        """Keys and values, (2 * layers, slots, heads, columns, dim)."""
        assert self._cache.states is not None
        return self._cache.states

    def next_pass(self) -> dict[str, Any]:
        """Return what a model is called with so that it writes the next column, one token a slot."""
        states, column = self.states, self._column
        if column >= states.shape[3]:  # room for all that can come, or for as many again, whatever is less
            wider = states.new_empty(*states.shape[:3], min(self._most, 2 * column), states.shape[4])
            wider[:, :, :, :column] = states
            self._cache.states = wider
        self._column = column + 1
        self._cache.aim(column, self._column)
        mask = None if self._mask is None else self._mask[..., : self._column]
        return {"attention_mask": mask, "past_key_values": self._cache, "use_cache": True}

    def drop(self, running: Sequence[int]) -> list[int] | None:
        """Forget slots once many have ended: the last rows that run move into the places of those that ended.

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
            states[:, targets, :, : self._column] = states[:, sources, :, : self._column]
        self._cache.states = states[:, :count]
        self._mask = None if self._mask is None else self._mask[torch.tensor(order, device=states.device)]
        return order
