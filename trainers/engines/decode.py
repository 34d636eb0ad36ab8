"""Tokens are drawn from logits by one uniform each, through the inverse of the cumulative distribution.

A row ends at an end-of-sequence token, or at the token that completes a stop text.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from agent_envs.base.errors import UsageError
from trainers.contracts import Prefix, Sampling

_KEYS = 2**128
_BROKEN = "\N{REPLACEMENT CHARACTER}"


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


def allowed_table(allowed: Sequence[tuple[int, ...] | None], vocabulary: int) -> torch.Tensor:
    """Return the mask of tokens that rows may draw, all for None: (rows, vocabulary) of bool; UsageError for bad ids."""
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
