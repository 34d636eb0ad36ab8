"""A codec turns text to tokens and back, in the middle of a conversation."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from trainers.tokens.control import ControlTokens


class Codec:
    """Encodes and decodes pieces of a conversation as they stand in it.

    Some tokenizers treat the first text of all differently (a space comes or goes). So pieces are encoded and decoded behind
    an anchor, a control token that is then taken off.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, control: ControlTokens) -> None:
        """Take a tokenizer and its control tokens."""
        self._tokenizer = tokenizer
        self._control = control
        self._anchor = self._found_anchor()

    def rendered(self, text: str) -> tuple[int, ...]:
        """Return a piece that a template wrote, control tokens included, as tokens."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False, verbose=False))

    def encode(self, text: str) -> tuple[int, ...]:
        """Return a text inside a turn as tokens; control tokens must have been broken up before."""
        if not text:
            return ()
        if self._anchor is not None:
            number, anchor = self._anchor
            first, *rest = self.rendered(anchor + text)
            if first == number:
                return tuple(rest)
        return self.rendered(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, every space as it is, without control tokens."""
        kept = [number for number in ids if number not in self._control.texts]
        if not kept or self._anchor is None:
            return self._decoded(kept)
        number, text = self._anchor
        return self._decoded([number, *kept]).removeprefix(text)

    def _decoded(self, ids: Sequence[int]) -> str:
        text = self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        assert isinstance(text, str)
        return text

    def _found_anchor(self) -> tuple[int, str] | None:
        added = self._tokenizer.added_tokens_decoder
        for number, text in self._control.texts.items():
            # Some tokens swallow the space behind them, and some decoders put one between all tokens: no anchors those.
            if added[number].rstrip or self.rendered(text) != (number,):
                continue
            if self._decoded([number, number]) == text + text:
                return number, text
        return None
