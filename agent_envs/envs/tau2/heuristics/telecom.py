"""The telecom domain's rule-based agent finds out who calls and what is wanted, and applies the policy, one step at a time.

It plays solo mode, too: there a ticket says what is wanted and agreed to, and the agent uses the phone's tools itself.
"""

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from agent_envs.envs.tau2.heuristics.desk import SORRY, Act, Desk, Plans, Turn, sentences
from agent_envs.envs.tau2.heuristics.phone import DATA, RESTART, ROAMING, SERVICE, STEPS, Phone, Step, Stuck
from agent_envs.envs.tau2.heuristics.reading import Row, amounts, calling, matches, mentions, names
from agent_envs.envs.tau2.telecom import TODAY
from agent_envs.envs.tau2.turn_taking import AGENT_STOP, DONE

PAY = "Please check the payment request on your phone and pay it."
_NUMBER = r"(?<!\d)\(?(\d{3})\)?[-. ]?(\d{3})[-. ]?(\d{4})(?!\d)"
_GIGABYTES = r"(?i)(?<![\d.])(\d{1,9}(?:\.\d{1,9})?|half a|a|one|two) ?(?:gigabytes?|gbs?|gigs?)\b"
_AMOUNTS = {"half a": 0.5, "a": 1.0, "one": 1.0, "two": 2.0}
_OFF = r"(?i)\b(?:disabl|forbid|off\b|cannot|no longer|block|remov|stop|deactivat|shut)"
_ABROAD = r"(?i)(\b(?:at home|not abroad|not travell?ing|in the country|home)\b)|\b(?:abroad|overseas|travell?ing)\b"
_MOST_GIGABYTES = 2.0


def serve(desk: Desk) -> None:
    """Take the next step for the customer, or for the ticket."""
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
            except Turn as turn:
                words.append(str(turn))
    raise Turn(f"{' '.join(words)} {AGENT_STOP}" if words else calling((DONE, {})))


def _numbers(text: str) -> list[str]:
    """Return the telephone numbers in a text, written as the company writes them."""
    return list(dict.fromkeys(map("-".join, re.findall(_NUMBER, text))))


def _customer(desk: Desk) -> Row:
    """Return who calls: the customer with a number, an id or a date of birth that was told, whose name was told, too."""
    said = "\n".join(desk.user)
    tries = [("get_customer_by_phone", {"phone_number": number}) for number in _numbers(said)]
    tries += [("get_customer_by_id", {"customer_id": key}) for key in matches(r"\bC\d{3,6}\b", said)]
    for day in matches(r"\b\d{4}-\d{2}-\d{2}\b", said):
        tries += [("get_customer_by_name", {"full_name": " ".join(name), "dob": day}) for name in names(said)[:4]]
    for name, given in tries[:20]:
        for found in desk.look(name, given):
            for row in found if isinstance(found, list) else [found]:
                if mentions(said, row["full_name"]):
                    return dict(row)
    if desk.solo:
        desk.hand_over("The customer could not be found.")
    lost = "I could not find you with that. " if tries else ""
    desk.ask(
        f"{lost}Please tell me your full name and your phone number, or your date of birth if you do not know the number."
    )


def _lines(desk: Desk) -> list[Row]:
    """Return the customer's lines, the phone's first, each with its plan and its device."""
    customer = _customer(desk)
    lines = desk.look("get_details_by_id", *({"id": key} for key in customer["line_ids"]), fresh=True)
    wanted = dict.fromkeys(key for line in lines for key in (line["plan_id"], line["device_id"]) if key)
    rows = {next(iter(row.values())): row for row in desk.look("get_details_by_id", *({"id": key} for key in wanted))}
    lines = [
        {**line, "plan": rows.get(line["plan_id"], {}), "device": rows.get(line["device_id"], {})} for line in lines
    ]
    return sorted(lines, key=lambda line: line["phone_number"] != customer["phone_number"])


def _named(desk: Desk) -> list[Row]:
    """Return the lines that the wish is about: by number, by model or kind of device, or all."""
    lines, numbers = _lines(desk), _numbers(desk.text)
    strangers = set(numbers) - {line["phone_number"] for line in lines}
    if strangers:
        desk.refuse(f"{min(strangers)} is not one of your lines, so I cannot change anything about it")
    named = [
        one for one in lines if one["phone_number"] in numbers or mentions(desk.text, one["device"].get("model", "-"))
    ]
    named = named or [
        one for one in lines if mentions(desk.text, one["device"].get("device_type", "-").replace("phone", "-"))
    ]
    if not named and (len(lines) == 1 or desk.solo or re.search(r"(?i)\b(?:all|every)\b.*\blines?\b", desk.text)):
        named = lines
    if not named:
        desk.ask("Which of your lines is it? Its number, or the device that it is in, is enough.")
    if re.search(r"(?i)\bone of\b", desk.text):
        named.sort(key=lambda line: line["data_used_gb"] if "used" in desk.text else line["plan"]["price_per_month"])
        return named[-1:] if "more" in desk.text else named[:1]
    return named


def _made(desk: Desk, name: str, line: Row) -> bool:
    """Tell whether a change was made to a line for the present wish."""
    call = desk.last(name, line_id=line["line_id"])
    return call is not None and not call.failed and (desk.solo or call.turn > desk.start)


def _change(desk: Desk, line: Row, act: str, name: str, **given: object) -> None:
    """Propose a change of a line, unless it was made."""
    if not _made(desk, name, line):
        own = {"customer_id": _customer(desk)["customer_id"], "line_id": line["line_id"]}
        desk.propose(f"I would {act}.", name, **own, **given)


def _roaming(desk: Desk) -> None:
    off = bool(re.search(_OFF, desk.text))
    for line in _named(desk):
        _roam(desk, line, off)


def _roam(desk: Desk, line: Row, off: bool) -> None:
    name = "disable_roaming" if off else "enable_roaming"
    if line["roaming_enabled"] == off:
        _change(desk, line, f"{name.replace('_', ' ')} on the line {line['phone_number']}, which is free", name)


def _suspend(desk: Desk) -> None:
    line = _named(desk)[0]
    if line["status"] == "Active":
        told = f"suspend the line {line['phone_number']}, which then has no service and costs 5 dollars a month"
        _change(desk, line, told, "suspend_line", reason="the customer asks for it")


def _resume(desk: Desk) -> None:
    _activate(desk, _named(desk)[0])


def _activate(desk: Desk, line: Row) -> None:
    if line["status"] == "Suspended":
        if line["contract_end_date"] and line["contract_end_date"] < TODAY:
            desk.hand_over("The contract of the customer's line has ended.")
        _settle(desk, _overdue(desk))
        _change(desk, line, f"resume the line {line['phone_number']}", "resume_line")


def _left(line: Row) -> float:
    return float(line["plan"]["data_limit_gb"] + line["data_refueling_gb"] - line["data_used_gb"])


def _refuel(desk: Desk) -> None:
    _sell(desk, _named(desk)[0])


def _sell(desk: Desk, line: Row) -> None:
    """Sell a line data: as much as is told, on the conditions that are told."""
    price, text = line["plan"]["data_refueling_price_per_gb"], desk.text
    told = [_AMOUNTS.get(one.lower()) or float(one) for one in re.findall(_GIGABYTES, text)]
    if not told:
        desk.ask(f"How many gigabytes would you like to add to the line {line['phone_number']}? One is ${price:.2f}.")
    amount = sum(told) if "another" in text else told[0]
    if "or less" in text:
        amount = told[0] if price <= min(amounts(text), default=0) else told[-1]
    elif "at most" in text:
        amount = min(math.floor(2 * min(amounts(text), default=0) / price) / 2, _MOST_GIGABYTES)
    elif "if less than" in text:
        amount = told[0] if _left(line) < told[-1] else 0
    elif "at least" in text:
        amount = math.ceil(2 * (told[-1] - _left(line)) - 1e-9) / 2
    if amount > _MOST_GIGABYTES:
        desk.refuse("more than 2 gigabytes cannot be sold for a line")
    if amount > 0:
        act = f"add {amount:g} gigabytes to the line {line['phone_number']} for ${amount * price:.2f}"
        _change(desk, line, act, "refuel_data", gb_amount=amount)


def _overdue(desk: Desk) -> list[Row]:
    """Return the bills that were overdue at first, the oldest first."""
    bills = desk.look("get_bills_for_customer", {"customer_id": _customer(desk)["customer_id"]})[0]
    return sorted((bill for bill in bills if bill["status"] == "Overdue"), key=lambda bill: str(bill["due_date"]))


def _pay(desk: Desk) -> None:
    _settle(desk, _overdue(desk)[: 1 if re.search(r"(?i)\b(?:older|earlier) one\b", desk.text) else None])


def _settle(desk: Desk, bills: Sequence[Row]) -> None:
    """Have bills paid, one after the other."""
    for bill in bills:
        key, customer = bill["bill_id"], bill["customer_id"]
        request = desk.last("send_payment_request", bill_id=key)
        if request is None:
            told = f"Bill {key} of ${bill['total_due']:.2f} is overdue. I would send you a payment request for it."
            desk.propose(told, "send_payment_request", customer_id=customer, bill_id=key)
        checks = [call for call in desk.calls if call.name == "get_details_by_id" and call.arguments["id"] == key]
        if checks and checks[-1].value["status"] == "Paid":
            continue
        said = [0 for words, before in desk.own if PAY in words and before >= request.turn]
        paid = [0 for call in desk.calls if call.name == "make_payment" and key in call.content] if desk.solo else said
        if len(paid) > len(checks):
            raise Act(calling(("get_details_by_id", {"id": key})))
        if len(paid) >= 3:
            desk.hand_over("The customer cannot pay a bill.")
        _do(desk, Step(PAY, "make_payment"))


def _mend(trouble: str, desk: Desk) -> None:
    """Take the next step about the phone."""
    line = _lines(desk)[0]
    _activate(desk, line)
    phone = Phone(_taken(desk))
    try:
        if _made(desk, "resume_line", line) and phone.last(RESTART) < 0:
            _do(desk, RESTART)
        _do(desk, phone.mend(SERVICE))
        if trouble != "service":
            _do(desk, phone.mend((DATA, ROAMING) if _travels(desk, line) else (DATA,)))
            if _left(line) <= 0:
                _sell(desk, line)
            _do(desk, phone.well(trouble))
    except Stuck:
        desk.hand_over("What the customer wants cannot be brought about from here.")
    desk.close("It works again, as your phone shows.")


def _taken(desk: Desk) -> list[tuple[Step, str]]:
    """Return the steps that were taken about the phone, each with what was reported then."""
    calls = {(step.tool, str(step.arguments)): step for step in STEPS}
    taken = [(calls.get((call.name, str(call.arguments))), call.content) for call in desk.calls if desk.solo]
    for said, before in desk.own:
        if desk.start < before < len(desk.user):
            taken += [(step, desk.user[before]) for step in calls.values() if step.say in said]
    return [(step, report) for step, report in taken if step]


def _do(desk: Desk, step: Step | None) -> None:
    if step is not None and desk.solo:
        raise Act(calling((step.tool, step.arguments)))
    if step is not None:
        desk.say(step.say)


def _travels(desk: Desk, line: Row) -> bool:
    """Return whether the customer is abroad; then roaming is allowed on the line."""
    told = re.findall(_ABROAD, "\n".join(desk.user))
    if not told and not desk.solo:
        desk.ask("Are you at home at the moment, or abroad?")
    abroad = bool(told) and not told[-1]
    if abroad:
        _roam(desk, line, off=False)
    return abroad


def _tell(what: str, desk: Desk) -> NoReturn:
    """Answer a question."""
    if what == "owed":
        desk.close(f"Your overdue bills come to ${sum(bill['total_due'] for bill in _overdue(desk)):.2f} in all.")
    line = _named(desk)[0]
    if what == "left":
        desk.close(f"The line {line['phone_number']} has {_left(line):.2f} gigabytes left this month.")
    desk.close(f"The plan {line['plan']['name']} costs ${line['plan']['price_per_month']:.2f} a month.")


_FAILS = r"(not|n't|cannot|unable|never|fails?|refuses|dead|slow\w*|stop\w*|trouble|problem|terribl\w*|back|only)"
_PICTURES, _WEB = r"(picture|photo|mms|image|snapshot)", r"(mobile data|internet|online|web|pages?|speed)"
PLANS: Plans = {
    "resume": (r"resum|reactivat|active again|put .{0,30}back|use .{0,60}again|on hold .{0,60}again|resting", _resume),
    "left": (r"how (many|much)\b.{0,40}\b(left|remain\w*|still have)", partial(_tell, "left")),
    "waiver": (r"\b(bill|owe|charge|fee)\b.*\b(waive|goodwill|forgive|credit|half)|\b(waive|half off|discount|forgive)\b.*"
               r"\b(bill|owe|fee|price)", "bills cannot be waived or lowered"),
    "owed": (r"\b(how much|total)\b.*\b(overdue|owe|outstanding|unpaid)", partial(_tell, "owed")),
    "price": (r"(what|how much).*\b(costs?|price)\b.*\bmonth|\bwhat does my plan cost", partial(_tell, "price")),
    "plan": (r"(chang|switch|upgrad|get)\w*\b.*\bplan\b|(bigger|cheaper|smaller|different) plan",
             "plans cannot be changed here"),
    "refuel": (r"gigabyte|\bgbs?\b|(more|extra|additional) data|refuel|top.?up", _refuel),
    "suspend": (r"suspen|on hold|\bpaus|freez|deactivat|out of service", _suspend),
    "roaming": (r"roam|networks? abroad|data abroad|foreign network", _roaming),
    "pay": (r"\b(pay|settle|clear)\b.*\b(overdue|bills?|owe|late)\b", _pay),
    "pictures": (rf"{_PICTURES}.*\b{_FAILS}|{_FAILS}\b.*{_PICTURES}", partial(_mend, "pictures")),
    "service": (r"no (service|signal|network|bars)|lost .*(signal|service)|reachable|(cannot|can't) (make|receive|call|phone)"
                r"|gone silent|without (service|signal)|ring me|emergency calls", partial(_mend, "service")),
    "data": (rf"{_WEB}.*\b{_FAILS}|{_FAILS}\b.*{_WEB}|spinning|takes ages|\bload", partial(_mend, "data")),
}  # fmt: skip
