"""An agent without a model parses what it was shown: messages, searches and reads, and words, amounts and days in texts."""

import re
from dataclasses import dataclass, field
from datetime import date

from agent_envs.envs.legal_search.dates import DAY, days_in
from agent_envs.envs.legal_search.tools import Read, Search, Wish, read_turn
from agent_envs.rollout.policy import Request
from agent_envs.tools.retrieval.bm25 import STOP_WORDS

_HIT = re.compile(r"^\d+\. ID: (.+)\n   Place: (.*)\n   Text: (.*)$", re.MULTILINE)
_PAGE = re.compile(r"\AID: (.+)\nPlace: (.*)\nAbove: .*\n(?:Page: .*\n)?\n")
_TURNS = re.compile(r"You have (\d{1,6}) turns")
_COMMON = frozenset((*STOP_WORDS, *"""one not any who holder holders business case does may must this there under whose
section premises day days hour hours month months year years dollar dollars percent how many much long what make makes out
put puts taking part end being""".split()))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shown:
    """A section as it was shown: its id, its place in the hierarchy, and (part of) its text."""

    id: str
    place: str
    text: str

    @property
    def lines(self) -> list[str]:
        """Its paragraphs, without their letters."""
        return [re.sub(r"^\(\w\) ", "", line.strip()) for line in self.text.splitlines() if line.strip()] or [""]


@dataclass
class Seen:
    """What a request tells: the question, what was done, the hits of each search, and what was read, in their order.

    Attributes:
        turns: how many turns there are.
    """

    question: str
    style: str
    turns: int
    wishes: list[Wish] = field(default_factory=list)
    hits: list[list[Shown]] = field(default_factory=list)
    read: list[Shown] = field(default_factory=list)

    @staticmethod
    def of(request: Request) -> "Seen":
        """Return what the messages of a request hold."""
        prompt = str(request.messages[0]["content"])
        question = prompt.rpartition("\nQuestion: ")[2].partition("\n")[0].strip()
        turns = _TURNS.search(prompt)
        seen = Seen(question, "json" if "<tool_call>" in prompt else "tags", int(turns[1]) if turns else 10)
        for message in request.messages[1:]:
            text = str(message["content"])
            if message["role"] == "assistant":
                seen.wishes.append(read_turn(text, seen.style)[1])
            elif found := hits_of(text):
                seen.hits.append(found)
            elif page := _PAGE.match(text):
                seen.read.append(Shown(page[1], page[2], text[page.end() :]))
        return seen

    @property
    def found(self) -> list[Shown]:
        """The hits of all searches."""
        return [hit for hits in self.hits for hit in hits]

    @property
    def queries(self) -> list[str]:
        """What was searched for."""
        return [wish.query for wish in self.wishes if isinstance(wish, Search)]

    @property
    def searches(self) -> list[tuple[str, str]]:
        """The searches as (tool, query)."""
        return [(wish.call.name, wish.query) for wish in self.wishes if isinstance(wish, Search)]

    @property
    def asked_for(self) -> list[str]:
        """The ids that were to be read."""
        return [wish.section_id for wish in self.wishes if isinstance(wish, Read) and not wish.up]

    def core(self, known: str = "") -> str:
        """Return the question without names, without what it tells of the case in brackets, and without known words."""
        question = self.question
        for name in names_in(question):
            question = question.replace(name, "")
        # What is never closed stays; matched as well, so that a text of open brackets alone is gone through once.
        words = re.sub(r"[(][^)\n]*([)]?)", lambda found: "" if found[1] else found[0], question).split()
        return " ".join(word for word in words if not words_of(word) & words_of(known))


def hits_of(text: str) -> list[Shown]:
    """Return the sections that a search showed."""
    return [Shown(*match.groups()) for match in _HIT.finditer(text)]


def words_of(text: str) -> set[str]:
    """Return the words of a text that count, without endings: their first five letters."""
    words = (word for word in re.findall(r"[a-z]{3,}", text.lower()) if word not in _COMMON)
    return {re.sub(r"(?:ing|ed|es|s|e)$", "", word)[:5] for word in words}


def shared(one: str, other: str) -> int:
    """Return how many words two texts share."""
    return len(words_of(one) & words_of(other))


def covered(text: str, other: str, besides: str = "") -> float:
    """Return the share of the words of a text, besides those of a third, that another text has."""
    words = words_of(text) - words_of(besides)
    return len(words & words_of(other)) / len(words) if words else 0.0


def names_in(question: str) -> list[str]:
    """Return the names of firms in a question."""
    return list(dict.fromkeys(re.findall(r"[A-Z][a-z]+ (?:&|and) [A-Z][a-z]+", question)))


def number_in(text: str) -> int:
    """Return the first amount of a text."""
    found = re.search(r"\$([\d,]+)|\b([\d,]+) (?:percent|days?|hours?|months?|years?|units)", text) or re.search(
        r"(\d+)()", text
    )
    return int(((found[1] or found[2]) if found else "0").replace(",", "")[:15])


def granted_in(case: str) -> date | None:
    """Return the day of a licence, which stands behind that word."""
    found = re.search(rf"licen[^.;()]{{0,40}}?({DAY.pattern})", case)
    return next(iter(days_in(found[1])), None) if found else None
