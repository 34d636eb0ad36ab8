"""Tokens and expanded actions are sampled for many rows in lock-step: one KV cache, one token a row a forward pass.

Every row feeds a token in every pass: what it just chose, or the next token of what its last action appended, in which case it
chooses nothing. Heads are computed for rows that choose: the language head for those in language mode alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch

from trainers.contracts import Prefix, Sampling
from trainers.earl_parts.expa_head import ExpandedHead, language_model
from trainers.engines.decode import ROOM, Slots, draw, uniforms
from trainers.engines.prefill import Row, prefill


class Walker(Protocol):
    """A row: tokens that grow, and a world that answers."""

    legal: tuple[int, ...]  # numbers of the actions that are legal at the next decision; with 0, the vocabulary is open
    seed: int  # of its uniforms, one a decision
    over: bool

    @property
    def ids(self) -> list[int]:
        """All tokens so far, at least one. They only grow, and by `take` alone."""
        ...

    @property
    def limit(self) -> int:
        """How many tokens there may be."""
        ...

    def take(self, target: int, logprob: float, entropy: float) -> None:
        """Go on by a decision: the id of a token, or of an action (from V on)."""
        ...


class LockStep:
    """Rows that are played together, each in a slot.

    Attributes:
        passes: of the model after the prefixes, so far.
    """

    def __init__(
        self, model: torch.nn.Module, head: ExpandedHead, walkers: Sequence[Walker], sampling: Sampling
    ) -> None:
        """Run the rows' tokens through the model.

        Args:
            model: in evaluation mode.
            head: of the model.
            walkers: rows of which none is over.
            sampling: how tokens and actions are drawn.
        """
        bare = language_model(model)
        self._head, self._language, self._sampling = head, bare.get_output_embeddings(), sampling
        self._decoder = _Decoder(bare)
        rooms = [walker.limit - len(walker.ids) for walker in walkers]
        chances = uniforms([walker.seed for walker in walkers], rooms).tolist()
        self._rows = [_Slot(walker, own, len(walker.ids)) for walker, own in zip(walkers, chances, strict=True)]
        rows = [Row(Prefix(tuple(walker.ids), 1), 1, None) for walker in walkers]
        room = min(ROOM, max(rooms))
        filled = prefill(self._decoder, rows, bare.config.get_text_config(decoder=True).num_hidden_layers, room)
        self._states = filled.logits  # of the last tokens, (slots, width)
        self._slots, self._device = Slots(filled, max(rooms)), filled.states.device
        self._tables: dict[tuple[int, ...], torch.Tensor] = {}
        self.passes = 0

    def run(self) -> None:
        """Play until every row is over."""
        while True:
            self._choose()
            running = [place for place, row in enumerate(self._rows) if not row.walker.over]
            if not running:
                return
            if (order := self._slots.drop(running)) is not None:
                self._rows = [self._rows[place] for place in order]
            self._forward()

    def _choose(self) -> None:
        """Let the rows that have fed all their tokens draw, those in language mode and those inside environments apart."""
        waiting = [place for place, row in enumerate(self._rows) if row.chooses]
        spoken = [place for place in waiting if 0 in self._rows[place].walker.legal]
        inside = [place for place in waiting if 0 not in self._rows[place].walker.legal]
        if spoken:
            states, legal = self._asked(spoken)
            logits = self._head.logits(states, self._language(states))  # (rows, V + actions - 1)
            actions = logits[:, self._head.vocabulary :]
            actions.masked_fill_(~legal[:, 1:], torch.finfo(logits.dtype).min)
            self._taken(spoken, logits, None, 0)
        if inside:
            states, legal = self._asked(inside)
            self._taken(inside, self._head.expanded(states), legal[:, 1:], self._head.vocabulary)

    def _asked(self, places: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return last hidden states of slots (rows, width), and which actions they may take (rows, actions)."""
        found = []
        for place in places:
            legal = self._rows[place].walker.legal
            if legal not in self._tables:
                self._tables[legal] = self._head.table([legal])[0]
            found.append(self._tables[legal])
        every = len(places) == len(self._rows)
        states = self._states if every else self._states[torch.tensor(places, device=self._device)]
        return states, torch.stack(found)

    def _taken(self, places: list[int], logits: torch.Tensor, allowed: torch.Tensor | None, first: int) -> None:
        """Draw, and let the rows go on; `first` is the id of the first column of the logits."""
        chances = [self._rows[place].uniform() for place in places]
        uniform = torch.tensor(chances, dtype=torch.float64, device=self._device)
        drawn = draw(logits, uniform, self._sampling, allowed)
        if not bool(torch.isfinite(drawn.logprobs).all()):
            raise FloatingPointError("the model's logits are not finite: its weights diverged, or its dtype overflows")
        lists = (drawn.ids.tolist(), drawn.logprobs.tolist(), drawn.entropies.tolist())
        for place, token, logprob, entropy in zip(places, *lists, strict=True):
            self._rows[place].walker.take(first + token, logprob, entropy)

    def _forward(self) -> None:
        """Feed every slot its next token."""
        tokens, positions = zip(*(row.feed() for row in self._rows), strict=True)
        inputs, places = (torch.tensor(numbers, device=self._device).unsqueeze(1) for numbers in (tokens, positions))
        output = self._decoder(input_ids=inputs, position_ids=places, **self._slots.next_pass())
        self._states = output.logits[:, -1]
        self.passes += 1


@dataclass(slots=True)
class _Slot:
    """A row in the batch, its uniforms, and how many of its tokens were fed."""

    walker: Walker
    uniforms: list[float]
    fed: int
    decisions: int = 0

    @property
    def chooses(self) -> bool:
        """Whether the model has read all that there is."""
        return not self.walker.over and self.fed == len(self.walker.ids)

    def uniform(self) -> float:
        """Return the chance of the next decision."""
        self.decisions += 1
        return self.uniforms[self.decisions - 1]

    def feed(self) -> tuple[int, int]:
        """Return the next token and its position; a row that is over feeds anything, within the model's positions."""
        if self.walker.over:
            return self.walker.ids[-1], len(self.walker.ids) - 1
        self.fed += 1
        return self.walker.ids[self.fed - 1], self.fed - 1


class _Decoded(NamedTuple):
    """What `prefill` takes for logits: states, of which it keeps the last of each row."""

    logits: torch.Tensor


class _Decoder:
    """A model without its language head, as `prefill` takes one: what it answers are hidden states."""

    def __init__(self, bare: Any) -> None:
        self._decoder = bare.get_decoder()
        self.device: torch.device = bare.device
        self.dtype: torch.dtype = bare.dtype

    def get_decoder(self) -> Any:
        return self._decoder

    def __call__(self, *, logits_to_keep: int = 1, **inputs: Any) -> _Decoded:
        return _Decoded(self._decoder(**inputs).last_hidden_state[:, -logits_to_keep:])
