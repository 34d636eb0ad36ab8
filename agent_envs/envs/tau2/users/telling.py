"""`Telling` chooses what a scripted user tells when it is asked: its facts, in the manner that its persona has."""

import re
from dataclasses import dataclass, field
from random import Random

from agent_envs.envs.tau2.user_script import Fact, UserScript
from agent_envs.envs.tau2.users.consent import MOST_DETAILS
from agent_envs.envs.tau2.users.mind import Mind, facts_about, ids_of, named_ids
from agent_envs.envs.tau2.users.persona import Persona, swapped
from agent_envs.envs.tau2.users.sentences import spoken_of
from agent_envs.envs.tau2.users.understanding import Understood
from agent_envs.envs.tau2.users.wording import as_sentence, say, unknown

_FIGURES = re.compile(r"\d{2,}")
IDENTITY = ("name", "email", "zip", "user_id", "phone", "date_of_birth", "customer_id")


@dataclass
class Telling:
    """The facts of one answer.

    Attributes:
        script: what the user knows.
        persona: its manners.
        random: decides between ways of saying a thing.
        message: what it understood.
        place: the want that it is asked about.
        mind: what it has in mind; replaced as it tells.
        news: whether it told anything that it had not told before.
    """

    script: UserScript
    persona: Persona
    random: Random
    message: Understood
    place: int
    mind: Mind
    news: bool = field(default=False)

    def parts(self) -> list[str]:
        """Return the sentences that answer the message's questions, or alone a correction of what was told wrongly."""
        corrected = self._correct()
        if corrected:
            return corrected
        topics = self._topics()
        answers = {topic: self._answers_to(topic) for topic in topics}
        facts = [fact for facts_on in answers.values() for fact in facts_on]
        return [*self._tell_facts(facts), *self._admit_missing(tuple(topic for topic in topics if not answers[topic]))]

    def _answers_to(self, topic: str) -> tuple[Fact, ...]:
        """Return the facts on a topic; for `problem` without any, the current want's that were not told; () for none."""
        facts = facts_about(self.script, self.mind, topic, self.place)
        if facts or topic != "problem":
            return facts
        return tuple(fact for fact in self.script.wants[self.place].facts if fact.say not in self.mind.told)

    def _agent_names(self, topic: str) -> bool:
        """Return whether the agent's message itself names all ids that a topic's facts tell."""
        ids = [named_ids(fact.say) for fact in facts_about(self.script, self.mind, topic, self.place)]
        return bool(ids) and all(one and one <= self.message.ids for one in ids)

    def _topics(self) -> tuple[str, ...]:
        """Return the topics to answer: owed ones, then those asked; if none and nothing was found, identity or ids."""
        topics, pending = tuple(topic for topic in self.message.topics if not self._agent_names(topic)), self.mind.owed
        waiting = not topics and not self.message.acts
        if pending and (waiting or not self.persona.piecemeal):
            topics = tuple(dict.fromkeys((*pending, *topics)))
        if not topics and self.message.missed and not self.mind.wrong.strip("-"):
            topics = tuple(topic for topic in IDENTITY if any(fact.topic == topic for fact in self.script.facts))
            if self.message.ids:  # not the user, but what it named
                topics = tuple(topic for topic in ("order", "reservation") if self._answers_to(topic)) or topics
        return topics

    def _correct(self) -> list[str]:
        """Return a correction of what was told wrongly, once, when the agent stumbles over it or asks again; else []."""
        topic = self.mind.wrong
        if topic in ("", "-") or not (self.message.missed or topic in self.message.topics):
            return []
        self.mind, self.news = self.mind.replace(wrong="-"), True
        facts = facts_about(self.script, self.mind, topic, self.place)
        return [say("wrong", self.persona, self.random), *map(as_sentence, facts)]

    def _tell_facts(self, facts: list[Fact]) -> list[str]:
        """Return sentences for facts, noted as told; a forgetful user may promise them instead, a piecemeal one tells one."""
        fresh = [fact for fact in facts if fact.say not in self.mind.told]
        wish = self.script.wants[self.place].say
        sought = [fact for fact in fresh if fact.topic not in self.mind.owed and not _has_figures_of(fact, wish)]
        if sought and self.persona.forgets and self.random.random() < self.persona.forgets:
            topics = (*self.mind.owed, *(fact.topic for fact in facts))
            self.mind, self.news = self.mind.replace(owed=tuple(dict.fromkeys(topics))), True
            return [say("look_up", self.persona, self.random)]
        answer = fresh[:1] if self.persona.piecemeal and fresh else self._limit_details(facts, fresh)
        pending = (*self.mind.owed, *(fact.topic for fact in fresh))
        answer_topics = {fact.topic for fact in answer}
        sentences = [self._phrase(fact, fact in fresh) for fact in answer]
        self.news = self.news or bool(fresh)
        self.mind = self.mind.replace(
            told=tuple(dict.fromkeys((*self.mind.told, *(fact.say for fact in answer)))),
            owed=tuple(topic for topic in dict.fromkeys(pending) if topic not in answer_topics),
        )
        return sentences

    def _limit_details(self, facts: list[Fact], fresh: list[Fact]) -> list[Fact]:
        """Return the facts to tell at once: all but details of a want beyond MOST_DETAILS that were not told before."""
        rest = [fact for fact in fresh if fact not in self.script.facts and fact.topic not in IDENTITY][MOST_DETAILS:]
        return [fact for fact in facts if fact not in rest]

    def _phrase(self, fact: Fact, fresh: bool) -> str:
        """Return a fact as a sentence; once, if it is `fresh` and the manners make mistakes, with two digits swapped."""
        if not (fresh and fact.value and not self.mind.wrong and self.persona.mistakes):
            return as_sentence(fact)
        wrong = swapped(fact.value, self.random)
        if wrong == fact.value or fact.value not in fact.say or self.random.random() >= self.persona.mistakes:
            return as_sentence(fact)
        self.mind = self.mind.replace(wrong=fact.topic)
        return as_sentence(fact).replace(fact.value, wrong)

    def _admit_missing(self, topics: tuple[str, ...]) -> list[str]:
        """Return sentences on topics without facts: unknown, no preference, or the want again; [] for none, or a report."""
        if not topics or self.mind.reports:
            return []  # what its device shows is what was asked for
        want = self.script.wants[self.place]
        about_it = [topic for topic in topics if topic not in IDENTITY and topic not in self.script.unknown]
        covered = set(spoken_of(want.say.lower())) | ({"order", "reservation"} if ids_of(want) else set())
        if self.message.acts:  # what is proposed is answered, and what is left open in it is left to the agent
            topics = tuple(topic for topic in topics if topic in self.script.unknown or topic in IDENTITY)
        words = unknown(tuple(topic for topic in topics if topic not in about_it or topic not in covered))
        if "insurance" in topics and self.message.asks:  # nobody wants what it has nothing to tell of
            words = say("no_thanks", self.persona, self.random)
        again = [want.say] if about_it and not self.message.acts else []
        return [*([words] if words else []), *again]


def _has_figures_of(fact: Fact, wish: str) -> bool:
    """Return whether a fact has figures and the wish, which was told, has them all: that needs no looking up."""
    figures = _FIGURES.findall(fact.say)
    return bool(figures) and set(figures) <= set(_FIGURES.findall(wish))
