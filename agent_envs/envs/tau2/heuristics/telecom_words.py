"""A telecom customer's wishes are read from the words of a message by vocabulary, not by templates."""

import re
from dataclasses import dataclass

from agent_envs.envs.tau2.heuristics.reading import matches

TROUBLES = ("service", "data", "pictures")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_WANTS = re.compile(
    r"\b(want|wants|wish|need|like to|like you|please|can you|could you|may i|let me|hoping|help me|how (?:much|many)|"
    r"what (?:is|does|do)|then|instead|would|tell me)\b"
)
_CONDITIONAL = re.compile(r"^\W*(?:and |but )?if\b(?! possible)")
_OTHERWISE = re.compile(
    r"^\W*(?:and |but )?if (?:that|this|it|you|not|so)\b[^,]*\b(?:refused|refuse|possible|allowed|no|cannot|not)\b"
)
_NOT_A_WISH = re.compile(
    r"^\W*(?:i|we) (?:agree|accept|consider|pay when|am willing|would not|do not know|know neither)\b"
)
_FAILS = (
    r"(?:not|n't|cannot|unable|no longer|never|fail\w*|refus\w*|dead|slow\w*|broken|stop\w*|trouble|problem\w*|issue\w*|"
    r"crawl\w*|terribl\w*|awful|stuck|back|hang\w*|lost|poor\w*|bad\w*)"
)
_PATTERNS: dict[str, str] = {
    "resume": r"resum|reactivat|unsuspend|active again|activ.{0,10}again|put .{0,30}back|use .{0,60}again|lift .{0,20}suspen|"
              r"on hold .{0,60}again",
    "left": r"how (?:many|much)\b.{0,40}\b(?:left|remain\w*|still have)",
    "owed": r"\b(?:how much|what|total)\b.{0,40}\b(?:overdue|owe|outstanding|unpaid)",
    "price": r"(?:what|how much).{0,80}\b(?:costs?|price|pay (?:a|per|each|every) month)\b",
    "waiver": r"(?:bill|owe|charge|fee|amount|invoice).{0,60}(?:cancel|waiv|goodwill|forgiv|credit|drop|remov|half)|"
              r"(?:waiv|half off|discount|goodwill|forgiv|lower|reduc).{0,60}(?:bill|owe|charge|fee|invoice|price)",
    "plan": r"(?:chang|switch|upgrad|downgrad|mov|get|have)\w{0,12}\b.{0,30}\bplan\b|"
            r"(?:bigger|cheaper|smaller|other|different) plan",
    "refuel": r"gigabyte|\bgbs?\b|(?:more|extra|additional) data|refuel|top.?up",
    "suspend": r"suspen|on hold|\bpaus|freez|deactivat",
    "roaming": r"roam|networks? abroad|data abroad",
    "pay": r"(?:pay|settle|clear).{0,60}(?:overdue|bill|owe|outstanding|invoice)|(?:overdue|bill|owe).{0,40}\bpay",
    "pictures": rf"(?:picture|photo|mms|image|attach|multimedia).{{0,80}}\b{_FAILS}|"
                rf"{_FAILS}\b.{{0,60}}(?:picture|photo|mms|image|multimedia)",
    "service": r"no (?:service|signal|network|bars|reception|connection)|lost .{0,20}(?:signal|service|network)|reachable|"
               r"(?:cannot|can't|unable to) (?:make|receive|call|phone)|calls? (?:do|does|are|is)(?: not|n't)|"
               r"without (?:service|signal)",
    "data": rf"(?:mobile data|internet|online|web|pages?|brows\w{0,9}|speed|data connection).{{0,60}}\b{_FAILS}|"
            rf"{_FAILS}\b.{{0,60}}(?:mobile data|internet|online|web|pages?|brows\w{0,9}|speed)|"
            r"(?:mobile data|internet|online).{0,30}\b(?:fast|quick)",
}  # fmt: skip
_FOUND = {kind: re.compile(pattern) for kind, pattern in _PATTERNS.items()}
# A wish that one pattern finds is not what another would make of the same words.
_HIDES = {
    "resume": {"suspend"}, "left": {"refuel"}, "owed": {"pay", "waiver"}, "price": {"plan", "refuel"}, "waiver": {"pay"},
    "suspend": {"refuel"}, "pictures": {"data", "service"}, "roaming": {"data"}, "refuel": {"data", "price"},
}  # fmt: skip
_OFF = re.compile(
    r"\b(?:disabl|forbid|forbidden|turn(?:ed)? off|switch(?:ed)? off|off\b|cannot|no longer|block|remov|stop|deactivat)"
)
_GIGABYTES = re.compile(r"(?<!\d)(\d{1,9}(?:\.\d{1,9})?) ?(?:gigabytes?|gbs?|gigs?)\b")
_HALF = re.compile(r"\bhalf a (?:gigabyte|gb|gig)\b")
_NUMBER = re.compile(r"(?<!\d)\(?(\d{3})\)?[-. ]?(\d{3})[-. ]?(\d{4})(?!\d)")
_NUMBERED = {"a": 1.0, "one": 1.0, "two": 2.0}


@dataclass(frozen=True, slots=True)
class Wish:
    """Something that a customer wants.

    Attributes:
        kind: service, data or pictures (of the phone), or what is wanted of the account.
        text: the sentence, in small letters.
        turn: the place of the message.
        otherwise: wanted only if what stands before it is refused.
    """

    kind: str
    text: str
    turn: int
    otherwise: bool = False

    @property
    def off(self) -> bool:
        """Whether something is to be switched off."""
        return bool(_OFF.search(self.text))


def wishes(text: str, turn: int, reporting: bool) -> list[Wish]:
    """Return what a message asks for, in order.

    Args:
        text: the message.
        turn: its place.
        reporting: the message tells what a phone shows, so that only what is plainly wanted counts.
    """
    found: list[Wish] = []
    for sentence in _SENTENCE.split(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")):
        otherwise = bool(_OTHERWISE.match(sentence))
        if _NOT_A_WISH.match(sentence) or (_CONDITIONAL.match(sentence) and not otherwise):
            continue
        plainly = bool(_WANTS.search(sentence))
        kinds = [kind for kind, pattern in _FOUND.items() if pattern.search(sentence)]
        hidden = {other for kind in kinds for other in _HIDES.get(kind, ())}
        for kind in kinds:
            heard = plainly or (kind in TROUBLES and not reporting)
            if heard and kind not in hidden and not (kind in TROUBLES and kind in {wish.kind for wish in found}):
                found.append(Wish(kind, sentence, turn, otherwise))
    return found


def phone_numbers(text: str) -> list[str]:
    """Return the telephone numbers in a text, written as the company writes them."""
    return list(dict.fromkeys("-".join(found.groups()) for found in _NUMBER.finditer(text)))


def customer_ids(text: str) -> list[str]:
    """Return the customer ids in a text."""
    return matches(r"\bC\d{3,6}\b", text)


def gigabytes(text: str) -> float | None:
    """Return the first amount of data in a text; None where there is none."""
    text = text.lower()
    if _HALF.search(text) and not _GIGABYTES.search(text):
        return 0.5
    found = _GIGABYTES.search(text)
    if found:
        return float(found[1])
    word = re.search(r"\b(a|one|two) (?:gigabytes?|gbs?|gigs?)\b", text)
    return _NUMBERED[word[1]] if word else None
