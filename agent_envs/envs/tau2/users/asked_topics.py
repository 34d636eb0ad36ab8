"""`topics_in` finds what a sentence asks for, in the topics of a script."""

from agent_envs.envs.tau2.users.agent_words import pattern, topics
from agent_envs.envs.tau2.users.sentences import Sentence

_TOPICS = topics()
_ASKING_WORD, _PURPOSE, _PROPOSING = map(pattern, ("asking_word", "purpose", "proposing"))


def topics_in(part: Sentence) -> tuple[str, ...]:
    """Return the topics that a sentence asks for."""
    if not (part.asking or part.question):
        return ()
    zone = _zone(part)
    found = spoken_of(zone) or (spoken_of(part.text) if zone != part.text else ())
    plain = part.question and not part.asking and not _ASKING_WORD.search(part.text)
    if plain and _PROPOSING.search(part.text) and " or " not in part.text:
        return ()
    return found


def spoken_of(text: str) -> tuple[str, ...]:
    """Return the topics that a text in small letters touches at all, in its order."""
    found = []
    for topic, bits, words in _TOPICS:
        match = words.search(text) if any(bit in text for bit in bits) else None
        if match is not None:
            found.append((match.start(), topic))
    return tuple(topic for _, topic in sorted(found))


def _zone(part: Sentence) -> str:
    """Return the words that ask: from where they begin, without what the answer is wanted for."""
    word = _ASKING_WORD.search(part.text) if part.question else None
    starts = ([part.start] if part.asking else []) + ([word.start()] if word else [])
    asking = part.text[min(starts, default=0) :]
    purpose = _PURPOSE.search(asking)
    return asking[: purpose.start()] if purpose else asking
