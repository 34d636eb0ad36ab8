"""Scripted feedback says what to look for, which section to read next, and whether what was read will do."""

import random
import re
from collections.abc import Sequence

from agent_envs.base.messages import Message
from agent_envs.envs.legal_search.contract_needs import contract_next, known
from agent_envs.envs.legal_search.extraction import Shown
from agent_envs.envs.legal_search.heuristic import search_and_read
from agent_envs.envs.legal_search.question_needs import Need, needs
from agent_envs.envs.legal_search.tools import KEYWORD, Final, Read, Search, read_turn
from agent_envs.envs.legal_search.transcript import Seen
from agent_envs.rollout.policy import Request
from agent_envs.wrappers.scripted_feedback import Hint, Wordings, scripted

WORDINGS = Wordings(__package__)
_CITED = re.compile(r"(Subject to|Amended by|named in) § (\d[\w:.-]{0,40}\w)")
_MOST_OWN = 600  # characters of a section of its own; a longer page is a chapter, which cites much that does not matter
_DECISIVE = ("Fees", "Offences")  # what is cited, where other sections are needed only to understand it
_TURNS = re.compile(r"You have (\d{1,6}) turns")


def give_feedback(messages: Sequence[Message], mode: str, quality: str, rng: random.Random) -> str:
    """Return feedback on a conversation; see `agent_envs.wrappers.scripted_feedback.scripted`."""
    return scripted(WORDINGS, _advise, messages, mode, quality, rng)


def _advise(messages: Sequence[Message], mode: str, quality: str) -> Hint:
    request = Request("", 0, [message.as_dict() for message in messages])
    seen = Seen.of(request)
    if mode == "exploit" and quality == "good":
        return _next(request, seen)
    hits = [hit.id for found in seen.hits for hit in found]
    unread = [name for name in hits if name not in seen.asked_for]
    slots = {
        "read": seen.asked_for[-1] if seen.asked_for else "",
        "found": unread[0] if unread else "",
        "other": unread[-1] if unread else "",
    }
    if quality == "good":
        return ("read" if seen.read else "found" if hits else "start"), slots
    return ("again" if _next(request, seen)[0] in ("answer", "abstain") else "early"), slots


def _next(request: Request, seen: Seen) -> Hint:
    """Return the next step: what the question is known to need and what the law cites, else what the searcher's rules say."""
    wanted = needs(seen.question, "\n".join(page.text for page in seen.read))
    in_contract = known(seen.question)
    turns = _TURNS.search(str(request.messages[0]["content"]))
    step = _in_contract(seen) if in_contract else _in_code(wanted, seen)
    if step and turns and int(turns[1]) - len(seen.wishes) > 1:
        return step
    wish = read_turn(search_and_read(request), seen.style)[1]
    if isinstance(wish, Search | Read) and not (wanted or in_contract):
        return _of_wish(wish)
    sources = [name for need in wanted if need[1] in _DECISIVE for name in _standing(need, seen.read)]
    sources += [*(wish.sources if isinstance(wish, Final) else ()), *(page.id for page in seen.read[:1])]
    missing = any(not _standing(need, seen.read) for need in wanted)
    return ("abstain", {}) if missing or not sources else ("answer", {"section": sources[0]})


def _of_wish(wish: Search | Read) -> Hint:
    if isinstance(wish, Read):
        return "section", {"section": wish.section_id}
    return ("keyword" if wish.call.name == KEYWORD else "semantic"), {"query": wish.query}


def _in_contract(seen: Seen) -> Hint | None:
    found = contract_next(seen)
    if found is None:
        return None
    return ("keyword", {"query": found[1]}) if found[0] == KEYWORD else ("section", {"section": found[1]})


def _in_code(wanted: Sequence[Need], seen: Seen) -> Hint | None:
    return next(filter(None, (_towards(need, seen) for need in wanted)), None) or _cited(seen)


def _standing(need: Need, shown: Sequence[Shown]) -> list[str]:
    """Return the ids of the sections that are known to be what is needed, from sections or whole chapters."""
    chapter, heading, _ = need
    own = re.compile(rf"\. {re.escape(chapter)} > § (\S{{1,40}})\. {re.escape(heading)}(?: > |$)")
    listed = re.compile(rf"^ *ID: (\S{{1,40}}) \| § \S{{1,40}}\. {re.escape(heading)}$", re.MULTILINE)
    found = [hit[1] for page in shown if (hit := own.search(page.place))]
    return found + [name for page in shown if page.place.endswith(f". {chapter}") for name in listed.findall(page.text)]


def _towards(need: Need, seen: Seen) -> Hint | None:
    """Return the next step towards a section, None where it was read or cannot be found."""
    if _standing(need, seen.read):
        return None
    hits = [hit for found in seen.hits for hit in found]
    known = _standing(need, hits)
    if known and known[0] not in seen.asked_for:
        return "section", {"section": known[0]}
    query = " ".join(filter(None, need))
    if query not in seen.queries:
        return "keyword", {"query": query}
    above = [hit.id.partition("-")[0] for hit in hits if f". {need[0]} > " in hit.place]
    return ("chapter", {"section": above[0]}) if above and above[0] not in seen.asked_for else None


def _cited(seen: Seen) -> Hint | None:
    """Return the read of a section that matters by what was read: of an exception only if somebody is told more about."""
    told_more = "this person" in seen.question or "(one who" in seen.question
    special = told_more and "be fined" not in seen.question
    for kind, number in (
        found for page in seen.read if len(page.text) < _MOST_OWN for found in _CITED.findall(page.text)
    ):
        if number not in seen.asked_for and (kind != "Subject to" or special):
            return "cited", {"section": number}
    return None
