"""`understood` reads what an agent's words ask of a user, or report, by patterns over sentences: no model, no state, any text.

A text is cut into sentences (`sentences`); each is read for the facts that it asks for, and for what it refuses or reports.
No proposal is read: a customer consents to what it wants, whatever is proposed (`consent`). Where a message may ask for
something, it does: nothing is settled then.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from agent_envs.envs.tau2.users.agent_words import words
from agent_envs.envs.tau2.users.mind import named_ids
from agent_envs.envs.tau2.users.sentences import LONGEST, Sentence, sentences, spoken_of, topics_in

__all__ = ["Understood", "understood"]

_CLAUSE = re.compile(r"(?:,|;|:)? \b(?:but|however|though|although)\b,? |; ")
_VALUE = re.compile(r"\$ ?\d|\d{4}")
_OR = re.compile(r" or (?!\d{5})")  # Oregon has zip codes


@dataclass(frozen=True, slots=True)
class Understood:
    """The reading of an agent's message: its questions, proposals and reports.

    Attributes:
        topics: what it asks for, of `user_script.TOPICS`, in its order.
        asks: it asks for anything at all, but whether there is anything else.
        acts: it speaks of what the agent would do, or whether it should.
        plans: it tells, without asking, what the agent would do.
        offered: its sentences without refusals, in small letters.
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
        statements: the sentences, in small letters, that ask for nothing.
        ids: the numbers of orders and reservations in it, in small letters.
    """

    topics: tuple[str, ...] = ()
    asks: bool = False
    acts: bool = False
    plans: bool = False
    offered: str = ""
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
    statements: tuple[str, ...] = ()
    ids: frozenset[str] = frozenset()


def understood(text: str) -> Understood:
    """Parse an agent's message; of a longer text, only the last 20,000 characters are read."""
    return _understand(text[-LONGEST:])


@lru_cache(maxsize=256)
def _understand(text: str) -> Understood:
    """Return the reading of an agent's whole message, cached."""
    parts = sentences(text)
    clauses = [clause for part in parts for clause in _CLAUSE.split(part.text) if clause]
    refused = [clause for clause in clauses if _is_refusal(clause)]
    closing = [part for part in parts if _is_closing(part)]
    extends = any(words("extends").search(part.text) for part in parts if part not in closing)
    asks = any(_asks(part) for part in parts if part not in closing)
    done = tuple(part.text for part in parts if _is_completion(part))
    handed = [part for part in parts if _handed_over(part)]
    offers = any(_offers_transfer(part) for part in parts)
    transfers = bool(handed) and not (asks or offers)
    return Understood(
        topics=_topics(parts),
        asks=asks,
        acts=any(_acts(part) for part in parts if part not in closing),
        plans=any(words("plans").search(words("looks").sub(" ", part.text)) for part in parts if part not in closing),
        offered=" ".join(clause for clause in clauses if clause not in refused),
        completes=done,
        generic=any(words("generic").search(text) for text in done),
        closes=bool(closing) and not (extends or transfers),
        extends=extends,
        refuses=bool(refused),
        missed=any(words("missed").search(part.text) for part in parts),
        transfers=transfers,
        announces=transfers and all(words("announces").search(part.text) for part in handed),
        offers_transfer=offers,
        waits=any(words("waits").search(part.text) for part in parts if not part.question),
        probes=any(words("probes").search(part.text) for part in parts if part.question or part.asking),
        invites=any(part.question and words("invites").search(part.text) for part in parts),
        statements=tuple(part.text for part in parts if not (part.question or part.asking)),
        ids=named_ids(text),
    )


def _topics(parts: tuple[Sentence, ...]) -> tuple[str, ...]:
    """Return the topics that sentences ask for, each once, in order; mere proposals and "anything else" ask for none."""
    topics: dict[str, None] = {}
    for part in parts:
        if words("extends").search(part.text) and not words("open").search(part.text):
            continue
        listed = () if part.question else spoken_of(part.text)
        if len(listed) > 1 and words("both").search(part.text):  # "bags, insurance (yes/no), payment"
            topics |= dict.fromkeys(listed)
        elif not _is_proposal(part):
            topics |= dict.fromkeys(topics_in(part))
    return tuple(topics)


def _is_proposal(part: Sentence) -> bool:
    """Return whether a sentence asks for no more than a yes: a whether-question or a call for agreement, no choice."""
    text = part.text
    if _OR.search(text) and not words("no_choice").search(text):
        return False
    if words("open").search(text) or words("which").search(text):
        return False
    if part.question and not part.asking:
        return words("whether").search(text) is not None
    agreed = words("agreement").search(text)
    return agreed is not None and not words("facts").search(text[agreed.start() :])


def _acts(part: Sentence) -> bool:
    """Return whether a sentence tells what the agent would do, or asks whether to; False where it asks for a fact, mostly."""
    valued = part.question and _VALUE.search(part.text) and not words("which").search(part.text)
    if topics_in(part) and not _is_proposal(part):
        return bool(valued)  # it may be either: the fact is told, and what is wanted with it
    text = words("looks").sub(" ", part.text)
    return _is_proposal(part) or any(words(name).search(text) for name in ("deeds", "agreement"))


def _asks(part: Sentence) -> bool:
    """Return whether a sentence asks: by a question mark, by its form or by its words."""
    return "?" in part.text or part.asking or words("asks").search(part.text) is not None


def _is_closing(part: Sentence) -> bool:
    """Return whether a sentence asks for more wishes or says goodbye; False where other words deny that."""
    match = words("closes").search(part.text)
    return match is not None and not words("not_closing").search(part.text)


def _offers_transfer(part: Sentence) -> bool:
    """Return whether a sentence asks and offers a transfer."""
    return words("offer").search(part.text) is not None and _asks(part)


def _is_refusal(clause: str) -> bool:
    """Return whether a clause refuses; False for words that only sound so."""
    return bool(words("refuses").search(clause)) and not words("no_refusal").search(clause)


def _is_completion(part: Sentence) -> bool:
    """Return whether a sentence reports that something is done; a question, or one with "not yet", does not."""
    if _asks(part):
        return False
    text = words("located").sub(" ", part.text)
    generic = words("generic").search(text)
    match = generic or words("completes").search(text)
    return match is not None and not words("not_yet").search(text[: match.end()] if match is not generic else text)


def _handed_over(part: Sentence) -> bool:
    """Return whether a sentence states that a human takes over; not a question, a denial, or on a condition."""
    match = words("transfers").search(part.text)
    if match is None or part.question or words("not_handed").search(part.text):
        return False
    return not words("condition").search(part.text[: match.end()])
