"""The telecom domain's rule-based agent finds out who calls and what is wanted, and applies the policy, one step at a time.

It plays solo mode, too: there the ticket says what is wanted and agreed to, and the agent uses the phone's tools itself.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from agent_envs.envs.tau2.heuristics.reading import calling
from agent_envs.envs.tau2.heuristics.telecom_desk import Desk, Turn
from agent_envs.envs.tau2.heuristics.telecom_phone import RESTART, STEPS, Phone, Stuck, abroad, key_of
from agent_envs.envs.tau2.heuristics.telecom_records import Row
from agent_envs.envs.tau2.heuristics.telecom_words import TROUBLES, Wish, gigabytes, wishes
from agent_envs.envs.tau2.turn_taking import AGENT_STOP, DONE
from agent_envs.rollout.policy import Request

_HELP = "What exactly can I do for you?"
_MORE = "Is there anything else that I can do for you?"
_WHERE = "Are you at home at the moment, or abroad?"
_WHICH = "Which of your lines is it? Its number, or the device that it is in, is enough."
_HANDED = "You are being transferred to a human agent. Please hold on."
_PAY = "Please check the payment request on your phone and pay it."
_MOST_GIGABYTES = 2.0
_REFUSALS = {
    "plan": "I am sorry, but plans cannot be changed here.",
    "waiver": "I am sorry, but bills cannot be waived or lowered.",
}


def act(request: Request) -> str:
    """Return the agent's next turn."""
    try:
        _Agent(request).work()
    except Turn as found:
        return str(found.args[0])
    raise AssertionError("a turn always says something")


class _Agent(Desk):
    """What is done for a customer, at one moment of a conversation."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.refused = False

    # The work

    def work(self) -> None:
        """Find the turn."""
        handed_over = self.talk.tried("transfer_to_human_agents") is not None
        if handed_over and not self.solo:
            self.say(_HANDED)
        if handed_over and self.records.customer is None:
            raise Turn(calling(DONE))
        self.identify()
        self.look_up()
        if handed_over:
            self._close()
        stuck = False
        for wish in self._agenda():
            if wish.otherwise and not self.refused:
                continue
            try:
                self._serve(wish)
            except Stuck:
                stuck = True
        if stuck:
            self.call("transfer_to_human_agents", summary="What the customer wants cannot be brought about from here.")
        self._close()

    def _close(self) -> None:
        if self.solo:
            answers = [text for wish in self._agenda() for text in self._answers(wish)]
            raise Turn(f"{' '.join(answers)} {AGENT_STOP}" if answers else calling(DONE))
        nothing = not self._agenda() and not self.times(_HELP)
        well = any(wish.kind in TROUBLES for wish in self._agenda()) and self.talk.calls[-1].turn < len(self.texts)
        self.say(_HELP if nothing else f"It works again, as your phone shows. {_MORE}" if well else _MORE)

    def _agenda(self) -> list[Wish]:
        """Return what is wanted, in order; the same thing wanted twice stands in it once, unless it is refused each time."""
        agenda: dict[tuple[Any, ...], Wish] = {}
        for place, text in enumerate(self.texts):
            before = [said for said, spoken in zip(self.talk.own, self.talk.spoken, strict=True) if spoken == place]
            asked = before[-1] if before else ""
            if any(one in asked for one in ("How many gigabytes", _WHICH, _WHERE)):
                continue
            reporting = any(step.say in asked for step in STEPS) or _PAY in asked
            for wish in wishes(text, place, reporting):
                agenda.setdefault(self._identity(wish), wish)
        return list(agenda.values())

    def _identity(self, wish: Wish) -> tuple[Any, ...]:
        if wish.kind in TROUBLES:
            return (wish.kind,)
        lines = tuple(line["line_id"] for line in self.records.named(wish.text))
        amount = gigabytes(wish.text) if wish.kind == "refuel" else None
        again = wish.turn if self._forbidden(wish) else 0
        return (wish.kind, wish.off, lines, amount, again)

    def _forbidden(self, wish: Wish) -> str:
        """Return the words that refuse a wish, "" if it is allowed."""
        strangers = self.records.strangers(wish.text) if wish.kind not in TROUBLES else []
        if strangers:
            return f"I am sorry, but {strangers[0]} is not one of your lines, so I cannot change anything about it."
        if wish.kind == "refuel" and (gigabytes(wish.text) or 0) > _MOST_GIGABYTES:
            return "I am sorry, but more than 2 gigabytes cannot be sold for a line."
        return _REFUSALS.get(wish.kind, "")

    def _serve(self, wish: Wish) -> None:
        """Take the next step for a wish, if there is one."""
        refusal = self._forbidden(wish)
        if refusal:
            self.refused = True
            if not self.solo and not self.times(refusal, wish.turn + 1):
                self.say(f"{refusal} Would you like something else instead?")
            return
        self.refused = False
        if wish.kind in TROUBLES:
            self._mend(wish)
            return
        answers = self._answers(wish)
        if answers and not self.solo and not self.times(answers[0], wish.turn + 1):
            self.say(f"{answers[0]} {_MORE}")
        handlers: Mapping[str, Callable[[Wish], None]] = {
            "roaming": self._roaming, "suspend": self._suspend, "resume": self._resume, "refuel": self._refuel,
            "pay": self._pay,
        }  # fmt: skip
        if wish.kind in handlers:
            handlers[wish.kind](wish)

    def _lines(self, wish: Wish) -> list[Row]:
        """Return the lines that a wish is about; the customer is asked if it does not tell."""
        if len(self.records.lines) == 1:
            return self.records.lines
        told = self.answer(_WHICH, wish.turn + 1)
        found = self.records.named(wish.text) or self.records.named(told or "")
        if found:
            return found
        if self.solo or len(self.times(_WHICH, wish.turn + 1)) >= 2:
            return [self.records.phone_line]
        self.say(_WHICH)
        return []

    # Questions

    def _answers(self, wish: Wish) -> list[str]:
        """Return the answer to a question."""
        if wish.kind == "owed":
            total = sum(bill["total_due"] for bill in self.records.overdue)
            return [f"Your overdue bills come to ${total:.2f} in all."]
        if wish.kind not in ("left", "price"):
            return []
        line = self._lines(wish)[0]
        if wish.kind == "price":
            plan = self.records.plan(line)
            return [f"The plan {plan['name']} costs ${plan['price_per_month']:.2f} a month."]
        return [f"The line {line['phone_number']} has {self.records.left(line):.2f} gigabytes left this month."]

    # The account

    def _own(self, line: Row) -> dict[str, Any]:
        assert self.records.customer is not None
        return {"customer_id": self.records.customer["customer_id"], "line_id": line["line_id"]}

    def _made(self, name: str, line: Row) -> bool:
        """Tell whether a call was made for a line, so that two wishes cannot undo each other for ever."""
        return any(call.arguments.get("line_id") == line["line_id"] for call in self.talk.named(name))

    def _roaming(self, wish: Wish) -> None:
        for line in self._lines(wish):
            name = "disable_roaming" if wish.off else "enable_roaming"
            if line["roaming_enabled"] == wish.off and not self._made(name, line):
                self.call(name, **self._own(line))

    def _suspend(self, wish: Wish) -> None:
        line = self._lines(wish)[0]
        proposal = f"If I suspend the line {line['phone_number']}, it has no service and costs 5 dollars a month."
        if (
            line["status"] == "Active"
            and not self._made("suspend_line", line)
            and self.agreed(proposal, "Shall I suspend it?", wish.turn + 1)
        ):
            self.call("suspend_line", **self._own(line), reason="the customer asks for it")

    def _resume(self, wish: Wish) -> None:
        named = [line for line in self.records.named(wish.text) if line["status"] == "Suspended"]
        resting = named or [line for line in self.records.lines if line["status"] == "Suspended"]
        if resting and not self._made("resume_line", resting[0]):
            self._activate(resting[0], wish)

    def _activate(self, line: Row, wish: Wish) -> None:
        if self.records.ended(line):
            raise Stuck
        self._settle(self.records.unpaid, wish)
        if not self.records.unpaid:
            self.call("resume_line", **self._own(line))

    def _refuel(self, wish: Wish) -> None:
        line = self._lines(wish)[0]
        if not self._made("refuel_data", line):
            self._sell(line, gigabytes(wish.text), wish)

    def _sell(self, line: Row, amount: float | None, wish: Wish) -> None:
        """Sell a line data, once it is known how much, and the price is agreed to."""
        question = f"How many gigabytes would you like to add to the line {line['phone_number']}?"
        if amount is None:
            told = self.answer(question, wish.turn + 1)
            amount = gigabytes(told or ("\n".join(self.texts) if self.solo else ""))
        if amount is None and len(self.times(question, wish.turn + 1)) < 2:
            self.say(f"{question} The price is ${self.records.plan(line)['data_refueling_price_per_gb']:.2f} for one.")
        amount = min(amount or 1.0, _MOST_GIGABYTES)
        price = amount * self.records.plan(line)["data_refueling_price_per_gb"]
        proposal = f"Adding {amount:g} gigabytes to the line {line['phone_number']} costs ${price:.2f}."
        if self.agreed(proposal, "Shall I add them?", wish.turn + 1):
            self.call("refuel_data", **self._own(line), gb_amount=amount)

    def _pay(self, wish: Wish) -> None:
        bills = self.records.overdue
        if re.search(r"\b(?:older|oldest|first|earlier)\b", wish.text):
            bills = bills[:1]
        self._settle([bill for bill in bills if bill["status"] != "Paid"], wish)

    def _settle(self, bills: list[Row], wish: Wish) -> None:
        """Have bills paid, one after the other."""
        assert self.records.customer is not None
        for bill in bills:
            asked = self.talk.tried("send_payment_request", bill_id=bill["bill_id"])
            proposal = f"Bill {bill['bill_id']} of ${bill['total_due']:.2f} is overdue since {bill['due_date']}."
            if asked is None:
                if self.agreed(proposal, "Shall I send you a payment request for it?", wish.turn + 1):
                    customer_id = self.records.customer["customer_id"]
                    self.call("send_payment_request", customer_id=customer_id, bill_id=bill["bill_id"])
                continue
            if self.solo:
                paid = [call for call in self.talk.named("make_payment") if bill["bill_id"] in call.content]
                self.call("get_details_by_id", id=bill["bill_id"]) if paid else self.call("make_payment")
            looked = self.talk.tried("get_details_by_id", id=bill["bill_id"])
            paying = self.times(_PAY, asked.turn)
            if paying and (looked is None or looked.turn < len(self.texts)):
                self.call("get_details_by_id", id=bill["bill_id"])
            if len(paying) < 3:
                self.say(_PAY)

    # The phone

    def _mend(self, wish: Wish) -> None:
        line = self.records.phone_line
        if line["status"] != "Active":
            self._activate(line, wish)
        phone = self._phone(wish)
        if self._made("resume_line", line) and not phone.restarted():
            self.do(RESTART)
        step = phone.service()
        if step is None and wish.kind != "service":
            step = phone.switches(self._travels(line, wish))
            if step is None and self.records.left(line) <= 0:
                self._sell(line, None, wish)
            step = step or phone.goal(wish.kind)
        if step is not None:
            self.do(step)

    def _phone(self, wish: Wish) -> Phone:
        if self.solo:
            told = [call.content for call in self.talk.calls]
            keys = [" ".join([call.name, *map(str, call.arguments.values())]) for call in self.talk.calls]
            return Phone(told, {key_of(step): [place for place, key in enumerate(keys) if key == key_of(step)]
                                for step in STEPS})  # fmt: skip
        asked = {key_of(step): self.times(step.say) for step in STEPS}
        first = min((place for places in asked.values() for place in places), default=len(self.texts))
        return Phone(self.texts, asked, first)

    def _travels(self, line: Row, wish: Wish) -> bool:
        """Return whether the customer is abroad, in which case roaming is allowed on the line."""
        told = [place for place in map(abroad, self.texts) if place is not None]
        if not told and not self.solo and len(self.times(_WHERE)) < 2:
            self.say(_WHERE)
        travels = bool(told) and told[-1]
        if travels and not line["roaming_enabled"] and not self._made("enable_roaming", line):
            free = f"Roaming is not allowed on the line {line['phone_number']} yet; it is free."
            if self.agreed(free, "Shall I allow it?", wish.turn + 1):
                self.call("enable_roaming", **self._own(line))
        return travels
