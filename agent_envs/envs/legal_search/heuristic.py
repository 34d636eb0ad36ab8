"""The searcher searches, reads, follows references, and works answers out by rules over sentences: no model, no gold.

The rules know how law is drafted: amounts, references, changes under a condition, definitions and their exceptions, limits,
amendments, the counting of days. Of a question they take what does not hang on its wording: whom it names, which quantity it
leaves open, the numbers and days that it tells, and words that it shares with a text.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from agent_envs.envs.legal_search.cues import core_of, counts_in, fits, licence_in, names_in, number_in, share, units_in
from agent_envs.envs.legal_search.dates import WEEKDAYS, days_in, written_date
from agent_envs.envs.legal_search.tasks import ABSTAIN
from agent_envs.envs.legal_search.tools import ANSWER, KEYWORD, READ, SEMANTIC, Read, rendered
from agent_envs.envs.legal_search.transcript import Excerpt, SearchHistory
from agent_envs.rollout.policy import Request

DEFINITIONS = "Definitions"
_LISTED = re.compile(r"ID: (.+) \| § \S+\. (.+)")
_CITED = re.compile(r"§ ?(\d[\w:.-]*\w)")
_CHAPTER = re.compile(r"chapter (\d[\w:.-]*\w)")
_RELATIVE = re.compile(r"(?<!\S)(\S{1,40}(?: [a-z]{1,40}){0,2}) (more|less) than [^§\n]{0,300}§ ?(\d[\w:.-]*\w)")


class Missing(Exception):
    """A section must be read first: its id, the end of its place, or "" for the rule that the question is about."""


def search_and_read(request: Request) -> str:
    """Return the answer worked out from pages read; where one is missing and turns are left, a search or read for it."""
    history = SearchHistory.of(request)
    last = request.prefill or len(history.wishes) + 1 >= history.turns
    try:
        QuestionReader(history.question, {page.id: page for page in history.read}).answer()
    except Missing as missing:
        if not last and (step := _next(history, str(missing))):
            return step
    return final_answer(request, history, [] if history.wishes else history.all_hits)


def _next(history: SearchHistory, missing: str) -> str | None:
    """Return the search or read that may bring what is missing: an id, words of a place, "" for the rule; None if all had."""
    if missing[:1].isdigit():
        return _read(history, [missing])
    if missing not in ("", DEFINITIONS):
        fitting = [hit.id for hit in history.all_hits if hit.place.endswith(missing)]
        listed = [row for page in history.read for row in _LISTED.findall(page.text)]
        fitting += [name for name, heading in listed if missing.endswith(heading)]
        return _read(history, fitting) or _search(history, missing)
    home = _home(history)
    if home is None:
        return _search(history, _query_of_trade(history))
    if missing:
        return _read(history, [home.id])
    listing = next((page for page in history.read if _LISTED.search(page.text)), None)
    if listing is None:
        link = _CHAPTER.search(home.text) if names_in(history.question) else None
        return rendered(READ, history.style, **({"section_id": link[1]} if link else {"section_id": home.id, "up": 1}))
    if history.read[-1] is listing and isinstance(history.wishes[-1], Read):
        return _search(history, core_of(history.question), SEMANTIC)
    return _read(history, _rank_rules(history, dict(_LISTED.findall(listing.text))))


def _read(history: SearchHistory, ids: Sequence[str]) -> str | None:
    """Return a call that reads the first of the sections that was not read yet; None where all were."""
    return next((rendered(READ, history.style, section_id=name) for name in ids if name not in history.asked_for), None)


def _search(history: SearchHistory, query: str, *engines: str) -> str | None:
    """Return a search for the query with the first of the engines that has not had it yet; None if all have."""
    unused = [name for name in engines or (KEYWORD, SEMANTIC) if (name, query) not in history.searches]
    return rendered(unused[0], history.style, query=query) if unused else None


def _home(history: SearchHistory) -> Excerpt | None:
    """Return the read entry of a holder whom the question names; without names, the hit that fits best; None without any."""
    if names_in(history.question):
        return next((page for page in history.read if "chapter" in page.text), None)
    local = [hit for hit in reversed(history.all_hits) if hit.is_about(history.question) and not names_in(hit.heading)]
    hits = {hit.id: hit for hit in local if hit.heading == DEFINITIONS or hit.is_called(history.question)}
    scores = fits({name: ("", hit.text) for name, hit in hits.items()}, _query_of_trade(history))
    return max(hits.values(), key=lambda hit: scores[hit.id] + 9 * hit.is_called(history.question), default=None)


def _query_of_trade(history: SearchHistory) -> str:
    """Return a search for a trade's definitions: by its name where a hit has it, else by the words that rules seen lack."""
    called = [hit.chapter for hit in history.all_hits if hit.is_called(history.question)]
    if called:
        return " ".join([DEFINITIONS, called[0], *re.findall(r"[A-Z][a-z]+", core_of(history.question))])
    ruled = [hit.text for hit in history.all_hits if hit.heading != DEFINITIONS and not names_in(hit.heading)]
    return f"{DEFINITIONS} means {core_of(history.question, ' '.join(ruled))}"


def _rank_rules(history: SearchHistory, own: Mapping[str, str]) -> list[str]:
    """Return a chapter's own rules, best first, that score above a third of their best and above all rules only others have."""
    others = {hit.heading for hit in history.all_hits if hit.country and not names_in(hit.heading)} - {*own.values()}
    units_asked_for = units_in(history.question)
    rules = dict[str, tuple[str, str]]()
    for name, heading in (*own.items(), *((heading, heading) for heading in others)):
        excerpts = [page for page in (*history.read, *history.all_hits) if page.heading == heading]
        units = {page.unit for page in excerpts} - {""}
        if heading != DEFINITIONS and (units & units_asked_for or not units or units_asked_for <= {"fine"}):
            rules[name] = heading, " ".join(page.lines[0] for page in excerpts)
    scores = fits(rules, history.question)
    least = max((scores[name] / (3 if name in own else 1) for name in scores), default=0)
    return sorted((name for name in own if scores.get(name, 0) > least), key=lambda name: -scores[name])


def final_answer(request: Request, history: SearchHistory, hits: Sequence[Excerpt]) -> str:
    """Return an answer from pages read and `hits`, its sources the sections used; ABSTAIN where something is missing."""
    style = "tags" if request.prefill else history.style
    reading = QuestionReader(history.question, {page.id: page for page in (*hits, *history.read)}, final=True)
    with suppress(Missing):
        return rendered(ANSWER, style, answer=reading.answer(), sources=list(reading.used))
    return rendered(ANSWER, style, answer=ABSTAIN, sources=[])


@dataclass
class QuestionReader:
    """One question over the pages that were read, by id; `used` collects the ids that the answer rests on."""

    question: str
    pages: Mapping[str, Excerpt]
    final: bool = False  # no more can be read: what is defined on no page is taken not to apply
    used: dict[str, None] = field(default_factory=dict)

    def answer(self) -> str:
        """Return a term, fine, last day, amount or difference, as asked; Missing names the page that lacks, "" for a rule."""
        try:
            names, units = names_in(self.question), units_in(self.question)
            if not (names or units or days_in(self.question)):
                meanings = [page for page in self.pages.values() if " means " in page.lines[0]]
                return self._best_page(meanings, DEFINITIONS).lines[0].split('"')[1]
            cases = [self._page_at(name).text for name in names] or [self.question]
            rule = self._rule(cases[0])
            if units == {"fine"}:
                return str(self._fine(rule, cases[0]))
            first, *others = [self._amount(rule, case) for case in cases]
            if not units:
                return self._last_day(rule, first)
            return str(abs(first - others[0]) if others else first)
        except (IndexError, OverflowError, ValueError):  # a text of another build than these rules are for
            raise Missing("") from None

    def _page(self, name: str) -> Excerpt:
        """Return a page by id and note it as used; raises Missing with the id where it was not read."""
        if name not in self.pages:
            raise Missing(name)
        self.used[name] = None
        return self.pages[name]

    def _page_at(self, end: str, start: str = "") -> Excerpt:
        """Return the first page that was read whose place begins and ends so; raises Missing with both, joined."""
        fitting = (page.id for page in self.pages.values() if page.place.startswith(start) and page.place.endswith(end))
        return self._page(next(fitting, f"{start}{end}"))

    def _best_page(self, pages: Sequence[Excerpt], missing: str) -> Excerpt:
        """Return the page whose heading and first sentence fit the question best, as used; Missing(`missing`) if none."""
        scores = fits({page.id: (page.heading, page.lines[0]) for page in pages}, self.question)
        best = max(scores, key=lambda name: scores[name], default="")
        return self._page(best if scores.get(best) else missing)

    def _rule(self, case: str) -> Excerpt:
        """Return the page of the rule that fits case and unit best, in its chapter or country; Missing where none is read."""
        chapter, units = _CHAPTER.search(case), units_in(self.question)
        where = f"Chapter {chapter[1]}." if chapter else ""
        sign = "offence of class" if units == {"fine"} else "" if units else "counted"
        rules = [page for page in self.pages.values() if where in page.place and sign in page.text]
        rules = [page for page in rules if sign or page.unit in units]
        reference_ids = {match[3] for page in rules if (match := _RELATIVE.search(page.lines[0]))}
        rules = [page for page in rules if page.is_about(self.question)] or rules
        return self._best_page([page for page in rules if page.id not in reference_ids], "")

    def _amount(self, rule: Excerpt, case: str) -> int:
        """Return a rule's amount for a case: base and the changes that apply, their sums capped; Missing for unread pages."""
        changes = {"increased": 0, "reduced": 0}
        for line in sorted(rule.lines, key=lambda line: "together" in line):  # limits last
            changed = re.search(r"(increased|reduced) by (.*)", line)
            if changed and self._applies(line, case):
                changes[changed[1]] += number_in(changed[2])
            elif "together" in line:
                name = "reduced" if "reductions" in line else "increased"
                changes[name] = min(changes[name], number_in(line))
        return self._base(rule, case) + changes["increased"] - changes["reduced"]

    def _base(self, rule: Excerpt, case: str) -> int:
        """Return a rule's amount before changes: by the case's own condition, else as amended by then, else as enacted."""
        for line in case.splitlines():
            own = re.search(r"\b(?:with|by) (\S+(?: [a-z]+)?) in place of", line)
            if own and rule.id in _CITED.findall(line):
                return number_in(own[1])
        granted = licence_in(case)
        matters = [day for day in days_in(self.question) if day != granted or case is not self.question]
        for line in rule.lines[1:]:
            if "amended" in line and matters and units_in(self.question):
                act = self._page(_CITED.findall(line)[0])
                (since, *_), *later = [days for line in act.lines if (days := days_in(line))]
                if granted and later and granted < later[0][0]:  # older licences wait longer
                    since = later[0][1]
                if matters[0] >= since:
                    return number_in(act.text.partition('"')[2])
        return self._enacted(rule)

    def _enacted(self, rule: Excerpt) -> int:
        """Return the amount of a rule's first paragraph, by reference another rule's plus or minus a difference; or Missing."""
        if not (reference := _RELATIVE.search(rule.lines[0])):
            return number_in(rule.lines[0])
        return self._enacted(self._page(reference[3])) + number_in(reference[1]) * (1 if reference[2] == "more" else -1)

    def _applies(self, line: str, case: str) -> bool:
        """Return whether a case meets a sentence's condition: its licence's day, or all cited pages (unread ones: Missing)."""
        if bounds := days_in(line):
            granted = licence_in(case)
            return granted is not None and (granted < bounds[0]) is ("before" in line)
        cited = [name for name in _CITED.findall(line) if name in self.pages or not self.final]
        return bool(cited) and all(self._meets(self._page(name), line, case) for name in cited)

    @staticmethod
    def _meets(page: Excerpt, line: str, case: str) -> bool:
        """Return whether a case is what a page defines: of a size (largest count, less those left out), or in its words."""
        sized = [row for row in page.lines if re.search(r"fewer than \d|or more", row)]
        if not sized:
            first, *rest = page.lines
            excepted = share(" ".join(rest), case, f"{first} {line}")
            return share(first, case, line) >= 0.5 > excepted
        row = max(sized, key=lambda row: share(row, line)).replace(" or more", "")
        counts = counts_in(case)
        left_out = sum(counts[1:2]) if "left out" in page.text else 0
        return bool(counts) and (counts[0] - left_out < number_in(row)) is ("fewer than" in row)

    def _last_day(self, rule: Excerpt, days: int) -> str:
        """Return a period's last day as text: postal days, counting rule and closed weekdays included; Missing if unread."""
        cited = _CITED.findall(next(line for line in (*rule.lines, "counted") if "counted" in line))
        counting, days_of_case = self._page(cited[0]), days_in(self.question)
        end = [day for day in days_of_case if day != licence_in(self.question) or len(days_of_case) == 1][-1]
        if re.search(r"\b(?:post|mail)", self.question):
            end += timedelta(days=number_in(self._page(cited[1]).lines[0]))
        end += timedelta(days=days - (not re.search(r"not include|day after", counting.lines[0])))
        while WEEKDAYS[end.weekday()] in counting.text:
            end += timedelta(days=1)
        return written_date(end)

    def _fine(self, rule: Excerpt, case: str) -> int:
        """Return the highest fine: class times unit, doubled for a major business, with the share for a repeated offence."""
        offence, place = re.findall(r"(class \w).*?§ ?(\d[\w:.-]*\w)", rule.text)[0]
        scale = self._page(place).text
        unit, repeat = _CITED.findall(scale)
        total = number_in(scale.partition(offence)[2]) * number_in(self._page(unit).text)
        total *= 1 + self._meets(self._page_at(DEFINITIONS, rule.place.rpartition("§")[0]), "major", case)
        if years := re.search(r"(\d+) years?\b", self.question):
            limit, percent = re.findall(r"\d+", self._page(repeat).text)
            total += total * int(percent) // 100 if int(years[1]) <= int(limit) else 0
        return total
