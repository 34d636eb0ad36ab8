"""An agent without a model parses the messages so far: its question, its searches and reads, and what they brought."""

import re
from dataclasses import dataclass, field

from agent_envs.envs.legal_search.tools import Read, Search, Wish, read_turn
from agent_envs.rollout.policy import Request

_HIT = re.compile(r"^\d+\. ID: (.+)\n   Place: (.*)\n   Text: (.*)$", re.MULTILINE)
_PAGE = re.compile(r"\AID: (.+)\nPlace: (.*)\nAbove: .*\n(?:Page: .*\n)?\n")


@dataclass(frozen=True, slots=True)
class Shown:
    """A section as it was shown: its id, its place in the hierarchy, and (part of) its text."""

    id: str
    place: str
    text: str


@dataclass
class Seen:
    """What a request tells: the question, what was done, the hits of each search, and what was read, in their order."""

    question: str
    style: str
    wishes: list[Wish] = field(default_factory=list)
    hits: list[list[Shown]] = field(default_factory=list)
    read: list[Shown] = field(default_factory=list)

    @staticmethod
    def of(request: Request) -> "Seen":
        """Return what the messages of a request hold."""
        prompt = str(request.messages[0]["content"])
        question = prompt.rpartition("\nQuestion: ")[2].partition("\n")[0].strip()
        seen = Seen(question, "json" if "<tool_call>" in prompt else "tags")
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


def hits_of(text: str) -> list[Shown]:
    """Return the sections that a search showed."""
    return [Shown(*match.groups()) for match in _HIT.finditer(text)]
