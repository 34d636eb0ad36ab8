"""`Strict` is the base of pydantic models that are read from files; it is imported at use, because pydantic takes its time."""

import unicodedata

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Base of what is read from files: exact types, no unknown keys, no NaN."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, validate_by_name=True, serialize_by_alias=True
    )


def shown_safely(text: str) -> str:
    """Return a text that misleads no reader of a page or a terminal; for `AfterValidator`.

    Raises:
        ValueError: it holds a control, bidirectional or invisible character, or has another spelling.
    """
    if text != unicodedata.normalize("NFC", text):
        raise ValueError("not in Unicode's normal form C")
    # Format characters, bidirectional ones among them, are not printable in Python's sense.
    if not all(line.isprintable() for line in text.split("\n")):
        raise ValueError("holds a control, bidirectional or invisible character")
    return text


def one_line(text: str) -> str:
    """Return a name, which is one line without spaces around it, and is `shown_safely`; raises ValueError where it is not."""
    if "\n" in text or text != text.strip():
        raise ValueError("give one line without spaces around it")
    return shown_safely(text)
