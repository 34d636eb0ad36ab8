"""These functions find which of a user's wants an agent's message is about, and which of them it fulfils."""

import re
from functools import lru_cache

from agent_envs.envs.tau2.user_script import UserScript, Want
from agent_envs.envs.tau2.users.consent import touched
from agent_envs.envs.tau2.users.mind import Mind, ids_known, ids_of, open_wants
from agent_envs.envs.tau2.users.understanding import Understood

# What an agent says on its way to an answer.
_PRELIMINARY = re.compile(
    r"\b(?:found|located|verified|thank|thanks|account|profile|identity|hello|hi|let me|moment|check|look|happy to)\b"
)
_SUBSTANCE = re.compile(r"\d|^(?:yes|no|yep|indeed|correct)\b")
_ALL = re.compile(r"\b(?:all|everything|both)\b")
_WORD = re.compile(r"[a-z]{5,}|\d{3,}")
_COMMON = frozenset(("about", "could", "other", "please", "should", "there", "which", "would"))


def about(script: UserScript, mind: Mind, text: str) -> tuple[int, ...]:
    """Return the open wants (places) a text is about: those whose numbers it names, else the best by signs; () for none.

    Among several with a sign in the text, it is the one of whose own words the text has most, the first of equals.

    A want that has no signs is known by its numbers alone. The text is in small letters.
    """
    numbers = frozenset(number for number in ids_known(script) if number in text)
    signed = [
        place for place in open_wants(script, mind)
        if _means(script.wants[place], text, numbers)
    ]  # fmt: skip
    by_number = tuple(place for place in signed if numbers & ids_of(script.wants[place]))
    return by_number or tuple(sorted(signed, key=lambda place: -_count_shared(script.wants[place], text))[:1])


def focus(script: UserScript, mind: Mind, message: Understood) -> int:
    """Return the place of the want a message asks about: the current one, unless it names numbers of another alone."""
    if message.ids and not message.ids & ids_of(script.wants[mind.want]):
        for place in open_wants(script, mind):
            if message.ids & ids_of(script.wants[place]):
                return place
    return mind.want


def must_look(script: UserScript, mind: Mind, message: Understood) -> bool:
    """Return whether the user must check before it answers; False without a check, after one, or at a transfer."""
    if script.wants[mind.want].check is None or mind.checked or message.transfers:
        return False
    last = message.generic or not (message.asks or mind.reports)  # nothing about it is still asked
    return message.closes or message.probes or bool(message.completes and last)


def fulfilled(script: UserScript, mind: Mind, message: Understood, changed: bool) -> tuple[int, ...]:
    """Return the open wants (places) that a message settles: checked, answered, or reported if the agent `changed` anything.

    What asks for anything settles nothing but what the user saw for itself. `changed`: the agent changed something since the
    current want was told; without that, no report is one.
    """
    current, done = script.wants[mind.want], set[int]()
    if current.check is not None:
        if mind.checked == "passed" and (message.closes or message.probes or message.completes):
            done.add(mind.want)
    elif not message.asks and current.question and _is_reply(current, mind, message):
        done.add(mind.want)
    if changed and not (message.asks or message.topics or message.missed or message.offers_transfer):
        done |= _reported_wants(script, mind, message)
    return tuple(place for place in open_wants(script, mind) if place in done)


def _reported_wants(script: UserScript, mind: Mind, message: Understood) -> set[int]:
    """Return the wants reported as done: by signs, all, or what was agreed to; never questions or wants with a check."""
    if mind.reports and not message.closes:
        return set()  # what the user had to do for it shows that the agent is in the middle of something
    done: set[int] = set()
    for sentence in message.completes:
        done |= set(about(script, mind, sentence)) or _unsigned_wants(script, mind, message, sentence)
    if not done and not message.refuses and (message.closes or not message.waits):  # it asks for nothing more
        subjects = set(about(script, mind, " . ".join(message.statements)))
        done |= subjects & set(mind.agreed) or _consents(script, mind)
        if not done and (message.closes or not message.plans):  # changed without a consent
            mentions = touched(script, (mind.want,), message.ids, " ".join(message.statements))
            done |= subjects or set((mind.want,) if message.closes else mentions)
    ids = message.ids & ids_known(script)
    done = {
        place for place in done if not (ids and ids_of(script.wants[place]) and not ids & ids_of(script.wants[place]))
    }
    return {place for place in done if script.wants[place].check is None and not script.wants[place].question}


def _consents(script: UserScript, mind: Mind) -> set[int]:
    """Return the current want as a set if it was consented to, else the first open one that was; set() for none."""
    agreed = [place for place in open_wants(script, mind) if place in mind.agreed]
    return {mind.want} & set(agreed) or set(agreed[:1])


def _unsigned_wants(script: UserScript, mind: Mind, message: Understood, sentence: str) -> set[int]:
    """Return the wants settled by a report without signs: all if it says so, those agreed to, else a current one without."""
    if message.generic and _ALL.search(sentence):
        return set(open_wants(script, mind))
    want = script.wants[mind.want]
    return _consents(script, mind) or ({mind.want} if message.generic or not (want.signs or want.question) else set())


def _is_reply(want: Want, mind: Mind, message: Understood) -> bool:
    """Return whether a message answers a question: it neither refuses, asks, nor puts off, and tells something fit."""
    if message.refuses or message.topics or mind.reports:
        return False
    if message.invites and not message.closes:  # a greeting, unless it tells figures of what was asked
        return any(
            _SUBSTANCE.search(line) and _touches(want, line) and _answers(want, line) for line in message.statements
        )
    answered = any(_answers(want, statement) for statement in message.statements)
    return answered or message.closes and not message.completes  # nor one that reports something else


def _answers(want: Want, statement: str) -> bool:
    """Return whether a sentence may be the answer: by the want's signs, else by a number, yes, no or a common word."""
    if _PRELIMINARY.search(statement):
        return False
    if want.signs:
        return _shows(want, statement)
    return _SUBSTANCE.search(statement) is not None or _touches(want, statement)


def _touches(want: Want, statement: str) -> bool:
    """Return whether a statement has any word of the want's own."""
    return any(word in statement for word in _words(want.say))


def _shows(want: Want, text: str) -> bool:
    """Return whether a text has any of the signs that a want is done."""
    return any(sign.lower() in text for sign in want.signs)


def _means(want: Want, text: str, numbers: frozenset[str]) -> bool:
    """Return whether a text is about a want: by its numbers, or by a sign and no other number where it has signs."""
    own = ids_of(want)
    if not want.signs:
        return bool(numbers & own)
    return _shows(want, text) and (not numbers or not own or bool(numbers & own))


def _count_shared(want: Want, text: str) -> int:
    """Count the words of the want and its facts that begin a word of a text."""
    own_text = " ".join((want.say, *(fact.say for fact in want.facts)))
    return sum(f" {word}" in f" {text}" for word in _words(own_text))  # "ending" is not in "pending"


@lru_cache(maxsize=1024)
def _words(text: str) -> frozenset[str]:
    """Return the words of a text in lower case as a set, without the common ones; cached."""
    return frozenset(_WORD.findall(text.lower())) - _COMMON
