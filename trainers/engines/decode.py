"""The decoding loop of one batch draws tokens, drops the rows that ended, and runs the model on the drawn tokens.

Tokens are drawn from logits by one uniform each, through the inverse of the cumulative distribution. A row ends at an
end-of-sequence token, or at the token that completes a stop text; its place in the batch goes with it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from agent_envs.base.errors import UsageError
from trainers.contracts import Prefix, Sampling
from trainers.engines.kv_cache import CachedTokens, SlotCache
from trainers.engines.prefill import DecodeRow, PrefilledBatch, additive, last_logits

_KEYS = 2**128
_BROKEN = "\N{REPLACEMENT CHARACTER}"
ROOM = 256  # columns at first: rows may end long before their limits
_DROP_SHARE = 8  # ended rows are dropped once they are one in so many


class Draws(NamedTuple):
    """The sampled tokens of a step, one a row; each tensor (rows,).

    Attributes:
        ids: token ids.
        logprobs: of these tokens, under the distribution that was drawn from.
        entropies: of that distribution, in nats.
    """

    ids: torch.Tensor
    logprobs: torch.Tensor
    entropies: torch.Tensor


def check_sampling(sampling: Sampling) -> None:
    """Raise UsageError for a temperature or top-k below 0, or a top-p outside (0, 1]."""
    if not sampling.temperature >= 0:
        raise UsageError(f"temperature={sampling.temperature}: give 0 (the likeliest token) or more")
    if sampling.top_k < 0:
        raise UsageError(f"top_k={sampling.top_k}: give 0 (all tokens) or more")
    if not 0 < sampling.top_p <= 1:
        raise UsageError(f"top_p={sampling.top_p}: give a share in (0, 1]")


def uniforms(seeds: Sequence[int], lengths: Sequence[int]) -> torch.Tensor:
    """Return the uniforms in [0, 1) of each row's tokens, from the row's seed alone. Float64, 0 after a row's end."""
    table = np.zeros((len(seeds), max(lengths, default=0)))  # (rows, tokens)
    for row, (seed, length) in enumerate(zip(seeds, lengths, strict=True)):
        table[row, :length] = np.random.Generator(np.random.Philox(key=seed % _KEYS)).random(length)
    return torch.from_numpy(table)


def allowed_table(allowed: Sequence[tuple[int, ...] | None], vocabulary: int) -> torch.Tensor | None:
    """Return the mask of tokens that rows may draw, (rows, vocabulary) of bool; None if all may be, UsageError for bad ids."""
    if all(ids is None for ids in allowed):
        return None
    table = torch.zeros(len(allowed), vocabulary, dtype=torch.bool)
    for row, ids in enumerate(allowed):
        if ids is None:
            table[row] = True
        elif ids and 0 <= min(ids) and max(ids) < vocabulary:
            table[row, list(ids)] = True
        else:
            raise UsageError(f"allowed_ids={ids!r:.80}: give at least one, each from 0 to {vocabulary - 1}")
    return table


def draw(logits: torch.Tensor, uniform: torch.Tensor, sampling: Sampling, allowed: torch.Tensor | None = None) -> Draws:
    """Draw a token from each row of logits, the likeliest at temperature 0; return ids, logprobs and entropies (nats).

    The filters come in this order: allowed ids, temperature, top-k, top-p. The cumulative distribution runs over token
    ids as they are numbered, in float64, so a change of rounding in the logits moves a draw only where the row's
    uniform lies at a border. Temperature 0 takes the likeliest token of what the filters leave at temperature 1.

    Args:
        logits: (rows, vocabulary).
        uniform: float64 in [0, 1), (rows,).
        sampling: temperature, top-k and top-p.
        allowed: which tokens may be drawn, (rows, vocabulary); None for all.
    """
    logprobs = log_distribution(logits, sampling, allowed)  # (rows, vocabulary)
    probs = logprobs.exp()
    entropies = -(probs * logprobs).sum(-1)
    if sampling.temperature == 0:
        ids = logprobs.argmax(-1, keepdim=True)
    else:
        cumulative = probs.cumsum(-1, dtype=torch.float64)
        # The largest uniform, 1 - 2**-53, times the total rounds to less than the total: only a NaN needs the clamp.
        target = uniform.unsqueeze(-1) * cumulative[:, -1:]
        ids = torch.searchsorted(cumulative, target, right=True).clamp_(max=logits.shape[-1] - 1)
    return Draws(ids.squeeze(-1), logprobs.gather(-1, ids).squeeze(-1), entropies)


def log_distribution(logits: torch.Tensor, sampling: Sampling, allowed: torch.Tensor | None = None) -> torch.Tensor:
    """Return the logarithms of the distribution that tokens are drawn from: hugely negative, yet finite, where it is 0."""
    scores = logits if logits.dtype == torch.float64 else logits.float()
    if allowed is not None:
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    if sampling.temperature not in (0, 1):
        scores = scores / max(sampling.temperature, 1e-6)  # colder would overflow, and changes nothing
    if 0 < sampling.top_k < scores.shape[-1]:
        scores = _mask_others(scores, scores.topk(sampling.top_k, dim=-1).indices)
    if sampling.top_p < 1:
        scores = _nucleus(scores, sampling.top_p)
    return scores.log_softmax(-1).clamp_(min=torch.finfo(scores.dtype).min)


def _mask_others(scores: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Return scores with the lowest number everywhere but at the ids."""
    floor = torch.full_like(scores, torch.finfo(scores.dtype).min)
    return floor.scatter_(-1, ids, scores.gather(-1, ids))


def _nucleus(scores: torch.Tensor, top_p: float) -> torch.Tensor:
    """Mask the scores outside top-p: the smallest set of likeliest tokens whose probability reaches `top_p` remains."""
    ordered, order = scores.sort(dim=-1, descending=True, stable=True)
    probs = ordered.softmax(-1, dtype=torch.float64)
    before = probs.cumsum(-1) - probs  # what the likelier tokens hold
    ordered = ordered.masked_fill(before >= top_p, torch.finfo(scores.dtype).min)
    return torch.empty_like(scores).scatter_(-1, order, ordered)


class StopTexts:
    """The search for stop texts in drawn tokens, made only where the newest token may complete one."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase | None) -> None:
        """Take the tokenizer of the tokens."""
        self._tokenizer = tokenizer
        self._texts: list[str] = []
        self._lasts: dict[str, frozenset[int]] = {}

    def last_tokens(self, stop: tuple[str, ...]) -> frozenset[int]:
        """Return the tokens that may complete one of these texts: those that hold the last character of one."""
        return frozenset().union(*(self._tokens_with(text[-1:]) for text in stop))

    def complete(self, ids: Sequence[int], stop: tuple[str, ...]) -> bool:
        """Return whether the decoded end of `ids` holds a stop text, of which the newest token is part."""
        longest = max(map(len, stop))
        needed = longest + len(self.text_of(ids[-1:])) + 1
        window, tail = longest, ""
        # Tokens may be parts of a character, or have no text: go back until the tail is surely long enough.
        while len(tail) < needed and window < 2 * len(ids) + longest:
            window *= 2
            tail = self.text_of(ids[-window:])
        return any(text in tail for text in stop)

    def _tokens_with(self, character: str) -> frozenset[int]:
        """Return the ids of tokens whose text may hold a character, kept by character; UsageError for an empty stop text."""
        if not character:
            raise UsageError("stop: an empty text is everywhere; leave it out")
        if character not in self._lasts:
            marks = (character,) if character.isascii() else (character, _BROKEN)
            texts = self._token_texts()
            self._lasts[character] = frozenset(i for i, text in enumerate(texts) if any(mark in text for mark in marks))
        return self._lasts[character]

    def _token_texts(self) -> list[str]:
        """Decode every token of the vocabulary once, as it reads behind another; UsageError without a tokenizer."""
        if self._tokenizer is None:
            raise UsageError("stop texts need a tokenizer: give one to HFEngine")
        if not self._texts:
            # After another token, since decoders drop a space at the beginning of a text.
            anchor = self._tokenizer.encode("a", add_special_tokens=False)
            before = self.text_of(anchor)
            rows = [[*anchor, token] for token in range(len(self._tokenizer))]
            self._texts = [text.removeprefix(before) for text in self._decode_all(rows)]
        return self._texts

    def text_of(self, ids: Sequence[int]) -> str:
        """Decode the tokens of one row, control tokens included."""
        return self._decode_all([list(ids)])[0]

    def _decode_all(self, rows: list[list[int]]) -> list[str]:
        """Decode rows of tokens as they are, special tokens included."""
        assert self._tokenizer is not None
        return self._tokenizer.batch_decode(rows, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def end_ids(ids: Iterable[int] | None, model: object, tokenizer: PreTrainedTokenizerBase | None) -> frozenset[int]:
    """Return the tokens that end a row: `ids` if given, else those of the model's generation config and the tokenizer's."""
    if ids is not None:
        return frozenset(ids)
    own = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ends = {own} if isinstance(own, int) else set(own or ())
    return frozenset({*ends, getattr(tokenizer, "eos_token_id", None)} - {None})


def room_behind(prefix: Prefix, longest: int | None, limit: str) -> int:
    """Return the tokens that may follow a prefix, within `longest` in all, if any; UsageError if it is empty or longer.

    Raises:
        UsageError: the prefix is empty, or longer than that.
    """
    length = len(prefix.ids)
    if not length:
        raise UsageError("a prefix has no tokens: there is nothing to go on from")
    if longest is None:
        return prefix.max_new_tokens
    if length > longest:
        raise UsageError(f"a prefix has {length} tokens; {limit} is {longest}")
    return min(prefix.max_new_tokens, longest - length)


class Slots:
    """Keys, values and attention mask of a batch. A slot is a place in it; several rows may have it one after another.

    Attributes:
        begin: the first column behind the prefixes.
    """

    def __init__(self, filled: PrefilledBatch, steps: int) -> None:
        """Take over a batch after its prefixes, for at most so many passes."""
        self.begin = self._column = filled.valid.shape[1]
        self._most = self.begin + steps
        self._cache = SlotCache(filled.states.shape[0] // 2, 0, filled.states)
        self._mask = None
        if not bool(filled.valid.all()):
            after = torch.ones(filled.valid.shape[0], steps, dtype=torch.bool)
            valid = torch.cat([filled.valid, after], 1).to(filled.states.device)
            # (slots, 1, 1, columns): made once, and sliced in each pass; None if there are no holes.
            self._mask = additive(valid, filled.states.dtype)[:, None, None]

    @property
    def states(self) -> torch.Tensor:
        """Keys and values, (2 * layers, slots, heads, columns, dim)."""
        assert self._cache.states is not None
        return self._cache.states

    def next_pass(self) -> dict[str, Any]:
        """Advance by a column, with more room if needed, and return the model's arguments for it, one token a slot."""
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
            states[:, targets, :, : self._column] = states[:, sources, :, : self._column]
        self._cache.states = states[:, :count]
        self._mask = None if self._mask is None else self._mask[torch.tensor(order, device=states.device)]
        return order


class Decoding:
    """The decoding loop of a batch of rows, each in a slot."""

    def __init__(
        self,
        *,
        model: Any,
        rows: list[DecodeRow],
        filled: PrefilledBatch,
        sampling: Sampling,
        ends: frozenset[int],
        stops: StopTexts,
        keep: Callable[[str, CachedTokens], None],
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
        """Return the positions of drawn tokens, (rows, steps); a row that ended must not run past the model's last position."""
        starts = torch.tensor([len(row.prefix.ids) for row in self._rows]).unsqueeze(1)
        lasts = torch.tensor([len(row.prefix.ids) + row.limit - 1 for row in self._rows]).unsqueeze(1)
        return torch.minimum(starts + torch.arange(self._steps), lasts)

    def run(self) -> None:
        """Decode until every row has ended, keeping sessions' caches; FloatingPointError for logits that are not finite."""
        logits = self._logits
        for step in range(self._steps):
            samples = draw(logits, self._uniforms[:, step], self._sampling, self._allowed)
            self._history.append((samples.logprobs, samples.entropies))
            ended = self._note(samples.ids.tolist())
            ids = samples.ids
            if ended:
                self._finish(ended)
                if not self._running:
                    break
                if (order := self._slots.drop([slot for slot, _ in self._running])) is not None:
                    ids = ids[self._reorder(order)]
            logits = self._forward(ids, step)
        self._flush()

    def _note(self, tokens: list[int]) -> list[tuple[int, DecodeRow]]:
        """Add a token to each row that still runs; return those that it ends."""
        ended = []
        for slot, row in self._running:
            token = tokens[slot]
            row.ids.append(token)
            if (token in self._watched[slot] and self._is_end(row, token)) or len(row.ids) == row.limit:
                ended.append((slot, row))
        return ended

    def _is_end(self, row: DecodeRow, token: int) -> bool:
        """Set the row's finish where a token ends it (`eos`, `stop`), and return whether the row has ended."""
        if token in self._ends:
            row.finish = "eos"
        elif self._stops.complete(row.ids, row.prefix.stop) and not row.prefix.is_thinking(
            self._stops.text_of(row.ids)
        ):
            row.finish = "stop"
        return row.finish != "length"

    def _finish(self, ended: list[tuple[int, DecodeRow]]) -> None:
        """Keep what sessions need of rows that ended: all their tokens but the last, which the model has not read."""
        for slot, row in ended:
            if row.prefix.session:
                states = self._slots.states[:, slot]
                stop = self._slots.begin + len(row.ids) - 1
                parts = [states[:, :, row.old[0] : row.old[1]], states[:, :, row.new : stop]]
                cache = CachedTokens(row.prefix.ids + tuple(row.ids[:-1]), torch.cat(parts, dim=2))
                self._keep(row.prefix.session, cache)
        ended_slots = {slot for slot, _ in ended}
        self._running = [(slot, row) for slot, row in self._running if slot not in ended_slots]

    def _reorder(self, order: list[int]) -> torch.Tensor:
        """Follow rows into other slots; return where each slot that stays has its row from, (slots,)."""
        self._flush()
        sources = torch.tensor(order, device=self._positions.device)
        self._uniforms, self._positions = self._uniforms[sources], self._positions[sources]
        self._allowed = None if self._allowed is None else self._allowed[sources]
        self._rows = [self._rows[slot] for slot in order]
        self._watched = [self._watched[slot] for slot in order]
        self._running = list(enumerate(self._rows))
        return sources

    def _forward(self, ids: torch.Tensor, step: int) -> torch.Tensor:
        """Run the model on one token a slot; return the logits of the next, (slots, vocabulary)."""
        positions = self._positions[:, step : step + 1]
        return last_logits(self._model, input_ids=ids.unsqueeze(1), position_ids=positions, **self._slots.next_pass())

    def _flush(self) -> None:
        """Give rows the logprobs and entropies drawn since slots were assigned; FloatingPointError if they are not finite."""
        logprobs = torch.stack([logprobs for logprobs, _ in self._history], 1)  # (slots, steps)
        entropies = torch.stack([entropies for _, entropies in self._history], 1)
        if not bool(torch.isfinite(logprobs).all()):
            raise FloatingPointError("the model's logits are not finite: its weights diverged, or its dtype overflows")
        for row, some, others in zip(self._rows, logprobs.tolist(), entropies.tolist(), strict=True):
            missing = len(row.ids) - len(row.logprobs)
            row.logprobs += some[:missing]
            row.entropies += others[:missing]
        self._history = []
