"""An answer is worked out from sections of law that were read: rules over their sentences, without a model or gold.

The rules know how law is drafted: an amount, references ("5 days more than ... § 3-101(a)"), increases and reductions under a
condition, definitions and their exceptions, limits, substitutions from a day on, the counting of days. What is told of a case
they find by units, numbers, dates and names, and by words that it shares with a definition.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

from agent_envs.envs.legal_search.dates import DAY, WEEKDAYS, days_in, written_date
from agent_envs.envs.legal_search.transcript import Shown
from agent_envs.tools.retrieval.bm25 import STOP_WORDS

DEFINITIONS = "Definitions"
_CITED = re.compile(r"§ ?(\d[\w:.-]*\w)")
_DEADLINE = re.compile(r"\blast day\b|\bdate\b")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")
_COMMON = frozenset((*STOP_WORDS, *"""one not any who holder holders business case does may must this there under whose
section premises day days hour hours month months year years dollar dollars percent how many much long what make makes out
put puts taking part end being""".split()))  # fmt: skip


class Missing(Exception):
    """A section must be read first: its id, the end of its place, or "" for the rule that the question is about."""


@dataclass
class Reading:
    """One question over the pages that were read, by id; `used` collects the ids that the answer rests on.

    `final` is for where no more can be read: what is defined on no page is taken not to apply.
    """

    question: str
    pages: Mapping[str, Shown]
    final: bool = False
    used: dict[str, None] = field(default_factory=dict)

    def answer(self) -> str:
        """Return the answer; raises Missing."""
        try:
            return self._answer()
        except (IndexError, OverflowError, ValueError):  # a text of another build than these rules are for
            raise Missing("") from None

    def _answer(self) -> str:
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

    def _page(self, name: str) -> Shown:
        if name not in self.pages:
            raise Missing(name)
        self.used[name] = None
        return self.pages[name]

    def _page_at(self, place: str) -> Shown:
        """Return the page whose place ends with some words."""
        return self._page(next((page.id for page in self.pages.values() if page.place.endswith(place)), place))

    def _defined(self) -> str:
        """Return the term whose definition shares most with the question."""
        lines = [(shared(line, self.question), page.id, line)
                 for page in self.pages.values() for line in lines_of(page.text) if " means " in line]  # fmt: skip
        count, name, line = max(lines, default=(0, DEFINITIONS, ""))
        return line.split('"')[1] if self._page(name if count > 1 else DEFINITIONS) else ""

    def _rule(self, case: str) -> Shown:
        """Return the page whose heading and first sentence share most with the question, in the chapter of the case."""
        chapter = re.search(r"chapter (\d[\w:.-]*\w)", case)
        country = re.search(r"\b[Ii]n ([A-Z][a-z]+)\b", self.question)
        where = f"Chapter {chapter[1]}." if chapter else country[1] if country else ""
        best, rule = 1, ""
        for page in self.pages.values():
            heading, first = page.place.rpartition(". ")[2], lines_of(page.text)[0]
            named, said = shared(heading, self.question), shared(f"{heading} {first}", self.question)
            fits = said > 1 or 2 * named >= len(words_of(heading)) > 0
            if where in page.place and fits and re.search(r"(?:increased|reduced) by|offence", page.text):
                best, rule = max((best, rule), (named + max(said, 2), page.id), key=lambda row: row[0])
        return self._page(rule)

    def _amount(self, rule: Shown, case: str) -> int:
        """Return the amount of a rule for a case, increased and reduced within the limits."""
        changes = {"increased": 0, "reduced": 0}
        for line in lines_of(rule.text):
            changed = re.search(r"(increased|reduced) by (.*)", line)
            if changed and self._applies(line, case):
                changes[changed[1]] += number_in(changed[2])
        for line in (line for line in lines_of(rule.text) if "together" in line):
            name = "reduced" if "reductions" in line else "increased"
            changes[name] = min(changes[name], number_in(line))
        return self._base(rule, case) + changes["increased"] - changes["reduced"]

    def _base(self, rule: Shown, case: str) -> int:
        """Return the amount of a rule before it is varied: by a condition of the case's own, or amended, or as enacted."""
        for line in lines_of(case):
            own = re.search(r"\b(?:with|by) (\S+(?: [a-z]+)?) in place of", line)
            if own and rule.id in _CITED.findall(line):
                return number_in(own[1])
        granted = granted_in(case)
        matters = [day for day in days_in(self.question) if day != granted or case is not self.question]
        for line in lines_of(rule.text)[1:]:
            if "amended" in line and matters and not _DEADLINE.search(self.question):
                since, new = self._amended(self._page(_CITED.findall(line)[0]), granted)
                if matters[0] >= since:
                    return new
        return self._enacted(rule)

    def _enacted(self, rule: Shown) -> int:
        first = lines_of(rule.text)[0]
        taken = re.search(r"(\S+(?: [a-z]+){0,2}) (more|less) than .*?§ ?(\d[\w:.-]*\w)", first)
        if taken is None:
            return number_in(first)
        return self._enacted(self._page(taken[3])) + number_in(taken[1]) * (1 if taken[2] == "more" else -1)

    @staticmethod
    def _amended(act: Shown, granted: date | None) -> tuple[date, int]:
        """Return the day from which an amendment counts for a licence, and the amount that it puts in."""
        since = date.max
        for line in lines_of(act.text):
            if "before" in line and len(days := days_in(line)) > 1:
                since = days[1] if granted and granted < days[0] else since
            elif days := days_in(line):
                since = days[0]
        return since, number_in(act.text.partition('"')[2])

    def _applies(self, line: str, case: str) -> bool:
        """Return whether a case meets the condition of a sentence."""
        if bounds := days_in(line):
            granted = granted_in(case)
            return granted is not None and (granted < bounds[0]) is ("before" in line)
        cited = _CITED.findall(line)
        if self.final and not self.pages.keys() >= set(cited):
            return False
        return all(self._meets(self._page(name), line, case) for name in cited)

    @staticmethod
    def _meets(page: Shown, line: str, case: str) -> bool:
        """Return whether a case is what a page defines: of a size, or in words that both share."""
        sized = [row for row in lines_of(page.text) if re.search(r"fewer than \d|or more", row)]
        if not sized:
            first, *rest = lines_of(page.text)
            said = words_of(first) - words_of(line)
            unless = words_of(" ".join(rest)) - said - words_of(line)
            told = words_of(case)
            return 2 * len(said & told) >= len(said) and not (unless and 2 * len(unless & told) >= len(unless))
        row = max(sized, key=lambda row: shared(row, line)).replace(" or more", "")
        bound, unit = re.findall(r"(\d+) ([a-z]+(?: [a-z]+)?)", row)[0]
        count = re.search(rf"(\d+) {unit}", case)
        idle = re.search(r"(\d+)[^.;()]{0,30} out of use", case)
        left_out = int(idle[1]) if idle and "left out" in page.text else 0
        return count is not None and (int(count[1]) - left_out < int(bound)) is ("fewer than" in row)

    def _last_day(self, rule: Shown, days: int) -> str:
        """Return the last day of a period that begins with the event that the question tells."""
        line = next(line for line in (*lines_of(rule.text), "counted") if "counted" in line)
        counting, *post = (self._page(name) for name in _CITED.findall(line)[: 1 + ("post" in self.question)])
        named = re.search(rf"(?:{'|'.join(WEEKDAYS)}) ({DAY.pattern})", self.question)
        end = days_in(named[1] if named else self.question)[-1]
        for word in re.findall(rf"on the ({'|'.join(_ORDINALS)}) day", post[0].text if post else ""):
            end += timedelta(days=1 + _ORDINALS.index(word))
        end += timedelta(days=days - (not re.search(r"not include|day after", lines_of(counting.text)[0])))
        while WEEKDAYS[end.weekday()] in counting.text:
            end += timedelta(days=1)
        return written_date(end)

    def _fine(self, rule: Shown, case: str) -> int:
        """Return the highest fine: of a class on a scale, for a major business, and for an offence that is repeated."""
        line = [line for line in lines_of(rule.text) if "offence" in line][0]
        scale, offence = self._page(_CITED.findall(line)[0]), re.findall(r"class \w", line)[0]
        unit, repeat = _CITED.findall(scale.text)
        total = number_in(scale.text.partition(offence)[2]) * number_in(self._page(unit).text)
        home = self._page_at(f"{rule.place.rpartition(' > ')[0]} > § {rule.id.rpartition('-')[0]}-101. {DEFINITIONS}")
        total *= 1 + self._meets(home, "major", case)
        if years := re.search(r"(\d+) years", self.question):
            limit, percent = re.findall(r"\d+", self._page(repeat).text)
            total += total * int(percent) // 100 if int(years[1]) <= int(limit) else 0
        return total


def words_of(text: str) -> set[str]:
    """Return the words of a text that count, without endings: their first five letters."""
    words = (word for word in re.findall(r"[a-z]{3,}", text.lower()) if word not in _COMMON)
    return {re.sub(r"(?:ing|ed|es|s|e)$", "", word)[:5] for word in words}


def shared(one: str, other: str) -> int:
    """Return how many words two texts share."""
    return len(words_of(one) & words_of(other))


def lines_of(text: str) -> list[str]:
    """Return the paragraphs of a section, without their letters."""
    return [re.sub(r"^\(\w\) ", "", line.strip()) for line in text.splitlines() if line.strip()] or [""]


def names_in(question: str) -> list[str]:
    """Return the names of firms in a question."""
    return list(dict.fromkeys(re.findall(r"[A-Z][a-z]+ (?:&|and) [A-Z][a-z]+", question)))


def number_in(text: str) -> int:
    """Return the first amount of a text."""
    found = re.search(r"\$([\d,]+)|\b([\d,]+) (?:percent|days?|hours?|months?|years?|units)", text) or re.search(
        r"(\d+)()", text
    )
    return int(((found[1] or found[2]) if found else "0").replace(",", "")[:15])


def granted_in(case: str) -> date | None:
    """Return the day of a licence, which stands behind that word."""
    found = re.search(rf"licen[^.;()]{{0,40}}?({DAY.pattern})", case)
    return next(iter(days_in(found[1])), None) if found else None
