"""A clerk for generated law works answers out from the texts that prove them, and refuses what does not follow strictly.

It shares no code with the generator or with the searcher's reader, is handed the sections that a question rests on, and fails
(`Unproved`) where a text that it needs is missing, counts in another unit than the question, or says nothing of the kind.
"""

import re
from datetime import date, timedelta

MONTHS = "January February March April May June July August September October November December".split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
DAY = rf"(\d+) ({'|'.join(MONTHS)}) (\d{{4}})"
AMOUNT = r"\$([\d,]+)|(\d+) (days?|hours?|months?|years?|percent(?:age points?)?|units)\b"
NTH = {"second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6}
GROUPS = {  # what tells of a group, and of its exception, in the register and in both sets of questions
    "insular": ("island", "bridge"),
    "charitable": ("club", "salary"),
    "seasonal": ("summer", "winter"),
    "probationary": ("beginner", "guild"),
    "municipal": ("town council", "tender"),
}


class Unproved(Exception):
    """The texts do not prove an answer."""


def need(found, what):
    if not found:
        raise Unproved(what)
    return found


def amount(text, unit=""):
    found = need(re.search(AMOUNT, text), f"no amount in {text!r}")
    told = "dollar" if found[1] else found[3].rstrip("s").replace("percentage point", "percent")
    need(not unit or told == unit, f"{text!r} is not in {unit}")
    return int((found[1] or found[2]).replace(",", ""))


def day(text):
    number, month, year = need(re.search(DAY, text), f"no day in {text!r}").groups()
    return date(int(year), MONTHS.index(month) + 1, int(number))


class Clerk:
    """One question over the sections that prove its answer."""

    def __init__(self, question, library, support, without=None):
        self.question = question
        self.texts = {name: library.read(name).text.splitlines() for name in support}
        if without:
            name, letter = without
            gone = [line for line in self.texts[name] if line.startswith(f"({letter})") or not letter]
            need(gone, f"{name} has no {letter}")
            self.texts[name] = [line for line in self.texts[name] if line not in gone]
        self.entries = [name for name in support if "Register of" in library.breadcrumb(name)]
        self.order = [name for name in support if name not in self.entries]
        self.places = {name: library.breadcrumb(name) for name in support}

    def line(self, name, *parts):
        """The one line of a section that holds all parts."""
        need(name in self.texts, f"{name} was not read")
        rows = [line for line in self.texts[name] if all(re.search(part, line) for part in parts)]
        need(len(rows) == 1, f"{name}: {len(rows)} lines with {parts}")
        return rows[0]

    def lines(self, name, part):
        need(name in self.texts, f"{name} was not read")
        return [line for line in self.texts[name] if re.search(part, line)]

    def answer(self):
        asked = self.question
        if re.search("What does the law|Which word does the law", asked):
            means = asked.partition(" call ")[2] or asked.partition(" for ")[2]
            return re.search(r'"(.+?)"', self.line(self.order[0], re.escape(means.rstrip("?"))))[1]
        cases = self.entries or [""]
        for entry in self.entries:
            chapter = re.search(r"under chapter (\S+)\.", self.line(entry, "under chapter"))[1]
            need(self.order[0].startswith(f"{chapter}-"), "another chapter")
        if re.search("highest fine|can the fine be", asked):
            return str(self.fine(cases[0]))
        values = [self.value(case) for case in cases]
        if len(values) == 2:
            return str(abs(values[0] - values[1]))
        return self.last_day(values[0]) if re.search("last day|which date", asked) else str(values[0])

    def told(self, case):
        return " ".join(self.texts[case]) if case else self.question

    def unit(self):
        """What the amount of the rule is asked in."""
        if re.search("last day|which date", self.question):
            return "day"
        found = re.search(
            r"(?:how many|percentage|in|many) (dollar|day|month|year|hour|percent)|percentage", self.question, re.I
        )
        return (need(found, "no unit asked")[1] or "percent").lower()

    def value(self, case):
        rule, unit = self.order[0], self.unit()
        base = self.special(case, rule, unit)
        if base is None:
            base = self.amended(case, rule, unit)
        more, less = 0, 0
        for line in self.lines(rule, "increased by|reduced by"):
            if self.applies(line, case):
                change = amount(line.partition("ed by ")[2], unit)
                more, less = (more + change, less) if "increased by" in line else (more, less + change)
        for line in self.lines(rule, "together"):
            limit = amount(line, unit)
            more, less = (min(more, limit), less) if "increases" in line else (more, min(less, limit))
        return base + more - less

    def special(self, case, rule, unit):
        own = [line for line in self.texts.get(case, ()) if "in place of" in line and f"§ {rule}(a)" in line]
        return amount(own[0].partition(" by " if "bound by" in own[0] else " with ")[2], unit) if own else None

    def enacted(self, name, unit):
        line = need(self.texts.get(name), f"{name} was not read")[0]
        need(line.startswith("(a)"), "no paragraph (a)")
        other = re.search(r"(\S+(?: \w+){0,2}?) (more|less) than the \w+ that § (\S+)\(a\) fixes", line)
        if not other:
            return amount(line, unit)
        delta = amount(other[1], unit)
        return self.enacted(other[3], unit) + (delta if other[2] == "more" else -delta)

    def amended(self, case, rule, unit):
        matter = re.search(rf"(?:arose on|a matter of|^On) {DAY}", self.question)
        acts = self.lines(rule, r"amended (?:by|there)")
        act = next((name for name in self.order if "Amendments" in self.places[name]), "")
        need(bool(act) <= bool(acts), "nothing leads to the amendment")
        if not (matter and act):
            need(not (matter and acts), "the amendment is not there")
            return self.enacted(rule, unit)
        new = self.line(act, rf"§ {re.escape(rule)}\(a\)", "substituted")
        since = day(self.line(act, "on or after", "earlier"))
        for line in self.lines(act, "granted before"):
            granted = self.granted(case)
            bound, later = (day(text) for text in line.split("granted before ")[1].split("on or after "))
            since = later if granted and granted < bound else since
        replaced = amount(new.partition('"')[2], unit)
        return replaced if day(matter[0]) >= since else self.enacted(rule, unit)

    def granted(self, case):
        found = re.search(rf"(?:granted on|licensed since|holding a licence of) {DAY}", self.told(case))
        need(found or not case, "no day of the licence")
        return day(found[0]) if found else None

    def applies(self, line, case):
        if re.search("granted (?:before|on or after)", line):
            granted = self.granted(case)
            return granted is not None and (granted < day(line) if "granted before" in line else granted >= day(line))
        place = re.search(r"§ (\S+?-\d+)", line)[1]
        size = re.search(r"\b(minor|major)\b", line)
        if size:
            return self.is_of(size[1], place, case)
        adjective = next(name for name in GROUPS if name in line)
        inside, excepted = GROUPS[adjective]
        if inside not in self.told(case):
            return False
        defined = [row for row in self.lines(place, inside) if not re.search("not|an end", row)]
        need(defined, f"{place} defines nothing")
        out = excepted in self.told(case)
        need(not out or self.lines(place, excepted), f"{place} excepts nobody")
        return not out

    def is_of(self, size, place, case):
        line = self.line(place, rf"(?i)\b{size}\b")
        bound = re.search(r"fewer than (\d+) ([\w ]+?)\.|(\d+) ([\w ]+?) or more\.|(\d+) or more ([\w ]+?)\.", line)
        low, high = bound[1], bound[3] or bound[5]
        unit = bound[2] or bound[4] or bound[6]
        counts = re.findall(rf"(\d+) {unit}\b", self.told(case))
        if not counts and not case and not re.search(r"\b(?:with|has) \d+|\d+ [\w ]+ in all", self.question):
            return False
        count = int(need(counts, f"the case is not counted in {unit}")[0])
        idle = re.search(
            r"(\d+) (?:of them |of which )?(?:are )?out of use|of which (\d+) are out of use", self.told(case)
        )
        if idle and "left out" in self.line(place, "out of use"):
            count -= int(idle[1] or idle[2])
        return count < int(low) if low else count >= int(high)

    def last_day(self, days):
        rule = self.order[0]
        counting, post = re.findall(r"§ (\S+?-\d+)", self.line(rule, "counted"))
        start = day(re.search(rf"(?:{'|'.join(WEEKDAYS)}) {DAY}", self.question)[0])
        if "posted" in self.question:
            start += timedelta(days=NTH[re.search(r"on the (\w+) day after", self.line(post, "was posted"))[1]])
        first = self.line(counting, "day of the event|day after the event")
        out = "not include" in first or "day after" in first
        end = start + timedelta(days=days if out else days - 1)
        rest = self.line(counting, "would end")
        while WEEKDAYS[end.weekday()] in rest:
            end += timedelta(days=1)
        return f"{end.day} {MONTHS[end.month - 1]} {end.year}"

    def fine(self, case):
        offence = self.line(self.order[0], "offence of class")
        name, place = re.search(r"class (\w)", offence)[1], re.search(r"§ (\S+?-\d+)", offence)[1]
        units = amount(self.line(place, f"class {name} is"), "unit")
        home = next(other for other in self.order if self.places[other].endswith("Definitions"))
        doubled = self.lines(place, "doubled") and self.is_of("major", home, case)
        need(self.lines(place, "doubled"), "nothing is said of major businesses")
        unit, repeat = re.findall(r"§ (\S+?-\d+)", self.line(place, "A unit is worth"))
        total = units * (2 if doubled else 1) * amount(self.line(unit, "unit of fines"))
        earlier = re.search(r"(\d+) years (?:earlier|before)", self.question)
        if earlier:
            years, percent = re.search(
                r"more than (\d+) years.* by (\d+) percent", self.line(repeat, "same offence")
            ).groups()
            total += total * int(percent) // 100 if int(earlier[1]) <= int(years) else 0
        return total
