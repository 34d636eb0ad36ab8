"""A library is a body of law, or a set of contracts, as a tree of sections that is searched and read."""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from agent_envs.base.caches import Uncopied
from agent_envs.base.documents import MemoryCorpus, Passage

_NUMBER = re.compile(r"\b\d+(?:[:.]\d+)*-\d+(?:[.:-]?\w+)*")


@dataclass(frozen=True, slots=True)
class Section:
    """One node of a hierarchy.

    Attributes:
        id: opaque: real ids hold ":", spaces and "§", so an id is looked up and never taken apart.
        parent: the id above; "" for a root.
        children: the ids directly below, in reading order.
        level: what kind of node it is: "title", "chapter", "section", "paragraph", "agreement", "clause".
        number: as texts cite it; may be "" for a node that is never cited.
        heading: its heading without the number; may be "".
        text: its own text, without that of its children; may be "".
    """

    id: str
    parent: str
    children: tuple[str, ...]
    level: str
    number: str
    heading: str
    text: str

    @property
    def label(self) -> str:
        """Number and heading, by level: "§ 7:2-116. Fees", "Title 7. Animals", "(a)"; the heading is left out where empty."""
        if self.level == "section":
            mark = f"§ {self.number}"
        elif self.number.startswith("("):
            mark = self.number
        else:
            mark = f"{self.level.capitalize()} {self.number}".strip()
        return f"{mark}. {self.heading}" if self.heading else mark


class Library(Uncopied):
    """An immutable tree of sections in reading order, shared by everything that searches or reads it.

    `digest` is a sha256 over all content in its order: it names the library in task identities and caches.
    """

    def __init__(self, name: str, sections: Iterable[Section]) -> None:
        """Take the sections in reading order, parents before their children.

        Raises ValueError: an id is empty or used twice, or a link leads nowhere or in one direction only.
        """
        self.name = name
        table: dict[str, Section] = {}
        for section in sections:
            if not section.id or section.id in table:
                raise ValueError(f"section id {section.id!r} is empty or used twice")
            if section.parent and section.parent not in table:
                raise ValueError(f"section {section.id!r} comes before its parent {section.parent!r}, or has none")
            table[section.id] = section
        listed = [(child, section.id) for section in table.values() for child in section.children]
        below = [(section.id, section.parent) for section in table.values() if section.parent]
        if sorted(listed) != sorted(below):
            pair = min(set(listed) ^ set(below), default=("", ""))
            raise ValueError(f"the links between {pair[0]!r} and {pair[1]!r} disagree, or are doubled")
        self.sections: Mapping[str, Section] = MappingProxyType(table)
        self.digest = _digest(table.values())

    def __len__(self) -> int:
        return len(self.sections)

    def read(self, section_id: str) -> Section:
        """Return a section; raises KeyError where there is none."""
        return self.sections[section_id]

    def find(self, name: str) -> str:
        """Return a section's id by its id, or by a number (with or without §) that it alone has; KeyError for any other name.

        Raises KeyError: there is neither.
        """
        return name if name in self.sections else self._numbers[name.removeprefix("§").strip()]

    @cached_property
    def _numbers(self) -> dict[str, str]:
        """The ids of sections by their numbers, without numbers that several have; cached."""
        numbered = [row for row in self.sections.values() if row.level == "section" and row.number]
        counts = Counter(row.number for row in numbered)
        return {row.number: row.id for row in numbered if counts[row.number] == 1}

    def ancestor(self, section_id: str, up: int) -> Section:
        """Return the section `up` levels above, or the root beyond it; KeyError without the section, ValueError for up < 0.

        Raises:
            KeyError: there is no such section.
            ValueError: `up` is negative.
        """
        if up < 0:
            raise ValueError(f"up={up}; give 0 or more")
        chain = self.path(section_id)
        return chain[max(0, len(chain) - 1 - up)]

    def path(self, section_id: str) -> tuple[Section, ...]:
        """Return the sections from the root down to this one; raises KeyError where there is none."""
        chain = [self.sections[section_id]]
        while chain[-1].parent:
            chain.append(self.sections[chain[-1].parent])
        return tuple(reversed(chain))

    def breadcrumb(self, section_id: str) -> str:
        """Return the labels from the root down to this section; raises KeyError where there is none."""
        return " > ".join(section.label for section in self.path(section_id))

    def below(self, section_id: str) -> Iterator[Section]:
        """Yield a section and all below it in reading order; raises KeyError where there is none."""
        waiting = [section_id]
        while waiting:
            section = self.sections[waiting.pop()]
            yield section
            waiting.extend(reversed(section.children))

    def without(self, removed: Collection[str]) -> "Library":
        """Return the library without some sections and all below (itself if none are given); KeyError for one not there."""
        removed_ids = {section.id for top in removed for section in self.below(top)}
        if not removed_ids:
            return self
        remaining = (section for section in self.sections.values() if section.id not in removed_ids)
        return Library(
            self.name,
            (
                replace(row, children=tuple(child for child in row.children if child not in removed_ids))
                for row in remaining
            ),
        )

    @cached_property
    def numbered_corpus(self) -> MemoryCorpus:
        """The corpus for keyword search, cached: a section's number is one term in it, its own repeated six times."""
        return MemoryCorpus(
            Passage(row.id, row.title, f"{as_terms(row.text)}{f' {as_terms(number)}' * 6 if number else ''}")
            for row in self.corpus.passages
            for number in (self.sections[row.id].number,)
        )

    @cached_property
    def corpus(self) -> MemoryCorpus:
        """One passage for each section with text of its own, titled with its place in the tree: what is searched; cached."""
        return MemoryCorpus(
            Passage(section.id, self.breadcrumb(section.id), section.text)
            for section in self.sections.values()
            if section.text
        )


def as_terms(text: str) -> str:
    """Return a text in which each number of a section ("34-604", "28:2-616.01") is one word to an engine that splits words."""
    return _NUMBER.sub(lambda match: re.sub(r"\W", "_", match[0]), text)


def _digest(sections: Iterable[Section]) -> str:
    """Return the sha256 over all fields of sections, children in order, each with its length: none is ambiguous."""
    checksum = hashlib.sha256()
    for section in sections:
        parts = (section.id, section.parent, section.level, section.number, section.heading, section.text)
        for part in (*parts, str(len(section.children)), *section.children):
            data = part.encode("utf-8", "surrogatepass")
            checksum.update(len(data).to_bytes(8, "big") + data)
    return checksum.hexdigest()
