"""The sections that a question on generated law needs are found by the words in which questions and law are put."""

import re
from functools import cache

from agent_envs.envs.legal_search.statute_parts import Activity, RuleKind, parts

Need = tuple[str, str, str]  # the heading of a chapter, that of a section in it, and further words that find it
_MONEY, _TIME = "Money", "Time and service"
_FEES = re.compile(
    r"(?:the grant of a licence|the renewal of a licence|getting permission for the first time|having the permission extended) "
    r"cost"
)
_LONGEST = 2_000  # characters of a question


def needs(question: str, read: str = "") -> tuple[Need, ...]:
    """Return the sections to find, in order; none where the question is of no generated body of law.

    Args:
        question: as it was asked.
        read: what was read so far, which may call for definitions.
    """
    text = question[:_LONGEST].lower()
    chapters = sorted((place, row) for row in parts().activities if (place := _place(text, row)) >= 0)
    headings = [row.heading for row in parts().rules if any(_fits(text, form) for form in _forms(row))]
    found: list[Need] = []
    for _, activity in chapters:
        if _FEES.search(text):
            found += [(activity.heading, "Definitions", activity.unit), (activity.heading, "Fees", "payable")]
        else:
            found += [(activity.heading, heading, "") for heading in headings[:1]]
            if f"for a minor {activity.noun}" in read:
                found.append((activity.heading, "Definitions", activity.unit))
        if "be fined" in text:
            found.append((activity.heading, "Offences", "breach"))
    if found and " units" in read and _FEES.search(text):
        found.append((_MONEY, "Units", "unit"))
    if not found:
        return ()
    for words, need in _GENERAL.items():
        if words in text:
            found.append(need)
    return tuple(found)


_GENERAL = {
    "after the due day": (_MONEY, "Late payment", ""),
    "be fined": (_MONEY, "Scale of fines", "class"),
    "the second time": (_MONEY, "Repeated offences", ""),
    "is mailed": (_TIME, "Service by post", ""),
    "what is the last day": (_TIME, "Counting of periods", ""),
}


def _place(text: str, activity: Activity) -> int:
    found = text.find(f"a licence for the {activity.noun}".lower())
    return found if found >= 0 else text.find(activity.who.lower())


@cache
def _forms(kind: RuleKind) -> tuple[str, ...]:
    """Return all wordings that ask for a rule's amount or tell of its breach, in small letters."""
    rows = (kind.plain, *kind.asks, kind.event, kind.noun, kind.breach, f"the rule on {kind.heading}")
    return tuple(row.lower() for row in rows if row)


def _fits(text: str, form: str) -> bool:
    """Return whether all parts of a wording stand in a text one after another, whoever is asked about."""
    place = 0
    for part in form.split("{who}"):
        place = text.find(part.strip(" ?."), place)
        if place < 0:
            return False
        place += len(part.strip(" ?."))
    return True
