"""Scripted feedback for Search QA says which fact is missing, and whether the documents tell enough to answer."""

import random
import re
import unicodedata
from collections.abc import Sequence

from agent_envs.base.messages import Message
from agent_envs.envs.search_qa.chains import (
    ChainProgress,
    ParsedQuestion,
    SearchDocument,
    documents,
    follow,
    parse_question,
)
from agent_envs.tools.native_tags import in_tags
from agent_envs.wrappers.scripted_feedback import FeedbackWordings, Hint, scripted

WORDINGS = FeedbackWordings(__package__)
_LIMITS = re.compile(r"You have (\d{1,6}) searches and (\d{1,6}) turns")
_NAME = re.compile(r"(?<![.?!] )(?<!^)\b[A-Z][\w'-]{1,40}(?: (?:of |the |de |von )?[A-Z][\w'-]{1,40}){0,4}")
_POSSESSIVE = re.compile(r"['\u2019]s?$")
_UNKNOWN = "Where the documents do not hold the answer, answer"
_TRIES = 2  # searches for one name


def give_feedback(messages: Sequence[Message], mode: str, quality: str, rng: random.Random) -> str:
    """Return feedback on a conversation; see `agent_envs.wrappers.scripted_feedback.scripted`."""
    return scripted(WORDINGS, _advise, messages, mode, quality, rng)


class _SearchConversation:
    """A conversation so far: the question, the queries, the documents, and the turns left."""

    def __init__(self, messages: Sequence[Message]) -> None:
        """Parse the messages: question, queries, documents, and whether this turn is the last."""
        prompt, *texts = in_tags(((message.role, message.content) for message in messages), "information")
        self.question = prompt.rpartition("Question: ")[2].strip()
        own = [text for text, message in zip(texts, messages[1:], strict=True) if message.role == "assistant"]
        self.queries = [query for text in own if (query := _query(text))]
        self.documents: list[SearchDocument] = [one for text in texts for one in documents(text)]
        limits = _LIMITS.search(prompt)
        searches, turns = (int(limits[1]), int(limits[2])) if limits else (99, 99)
        self.last = len(own) + 1 >= turns or len(self.queries) >= searches
        self.may_abstain = _UNKNOWN in prompt

    def tried(self, name: str) -> int:
        """Count the queries that hold a name."""
        return sum(bool(_spoken_of(name).search(_without_accents(query))) for query in self.queries)

    def mentions(self, name: str) -> bool:
        """Return whether a document that was shown says something of a name."""
        return any(_spoken_of(name).search(_without_accents(f"{one.title} {one.text}")) for one in self.documents)

    def names(self) -> list[str]:
        """Return the names in the question, those that were not searched for yet first."""
        names = (_POSSESSIVE.sub("", name) for name in _NAME.findall(self.question[:3_000]))
        return sorted(dict.fromkeys(names), key=self.tried)


def _advise(messages: Sequence[Message], mode: str, quality: str) -> Hint:
    """Return a hint: the next step (good exploit), how far the search is (good), or misleading advice (bad)."""
    talk = _SearchConversation(messages)
    question = parse_question(talk.question)
    ways = [follow(side, talk.documents) for side in question.sides] if question else []
    if mode == "exploit" and quality == "good":
        return _next(talk, question, ways) if question else _next_name(talk)
    untold = [way for way in ways if not way.complete]
    names = [way.name for way in untold or ways] or talk.names() or [""]
    others = [one.title for one in reversed(talk.documents) if one.title not in names] or [names[-1]]
    slots = {"name": names[0], "other": others[0]}
    if quality == "good":
        return ("told" if ways and not untold else "middle" if talk.queries else "start"), slots
    if ways and not untold or (question and question.comparison):
        return "known", {"name": question.sides[0].name if question else names[0]}
    return "early", {"name": (ways[0].value or ways[0].name) if ways else others[0]}


def _next(talk: _SearchConversation, question: ParsedQuestion, ways: Sequence[ChainProgress]) -> Hint:
    """Return the next step along chains: look up, again; unknown or guess after tries or at the end; compare, or answer."""
    missing = next((way for way in ways if not way.complete), None)
    if missing is None:
        slots = {"question": ways[0].question, "also": ways[-1].question}
        return ("compare" if question.comparison else "answer"), slots
    if talk.last or talk.tried(missing.name) > _TRIES:
        return ("unknown" if talk.may_abstain else "guess"), {}
    tried = talk.tried(missing.name)
    return ("again" if tried else "look_up"), {"question": missing.question, "name": missing.name}


def _next_name(talk: _SearchConversation) -> Hint:
    """Return the next step without a chain: each unsearched name, unheard first; told if one was read or at the end; start."""
    fresh = sorted((name for name in talk.names() if not talk.tried(name)), key=talk.mentions)
    if fresh and not talk.last:
        return ("mentioned" if talk.mentions(fresh[0]) else "name"), {"name": fresh[0]}
    return ("told" if talk.documents or talk.last else "start"), {}


def _query(text: str) -> str:
    """Return the query between search tags in lower case, cut to 1,000 characters; empty without tags."""
    return text.partition("<search>")[2].partition("</search>")[0].strip().lower()[:1_000]


def _spoken_of(name: str) -> re.Pattern[str]:
    """Return the pattern of a name without accents: its first and last word, up to two words (or its own count) between."""
    words = re.findall(r"\w+", _without_accents(name)) or [""]
    if len(words) == 1:
        return re.compile(rf"\b{words[0]}\b")
    return re.compile(rf"\b{words[0]}\b(?:\W+\w+){{0,{max(2, len(words) - 2)}}}\W+{words[-1]}\b")


def _without_accents(text: str) -> str:
    """Return a text in small letters without accents."""
    parts = unicodedata.normalize("NFKD", text)
    return "".join(part for part in parts if not unicodedata.combining(part)).lower()
