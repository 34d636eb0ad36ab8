"""Scripted feedback says what to look for and to read next, and whether it will do; a forced answer is shown one search."""

import random
from collections.abc import Sequence

from agent_envs.base.messages import Message
from agent_envs.envs.legal_search.env import LegalSearch
from agent_envs.envs.legal_search.heuristic import search_and_read
from agent_envs.envs.legal_search.observations import results
from agent_envs.envs.legal_search.tools import KEYWORD, Final, Read, Search, read_turn
from agent_envs.envs.legal_search.transcript import SearchHistory
from agent_envs.rollout.policy import Request
from agent_envs.wrappers.scripted_feedback import FeedbackWordings, Hint, scripted

WORDINGS = FeedbackWordings(__package__)


def first_look(env: LegalSearch) -> tuple[Message, ...]:
    """Return naive RAG's message: the sections that a semantic search with the question finds, as extracts that fit a page."""
    episode = env.episode
    hits = env.hits(episode.task, episode.task.question, episode.key)
    size = max(env.snippet_chars, env.page_chars // env.top_k)
    return (Message("user", results(hits, episode.task.question, size), "tool"),)


def give_feedback(messages: Sequence[Message], mode: str, quality: str, rng: random.Random) -> str:
    """Return feedback on a conversation; see `agent_envs.wrappers.scripted_feedback.scripted`."""
    return scripted(WORDINGS, _advise, messages, mode, quality, rng)


def _advise(messages: Sequence[Message], mode: str, quality: str) -> Hint:
    """Return a hint: the searcher's next step (good exploit), one on reading or searching (good), or misleading advice."""
    request = Request("", 0, [message.as_dict() for message in messages])
    history = SearchHistory.of(request)
    if mode == "exploit" and quality == "good":
        return _next(request, history)
    hits = [hit.id for excerpts in history.hits for hit in excerpts]
    unread = [name for name in hits if name not in history.asked_for]
    slots = {
        "read": history.asked_for[-1] if history.asked_for else "",
        "found": unread[0] if unread else "",
        "other": unread[-1] if unread else "",
    }
    if quality == "good":
        return ("read" if history.read else "found" if hits else "start"), slots
    return ("again" if _next(request, history)[0] in ("answer", "abstain") else "early"), slots


def _next(request: Request, history: SearchHistory) -> Hint:
    """Return the searcher's next step, judged by the conversation alone: answer, abstain, above, section or a search."""
    wish = read_turn(search_and_read(request), history.style)[1]
    if isinstance(wish, Final):
        return ("answer", {"section": "; ".join(wish.sources)}) if wish.sources else ("abstain", {})
    if isinstance(wish, Read):
        return ("above" if wish.up else "section"), {"section": wish.section_id}
    assert isinstance(wish, Search)
    return ("keyword" if wish.call.name == KEYWORD else "semantic"), {"query": wish.query}
