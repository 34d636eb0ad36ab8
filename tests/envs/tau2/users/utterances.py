"""The table of what agents say (`utterances.txt`), with what a user should understand of it.

Of the flags in `EXACT`, none may be missing or too many; the others are only held where the table names them.
"""

from pathlib import Path

EXACT = ("completes", "closes", "refuses", "transfers", "offers_transfer", "missed")


def _rows() -> tuple[tuple[str, str, str], ...]:
    lines = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    rows = (line.split("|", 2) for line in lines if line and not line.startswith("//"))
    return tuple((text.strip().replace("\\n", "\n"), topics.strip(), flags.strip()) for topics, flags, text in rows)


UTTERANCES = _rows()
