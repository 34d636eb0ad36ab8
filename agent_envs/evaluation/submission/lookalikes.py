"""Names that look alike are told: letters of several scripts in one name, and two names that a reader takes for one.

A name's skeleton is what is left when marks, case and forms are dropped and the Cyrillic and Greek letters that look like Latin
ones are replaced. The table is short on purpose: a flag is a hint to a person, and what it does not know is no proof.
"""

import unicodedata
from collections.abc import Iterable

_EAST = {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO"}  # written together, and with Latin
_CYRILLIC = "авԁеһіӏјкмнорԛѕтсуѵԝхɡ", "abdehiijkmhopqstcyvwxg"
_GREEK = "αβγεηικνορτυχω", "abyeniknoptuxw"
_LATIN = str.maketrans(f"{_CYRILLIC[0]}{_GREEK[0]}ı01|l", f"{_CYRILLIC[1]}{_GREEK[1]}ioiii")


def mixed_scripts(name: str) -> tuple[str, ...]:
    """Return the scripts of a name's letters, sorted, where they are seldom written together; else ()."""
    letters = (
        letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) in ("Lu", "Ll", "Lo")
    )
    scripts = {unicodedata.name(letter, "?").split()[0] for letter in letters}
    usual = {*_EAST, "LATIN"} if scripts & _EAST else {"LATIN"}
    return tuple(sorted(scripts)) if len(scripts) > 1 and scripts - usual else ()


def skeleton(name: str) -> str:
    """Return a name's skeleton: two names with one skeleton look alike."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    letters = "".join(letter for letter in plain if not unicodedata.category(letter).startswith("M"))
    return letters.translate(_LATIN).replace("rn", "m")


def lookalikes(name: str, others: Iterable[str]) -> list[str]:
    """Return the other names that look like this one, sorted, each once; not the name itself."""
    mine = skeleton(name)
    return sorted({other for other in others if other != name and skeleton(other) == mine})
