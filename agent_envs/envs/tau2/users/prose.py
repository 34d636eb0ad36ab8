"""A published scenario's prose is read sentence by sentence: what each is for, and how its customer would say it."""

import re
from dataclasses import dataclass
from typing import Literal

LONGEST = 20_000
Kind = Literal["want", "detail", "alternative", "hidden", "unknown"]


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_ENDS = re.compile(r"(?<=[.!?])(?<!\bSt\.)(?<!\be\.g\.)(?<!\bi\.e\.)\s+(?=[\"'(]?[A-Z])|\n\s*\n|\n(?=[A-Z])")
_PARENTHESES = _any(r"\s?\([^()]{0,400}?\b(?:agent|reveal|mention|share|chat)\b[^()]{0,400}\)")
_COLLEAGUE = _any(r"\ba customer support representative\b|(?<=approved by )a representative\b|\bhuman agent\b")
_AGENT = _any(r"\b(?:the |an? |any )?(?:customer )?(?:service |support )?(?:agent|representative)\b")
# The agent as an actor in the customer's stage directions, and the stage itself.
_STAGED = _any(
    r"\bagent(?:'s)? (?:\w+ )?(?:asks?|says?|tells?|mentions?|proposes?|offers?|insists?|finally|confirm(?:s|ed)|gives?"
    r"|suggests?|provides?|corrects?|doesn't|does|cannot|can't|is not|isn't|figures)\b",
    r"\b(?:conversation|responds?|repl(?:y|ies)|(?:your|agent|first|all) messages?|rounds? of|final confirmation|asked"
    r"|role|abruptly|suddenly|in the middle of"
    r"|meant to test|to test\b|tool calls?|insert typos|make up (?:a story|reasons)|famous poem|trying to make the agent)\b",
)
_SECRET = _any(
    r"\b(?:not|n't|never)\b (?:\w+ ){0,3}?(?:reveal|mention|share|disclose|volunteer|provide (?:it|your)|tell)\b"
)
_UNKNOWN = _any(
    r"\b(?:not|n't|cannot|forgot)\b.{0,25}\b(?:remember|know|recall)\b",
    r"\bforgot\b",
    r"\b(?:not|n't) have (?:an? )?e-?mail",
)
_CONDITION = _any(r"^\W*(?:and |but |however,? )?(?:if|unless|when|whenever|once|in case|only if|otherwise)\b")
_REFUSED = _any(
    r"\bif (?:that|this|it)?(?:'s| is)? ?not\b",
    r"\b(?:not possible|impossible|cannot|can't|unable|refuses?|not available|not allowed)\b",
    r"\b(?:isn't|is not|aren't|are not) (?:possible|available|allowed|able)\b", r"\bsays? no\b", r"^\W*otherwise\b",
)  # fmt: skip
# A trait is no place.
_MANNERS = _any(
    r"^(?:be|always|never|speak|act|make everything|make sure (?:to|you|that you)\b.{0,20}\bmention|mention (?:all|the two)"
    r"|do not end|provide all"
    r"|try to)\b",
    r"^(?:you're|you are) (?:[\w-]+ ){0,12}(?:person|guy|man|woman|customer|student|mood|typer)\b",
    r"^(?:you're|you are) (?!.*\b(?:currently|abroad|home|in|at|from|on|ok|okay|fine|willing)\b)"
    r"(?:(?:very|extremely|quite|so|now|also|a bit|not) ){0,3}[\w-]+(?:,? (?:and|but|or|yet)? ?[\w-]+){0,4}\W*$",
    r"^(?:you're|you are) detail-oriented", r"^your approach\b", r"^\W*$",
)  # fmt: skip
_WISH = _any(
    r"\b(?:want|wish|would like|'d like|need|wonder|hop(?:e|ing)|trying to|decided to|looking (?:to|for)|like to|considering"
    r"|contact(?:ing)?|have to|intend|first try|unable to|insist)\b",
    r"^(?:and |but )?(?:ask|check|inquire|get|also|first|then|finally|lastly|next)\b",
)  # fmt: skip
_DEED = _any(
    r"\b(?:cancel|return|exchang|modif|chang|switch|book|know|upgrad|downgrad|remov|add|check|updat|buy|order|undo"
    r"|find out|figure|refund|swap|replac|send|split|mov|push|fly|reserv|complain|compensat|correct|reorder|track|fix|get"
    r"|ask|cover|keep|proceed|resume|activat|see|inquire|deliver|work)\w*\b"
)
_NEGATED = _any(r"\b(?:not|n't|never)\b (?:want|accept|wish|need|like|ask)")
_ANGER = _any(
    r"^(?:you are|be|get) (?:angry|upset)\b[^,]*,? ?(?:and |but )?(?:then |still )?(?=agree|ask|accept|prefer)"
)
_SAID = _any(r"\bsay (?:that )?(you(?:r|'re|'ve)?\b.*)")
# A change of topic that the stage directions ask for: what is said then is a wish of its own.
_TURNS = _any(
    r"\b(?:halfway|in the middle|abruptly|suddenly)\b.*?\b(?:saying that|say that|mention that|, (?=you also))\s*"
    r"((?!.*\bsaying that\b)you\b.*)"
)
_MORE = _any(r"\b(?:you )?also (?:want|would like|change|return|cancel|exchange)\b.*")
_PREFERENCE = _any(r"\b(?:prefer|ok with|okay with|fine with|happy with|willing|flexible|accept|only|instead|agree)\b")
_OBJECT = (
    r"(?:to|for|with|from|tells?|told|gives?|gave|helps?|asks?|asked|of|by|informs?|lets?|offers?|refunds?|charges?|on|upgrades?"
    r"|at|between|than|allows?|makes?|costs?|saves?|about|without|reminds?|shows?|sends?|cause[ds]?|causing)"
)
_SUBJECT = (
    r"(?!\s(?:want|are|were|have|had|do|did|need|would|will|can|could|like|wish|prefer|ordered|received|just|also|only"
    r"|don't|made|bought|paid|live|think|know|might|should|may|placed|get|got|purchased|originally|initially|previously"
    r"|recently|already|plan)\b)"
)
_PERSONS = tuple(
    (re.compile(pattern, re.IGNORECASE), said)
    for pattern, said in (
        (r"\byou (?=name is\b|mobile\b)", "my "), (r"\byourself\b", "myself"), (r"\byours\b", "mine"),
        (r"\byour\b", "my"), (r"\byou(?:'re| are)\b", "I am"), (r"\byou were\b", "I was"), (r"\bare you\b", "am I"),
        (rf"(?<=\b)({_OBJECT}) you\b{_SUBJECT}", r"\1 me"), (r"\byou('ve|'d|'ll)?\b", r"I\1"),
    )
)  # fmt: skip
_AGENT_SAYS = _any(r"\bAGENT (ask|say|tell|mention|confirm|find|offer|propose|give|provide|insist|suggest|refuse)s\b")
_THEN = r"^(?:(?:then|also|finally|and|first),? ){0,3}"
_OPENINGS = tuple(
    (re.compile(pattern, re.IGNORECASE), said)
    for pattern, said in (
        (rf"{_THEN}(?:ask|inquire|check with) (?:AGENT )?(?:explicitly )?(?=how|what|if|whether|which|when|about)",
         "I want to know "),
        (rf"{_THEN}ask AGENT (?:explicitly )?to\b", "Please"),
        (rf"{_THEN}ask (?:AGENT )?for\b", "I would like"),
        (rf"{_THEN}ask (?:AGENT )?to\b", "I want to"),
        (rf"{_THEN}(?:tell AGENT|say|mention|explain|claim)(?: that)?\b\s*", ""),
        (rf"{_THEN}try to\b", "I want to"),
        (rf"{_THEN}insist that\b\s*", ""),
        (rf"{_THEN}insist\b", "I insist"),
        (r"(?<=, )so insist (?:persistently )?on having\b", "so I want to have"),
        (r"\b(?<=, )(?:then )?ask AGENT to\b|\b(?<=so )ask AGENT to\b", "please"),
        (r"\b(?<=, )(?:then )?ask AGENT (?=about|what|which|how|whether|if)", "I want to know "),
        (r"^make sure\b", "Please make sure"),
        (r"^do not\b|^don't\b", "Please do not"),
        (r"^(agree|accept|prefer|return|exchange|cancel)\b", r"I want to \1"),
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Told:
    """One sentence of a scenario.

    Attributes:
        kind: "want": it asks for something; "detail": it tells more of it; "alternative": what is asked for where something
            was refused; "unknown": what the customer does not know; "hidden": direction, which the customer never says.
        text: as the customer says it.
    """

    kind: Kind
    text: str


def told_sentences(text: str) -> list[Told]:
    """Return the sentences of a scenario's part."""
    text = re.sub(r":\s*\n\s*-", ":", text[:LONGEST].replace("’", "'"))
    text = re.sub(r"\n\s*-\s*", ", ", _PARENTHESES.sub("", text))
    parts = (re.sub(r"\s+", " ", part).strip(" .\n\t") + "." for part in _ENDS.split(text))
    return [_told(part) for part in parts if re.search(r"\w", part)]


def first_person(text: str) -> str:
    """Return a sentence about "you" and "the agent" as the customer says it to the agent."""
    text = _AGENT.sub("AGENT", _COLLEAGUE.sub("a colleague of yours", text))
    for pattern, said in _OPENINGS:
        text = pattern.sub(said, text)
    for pattern, said in _PERSONS:
        text = pattern.sub(said, text)
    text = _AGENT_SAYS.sub(r"AGENT \1", text).replace("AGENT is", "you are").replace("AGENT has", "you have")
    text = text.replace("AGENT's", "your").replace("AGENT", "you").strip()
    return text[:1].upper() + text[1:]


def _told(text: str) -> Told:
    if _SECRET.search(text) and not _CONDITION.search(text) or _MANNERS.search(text):
        return Told("hidden", text)
    if (turn := _TURNS.search(text)) is not None:
        return Told("want", first_person(turn[1]))
    if _CONDITION.search(text):
        return _conditional(text)
    if _STAGED.search(text):
        return Told("hidden", text)
    if _UNKNOWN.search(text) and not _WISH.search(text):
        return Told("unknown", first_person(text))
    asks = _asks(text) and not _NEGATED.search(text) and not text.startswith("(")
    return Told("want" if asks else "detail", first_person(text))


def _asks(text: str) -> bool:
    return bool(_WISH.search(text) and _DEED.search(text))


def _conditional(text: str) -> Told:
    """Return a sentence that begins with a condition.

    What rests on a refusal is an alternative; so is what the customer comes up with when the agent is about to act. What it
    says to a question of the agent is a detail. All else that rests on the agent is direction.
    """
    start = _consequence(text)
    condition, consequence = text[:start], _ANGER.sub("", text[start:])
    asks, staged = _asks(consequence), bool(_STAGED.search(text))
    said = _SAID.search(consequence)
    if staged and said:
        return Told("detail", first_person(said[1]))
    if staged and (more := _MORE.search(consequence)):
        return Told("want", first_person(more[0]))
    if len(consequence.split()) < 3 or _STAGED.search(consequence) or _SECRET.search(consequence):
        return Told("hidden", text)
    if _REFUSED.search(condition) and (asks or _DEED.search(consequence) or _PREFERENCE.search(consequence)):
        return Told("alternative", first_person(consequence))
    if staged:
        return Told("alternative" if asks or _DEED.search(consequence) else "hidden", first_person(consequence))
    if not (_DEED.search(consequence) or _PREFERENCE.search(consequence)):
        return Told("hidden", text)
    return Told("want" if asks else "detail", first_person(text))


def _consequence(text: str) -> int:
    """Return where what follows from a condition begins, 0 where it cannot be told."""
    comma = re.search(r",\s*(?:then )?|\b(?=(?:you|ask|say) )(?<=[a-z] )(?=you want|you would|ask )", text)
    return comma.end() if comma else 0
