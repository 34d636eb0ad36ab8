"""Files of patterns are compiled here: `agent_words.txt`, by which agents ask, propose, refuse and report, and two others."""

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files

_OWN = "agent_words.txt"


class Words:
    """A pattern that is tried only on a text that has one of its bits; but for topics, one stands in all that it finds."""

    def __init__(self, text: str, bits: tuple[str, ...] = (), flags: int = 0) -> None:
        """Take a pattern and its bits; without any it is tried on every text."""
        self.compiled, self.bits = re.compile(text, flags), bits

    def stand(self, text: str) -> bool:
        """Return whether a text has one of the bits, without which the pattern cannot match; True where there are none."""
        for bit in self.bits:  # half the time of a generator, hundreds of times a sentence
            if bit in text:
                return True
        return not self.bits

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match in a text; None without one."""
        return self.compiled.search(text) if self.stand(text) else None

    def sub(self, new: str | Callable[[re.Match[str]], str], text: str) -> str:
        """Return a text with the matches replaced; unchanged where there are none."""
        return self.compiled.sub(new, text) if self.stand(text) else text


def words(name: str, file: str = _OWN, flags: int = 0) -> Words:
    """Return the words of a section of a file."""
    return sections(file, flags)[name]


@cache
def sections(file: str, flags: int) -> dict[str, Words]:
    """Return the words of every section of a file, cached; compiled together, so that no conversation waits for them."""
    return {name: Words("|".join(lines or bits), bits, flags) for name, (bits, lines) in _sections(file).items()}


def topics() -> tuple[tuple[str, Words], ...]:
    """Return the name and the words of each topic, in the file's order."""
    return tuple((name[6:], words) for name, words in sections(_OWN, 0).items() if name.startswith("topic "))


@cache
def _sections(file: str) -> dict[str, tuple[tuple[str, ...], list[str]]]:
    """Return each section's bits and alternatives by its name, {NAME} of earlier sections filled in; cached."""
    sections: dict[str, tuple[tuple[str, ...], list[str]]] = {}
    patterns: dict[str, list[str]] = {}
    name = ""
    for line in files(__package__).joinpath(file).read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            name, _, bits = line.removeprefix("== ").partition(" //")[0].partition(": ")
            sections[name], patterns[name] = (tuple(bits.split(", ")) if bits else (), []), []
        elif line.startswith("= "):
            phrases = [phrase.strip().replace("*", "s?") for phrase in line[2:].split(",") if phrase.strip()]
            patterns[name] += phrases
            sections[name][1].append(rf"\b(?:{'|'.join(phrases)})\b")
        elif line and not line.startswith("//"):
            for other, alternatives in patterns.items():
                line = line.replace(f"{{{other}}}", f"(?:{'|'.join(alternatives)})")
            patterns[name].append(line)
            sections[name][1].append(line)
    return sections
