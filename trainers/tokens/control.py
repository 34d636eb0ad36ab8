"""Control tokens build the turns of a chat template, and no message may smuggle them in as text."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

_BRACKETED = re.compile(r"[<\[{|｜].+[>\]}|｜]", re.DOTALL)
_TAG = re.compile(r"</?[a-z_]+>")
_WORDS = re.compile(r"</?(?:think|tool_call|tool_response|tools)>")  # policies and prompts write these


class ControlTokens:
    """The tokens of a template's frame and the special tokens of a tokenizer.

    Attributes:
        texts: id -> text.
    """

    def __init__(self, texts: Mapping[int, str]) -> None:
        """Take the control tokens, and build the pattern that finds their texts in any case, longest first."""
        self.texts = dict(texts)
        longest_first = sorted(set(texts.values()), key=lambda text: (-len(text), text))
        pattern = "|".join(re.escape(text) for text in longest_first)
        # A normaliser of the tokenizer may fold case before it looks for them.
        self._pattern = re.compile(pattern or r"(?!)", re.IGNORECASE)

    def neutralise(self, text: str) -> tuple[str, int]:
        """Return a text in which no control token is spelled, and how many were broken up by a space."""
        text = text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
        broken = 0
        while True:  # a space can end one token's text and complete another's
            text, count = self._pattern.subn(_break_up, text)
            if not count:
                return text, broken
            broken += count

    def neutralise_all(self, value: Any) -> tuple[Any, int]:
        """Return a JSON-like value with every text in it neutralised, names included; and how many were broken up."""
        if isinstance(value, str):
            return self.neutralise(value)
        if isinstance(value, Mapping):
            names, values = self.neutralise_all(list(value)), self.neutralise_all(list(value.values()))
            return dict(zip(names[0], values[0], strict=True)), names[1] + values[1]
        if isinstance(value, list | tuple):
            items = [self.neutralise_all(item) for item in value]
            return [item[0] for item in items], sum(item[1] for item in items)
        return value, 0


def _break_up(match: re.Match[str]) -> str:
    """Return a control word with a space behind its first character; a single character becomes a space."""
    text = match[0]
    return f"{text[0]} {text[1:]}" if len(text) > 1 else " "


def control_tokens(tokenizer: PreTrainedTokenizerBase, frame: str) -> ControlTokens:
    """Return a tokenizer's control tokens: named or special ones but plain tags, and bracketed ones in the frame.

    They are the tokens that the tokenizer names (end of sequence, padding, ...), its special tokens but for plain XML-like
    tags, and the bracketed added tokens in the frame. Tags in which policies think and call tools are words, not control.

    Args:
        tokenizer: whose tokens.
        frame: what the template writes around the contents of a conversation.
    """
    special_names = {text for text in tokenizer.special_tokens_map.values() if isinstance(text, str)}
    texts: dict[int, str] = {}
    for number, token in tokenizer.added_tokens_decoder.items():
        text = token.content
        framing = bool(_BRACKETED.fullmatch(text)) and text in frame
        special = token.special and not _TAG.fullmatch(text)
        if text in special_names or ((framing or special) and not _WORDS.fullmatch(text)):
            texts[int(number)] = text
    return ControlTokens({number: text for number, text in texts.items() if not text.isspace()})


class Codec:
    """Encodes and decodes pieces of a conversation as they stand in it.

    Some tokenizers treat the first text of all differently (a space comes or goes). So pieces are encoded and decoded behind
    an anchor, a control token that is then taken off.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, control: ControlTokens) -> None:
        """Take a tokenizer and its control tokens."""
        self._tokenizer = tokenizer
        self._control = control
        self._anchor = self._find_anchor()

    def encode_rendered(self, text: str) -> tuple[int, ...]:
        """Return a piece that a template wrote, control tokens included, as tokens."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False, verbose=False))

    def encode(self, text: str) -> tuple[int, ...]:
        """Return a text inside a turn as tokens, () for ""; control tokens must have been broken up before."""
        if not text:
            return ()
        if self._anchor is not None:
            number, anchor = self._anchor
            first, *rest = self.encode_rendered(anchor + text)
            if first == number:
                return tuple(rest)
        return self.encode_rendered(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, every space as it is, without control tokens."""
        text_ids = [number for number in ids if number not in self._control.texts]
        if not text_ids or self._anchor is None:
            return self._decode(text_ids)
        number, text = self._anchor
        return self._decode([number, *text_ids]).removeprefix(text)

    def _decode(self, ids: Sequence[int]) -> str:
        """Decode tokens as they are, special ones included."""
        text = self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        assert isinstance(text, str)
        return text

    def _find_anchor(self) -> tuple[int, str] | None:
        """Return the id and text of the first control token that adds no space around itself, or None."""
        added_tokens = self._tokenizer.added_tokens_decoder
        for number, text in self._control.texts.items():
            # Some tokens swallow the space behind them, and some decoders put one between all tokens: no anchors those.
            if added_tokens[number].rstrip or self.encode_rendered(text) != (number,):
                continue
            if self._decode([number, number]) == text + text:
                return number, text
        return None
