"""`Desk` makes the telecom agent's turns: it reads what was said and answered so far, and who the customer is."""

from typing import Any

from agent_envs.envs.tau2.heuristics.reading import agrees, calling, calling_all, dates, names, refuses, talk_of
from agent_envs.envs.tau2.heuristics.telecom_phone import Step
from agent_envs.envs.tau2.heuristics.telecom_records import Records
from agent_envs.envs.tau2.heuristics.telecom_words import customer_ids, phone_numbers
from agent_envs.envs.tau2.turn_taking import DONE
from agent_envs.rollout.policy import Request

_WHO = "Please tell me your full name and your phone number; your date of birth will do if you do not know the number."
_DONE = {
    "enable_roaming": "Roaming is now allowed on the line.",
    "disable_roaming": "Roaming is now disabled on the line.",
    "suspend_line": "The line has been suspended.",
    "resume_line": "The line has been resumed: it is active again.",
    "refuel_data": "The data has been added.",
    "send_payment_request": "I have sent you a payment request.",
}


class Turn(Exception):
    """The turn is found: these words, or this call."""


class Desk:
    """One look at a conversation, at the end of which stands a turn."""

    def __init__(self, request: Request) -> None:
        """Read the conversation."""
        tools = {tool["function"]["name"] for tool in request.tools}
        self.solo = DONE in tools
        talk = talk_of(request)
        self.talk = talk
        self.texts = talk.user
        self.records = Records(talk.calls, "\n".join(self.texts))

    # How a turn is made

    def say(self, words: str) -> None:
        """Tell the customer something, after what was brought about since the last words."""
        done = [_DONE[call.name] for call in self.talk.calls
                if call.turn == len(self.texts) and call.name in _DONE and not call.failed]  # fmt: skip
        raise Turn(" ".join([*dict.fromkeys(done), words]))

    def call(self, name: str, **arguments: Any) -> None:
        """Call a tool."""
        raise Turn(calling(name, **arguments))

    def times(self, words: str, since: int = 0) -> list[int]:
        """Return the places of the customer's answers to some words of the agent."""
        return [place for said, place in zip(self.talk.own, self.talk.spoken, strict=True)
                if words in said and place >= since]  # fmt: skip

    def answer(self, question: str, since: int) -> str | None:
        """Return the customer's last answer to a question that was put after a moment; None before."""
        places = [place for place in self.times(question, since) if place < len(self.texts)]
        return self.texts[places[-1]] if places else None

    def agreed(self, proposal: str, question: str, since: int) -> bool:
        """Return what the customer says to a proposal; it is put again where the answer was neither yes nor no."""
        if self.solo:
            return True
        reply = self.answer(proposal, since)
        if reply is not None and agrees(reply):
            return True
        if reply is not None and (refuses(reply) or len(self.times(proposal, since)) >= 3):
            return False
        self.say(f"{proposal} {question}")
        return False

    def do(self, step: Step) -> None:
        """Have something done with the phone."""
        if self.solo:
            self.call(step.tool, **step.given)
        self.say(step.say)

    # Who it is

    def identify(self) -> None:
        """Find the customer."""
        if self.records.customer is not None:
            return
        told = "\n".join(self.texts)
        born = dates(told)
        found: list[tuple[str, dict[str, Any]]] = []
        found += [("get_customer_by_phone", {"phone_number": number}) for number in phone_numbers(told)]
        found += [("get_customer_by_id", {"customer_id": key}) for key in customer_ids(told)]
        found += [("get_customer_by_name", {"full_name": f"{first} {last}", "dob": day})
                  for first, last in names(told)[:4] for day in born[:3]]  # fmt: skip
        for name, arguments in found:
            if self.talk.tried(name, **arguments) is None:
                self.call(name, **arguments)
        if self.solo or len(self.times(_WHO)) >= 5:
            self.call("transfer_to_human_agents", summary="The customer could not be found.")
        lost = "I could not find you with that. " if found else ""
        self.say(lost + _WHO)

    def look_up(self) -> None:
        """Read all that belongs to the customer."""
        assert self.records.customer is not None
        customer_id = self.records.customer["customer_id"]
        if any(self.talk.tried("get_details_by_id", id=key) for key in self.records.missing):
            self.call("transfer_to_human_agents", summary="The customer's records cannot be read.")
        if self.records.missing:
            raise Turn(calling_all([("get_details_by_id", {"id": key}) for key in self.records.missing[:30]]))
        if self.talk.tried("get_bills_for_customer", customer_id=customer_id) is None:
            self.call("get_bills_for_customer", customer_id=customer_id)
