"""A passenger's words are read for the airline's rule-based agent: kinds of wishes, days, cities, choices and reasons."""

import re
from collections.abc import Mapping
from itertools import islice

from agent_envs.envs.tau2.heuristics.reading import amounts, names, words

_MOST_TURNS = 12  # of a message to something else, that are tried
USER_ID = r"\b[a-z]+(?:_[a-z]+)+_\d{2,6}\b"
RESERVATION = r"\b(?!HAT\d)(?=[A-Z0-9]*\d)[A-Z][A-Z0-9]{5}\b|\b(?!HAT)(?:[A-Z]{6})\b"
FLIGHT = r"\bHAT\d{3}\b"
_TO_US = (
    r"\b(?:compensat|deserve|reimburs|voucher|goodwill|make up for)|certificate\b.{0,40}\b(?:for th|because|trouble)"
)
# In this order: the first whose words stand in a message is what it is about.
_KINDS = {
    "compensation": rf"{_TO_US}|\b(?:late|delay\w*|cancel\w*)\b.{{0,60}}\bcertificate",
    "spent": r"\bhow much\b.{0,30}\b(?:paid|spent|pay|cost me)\b.{0,60}\b(?:total|together|all|altogether|sum)\b",
    "balance": r"\b(?:how much|balance|what)\b.{0,40}\b(?:on|in|left|balance)\b.{0,30}\b(?:gift card|certificate)",
    "book": r"\b(?:book|new booking|new reservation|new flight|new trip|buy (?:a )?ticket|make a reservation|reserve)\b"
    r"|\b(?:want|like|need|have) to (?:fly|travel|get) (?:from|to)\b",
    "insurance": r"\b(?<!without )(?<!no )(?<!any )insur(?:ance|e)\b",
    "fewer_bags": r"\b(?:take|remove|drop|cut|leave|get rid).{0,30}\b(?:bag|suitcase|luggage)\w*.{0,15}\b(?:off|out|from)\b"
    r"|\b(?:remove|drop|fewer|less|without|reduce)\b.{0,25}\b(?:bag|suitcase|luggage)|\b(?:bag|suitcase)s? (?:fewer|less)\b",
    "bags": r"\b(?:bag|bags|baggage|suitcase|suitcases|luggage)\b",
    "more_people": r"\b(?:add|one more|another|additional|extra)\b.{0,25}\b(?:passenger|person|traveller|traveler|seat)"
    r"|\bremove\b.{0,25}\b(?:passenger|person)|\bcome along\b",
    "passenger": r"\bpassenger|\b(?:fly|flies|travel|go) instead of\b|\bname\b.{0,80}\b(?:must|change|correct|mis|wrong)"
    r"|\b(?:misspel|correct)\w*\b.{0,40}\bname",
    "cancel": r"\bcancel(?!led (?:by|one|my flight|the flight))\w*|\b(?:refund|money back|(?:money|fare)\b.{0,20}\breturned)",
    "cabin": r"\b(?:upgrad|downgrad|cabin)\w*|\b(?:in|to|into) (?:business|economy|basic economy)\b",
    "elsewhere": r"\b(?:goes?|fly|going|flies) to [A-Z][a-z]+(?: [A-Z][a-z]+)? instead\b"
    r"|\b(?:other|different|new) destination\b",
    "move": r"\b(?:move|change|reschedule|postpone|shift|switch|push|earlier|later|rather fly|another day"
    r"|different (?:day|flight))\b",
}
KINDS = {kind: re.compile(pattern, re.I | re.S) for kind, pattern in _KINDS.items()}
_DAY = re.compile(
    r"\b2024-05-(\d\d)\b|\bMay,? (\d{1,2})(?:st|nd|rd|th)?\b|\b(\d{1,2})(?:st|nd|rd|th)?(?: of)? May\b|\b0?5/(\d{1,2})\b", re.I
)  # fmt: skip
_CHOICES = {
    "cheapest": r"\b(?:cheap\w*|lowest|least expensive|best price)",
    "earliest": r"\b(?:earl\w+|first (?:flight|one)|morning)",
    "latest": r"\b(?:latest|last (?:flight|one)|evening|late)\b",
}
_REASONS = {
    "health": r"\b(?:ill|sick\w*|hospital|doctor|broken|surgery|injur\w+|medical|health|disease|fever|accident|ankle)\b",
    "weather": r"\b(?:weather|storm\w*|hurricane|snow\w*|flood\w*|tornado|typhoon|blizzard)\b",
    "plans": r"\b(?:because|reason|plans?|meeting|friend|days? off|airline|called off|changed my mind)\b",
}
_LIMIT = re.compile(
    r"\b(?:at most|no more than|less than|under|up to|maximum|not more than|below|within|limit)\b", re.I
)
_NUMBERS = {word: number for number, word in enumerate("no one two three four five six seven eight nine ten".split())}
_COUNT = re.compile(rf"\b(\d{{1,2}}|{'|'.join(_NUMBERS)}|an?)\b(?: \w+){{0,2}} ?(?:bag|suitcase|piece)s?\b", re.I)
_LAST_NAME = re.compile(r"\b(?:to|into|be|becomes?) ([A-Z][a-z'-]+)\b")
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]?")
_OPEN = re.compile(r"\b(?:no preference|do not know|don't know|not sure)\b", re.I)
_NEXT = re.compile(
    r"\b(?:while we are at it|(?:one|another) (?:more )?(?:thing|request|matter)|something else|apart from that|besides|also:"
    r"|furthermore|secondly|in addition)",
    re.I,
)


def kind_of(text: str) -> str:
    """Return what a message is about; "" if nothing of it tells."""
    return next((kind for kind, pattern in KINDS.items() if pattern.search(text)), "")


def first_wish(text: str) -> str:
    """Return a message up to where it goes on to something else that is wanted, without what it leaves open."""
    text = _SENTENCE.sub(lambda one: "" if _OPEN.search(one[0]) else one[0], text)
    for found in islice(_NEXT.finditer(text), _MOST_TURNS):
        if kind_of(text[: found.start()]) and kind_of(text[found.end() :]):
            return text[: found.start()]
    return text


def days_in(text: str) -> list[str]:
    """Return the days that a text names, each once, in order."""
    found = (next(filter(None, match.groups())) for match in _DAY.finditer(text))
    return list(dict.fromkeys(f"2024-05-{int(day):02d}" for day in found if 1 <= int(day) <= 31))


def new_day(text: str, old: list[str]) -> str:
    """Return the day that something is moved to, which is none of its old days; "" where a text names none."""
    days = [day for day in days_in(text) if day not in old]
    for match in re.finditer(r"\b(?:to|on|for) ", text):
        near = days_in(text[match.end() : match.end() + 12])
        if near and near[0] in days:
            return near[0]
    return days[0] if days else ""


def places_in(text: str, cities: Mapping[str, str]) -> list[str]:
    """Return the airports that a text names, by city or code, in order."""
    found = []
    for code, city in cities.items():
        for match in re.finditer(rf"\b(?:{re.escape(city)}|{code})\b", text):
            found.append((match.start(), code))
    return list(dict.fromkeys(code for _, code in sorted(found)))


def routes_in(text: str, cities: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what a text speaks of as going from one airport to another."""
    by_name = {**{city: code for code, city in cities.items()}, **{code: code for code in cities}}
    name = "|".join(sorted(map(re.escape, by_name), key=len, reverse=True))
    pairs = re.findall(rf"\b({name}) to ({name})\b", text)
    return list(dict.fromkeys((by_name[one], by_name[two]) for one, two in pairs))


def choices_in(text: str) -> list[str]:
    """Return how flights are to be chosen, in the order in which a text says it: cheapest, earliest or latest."""
    found = [(match.start(), kind) for kind, ways in _CHOICES.items() for match in re.finditer(ways, text, re.I)]
    return [kind for _, kind in sorted(found)]


def reason_in(text: str) -> str:
    """Return the kind of reason that a text gives; "" for none."""
    return next((kind for kind, pattern in _REASONS.items() if re.search(pattern, text, re.I)), "")


def cabin_in(text: str) -> str:
    """Return the cabin that a text asks for, the last one named; "" for none."""
    found = re.findall(r"\b(basic economy|economy|business)\b", text, re.I)
    return str(found[-1]).lower().replace(" ", "_") if found else ""


def limit_in(text: str) -> float | None:
    """Return the most that something may cost, where a text says so."""
    found = _LIMIT.search(text)
    told = amounts(text[found.start() :]) if found else []
    return told[0] if told else None


def bags_in(text: str) -> tuple[int | None, bool]:
    """Return how many bags a text speaks of, and whether that many are to be added; None where it says nothing."""
    total = re.search(r"\b(\d{1,2}|\w+) (?:bags? )?(?:in all|in total|altogether)\b", text, re.I)
    count = _COUNT.search(text)
    if total and _number(total[1]) is not None:
        return _number(total[1]), False
    return (_number(count[1]) if count else None), True


def _number(word: str) -> int | None:
    word = word.lower()
    return int(word) if word.isdigit() else 1 if word in ("a", "an") else _NUMBERS.get(word)


def insured_in(text: str) -> bool | None:
    """Return whether a text wants the insurance; None where it does not speak of it."""
    for sentence in re.split(r"[.!?\n]", text):
        if "insurance" in sentence.lower():
            return not re.search(r"\b(?:no|not|without|don't|none)\b", sentence, re.I)
    return None


def people_in(text: str) -> list[dict[str, str]]:
    """Return people with their dates of birth, as a text tells them."""
    pattern = r"\b([A-Z][a-z'-]+) ([A-Z][a-z'-]+)[^.\n]{0,40}?(\d{4}-\d\d-\d\d)"
    return [{"first_name": one, "last_name": two, "dob": dob} for one, two, dob in re.findall(pattern, text)]


def new_name(text: str, old: Mapping[str, str], others: list[str]) -> tuple[str, str] | None:
    """Return the name that somebody of a reservation is to have, or who is to fly in place of them.

    Args:
        text: what was said.
        old: whose place it is.
        others: names that are not meant: cities, people of the reservation.
    """
    for first, last in names(text):
        whole = f"{first} {last}"
        if whole not in others and whole != f"{old['first_name']} {old['last_name']}" and _is_name(first):
            return first, last
    renamed = re.search(r"\b(?:misspel|last name|surname|name)", text)
    for found in _LAST_NAME.findall(text) if renamed else ():
        if found not in " ".join(others).split():
            return old["first_name"], found
    return None


def _is_name(first: str) -> bool:
    return not set(words(first)) & set(
        "i the my on in at for yes no please may from to it is this hello hi thank".split()
    )
