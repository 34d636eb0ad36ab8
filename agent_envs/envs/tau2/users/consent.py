"""A customer consents to what it wants and to nothing else, in words that say what that is: it need not understand a proposal.

`Consent` restates a want: as it was told, with the details that the agent was told or that its message names. Nothing comes
out that could not be had by asking. `plainly` is the one place where a message is held against a consent.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from agent_envs.envs.tau2.user_script import Fact, UserScript, Want
from agent_envs.envs.tau2.users.agent_words import words
from agent_envs.envs.tau2.users.mind import ids_of
from agent_envs.envs.tau2.users.sentences import spoken_of
from agent_envs.envs.tau2.users.wording import ALIKE, COMMON, NEUTRAL, as_sentence

MOST_DETAILS = 2  # details not told before that leave in one message
_TOKEN = re.compile(r"[a-z]{3,}|\d[\d.,-]*\d|\d")
_NUMBER = re.compile(r"#?\b(?=[\w-]*\d)\w[\w-]*(?:[.,]\d+)*")
_NAME = re.compile(r"(?<![.!?:;] )(?<!^)(?<!\n)\b[A-Z][a-z'-]{2,}")
_WORD = re.compile(r"[a-z']+|\d[\d.,-]*")
_GIGABYTES = re.compile(r"\bgb\b|\bgig", re.IGNORECASE)
_COMMON = frozenset(COMMON.split())
_ALIKE = tuple(frozenset(word[:5] for word in row.split()) for row in ALIKE)  # words for one deed
# Numbers that are told apart by how they look: one of a kind that the want has, where its own is not named, is another thing.
_KINDS = tuple(
    re.compile(text)
    for text in (
        r"(?i)\bw\d{4,}\b", r"\b\d{3}-\d{3}-\d{4}\b", r"\b(?!HAT\d)(?=[A-Z]{0,5}\d)(?=\d*[A-Z]\d*[A-Z])[A-Z0-9]{6}\b",
        r"(?i)(?:ending(?: in)?|card|visa|amex|[\u2022*x]{2,}|\u2026)[^\w\n]{0,8}\d{4}\b", r"\b(?:19|200)\d-?\d*-\d\d-\d\d\b",
        r"(?<![\w#-])\d{5}(?![\w-])",
    )
)  # fmt: skip
_TROUBLE = (
    "I pay what is overdue. I want no other plan and nothing else that costs money."  # of all trouble with a phone
)


@lru_cache(maxsize=2048)
def tokens(text: str) -> frozenset[str]:
    """Return the beginnings of words, and the numbers, of a text that may tell what it is about; cached."""
    parts = (one.strip(".,-") for one in _TOKEN.findall(text.lower()))
    return frozenset(one if one[0].isdigit() else one[:5] for one in parts if one and one not in _COMMON)


@lru_cache(maxsize=2048)
def subject(want: Want) -> frozenset[str]:
    """Return the words and numbers by which a message may touch a want, its own and others for its deed; cached."""
    own = tokens(texts_of(want))
    return own.union(*(row for row in _ALIKE if row & own))


def texts_of(want: Want) -> str:
    """Return all of a customer's texts about a want, and its signs."""
    return " ".join((want.say, *(fact.say for fact in want.facts), *want.signs))


def touched(script: UserScript, places: Iterable[int], ids: frozenset[str], text: str) -> tuple[int, ...]:
    """Return the open wants (places) a message touches: by number, else by a common word, those with a check in any case."""
    places, there = tuple(places), tokens(text)
    by_number = tuple(place for place in places if ids & ids_of(script.wants[place]))
    return by_number or tuple(
        place for place in places if script.wants[place].check is not None or subject(script.wants[place]) & there
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Consent:
    """A consent to a want, in the customer's own words.

    Attributes:
        say: the words.
        facts: the facts in them, as they are said.
    """

    say: str
    facts: tuple[str, ...]


def consent_to(script: UserScript, want: Want, past: tuple[str, ...], text: str, most: int) -> Consent:
    """Return the consent to a want with details the agent names, `most` of them new, or was told; and the facts told anew.

    Args:
        script: the customer's.
        want: what it agrees to.
        past: the facts that the agent was told.
        text: the agent's message, "" where it names nothing that the customer would tell.
        most: how many details may be told that were not told before.
    """
    topics = frozenset(spoken_of(text.lower())) | ({"amount"} if _GIGABYTES.search(text) else set())
    limits = (fact for fact in script.facts if want.check is not None and fact.topic == "amount")
    old, fresh = list[Fact](), list[Fact]()
    for fact in (*want.facts, *limits):
        if fact.say in past:
            old.append(fact)
        elif fact.topic in topics and _adds(fact, want) and len(fresh) < most:
            fresh.append(fact)
    facts = [fact for fact in want.facts + script.facts if fact in old + fresh]
    added = dict.fromkeys(as_sentence(fact) for fact in facts if _adds(fact, want))
    parts = [part for part in added if not any(part in other for other in added if other != part)]
    trouble = () if want.check is None else (_TROUBLE,)
    return Consent(" ".join((want.say, *parts, *trouble)), tuple(fact.say for fact in fresh))


def _adds(fact: Fact, want: Want) -> bool:
    """Return whether a fact says more than the want's own words: another figure, or where it has none another word."""
    own = tokens(fact.say)
    figures = frozenset(one for one in own if one[0].isdigit())
    return not (figures or own) <= tokens(want.say)


def other_number(script: UserScript, want: Want, text: str) -> str:
    """Return a number in a text of a kind the want has, if none of the want's own is there, a stranger's first; "" for none."""
    for kind in _KINDS:
        own, there = (list(map(_last_digits, kind.findall(one))) for one in (texts_of(want), text))
        if own and there and not set(own) & set(there):
            own_text = " ".join((texts_of(want), *(fact.say for fact in script.facts))).upper()
            return sorted(there, key=lambda one: one in own_text)[0]
    return ""


def _last_digits(number: str) -> str:
    """Return a number's last four digits; orders, phones, short numbers and codes whole, in capitals, without #."""
    last = re.search(r"\d{4}$", number)
    return (
        last[0]
        if last and not re.match(r"#?w\d|\d{3}-\d{3}|\d{4,5}\b", number, re.I)
        else number.upper().removeprefix("#")
    )


def plainly(say: str, text: str, own: str = "") -> bool:
    """Return whether a message proposes just a consent: all its numbers and names, no others, in order, no doubts.

    In doubt it does not: where it denies, sets a condition, leaves a choice, or has words that stand neither in the consent
    nor among those of any proposal; and where what both have comes in another order.

    Args:
        say: the consent.
        text: the message.
        own: what may stand there besides, such as the customer's name.
    """
    text = words("money_back").sub(" ", text)
    marks, there = _marks(say), _marks(text)
    if not marks or not marks <= there or not there <= marks | _marks(f"- {own}"):
        return False
    if words("doubts").search(text.lower()) and not words("doubts").search(say.lower()):
        return False
    spoken = [_stem(word) for word in _WORD.findall(text.lower())]
    stems = [_stem(word) for word in _WORD.findall(say.lower())]
    beside = frozenset(_stem(word) for word in _WORD.findall(own.lower()))
    if any(word not in stems and word not in beside and word not in _NEUTRAL for word in spoken):
        return False
    order = list(dict.fromkeys(word for word in spoken if word in stems and word not in _NEUTRAL))
    places = list(map(stems.index, order))
    return places == sorted(places) and any(word.isalpha() and word not in marks for word in order)


def _marks(text: str) -> frozenset[str]:
    """Return the numbers of a text, and its words with a capital letter that do not begin a sentence."""
    numbers = (one.lower().lstrip("#").rstrip(".,") for one in _NUMBER.findall(text))
    return frozenset((*numbers, *(name.lower().removesuffix("'s") for name in _NAME.findall(text))))


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    """Return the stem of a word, cached: endings such as -ed and -ing are cut; a word that begins with a digit stays whole."""
    word = word.strip(".,-'").removesuffix("'s")
    return word if word[:1].isdigit() else re.sub(r"(?<=\w{3})(?:led|ling|lation|ed|ing|es|s|e)$", "", word)


_NEUTRAL = frozenset(map(_stem, NEUTRAL.split()))  # words that any proposal may have


@lru_cache(maxsize=1024)
def names_known(script: UserScript) -> frozenset[str]:
    """Return the words with a capital letter within what a customer can tell of itself, such as where it is; cached."""
    return frozenset(name for fact in script.facts for name in _NAME.findall(fact.say))


@lru_cache(maxsize=1024)
def abroad(script: UserScript) -> bool:
    """Return whether a script says that its customer is abroad, cached."""
    text = " ".join((*(fact.say for fact in script.facts), *map(texts_of, script.wants))).lower()
    return words("travels").search(text.replace("not abroad", "")) is not None
