"""The searcher searches, reads, follows references, and works answers out by rules over sentences: no model, no gold.

The rules know how law is drafted: amounts, references, increases and reductions under a condition, definitions and their
exceptions, limits, amendments, the counting of days. A case meets a definition by numbers, or by the words that both share.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from agent_envs.envs.legal_search.dates import DAY, WEEKDAYS, days_in, written_date
from agent_envs.envs.legal_search.tasks import ABSTAIN
from agent_envs.envs.legal_search.tools import ANSWER, KEYWORD, READ, SEMANTIC, rendered
from agent_envs.envs.legal_search.transcript import Seen, Shown, covered, granted_in, names_in, number_in, shared
from agent_envs.rollout.policy import Request

DEFINITIONS = "Definitions"
_LISTED = re.compile(r"ID: (.+) \| § \S+\. (.+)")
_CITED = re.compile(r"§ ?(\d[\w:.-]*\w)")
_DEADLINE = re.compile(r"\blast day\b|\bdate\b")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")


class Missing(Exception):
    """A section must be read first: its id, the end of its place, or "" for the rule that the question is about."""


def search_and_read(request: Request) -> str:
    """Work the answer out from what was read, and where something is missing for it, search or read that."""
    seen = Seen.of(request)
    last = request.prefill or len(seen.wishes) + 1 >= seen.turns
    try:
        Reading(seen.question, {page.id: page for page in seen.read}).answer()
    except Missing as missing:
        if not last and (step := _next(seen, str(missing))):
            return step
    return final_answer(request, seen, [] if seen.wishes else seen.found)


def _next(seen: Seen, missing: str) -> str | None:
    """Return the search or the read that may bring what is missing: an id, words of a place, or "" for the rule itself."""
    if missing[:1].isdigit():
        return _read(seen, [missing])
    if missing not in ("", DEFINITIONS):
        fitting = [hit.id for hit in seen.found if hit.place.endswith(missing)]
        listed = [row for page in seen.read for row in _LISTED.findall(page.text)]
        fitting += [name for name, heading in listed if missing.endswith(heading)]
        return _read(seen, fitting) or _search(seen, missing)
    core = seen.core()
    if not missing and not seen.queries:
        return rendered(KEYWORD, seen.style, query=core)
    if step := None if missing else _read(seen, _called_by_name(seen)):
        return step
    home = _home(seen)
    if home is None:
        return _search(seen, f"{DEFINITIONS} means {core}")
    if missing:
        return _read(seen, [home.id])
    listing = next((page for page in seen.read if _LISTED.search(page.text)), None)
    if listing is None:
        named = re.search(r"chapter (\d[\w:.-]*\w)", home.text) if names_in(seen.question) else None
        return rendered(READ, seen.style, **({"section_id": named[1]} if named else {"section_id": home.id, "up": 1}))
    headings = dict(_LISTED.findall(listing.text))
    best = [name for name, heading in headings.items() if shared(heading, core)]
    best.sort(key=lambda name: -covered(headings[name], core))
    others = sorted(seen.found, key=lambda hit: -shared(hit.text, core))
    best = best or [hit.id for hit in others if hit.id in headings]
    return _read(seen, best) or _search(seen, f"{listing.place} {seen.core(home.text)}")


def _read(seen: Seen, ids: Sequence[str]) -> str | None:
    return next((rendered(READ, seen.style, section_id=name) for name in ids if name not in seen.asked_for), None)


def _search(seen: Seen, query: str) -> str | None:
    engines = [name for name in (KEYWORD, SEMANTIC) if (name, query) not in seen.searches]
    return rendered(engines[0], seen.style, query=query) if engines else None


def _home(seen: Seen) -> Shown | None:
    """Return the entry of the holder that was read, or the definitions that fit the question best."""
    if names_in(seen.question):
        return next((page for page in seen.read if "chapter" in page.text), None)
    hits = [hit for hit in seen.found if hit.place.endswith(DEFINITIONS)]
    return max(hits, key=lambda hit: shared(f"{hit.place} {hit.text}", seen.question), default=None)


def _called_by_name(seen: Seen) -> list[str]:
    """Return the hits in a chapter that the question calls by its name, those first that share most with it."""
    fitting = list[tuple[int, int, str]]()
    for hit in seen.found:
        title, chapter, heading = [*hit.place.split(" > "), "", ""][:3]
        called = covered(chapter.partition(". ")[2], seen.question) == 1 and shared(title, seen.question)
        if called and DEFINITIONS not in heading:
            fitting.append((-shared(f"{heading} {hit.text}", seen.question), len(fitting), hit.id))
    return [name for *_, name in sorted(fitting)]


def final_answer(request: Request, seen: Seen, hits: Sequence[Shown]) -> str:
    """Answer from what was read, else from what searches showed, else abstain."""
    style = "tags" if request.prefill else seen.style
    for pages in (seen.read, [*hits, *seen.read]):
        reading = Reading(seen.question, {page.id: page for page in pages}, final=True)
        with suppress(Missing):
            return rendered(ANSWER, style, answer=reading.answer(), sources=list(reading.used))
    return rendered(ANSWER, style, answer=ABSTAIN, sources=[])


@dataclass
class Reading:
    """One question over the pages that were read, by id; `used` collects the ids that the answer rests on."""

    question: str
    pages: Mapping[str, Shown]
    final: bool = False  # no more can be read: what is defined on no page is taken not to apply
    used: dict[str, None] = field(default_factory=dict)

    def answer(self) -> str:
        """Return the answer; raises Missing."""
        try:
            if re.search(r"\b(?:call|word|term)\b", self.question):
                return self._defined()
            cases = [self._page_at(name).text for name in names_in(self.question)] or [self.question]
            rule = self._rule(cases[0])
            if re.search(r"\bfine\b", self.question):
                return str(self._fine(rule, cases[0]))
            first, *others = [self._amount(rule, case) for case in cases]
            if _DEADLINE.search(self.question):
                return self._last_day(rule, first)
            return str(abs(first - others[0]) if others else first)
        except (IndexError, OverflowError, ValueError):  # a text of another build than these rules are for
            raise Missing("") from None

    def _page(self, name: str) -> Shown:
        if name not in self.pages:
            raise Missing(name)
        self.used[name] = None
        return self.pages[name]

    def _page_at(self, end: str, start: str = "") -> Shown:
        places = ((page.place, page.id) for page in self.pages.values())
        fitting = (name for place, name in places if place.startswith(start) and place.endswith(end))
        return self._page(next(fitting, f"{start}{end}"))

    def _defined(self) -> str:
        """Return the term whose definition shares most with the question."""
        lines = [(shared(line, self.question), page.id, line)
                 for page in self.pages.values() for line in page.lines if " means " in line]  # fmt: skip
        count, name, line = max(lines, default=(0, DEFINITIONS, ""))
        return line.split('"')[1] if self._page(name if count > 1 else DEFINITIONS) else ""

    def _rule(self, case: str) -> Shown:
        """Return the page whose heading and first sentence share most with the question, in the chapter of the case."""
        chapter = re.search(r"chapter (\d[\w:.-]*\w)", case)
        country = re.search(r"\b[Ii]n ([A-Z][a-z]+)\b", self.question)
        where = f"Chapter {chapter[1]}." if chapter else country[1] if country else ""
        best, rule = 1, ""
        for page in self.pages.values():
            heading, first = page.place.rpartition(". ")[2], page.lines[0]
            named, said = shared(heading, self.question), shared(f"{heading} {first}", self.question)
            fits = said > 1 or covered(heading, self.question) >= 0.5
            if where in page.place and fits and re.search(r"(?:increased|reduced) by|offence", page.text):
                best, rule = max((best, rule), (named + max(said, 2), page.id), key=lambda row: row[0])
        return self._page(rule)

    def _amount(self, rule: Shown, case: str) -> int:
        changes = {"increased": 0, "reduced": 0}
        for line in rule.lines:
            changed = re.search(r"(increased|reduced) by (.*)", line)
            if changed and self._applies(line, case):
                changes[changed[1]] += number_in(changed[2])
        for line in (line for line in rule.lines if "together" in line):
            name = "reduced" if "reductions" in line else "increased"
            changes[name] = min(changes[name], number_in(line))
        return self._base(rule, case) + changes["increased"] - changes["reduced"]

    def _base(self, rule: Shown, case: str) -> int:
        """Return the amount of a rule before it is varied: by a condition of the case's own, or amended, or as enacted."""
        for line in case.splitlines():
            own = re.search(r"\b(?:with|by) (\S+(?: [a-z]+)?) in place of", line)
            if own and rule.id in _CITED.findall(line):
                return number_in(own[1])
        granted = granted_in(case)
        matters = [day for day in days_in(self.question) if day != granted or case is not self.question]
        for line in rule.lines[1:]:
            if "amended" in line and matters and not _DEADLINE.search(self.question):
                act = self._page(_CITED.findall(line)[0])
                (since, *_), *later = [days for line in act.lines if (days := days_in(line))]
                if granted and later and granted < later[0][0]:  # older licences wait longer
                    since = later[0][1]
                if matters[0] >= since:
                    return number_in(act.text.partition('"')[2])
        return self._enacted(rule)

    def _enacted(self, rule: Shown) -> int:
        first = rule.lines[0]
        taken = re.search(r"(\S+(?: [a-z]+){0,2}) (more|less) than .*?§ ?(\d[\w:.-]*\w)", first)
        if taken is None:
            return number_in(first)
        return self._enacted(self._page(taken[3])) + number_in(taken[1]) * (1 if taken[2] == "more" else -1)

    def _applies(self, line: str, case: str) -> bool:
        """Return whether a case meets the condition of a sentence."""
        if bounds := days_in(line):
            granted = granted_in(case)
            return granted is not None and (granted < bounds[0]) is ("before" in line)
        cited = [name for name in _CITED.findall(line) if name in self.pages or not self.final]
        return bool(cited) and all(self._meets(self._page(name), line, case) for name in cited)

    @staticmethod
    def _meets(page: Shown, line: str, case: str) -> bool:
        """Return whether a case is what a page defines: of a size, or in words that both share."""
        sized = [row for row in page.lines if re.search(r"fewer than \d|or more", row)]
        if not sized:
            first, *rest = page.lines
            excepted = covered(" ".join(rest), case, f"{first} {line}")
            return covered(first, case, line) >= 0.5 > excepted
        row = max(sized, key=lambda row: shared(row, line)).replace(" or more", "")
        bound, unit = re.findall(r"(\d+) ([a-z]+(?: [a-z]+)?)", row)[0]
        count = re.search(rf"(\d+) {unit}", case)
        idle = re.search(r"(\d+)[^.;()]{0,30} out of use", case)
        left_out = int(idle[1]) if idle and "left out" in page.text else 0
        return count is not None and (int(count[1]) - left_out < int(bound)) is ("fewer than" in row)

    def _last_day(self, rule: Shown, days: int) -> str:
        """Return the last day of a period that begins with the event that the question tells."""
        line = next(line for line in (*rule.lines, "counted") if "counted" in line)
        counting, *post = (self._page(name) for name in _CITED.findall(line)[: 1 + ("post" in self.question)])
        named = re.search(rf"(?:{'|'.join(WEEKDAYS)}) ({DAY.pattern})", self.question)
        end = days_in(named[1] if named else self.question)[-1]
        for word in re.findall(rf"on the ({'|'.join(_ORDINALS)}) day", post[0].text if post else ""):
            end += timedelta(days=1 + _ORDINALS.index(word))
        end += timedelta(days=days - (not re.search(r"not include|day after", counting.lines[0])))
        while WEEKDAYS[end.weekday()] in counting.text:
            end += timedelta(days=1)
        return written_date(end)

    def _fine(self, rule: Shown, case: str) -> int:
        """Return the highest fine: of a class on a scale, for a major business, and for an offence that is repeated."""
        line = [line for line in rule.lines if "offence" in line][0]
        scale, offence = self._page(_CITED.findall(line)[0]), re.findall(r"class \w", line)[0]
        unit, repeat = _CITED.findall(scale.text)
        total = number_in(scale.text.partition(offence)[2]) * number_in(self._page(unit).text)
        total *= 1 + self._meets(self._page_at(DEFINITIONS, rule.place.rpartition("§")[0]), "major", case)
        if years := re.search(r"(\d+) years", self.question):
            limit, percent = re.findall(r"\d+", self._page(repeat).text)
            total += total * int(percent) // 100 if int(years[1]) <= int(limit) else 0
        return total
