"""The searcher needs no model: it searches, reads, follows references, and works the answer out by the rules of `reader`."""

import re
from collections.abc import Sequence
from typing import Any

from agent_envs.envs.legal_search.reader import DEFINITIONS, Missing, Reading, names_in, shared, words_of
from agent_envs.envs.legal_search.tasks import ABSTAIN
from agent_envs.envs.legal_search.tools import ANSWER, KEYWORD, READ, SEMANTIC, rendered
from agent_envs.envs.legal_search.transcript import Seen, Shown, hits_of
from agent_envs.rollout.policy import Request

LISTED = re.compile(r"ID: (.+) \| § \S+\. (.+)")
Step = tuple[str, dict[str, Any]]
_TURNS = re.compile(r"You have (\d+) turns")


def search_and_read(request: Request) -> str:
    """Work the answer out from what was read, and where something is missing for it, search or read that."""
    seen = Seen.of(request)
    turns = _TURNS.search(str(request.messages[0]["content"]))
    last = request.prefill or len(seen.wishes) + 1 >= (int(turns[1]) if turns else 10)
    try:
        Reading(seen.question, {page.id: page for page in seen.read}).answer()
    except Missing as missing:
        step = None if last else _next(seen, str(missing))
        if step:
            name, arguments = step
            return rendered(name, seen.style, **arguments)
    hits = [hit for message in request.messages for hit in hits_of(str(message["content"])) if not seen.wishes]
    return final_answer(request, seen, hits)


def _next(seen: Seen, missing: str) -> Step | None:
    """Return the search or the read that may bring what is missing: an id, words of a place, or "" for the rule itself."""
    if missing[:1].isdigit():
        return None if missing in seen.asked_for else (READ, {"section_id": missing})
    if missing not in ("", DEFINITIONS):
        fitting = [hit.id for found in seen.hits for hit in found if hit.place.endswith(missing)]
        fitting += [
            name for page in seen.read for name, heading in LISTED.findall(page.text) if missing.endswith(heading)
        ]
        return _read(seen, fitting) or _search(seen, missing)
    core = _core(seen.question)
    if not missing and not seen.queries:
        return KEYWORD, {"query": core}
    if step := None if missing else _read(seen, _called_by_name(seen)):
        return step
    home = _home(seen)
    if home is None:
        return _search(seen, f"{DEFINITIONS} means {core}")
    if missing:
        return _read(seen, [home.id])
    listing = next((page for page in seen.read if LISTED.search(page.text)), None)
    if listing is None:
        named = re.search(r"chapter (\d[\w:.-]*\w)", home.text) if names_in(seen.question) else None
        return READ, {"section_id": named[1]} if named else {"section_id": home.id, "up": 1}
    headed = {name: (shared(heading, core), len(words_of(heading))) for name, heading in LISTED.findall(listing.text)}
    best = sorted((row for row in headed if headed[row][0]), key=lambda row: -headed[row][0] / headed[row][1])
    found = [hit for hits in seen.hits for hit in hits if hit.id in headed and not best]
    best += [hit.id for hit in sorted(found, key=lambda hit: -shared(hit.text, core))]
    return _read(seen, best) or _search(seen, f"{listing.place} {_core(seen.question, home.text)}")


def _read(seen: Seen, ids: Sequence[str]) -> Step | None:
    """Return the read of the first section that was not read yet."""
    return next(((READ, {"section_id": name}) for name in ids if name not in seen.asked_for), None)


def _search(seen: Seen, query: str) -> Step | None:
    """Return the next search with a query: by words, then by meaning."""
    return next(((name, {"query": query}) for name in (KEYWORD, SEMANTIC) if (name, query) not in seen.searches), None)


def _home(seen: Seen) -> Shown | None:
    """Return the entry of the holder that was read, or the definitions that fit the question best."""
    if names_in(seen.question):
        return next((page for page in seen.read if "chapter" in page.text), None)
    hits = [hit for found in seen.hits for hit in found if hit.place.endswith(DEFINITIONS)]
    return max(hits, key=lambda hit: shared(f"{hit.place} {hit.text}", seen.question), default=None)


def _called_by_name(seen: Seen) -> list[str]:
    """Return the hits in a chapter that the question calls by its name, those first that share most with it."""
    asked, fitting = words_of(seen.question), []
    for hit in (hit for found in seen.hits for hit in found if not hit.place.endswith(DEFINITIONS)):
        title, _, rest = hit.place.partition(" > ")
        chapter = rest.partition(" > § ")[0].partition(". ")[2]
        if words_of(chapter) <= asked and asked & words_of(title):
            fitting.append(hit)
    fitting.sort(key=lambda hit: -shared(f"{hit.place.rpartition('. ')[2]} {hit.text}", seen.question))
    return [hit.id for hit in fitting]


def _core(question: str, known: str = "") -> str:
    """Return a question without names, without what it tells of the case in brackets, and without known words."""
    for name in names_in(question):
        question = question.replace(name, "")
    words = re.sub(r"[(].*?[)]", "", question).split()
    return " ".join(word for word in words if not words_of(word) & words_of(known))


def final_answer(request: Request, seen: Seen, hits: Sequence[Shown]) -> str:
    """Answer from what was read, else from what searches showed, else abstain."""
    for pages in (seen.read, [*hits, *seen.read]):
        reading = Reading(seen.question, {page.id: page for page in pages}, final=True)
        try:
            answer, sources = reading.answer(), list(reading.used)
            break
        except Missing:
            answer, sources = ABSTAIN, []
    return rendered(ANSWER, "tags" if request.prefill else seen.style, answer=answer, sources=sources)
