"""`TokenRecord` keeps one episode in token ids: what was sampled is never encoded again, and all else carries mask 0."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.integrations.session import Row, Session

_SAID = "-said-"


class TokenRecord:
    """The tokens of a session's episode, for trainers that take ids and a mask. No torch: ids are ints.

    Attributes:
        prompt_ids: of the prompt, a given beginning of the first turn included.
        completion_ids: what follows, the policy's tokens and others.
        mask: 1 for each completion token that the policy sampled; `logprobs` are 0.0 at the others.
    """

    def __init__(self, tokenizer: Any, session: Session) -> None:
        """Encode the prompt of the episode that was just begun, with the tools that it offers."""
        self.tokenizer, self.session = tokenizer, session
        self.prompt_ids = self._encode(self._template(session.history) + session.info["prefill"])
        self.completion_ids: list[int] = []
        self.mask: list[int] = []
        self.logprobs: list[float] = []

    def sampled(self, ids: Sequence[int], logprobs: Sequence[float] | None = None) -> str:
        """Add what the policy sampled, up to the first stop string, and return its text."""
        kept = self._until_stop(list(ids))
        self.completion_ids += kept
        self.mask += [1] * len(kept)
        self.logprobs += list(logprobs)[: len(kept)] if logprobs is not None else [0.0] * len(kept)
        spoken = kept[:-1] if kept and kept[-1] == self.tokenizer.eos_token_id else kept
        return str(self.tokenizer.decode(spoken, skip_special_tokens=False))

    def answered(self, messages: Sequence[Row]) -> list[int]:
        """Return the ids of messages that answer the last turn, up to where the next one begins; `add` adds them."""
        info = self.session.info
        if info["context"] != "append":
            raise UsageError("its context is replaced every turn (Memory?), and tokens can only be added")
        before = [{"role": "user", "content": "-"}, {"role": "assistant", "content": _SAID}]
        head, said, closing = self._template([*before, *messages]).partition(_SAID)
        if not (said and head.startswith(self._template(before[:1], more=False))):
            raise UsageError("the chat template rewrites earlier turns: choose one to which messages can be added")
        closing += info["prefill"]
        if self.completion_ids[-1:] == [self.tokenizer.eos_token_id]:
            closing = closing.removeprefix(self.tokenizer.eos_token)
        return self._encode(closing)

    def add(self, ids: Sequence[int]) -> None:
        """Add tokens that the policy did not sample."""
        self.completion_ids += ids
        self.mask += [0] * len(ids)
        self.logprobs += [0.0] * len(ids)

    def _until_stop(self, ids: list[int]) -> list[int]:
        def stopped(length: int) -> bool:  # a longer beginning holds what a shorter one holds
            text = self.tokenizer.decode(ids[:length], skip_special_tokens=False)
            return any(end in text for end in self.session.info["stop"])

        return ids[: bisect_left(range(len(ids) + 1), True, key=stopped)]

    def _template(self, messages: Sequence[Row], more: bool = True) -> str:
        given = {"tools": self.session.tools or None, "tokenize": False, "add_generation_prompt": more}
        return str(self.tokenizer.apply_chat_template(list(messages), **given))

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
