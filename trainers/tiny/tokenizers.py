"""Tokenizers of words and of bytes are made here; texts come back exactly, but for two marks of the word-level ones."""

import re
from collections.abc import Iterable, Sequence

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SPACE, JOINED = "\u2581", "\u2040"
PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
ROLES = ("system\n", "user\n", "assistant\n", "tool\n")
CONTEXT = 4096


def word_tokenizer(
    texts: Iterable[str], *, phrases: Iterable[str] = (), digits: bool = False, roles: Sequence[str] = ROLES
) -> PreTrainedTokenizerFast:
    """Return a word-level tokenizer that knows every word, tag and punctuation mark of `texts`, or of a list of words.

    Args:
        texts: what the vocabulary is drawn from.
        phrases: texts that become one token each wherever they stand; a longer one goes first.
        digits: spell numbers digit by digit, instead of a token for every number that was seen.
        roles: the first lines of a chat template's messages, one token each as well.
    """
    word = r"[^\W\d_]" if digits else r"[^\W_]"
    normalizer = _normalizer(word)
    bodies = {normalizer.normalize_str(phrase).removeprefix(JOINED) for phrase in (*phrases, *roles) if phrase}
    ordered = sorted(bodies, key=lambda body: (-len(body), body))
    splitter = pre_tokenizers.Split(Regex(_pattern(ordered, word)), "isolated")
    seen = {
        piece.strip(JOINED) for text in texts for piece, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))
    }
    vocabulary = [PAD, START, END, *(f"<0x{byte:02X}>" for byte in range(256)), SPACE, JOINED, "\n"]
    whole = re.compile(rf"{SPACE}{word}+")
    for piece in [*ordered, *sorted((seen | set("0123456789" if digits else "")) - bodies - {"", SPACE})]:
        # A word is always after a space or after a joining mark; whatever else may carry that mark.
        forms = [piece] if whole.fullmatch(piece) else [piece, piece + JOINED]
        if piece in bodies and piece.startswith(SPACE):
            forms += [JOINED + form for form in forms]
        vocabulary += forms
    ids = {piece: place for place, piece in enumerate(dict.fromkeys(vocabulary))}
    backend = Tokenizer(models.BPE(vocab=ids, merges=[], byte_fallback=True, ignore_merges=True))
    backend.normalizer = normalizer
    backend.pre_tokenizer = splitter
    joints = [decoders.Replace(JOINED + SPACE, ""), decoders.Replace(JOINED, ""), decoders.Replace(SPACE, " ")]
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), *joints])
    return _fast(backend)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer whose tokens are the 256 bytes and the three special ones: for open vocabularies."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids = {piece: place for place, piece in enumerate([PAD, START, END, *alphabet])}
    backend = Tokenizer(models.BPE(vocab=ids, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return _fast(backend)


def pieces_of(tokenizer: PreTrainedTokenizerFast, text: str) -> list[str]:
    """Return a text cut into what is a token each, where the vocabulary has it."""
    backend = tokenizer.backend_tokenizer
    return [piece for piece, _ in backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str(text))]


def ids_of(tokenizer: PreTrainedTokenizerFast, phrases: Iterable[str]) -> frozenset[int]:
    """Return the tokens that are one of some phrases, whatever marks they carry."""
    normalize = tokenizer.backend_tokenizer.normalizer.normalize_str
    bodies = {normalize(phrase).strip(JOINED) for phrase in phrases}
    return frozenset(number for piece, number in tokenizer.get_vocab().items() if piece.strip(JOINED) in bodies)


def _normalizer(word: str) -> normalizers.Sequence:
    """Spaces become marks, and a word that follows no space gets one, after a sign that it is not there. Tags stay."""
    tag = rf"(?:(?<=<){word}+>|(?<=</){word}+>)"
    joint = Regex(rf"(?<![{SPACE}{word}])(?={word})(?!{tag})")
    return normalizers.Sequence([normalizers.Replace(" ", SPACE), normalizers.Replace(joint, JOINED + SPACE)])


def _pattern(bodies: Sequence[str], word: str) -> str:
    """Return what a piece is: a phrase, a tag, a word, line breaks, or one character of anything else."""
    # A phrase that ends in a word must not end within a longer one.
    phrases = [
        f"{JOINED}?{re.escape(body)}{JOINED}?" + (f"(?!{word})" if body[-1].isalnum() else "") for body in bodies
    ]
    return "|".join([*phrases, f"</?{word}+>{JOINED}?", f"{SPACE}?{word}+", f"\\n+{JOINED}?", f"[\\s\\S]{JOINED}?"])


def _fast(backend: Tokenizer) -> PreTrainedTokenizerFast:
    backend.add_special_tokens([PAD, START, END])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[START],
        clean_up_tokenization_spaces=False,
        model_max_length=CONTEXT,
    )
