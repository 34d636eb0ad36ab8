"""An agent without a model parses what it was shown: messages, searches and reads."""

import re
from dataclasses import dataclass, field

from agent_envs.envs.legal_search.cues import share, unit_of
from agent_envs.envs.legal_search.tools import Read, Search, Wish, read_turn
from agent_envs.rollout.policy import Request

_HIT = re.compile(r"^\d+\. ID: (.+)\n   Place: (.*)\n   Text: (.*)$", re.MULTILINE)
_PAGE = re.compile(r"\AID: (.+)\nPlace: (.*)\nAbove: .*\n(?:Page: .*\n)?\n")
_TURNS = re.compile(r"You have (\d{1,6}) turns")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A section as it was shown: its id, its place in the hierarchy, and (part of) its text."""

    id: str
    place: str
    text: str

    @property
    def lines(self) -> list[str]:
        """Its paragraphs without their letters and blank lines; [""] where there are none."""
        return [re.sub(r"^\(\w\) ", "", line.strip()) for line in self.text.splitlines() if line.strip()] or [""]

    @property
    def unit(self) -> str:
        """The unit of the first quantity of its text."""
        return unit_of(self.text)

    @property
    def heading(self) -> str:
        """Its heading."""
        return self.place.rpartition(". ")[2]

    @property
    def chapter(self) -> str:
        """The heading of its chapter."""
        return self.place.split(" > ")[-2:][0].partition(". ")[2]

    @property
    def country(self) -> str:
        """The country whose law it is: the last word of its title, "Trades of Arland"; "" where the title has no such end."""
        match = re.search(r" of ([A-Z]\w+)$", self.place.split(" > ")[0])
        return match[1] if match else ""

    def is_about(self, question: str) -> bool:
        """Return whether it is law of a country that a question names."""
        return bool(self.country) and self.country in question

    def is_called(self, question: str) -> bool:
        """Return whether its place names a country and a question has all words of its chapter's heading."""
        return bool(self.country) and share(self.chapter, question) == 1


@dataclass
class SearchHistory:
    """A conversation so far: the question, the wishes, the hits of each search, and the pages read, in their order.

    Attributes:
        turns: how many turns there are.
    """

    question: str
    style: str
    turns: int
    wishes: list[Wish] = field(default_factory=list)
    hits: list[list[Excerpt]] = field(default_factory=list)
    read: list[Excerpt] = field(default_factory=list)

    @staticmethod
    def of(request: Request) -> "SearchHistory":
        """Parse a request's messages: question, style, turn limit (10 if not told), and the wishes, hits and pages so far."""
        prompt = str(request.messages[0]["content"])
        question = prompt.rpartition("\nQuestion: ")[2].partition("\n")[0].strip()
        turns = _TURNS.search(prompt)
        history = SearchHistory(question, "json" if "<tool_call>" in prompt else "tags", int(turns[1]) if turns else 10)
        for message in request.messages[1:]:
            text = str(message["content"])
            if message["role"] == "assistant":
                history.wishes.append(read_turn(text, history.style)[1])
            elif hits := hits_of(text):
                history.hits.append(hits)
            elif page := _PAGE.match(text):
                history.read.append(Excerpt(page[1], page[2], text[page.end() :]))
        return history

    @property
    def all_hits(self) -> list[Excerpt]:
        """The hits of all searches."""
        return [hit for hits in self.hits for hit in hits]

    @property
    def queries(self) -> list[str]:
        """The queries of all searches."""
        return [wish.query for wish in self.wishes if isinstance(wish, Search)]

    @property
    def searches(self) -> list[tuple[str, str]]:
        """The searches as (tool, query)."""
        return [(wish.call.name, wish.query) for wish in self.wishes if isinstance(wish, Search)]

    @property
    def asked_for(self) -> list[str]:
        """The ids of the sections that reads named; reads of a section above the named one are left out."""
        return [wish.section_id for wish in self.wishes if isinstance(wish, Read) and not wish.up]


def hits_of(text: str) -> list[Excerpt]:
    """Return the hits of a search's reply as excerpts; none where the text is no such reply."""
    return [Excerpt(*match.groups()) for match in _HIT.finditer(text)]
