"""Numbers in words: known spellings, the way back, and what is no number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.datasets.number_words import LIMIT, number_words, parse_number_words
from tests.rows import each_row

KNOWN = {
    0: "zero",
    7: "seven",
    10: "ten",
    13: "thirteen",
    20: "twenty",
    42: "forty-two",
    100: "one hundred",
    101: "one hundred one",
    999: "nine hundred ninety-nine",
    1000: "one thousand",
    1204: "one thousand two hundred four",
    40_000: "forty thousand",
    100_019: "one hundred thousand nineteen",
    1_000_001: "one million one",
    20_000_000_000_000_000_300: "twenty quintillion three hundred",
    LIMIT - 1: " ".join(
        f"nine hundred ninety-nine {scale}".strip()
        for scale in ("quintillion", "quadrillion", "trillion", "billion", "million", "thousand", "")
    ),
}


@each_row(("value", "words"), KNOWN.items())
def test_known_spellings(value: int, words: str) -> None:
    assert number_words(value) == words
    assert parse_number_words(words) == value


@given(st.integers(min_value=0, max_value=21).flatmap(lambda digits: st.integers(0, 10**digits - 1)))
def test_words_lead_back(value: int) -> None:
    assert parse_number_words(number_words(value)) == value


def test_small_numbers_have_words_of_their_own() -> None:
    words = [number_words(value) for value in range(20_000)]
    assert len(set(words)) == len(words)
    assert [parse_number_words(text) for text in words] == list(range(20_000))


def test_other_spellings_are_read() -> None:
    assert parse_number_words(" One Hundred and Five ") == 105
    assert parse_number_words("two thousand, three hundred and forty two") == 2342


@pytest.mark.parametrize("value", [-1, LIMIT])
def test_out_of_range(value: int) -> None:
    with pytest.raises(ValueError, match="not in the range"):
        number_words(value)


@each_row(
    "text",
    ["", "12", "hundred", "one one", "five twenty", "twenty zero", "twenty-eleven", "thousand", "zero hundred five",
     "one thousand million", "two thousand three thousand", "five apples", "and", "ten hundred", "one two hundred",
     "one hundred zero", "a hundred", "one " * 500],
)  # fmt: skip
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="not a number in words"):
        parse_number_words(text)


@given(st.text(max_size=60))
def test_any_text_is_a_number_or_a_value_error(text: str) -> None:
    try:
        value = parse_number_words(text)
    except ValueError:
        return
    assert 0 <= value < LIMIT
