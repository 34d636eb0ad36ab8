"""Two honest baselines need no model: a searcher that searches, reads and follows references, and naive RAG."""

import re
from collections import Counter
from collections.abc import Sequence

from agent_envs.base.messages import Message
from agent_envs.envs.legal_search.contract_search import contract_guess, contract_step, parties
from agent_envs.envs.legal_search.env import LegalSearch
from agent_envs.envs.legal_search.extraction import Guess, Shown, asked_unit, guess, worked_out
from agent_envs.envs.legal_search.observations import results
from agent_envs.envs.legal_search.tasks import ABSTAIN
from agent_envs.envs.legal_search.tools import (
    ANSWER,
    KEYWORD,
    READ,
    SEMANTIC,
    rendered,
)  # fmt: skip
from agent_envs.envs.legal_search.transcript import Seen, hits_of
from agent_envs.rollout.policy import Reply, Request
from agent_envs.tools.retrieval.bm25 import tokenize

_TURNS = re.compile(r"You have (\d+) turns")
_REFERENCE = re.compile(r"(?:§+|[Ss]ections?)\s*(\d[\w:.-]*\w)")
_HEADED = re.compile(r'headed "(.+?)"')
_OPENING = re.compile(r"^(?:Under|In) the [^,]{1,60}, ")
_BEYOND = re.compile(r"\bdiffer\b|\bfined\b|\bcost\b")  # needs more arithmetic than there is here
_CLAUSE = re.compile(r"[;.] ")
_COMMON = frozenset(
    "how many much must may can somebody someone there not when if does he she they code law section".split()
)
_READS = 4  # sections that are asked for, references included
_DAMPING = 60  # of reciprocal ranks, as in hybrid retrieval


def first_look(env: LegalSearch) -> tuple[Message, ...]:
    """Return what naive RAG reads: the sections that a semantic search with the question finds, as much as fits a page."""
    episode = env.episode
    hits = env.hits(episode.task, episode.task.question, episode.key)
    size = max(env.snippet_chars, env.page_chars // env.top_k)
    return (Message("user", results(hits, episode.task.question, size), "tool"),)


class NaiveRAG:
    """One search with the question, then the likeliest span of what came back, or "I don't know" where nothing fits."""

    batch = 1

    def __init__(self, engine: str = "semantic") -> None:
        """Take the engine: `semantic` or `keyword`."""
        self.name = "naive_rag"
        self._search = SEMANTIC if engine == "semantic" else KEYWORD

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return a search in the first turn, and the answer in the second; the answer at once where it is forced."""
        return [Reply(self._action(request)) for request in requests]

    def _action(self, request: Request) -> str:
        seen = Seen.of(request)
        hits = [hit for message in request.messages for hit in hits_of(str(message["content"]))]
        if not seen.wishes and not request.prefill and not hits:
            return rendered(self._search, seen.style, query=seen.question)
        return _answer(request, seen.style, guess(seen.question, hits))


def search_and_read(request: Request) -> str:
    """Search by words and by meaning, once more within the likeliest chapter, read, follow references, and work it out."""
    seen = Seen.of(request)
    in_contract = bool(parties(seen.question))
    found = contract_guess(seen) if in_contract else _cited_heading(seen) or _found(seen)
    turns = _TURNS.search(str(request.messages[0]["content"]))
    if request.prefill or len(seen.wishes) + 1 >= (int(turns[1]) if turns else 10):
        return _answer(request, seen.style, found or (None if seen.read else guess(seen.question, _ranked(seen))))
    if in_contract:
        step = contract_step(seen)
        return _answer(request, seen.style, found) if step is None else _acted(seen, *step)
    search = _next_search(seen)
    if search is not None:
        return rendered(search[0], seen.style, query=search[1])
    if len(seen.asked_for) < _READS and not (found and found.settled):
        following = _following(seen)
        if following is not None:
            return _acted(seen, *following)
        unread = [hit.id for hit in _ranked(seen) if hit.id not in seen.asked_for]
        if unread and not found:
            return rendered(READ, seen.style, section_id=unread[0])
    return _answer(request, seen.style, found)


def _found(seen: Seen) -> Guess | None:
    """Return what the read sections say: the first with an amount of the asked unit, changed as the others have it."""
    if asked_unit(seen.question):
        return None if _BEYOND.search(seen.question) else worked_out(seen.question, seen.read)
    return guess(seen.question, seen.read)


def _next_search(seen: Seen) -> tuple[str, str] | None:
    """Return the next of the two or three searches that begin every episode."""
    core = _OPENING.sub("", seen.question)
    words = " ".join(_content(core))
    if words and words not in seen.queries:
        return KEYWORD, words
    if core not in seen.queries:
        return SEMANTIC, core
    home = _home(seen)
    if asked_unit(seen.question) and home:
        heading, asked = home.rpartition(". ")[2], _CLAUSE.split(core)[-1]
        for name, rest in ((SEMANTIC, asked), (KEYWORD, " ".join(_content(asked)))):
            if f"{heading} {rest}" not in seen.queries and len(seen.queries) < 4:
                return name, f"{heading} {rest}"
    return None


def _content(question: str) -> list[str]:
    quoted = _HEADED.search(question)
    words = [word for word in tokenize(quoted[1] if quoted else question) if word not in _COMMON]
    return ["definitions", *words] if "the term" in question else words


def _home(seen: Seen) -> str:
    """Return the chapter that most of the first two searches' hits lie in, the better ones counting more."""
    votes: Counter[str] = Counter()
    for found in seen.hits[:2]:
        for rank, hit in enumerate(found, start=1):
            levels = hit.place.split(" > ")
            if len(levels) > 2:
                votes[levels[1]] += 60 // (rank + 1)
    return max(votes, key=lambda level: votes[level], default="")


def _ranked(seen: Seen) -> list[Shown]:
    """Return the hits of all searches by the sum of their reciprocal ranks, the likeliest kinds first."""
    headed = _HEADED.search(seen.question)
    heading = f". {headed[1]}" if headed else "Definitions" if "the term" in seen.question else ""
    home = _home(seen) if asked_unit(seen.question) else ""
    scores: dict[str, float] = {}
    shown: dict[str, Shown] = {}
    for found in seen.hits:
        for rank, hit in enumerate(found, start=1):
            scores[hit.id] = scores.get(hit.id, 0.0) + 1 / (_DAMPING + rank)
            shown.setdefault(hit.id, hit)

    def order(hit: Shown) -> tuple[bool, bool, bool, float]:
        fits = not home or bool(guess(seen.question, [hit])) or "named in" in hit.text
        return heading not in hit.place, home not in hit.place, not fits, -scores[hit.id]

    return sorted(shown.values(), key=order)


def _following(seen: Seen) -> tuple[str, str] | None:
    """Return the read of a section that the first one cites, or a search for it where IDs are not what texts cite."""
    if not seen.read:
        return None
    first = seen.read[0]
    direct = f"§ {first.id}." in first.place
    for number in list(dict.fromkeys(_REFERENCE.findall(first.text)))[: _READS - 1]:
        if direct:
            if number not in seen.asked_for:
                return READ, number
            continue
        if number not in seen.queries:
            return KEYWORD, number
        for hit in (hit for found in seen.hits for hit in found):
            if f"§ {number}." in hit.place and hit.id not in seen.asked_for:
                return READ, hit.id
    return None


def _cited_heading(seen: Seen) -> Guess | None:
    """Return the heading of a section that was read and that the one read first refers to, where that is asked."""
    if "refers to" not in seen.question:
        return None
    for page in seen.read[1:]:
        number, _, heading = page.place.rpartition("§ ")[2].partition(". ")
        if heading and number in _REFERENCE.findall(seen.read[0].text):
            return Guess(heading, (seen.read[0].id,), settled=True)
    return None


def _acted(seen: Seen, name: str, text: str) -> str:
    return rendered(name, seen.style, **{"section_id" if name == READ else "query": text})


def _answer(request: Request, style: str, found: Guess | None) -> str:
    answer, sources = (found.answer, list(found.sources)) if found else (ABSTAIN, [])
    return rendered(ANSWER, "tags" if request.prefill else style, answer=answer, sources=sources)
