"""`Reaction` makes a scripted user's answer to one message: what it takes as done, what it agrees to, and when it stops."""

import re
from random import Random

from agent_envs.envs.tau2.user_script import Check, UserScript, Want
from agent_envs.envs.tau2.users.acts import read_act
from agent_envs.envs.tau2.users.comparing import Proposal, shares_values
from agent_envs.envs.tau2.users.deciding import decided
from agent_envs.envs.tau2.users.mind import Mind, following, ids_of, open_wants
from agent_envs.envs.tau2.users.persona import Persona
from agent_envs.envs.tau2.users.settling import about, focus, fulfilled, must_look
from agent_envs.envs.tau2.users.shelf import NOTHING, Shelf
from agent_envs.envs.tau2.users.telling import IDENTITY, Telling, at_length
from agent_envs.envs.tau2.users.understanding import Understood
from agent_envs.envs.tau2.users.wording import STOP, TRANSFER, say

_BEYOND = re.compile(
    r"\b(?:more than|above|over|exceeds?|beyond) (?:your|the) (?:\$?\d+ )?(?:\w+ )?(?:limit|budget|maximum|cap)\b"
)
_MANY = re.compile(r"\b(?:all|every|each|both)\b.{0,20}\b(?:lines?|orders?|reservations?|trips?|numbers?)\b")
_MOST_COMPLAINTS = 2
_MOST_REPEATS = 3  # messages in a row that bring nothing new: then the next wish is told


def opening(script: UserScript, persona: Persona, random: Random) -> tuple[str, Mind]:
    """Return a user's first words, and what it has in mind behind them."""
    asked = [0]
    if persona.tells_all:
        asked += [place for place, want in enumerate(script.wants) if place and not want.only_if_refused]
    known = [fact.say for fact in script.facts if fact.topic in IDENTITY] if persona.identifies else []
    parts = [say("greet", persona, random), *known, script.wants[0].say]
    for place in asked[1:]:
        parts += [say("also", persona, random), script.wants[place].say]
    return " ".join(parts), Mind(asked=tuple(asked), told=tuple(known))


class Reaction:
    """One answer in the making."""

    def __init__(
        self,
        script: UserScript,
        persona: Persona,
        random: Random,
        mind: Mind,
        heard: Understood,
        *,
        repeated: bool = False,
        before: str = "",
        shelf: Shelf = NOTHING,
    ) -> None:
        """Take who answers what it understood; `repeated`: it heard that before; `before`: earlier words, in small letters."""
        self.script, self.persona, self.random, self.mind, self.heard = script, persona, random, mind, heard
        self._repeated, self._before, self._shelf = repeated, before, shelf
        self._parts: list[str] = list(mind.reports)
        self._news = bool(mind.reports) and not repeated
        self._stopped = ""

    @property
    def want(self) -> Want:
        """What is pursued."""
        return self.script.wants[self.mind.want]

    @property
    def look(self) -> Check | None:
        """What the user has to see for itself before it can answer, or None."""
        return self.want.check if must_look(self.script, self.mind, self.heard) else None

    def answer(self) -> tuple[str, Mind]:
        """Return the words, and what is in mind behind them."""
        heard = self.heard
        if heard.transfers:
            if self.mind.announced or not heard.announces:
                return TRANSFER, self.mind
            self.mind = self.mind.but(announced=True)  # it may have to do something for it first
            self._say("accept")
            return self._finished()
        settled = self._settle()
        if not settled and self.mind.checked == "failed" and (heard.completes or heard.closes or heard.probes):
            self._complain()
        elif settled and not heard.confirms:
            self._go_on(refused=False)
        if not self._stopped:
            told = self._tell()
            self._decide(settled, told)
        return self._finished()

    def _say(self, what: str) -> None:
        self._parts.append(say(what, self.persona, self.random))

    def _settle(self) -> bool:
        """Mark the wants that the message fulfils; return whether the current one is among them."""
        done = fulfilled(self.script, self.mind, self.heard, self._gives_way(), self._shelf)
        if self.heard.confirms:  # "It is done. Shall I do the same for your other line?"
            many = tuple(place for place in done if _MANY.search(self.script.wants[place].say))
            more = decided(self.script, many, self._proposal(self.heard.awaiting)).places if many else ()
            done = tuple(place for place in done if place not in more)
        if done:
            self.mind = self.mind.but(settled=(*self.mind.settled, *done), agreed=())
            self._news = True
        return self.mind.want in done

    def _complain(self) -> None:
        """Say that the problem stays: only a claim that all is over counts, because one step of several may be done."""
        self._say("still")
        if not (self.heard.generic or self.heard.closes):
            return
        self.mind = self.mind.but(complaints=self.mind.complaints + 1)
        if self.mind.complaints > _MOST_COMPLAINTS:
            self._go_on(refused=True)
        else:
            self._parts.append(self.want.say)

    def _tell(self) -> bool:
        """Tell the facts that are asked for; return whether anything was told."""
        place = focus(self.script, self.mind, self.heard)
        telling = Telling(self.script, self.persona, self.random, self.heard, place, self.mind)
        parts = telling.parts()
        self.mind, self._news = telling.mind, self._news or telling.news
        self._parts += parts
        return bool(parts)

    def _decide(self, settled: bool, told: bool) -> None:
        """Add what is neither a fact nor a report: a yes, a no, a protest, or the want once more."""
        heard = self.heard
        if heard.offers_transfer:
            self._offered()
        elif heard.confirms:
            self._confirm(settled)
        elif heard.refuses and not settled and (self.mind.unhelpful or not told):  # what it asks for may save the wish
            self._refused()
        elif heard.closes and not settled and self.mind.checked != "failed":
            self._forgotten()
        elif heard.extends and not told:
            self._say("nothing_more")
        elif not (told or settled or self._parts):
            self._restate()

    def _confirm(self, settled: bool) -> None:
        """Say yes or no to what is proposed, or ask back."""
        passed_on = settled and self._passed_on()
        proposed = about(self.script, self.mind, self.heard.proposal)
        want = self.script.wants[proposed[0]] if proposed else self.want
        decision = decided(self.script, self._meant(), self._proposal(self.heard.awaiting))
        if _unwanted(want, self.heard.proposal):
            self._no(want.objection or want.say)
            self.mind = self.mind.but(reminded=(*self.mind.reminded, self.mind.want))  # a goodbye now suits it
        elif self.heard.refuses and not (decision.places and proposed):
            self._alternative()
        elif settled and not passed_on:
            if decision.verdict == "no":
                self._say("no_thanks")
            self._go_on(refused=False)
        elif decision.verdict == "yes" or self._doubted(decision.verdict) or self._gives_way():
            self._yes(decision.places)
        elif decision.verdict in ("ask", "doubt"):
            self._say("unclear")
            self._parts.append(self.want.say)
            self.mind = self.mind.but(doubted=decision.verdict == "doubt")
        else:
            self._no(self.want.say)

    def _doubted(self, verdict: str) -> bool:
        return verdict == "doubt" and self.mind.doubted and self._repeated

    def _gives_way(self) -> bool:
        return bool(self.persona.agrees) and self.random.random() < self.persona.agrees

    def _proposal(self, asked: tuple[str, ...]) -> Proposal:
        return Proposal(asked, self.heard.told, self._before, self.heard.ids, self.heard.names, self._shelf)

    def _meant(self) -> tuple[int, ...]:
        """Return the places of the wants that a proposal may be about: those that the agent knows, or names by number."""
        wants, ids, acts = self.script.wants, self.heard.ids, read_act(self.heard.proposal).verbs
        coming = (
            place for place in range(self.mind.want + 1, len(wants))
            if not wants[place].only_if_refused and place not in self.mind.settled
            and (ids & ids_of(wants[place]) or acts and shares_values(self.script, wants[place], self.heard.proposal))
        )  # fmt: skip
        gone = (place for place in self.mind.asked if place < self.mind.want and place not in self.mind.settled)
        return tuple(dict.fromkeys((*open_wants(self.script, self.mind), *gone, *coming)))

    def _yes(self, proposed: tuple[int, ...]) -> None:
        self._say("yes")
        self._news = self._news or not self._repeated
        self.mind = self.mind.but(agreed=proposed or (self.mind.want,))

    def _no(self, objection: str) -> None:
        self._say("no")
        self._parts.append(objection)
        self._news = self._news or not self._repeated

    def _passed_on(self) -> bool:
        """Turn to the next want in silence, where the agent knows it: what it proposes is about that one."""
        place = following(self.script, self.mind, refused=False)
        if place is None or place not in self.mind.asked:
            return False
        self.mind = self.mind.but(want=place, protests=0, checked="", owed=())
        return True

    def _alternative(self) -> None:
        """Answer a refusal that offers something else: only what the script has instead is accepted."""
        if self._protested():
            return
        place = following(self.script, self.mind, refused=True)
        offered = place is not None and (
            any(sign.lower() in self.heard.proposal for sign in self.script.wants[place].signs)
            or bool(decided(self.script, (place,), self._proposal(self.heard.awaiting)).places)
        )
        if offered and place is not None:
            self._say("yes")
        else:
            self._say("no_thanks")
        self._go_on(refused=True)
        if offered and place is not None:
            self.mind = self.mind.but(agreed=(place,))

    def _offered(self) -> None:
        """Answer whether a human should take over: not while there is more to ask for here."""
        if self._protested():
            return
        if following(self.script, self.mind, True) is None:
            self._say("person")
            self._news = self._news or not self._repeated
        else:
            self._say("no_thanks")
            self._go_on(refused=True)

    def _refused(self) -> None:
        if self._protested():
            return
        if following(self.script, self.mind, True) is not None:
            self._say("accept")
        self._go_on(refused=True)

    def _protested(self) -> bool:
        # What is wanted on a condition is insisted on by no manners.
        if self.mind.protests >= self.want.insists + (0 if self.want.declines else self.persona.insists):
            return False
        self.mind, self._news = self.mind.but(protests=self.mind.protests + 1), True
        self._say("protest")
        self._parts.append(self.want.say)
        return True

    def _forgotten(self) -> None:
        """Answer a goodbye although nothing was brought about: ask once more, then give in."""
        if self.mind.want in self.mind.reminded:
            self._go_on(refused=True)
            return
        self.mind = self.mind.but(reminded=(*self.mind.reminded, self.mind.want))
        self._parts.append(self.want.say)

    def _go_on(self, refused: bool) -> None:
        """Turn to the next want, or end the conversation."""
        place = following(self.script, self.mind, refused)
        self._news = True
        if self.mind.checked == "passed":
            self._say("works")
        if place is None:
            self._stopped = say("give_up" if refused else "all", self.persona, self.random)
            return
        asked = self.mind.asked if place in self.mind.asked else (*self.mind.asked, place)
        self.mind = self.mind.but(want=place, protests=0, checked="", agreed=(), asked=asked, owed=())
        if not refused:
            self._say("thanks")
        self._parts.append(self.want.say)

    def _restate(self) -> None:
        """Answer what is no question that it understands: with its want, and in the end with all that it knows of it."""
        if self.heard.waits and not self.heard.asks:
            self._say("wait")
            return
        if self.mind.unhelpful >= _MOST_REPEATS and following(self.script, self.mind, True) is not None:
            self._go_on(refused=True)  # whatever the agent says to it, what else is wanted shall be heard
            return
        if self.heard.asks and not (self.heard.invites or self.heard.probes):
            self._say("unsure")
        self._parts += at_length(self.want, self.mind, self.persona)

    def _finished(self) -> tuple[str, Mind]:
        unhelpful = 0 if self._news else self.mind.unhelpful + 1
        if self._stopped:
            self._parts += [self._stopped, STOP]
        elif unhelpful > self.persona.patience:
            self._parts = [*self.mind.reports, say("no_patience", self.persona, self.random), STOP]
        return " ".join(dict.fromkeys(self._parts)), self.mind.but(unhelpful=unhelpful)


def _unwanted(want: Want, proposal: str) -> bool:
    """Return whether a proposal has what a want declines; one with a limit declines what is said to be beyond it."""
    declined = any(text.lower() in proposal for text in want.declines if text)
    return declined or bool(want.declines and _BEYOND.search(proposal))
