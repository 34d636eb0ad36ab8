"""`Desk` is the loop that all domains share: it finds the wish in hand, and makes one turn about it.

What a wish still needs ends the turn at once, by raising `DeskTurn`: a call that looks something up, a question, a proposal, a
refusal. A domain's plan reads from top to bottom as if everything were known.
"""

import json
import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, NoReturn

from agent_envs.envs.tau2.heuristics.reading import CONSENT, Called, Row, answer, calling, read
from agent_envs.envs.tau2.turn_taking import DONE
from agent_envs.rollout.policy import Request

# Kind of wish -> the words that name it, and what serves it or the reason why it is refused; the first one counts.
Plans = Mapping[str, tuple[str, Callable[["Desk"], None] | str]]
CLOSING, GO_AHEAD = "Is there anything else that I can do for you?", "Shall I go ahead (yes/no)?"
SORRY = "I am sorry, but"
_WISHES = json.loads(files(__package__).joinpath("wishes.json").read_text(encoding="utf-8"))
_HAND_OVER = "transfer_to_human_agents"
_LOOKS = ("get_", "find_", "list_", "search_", "calculate", _HAND_OVER)  # names of tools that change nothing begin so
_NOT_A_WISH = re.compile(r"(?i)\W*(?:i (?:agree|accept|do not know)|if my)\b|.*\bno preference\b")
_ANEW = re.compile(r"(?i)\W*no\W+(?:but )?i (?:want|need|would)\b")  # an answer to a proposal
_MOST_TIMES = 3  # that the same is said about a wish


class DeskTurn(Exception):
    """Raised to end the turn with words."""


class Act(DeskTurn):
    """Raised to end the turn with calls."""


def plans(domain: str, **served: Callable[["Desk"], None]) -> Plans:
    """Return the kinds of wishes of a domain in the order of `wishes.json`: those that are served, and those refused there."""
    return {kind: (words, served.get(kind, why)) for kind, (words, why) in _WISHES[domain].items()}


def sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return re.split(r"(?<=[.!?;])\s+|\n+", text)


class Desk:
    """A conversation, as the rules read it.

    Attributes:
        user, own, calls: the conversation, as `read` returns it.
        solo: whether there is a ticket instead of a customer, so that nobody is asked.
        start: how much of what the user said belongs to wishes that are settled.
        kind, text: the present wish, "" for none, and all that was said about it.
    """

    def __init__(self, request: Request, plans: Plans) -> None:
        """Find the present wish: it begins behind the words that closed the last one, or with the "no" that brought it up."""
        self.user, self.own, self.calls = read(request)
        self.solo = any(tool["function"]["name"] == DONE for tool in request.tools)
        self.plans, self.start = plans, 0
        for words, before in self.own:
            reply = "\n".join(self.user[before : before + 1])
            if CLOSING in words or (GO_AHEAD in words and _ANEW.match(reply)):
                self.start = before
        self.text = "\n".join(CONSENT.sub(r"\1", words) for words in self.user[self.start :])
        self.kind = next(filter(None, map(self.kind_of, sentences(self.text))), "")

    def kind_of(self, sentence: str) -> str:
        """Return the first kind, in the plans' order, that a sentence's words fit; "" for none, or for what is no wish."""
        kinds = (kind for kind, (words, _) in self.plans.items() if re.search(words, sentence, re.I))
        return "" if _NOT_A_WISH.match(sentence) else next(kinds, "")

    def serve_once(self) -> None:
        """Take the next step of the wish in hand; where a change was just made, close it. Raises Act or DeskTurn."""
        if self.changed():
            self.close()
        self.serve(self.kind)

    def serve(self, kind: str) -> None:
        """Take the next step of a wish by its plan; refuse if the plan is a reason; ask what is wanted if `kind` is ""."""
        if not kind:
            self.ask("What exactly would you like me to do?")
        plan = self.plans[kind][1]
        self.refuse(plan) if isinstance(plan, str) else plan(self)

    def last(self, name: str, **arguments: Any) -> Called | None:
        """Return the last call of a tool whose arguments contain these, or None."""
        calls = [call for call in self.calls if call.name == name and call.arguments.items() >= arguments.items()]
        return calls[-1] if calls else None

    def changed(self) -> Called | None:
        """Return the last change that was made since the user last spoke; None if there was none."""
        calls = [call for call in self.calls if call.turn == len(self.user) and not call.name.startswith(_LOOKS)]
        return calls[-1] if calls else None

    def say(self, words: str) -> NoReturn:
        """End the turn with words by raising DeskTurn; before them the outcome, done or failed, of a change just made."""
        change = self.changed()
        if change and change.failed:
            words = f"{SORRY} that cannot be done: {change.content.removeprefix('Error: ')}. {words}"
        raise DeskTurn(f"It is done. {words}" if change and not change.failed else words)

    def close(self, words: str = "") -> NoReturn:
        """End the turn by raising DeskTurn with these and closing words; the wish ends with it."""
        self.say(f"{words} {CLOSING}".strip())

    def refuse(self, why: str) -> NoReturn:
        """Raise DeskTurn with a refusal and closing words, which end the wish."""
        self.close(f"{SORRY} {why}.")

    def repetitions(self, words: str) -> int:
        """Count the agent's messages since the present wish began (and those before the user's first) that hold these words."""
        return sum(words in text for text, before in self.own if before > self.start or not before)

    def ask(self, question: str) -> NoReturn:
        """End the turn with a question; with a refusal once it was put _MOST_TIMES for this wish."""
        if self.repetitions(question) >= _MOST_TIMES:
            self.refuse("I lack the details for that")
        self.say(question)

    def look(self, name: str, *queries: Row, fresh: bool = True) -> list[Any]:
        """Return a tool's results for the queries, without failures; raise Act with calls not made (or stale, if `fresh`)."""
        calls = [self._last_look(name, one, fresh) for one in queries]
        missing = [(name, one) for one, call in zip(queries, calls, strict=True) if call is None]
        if missing:
            raise Act(calling(*missing[:30]))
        return [call.value for call in calls if call is not None and not call.failed]

    def _last_look(self, name: str, query: Row, fresh: bool) -> Called | None:
        """Return a tool's last call with just these arguments; None without one or, if `fresh`, after a change of the same."""
        for call in reversed(self.calls):
            if call.name == name and call.arguments == query:
                return call
            change = fresh and not call.name.startswith(_LOOKS)
            if change and any(value in call.arguments.values() for value in query.values()):
                return None  # it speaks of the same
        return None

    def propose(self, act: str, name: str, **arguments: Any) -> NoReturn:
        """Propose a change, ending the turn; on a yes to just that, or solo, raise Act with its call; on a no, close."""
        proposal = f"{act} {GO_AHEAD}"
        put = bool(self.own) and proposal in self.own[-1][0] and self.own[-1][1] < len(self.user)
        reply = answer(self.user[-1]) if put else None
        if reply or self.solo:
            raise Act(calling((name, arguments)))
        if reply is False:
            self.close("All right, then I leave it as it is.")
        self.ask(proposal)

    def hand_over(self, why: str) -> NoReturn:
        """Raise Act with a call for a human agent; after it, end the turn with the words of the transfer."""
        if self.last(_HAND_OVER) is None:
            raise Act(calling((_HAND_OVER, {"summary": why})))
        self.say("You are being transferred to a human agent. Please hold on.")
