"""A section's bits are such that one stands in all that its patterns find: where none does, nothing is left unread."""

from itertools import product
from re import _parser as syntax  # type: ignore[attr-defined] # no public reader of patterns is there

import pytest

from agent_envs.envs.tau2.users.agent_words import Words, _sections, words
from tests.rows import each_row

FILES = ("agent_words.txt",)
SECTIONS = [
    (file, name)
    for file in FILES
    for name, (bits, lines) in _sections(file).items()
    if bits and lines and not name.startswith("topic ")
]
GAP = "\0"  # stands for what is no fixed text


def spelt(tree) -> list[str]:
    """Return the texts that a pattern's tree may find, with gaps."""
    return ["".join(parts) for parts in product(*(one_of(*node) for node in tree))]


def one_of(kind, value) -> list[str]:
    name = str(kind)
    if name == "LITERAL":
        return [chr(value)]
    if name == "BRANCH":
        return [text for branch in value[1] for text in spelt(branch)]
    if name == "SUBPATTERN":
        return spelt(value[3])
    if name == "IN" and len(value) < 5 and all(str(one) == "LITERAL" for one, _ in value):
        return [chr(char) for _, char in value]
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        least, most, inner = value
        if most == 1:
            return ["", *spelt(inner)]
        return [GAP] if least == 0 else [text * least + GAP for text in spelt(inner)]
    return [""] if name in ("AT", "ASSERT", "ASSERT_NOT") else [GAP]


def without_a_bit(pattern: str, bits: tuple[str, ...]) -> list[str]:
    return [text for text in spelt(syntax.parse(pattern)) if not any(bit in text for bit in bits)]


@pytest.mark.parametrize(("file", "name"), SECTIONS)
def test_a_bit_stands_in_all_that_a_section_finds(file, name):
    bits, lines = _sections(file)[name]
    assert [text for line in lines for text in without_a_bit(line, bits)] == []


@each_row(("pattern", "bits"), [("lift|end", ("lift",)), ("ends? (?:in|with)", ("ends",)), ("a*b", ("a",))])
def test_a_bit_that_is_lacking_is_seen(pattern, bits):
    assert without_a_bit(pattern, bits)


def test_words_without_bits_are_tried_on_every_text():
    told, gated = Words(r"\d+"), Words(r"\d+", ("1",))
    assert told.search("2 of them") and told.sub("x", "2") == "x"
    assert gated.search("2") is None and gated.sub("x", "2") == "2"
    assert words("travels").search("i am abroad")
