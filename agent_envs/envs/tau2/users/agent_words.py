"""Files of patterns are compiled here: `agent_words.txt`, by which agents ask, propose, refuse and report, and two others."""

import re
from functools import cache
from importlib.resources import files

_OWN = "agent_words.txt"


@cache
def pattern(name: str, file: str = _OWN, flags: int = 0) -> re.Pattern[str]:
    """Return the pattern of a section of a file: any of its alternatives."""
    return re.compile("|".join(_sections(file)[name]), flags)


@cache
def topics() -> tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...]:
    """Return, of each topic in the file's order: its name, the bits of which one must occur, and its pattern."""
    found = []
    for name, lines in _sections(_OWN).items():
        topic, colon, bits = name.removeprefix("topic ").partition(": ")
        if colon:
            named = tuple(bits.split(", "))
            found.append((topic, named, re.compile("|".join(lines or named))))
    return tuple(found)


@cache
def _sections(file: str) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    known: dict[str, list[str]] = {}
    name = ""
    for line in files(__package__).joinpath(file).read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            name = line.removeprefix("== ").partition(" //")[0]
            sections[name], known[name] = [], []
        elif line.startswith("= "):
            phrases = [phrase.strip().replace("*", "s?") for phrase in line[2:].split(",") if phrase.strip()]
            known[name] += phrases
            sections[name].append(rf"\b(?:{'|'.join(phrases)})\b")
        elif line and not line.startswith("//"):
            for other, alternatives in known.items():
                line = line.replace(f"{{{other}}}", f"(?:{'|'.join(alternatives)})")
            known[name].append(line)
            sections[name].append(line)
    return sections
