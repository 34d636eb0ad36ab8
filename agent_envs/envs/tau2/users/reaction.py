"""`Reaction` makes a scripted user's answer to one message: what it takes as done, what it consents to, and when it stops.

No proposal is read. Whatever touches a want that the agent knows is answered with the consent to that want; whether it was
brought about shows in what the agent changed; and a message that asks for something never ends the conversation.
"""

import re
from random import Random

from agent_envs.envs.tau2.user_script import Check, UserScript, Want
from agent_envs.envs.tau2.users.consent import MOST_DETAILS, consent_to, other_number, plainly, touched
from agent_envs.envs.tau2.users.mind import Mind, following, open_wants
from agent_envs.envs.tau2.users.persona import Persona
from agent_envs.envs.tau2.users.settling import focus, fulfilled, must_look
from agent_envs.envs.tau2.users.telling import IDENTITY, Telling
from agent_envs.envs.tau2.users.understanding import Understood
from agent_envs.envs.tau2.users.wording import STOP, TRANSFER, say

_BEYOND = re.compile(
    r"\b(?:more than|above|over|exceeds?|beyond) (?:your|the) (?:\$?\d+ )?(?:\w+ )?(?:limit|budget|maximum|cap)\b"
)
_MOST_COMPLAINTS = 2
_MOST_REPEATS = 3  # messages in a row that bring nothing new: then the next wish is told


def opening(script: UserScript, persona: Persona, random: Random) -> tuple[str, Mind]:
    """Return a user's first words (greeting, identity if the persona tells it, first want or all), and its memory."""
    places = [0]
    if persona.tells_all:
        places += [place for place, want in enumerate(script.wants) if place and not want.only_if_refused]
    identity = [fact.say for fact in script.facts if fact.topic in IDENTITY] if persona.identifies else []
    parts = [say("greet", persona, random), *identity, script.wants[0].say]
    for place in places[1:]:
        parts += [say("also", persona, random), script.wants[place].say]
    return " ".join(parts), Mind(asked=tuple(places), told=tuple(identity))


class Reaction:
    """One answer in the making."""

    def __init__(
        self,
        script: UserScript,
        persona: Persona,
        random: Random,
        mind: Mind,
        message: Understood,
        *,
        text: str,
        repeated: bool = False,
        changes: int = 0,
        unclear: bool = False,
        names_details: bool = True,
        plain: bool = False,
    ) -> None:
        """Take the user, and its reading of a message.

        Args:
            script, persona, random, mind: the user.
            message: its reading of the message.
            text: the words of the message.
            repeated: it heard that before.
            changes: how many the agent made so far.
            unclear: it asked for something on the phone that was not understood.
            names_details: a consent tells details of which the message speaks.
            plain: "Yes." stands before the consent where the message proposes it itself.
        """
        self.script, self.persona, self.random, self.mind, self.message = script, persona, random, mind, message
        self._text, self._repeated, self._changes = text, repeated, changes
        self._names_details, self._plain = names_details, plain
        self._parts: list[str] = [*mind.reports, *([say("plainly", persona, random)] if unclear else [])]
        self._news = bool(mind.reports) and not repeated
        self._stopped = ""

    @property
    def want(self) -> Want:
        """The want that is pursued."""
        return self.script.wants[self.mind.want]

    @property
    def look(self) -> Check | None:
        """The check to make before an answer to a message that closes, asks whether it worked or says it is done; else None."""
        return self.want.check if must_look(self.script, self.mind, self.message) else None

    def answer(self) -> tuple[str, Mind]:
        """Answer the message: accept, then stop at a transfer; else settle, complain, go on or tell; return words, memory."""
        message = self.message
        if message.transfers:
            if self.mind.announced or not message.announces:
                return TRANSFER, self.mind
            self.mind = self.mind.replace(announced=True)  # it may have to do something for it first
            self._say("accept")
            return self._finish()
        settled = self._settle()
        if not settled and self.mind.checked == "failed" and (message.completes or message.closes or message.probes):
            self._complain()
        elif settled:
            self._go_on(refused=False)
        if not (self._stopped or settled):
            self._decide(self._tell())
        return self._finish()

    def _say(self, what: str) -> None:
        """Add a sentence for an occasion to the answer, in the persona's words."""
        self._parts.append(say(what, self.persona, self.random))

    def _settle(self) -> bool:
        """Mark the wants that the message settles; return whether the current one is among them."""
        done = fulfilled(self.script, self.mind, self.message, self._changes > self.mind.seen)
        if done:
            agreed = tuple(place for place in self.mind.agreed if place not in done)
            self.mind, self._news = self.mind.replace(settled=(*self.mind.settled, *done), agreed=agreed), True
        return self.mind.want in done

    def _complain(self) -> None:
        """Object that the problem stays; at a claim that all is over, say the want again, or go on after many complaints."""
        self._say("still")
        if not (self.message.generic or self.message.closes):
            return
        self.mind = self.mind.replace(complaints=self.mind.complaints + 1)
        if self.mind.complaints > _MOST_COMPLAINTS:
            self._go_on(refused=True)
        else:
            self._parts.append(self.want.say)

    def _tell(self) -> int:
        """Add facts, a correction, or that they are unknown, noting the memory; return the number of sentences."""
        place = focus(self.script, self.mind, self.message)
        telling = Telling(self.script, self.persona, self.random, self.message, place, self.mind)
        parts = telling.parts()
        self.mind, self._news = telling.mind, self._news or telling.news
        self._parts += parts
        return len(parts)

    def _decide(self, fact_count: int) -> None:
        """Add what is no fact: an answer to offer, refusal or goodbye, an objection, "wait", a consent, or nothing."""
        message = self.message
        refuses = message.refuses and (message.closes or not message.asks or self.mind.doubted)
        if message.offers_transfer:
            self._answer_offer()
        elif message.asks and not message.closes and (unwanted := self._declining_want()) is not None:
            self._object(unwanted)
        elif refuses and (self.mind.unhelpful or not fact_count):  # what it asks for may save the wish
            self._answer_refusal()
        elif message.closes and not message.asks:
            self._answer_goodbye()
        elif message.waits and not message.asks:
            self._say("wait")
        elif not (fact_count or self._parts) or message.acts:
            self._consent(fact_count)
        self.mind = self.mind.replace(doubted=message.refuses)

    def _declining_want(self) -> Want | None:
        """Return the want that is touched, else the current one, if it declines a text of the offer or a limit is passed."""
        want, offered = next((self.script.wants[place] for place in self._places()), self.want), self.message.offered
        declined = any(text.lower() in offered for text in want.declines if text)
        return want if declined or want.declines and _BEYOND.search(offered) else None

    def _object(self, want: Want) -> None:
        """Add a want's objection, or its words, to the answer, noted; it is news unless the agent repeats itself."""
        self._parts.append(want.objection or want.say)
        self._news = self._news or not self._repeated
        self.mind = self.mind.replace(reminded=(*self.mind.reminded, self.mind.want))  # a goodbye now suits it

    def _places(self) -> tuple[int, ...]:
        """Return the open wants (places) the message touches; else the current one if agreed to and asked, else ()."""
        places = touched(self.script, open_wants(self.script, self.mind), self.message.ids, self._text)
        goes_on = self.message.asks and self.mind.want in self.mind.agreed
        return places or ((self.mind.want,) if goes_on else ())

    def _consent(self, fact_count: int) -> None:
        """Consent to what is wanted only (a bare yes by a persona that agrees to all), or repeat where nothing is meant."""
        if self.message.extends and not fact_count:
            self._say("nothing_more")
        if self.persona.agrees and self.message.asks and self.random.random() < self.persona.agrees:
            self._say("yes")
            self.mind = self.mind.replace(agreed=(self.mind.want,))
            return
        places = () if self.message.invites and not self.message.acts else self._places()
        deeds = tuple(place for place in places if not self.script.wants[place].question)
        if deeds and (self.message.asks or self.message.acts or self.want.check is None):
            self._restate(deeds, fact_count)
        elif not self._parts:
            self._repeat(bool(places))

    def _restate(self, places: tuple[int, ...], fact_count: int) -> None:
        """Consent to wants in full, with some details; a bare "Yes." before it only to a proposal of just that."""
        parts, most = list[str](), max(0, (1 if self.persona.piecemeal else MOST_DETAILS) - fact_count)
        text, before = self._text if self._names_details else "", self.mind
        for place in places:
            want = self.script.wants[place]
            words = consent_to(self.script, want, self.mind.told, text, most)
            most -= len(words.facts)
            parts.append(words.say)
            facts = tuple(dict.fromkeys((*self.mind.told, *words.facts)))
            self.mind = self.mind.replace(told=facts, agreed=tuple(dict.fromkeys((*self.mind.agreed, place))))
        other = other_number(self.script, self.script.wants[places[0]], self._text) if len(places) == 1 else ""
        yes = self._plain and self.message.asks and not (other or fact_count or self.message.refuses)
        names = " ".join(fact.value for fact in self.script.facts if fact.topic == "name")
        if other:
            self._parts.append(f"No, not {other}.")
        elif yes and plainly(" ".join(parts), self._text, names):
            self._parts.append("Yes.")
        self._parts.append(f"{say('consent', self.persona, self.random)} {' And: '.join(parts)}")
        self._news = self._news or (self.mind.told, self.mind.agreed) != (before.told, before.agreed)

    def _repeat(self, touched: bool) -> None:
        """Answer an unclear message: ask what is meant if nothing is `touched`, else say the want; after many, go on."""
        if self.mind.unhelpful >= _MOST_REPEATS and following(self.script, self.mind, True) is not None:
            self._go_on(refused=True)  # whatever the agent says to it, what else is wanted shall be heard
        elif self.message.asks and not (touched or self.message.invites or self.message.probes or self.mind.unhelpful):
            self._say("unclear")
        else:
            self._parts.append(self.want.say)

    def _answer_offer(self) -> None:
        """Answer an offer of a human: protest, else no while another want is left (then go on), else accept."""
        if self._protest():
            return
        if following(self.script, self.mind, True) is None:
            self._say("person")
            self._news = self._news or not self._repeated
        else:
            self._say("no_thanks")
            self._go_on(refused=True)

    def _answer_refusal(self) -> None:
        """Answer a refusal: protest as often as the manners have it, else accept if a want is left, and go on."""
        if self._protest():
            return
        if following(self.script, self.mind, True) is not None:
            self._say("accept")
        self._go_on(refused=True)

    def _protest(self) -> bool:
        """Protest, say the want once more and return True; False, and nothing said, once it was done often enough."""
        # What is wanted on a condition is insisted on by no manners.
        if self.mind.protests >= self.want.insists + (0 if self.want.declines else self.persona.insists):
            return False
        self.mind, self._news = self.mind.replace(protests=self.mind.protests + 1), True
        self._say("protest")
        self._parts.append(self.want.say)
        return True

    def _answer_goodbye(self) -> None:
        """Answer a goodbye before the want is fulfilled: say it once more, the second time go on as if refused."""
        if self.mind.want in self.mind.reminded:
            self._go_on(refused=True)
            return
        self.mind, self._news = self.mind.replace(reminded=(*self.mind.reminded, self.mind.want)), True
        self._parts.append(self.want.say)

    def _go_on(self, refused: bool) -> None:
        """Turn to the next want; without one, stop, or (refused, but asked for something) let it be without stopping."""
        place = following(self.script, self.mind, refused)
        self._news = True
        if self.mind.checked == "passed":
            self._say("works")
        if place is None:
            if refused and self.message.asks:
                self._say("leave")
                self._news = not self._repeated
                self.mind = self.mind.replace(reminded=(*self.mind.reminded, self.mind.want), doubted=False)
            else:
                self._stopped = say("give_up" if refused else "all", self.persona, self.random)
            return
        early = place in self.mind.asked  # it was told together with the last one, which took one change
        changes = min(self._changes, self.mind.seen + (not refused)) if early else self._changes
        self.mind = self.mind.replace(
            want=place, protests=0, checked="", doubted=False, owed=(), seen=changes,
            asked=self.mind.asked if early else (*self.mind.asked, place),
        )  # fmt: skip
        if not refused:
            self._say("thanks")
        self._parts.append(self.want.say)

    def _finish(self) -> tuple[str, Mind]:
        """Return the answer's text, each part once, and the memory; it stops where that is due or patience is over."""
        unhelpful = 0 if self._news else self.mind.unhelpful + 1
        if self._stopped:
            self._parts += [self._stopped, STOP]
        elif unhelpful > self.persona.patience:
            self._parts = [*self.mind.reports, say("no_patience", self.persona, self.random), STOP]
        return " ".join(dict.fromkeys(self._parts)), self.mind.replace(unhelpful=unhelpful)
