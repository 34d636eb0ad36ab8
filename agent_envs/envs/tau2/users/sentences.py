"""A text is split into sentences in small letters, each with whether it asks, and for which topics of a script.

Reading is bounded, whatever the text is.
"""

import re
from dataclasses import dataclass

from agent_envs.envs.tau2.users.agent_words import topics, words

LONGEST = 20_000  # characters that are read
MOST = 240  # sentences that are read: the first and the last of a longer text
_PLAIN = str.maketrans({
    "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-", "\u2011": "-", "\u00a0": " ",
    "`": "", "\uff1f": "?", "\uff1a": ":",
})  # fmt: skip
_ABBREVIATION = re.compile(r"\b(e\.g\.|i\.e\.|etc\.|no\.|mr\.|mrs\.|ms\.|dr\.|st\.|vs\.|approx\.)(?= )")
_ITEM = re.compile(r"(?:[-+*\u2022\u2023\u25cf>#]+|\(?\d{1,2}[.)]|\(?[a-h][.)])\s+")
_END = re.compile(r"(?<=[.!?;])[\"')\]]*\s+")
_RULE = re.compile(r"^[|:\s-]+$")  # below the head of a table
_JOIN = ("or", "and", "or:", "and:", "- or -", "--- or ---")
_STATED_VALUE = re.compile(r":\s*\S|\bis [#\d]")
_REQUEST, _NEEDLESS = words("request"), words("needless")
_TOPICS = topics()
_ASKING_WORD, _PURPOSE, _PROPOSING = map(words, ("asking_word", "purpose", "proposing"))


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence.

    Attributes:
        text: in small letters, without marks of lists.
        question: it ends as a question.
        asking: it asks for something in words ("please provide"), or stands in a list that such words begin.
        start: where in it the asking words begin; 0 of a list's item.
    """

    text: str
    question: bool
    asking: bool
    start: int = 0


def sentences(text: str) -> tuple[Sentence, ...]:
    """Return a text's sentences in small letters, list items marked as asked for; of too many, the first and last halves."""
    rows: list[Sentence] = []
    listing = False
    for line in text.translate(_PLAIN).lower().split("\n"):
        line = _RULE.sub("", line.strip())
        if line.startswith("|"):
            line = ": ".join(cell.strip() for cell in line.strip("|").split("|", 1))
        mark = _ITEM.match(line)
        body = (line[mark.end() :] if mark else line).replace("*", "").strip()
        if not body or body in _JOIN:
            continue
        parts = [_sentence(part) for part in _END.split(_ABBREVIATION.sub(_drop_dots, body)) if part.strip()]
        if listing and mark and parts and not (parts[0].question or _STATED_VALUE.search(parts[0].text)):
            parts[0] = Sentence(parts[0].text, False, True)
        rows += parts
        listing = _begins(parts, body) or (listing and mark is not None)
    return tuple(rows if len(rows) <= MOST else rows[: MOST // 2] + rows[-MOST // 2 :])


def _begins(parts: list[Sentence], body: str) -> bool:
    """Return whether a line begins a list of what it asks for."""
    return bool(parts) and body.endswith(":") and (parts[-1].asking or "following" in body and "provide" in body)


def _drop_dots(match: re.Match[str]) -> str:
    """Return an abbreviation without its dots, so that they end no sentence."""
    return match.group().replace(".", "")


def _sentence(text: str) -> Sentence:
    """Return a text as a `Sentence`: whether it ends in a question, whether and where it asks; "no need" asks nothing."""
    text = text.strip()
    question = "?" in text[-4:]
    request = _REQUEST.search(text)
    needless = request is not None and _NEEDLESS.search(text) is not None and not question
    return Sentence(text, question, request is not None and not needless, request.start() if request else 0)


def topics_in(part: Sentence) -> tuple[str, ...]:
    """Return the topics that a sentence asks for; () for one that does not ask, or only proposes something."""
    if not (part.asking or part.question):
        return ()
    zone = _zone(part)
    topics = spoken_of(zone) or (spoken_of(part.text) if zone != part.text else ())
    plain = part.question and not part.asking and not _ASKING_WORD.search(part.text)
    if plain and _PROPOSING.search(part.text) and " or " not in part.text:
        return ()
    return topics


def spoken_of(text: str) -> tuple[str, ...]:
    """Return the topics that a text in small letters touches, by where they first stand."""
    hits = []
    for topic, pattern in _TOPICS:
        if (match := pattern.search(text)) is not None:
            hits.append((match.start(), topic))
    return tuple(topic for _, topic in sorted(hits))


def _zone(part: Sentence) -> str:
    """Return the words that ask: from where asking begins, up to its purpose; all of the text where nothing does."""
    word = _ASKING_WORD.search(part.text) if part.question else None
    starts = ([part.start] if part.asking else []) + ([word.start()] if word else [])
    asking = part.text[min(starts, default=0) :]
    purpose = _PURPOSE.search(asking)
    return asking[: purpose.start()] if purpose else asking
