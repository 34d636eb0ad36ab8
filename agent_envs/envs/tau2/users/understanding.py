"""`understood` reads what an agent's words ask of a user, or report, by patterns over sentences: no model, no state, any text.

A text is cut into sentences (`sentences`); each is read for what it asks for, proposes, refuses or reports. Where a sentence
could be two things, the harmless one is taken: who tells a fact too many loses nothing, who says yes too early may.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from agent_envs.envs.tau2.users.acts import points, read_act
from agent_envs.envs.tau2.users.agent_words import words
from agent_envs.envs.tau2.users.mind import named_ids
from agent_envs.envs.tau2.users.sentences import LONGEST, Sentence, sentences, spoken_of, topics_in

__all__ = ["Understood", "understood"]

_CLAUSE = re.compile(r"(?:,|;|:)? \b(?:but|however|though|although)\b,? |; ")
_OR = re.compile(r" or (?!\d{5})")  # Oregon has zip codes
(
    _AGREEING, _CHOICES, _NO_CHOICE, _WHICH, _WE, _MINE, _GO, _YOURS, _PLANNED, _SUITS,
) = (
    words(name, "asking_words.txt")
    for name in "agreeing choices no_choice which we mine go yours planned suits".split()
)  # fmt: skip
_NAME = re.compile(r"\b(?=([A-Z][a-z'-]+ [A-Z][a-z'-]+)\b)")


@dataclass(frozen=True, slots=True)
class Understood:
    """What a message of an agent asks or tells.

    Attributes:
        topics: what it asks for, of `user_script.TOPICS`, in its order.
        confirms: it wants a yes or a no to what it proposes.
        awaiting: the sentences, in small letters, that await it.
        proposal: its sentences without refusals, in small letters: what a yes would stand for.
        told: the sentences that neither refuse nor await that yes.
        completes: the sentences, in small letters, that report that something was brought about.
        generic: one of them says no more than that all is done.
        closes: it asks whether there is anything else, or says goodbye.
        extends: it asks whether more belongs to what is spoken about.
        refuses: it says that something cannot or must not be.
        missed: it could not find what it was told.
        transfers: it hands the user over to a human.
        announces: it says no more than that it will.
        offers_transfer: it asks whether it should.
        waits: it asks for patience.
        probes: it asks whether things work now.
        invites: it asks what the user wants.
        asks: it asks anything at all.
        statements: the sentences, in small letters, that ask for nothing.
        ids: the numbers of orders and reservations in it, in small letters.
        names: pairs of words with capital letters, in small letters.
    """

    topics: tuple[str, ...] = ()
    confirms: bool = False
    awaiting: tuple[str, ...] = ()
    proposal: str = ""
    told: str = ""
    completes: tuple[str, ...] = ()
    generic: bool = False
    closes: bool = False
    extends: bool = False
    refuses: bool = False
    missed: bool = False
    transfers: bool = False
    announces: bool = False
    offers_transfer: bool = False
    waits: bool = False
    probes: bool = False
    invites: bool = False
    asks: bool = False
    statements: tuple[str, ...] = ()
    ids: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()


def understood(text: str) -> Understood:
    """Return what an agent's words ask or tell; of a longer text, only the last 20,000 characters are read."""
    return _understood(text[-LONGEST:])


@lru_cache(maxsize=256)
def _understood(text: str) -> Understood:
    parts = sentences(text)
    topics, awaiting = _questions(parts)
    clauses = [clause for part in parts for clause in _CLAUSE.split(part.text) if clause]
    refused = [clause for clause in clauses if _refused(clause)]
    done = tuple(part.text for part in parts if _completed(part) and not (awaiting and _PLANNED.search(part.text)))
    closing = any(words("closes").search(part.text) for part in parts)
    extends = any(words("extends").search(part.text) for part in parts) and not (done and closing)
    handed = [part for part in parts if _handed_over(part)]
    transfers = bool(handed)
    offers = any(part.question and words("offer").search(part.text) for part in parts)
    return Understood(
        topics=topics,
        confirms=bool(awaiting) or offers,
        awaiting=awaiting,
        proposal=" ".join(clause for clause in clauses if clause not in refused),
        told=" . ".join(part.text for part in parts if part.text not in awaiting and not _refused(part.text)),
        completes=done,
        generic=any(words("generic").search(text) for text in done),
        closes=closing and not (extends or transfers),
        extends=extends,
        refuses=bool(refused),
        missed=any(words("missed").search(part.text) for part in parts),
        transfers=transfers,
        announces=transfers and all(words("announces").search(part.text) for part in handed),
        offers_transfer=offers,
        waits=any(words("waits").search(part.text) for part in parts if not part.question),
        probes=any(words("probes").search(part.text) for part in parts if part.question or part.asking),
        invites=any(part.question and words("invites").search(part.text) for part in parts),
        asks=any(part.question for part in parts),
        statements=tuple(part.text for part in parts if not (part.question or part.asking)),
        ids=named_ids(text),
        names=frozenset(found[1].lower().removesuffix("'s") for found in _NAME.finditer(text)),
    )


def _questions(parts: tuple[Sentence, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the topics that are asked for, and the sentences that await a yes."""
    topics: dict[str, None] = {}
    awaiting = []
    for place, part in enumerate(parts):
        asked = () if words("extends").search(part.text) and not words("open").search(part.text) else topics_in(part)
        listed = () if part.question else spoken_of(part.text)
        if len(listed) > 1 and _CHOICES.search(part.text):  # "bags, insurance (yes/no), payment"
            topics |= dict.fromkeys(listed)
        elif _confirmed(part, asked, bool(words("offers").search(" . ".join(one.text for one in parts[:place])))):
            awaiting.append(part.text)
        else:
            topics |= dict.fromkeys(asked)
    return tuple(topics), tuple(awaiting)


def _choice(text: str) -> bool:
    return _OR.search(text) is not None and not _NO_CHOICE.search(text)


def _confirmed(part: Sentence, asked: tuple[str, ...], offered: bool) -> bool:
    """Return whether a sentence awaits a yes; one that leaves a choice, or confirms what it does not tell, asks for it."""
    text = part.text
    if words("extends").search(text) or (
        words("closes").search(text) and not ("proceed" in text or "go ahead" in text)
    ):
        return False
    if part.question and points(text):
        return True
    if part.question and (
        (words("probes").search(text) and not (_SUITS.search(text) or offered and len(text.split()) < 4))
        or words("invites").search(text)
    ):
        return False
    found = words("confirm").search(text) if _AGREEING.search(text) else None
    fragment = (
        part.question
        and not part.asking
        and (_polar(text) if not asked or _orders(text) else _GO.search(text) is not None)
    )
    if (found and not (words("open").search(text[: found.end()]) or _WHICH.search(text))) or fragment:
        return not (asked and (_choice(text) or not (read_act(text).verbs - {"pay"} or _WE.search(text))))
    word = words("confirm_word").search(text)
    if word is None:
        return False
    return (
        not asked
        or bool(words("identifier").search(text))
        or bool(words("settling").compiled.match(text[word.end() :].lstrip()))
    )


def _polar(text: str) -> bool:
    """Return whether a question is about what the agent would do, in whatever words ("Good to go?", "Do I have your OK?")."""
    few = len(text.split()) < 5 and not _YOURS.search(text)
    acts = _orders(text) or _GO.search(text) is not None
    return bool((few or acts or _MINE.search(text)) and not (_WHICH.search(text) or words("open").search(text)))


def _orders(text: str) -> bool:
    """Return whether a sentence begins with what is to be done ("Cancel it?")."""
    return bool(read_act(" ".join(text.split()[:2])).verbs)


def _refused(clause: str) -> bool:
    return bool(words("refuses").search(clause)) and not words("no_refusal").search(clause)


def _completed(part: Sentence) -> bool:
    if part.question or part.asking:
        return False
    text = words("located").sub(" ", part.text)
    generic = words("generic").search(text)
    found = generic or words("completes").search(text)
    return found is not None and not words("not_yet").search(text[: found.end()] if found is not generic else text)


def _handed_over(part: Sentence) -> bool:
    """Return whether a sentence says that a human takes over, without a condition before it."""
    found = words("transfers").search(part.text)
    if found is None or part.question or words("not_handed").search(part.text):
        return False
    return not words("condition").search(part.text[: found.end()])
