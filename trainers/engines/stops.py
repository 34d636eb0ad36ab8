"""A row's generation ends at an end-of-sequence token, or at the token that completes a stop text."""

from collections.abc import Iterable, Sequence

from transformers import PreTrainedTokenizerBase

from agent_envs.base.errors import UsageError

_BROKEN = "\N{REPLACEMENT CHARACTER}"


class StopTexts:
    """Finds stop texts in what is drawn, and looks only where the newest token may complete one."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase | None) -> None:
        """Remember whose texts the tokens have."""
        self._tokenizer = tokenizer
        self._texts: list[str] = []
        self._lasts: dict[str, frozenset[int]] = {}

    def last_tokens(self, stop: tuple[str, ...]) -> frozenset[int]:
        """The tokens that may complete one of these texts: those that hold the last character of one."""
        return frozenset().union(*(self._with(text[-1:]) for text in stop))

    def complete(self, ids: Sequence[int], stop: tuple[str, ...]) -> bool:
        """Whether the decoded end of `ids` holds a stop text, of which the newest token is part."""
        longest = max(map(len, stop))
        needed = longest + len(self._decode(ids[-1:])) + 1
        window, tail = longest, ""
        # Tokens may be parts of a character, or have no text: go back until the tail is surely long enough.
        while len(tail) < needed and window < 2 * len(ids) + longest:
            window *= 2
            tail = self._decode(ids[-window:])
        return any(text in tail for text in stop)

    def _with(self, character: str) -> frozenset[int]:
        if not character:
            raise UsageError("stop: an empty text is everywhere; leave it out")
        if character not in self._lasts:
            marks = (character,) if character.isascii() else (character, _BROKEN)
            texts = self._token_texts()
            self._lasts[character] = frozenset(i for i, text in enumerate(texts) if any(mark in text for mark in marks))
        return self._lasts[character]

    def _token_texts(self) -> list[str]:
        if self._tokenizer is None:
            raise UsageError("stop texts need a tokenizer: give one to HFEngine")
        if not self._texts:
            # After another token, since decoders drop a space at the beginning of a text.
            anchor = self._tokenizer.encode("a", add_special_tokens=False)
            before = self._decode(anchor)
            rows = [[*anchor, token] for token in range(len(self._tokenizer))]
            self._texts = [text.removeprefix(before) for text in self._decode_all(rows)]
        return self._texts

    def _decode(self, ids: Sequence[int]) -> str:
        return self._decode_all([list(ids)])[0]

    def _decode_all(self, rows: list[list[int]]) -> list[str]:
        assert self._tokenizer is not None
        return self._tokenizer.batch_decode(rows, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def end_ids(given: Iterable[int] | None, model: object, tokenizer: PreTrainedTokenizerBase | None) -> frozenset[int]:
    """The tokens that end a row: those given, else the model's and the tokenizer's own."""
    if given is not None:
        return frozenset(given)
    own = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    found = {own} if isinstance(own, int) else set(own or ())
    if tokenizer is not None and tokenizer.eos_token_id is not None:
        found.add(tokenizer.eos_token_id)
    return frozenset(found)
