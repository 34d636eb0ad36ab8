"""An answer is worked out from sections of law that were read: rules over their sentences, without a model.

The rules know how law is drafted: an amount, references ("5 days more than ... § 3-101(a)"), increases and reductions under a
condition, a definition and its exception, limits, substitutions from a day on, and the counting of days. What is asked, and
what is told of the case, they find by units, numbers, dates and names, and by words that a definition shares with the case.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

from agent_envs.envs.legal_search.dates import MONTHS, WEEKDAYS, written_date
from agent_envs.envs.legal_search.transcript import Shown
from agent_envs.tools.retrieval.bm25 import STOP_WORDS

_WORD = re.compile(r"[a-z]{3,}")
_DAY = re.compile(rf"(\d{{1,2}}) ({'|'.join(MONTHS)}) (\d{{4}})")
_NUMBER = re.compile(r"\$([\d,]+)|\b([\d,]+) (?:percent|days?|hours?|weeks?|months?|years?|units)")
_CITED = re.compile(r"§ ?(\d[\w:.-]*\w)")
_NAME = re.compile(r"[A-Z][a-z]+ (?:&|and) [A-Z][a-z]+")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")
_COMMON = frozenset((*STOP_WORDS, *"""one not any who holder holders business case does may must this there under whose
section premises day days hour hours week weeks month months year years dollar dollars percent how many much long
what""".split()))  # fmt: skip


class Missing(Exception):
    """A section that must be read, or a heading that must be found, before an answer can be worked out."""


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
        """Return the answer.

        Raises:
            Missing: something must be read first; its argument is an id, or words to search for.
        """
        term = re.search(r"\b(?:call|word|term)\b", self.question) and self._defined()
        if term:
            return term
        names = names_in(self.question)
        cases = [self._entry(name) for name in names] or [self.question]
        rule = self._rule(cases[0])
        if re.search(r"\bfine\b", self.question):
            return str(self._fine(rule, cases[0]))
        amounts = [self._amount(rule, case) for case in cases]
        if len(amounts) > 1:
            return str(abs(amounts[0] - amounts[1]))
        return self._last_day(rule, amounts[0]) or str(amounts[0])

    def page(self, name: str) -> Shown:
        """Return a page that was read, as one that the answer rests on."""
        if name not in self.pages:
            raise Missing(name)
        self.used[name] = None
        return self.pages[name]

    def _defined(self) -> str:
        rows = [(len(words_of(line) & words_of(self.question)), page.id, line)
                for page in self.pages.values() for line in lines_of(page.text) if " means " in line]  # fmt: skip
        shared, name, line = max(rows, default=(0, "", ""))
        quoted = re.search(r'"(.+?)"', line)
        if quoted is None or shared < 2:
            raise Missing("Definitions")
        self.used[name] = None
        return quoted[1]

    def _entry(self, name: str) -> str:
        found = next((page.id for page in self.pages.values() if page.place.endswith(name)), None)
        if found is None:
            raise Missing(name)
        return self.page(found).text

    def _rule(self, case: str) -> Shown:
        """Return the page whose heading and first sentence share most with the question, in the chapter of the case."""
        chapter = re.search(r"chapter (\d[\w:.-]*\w)", case)
        province = re.search(r"\b[Ii]n ([A-Z][a-z]+)\b", self.question)
        where = f"Chapter {chapter[1]}." if chapter else province[1] if province else ""
        asked = words_of(self.question)
        rows = []
        for page in self.pages.values():
            heading = page.place.rpartition("§ ")[2].partition(". ")[2]
            if where in page.place and re.search(r"(?:increased|reduced) by|offence", page.text):
                named, said = words_of(heading), words_of(f"{heading} {lines_of(page.text)[0]}")
                rows.append((len(asked & said), len(asked & named), page.id))
        shared, _, name = max(rows, key=lambda row: row[0] + row[1], default=(0, 0, ""))
        if shared < 2:
            raise Missing("")
        return self.page(name)

    def _amount(self, rule: Shown, case: str) -> int:
        base, more, less = self._base(rule, case), 0, 0
        for line in lines_of(rule.text)[1:]:
            changed = re.search(r"(increased|reduced) by (.*)", line)
            if changed and self._applies(line, case):
                change = number_in(changed[2])
                more, less = (more + change, less) if changed[1] == "increased" else (more, less + change)
        for line in lines_of(rule.text):
            if "together" in line and "reductions" in line:
                less = min(less, number_in(line))
            elif "together" in line and "increases" in line:
                more = min(more, number_in(line))
        return base + more - less

    def _base(self, rule: Shown, case: str) -> int:
        """Return the amount of a rule before it is varied: a condition of the case's own, or amended, or as enacted."""
        for line in lines_of(case):
            own = re.search(r"\b(?:with|by) (\S+(?: [a-z]+)?) in place of", line)
            if own and rule.id in _CITED.findall(line):
                return number_in(own[1])
        dates = days_in(self.question)
        granted = granted_in(case)
        matter = next((day for day in dates if day != granted or case is not self.question), None)
        for line in lines_of(rule.text)[1:]:
            if "amended" in line and matter and not re.search(r"last day|date", self.question):
                new = self._amended(self.page(_CITED.findall(line)[0]), matter, granted)
                if new is not None:
                    return new
        return self._enacted(rule)

    def _enacted(self, rule: Shown) -> int:
        first = lines_of(rule.text)[0]
        taken = re.search(r"(\S+(?: [a-z]+){0,2}) (more|less) than .*?§ ?(\d[\w:.-]*\w)", first)
        if taken is None:
            return number_in(first)
        change = number_in(taken[1])
        return self._enacted(self.page(taken[3])) + (change if taken[2] == "more" else -change)

    @staticmethod
    def _amended(act: Shown, matter: date, granted: date | None) -> int | None:
        new, since = None, date.max
        for line in lines_of(act.text):
            days = days_in(line)
            if "substituted for" in line:
                new = number_in(line.partition("substituted for")[0].partition('"')[2])
            elif "before" in line and len(days) > 1:
                since = days[1] if granted and granted < days[0] else since
            elif days:
                since = days[0]
        return new if matter >= since else None

    def _applies(self, line: str, case: str) -> bool:
        """Return whether a case meets the condition of a sentence."""
        bound, granted = next(iter(days_in(line)), None), granted_in(case)
        if bound:
            return granted is not None and ((granted < bound) if "before" in line else (granted >= bound))
        cited = _CITED.findall(line)
        if self.final and not self.pages.keys() >= set(cited):
            return False
        return all(self._meets(self.page(name), line, case) for name in cited)

    def _meets(self, page: Shown, line: str, case: str) -> bool:
        """Return whether a case is what a page defines: of a size, or in words that both share."""
        sized = [row for row in lines_of(page.text) if re.search(r"fewer than \d|or more", row)]
        if sized:
            return self._sized(page, max(sized, key=lambda row: len(words_of(row) & words_of(line))), case)
        first, *rest = lines_of(page.text)
        told, term = words_of(case), words_of(line)
        said = words_of(first) - term
        excepted = words_of(" ".join(rest)) - said - term
        return 2 * len(said & told) >= len(said) and not excepted & told

    def _sized(self, page: Shown, row: str, case: str) -> bool:
        numbers = [int(number) for number in re.findall(r"\d+", row)]
        unit = re.search(r"\d+ (?:or more )?([a-z]+(?: [a-z]+)?)", row.replace(" or more", ""))
        count = re.search(rf"(\d+) {unit[1]}", case) if unit else None
        if count is None:
            return False
        size = int(count[1])
        idle = re.search(r"(\d+)[^.;()]{0,30} out of use", case)
        if idle and re.search(r"out of use are (?:left out|not counted)", page.text):
            size -= int(idle[1])
        return size < numbers[0] if "fewer than" in row else size >= numbers[0]

    def _last_day(self, rule: Shown, days: int) -> str:
        """Return the last day of a period; "" where the question does not ask for one."""
        line = next((line for line in lines_of(rule.text) if "counted" in line), "")
        if not re.search(r"last day|date", self.question) or not line:
            return ""
        counting, *others = (self.page(name) for name in _CITED.findall(line)[: 1 + ("post" in self.question)])
        named = re.search(rf"(?:{'|'.join(WEEKDAYS)}) ({_DAY.pattern})", self.question)
        start = days_in(named[1] if named else self.question)[-1]
        for word in re.findall(rf"on the ({'|'.join(_ORDINALS)}) day", others[0].text if others else ""):
            start += timedelta(days=1 + _ORDINALS.index(word))
        first_counts = not re.search(r"not include|day after", lines_of(counting.text)[0])
        end = start + timedelta(days=days - first_counts)
        while WEEKDAYS[end.weekday()] in counting.text:
            end += timedelta(days=1)
        return written_date(end)

    def _fine(self, rule: Shown, case: str) -> int:
        line = next((line for line in lines_of(rule.text) if "offence" in line), "")
        if not line:
            raise Missing("")
        scale = self.page(_CITED.findall(line)[0])
        name = re.search(r"class (\w)", line)
        row = next((row for row in lines_of(scale.text) if name and name[0] in row), "")
        total = number_in(row.partition(name[0])[2] if name else row)
        unit, *more = _CITED.findall(scale.text) or [""]
        total *= number_in(self.page(unit).text)
        chapter = rule.place.rpartition(" > ")[0]
        homes = [
            page.id for page in self.pages.values() if page.place.startswith(chapter) and "Definitions" in page.place
        ]
        cited = [name for name in _CITED.findall(rule.text) if name.rpartition("-")[0] == rule.id.rpartition("-")[0]]
        if not homes and not cited:
            raise Missing(f"{chapter} Definitions")
        total *= 1 + self._meets(self.page((homes or cited)[0]), "major", case)
        years = re.search(r"(\d+) years", self.question)
        if years and more:
            limit, percent = (int(number) for number in re.findall(r"\d+", _CITED.sub("", self.page(more[0]).text))[:2])
            total += total * percent // 100 if int(years[1]) <= limit else 0
        return total


def words_of(text: str) -> set[str]:
    """Return the words of a text that count, without endings: their first five letters."""
    return {re.sub(r"(?:ing|ed|es|s|e)$", "", word)[:5] for word in _WORD.findall(text.lower()) if word not in _COMMON}


def lines_of(text: str) -> list[str]:
    """Return the paragraphs of a section, without their letters."""
    return [re.sub(r"^\(\w\) ", "", line.strip()) for line in text.splitlines() if line.strip()] or [""]


def names_in(question: str) -> list[str]:
    """Return the names of firms in a question."""
    return list(dict.fromkeys(_NAME.findall(question)))


def number_in(text: str) -> int:
    """Return the first amount of a text."""
    found = _NUMBER.search(text)
    number = (found[1] or found[2]) if found else next(iter(re.findall(r"\d[\d,]*", text)), "0")
    return int(number.replace(",", "")[:15])


def days_in(text: str) -> list[date]:
    """Return the days that a text names."""
    return list(_days(text))


def _days(text: str) -> Iterator[date]:
    for day, month, year in _DAY.findall(text):
        try:
            yield date(int(year), MONTHS.index(month) + 1, int(day))
        except ValueError:  # 31 February
            continue


def granted_in(case: str) -> date | None:
    """Return the day of a licence, which stands behind that word."""
    found = re.search(rf"licen[^.;()]{{0,40}}?({_DAY.pattern})", case)
    return next(_days(found[1]), None) if found else None
