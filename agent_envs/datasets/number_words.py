"""Whole numbers are written in English words and parsed back: `number_words(1204)` is "one thousand two hundred four"."""

import re

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES = ("", "thousand", "million", "billion", "trillion", "quadrillion", "quintillion")
LIMIT = 1000 ** len(_SCALES)


def _below_thousand(value: int) -> str:
    """Write a number from 0 to 999 in words, without "and"."""
    words = []
    if value >= 100:
        words.append(f"{_ONES[value // 100]} hundred")
        value %= 100
    if value >= 20:
        words.append(_TENS[value // 10] + (f"-{_ONES[value % 10]}" if value % 10 else ""))
    elif value or not words:
        words.append(_ONES[value])
    return " ".join(words)


_BELOW_THOUSAND = tuple(_below_thousand(value) for value in range(1000))
_VALUES = {word: value for value, word in enumerate(_BELOW_THOUSAND) if value < 20 or value in range(20, 100, 10)}
_SCALE_VALUES = {word: 1000**power for power, word in enumerate(_SCALES) if word}
_TOKEN = re.compile(r"[a-z]+")
_SHAPE = re.compile(r"[a-z]+(?:(?:, ?| ?- ?| +)[a-z]+)*")


def number_words(value: int) -> str:
    """Return the English cardinal of a number, without "and" and commas; ValueError below 0 or from 10**21 on.

    Args:
        value: at least 0 and below 10**21.

    Raises:
        ValueError: a number outside that range.
    """
    if 0 <= value < 1000:
        return _BELOW_THOUSAND[value]
    if not 0 <= value < LIMIT:
        raise ValueError(f"{value} is not in the range that has words here: 0 to 10**21 - 1")
    groups: list[str] = []
    power = 0
    while value:
        value, group = divmod(value, 1000)
        if group:
            groups.append(f"{_BELOW_THOUSAND[group]} {_SCALES[power]}" if power else _BELOW_THOUSAND[group])
        power += 1
    return " ".join(reversed(groups))


def parse_number_words(text: str) -> int:
    """Return the number that English words name; case, hyphens, commas and "and" do not matter. ValueError for others.

    Raises:
        ValueError: the text is not one cardinal below 10**21.
    """
    lowered = text.strip().lower()
    if len(lowered) > 1000 or not _SHAPE.fullmatch(lowered):
        raise ValueError(f"not a number in words: {text[:80]!r}")
    words = [word for word in _TOKEN.findall(lowered) if word != "and"]
    total, start, last_scale = 0, 0, LIMIT
    for place, word in enumerate(words):
        if word in _SCALE_VALUES:
            scale = _SCALE_VALUES[word]
            if scale >= last_scale or place == start:
                raise ValueError(f"not a number in words: {text[:80]!r}")
            total += _group(words[start:place], text) * scale
            start, last_scale = place + 1, scale
    if start == len(words) and words:
        return total
    return total + _group(words[start:], text)


def _group(words: list[str], text: str) -> int:
    """Return the value of the words of a number below a thousand; ValueError for any other words or order."""
    value = 0
    hundreds = words[1:2] == ["hundred"]
    rest = words[2:] if hundreds else words
    if hundreds:
        value = 100 * _VALUES.get(words[0], 0)
    value += sum(_VALUES.get(word, 0) for word in rest)
    # Only the one right order of words gives the words back.
    if not 0 <= value < 1000 or _BELOW_THOUSAND[value].replace("-", " ").split() != words:
        raise ValueError(f"not a number in words: {text[:80]!r}")
    return value
