"""The telecom domain's rule-based agent finds out who calls and what is wanted, and applies the policy, one step at a time.

It plays solo mode, too: there a ticket says what is wanted and agreed to, and the agent uses the phone's tools itself.
"""

import json
import re
from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple

from agent_envs.envs.tau2.heuristics.desk import SORRY, Act, Desk, DeskTurn, plans, sentences
from agent_envs.envs.tau2.heuristics.reading import Row, calling, matches, mentions, names
from agent_envs.envs.tau2.telecom import TODAY
from agent_envs.envs.tau2.turn_taking import AGENT_STOP, DONE


class PhoneStep(NamedTuple):
    """A step with the phone: the words that ask for it, and the call that does it."""

    say: str
    tool: str
    arguments: dict[str, Any]


# Causes are the step that shows one, a pattern of reports (with a group where it is there), and the steps that mend it.
_PHONE = json.loads(files(__package__).joinpath("phone.json").read_text(encoding="utf-8"))
STEPS, CAUSES = {name: PhoneStep(*row) for name, row in _PHONE["steps"].items()}, _PHONE["causes"]
PAY = "Please check the payment request on your phone and pay it."
_NUMBER = r"(?<!\d)\d{3}-\d{3}-\d{4}(?!\d)"
_GIGABYTES = r"(?i)(?<![\d.])(\d{1,9}(?:\.\d{1,9})?|half a|a|one|two) ?(?:gigabytes?|gbs?|gigs?)\b"
_AMOUNTS = {"half a": 0.5, "a": 1.0, "one": 1.0, "two": 2.0}
_OFF = r"(?i)\b(?:disabl|forbid|off\b|cannot|no longer|block|remov|stop|deactivat|shut)"
_MOST, _MOST_GIGABYTES = 3, 2.0  # times that a step is taken, or a payment is asked for; sold to a line at once


def serve(desk: Desk) -> None:
    """Raise DeskTurn with the customer's next step, in solo mode with that of each sentence of the ticket, or its end."""
    _lines(desk)
    if not desk.solo:
        desk.serve(desk.kind)
        return
    words = list[str]()
    for sentence in sentences("\n".join(desk.user)):
        refused = bool(words) and words[-1].startswith(SORRY)
        if (kind := desk.kind_of(sentence)) and (refused or not re.match(r"(?i)if (?:that|this) is\b", sentence)):
            desk.text = sentence
            try:
                desk.serve(kind)
            except Act:
                raise
            except DeskTurn as turn:
                words.append(str(turn))
    raise DeskTurn(f"{' '.join(words)} {AGENT_STOP}" if words else calling((DONE, {})))


def _customer(desk: Desk) -> Row:
    """Return the customer by phone number, or birth date and name, if named too; else ask, or (solo) hand over."""
    text = "\n".join(desk.user)
    tries = [("get_customer_by_phone", {"phone_number": number}) for number in matches(_NUMBER, text)]
    for day in matches(r"\b\d{4}-\d{2}-\d{2}\b", text):
        tries += [("get_customer_by_name", {"full_name": " ".join(name), "dob": day}) for name in names(text)[:4]]
    for name, arguments in tries[:20]:
        for answer in desk.look(name, arguments):
            for row in answer if isinstance(answer, list) else [answer]:
                if mentions(text, row["full_name"]):
                    return dict(row)
    if desk.solo:
        desk.hand_over("The customer could not be found.")
    desk.ask("Please tell me your full name, and your phone number or your date of birth.")


def _lines(desk: Desk) -> list[Row]:
    """Return the customer's lines, the phone's first, each with plan (or None) and device (or {}); raises Act to look up."""
    customer = _customer(desk)
    lines = desk.look("get_details_by_id", *({"id": key} for key in customer["line_ids"]))
    keys = dict.fromkeys(line[part] for line in lines for part in ("plan_id", "device_id") if line[part])
    rows = {next(iter(row.values())): row for row in desk.look("get_details_by_id", *({"id": key} for key in keys))}
    lines = [line | {"plan": rows.get(line["plan_id"]), "device": rows.get(line["device_id"], {})} for line in lines]
    return sorted(lines, key=lambda line: line["phone_number"] != customer["phone_number"])


def _wish_lines(desk: Desk) -> list[Row]:
    """Return the lines that the wish names by number or device, or all; ask if unclear, refuse a stranger's number."""
    lines, numbers = _lines(desk), matches(_NUMBER, desk.text)
    strangers = set(numbers) - {line["phone_number"] for line in lines}
    if strangers:
        desk.refuse(f"{min(strangers)} is not one of your lines, so I cannot change anything about it")
    hits = [line for line in lines if line["phone_number"] in numbers]
    hits += [line for line in lines if line not in hits and mentions(desk.text, line["device"].get("model", "-"))]
    if not hits and (len(lines) == 1 or desk.solo or re.search(r"(?i)\b(?:all|every)\b.*\blines?\b", desk.text)):
        hits = lines
    if not hits:
        desk.ask("Which of your lines is it? Its number, or the device that it is in, is enough.")
    if re.search(r"(?i)\bone of\b", desk.text):
        hits.sort(key=lambda line: line["data_used_gb"] if "used" in desk.text else line["plan"]["price_per_month"])
        return hits[-1:] if "more" in desk.text else hits[:1]
    return hits


def _is_done(desk: Desk, name: str, line: Row) -> bool:
    """Return whether a line's change was made without error for the present wish; in solo mode, at any time."""
    call = desk.last(name, line_id=line["line_id"])
    return call is not None and not call.failed and (desk.solo or call.turn > desk.start)


def _change(desk: Desk, line: Row, act: str, name: str, **arguments: object) -> None:
    """Propose a change of a line, ending the turn; does nothing where it was made for this wish."""
    if not _is_done(desk, name, line):
        own = {"customer_id": _customer(desk)["customer_id"], "line_id": line["line_id"]}
        desk.propose(f"I would {act} the line {line['phone_number']}.", name, **own, **arguments)


def _roaming(desk: Desk) -> None:
    """Propose to turn roaming off if the wish says so, else on, for each line of it that differs; else return."""
    off = bool(re.search(_OFF, desk.text))
    verb = "disable" if off else "enable"
    for line in _wish_lines(desk):
        if line["roaming_enabled"] == off:
            _change(desk, line, f"{verb} roaming, for which nothing is charged, on", f"{verb}_roaming")


def _suspend(desk: Desk) -> None:
    """Propose to suspend the wish's first line; does nothing, and returns, where it is not active."""
    line = _wish_lines(desk)[0]
    if line["status"] == "Active":
        offer = "for 5 dollars a month, and with no service until it is resumed, suspend"
        _change(desk, line, offer, "suspend_line", reason="the customer asks for it")


def _resume(desk: Desk, line: Row | None = None) -> None:
    """Have bills paid, then propose to resume a suspended line (hand over if its contract ended); others are left alone."""
    line = line or _wish_lines(desk)[0]
    if line["status"] == "Suspended":
        if line["contract_end_date"] and line["contract_end_date"] < TODAY:
            desk.hand_over("The contract of the customer's line has ended.")
        _pay(desk)
        _change(desk, line, "resume", "resume_line")


def _refuel(desk: Desk, line: Row | None = None) -> None:
    """Propose to sell a line the data that the wish names; ask how much without it, refuse above 2 gigabytes."""
    line = line or _wish_lines(desk)[0]
    match, price = re.search(_GIGABYTES, desk.text), line["plan"]["data_refueling_price_per_gb"]
    if not match:
        desk.ask(f"How many gigabytes would you like to add to the line {line['phone_number']}? One is ${price:.2f}.")
    amount = _AMOUNTS.get(match[1].lower()) or float(match[1])
    if amount > _MOST_GIGABYTES:
        desk.refuse("more than 2 gigabytes cannot be sold for a line")
    _change(desk, line, f"add {amount:g} gigabytes for ${amount * price:.2f} to", "refuel_data", gb_amount=amount)


def _pay(desk: Desk) -> None:
    """Raise the next step (Act, or words) to get overdue bills paid; return once all are; hand over one unpaid too often."""
    bills = desk.look("get_bills_for_customer", {"customer_id": _customer(desk)["customer_id"]})[0]
    for bill in sorted(bills, key=lambda bill: str(bill["due_date"])):
        key, customer = bill["bill_id"], bill["customer_id"]
        checks = [call for call in desk.calls if call.name == "get_details_by_id" and call.arguments["id"] == key]
        if bill["status"] not in ("Overdue", "Awaiting Payment") or checks and checks[-1].value["status"] == "Paid":
            continue
        request = desk.last("send_payment_request", bill_id=key)
        if request is None:
            offer = f"Bill {key} of ${bill['total_due']:.2f} is overdue. I would send you a payment request for it."
            desk.propose(offer, "send_payment_request", customer_id=customer, bill_id=key)
        count = sum(PAY in words and before >= request.turn for words, before in desk.own)
        paid = sum(call.name == "make_payment" and key in call.content for call in desk.calls) if desk.solo else count
        if paid > len(checks):
            raise Act(calling(("get_details_by_id", {"id": key})))
        if paid >= _MOST:
            desk.hand_over("The customer cannot pay a bill.")
        _do(desk, PhoneStep(PAY, "make_payment", {}))


def _mend(trouble: str, desk: Desk) -> None:
    """Take the next step against a phone's trouble: line, service, data, then itself; close once nothing is amiss."""
    line = _lines(desk)[0]
    _resume(desk, line)
    _work(desk, "service")
    if trouble != "service":
        _work(desk, "data on")
        if line["plan"]["data_limit_gb"] + line["data_refueling_gb"] <= line["data_used_gb"]:
            _refuel(desk, line)
        _work(desk, trouble)
    desk.close("It works again, as your phone shows.")


def _work(desk: Desk, trouble: str) -> None:
    """Raise the next step against a trouble's causes; return if none is there; hand over what was tried too often or locked."""
    history = _step_history(desk)
    step = next_step(history, trouble)
    if sum(one == step for one, _ in history) >= _MOST or any("locked" in report for _, report in history):
        desk.hand_over("What the customer wants cannot be brought about from here.")
    if step is not None:
        _do(desk, step)


def next_step(history: Sequence[tuple[PhoneStep, str]], trouble: str) -> PhoneStep | None:
    """Return the first step not tried since for the first cause that is there or unknown; None if all is well."""
    for look, pattern, mends in CAUSES[trouble]:
        latest, amiss = -1, None
        for place, (_, report) in enumerate(history):
            for match in re.finditer(pattern, report, re.I):
                latest, amiss = place, match[1] is not None
        since = [step for step, _ in history[latest:]]
        left = [STEPS[mend] for mend in mends if amiss and STEPS[mend] not in since]
        if amiss is not False:
            return (left or [STEPS[look]])[0]
    return None


def _step_history(desk: Desk) -> list[tuple[PhoneStep, str]]:
    """Return the phone's steps with their reports: calls in solo mode, else what was said and the next answer."""
    steps = STEPS.values()
    if desk.solo:
        calls = [(call.content, (call.name, call.arguments)) for call in desk.calls]
        return [(step, report) for report, call in calls for step in steps if step[1:] == call]
    exchanges = [(words, desk.user[before]) for words, before in desk.own if desk.start < before < len(desk.user)]
    return [(step, report) for words, report in exchanges for step in steps if step.say in words]


def _do(desk: Desk, step: PhoneStep) -> None:
    """End the turn with a step on the phone: raise Act with it in solo mode, else say it to the customer."""
    if desk.solo:
        raise Act(calling((step.tool, step.arguments)))
    desk.say(step.say)


PLANS = plans(
    "telecom", resume=_resume, refuel=_refuel, suspend=_suspend, roaming=_roaming, pay=_pay,
    service=partial(_mend, "service"), data=partial(_mend, "data"), pictures=partial(_mend, "pictures"),
)  # fmt: skip
