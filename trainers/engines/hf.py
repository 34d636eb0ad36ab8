"""`HFEngine` samples from a transformers model that the trainer shares: nothing is copied when its weights change.

It keeps each conversation's keys and values from turn to turn, so a turn costs its new tokens only. They belong to the
weights that made them: call `forget()` after every change of weights. Without it a kept conversation goes on from the
keys and values of old weights under new ones, and its logprobs are those of neither model.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from agent_envs.base.errors import UsageError
from trainers.contracts import Generated, Prefix, Sampling
from trainers.engines.decode import ROOM, Decoding, StopTexts, check_sampling, end_ids, room_behind
from trainers.engines.kv_cache import SessionStore, check_cacheable, evaluating
from trainers.engines.prefill import DecodeRow, prefill

LIMIT = "the model's max_position_embeddings"


class HFEngine:
    """Tokens in, tokens out, by a causal language model of transformers, plain or with LoRA adapters of peft.

    Attributes:
        batch: how many rows are decoded at a time.
        eos_ids: tokens that end a row.
        cache_misses: rows whose prefix began otherwise than what their session had kept, so that all of it was computed.
        prefilled_tokens: prefix tokens that went through the model so far: of each prefix what follows its longest
            beginning that is kept, or that other rows of the batch have, too.
        exact_entropies: True; an engine that estimates them has False.
    """

    exact_entropies = True

    def __init__(
        self,
        model: Any,
        tokenizer: PreTrainedTokenizerBase | None,
        *,
        batch: int = 64,
        cache_tokens: int = 262_144,
        eos_ids: Iterable[int] | None = None,
    ) -> None:
        """Look at a model, and refuse one whose cache could not be kept exactly.

        Args:
            model: on its device, unwrapped (no DistributedDataParallel around it).
            tokenizer: decodes what stop texts are looked for in; None if no prefix has any.
            batch: rows a pass; more prefixes are taken in turns.
            cache_tokens: how many tokens are kept over all sessions; the least recently used go first.
            eos_ids: default: those of the model's generation configuration and of the tokenizer.
        """
        if batch < 1:
            raise UsageError(f"batch={batch}: give at least 1")
        if getattr(model, "active_peft_config", None) is not None and model.active_peft_config.is_prompt_learning:
            raise UsageError("HFEngine takes adapters that change weights (LoRA), not learnt prompts")
        config = model.config.get_text_config(decoder=True)
        check_cacheable(config)
        self.batch = batch
        self.eos_ids = end_ids(eos_ids, model, tokenizer)
        self.cache_misses = self.prefilled_tokens = 0
        self._model = model
        self._layers: int = config.num_hidden_layers
        self._longest: int | None = getattr(config, "max_position_embeddings", None)
        self._stops = StopTexts(tokenizer)
        self._sessions = SessionStore(cache_tokens)

    def fork(self, session: str, new: str) -> None:
        """Share a session's cache with a new session, with all that it reads in the same context later."""
        self._sessions.fork(session, new)

    def forget(self) -> None:
        """Drop all kept caches: after every change of weights, and between batches of episodes."""
        self._sessions.clear()

    @property
    def kept_tokens(self) -> int:
        """The number of cached tokens over all sessions."""
        return self._sessions.tokens

    def generate(self, prefixes: Sequence[Prefix], sampling: Sampling) -> list[Generated]:
        """Generate a continuation of each prefix, in their order, empty ones without room; UsageError for one too long."""
        check_sampling(sampling)
        rows = [DecodeRow(prefix, room_behind(prefix, self._longest, LIMIT), None) for prefix in prefixes]
        open_rows = [row for row in rows if row.limit > 0]
        if len(open_rows) > self.batch:
            # Equal prefixes come together, and rows of like length.
            open_rows.sort(key=lambda row: (len(row.prefix.ids), row.prefix.ids))
        with torch.inference_mode(), evaluating(self._model):
            for start in range(0, len(open_rows), self.batch):
                self._generate(open_rows[start : start + self.batch], sampling)
        return [Generated(tuple(row.ids), tuple(row.logprobs), tuple(row.entropies), row.finish) for row in rows]

    def _generate(self, rows: list[DecodeRow], sampling: Sampling) -> None:
        """Prefill the rows from their sessions' caches, and decode them until each has ended."""
        for row in rows:
            session = row.prefix.session
            row.cache, row.shared = self._sessions.longest(session, row.prefix.ids)
            self.cache_misses += session in self._sessions and row.cache is None
        filled = prefill(self._model, rows, self._layers, min(ROOM, max(row.limit for row in rows)))
        self.prefilled_tokens += filled.computed
        for row in rows:
            row.cache = None
        decoding = Decoding(
            model=self._model,
            rows=rows,
            filled=filled,
            sampling=sampling,
            ends=self.eos_ids,
            stops=self._stops,
            keep=self._sessions.put,
        )
        decoding.run()
