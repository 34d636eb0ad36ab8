"""`HFEngine` samples from a transformers model that the trainer shares: nothing is copied when its weights change.

It keeps each conversation's keys and values from turn to turn, so a turn costs its new tokens only. They belong to the
weights that made them: call `forget()` after every change of weights. Without it a kept conversation goes on from the
keys and values of old weights under new ones, and its logprobs are those of neither model.
"""

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from agent_envs.base.errors import UsageError
from trainers.contracts import Generated, Prefix, Sampling, common_beginning
from trainers.engines.decode import StopTexts, check_sampling, end_ids, room_behind
from trainers.engines.kv_cache import CachedTokens, check_cacheable, evaluating
from trainers.engines.prefill import DecodeRow, PrefilledBatch, prefill
from trainers.engines.slots import ROOM, Decoding, Passes

_LOOK_EVERY = 8  # on a GPU each look waits for it
LIMIT = "the model's max_position_embeddings"


def free_memory(device: torch.device) -> int:
    """Return the bytes that nobody has taken of a GPU's memory, or of the machine's."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(
            device
        )  # which torch keeps for itself
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class SessionStore:
    """Cached conversations by name; the least recently used go first once they take more than `limit` bytes.

    A fork reads what its trunk has kept, then and later: where the trunk has read on in the same context, so has the fork.
    """

    def __init__(self, limit: float) -> None:
        """Set up an empty store that holds at most `limit` bytes."""
        self.limit = limit
        self.bytes = 0
        self._caches: OrderedDict[str, CachedTokens] = OrderedDict()
        self._trunks: dict[str, str] = {}  # of forks
        self._waiting: dict[str, list[str]] = {}  # forks that have nothing of their own yet, by their trunks

    def longest(self, name: str, ids: tuple[int, ...]) -> tuple[CachedTokens | None, int]:
        """Return the cache that shares most first tokens with `ids`, of a name or its trunk, and how many; None, 0 if none."""
        best, length = None, 0
        for each in (name, self._trunks.get(name, name)):
            cache = self._caches.get(each)
            if cache is not None and (alike := common_beginning(cache.ids, ids)) > length:
                best, length = cache, alike
                self._caches.move_to_end(each)
        return best, length

    def fork(self, name: str, new: str) -> None:
        """Share a session's cache with a new name; it is kept only once while the trunk goes on in that context."""
        trunk = name if name in self._caches else self._trunks.get(name, name)
        self._trunks[new] = trunk
        self._waiting.setdefault(trunk, []).append(new)

    @property
    def tokens(self) -> int:
        """The number of tokens that are cached."""
        return sum(len(cache.ids) for cache in self._caches.values())

    def __contains__(self, name: str) -> bool:
        """Return whether a conversation is cached."""
        return name in self._caches

    def put(self, name: str, cache: CachedTokens) -> None:
        """Replace the cache of a name; forks keep a context that is left, and the oldest caches go beyond the limit."""
        old = self._caches.get(name)
        if old is not None and common_beginning(old.ids, cache.ids) < len(old.ids):
            for fork in self._waiting.pop(name, ()):
                if fork not in self._caches:
                    self.put(fork, old)
        self.drop(name)
        self._caches[name] = cache
        self.bytes += cache.states.nbytes
        while self.bytes > self.limit:
            self.drop(next(iter(self._caches)))

    def drop(self, name: str) -> None:
        """Remove the cache of a name."""
        cache = self._caches.pop(name, None)
        self.bytes -= cache.states.nbytes if cache else 0

    def clear(self) -> None:
        """Remove all caches, and what is known of forks."""
        self._caches.clear()
        self._trunks.clear()
        self._waiting.clear()
        self.bytes = 0


class HFEngine:
    """Tokens in, tokens out, by a causal language model of transformers, plain or with LoRA adapters of peft.

    Attributes:
        batch: how many rows are decoded at a time.
        eos_ids: tokens that end a row.
        cache_misses: rows whose prefix began otherwise than what their session had kept, so that all of it was computed.
        prefilled_tokens: prefix tokens that went through the model so far: of each prefix what follows its longest
            beginning that is kept, or that other rows of the batch have, too.
        sampled_tokens: drawn so far; `slot_passes`: how often a slot took part in a draw, which is as many where none is idle.
        exact_entropies: True; an engine that estimates them has False.
    """

    exact_entropies = True

    def __init__(
        self, model: Any, tokenizer: PreTrainedTokenizerBase | None, *, batch: int = 64, cache_gb: float = 6.0,
        cache_share: float = 0.0, eos_ids: Iterable[int] | None = None, graphs: bool = False,
    ) -> None:  # fmt: skip
        """Look at a model, and refuse one whose cache could not be kept exactly.

        Args:
            model: on its device, unwrapped (no DistributedDataParallel around it).
            tokenizer: decodes what stop texts are looked for in; None if no prefix has any.
            batch: rows a pass: slots; further prefixes wait for the rows that end.
            cache_gb: of keys and values kept over all sessions, in 10**9 bytes; the least recently used go first.
            cache_share: of the memory that is free at the beginning of a call, in place of `cache_gb`; 0 for `cache_gb`.
            eos_ids: default: those of the model's generation configuration and of the tokenizer.
            graphs: capture the passes of decoding as CUDA graphs, in slots that are kept between calls.
        """
        if batch < 1:
            raise UsageError(f"batch={batch}: give at least 1")
        if getattr(model, "active_peft_config", None) is not None and model.active_peft_config.is_prompt_learning:
            raise UsageError("HFEngine takes adapters that change weights (LoRA), not learnt prompts")
        config = model.config.get_text_config(decoder=True)
        check_cacheable(config)
        self.batch = batch
        self.eos_ids = end_ids(eos_ids, model, tokenizer)
        self.cache_misses = self.prefilled_tokens = self.slot_passes = self.sampled_tokens = 0
        self._passes = Passes(model, sized=model.device.type != "cpu")
        if graphs:
            from trainers.engines.graphs import CapturedPasses

            self._passes = CapturedPasses(model, batch)
        self._look_every = _LOOK_EVERY if self._passes.sized else 1
        self._model = model
        self._layers: int = config.num_hidden_layers
        self._longest: int | None = getattr(config, "max_position_embeddings", None)
        self._stops = StopTexts(tokenizer)
        self._sessions, self._cache_share = SessionStore(cache_gb * 1e9), cache_share

    def fork(self, session: str, new: str) -> None:
        """Share a session's cache with a new session, with all that it reads in the same context later."""
        self._sessions.fork(session, new)

    def forget(self) -> None:
        """Drop all kept caches: after every change of weights, and between batches of episodes."""
        self._sessions.clear()

    def generate(self, prefixes: Sequence[Prefix], sampling: Sampling) -> list[Generated]:
        """Generate a continuation of each prefix, in their order, empty ones without room; UsageError for one too long."""
        check_sampling(sampling)
        if self._cache_share:
            self._sessions.limit = self._cache_share * (free_memory(self._model.device) + self._sessions.bytes)
        rows = [DecodeRow(prefix, room_behind(prefix, self._longest, LIMIT), None) for prefix in prefixes]
        open_rows = [row for row in rows if row.limit > 0]
        if len(open_rows) > self.batch:
            # Equal prefixes come together, and rows of like length, the longest first: the others fit where one has ended.
            open_rows.sort(key=lambda row: (-len(row.prefix.ids), row.prefix.ids))
        if open_rows:
            with torch.inference_mode(), evaluating(self._model):
                decoding = Decoding(
                    passes=self._passes, batches=self._batches(open_rows), rows=open_rows, sampling=sampling,
                    look_every=self._look_every, is_end=self._is_end, keep=self._sessions.put,
                )  # fmt: skip
                decoding.run()
            self.slot_passes += decoding.slot_passes
        self.sampled_tokens += sum(len(row.ids) for row in rows)
        return [Generated(tuple(row.ids), tuple(row.logprobs), tuple(row.entropies), row.finish) for row in rows]

    def _batches(self, rows: Sequence[DecodeRow]) -> Iterator[PrefilledBatch]:
        """Prefill the rows from their sessions' caches, as many at a time as there are slots, when they are asked for."""
        for start in range(0, len(rows), self.batch):
            batch = rows[start : start + self.batch]
            for row in batch:
                session = row.prefix.session
                row.cache, row.shared = self._sessions.longest(session, row.prefix.ids)
                self.cache_misses += session in self._sessions and row.cache is None
            filled = prefill(self._model, batch, self._layers, min(ROOM, max(row.limit for row in batch)))
            self.prefilled_tokens += filled.computed
            for row in batch:
                row.cache, row.watched = None, self.eos_ids | self._stops.last_tokens(row.prefix.stop)
            yield filled

    def _is_end(self, row: DecodeRow) -> bool:
        """Set the row's finish where its newest token ends it (`eos`, `stop`), and return whether the row has ended."""
        if row.ids[-1] in self.eos_ids:
            row.finish = "eos"
        elif self._stops.complete(row.ids, row.prefix.stop) and not row.prefix.is_thinking(
            self._stops.text_of(row.ids)
        ):
            row.finish = "stop"
        return row.finish != "length"
