"""The heuristic searcher finds the contract between the named companies, then its clause, and what amends and defines that."""

import re
from datetime import date, timedelta

from agent_envs.envs.legal_search.dates import MONTHS, written_date
from agent_envs.envs.legal_search.extraction import Guess, Shown, asked_unit, guess
from agent_envs.envs.legal_search.tools import KEYWORD, READ, SEMANTIC
from agent_envs.envs.legal_search.transcript import Seen

_NAME = r"[A-Z][a-z]{2,} [A-Z][a-z]{2,}"
_COMPANY = re.compile(rf"\b{_NAME}\b")
_BETWEEN = re.compile(rf" between ({_NAME}) and ({_NAME})\b")
_OF_A_CONTRACT = re.compile(r"\b(?:contract|compan(?:y|ies))\b")
_ASKED = re.compile(r"(?:today,|amended:) ")
_CLAUSE = re.compile(r"\bclause (\d+(?:\.\d+)*)")
_NUMBERED = re.compile(r" > \w+ (\d+(?:\.\d+)+)(?:\.|\Z)")
_AMENDED = re.compile(r"replaced by \$?([\d,]+)|read with \$?([\d,]+) in place")
_TERM = re.compile(rf"\b(?:times|cent of|at|above) the ({_NAME})\b")
_PART = re.compile(r"\b(Part [A-Z]) of (Schedule \d+)")
_FIGURE = re.compile(r"\$?(\d[\d,]*)")
_POST = re.compile(r"\bpost(?:ed|ing)?\b")
_DAY = re.compile(rf"\b(\d{{1,2}}) ({'|'.join(MONTHS)}) (\d{{4}})\b")
_FEWEST = 2  # searches before anything is read, one with each engine


def parties(question: str) -> tuple[str, ...]:
    """Return the companies that a question names, if they are those of one contract; () otherwise."""
    named = _BETWEEN.search(question)
    if named:
        return named.group(1, 2)
    found = tuple(dict.fromkeys(_COMPANY.findall(question)))
    return found if len(found) == 2 and _OF_A_CONTRACT.search(question) else ()


def contract_step(seen: Seen) -> tuple[str, str] | None:
    """Return the next search or read, or None where there is nothing left to look for."""
    names, core = " ".join(_names(seen)), _core(seen)
    if len(seen.queries) < _FEWEST:
        return (KEYWORD, SEMANTIC)[len(seen.queries)], f"{names} {core}"
    last = f"{names} {_lawyerly(seen.question)}"
    main = _main(seen)
    if main is None:
        unread = _candidates(seen)
        if unread:
            return READ, unread[0].id
        return (KEYWORD, last) if last not in seen.queries else None
    for query, wanted in _wants(seen, main, names):
        page = next((hit for hit in _home(seen) if wanted.search(f"{hit.place}\n{hit.text}")), None)
        if page is not None and page.id not in seen.asked_for:
            return READ, page.id
        if page is None and query not in seen.queries:
            return KEYWORD, query
    return None


def contract_guess(seen: Seen) -> Guess | None:
    """Return what the clause that was read comes to, with its amendment and what it is defined by worked in."""
    main = _main(seen)
    if main is None:
        return None
    own = _figure_of(main, seen)
    if own is None:
        return None
    figure, sources = own
    term, day = _TERM.search(main.text), _DAY.search(seen.question)
    if term:
        base = _base(seen, term[1])
        if base is None:
            return None
        figure = _combined(main.text, figure, base[0])
        sources = (*sources, base[1])
    if not day:
        return Guess(str(figure), sources)
    post = next((page for page in seen.read if page is not main and _POST.search(page.text)), None)
    more = _figure_of(post, seen) if post else None
    if more is None:
        return None
    start = date(int(day[3]), MONTHS.index(day[2]) + 1, int(day[1]))
    return Guess(written_date(start + timedelta(days=figure + more[0])), (*sources, *more[1]))


def _names(seen: Seen) -> tuple[str, ...]:
    return parties(seen.question)


def _core(seen: Seen) -> str:
    """Return what is asked, without the companies and whose contract it is."""
    text = _ASKED.split(seen.question)[-1]
    for name in _names(seen):
        text = text.replace(name, "")
    return " ".join(text.split())


def _lawyerly(question: str) -> str:
    """Return what a contract calls a matter of which only the kind is clear: an end on a day, or the most to be paid."""
    if _DAY.search(question):
        return "Termination terminate effect days receipt notice"
    return "Limitation liability limited damages" if asked_unit(question) == "dollar" else "clause days"


def _home(seen: Seen) -> list[Shown]:
    """Return the hits in the contract between the named companies, by the sum of their reciprocal ranks."""
    scores: dict[str, float] = {}
    shown: dict[str, Shown] = {}
    for found in seen.hits:
        for rank, hit in enumerate(found, start=1):
            if all(name in hit.place for name in _names(seen)):
                scores[hit.id] = scores.get(hit.id, 0.0) + 1 / (10 + rank)
                shown.setdefault(hit.id, hit)
    return sorted(shown.values(), key=lambda hit: -scores[hit.id])


def _candidates(seen: Seen) -> list[Shown]:
    """Return the clauses that may be meant and were not read: the one that is named, or those that hold what is asked."""
    named = _CLAUSE.search(seen.question)
    hits = [hit for hit in _home(seen) if hit.id not in seen.asked_for and _NUMBERED.search(hit.place)]
    return [hit for hit in hits if _may_answer(seen.question, hit) and (not named or _number(hit) == named[1])]


def _may_answer(question: str, page: Shown) -> bool:
    if _DAY.search(question):
        return "receipt" in page.text and "terminat" in page.text
    if asked_unit(question) == "dollar" and _TERM.search(page.text):
        return True
    return guess(question, [page]) is not None and "“" not in page.text[:1]


def _main(seen: Seen) -> Shown | None:
    return next((page for page in seen.read if _may_answer(seen.question, page) and _number(page)), None)


def _number(page: Shown) -> str:
    found = _NUMBERED.search(page.place)
    return found[1] if found else ""


def _wants(seen: Seen, main: Shown, names: str) -> list[tuple[str, re.Pattern[str]]]:
    """Return what else must be looked for, as (keywords, what the section to read holds)."""
    wants = [_amending(names, main)]
    term = _TERM.search(main.text)
    if term:
        wants.append((f"{names} Definitions {term[1]} means", re.compile(f"“{re.escape(term[1])}”")))
        defined = _definition(seen, term[1])
        if defined and (part := _PART.search(defined.text)):
            wants.append((f"{names} {part[2]} {part[1]} sum", re.compile(rf"{part[2]}\b.*> {part[1]}\b")))
    if _DAY.search(seen.question):
        wants.append(
            (f"{names} Notices notice post received days posted", re.compile(r"Notices.*\n.*\bpost(?:ed|ing)?\b"))
        )
        post = next((page for page in seen.read if page is not main and _POST.search(page.text)), None)
        wants += [_amending(names, post)] if post else []
    return wants


def _amending(names: str, page: Shown) -> tuple[str, re.Pattern[str]]:
    number = _number(page)
    return f"{names} amended amendment clause {number}", re.compile(rf"Amendment.*\n.*\bclause {re.escape(number)} ")


def _definition(seen: Seen, term: str) -> Shown | None:
    return next((page for page in seen.read if page.text.lstrip().startswith(f"“{term}”")), None)


def _base(seen: Seen, term: str) -> tuple[int, str] | None:
    """Return the figure of a defined term, from its definition or the part of a schedule that it names, and where from."""
    page = _definition(seen, term)
    part = _PART.search(page.text) if page else None
    if part:
        page = next((other for other in seen.read if re.search(rf"{part[2]}\b.*> {part[1]}\b", other.place)), None)
    found = _FIGURE.search(page.text) if page else None
    return (int(found[1].replace(",", "")), page.id) if page and found else None


def _combined(text: str, figure: int, base: int) -> int:
    if "percentage point" in text:
        return base + figure
    return base * figure if " times " in text else base * figure // 100


def _figure_of(page: Shown, seen: Seen) -> tuple[int, tuple[str, ...]] | None:
    """Return the figure of a clause as it is amended, and which sections give it."""
    for other in seen.read:
        new = _AMENDED.search(other.text)
        if new and f"clause {_number(page)} " in other.text:
            return int((new[1] or new[2]).replace(",", "")), (other.id,)
    unit = "how many days" if _DAY.search(seen.question) else seen.question
    found = None if _TERM.search(page.text) else guess(unit, [page])
    text = found.answer if found else (_FIGURE.search(page.text) or [""])[0]
    digits = text.strip("$").replace(",", "")
    return (int(digits), (page.id,)) if digits.isdigit() else None
