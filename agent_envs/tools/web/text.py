"""Texts of strangers are cleaned before they are kept: whole characters, none that controls a terminal, bounded length."""

import re

# Control characters but tab and line feed, lone surrogates, non-characters, and what takes no room: soft hyphen, zero-width
# space, byte order mark.
_UNSOUND = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b\ufeff\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def sound(text: str) -> str:
    """Return a text of several lines with unsound characters left out."""
    return _UNSOUND.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str, most: int) -> str:
    """Return at most so many characters of a text, every run of white space as one blank."""
    return " ".join(_UNSOUND.sub(" ", text[: 8 * most]).split())[:most].rstrip()
